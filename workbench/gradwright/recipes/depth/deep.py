"""DeepTrainer: trains a model of identical layers that need not fit into memory."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import TrainingError
from ...spec import TensorSpec, is_floating
from ...spec.rounding import rounded
from ...train.optim import Optimizer, get
from .section import Array, Arrays, Section
from .stack import CheckpointedStack
from .store import Memory, Store
from .updates import Updates

OFFLOADED = ("inputs", "gradients", "state", "parameters")
"""What a store can hold: inputs of layers, gradients, optimizer state, and the layers' weights."""


class DeepTrainer:
    """Trains bottom, n identical layers and top, with the plans of one layer.

    x₀ = bottom(feeds)        xᵢ = layer(paramsᵢ, xᵢ₋₁)        loss = top(xₙ, feeds)

    A step runs forward keeping the layers' inputs, backward one layer at a time, and then updates
    one layer at a time. If the loss or any gradient is not finite, nothing changes; after an update
    that was interrupted, by a full disk or Ctrl-C, the trainer asks for saved state. Time to build,
    and scratch memory, do not grow with n; with a ``Disk`` neither does what is kept, but for two
    layers.

    Args:
        bottom: section from feeds to the stack's input.
        stack: the layers.
        top: section from ``x`` and feeds to a scalar loss; ``wrt=["x"]``.
        optimizer: moves all parameters, or a name such as ``"sgd"``; default ``Adam(1e-3)``.
        clip_norm: upper bound of the norm of all gradients together.
        nonfinite: ``"raise"`` or ``"skip"``.
        store: where to keep what is offloaded: ``Memory()`` or ``Disk(folder)``.
        offload: what the store keeps, of ``inputs``, ``gradients``, ``state``, ``parameters``.

    >>> import gradwright as gw, numpy as np
    >>> from gradwright.recipes.depth import Section
    >>> x, t = gw.TensorSpec((None, 2)), gw.TensorSpec((None,))
    >>> trainer = gw.DeepTrainer(
    ...     Section(lambda p, x: x @ p["w"], {"w": (2, 2)}, {"x": x}),
    ...     gw.CheckpointedStack(lambda p, x: x + gw.tanh(x @ p["w"]), {"w": (2, 2)}, x),
    ...     Section(lambda p, x, t: gw.mean((x @ p["v"] - t) ** 2.0), {"v": (2,)},
    ...             {"x": x, "t": t}, wrt=["x"]),
    ... )
    >>> small = {"w": np.full((2, 2), 0.1, "float32")}
    >>> trainer.start(small, [small] * 8, {"v": np.ones(2, "float32")})
    >>> feeds = {"x": np.ones((1, 2), "float32"), "t": np.ones(1, "float32")}
    >>> losses = [trainer.step(feeds) for _ in range(30)]
    >>> losses[-1] < 0.01 * losses[0]
    True
    """

    def __init__(
        self,
        bottom: Section,
        stack: CheckpointedStack,
        top: Section,
        optimizer: Optimizer | str | None = None,
        *,
        clip_norm: float | None = None,
        nonfinite: str = "raise",
        store: Store | None = None,
        offload: Collection[str] = OFFLOADED,
    ) -> None:
        if "x" not in top.inputs or top.y.rank:
            raise TrainingError(
                f"the top is {top!r}", need='a scalar loss of an input called "x", wrt=["x"]'
            )
        if unknown := set(offload) - set(OFFLOADED):
            raise TrainingError(f"offload={sorted(unknown)}", need=f"some of {OFFLOADED}")
        if nonfinite not in ("raise", "skip"):
            raise TrainingError(f"nonfinite={nonfinite!r} is not known", need="'raise' or 'skip'")
        self.bottom, self.stack, self.top = bottom, stack, top
        self.optimizer = get("adam" if optimizer is None else optimizer)
        self.clip_norm, self.nonfinite = clip_norm, nonfinite
        self.n_layers = self.steps_done = self.skipped = self._updates_done = 0
        near = Memory()
        far = near if store is None else store
        self._stores = {kind: far if kind in offload else near for kind in OFFLOADED}
        sections = {"bottom": bottom, "layer": stack.section, "top": top}
        self._updates = {
            n: Updates(_trained(s), self.optimizer, deterministic=s.session.deterministic)
            for n, s in sections.items()
        }
        self._torn = False
        """Whether an update was interrupted, so that some parameters are a step ahead."""

    # -- parameters ------------------------------------------------------------------------------

    def start(self, bottom: Arrays, layers: Iterable[Arrays], top: Arrays) -> None:
        """Set all parameters and begin anew; layers may be made one at a time by a generator."""
        self._put("bottom", bottom)
        self._put("top", top)
        self.n_layers = 0
        for params in layers:
            self._put(f"layers/{self.n_layers}", params)
            self.n_layers += 1
        self.steps_done = self.skipped = self._updates_done = 0
        self._torn = False

    def _put(self, name: str, params: Arrays) -> None:
        section = self._section(name)
        arrays = {n: np.array(params[n], t.dtype) for n, t in section.params.items() if n in params}
        if missing := section.params.keys() - arrays.keys():
            raise TrainingError(f"{name}: parameter {sorted(missing)[0]!r} is not given")
        for n, t in section.params.items():
            if TensorSpec(arrays[n].shape, t.dtype) != t.spec:
                raise TrainingError(
                    f"{name}: parameter {n!r} is {arrays[n].dtype}{list(arrays[n].shape)}",
                    need=str(t.spec),
                )
        self._stores["parameters"].put(f"parameters/{name}", arrays)
        self._stores["state"].put(f"state/{name}", self._updates[_kind(name)].state(arrays))

    def _section(self, name: str) -> Section:
        sections = {"bottom": self.bottom, "top": self.top}
        return sections.get(name, self.stack.section)

    def parameters(self, name: str) -> dict[str, Array]:
        """Return the parameters of ``"bottom"``, ``"top"`` or ``"layers/3"``."""
        return self._stores["parameters"].get(f"parameters/{name}")

    def _names(self) -> list[str]:
        return ["bottom", *(f"layers/{i}" for i in range(self.n_layers)), "top"]

    # -- training --------------------------------------------------------------------------------

    def step(self, feeds: Mapping[str, Any]) -> float:
        """Take one step on a batch and return its loss, of before the update.

        Raises TrainingError if the loss or a gradient is not finite; then nothing has changed.
        """
        if not self.n_layers or self._torn:
            what = "an update was interrupted" if self._torn else "there are no parameters yet"
            raise TrainingError(what, hint="trainer.start(...), or load_state_dict(...)")
        number, total = self.steps_done, 0.0
        store = self._stores["parameters"]
        names = [_Layers(self, store, back=back) for back in (False, True)]
        x = self.bottom.run(self.parameters("bottom"), feeds, step=number)
        x, held = self.stack.forward(
            names[0], x, self._shared(feeds), step=number, store=self._stores["inputs"]
        )
        loss, grads, moved = self.top.pull(
            self.parameters("top"), {**feeds, "x": x}, value=True, step=number
        )
        total += self._keep("top", grads)

        def sink(i: int, found: dict[str, Array]) -> None:
            nonlocal total
            total += self._keep(f"layers/{i}", found)

        _, g = self.stack.backward(names[1], held, moved["x"], sink=sink)
        _, grads, _ = self.bottom.pull(self.parameters("bottom"), feeds, g, step=number)
        total += self._keep("bottom", grads)
        value, norm = float(loss if loss is not None else math.nan), math.sqrt(total)
        self.steps_done += 1
        if not math.isfinite(value + norm):
            return self._refuse(value, norm)
        numbers = self._updates["bottom"].numbers(number)
        clipped = self.clip_norm is not None and norm > self.clip_norm
        factor = self.clip_norm / norm if clipped and self.clip_norm is not None else 1.0
        self._updates_done += 1
        self._torn = True
        for name in self._names():
            self._update(name, numbers, factor)
        self._torn = False
        return value

    def _shared(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        return {n: feeds[n] for n in self.stack.section.inputs if n != "x" and n in feeds}

    def _keep(self, name: str, grads: dict[str, Array]) -> float:
        """Put gradients aside and return the sum of their squares."""
        self._stores["gradients"].put(f"gradients/{name}", grads)
        flat = (g.astype(np.float64, copy=False).reshape(-1) for g in grads.values())
        return float(sum(np.dot(g, g) for g in flat))

    def _update(self, name: str, numbers: Mapping[str, float], factor: float) -> None:
        params = self.parameters(name)
        grads = self._stores["gradients"].pop(f"gradients/{name}")
        if not grads:
            return
        state = self._stores["state"].get(f"state/{name}")
        moved, state = self._updates[_kind(name)].move(
            params, grads, state, step=self._updates_done, numbers=numbers, factor=factor
        )
        self._stores["parameters"].put(f"parameters/{name}", {**params, **moved})
        self._stores["state"].put(f"state/{name}", state)

    def _refuse(self, loss: float, norm: float) -> float:
        for name in self._names():
            self._stores["gradients"].drop(f"gradients/{name}")
        self.skipped += 1
        if self.nonfinite == "raise":
            raise TrainingError(
                f"step {self.steps_done}: loss {loss:.6g}, norm of the gradients {norm:.6g}",
                need="finite numbers; nothing was changed",
                hint='a smaller learning rate, clip_norm=1.0, or nonfinite="skip"',
            )
        return loss

    def evaluate(self, feeds: Mapping[str, Any]) -> float:
        """Return the loss of a batch in eval mode."""
        x = self.bottom.run(self.parameters("bottom"), feeds, training=False)
        layers = _Layers(self, self._stores["parameters"], back=False)
        x, _ = self.stack.forward(layers, x, self._shared(feeds), training=False)
        inputs = {**feeds, "x": x}
        return float(self.top.run(self.parameters("top"), inputs, training=False))

    # -- saving ----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Array]:
        """Return parameters, optimizer state and counters, as named arrays; takes their memory."""
        found = {"counters": np.array([self.steps_done, self.skipped, self._updates_done])}
        for kind in ("parameters", "state"):
            for name in self._names():
                held = self._stores[kind].get(f"{kind}/{name}")
                found.update((f"{kind}/{name}:{n}", a) for n, a in held.items())
        return found

    def load_state_dict(self, arrays: Mapping[str, Any]) -> None:
        """Take over what ``state_dict`` returned, all or nothing."""
        groups: dict[str, dict[str, Any]] = {}
        for key, array in arrays.items():
            group, _, name = key.partition(":")
            groups.setdefault(group, {})[name] = np.asarray(array)
        n = sum(group.startswith("parameters/layers/") for group in groups)
        names = ["bottom", *(f"layers/{i}" for i in range(n)), "top"]
        wanted: dict[str, dict[str, Array]] = {}
        for name in names:
            like = _zeros(self._section(name))
            wanted[f"parameters/{name}"] = like
            wanted[f"state/{name}"] = self._updates[_kind(name)].state(like)
        for group, specs in wanted.items():
            came = groups.get(group, {})
            for name, a in specs.items():
                if name not in came or came[name].shape != a.shape:
                    raise TrainingError(f"saved state has no {group}:{name} of {list(a.shape)}")
        if "counters" not in groups:
            raise TrainingError("this is no state of a DeepTrainer: it has no counters")
        for group, specs in wanted.items():
            kind = group.partition("/")[0]
            came = {name: rounded(groups[group][name], a.dtype) for name, a in specs.items()}
            # The store keeps arrays and writes into them; these are the caller's.
            self._stores[kind].put(group, {name: a.copy() for name, a in came.items()})
        self.n_layers, self._torn = n, False
        self.steps_done, self.skipped, self._updates_done = map(int, groups["counters"][""])

    def close(self) -> None:
        """Release plans, buffers and stores."""
        for section in (self.bottom, self.stack.section, self.top):
            section.close()
        for updates in self._updates.values():
            updates.close()
        for store in self._stores.values():
            store.close()

    def __repr__(self) -> str:
        return f"<DeepTrainer of {self.n_layers} layers: {self.steps_done} steps>"


class _Layers(Sequence[Arrays]):
    """The parameters of a trainer's layers; the next one is fetched ahead."""

    def __init__(self, trainer: DeepTrainer, store: Store, *, back: bool) -> None:
        self._trainer, self._store, self._ahead = trainer, store, -1 if back else 1

    def __len__(self) -> int:
        return self._trainer.n_layers

    def __getitem__(self, i: Any) -> Any:
        if not 0 <= i < len(self):
            raise IndexError(i)
        self._store.prefetch(f"parameters/layers/{i + self._ahead}")
        return self._trainer.parameters(f"layers/{i}")

    def __iter__(self) -> Iterator[Arrays]:
        return (self[i] for i in range(len(self)))


def _kind(name: str) -> str:
    return "layer" if name.startswith("layers/") else name


def _trained(section: Section) -> dict[str, TensorSpec]:
    return {n: t.spec for n, t in section.params.items() if is_floating(t.dtype)}


def _zeros(section: Section) -> dict[str, Array]:
    return {n: np.zeros([int(d) for d in t.shape], t.dtype) for n, t in section.params.items()}
