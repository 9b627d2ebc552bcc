"""The objective of data that is fixed: rows of tokens, pairs of them, or rows with labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...data import Batches, batches
from ...data.batches import Feeds
from ...errors import TrainingError
from ...evaluation.metrics import Metric
from ...graph import Tensor, ancestors
from ...session import Session
from ...train.callbacks.base import Callback
from ...train.position import Position
from ...words.jsonable import json_array, to_json
from ..data.collate import collate
from ..data.examples import examples
from ..data.packing import laid, placed
from ..data.rows import Examples, TokenRow
from ..logps import check_said
from ..model import LanguageModel, by_placeholder, context_of, fed_beside
from ..reference import Copies, SyncReference, check_still
from .asked import Asked
from .counted import NAME, Counted, Latest, Seen
from .kept import check_method
from .sequences import SequenceBatches, Sequences

if TYPE_CHECKING:
    from ..methods.fixed import Fixed

Array = np.ndarray[Any, Any]
ROWS = 16
"""Rows whose reference is computed at once, before training."""


class OfflineObjective:
    """What a trainer makes small where all completions are given: SFT, DPO, KTO and their kin.

    ``fit`` takes what `examples` takes, or its result, and ``step`` a few such rows. The order of
    an epoch is a function of seed and epoch. Its state says by which method it was trained.
    """

    def __init__(
        self, model: LanguageModel, method: Fixed, *, tokenizer: Any = None, seed: int = 0
    ) -> None:
        self.model, self.method, self.graph = model, method, model.graph
        self.tokenizer = model.tokenizer if tokenizer is None else tokenizer
        self._seed, name = seed, type(method).__name__.lower()
        self._places: Tensor | None = getattr(model, "position_ids", None)
        self._context, self._beside = context_of(model), fed_beside(model)
        if method.packed and self._places is None:
            raise TrainingError(
                "packed rows see each other in this model",
                need="a model of position_ids",
                hint="Decoder(config, position_ids=True)",
            )
        if method.packed and self._beside:
            raise TrainingError(
                f"packed rows would share {', '.join(self._beside)}, which each has of its own",
                hint="SFT(packing=False)",
            )
        self.asked = Asked(model, precomputed=method.precomputed)
        with self.graph._at_top(), self.graph.scope(self.graph._free_scope(name)):
            loss = method.loss(self.asked)
            self._seen = Seen(self.graph.placeholder(NAME, (), "float64"))
        self.losses: Mapping[str, Tensor] = {name: loss.value}
        self.metrics: Mapping[str, Tensor | Metric] = {**loss.metrics, NAME: Latest(self._seen.fed)}
        self._copies = Copies(self.graph, self.asked.reference)
        self.callbacks: list[Callback] = [self._seen]
        """What a trainer must call beside those that it is given."""
        if method.sync is not None:
            self.callbacks.append(SyncReference(self._reference, *method.sync))
        if method.disable_dropout:
            _settle_dropout(self.losses.values())
        self._known: dict[int, list[Array]] = {}
        """What the reference says of data, by its checksum; of the latest two."""

    @property
    def tokens(self) -> Tensor | None:
        """What counts the tokens of a batch, where the loss is a mean over them."""
        return self.asked.said.mask if "text" in self.method.kinds else None

    @property
    def _reference(self) -> Tensor:
        assert self.asked.reference is not None
        return self.asked.reference

    # -- data ------------------------------------------------------------------------------------

    def batches(
        self,
        data: Any,
        at: Position | None,
        *,
        batch_size: int | None = None,
        shuffle: bool = False,
        drop_last: bool = False,
    ) -> Batches:
        """Return data as batches; an epoch's order is a function of seed and epoch."""
        self._check()
        found, seed = self._examples(data), self._seed if shuffle else None
        if self.method.packed:
            arrays, lengths = self._arrays(found)
            packed = batches(
                self.graph,
                arrays,
                list(arrays),
                batch_size,
                shuffle=seed is not None,
                seed=seed or 0,
                drop_last=drop_last,
                exact=at is not None,
            )
            return Counted(packed, lengths, self._seen, at)
        held = self._sequences(found)
        references = self._references(held)
        source = SequenceBatches(
            held,
            lambda rows: self._feeds(held, rows, references),
            batch_size,
            seed=seed,
            by_length=self.method.group_by_length,
            drop_last=drop_last,
            exact=at is not None,
        )
        return Counted(source, held.n_tokens, self._seen, at)

    def feeds(self, batch: Any) -> Feeds:
        """Return what rows feed, all of them as one batch."""
        self._check()
        found = self._examples(batch)
        if self.method.packed:
            feeds, lengths = self._arrays(found)
        else:
            held = self._sequences(found)
            feeds = self._feeds(held, range(held.n), self._references(held))
            lengths = held.n_tokens
        return {**feeds, self._seen.fed: np.float64(self._seen.n + lengths.sum())}

    def _check(self) -> None:
        for said in self.asked.heard:
            check_said(self.model, said.log_probs)
        if self.asked.reference is not None:
            check_still(self.asked.reference)

    def _examples(self, data: Any) -> Examples:
        method, kinds = self.method, self.method.kinds
        if isinstance(data, Examples):
            found = data
        else:
            kind, how = kinds[0] if len(kinds) == 1 else None, dict(method.reading())
            most = self._longest(how.pop("max_length", None))
            how |= {"eos": self.model.eos, "feeds": [*self._beside], "max_length": most}
            found = examples(data, kind, self.tokenizer, **how)
        if found.kind not in kinds:
            raise TrainingError(
                f"these are examples of the kind {found.kind!r}",
                need=f"{' or '.join(map(repr, kinds))}, for {type(method).__name__}",
            )
        if len(found) and (absent := self._beside.keys() - found.feeds.keys()):
            raise TrainingError(
                f"these are examples without {', '.join(sorted(absent))}, which the model is fed",
                hint=f"examples(data, feeds={sorted(absent)})",
            )
        return found

    def _sequences(self, found: Examples) -> Sequences:
        method, most = self.method, self._longest(self.method.max_length)
        held = Sequences.of(found, mismatched=method.mismatched, length=most)
        if self._context is not None:
            held.check_lengths(self._context)
        return held

    def _longest(self, stated: int | None) -> int | None:
        """Return how long rows may be, which the model limits, too."""
        return min((n for n in (stated, self._context) if n is not None), default=None)

    def _arrays(self, found: Examples) -> tuple[Feeds, Array]:
        """Return all rows, packed, and how many tokens each holds."""
        length = self._longest(self.method.max_length)
        assert length is not None  # methods that pack have it
        filled = placed(found.rows, length, self.method.packed)
        n_tokens = np.array([sum(map(len, members)) for members in filled])
        return by_placeholder(self.model, laid(filled, length)), n_tokens

    def _feeds(
        self, held: Sequences, at: Sequence[int], references: Sequence[Sequence[Array]]
    ) -> Feeds:
        """Return what some examples feed, part below part."""
        rows, fed = held.rows(at), self.asked.fed
        feeds = self._collated(rows, held.fed(at))
        shape = feeds[self.model.ids].shape
        for name, t in fed.items():
            if name == "tokens":
                lengths = np.array([len(row) for row in rows])
                feeds[t] = np.arange(shape[1]) < lengths[:, None]
            elif name == "reference":
                feeds[t] = said = np.zeros((shape[0], shape[1] - 1), np.float32)
                known = [part[i] for part in references for i in at]
                for row, values in zip(said, known, strict=True):
                    row[: len(values)] = values
            else:
                feeds[t] = held.columns[name][list(at)]
        return feeds

    def _collated(self, rows: Sequence[TokenRow], beside: Mapping[str, Array]) -> Feeds:
        arrays = collate(
            rows,
            position_ids=self._places is not None,
            multiple_of=self.method.pad_to_multiple_of,
            most=self._context,
        )
        feeds = by_placeholder(self.model, arrays)
        return feeds | {self._beside[name]: array for name, array in beside.items()}

    # -- the reference ---------------------------------------------------------------------------

    def _references(self, held: Sequences) -> list[list[Array]]:
        """Return what the reference says of each row of each part, where that is fed."""
        if "reference" not in self.asked.fed:
            return []
        key = held.checksum
        if key not in self._known:
            rows, beside = held.rows(range(held.n)), held.fed(range(held.n))
            session, said = Session(self.graph), list[Array]()
            for start in range(0, len(rows), ROWS):
                at = slice(start, start + ROWS)
                feeds = self._collated(rows[at], {name: a[at] for name, a in beside.items()})
                found = session.run(self._reference, feeds)
                said += [x[: len(row) - 1] for x, row in zip(found, rows[at], strict=True)]
            self._known = dict([*self._known.items()][-1:]) | {key: said}
        known = self._known[key]
        return [known[start : start + held.n] for start in range(0, len(known), held.n)]

    # -- state -----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the method, as JSON, what decides the order of the data, and the reference."""
        own = {"method": json_array(to_json(self.method)), "seed": np.array(self._seed)}
        return {**own, **self._copies.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Raise TrainingError for the state of another method, naming the fields that differ."""
        check_method(self.method, state)
        self._copies.load_state_dict(state)
        self._known = {}
        self._seed = int(state["seed"])


def _settle_dropout(losses: Any) -> None:
    """Have what losses are made of drop nothing, in training neither."""
    nodes = [n for n in ancestors(losses) if n.op.follows_mode and "p" in n.op.attributes()]
    if nodes:
        with nodes[0].graph.edit() as edit:
            for node in nodes:
                edit.change(node, node.op.for_mode(False))
