"""Sketches of adapters: the contract that they share, and four methods that ask much of it.

LoRA changes a product, prefix tuning the keys and values that an attention sees, a prompt the
length of all that follows; AdaLoRA has a penalty, state, and work to do after each update.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

import gradwright as gw
from gradwright.graph import Edit, Node, Tensor
from gradwright.ops.attention.scaled import ScaledDotProductAttention

Array = np.ndarray[Any, Any]
Kind = Literal["weight", "attention", "input", "output"]

# -- the contract ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """Where an adapter may stand: a weight, an attention, what enters or leaves the blocks.

    ``tensor`` is what the place makes; it goes on being there when an edit replaces its node.
    """

    kind: Kind
    name: str
    node: Node
    tensor: Tensor


@dataclass(frozen=True)
class Site(Place):
    """The place of a weight."""

    input: int
    weight: Tensor
    in_axis: int
    out_axis: int

    def factors(self) -> tuple[int, int]:
        """Return the sizes of what the weight reads and makes."""
        shape = self.weight.shape
        return int(shape[self.in_axis]), int(shape[self.out_axis])


@dataclass(frozen=True)
class Made:
    """A variable that an adapter adds; ``trained``: state is declared in the same way."""

    shape: tuple[int, ...]
    init: Any = 0.0
    trained: bool = True


Parameters = Mapping[str, Tensor]


class Adapter(Protocol):
    """A method: what it adds at a place, and how the place computes with it."""

    places: ClassVar[frozenset[str]]

    def variables(self, place: Place) -> Mapping[str, Made]: ...
    def edit(self, edit: Edit, place: Place, p: Parameters) -> None: ...
    def merge(self, place: Place, w: Array, p: Mapping[str, Array]) -> Array | None: ...
    def penalty(self, place: Place, p: Parameters) -> Tensor | None: ...
    def after_update(
        self, place: Place, p: Parameters, gradients: Mapping[str, Array | None], step: int
    ) -> Mapping[str, Array]: ...


class Plain:
    """What most adapters have none of."""

    def merge(self, place: Place, w: Array, p: Mapping[str, Array]) -> Array | None:
        return None

    def penalty(self, place: Place, p: Parameters) -> Tensor | None:
        return None

    def after_update(
        self, place: Place, p: Parameters, gradients: Mapping[str, Array | None], step: int
    ) -> Mapping[str, Array]:
        return {}


class Adapted:
    """A graph with adapters: base frozen, variables named by place, all edits in one."""

    def __init__(
        self,
        graph: gw.Graph,
        places: Sequence[Place],
        adapters: Mapping[str, Adapter],
        choose: Callable[[str, Place], bool] = lambda name, place: True,
    ) -> None:
        self.graph = graph
        self.parts: list[tuple[Adapter, Place, dict[str, Tensor]]] = []
        # Within an edit specs are those from before it, so what changes sizes comes last.
        order = sorted(adapters.items(), key=lambda item: "input" in item[1].places)
        base = graph.trainable
        with graph.edit() as edit:
            for name, adapter in order:
                for place in places:
                    if place.kind not in adapter.places or not choose(name, place):
                        continue
                    p = {
                        key: graph.variable(
                            f"{place.name}/{name}/{key}",
                            made.shape,
                            init=made.init,
                            trainable=made.trained,
                        )
                        for key, made in adapter.variables(place).items()
                    }
                    adapter.edit(edit, place, p)
                    self.parts.append((adapter, place, p))
        for t in base:  # not before: an edit that fails puts back nodes, not what is trained
            t.trainable = False

    def penalties(self) -> dict[str, Tensor]:
        """Return what is added to the loss, by name."""
        found = {place.name: a.penalty(place, p) for a, place, p in self.parts}
        return {f"penalty_{n.replace('/', '_')}": t for n, t in found.items() if t is not None}

    def merged(self) -> dict[str, Array]:
        """Return the weights of the base with the adapters in them."""
        values, found = self.graph.values, {}
        for adapter, place, p in self.parts:
            if isinstance(place, Site):
                name = place.weight.name
                held = {k: np.array(values[t.name]) for k, t in p.items()}
                w = adapter.merge(place, found.get(name, np.array(values[name])), held)
                if w is None:
                    raise gw.errors.GraphError(f"{adapter} cannot be merged")
                found[name] = w
        return found


class Allocate(gw.Callback):
    """Has adapters do what they do after an update, with the gradients of the step."""

    def __init__(self, adapted: Adapted) -> None:
        self.adapted = adapted

    def wants_changes(self, trainer: gw.Trainer) -> bool:
        return True

    def on_changes(self, trainer: gw.Trainer, record: Any, changes: Mapping[str, Any]) -> None:
        for adapter, place, p in self.adapted.parts:
            g = {k: changes[t.name].gradient for k, t in p.items() if t.name in changes}
            for key, array in adapter.after_update(place, p, g, record.step).items():
                trainer.graph.values[p[key].name] = array


# -- four methods ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class LoRA(Plain):
    """y + s·(x @ a) @ b."""

    rank: int = 2
    scale: float = 2.0
    places: ClassVar[frozenset[str]] = frozenset({"weight"})

    def variables(self, place: Place) -> Mapping[str, Made]:
        assert isinstance(place, Site)
        n, m = place.factors()
        return {
            "a": Made((n, self.rank), gw.init.normal(std=0.1, seed=3)),
            "b": Made((self.rank, m)),
        }

    def edit(self, edit: Edit, place: Place, p: Parameters) -> None:
        x = place.node.inputs[0]
        assert x is not None
        edit.insert_after(place.tensor, lambda y: y + (x @ p["a"] @ p["b"]) * self.scale)

    def merge(self, place: Place, w: Array, p: Mapping[str, Array]) -> Array | None:
        return w + np.float32(self.scale) * p["a"] @ p["b"]


@dataclass(frozen=True)
class AdaLoRA(Plain):
    """y + (x @ a · λ) @ b, of which the least important λ are 0; a and b are kept orthogonal."""

    rank: int = 3
    kept: int = 2
    places: ClassVar[frozenset[str]] = frozenset({"weight"})

    def variables(self, place: Place) -> Mapping[str, Made]:
        assert isinstance(place, Site)
        n, m = place.factors()
        return {
            "a": Made((n, self.rank), gw.init.normal(std=0.3, seed=5)),
            "b": Made((self.rank, m), gw.init.normal(std=0.3, seed=6)),
            "lam": Made((self.rank,), 0.1),
            "importance": Made((self.rank,), trained=False),
        }

    def edit(self, edit: Edit, place: Place, p: Parameters) -> None:
        x = place.node.inputs[0]
        assert x is not None
        edit.insert_after(place.tensor, lambda y: y + (x @ p["a"] * p["lam"]) @ p["b"])

    def merge(self, place: Place, w: Array, p: Mapping[str, Array]) -> Array | None:
        return w + p["a"] * p["lam"] @ p["b"]

    def penalty(self, place: Place, p: Parameters) -> Tensor | None:
        eye = np.eye(self.rank, dtype=np.float32)
        apart = p["a"].transpose() @ p["a"] - eye, p["b"] @ p["b"].transpose() - eye
        return ((apart[0] ** 2.0).sum() + (apart[1] ** 2.0).sum()) * 0.1

    def after_update(
        self, place: Place, p: Parameters, gradients: Mapping[str, Array | None], step: int
    ) -> Mapping[str, Array]:
        values = p["lam"].graph.values
        lam, g = np.array(values[p["lam"].name]), gradients["lam"]
        assert g is not None
        importance = 0.9 * values[p["importance"].name] + 0.1 * np.abs(lam * g)
        lam[np.argsort(importance)[: self.rank - self.kept]] = 0.0
        return {"lam": lam, "importance": importance}


@dataclass(frozen=True)
class Prefix(Plain):
    """Keys and values that are seen by all queries, before those of the text."""

    length: int = 3
    places: ClassVar[frozenset[str]] = frozenset({"attention"})

    def variables(self, place: Place) -> Mapping[str, Made]:
        _, key, value = place.node.inputs[:3]
        assert key is not None and value is not None
        make = gw.init.normal(std=0.5, seed=7)
        return {
            name: Made((int(t.shape[1]), self.length, int(t.shape[3])), make)
            for name, t in (("key", key), ("value", value))
        }

    def edit(self, edit: Edit, place: Place, p: Parameters) -> None:
        op, (query, *rest) = place.node.op, place.node.inputs
        assert isinstance(op, ScaledDotProductAttention) and op.is_causal and query is not None
        longer = [
            gw.concat([p[name] + gw.zeros_like(t[:, :, :1]), t], axis=2)
            for name, t in zip(("key", "value"), rest, strict=True)
        ]
        scores = gw.ones_like(query[0, 0] @ longer[0][0, 0].transpose())  # only its shape is read
        seen = gw.tril(scores, k=self.length) > 0.0
        made = op.replace(is_causal=False)(query, *longer, seen)
        edit.replace_use(place.tensor, made)


@dataclass(frozen=True)
class Prompt(Plain):
    """Positions before those of the text, which all layers see and no output has."""

    length: int = 3
    places: ClassVar[frozenset[str]] = frozenset({"input", "output"})

    def variables(self, place: Place) -> Mapping[str, Made]:
        if place.kind == "output":
            return {}
        return {
            "words": Made(
                (self.length, int(place.tensor.shape[-1])), gw.init.normal(std=0.5, seed=8)
            )
        }

    def edit(self, edit: Edit, place: Place, p: Parameters) -> None:
        if place.kind == "output":
            edit.insert_after(place.tensor, lambda y: y[:, self.length :])
        else:
            edit.insert_after(
                place.tensor,
                lambda x: gw.concat([p["words"] + gw.zeros_like(x[:, :1]), x], axis=1),
            )
