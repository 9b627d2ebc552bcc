"""AdaLoRA: ranks that go where they count (Zhang et al. 2023)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from ... import nn
from ...errors import GraphError
from ...graph import Tensor
from ...init import normal
from ...ops.core.choice import Minimum, Where
from ...ops.core.elementwise import Abs
from ...ops.core.joining import Concat
from ...ops.core.movement import cast_to
from ...ops.core.sorting import Sort
from ...ops.core.statistics import Norm
from ...words.jsonable import jsonable
from ..adapter import Adapter, Leaf, Leaves
from ..low_rank import LowRank
from ..settings import check_count, check_number, check_share
from ..site import Site, Use
from ..targeting import of_pattern

if TYPE_CHECKING:
    from ..built import Built

Array = np.ndarray[Any, Any]
TRAINED = ("lora_A", "lora_B", "lora_E")


@jsonable
@dataclass(frozen=True)
class AdaLoRA(Adapter):
    """A sum of rank one parts, of which the least important are dropped (Zhang et al. 2023).

    y = x·Wᵀ + bias + s·drop(x)·(A⊙E)ᵀ·Bᵀ, with A: f32[r, in], E: f32[r, 1], B: f32[out, r] and
    s = alpha/init_r

    Each step adds orth_reg_weight·mean(‖A·Aᵀ − I‖, ‖Bᵀ·B − I‖) over all places to what is trained.
    After it every number has an importance, I = |p·∂p|, which is smoothed with its deviation,

        Ī ← β₁·Ī + (1 − β₁)·I,    Ū ← β₂·Ū + (1 − β₂)·|I − Ī|,    score = Ī·Ū

    and of all parts of all places those of the lowest score of E + mean of A's + mean of B's are
    switched off, E = 0, until as many are left as the budget allows: all until ``tinit``, then
    falling with the cube of the time to ``target_r`` per place, ``tfinal`` steps before the end.
    What is off may come back until then. Trainers do all of this within the step.

    Args:
        init_r: the rank at the beginning.
        target_r: the mean rank at the end.
        alpha: the scale is alpha/init_r.
        dropout: on the way to A alone.
        total_step: how many steps there will be.
        tinit: steps before the budget begins to fall.
        tfinal: steps at the end, in which what is off stays off.
        delta_t: steps from one choice to the next.
        beta1: of the mean importance.
        beta2: of its deviation.
        orth_reg_weight: of the penalty.
        rank_pattern: ranks of some places by pattern; what ``compact`` leaves.

    Raises GraphError for settings that make no sense.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (None, 3))
    >>> loss = gw.mean((x @ g.variable("w", (3, 3), init=1.0) - x) ** 2.0)
    >>> method = gw.adapters.AdaLoRA(init_r=3, target_r=1, total_step=5)
    >>> adapted = gw.adapters.add(g, method, where="w")
    >>> trainer = gw.Trainer(g, loss, gw.optim.Adam(0.1))
    >>> for _ in range(5):
    ...     record = trainer.step({"x": [[1.0, 2.0, 3.0]]})
    >>> method.ranks(adapted)
    {'w': 1}
    """

    kinds: ClassVar[frozenset[str]] = frozenset({"linear", "conv"})
    by_row = "sum"

    init_r: int = 12
    target_r: int = 8
    alpha: float = 8
    dropout: float = 0.0
    total_step: int = 0
    tinit: int = 0
    tfinal: int = 0
    delta_t: int = 1
    beta1: float = 0.85
    beta2: float = 0.85
    orth_reg_weight: float = 0.5
    rank_pattern: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("init_r", "target_r", "delta_t"):
            check_count(name, getattr(self, name))
        check_number("alpha", self.alpha)
        check_share("dropout", self.dropout)
        if not 1 <= self.target_r < self.init_r:
            raise GraphError(
                f"ranks do not fall from {self.init_r} to {self.target_r}",
                need="1 <= target_r < init_r",
                hint="gw.adapters.LoRA has a rank that stays",
            )
        if self.total_step < 1 or not 0 <= self.tinit < self.total_step - self.tfinal:
            raise GraphError(
                f"tinit={self.tinit}, tfinal={self.tfinal} of total_step={self.total_step} steps",
                need="0 <= tinit < total_step - tfinal",
                hint="total_step: how many steps the training will take",
            )
        if not (0 < self.beta1 < 1 and 0 < self.beta2 < 1):
            raise GraphError(
                f"beta1={self.beta1}, beta2={self.beta2} make no sense", need="between 0 and 1"
            )
        if not self.orth_reg_weight >= 0 or self.tfinal < 0:
            raise GraphError("orth_reg_weight or tfinal make no sense", need=">= 0")

    def rank(self, place: Any) -> int:
        """Return the rank at a place."""
        return of_pattern(self.rank_pattern, place.name, self.init_r)

    def scale(self, place: Any) -> float:
        """Return the factor of B·(A⊙E), which dropped ranks leave as it is."""
        return self.alpha / (self.init_r + 1e-5)

    def variables(self, place: Site) -> Mapping[str, Leaf]:
        r, n_in = self.rank(place), place.size // place.n_out
        shapes = {"lora_A": (r, n_in), "lora_B": (place.n_out, r), "lora_E": (r, 1)}
        leaves = {
            leaf: Leaf(shape, 0.0 if leaf == "lora_E" else normal(std=0.02))
            for leaf, shape in shapes.items()
        }
        for leaf, shape in shapes.items():
            leaves[f"{leaf}.mean"] = Leaf(shape, is_state=True)
            leaves[f"{leaf}.deviation"] = Leaf(shape, is_state=True)
        return {**leaves, "kept": Leaf((r,), True, dtype="bool", is_state=True)}

    def shared(self, places: Sequence[Any]) -> Mapping[str, Leaf]:
        return {"step": Leaf((), 0, dtype="int64", is_state=True)}

    def low_rank(self, place: Site, p: Mapping[str, Array]) -> LowRank:
        on = p["lora_E"][:, 0] != 0
        a, b = (p["lora_A"] * p["lora_E"])[on], p["lora_B"][:, on]
        return LowRank(a, b, self.scale(place))

    def row_rank(self, place: Any) -> int:
        return self.rank(place)

    def shift(self, place: Site, use: Use, x: Tensor, p: Leaves) -> Tensor:
        x = nn.dropout(x, p=self.dropout) if self.dropout else x
        if place.kind == "conv":
            return use.again(x, self.delta(place, p))
        y: Tensor = ((x @ (p["lora_A"] * p["lora_E"]).mT) @ p["lora_B"].mT) * self.scale(place)
        return y

    def delta(self, place: Site, p: Leaves) -> Tensor:
        whole = (p["lora_B"] @ (p["lora_A"] * p["lora_E"])) * self.scale(place)
        return whole.reshape(*place.shape)

    # -- what is trained -------------------------------------------------------------------------

    def penalty(self, adapted: Built) -> Tensor | None:
        if not self.orth_reg_weight:
            return None
        apart = []
        for p in adapted.variables.values():
            a, b = p["lora_A"], p["lora_B"]
            eye = a.graph.constant(np.eye(int(a.shape[0])), dtype=a.dtype)
            apart += [Norm()(a @ a.mT - eye), Norm()(b.mT @ b - eye)]
        total: Tensor = sum(apart[1:], apart[0]) * (self.orth_reg_weight / len(apart))
        return total

    def after_update(
        self, adapted: Built, grads: Mapping[Tensor, Tensor], new: Mapping[Tensor, Tensor]
    ) -> Mapping[Tensor, Tensor]:
        every = adapted.variables
        if not all(p[leaf] in grads for p in every.values() for leaf in TRAINED):
            return {}
        graph, step = adapted.graph, adapted.shared["step"]
        n_all = sum(int(p["kept"].shape[0]) for p in every.values())
        budgets, choices, measures = self._plan(n_all, self.target_r * len(every))
        at = Minimum()(step + 1, self.total_step)
        measured = graph.constant(measures)[at]
        chooses, dropped = graph.constant(choices)[at], graph.constant(budgets)[at]
        found: dict[Tensor, Tensor] = {step: step + 1}
        scores = {}
        for place, p in every.items():
            parts = []
            for leaf, axis in zip(TRAINED, (1, 0, 1), strict=True):
                mean, deviation = p[f"{leaf}.mean"], p[f"{leaf}.deviation"]
                wide = mean.dtype
                now = Abs()(cast_to(wide, new[p[leaf]]) * cast_to(wide, grads[p[leaf]]))
                after = mean * self.beta1 + now * (1 - self.beta1)
                off = deviation * self.beta2 + Abs()(now - after) * (1 - self.beta2)
                found[mean] = after = Where()(measured, after, mean)
                found[deviation] = off = Where()(measured, off, deviation)
                parts.append((after * off).mean(axis))
            scores[place] = parts[2] + (parts[0] + parts[1])
        # of n scores in order, those up to the last that is dropped are
        ordered = Sort()(Concat(axis=0)(*scores.values()))
        threshold = ordered[dropped - 1]
        late = step + 1 > self.total_step - self.tfinal
        for place, p in every.items():
            kept = Where()(chooses, scores[place] > threshold, p["kept"])
            moved = new[p["lora_E"]]
            zeroed = moved * cast_to(moved.dtype, kept)[:, None]
            found |= {p["kept"]: kept, p["lora_E"]: Where()(chooses | late, zeroed, moved)}
        return found

    def _plan(self, n_all: int, target: int) -> tuple[Array, Array, Array]:
        """Return by step how many parts are dropped, whether they are chosen, and measured."""
        last = self.total_step - self.tfinal
        dropped = np.ones(self.total_step + 1, np.int64)
        chooses = np.zeros(self.total_step + 1, bool)
        for step in range(self.tinit + 1, last + 1):
            left = 1 - (step - self.tinit) / (last - self.tinit)
            dropped[step] = n_all - int((n_all - target) * left**3 + target)
            chooses[step] = (step % self.delta_t == 0 or step == last) and dropped[step] > 0
        return np.maximum(dropped, 1), chooses, np.arange(self.total_step + 1) < last

    # -- what is left ----------------------------------------------------------------------------

    def kept(self, adapted: Built) -> dict[str, Array]:
        """Return which parts of each place are on, bool[r]."""
        values = adapted.graph.values
        return {place: values[p["kept"].name].copy() for place, p in adapted.variables.items()}

    def ranks(self, adapted: Built) -> dict[str, int]:
        """Return how many parts of each place are on."""
        return {place: int(kept.sum()) for place, kept in self.kept(adapted).items()}

    def compacted(self, adapted: Built) -> tuple[Adapter, Mapping[str, Mapping[str, Array]]] | None:
        values, kept = adapted.graph.values, self.kept(adapted)
        smaller = {"": {leaf: values[t.name] for leaf, t in adapted.shared.items()}}
        for place, p in adapted.variables.items():
            smaller[place] = {
                leaf: values[t.name].compress(
                    kept[place], axis=1 if leaf.startswith("lora_B") else 0
                )
                for leaf, t in p.items()
            }
        ranks = {place: int(on.sum()) for place, on in kept.items()}
        return replace(self, rank_pattern={re.escape(k): r for k, r in ranks.items()}), smaller
