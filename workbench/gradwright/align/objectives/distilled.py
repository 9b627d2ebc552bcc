"""The objective of distillation: a student, on its own completions, beside its teacher."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...data import Batches
from ...data.batches import Feeds
from ...errors import TrainingError
from ...graph import Tensor
from ...models.decoder.rows import IGNORED
from ...ops.core.activation import Tanh
from ...ops.core.index import Gather
from ...ops.losses.distillation import GeneralizedJsd
from ...session import Session
from ...train.position import Position
from ...words.jsonable import json_array, to_json
from ..data.collate import collate
from ..data.examples import examples
from ..data.rows import Examples, TokenRow
from ..logps import needs_logits
from ..losses.loss import still
from ..model import LanguageModel, by_placeholder, context_of
from ..rollouts.rollout import Prompt
from ..rollouts.sampler import GenerationSampler
from .kept import check_method
from .sequences import SequenceBatches, Sequences

if TYPE_CHECKING:
    from ..methods.distill import Distill

Array = np.ndarray[Any, Any]
AT_ONCE = 64
"""The places that logits are made of are padded to a multiple of it: few shapes, few plans."""


class DistilledObjective:
    """What a trainer makes small where a student follows its teacher, token by token.

    With probability λ a batch's completions are drawn from the student as it is; else they are
    those of the data, or with ``seq_kd`` the teacher's. Logits of both are made at the places alone
    that count, f32[N, V]; the teacher's are computed in its own graph and fed, so that nothing of
    it stands in the student's and no activation of it is kept. Data that measures keeps its own
    completions.
    """

    def __init__(
        self,
        student: LanguageModel,
        method: Distill,
        teacher: LanguageModel,
        *,
        tokenizer: Any = None,
        seed: int = 0,
        deterministic: bool = True,
    ) -> None:
        self.model, self.method, self.graph = student, method, student.graph
        self.teacher = teacher
        self.tokenizer = student.tokenizer if tokenizer is None else tokenizer
        self._seed, self._drawn = seed, 0
        _check_pair(student, teacher)
        contexts = [n for n in map(context_of, (student, teacher)) if n is not None]
        self._context = min(contexts, default=None)
        self._session = Session(teacher.graph, deterministic=deterministic)
        self._samplers: dict[bool, GenerationSampler] = {}
        """By whether they draw from the student."""
        self._asked = _Asked(teacher)
        with self.graph._at_top(), self.graph.scope(self.graph._free_scope("distill")):
            own = _Asked(student)
            vocabulary = own.logits.shape[-1]
            self._places = own.places
            self._said = self.graph.placeholder("teacher", (None, vocabulary))
            self.tokens = self.graph.placeholder("counts", (None,))
            """1 at places that count, 0 at those that fill a batch up."""
            self._sampled = self.graph.placeholder("sampled", ())
            how = GeneralizedJsd(beta=method.beta, temperature=method.loss_temperature)
            loss = how(still(self._said), own.logits, self.tokens)
        self.losses: Mapping[str, Tensor] = {"distill": loss}
        self.metrics: Mapping[str, Tensor] = {"on_policy": self._sampled * 1.0}

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
        """Return data as batches; to train, completions are drawn when a batch is taken."""
        held = self._sequences(data)
        training = at is not None
        return SequenceBatches(
            held,
            lambda rows: self._feeds(held.rows(rows), training=training),
            batch_size,
            seed=self._seed if shuffle else None,
            drop_last=drop_last,
            exact=training,
        )

    def feeds(self, batch: Any) -> Feeds:
        """Return what rows feed, all of them as one batch."""
        held = self._sequences(batch)
        return self._feeds(held.rows(range(held.n)), training=True)

    def _sequences(self, data: Any) -> Sequences:
        if not isinstance(data, Examples):
            settings = dict(self.method.reading())
            lengths = [n for n in (settings.pop("max_length"), self._context) if n is not None]
            settings["max_length"] = min(lengths, default=None)
            data = examples(data, None, self.tokenizer, eos=self.model.eos, **settings)
        if data.kind not in ("completion", "text"):
            raise TrainingError(
                f"these are examples of the kind {data.kind!r}", need="prompts with completions"
            )
        held = Sequences.of(data)
        if self._context is not None:
            held.check_lengths(self._context)
        return held

    def _feeds(self, rows: Sequence[TokenRow], *, training: bool) -> Feeds:
        """Return what a batch feeds, with completions drawn anew where it is its turn."""
        sampled = False
        if training:
            rng = np.random.default_rng((self._seed, self._drawn))
            self._drawn += 1
            sampled = bool(rng.random() < self.method.lmbda)
            if sampled or self.method.seq_kd:
                rows = self._completed(rows, sampled, int(rng.integers(2**62)))
        if (most := self._context) is not None:  # what was drawn may be longer
            rows = [row.cut(most) for row in rows]
        multiple = self.method.pad_to_multiple_of
        fed = collate(rows, position_ids=True, multiple_of=multiple, most=most)
        places, counts = places_of(fed["labels"])
        asked = self._asked
        said = self._session.run(
            asked.logits, {**by_placeholder(self.teacher, fed), asked.places: places}
        )
        feeds: Feeds = {self._places: places, self.tokens: counts, self._said: said}
        return {**by_placeholder(self.model, fed), **feeds, self._sampled: np.float32(sampled)}

    def _completed(self, rows: Sequence[TokenRow], own: bool, seed: int) -> list[TokenRow]:
        """Return the prompts of rows with completions that the student or the teacher draws."""
        prompts = [Prompt(row.tokens[: row.n_prompt]) for row in rows]
        for i, prompt in enumerate(prompts):
            if not prompt.tokens:
                raise TrainingError(f"row {i} of the batch has no prompt to complete")
        if own not in self._samplers:
            self._samplers[own] = self.method.sampler(self.model if own else self.teacher)
        drawn = self._samplers[own].sample(prompts, 1, seed)
        return [
            TokenRow([*prompt.tokens, *tokens], len(prompt.tokens))
            for prompt, tokens in zip(prompts, drawn.completions, strict=True)
        ]

    # -- state -----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the method, as JSON, and how many batches were drawn."""
        return {"method": json_array(to_json(self.method)), "drawn": np.array(self._drawn)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state; raises TrainingError for that of another method."""
        check_method(self.method, state)
        self._drawn = int(state["drawn"])


class _Asked:
    """The logits of a model at some places of a batch, in its graph."""

    def __init__(self, model: LanguageModel) -> None:
        graph, head = model.graph, model.head
        with graph._at_top(), graph.scope(graph._free_scope("asked")):
            self.places = graph.placeholder("places", (None,), "int64")
            if head.weight is None or needs_logits(head):
                self.logits: Tensor = _rows(head.logits, self.places)
            else:
                y = _rows(head.states, self.places) @ head.weight.mT
                y = y if head.bias is None else y + head.bias
                cap = head.softcap
                self.logits = y if cap is None else Tanh()(y / cap) * cap


def _rows(x: Tensor, places: Tensor) -> Tensor:
    found: Tensor = Gather()(x.reshape(-1, x.shape[-1]), places)
    return found


def places_of(labels: Array) -> tuple[Array, Array]:
    """Return the places, in rows that lie one after another, whose next token has a label.

    They are filled up with place 0, which then counts 0.

    >>> import numpy as np
    >>> places, counts = places_of(np.array([[-100, 5, 2], [-100, -100, 7]]))
    >>> places[:4].tolist(), int(counts.sum()), len(places)
    ([0, 1, 4, 0], 3, 64)
    """
    counted = labels[:, 1:] != IGNORED
    row, place = np.nonzero(counted)
    n = -(-max(1, len(row)) // AT_ONCE) * AT_ONCE
    places, counts = np.zeros(n, np.int64), np.zeros(n, np.float32)
    places[: len(row)] = row * labels.shape[1] + place
    counts[: len(row)] = 1
    return places, counts


def _check_pair(student: LanguageModel, teacher: LanguageModel) -> None:
    if teacher.graph is student.graph:
        raise TrainingError(
            "the student would be its own teacher",
            need="a teacher in a graph of its own",
            hint="another Decoder, with values=",
        )
    sizes = [model.head.logits.shape[-1] for model in (student, teacher)]
    if sizes[0] != sizes[1]:
        raise TrainingError(
            f"a teacher of {sizes[1]} tokens cannot be followed by a student of {sizes[0]}",
            need="one tokenizer",
        )
