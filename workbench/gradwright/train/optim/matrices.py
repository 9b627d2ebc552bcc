"""Optimizers of matrices as a whole: Adafactor, Muon."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import TrainingError
from ...graph import Tensor
from ...spec import at_least_float32
from ...words.jsonable import jsonable
from .base import Number, Optimizer, Slot, applied, sizes, zeros


@jsonable
@dataclass
class Adafactor(Optimizer):
    """Second moments by row and column, steps relative to the weights (Shazeer & Stern 2018).

    torch has δ negative: ``beta2_decay=-0.8`` there is 0.8 here.

    β = 1 − t^−δ;  of a matrix:  r ← β·r + (1 − β)·meanⱼ (g² + ε₁),  c alike over i,
    v = r·cᵀ/mean(r);  else  v ← β·v + (1 − β)·(g² + ε₁)
    u = g/√v        u ← u/max(1, rms(u)/d)        p ← p·(1 − lr·λ) − α·u
    α = max(ε₂, rms(p))·ρ,  ρ = min(lr, 1/√t)

    arXiv:1804.04235, without its optional momentum. The learning rate, and a group's multiplier on
    it, bound the paper's rate 1/√t; without ``relative_step`` ρ is lr, without ``scale_parameter``
    α is ρ. Of more than two axes the last two are the matrix, as in torch; optax takes the two
    largest, and none below 128. ε₁ is added to g² as in the paper and optax; torch bounds v by it.

    State: ``rows`` and ``columns``; ``v`` of vectors and scalars.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (2, 3), init=2.0)
    >>> trainer = gw.Trainer(g, (w * w).sum(), optimizer=gw.optim.Adafactor(0.25))
    >>> record = trainer.step({})           # a step of 0.25 of the weights' size
    >>> g.values["w"][0].round(4).tolist(), trainer.state_dict()["state/w/rows"].shape
    ([1.5, 1.5, 1.5], (2,))
    """

    learning_rate: Number = 1e-2
    beta2_decay: Number = 0.8
    eps1: Number = 1e-30
    eps2: Number = 1e-3
    clip_threshold: Number = 1.0
    relative_step: bool = True
    scale_parameter: bool = True
    weight_decay: Number = 0.0
    counts = True

    def check(self) -> None:
        """Raise TrainingError for hyperparameters that make no sense."""
        super().check()
        if not self.clip_threshold:
            raise TrainingError(
                "Adafactor: clip_threshold=0 allows no step", need="> 0", hint="1e30 never clips"
            )

    def state(self, param: Tensor) -> dict[str, Slot]:
        """Return ``rows`` and ``columns`` of matrices, ``v`` of the rest."""
        shape, wide = sizes(param), at_least_float32(param.dtype)
        if len(shape) < 2:
            return {"v": zeros(param)}
        columns = (*shape[:-2], shape[-1])
        return {"rows": Slot(shape[:-1], wide), "columns": Slot(columns, wide)}

    def update(
        self,
        param: Tensor,
        grad: Tensor,
        slots: Sequence[Tensor],
        scalars: Mapping[str, Tensor],
    ) -> Sequence[Tensor]:
        """Return the new parameter and its new slots; of no elements there is no mean."""
        if 0 in sizes(param):
            return (param, *slots)
        name = "adafactor_update" if len(slots) == 1 else "adafactor_matrix_update"
        attributes: dict[str, Any] = {
            "relative_step": self.relative_step,
            "scale_parameter": self.scale_parameter,
        }
        return applied(name, attributes, param, grad, slots, scalars)


@jsonable
@dataclass
class Muon(Optimizer):
    """Orthogonal steps along the momentum, of matrices alone (Jordan et al. 2024).

    Defaults of torch: ``weight_decay=0.1, outputs="rows"``, its weights being f32[out, in].

    m ← μ·m + (1 − μ)·g        n = μ·m + (1 − μ)·g with ``nesterov``, else m
    p ← p·(1 − lr·λ) − lr·s·newton_schulz(n), a quintic iteration of ``steps`` steps

    s is √max(1, outputs/inputs) for ``scaling="original"``, 0.2·√max(outputs, inputs) for
    ``"match_rms_adamw"`` (Liu et al. 2025, arXiv:2502.16982: then rate and decay of AdamW fit), and
    1 for ``"none"``. ``outputs`` says which axis of a matrix counts them: ``"columns"`` for x @ w,
    as in optax, or ``"rows"``, as in torch. The iteration runs in the dtype of the state; torch's
    runs in bfloat16. optax corrects the bias of the momentum, the authors and torch do not.

    Embeddings, heads, vectors and scalars are meant for another optimizer, by ``groups``: for what
    is no matrix TrainingError is raised. State: ``m``.

    >>> import gradwright as gw, numpy as np
    >>> g = gw.Graph()
    >>> w = g.variable("w", (2, 2), init=np.eye(2))
    >>> trainer = gw.Trainer(g, (w * w).sum(), optimizer=gw.optim.Muon(0.1, steps=12))
    >>> record = trainer.step({})           # a step whose singular values are all near 1
    >>> (abs(np.linalg.norm(g.values["w"] - np.eye(2), 2) - 0.1) < 0.04).item()
    True
    """

    learning_rate: Number = 1e-3
    momentum: Number = 0.95
    nesterov: bool = True
    steps: int = 5
    eps: float = 1e-7
    scaling: str = "original"
    outputs: str = "columns"
    weight_decay: Number = 0.0
    op = "muon_update"
    fixed = frozenset({"steps", "eps"})

    def check(self) -> None:
        """Raise TrainingError for hyperparameters that make no sense."""
        super().check()
        known = {
            "scaling": ("original", "match_rms_adamw", "none"),
            "outputs": ("columns", "rows"),
        }
        for name, names in known.items():
            if getattr(self, name) not in names:
                raise TrainingError(
                    f"Muon: {name}={getattr(self, name)!r} is not known",
                    need="one of " + ", ".join(map(repr, names)),
                )

    def state(self, param: Tensor) -> dict[str, Slot]:
        """Return ``m``; raises TrainingError for what is no matrix."""
        if param.rank != 2:
            raise TrainingError(
                f"Muon moves matrices, and {param.name!r} is {param.spec}",
                need="f32[n, m]",
                hint=f"groups=[gw.Group({param.name!r}, optimizer=gw.optim.AdamW())]",
            )
        return {"m": zeros(param)}

    def attributes(self, param: Tensor) -> dict[str, Any]:
        """Return the attributes of ``muon_update`` for a parameter."""
        inputs, outputs = sizes(param) if self.outputs == "columns" else sizes(param)[::-1]
        scale = {
            "original": math.sqrt(max(1.0, outputs / max(inputs, 1))),
            "match_rms_adamw": 0.2 * math.sqrt(max(inputs, outputs)),
            "none": 1.0,
        }[self.scaling]
        given = {"nesterov": self.nesterov, "steps": self.steps, "eps": self.eps}
        return {**given, "scale": scale}
