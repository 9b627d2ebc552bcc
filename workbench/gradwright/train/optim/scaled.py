"""Optimizers that scale each element by the gradients it has had: AdaGrad, AdaDelta, RMSProp."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...graph import Tensor
from ...ops.core.movement import cast_to
from ...words.jsonable import jsonable
from .base import Number, Optimizer, Slot, applied, zeros


@jsonable
@dataclass
class AdaGrad(Optimizer):
    """Steps over the root of all squares so far (Duchi, Hazan & Singer 2011).

    Defaults of torch: ``learning_rate=0.01, eps=1e-10``.

    h ← h + g²        p ← p − lr·g/(√h + ε), with λ·p added to g

    ε stands outside the root, as in torch; optax has it inside. h begins as ``initial``: 0 as in
    torch, where TensorFlow and optax begin at 0.1. State: ``h``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (2,), init=[1.0, -8.0])
    >>> trainer = gw.Trainer(g, (w * w).sum(), optimizer=gw.optim.AdaGrad(0.5))
    >>> record = trainer.step({})
    >>> g.values["w"].round(4).tolist()
    [0.5, -7.5]
    """

    learning_rate: Number = 0.1
    eps: Number = 1e-6
    initial: float = 0.0
    weight_decay: Number = 0.0
    op = "adagrad_update"
    fixed = frozenset({"initial"})
    by_rows = True

    def state(self, param: Tensor) -> dict[str, Slot]:
        """Return ``h``."""
        return {"h": zeros(param, self.initial)}


@jsonable
@dataclass
class AdaDelta(Optimizer):
    """Steps that have the parameter's unit, of a rate they find themselves (Zeiler 2012).

    Default of torch: ``rho=0.9``.

    s ← ρ·s + (1 − ρ)·g²        u = √(d + ε)/√(s + ε)·g
    d ← ρ·d + (1 − ρ)·u²        p ← p − lr·u, with λ·p added to g

    The paper (arXiv:1212.5701) has no learning rate, which is lr = 1; another one, a schedule or a
    group's multiplier scales the step u that it finds. State: ``s``, ``d``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (), init=1.0)
    >>> trainer = gw.Trainer(g, w * w, optimizer=gw.optim.AdaDelta())
    >>> record = trainer.step({})
    >>> print(g.values["w"].round(5))
    0.99553
    """

    learning_rate: Number = 1.0
    rho: Number = 0.95
    eps: Number = 1e-6
    weight_decay: Number = 0.0
    op = "adadelta_update"
    slots = ("s", "d")


@jsonable
@dataclass
class RMSProp(Optimizer):
    """Gradient over the root of its mean square (Tieleman & Hinton 2012).

    Defaults of torch: ``learning_rate=0.01, rho=0.99``.

    v ← ρ·v + (1 − ρ)·g²        d = g/(√v + ε), with λ·p added to g
    p ← p − lr·d;        with momentum: u ← μ·u + d,  p ← p − lr·u

    ``centered``: g/(√(v − a²) + ε) with a ← ρ·a + (1 − ρ)·g (Graves 2013, arXiv:1308.0850).
    ``eps_inside``: ε below the root, as Graves, TensorFlow 1 and optax have it; else as torch. The
    rates are those of Hinton's lecture. State: ``v``; centered ``mean``; with momentum
    ``velocity``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (), init=1.0)
    >>> trainer = gw.Trainer(g, w * w, optimizer=gw.optim.RMSProp(0.1, rho=0.75))
    >>> record = trainer.step({})
    >>> print(g.values["w"].round(4))
    0.8
    """

    learning_rate: Number = 1e-3
    rho: Number = 0.9
    eps: Number = 1e-8
    momentum: Number = 0.0
    centered: bool = False
    eps_inside: bool = False
    weight_decay: Number = 0.0
    switches = frozenset({"momentum"})

    def state(self, param: Tensor) -> dict[str, Slot]:
        """Return ``v``, and ``mean`` and ``velocity`` where they are needed."""
        names = ["v"] + ["mean"] * self.centered + ["velocity"] * bool(self.momentum)
        return dict.fromkeys(names, zeros(param))

    def update(
        self,
        param: Tensor,
        grad: Tensor,
        slots: Sequence[Tensor],
        scalars: Mapping[str, Tensor],
    ) -> Sequence[Tensor]:
        """Return the new parameter and its new slots."""
        op = "centered_rmsprop_update" if self.centered else "rmsprop_update"
        attributes: dict[str, Any] = {"eps_inside": self.eps_inside}
        if not self.momentum:
            return applied(op, attributes, param, grad, slots, scalars)
        *squares, velocity = slots
        work = velocity.dtype
        # The velocity moves as a parameter does, with a rate of -1: μ·u − (−1)·d.
        back = {**scalars, "learning_rate": param.graph.constant(-1.0, dtype="float64")}
        del back["weight_decay"]
        decay = cast_to(work, scalars["weight_decay"]) * cast_to(work, param)
        wide = cast_to(work, grad) + decay
        faded = cast_to(work, scalars["momentum"]) * velocity
        velocity, *squares = applied(op, attributes, faded, wide, squares, back)
        forward = {"learning_rate": scalars["learning_rate"]}
        (moved,) = applied("sgd_update", {}, param, velocity, (), forward)
        return (moved, *squares, velocity)
