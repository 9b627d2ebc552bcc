"""MappedTrainer: steps on rows of tokens, and all that they move by the names of files."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ... import adapters, loss
from ...adapters.initial.lcg import Lcg
from ...errors import ArchiveError, FeedError, GraphError, TrainingError
from ...formats.gguf.mapped import Gguf
from ...formats.gguf.writing import write
from ...formats.source import naming
from ...graph import Tensor
from ...models.decoder import Decoder, DecoderConfig
from ...models.gguf.names import places
from ...models.gguf.reading import from_gguf
from ...train.history import History
from ...train.optim import AdamW
from ...train.trainer import Trainer
from .first import first_values, next_tokens
from .uncorrected import UncorrectedAdamW

Array = np.ndarray[Any, Any]
MOMENTS = ("m", "v")


@dataclass(frozen=True)
class Step:
    """What a step reports: its number from 1, the loss before its update, and how fast it was."""

    step: int
    loss: float
    grad_norm: float
    tokens_per_second: float


class MappedTrainer:
    """Trains adapters on the queries of a decoder, head by head, in rows of a fixed length.

    qₕ = Wₕ·x + Bₕ·Aₕ·x, A: f32[r, in] normal, B: f32[E, r] zero, no factor alpha/r; the loss is the
    mean of −ln p(targetₜ | idₛ, s ≤ t) over all ``t_seq`` positions; AdamW with β = 0.9, 0.999 and
    no decay moves A and B. A step is one plan.

    Args:
        source: a GGUF file, which is mapped and not copied, or a `Decoder`.
        r: the rank of each head.
        t_seq: tokens of a row; a step takes one.
        untied: whether the head is a matrix of its own, and
        qkv_bias: whether queries, keys and values have biases: None is as the file has it, and what
            is said is checked.
        seed: of first values, which are those of a 31-bit generator (`Lcg`): layers outer, heads
            inner.
        init_scale: deviation of A. ``0.01`` is usual.
        optimizer: another one than AdamW with these numbers.
        **settings: what else a ``Trainer`` takes: ``clip_norm``, ``accumulation``, ``session`` ...

    Raises GraphError for a model that is not as it is said to be.

    >>> import gradwright as gw, pathlib, tempfile
    >>> from gradwright.models import Decoder, DecoderConfig, save_gguf
    >>> path = pathlib.Path(tempfile.mkdtemp(), "small.gguf")
    >>> config = DecoderConfig(vocabulary=32, width=32, layers=1, heads=2, inner=64)
    >>> save_gguf(Decoder(config), path, kind="q8_0")
    >>> trainer = gw.MappedTrainer(path, r=4, t_seq=4, init_scale=0.01)
    >>> steps = [trainer.step([5, 9, 2, 30], targets=7) for _ in range(20)]
    >>> steps[-1].loss < steps[0].loss, trainer.n_weights
    (True, 384)
    >>> list(trainer.state())[:2]
    ['blk.0.attn_q.head_0.lora_a.weight', 'blk.0.attn_q.head_0.lora_b.weight']
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | Decoder,
        r: int = 8,
        *,
        t_seq: int,
        untied: bool | None = None,
        qkv_bias: bool | None = None,
        seed: int = 0,
        init_scale: float = 1.0,
        optimizer: Any = None,
        **settings: Any,
    ) -> None:
        model = source if isinstance(source, Decoder) else from_gguf(source)
        if not isinstance(model, Decoder):
            raise GraphError(f"a {type(model).__name__} is no decoder", need="a language model")
        self.model, config = model, model.config
        self.adapted: adapters.Adapted | None
        self.t_seq = _checked_length(t_seq, config)
        for name, said, found in (
            ("untied", untied, not config.tied),
            ("qkv_bias", qkv_bias, config.qkv_bias),
        ):
            if said is not None and said != found:
                raise GraphError(f"{name}={said}, and the model says {found}", hint=f"{name}=None")
        method = adapters.HeadLoRA(r=r, heads=config.heads, init_scale=init_scale)
        self.adapted = adapters.add(self.model, method, where="q")
        stream, state = Lcg(seed), dict[str, Array]()
        for place in self.adapted.places:
            a = self.adapted.variables[place.name]["lora_a"]
            shape = tuple(map(int, a.shape))
            normals = stream.cosines(math.prod(shape))
            state[f"{place.name}/lora_a"] = init_scale * normals.reshape(shape)
        self.adapted.load_state(state, strict=False)  # B is zero already
        chosen = AdamW(1e-3, weight_decay=0.0) if optimizer is None else optimizer
        self._begin(chosen, self.adapted.parameters, settings)

    @classmethod
    def from_scratch(
        cls,
        config: DecoderConfig,
        *,
        t_seq: int,
        untied: bool | None = None,
        qkv_bias: bool | None = None,
        seed: int = 0,
        init_scale: float = 1.0,
        corrected: bool = True,
        optimizer: Any = None,
        **settings: Any,
    ) -> MappedTrainer:
        """Return a trainer of all weights of a new decoder, with the same steps.

        Embedding and head begin as normals of deviation 0.02, matrices as init_scale/√in, norms as
        ones, biases as zeros. ``untied`` and ``qkv_bias`` count instead of those of the config.
        AdamW's β are 0.9 and 0.95; ``corrected=False`` multiplies its moments by β₁ and β₂ in
        place of 1/(1 − β₁ᵗ) and 1/(1 − β₂ᵗ), as the curves of the original have it.

        >>> import gradwright as gw
        >>> config = gw.models.DecoderConfig(vocabulary=64, width=16, layers=1, heads=2, context=8)
        >>> trainer = gw.MappedTrainer.from_scratch(config, t_seq=8)
        >>> steps = [trainer.step(range(8)) for _ in range(30)]
        >>> round(steps[0].loss, 1), steps[-1].loss < steps[0].loss
        (4.2, True)
        """
        tied = config.tied if untied is None else not untied
        bias = config.qkv_bias if qkv_bias is None else qkv_bias
        config = replace(config, tied=tied, qkv_bias=bias)
        made = cls.__new__(cls)
        made.t_seq = _checked_length(t_seq, config)
        made.model = Decoder(config, values=first_values(config, seed, init_scale))
        made.adapted = None
        if optimizer is None:
            optimizer = (AdamW if corrected else UncorrectedAdamW)(
                1e-3, beta2=0.95, weight_decay=0.0
            )
        made._begin(optimizer, None, settings)
        return made

    def _begin(
        self, optimizer: Any, parameters: Sequence[Tensor] | None, settings: Mapping[str, Any]
    ) -> None:
        """Declare targets and loss, and make the trainer; what fails leaves the model as it was."""
        graph = self.model.graph
        known = set(graph.nodes)
        try:
            with graph, graph.scope("protocol"):
                self._targets = graph.placeholder("targets", ("B", "T"), "int64")
                logits = self.model.logits
                self._loss = loss.sparse_softmax_cross_entropy(self._targets, logits, name="loss")
            self.trainer = Trainer(graph, self._loss, optimizer, parameters=parameters, **settings)
            """What takes the steps."""
        except BaseException:
            with graph.edit() as edit:
                edit.remove(*(n.outputs[0] for n in graph.nodes[::-1] if n not in known))
            if self.adapted is not None:
                self.adapted.remove()
            raise
        self._start = self.trainer.state_dict()
        self._names = self._named()

    def _named(self) -> dict[str, tuple[str, int | None]]:
        """Return by the names of files which variable holds an array, and which head of it."""
        if self.adapted is None:
            found = places(self.model.config, "llama")
            return {place.tensor: (place.name, None) for place in found}
        names: dict[str, tuple[str, int | None]] = {}
        for i, place in enumerate(self.adapted.places):
            for head in range(self.model.config.heads):
                for leaf, t in self.adapted.variables[place.name].items():
                    names[f"blk.{i}.attn_q.head_{head}.{leaf}.weight"] = t.name, head
        return names

    # -- steps -----------------------------------------------------------------------------------

    def step(self, ids: Any, targets: Any = None) -> Step | None:
        """Take a step on a row of tokens and return what it reports.

        ``targets`` are i64[t_seq], one token for all positions, or by default the next token of
        each, of the last one itself. With ``accumulation`` it is None where an update waits for
        more rows. Raises FeedError for another length, for more rows than one, and for numbers that
        are no tokens; then nothing has changed.
        """
        row = self._row(ids, "ids")
        wanted = next_tokens(row) if targets is None else targets
        if np.ndim(wanted) == 0:
            wanted = np.full(self.t_seq, wanted)
        feeds = {"ids": row[None], self._targets.name: self._row(wanted, "targets")[None]}
        begun = time.perf_counter()
        record = self.trainer.step(feeds)
        seconds = time.perf_counter() - begun
        if record is None:
            return None
        found = record.metrics
        return Step(record.step, found["loss"], found["grad_norm"], self.t_seq / seconds)

    def fit(self, rows: Any, *, steps: int | None = None, **options: Any) -> History:
        """Train on rows of tokens, i64[n, t_seq], one a step, each token for the next one.

        ``options`` are those of ``Trainer.fit``: ``epochs``, ``progress`` and so on.
        """
        held = [self._row(row, "ids") for row in rows]
        if not held:
            raise FeedError("there are no rows", need="i64[n, t_seq]")
        data = {"ids": np.stack(held), self._targets.name: np.stack([*map(next_tokens, held)])}
        return self.trainer.fit(data, batch_size=1, steps=steps, **options)

    def _row(self, given: Any, name: str) -> Array:
        try:
            row = np.asarray(given)
        except ValueError as error:  # rows of different lengths
            raise FeedError(f"{name} are no row of tokens", need="i64[t_seq]") from error
        if row.ndim == 2 and len(row) != 1:
            raise FeedError(f"{name} are {len(row)} rows, and a step takes one", need="i64[t_seq]")
        row = row.reshape(-1)
        if row.shape != (self.t_seq,):
            raise FeedError(f"{name} are {len(row)} tokens", need=f"t_seq = {self.t_seq}")
        n = self.model.config.vocabulary
        if row.dtype.kind not in "iu" or not ((row >= 0) & (row < n)).all():
            raise FeedError(f"{name} are no tokens", need=f"ints from 0 to {n - 1}")
        return row.astype(np.int64)

    # -- state -----------------------------------------------------------------------------------

    def reset(self) -> None:
        """Begin anew from the weights as they are: moments, gradients and step count are zero."""
        self.trainer.load_state_dict(self._start)

    def reset_gradients(self) -> None:
        """Forget the gradients that wait for an update; moments stay."""
        if self.trainer.status == "running":
            raise TrainingError("the trainer is running", hint="trainer.pause(wait=True)")
        self.trainer.parts.taker.forget_window()

    @property
    def n_weights(self) -> int:
        """How many numbers are trained."""
        return sum(math.prod(map(int, t.shape)) for t in self.trainer.parameters)

    def state(self, *, moments: bool = False) -> dict[str, Array]:
        """Return what is trained by the names of files, head by head, with its moments if asked."""
        values, slots = self.trainer.values, self.trainer.state_dict() if moments else {}
        found: dict[str, Array] = {}
        for name, (variable, head) in self._names.items():
            found[name] = _part(values[variable], head).copy()
            for moment in MOMENTS:
                held = slots.get(f"state/{variable}/{moment}")
                if held is not None:
                    found[_sibling(name, moment)] = _part(held, head).copy()
        return found

    def load_state(self, state: Mapping[str, Array], *, step: int = 0) -> None:
        """Take over what ``state`` returned, all or nothing, and its moments if it has them.

        ``step`` is how many steps they have gone through. Raises GraphError for missing and left
        over names, for arrays of another shape, and for a step that is no count.
        """
        if not isinstance(step, int) or step < 0:
            raise GraphError(f"step={step!r} counts no steps", need="an int >= 0")
        wanted = self.state()
        siblings = {_sibling(name, m): name for name in wanted for m in MOMENTS}
        has_moments = not siblings.keys().isdisjoint(state)
        wanted |= {s: wanted[name] for s, name in siblings.items() if has_moments}
        wrong = [f"missing: {n}" for n in sorted(wanted.keys() - state.keys())]
        wrong += [f"left over: {n}" for n in sorted(state.keys() - wanted.keys())]
        for name, held in wanted.items():
            if name in state and state[name].shape != held.shape:
                wrong.append(f"{name} is {list(state[name].shape)}, not {list(held.shape)}")
        if wrong:
            raise GraphError("the state is not that of this training", facts=wrong[:8])
        slots = {k: v for k, v in self.trainer.state_dict().items() if not k.startswith("state/")}
        weights: dict[str, Array] = {}
        for variable, names in self._by_variable().items():
            weights[variable] = self._whole([state[n] for n in names])
            if has_moments:
                for m in MOMENTS:
                    held = self._whole([state[_sibling(n, m)] for n in names])
                    slots[f"state/{variable}/{m}"] = held
                slots[f"state/{variable}/step"] = np.array(step)
        self.trainer.load_state_dict(slots)
        self.trainer.steps_done = step
        self.trainer.values.commit(weights)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what is trained, its moments and the step count as a GGUF file."""
        keys = {"general.type": "training", "training.step": self.trainer.steps_done}
        write(path, keys, self.state(moments=True))

    def load(self, path: str | os.PathLike[str]) -> None:
        """Go on from what ``save`` has written; raises ArchiveError or GraphError for other files.

        >>> import gradwright as gw, pathlib, tempfile
        >>> config = gw.models.DecoderConfig(vocabulary=16, width=8, layers=1, heads=2, context=4)
        >>> one, other = (gw.MappedTrainer.from_scratch(config, t_seq=4) for _ in range(2))
        >>> first = [one.step(range(4)) for _ in range(3)]
        >>> path = pathlib.Path(tempfile.mkdtemp(), "at_3.gguf")
        >>> one.save(path)
        >>> other.load(path)
        >>> one.step(range(4)).loss == other.step(range(4)).loss
        True
        """
        held = Gguf(path)
        with naming(str(os.fspath(path))):
            step = held.facts.get("training.step")
            if not isinstance(step, int):
                raise ArchiveError("it is no training that was saved", need="training.step")
        self.load_state({name: held[name].floats() for name in held}, step=step)

    def _by_variable(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for name, (variable, _) in self._names.items():
            found.setdefault(variable, []).append(name)
        return found

    def _whole(self, parts: Sequence[Array]) -> Array:
        """Return what heads are the parts of; without adapters there are none, and one part."""
        return parts[0] if self.adapted is None else np.stack(parts)


def _checked_length(t_seq: int, config: DecoderConfig) -> int:
    if not isinstance(t_seq, int) or not 1 <= t_seq <= config.context:
        raise TrainingError(f"t_seq={t_seq!r} is no length of a row", need=f"1 to {config.context}")
    return t_seq


def _part(array: Array, head: int | None) -> Array:
    return array if head is None else array[head]


def _sibling(name: str, moment: str) -> str:
    """Return the name of a moment: ``head_0.lora_a.m`` beside ``head_0.lora_a.weight``."""
    return f"{name.removesuffix('.weight') if '.lora_' in name else name}.{moment}"
