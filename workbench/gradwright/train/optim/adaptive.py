"""Adam and what came of it: two running moments of the gradient, and a step by their quotient.

t counts the updates of the parameter itself: one that is unfrozen late starts at 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ...errors import TrainingError
from ...graph import Tensor
from ...op import find_op
from ...ops.core.exponential import Sqrt
from ...ops.core.movement import cast_to
from ...ops.updates.base import FLOAT64
from ...words.jsonable import jsonable
from .base import Number, Optimizer, Slot, applied, sizes


@jsonable
@dataclass
class Adam(Optimizer):
    """Adam (Kingma & Ba 2015, arXiv:1412.6980).

    m ← β₁·m + (1 − β₁)·g        v ← β₂·v + (1 − β₂)·g²
    p ← p − lr · m/(1 − β₁ᵗ) / (√(v/(1 − β₂ᵗ)) + ε)

    t counts the updates of the parameter itself: one that is unfrozen late starts at 1. State:
    ``m``, ``v``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (2,), init=[1.0, -8.0])
    >>> trainer = gw.Trainer(g, (w * w).sum(), optimizer=gw.optim.Adam(0.5))
    >>> record = trainer.step({})           # the first step is lr·sign(g)
    >>> g.values["w"].round(4).tolist()
    [0.5, -7.5]
    """

    learning_rate: Number = 1e-3
    beta1: Number = 0.9
    beta2: Number = 0.999
    eps: Number = 1e-8
    op = "adam_update"
    slots: ClassVar[tuple[str, ...]] = ("m", "v")
    counts = True


@jsonable
@dataclass
class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019, arXiv:1711.05101).

    p ← p·(1 − lr·λ) − lr · m/(1 − β₁ᵗ) / (√(v/(1 − β₂ᵗ)) + ε)

    State: ``m``, ``v``.

    >>> import gradwright as gw
    >>> gw.optim.AdamW(gw.schedules.Cosine(1e-3, steps=1000, warmup=100)).scalars()
    {'beta1': 0.9, 'beta2': 0.999, 'eps': 1e-08, 'weight_decay': 0.01}
    """

    weight_decay: Number = 0.01


@jsonable
@dataclass
class SparseAdam(Adam):
    """Adam of the rows of a table that a batch names; the others keep their moments (lazy Adam).

    m ← β₁·m + (1 − β₁)·g        v ← β₂·v + (1 − β₂)·g²        of rows that are looked up
    p ← p − lr·√(1 − β₂ᵗ)/(1 − β₁ᵗ) · m/(√v + ε)

    As torch.optim.SparseAdam, which has ε there. t counts all updates. Of a parameter that is not
    only looked up every row counts as named: its steps are Adam's; so it is in a window of
    ``Accumulation`` whose batches have no stated size. State: ``m``, ``v``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> table = g.variable("table", (3, 1), init=1.0)
    >>> y = gw.nn.embedding(g.constant([2, 2]), table)
    >>> trainer = gw.Trainer(g, (y * y).sum(), optimizer=gw.optim.SparseAdam(0.5))
    >>> record = trainer.step({})
    >>> g.values["table"].round(4).tolist()
    [[1.0], [1.0], [0.5]]
    """

    by_rows = True

    def update(
        self,
        param: Tensor,
        grad: Tensor,
        slots: Sequence[Tensor],
        scalars: Mapping[str, Tensor],
    ) -> Sequence[Tensor]:
        """Return the new parameter and its new slots."""
        beta2, step = (cast_to(FLOAT64, scalars[name]) for name in ("beta2", "step"))
        eps = scalars["eps"] / Sqrt()(1.0 - beta2**step)
        return applied("adam_update", {}, param, grad, slots, {**scalars, "eps": eps})


@jsonable
@dataclass
class AMSGrad(Adam):
    """Adam whose steps never grow again, with decoupled decay (Reddi, Kale & Kumar 2018).

    torch's ``Adam(amsgrad=True)`` adds the decay to g.

    m ← β₁·m + (1 − β₁)·g        v ← β₂·v + (1 − β₂)·g²        h ← max(h, v)
    p ← p·(1 − lr·λ) − lr · m/(1 − β₁ᵗ) / (√(h/(1 − β₂ᵗ)) + ε)

    The paper corrects no bias. torch, followed here, takes the largest v and corrects it; optax
    takes the largest corrected v. State: ``m``, ``v``, ``largest``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (2,), init=[1.0, -8.0])
    >>> trainer = gw.Trainer(g, (w * w).sum(), optimizer=gw.optim.AMSGrad(0.5))
    >>> record = trainer.step({})
    >>> g.values["w"].round(4).tolist()
    [0.5, -7.5]
    """

    weight_decay: Number = 0.0
    op = "amsgrad_update"
    slots = ("m", "v", "largest")


@jsonable
@dataclass
class AdaMax(Adam):
    """Adam with the largest gradient in place of the mean square (Kingma & Ba 2015, §7.1).

    Default of torch: ``learning_rate=0.002``.

    m ← β₁·m + (1 − β₁)·g        u ← max(β₂·u, |g| + ε)
    p ← p − lr/(1 − β₁ᵗ)·m/u, with λ·p added to g

    The paper has no ε; torch and optax add it where this does. State: ``m``, ``u``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (2,), init=[1.0, -8.0])
    >>> trainer = gw.Trainer(g, (w * w).sum(), optimizer=gw.optim.AdaMax(0.5))
    >>> record = trainer.step({})
    >>> g.values["w"].round(4).tolist()
    [0.5, -7.5]
    """

    weight_decay: Number = 0.0
    op = "adamax_update"
    slots = ("m", "u")


@jsonable
@dataclass
class Nadam(Adam):
    """Adam with Nesterov's momentum, with decoupled decay (Dozat 2016).

    Defaults of torch: ``learning_rate=0.002, momentum_decay=0.004``; it adds the decay to g.

    m ← β₁·m + (1 − β₁)·g        v ← β₂·v + (1 − β₂)·g²
    n = β₁·m/(1 − β₁ᵗ⁺¹) + (1 − β₁)·g/(1 − β₁ᵗ)
    p ← p·(1 − lr·λ) − lr · n / (√(v/(1 − β₂ᵗ)) + ε)

    So with a constant β₁, as in optax. With ``momentum_decay`` ψ (0.004 in the paper and torch) the
    momentum warms up: μₜ = β₁·(1 − ½·0.96^(t·ψ)), Π = μ₁·…·μₜ,
    n = μₜ₊₁·m/(1 − Π·μₜ₊₁) + (1 − μₜ)·g/(1 − Π).

    State: ``m``, ``v``; with ``momentum_decay`` one number more, ``product``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (2,), init=[1.0, -8.0])
    >>> trainer = gw.Trainer(g, (w * w).sum(), optimizer=gw.optim.Nadam(0.5))
    >>> record = trainer.step({})
    >>> print(g.values["w"].round(4))
    [ 0.2632 -7.2632]
    """

    momentum_decay: Number | None = None
    weight_decay: Number = 0.0
    op = "nadam_update"
    switches = frozenset({"momentum_decay"})

    def state(self, param: Tensor) -> dict[str, Slot]:
        """Return ``m``, ``v`` and, where the momentum warms up, ``product``."""
        product = {} if self.momentum_decay is None else {"product": Slot((), "float64", 1.0)}
        return super().state(param) | product

    def update(
        self,
        param: Tensor,
        grad: Tensor,
        slots: Sequence[Tensor],
        scalars: Mapping[str, Tensor],
    ) -> Sequence[Tensor]:
        """Return the new parameter and its new slots."""
        if self.momentum_decay is None:
            return super().update(param, grad, slots, scalars)
        *moments, product = slots
        names = ("step", "beta1", "momentum_decay")
        of_m, of_grad, product = find_op("nadam_momentum")()(product, *(scalars[n] for n in names))
        given = {**scalars, "share_of_m": of_m, "share_of_grad": of_grad}
        return (*applied("nadam_share_update", {}, param, grad, moments, given), product)


@jsonable
@dataclass
class RAdam(Adam):
    """Adam that waits for its variance to be known (Liu et al. 2020, arXiv:1908.03265).

    m ← β₁·m + (1 − β₁)·g        v ← β₂·v + (1 − β₂)·g²
    p ← p − lr·m/(1 − β₁ᵗ)·r·√(1 − β₂ᵗ)/(√v + ε) for ρ > 5, else p − lr·m/(1 − β₁ᵗ),
    ρ = c − 2t·β₂ᵗ/(1 − β₂ᵗ), c = 2/(1 − β₂) − 1, r² = (ρ−4)(ρ−2)c/((c−4)(c−2)ρ);
    λ·p is added to g

    ε stands where torch has it, beside √v before its correction; optax adds it after. The paper's
    bound is 4, in torch and optax it is 5. State: ``m``, ``v``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (2,), init=[1.0, -8.0])
    >>> trainer = gw.Trainer(g, (w * w).sum(), optimizer=gw.optim.RAdam(0.125))
    >>> record = trainer.step({})           # the first steps are those of SGD
    >>> g.values["w"].round(4).tolist()
    [0.75, -6.0]
    """

    weight_decay: Number = 0.0
    op = "radam_update"


@jsonable
@dataclass
class AdaBelief(Adam):
    """Adam with the variance of gradients in place of their square (Zhuang et al. 2020).

    m ← β₁·m + (1 − β₁)·g        v ← β₂·v + (1 − β₂)·(g − m)² + ε
    p ← p·(1 − lr·λ) − lr · m/(1 − β₁ᵗ) / (√(v/(1 − β₂ᵗ)) + ε)

    arXiv:2010.07468. ε is the 1e-14 of the authors' TensorFlow package; their PyTorch package and
    optax take 1e-16. State: ``m``, ``v``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (2,), init=[1.0, -8.0])
    >>> trainer = gw.Trainer(g, (w * w).sum(), optimizer=gw.optim.AdaBelief(0.45))
    >>> record = trainer.step({})
    >>> g.values["w"].round(4).tolist()
    [0.5, -7.5]
    """

    eps: Number = 1e-14
    weight_decay: Number = 0.0
    op = "adabelief_update"


@jsonable
@dataclass
class LAMB(Adam):
    """Adam whose step has the parameter's length, for large batches (You et al. 2020).

    r = m/(1 − β₁ᵗ) / (√(v/(1 − β₂ᵗ)) + ε) + λ·p, with Adam's m and v
    p ← p − lr·‖p‖/‖r‖·r, or p − lr·r where either length is 0

    arXiv:1904.00962; the bound on ‖p‖ is left out, as in optax. State: ``m``, ``v``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (2,), init=[3.0, -4.0])
    >>> trainer = gw.Trainer(g, (w * w).sum(), optimizer=gw.optim.LAMB(0.1))
    >>> record = trainer.step({})           # a step of length 0.1·5
    >>> print(g.values["w"].round(4))
    [ 2.6464 -3.6464]
    """

    eps: Number = 1e-6
    weight_decay: Number = 0.0
    op = "lamb_update"


@jsonable
@dataclass
class Adam8bit(Adam):
    """AdamW whose moments are 8 bits each (Dettmers et al. 2022, arXiv:2110.02861).

    m, v ← table[code]·absmax of the block, then as AdamW, then rounded to codes again

    Moments are split into blocks of ``block_size`` elements (256 as in later releases of the
    authors' library, 2048 in the paper), each with its largest size; codes stand for numbers of the
    dynamic type, signed for m and unsigned for v. Parameters of fewer than ``min_size`` elements
    keep moments of 32 bits. The paper's stable embedding is a layer and no part of this.

    State: ``m``, ``v`` of uint8 and ``m_absmax``, ``v_absmax``, 2.03 bytes a weight where Adam has
    8; of small parameters ``m``, ``v`` of float32.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (64, 64), init=1.0)
    >>> trainer = gw.Trainer(g, (w * w).sum(), optimizer=gw.optim.Adam8bit(0.25))
    >>> record = trainer.step({})
    >>> g.values["w"][0, 0].round(4).item(), trainer.state_dict()["state/w/m"].dtype
    (0.75, dtype('uint8'))
    """

    weight_decay: Number = 0.0
    block_size: int = 256
    min_size: int = 4096
    fixed = frozenset({"block_size", "min_size"})

    def check(self) -> None:
        """Raise TrainingError for hyperparameters that make no sense."""
        super().check()
        size = self.block_size
        if size < 2 or size & (size - 1):
            raise TrainingError(f"Adam8bit: block_size={size}", need="a power of two, such as 256")

    def state(self, param: Tensor) -> dict[str, Slot]:
        """Return codes and scales, or moments of 32 bits where the parameter is small."""
        shape, n = sizes(param), self._count(param)
        if n < self.min_size:
            return super().state(param)
        scales = Slot((-(-n // self.block_size),), "float32")
        return {
            "m": Slot(shape, "uint8", 127),  # the code of 0
            "m_absmax": scales,
            "v": Slot(shape, "uint8", 0),
            "v_absmax": scales,
        }

    def update(
        self,
        param: Tensor,
        grad: Tensor,
        slots: Sequence[Tensor],
        scalars: Mapping[str, Tensor],
    ) -> Sequence[Tensor]:
        """Return the new parameter and its new slots."""
        if self._count(param) < self.min_size:
            return super().update(param, grad, slots, scalars)
        attributes: dict[str, Any] = {"block_size": self.block_size}
        return applied("adam8bit_update", attributes, param, grad, slots, scalars)

    @staticmethod
    def _count(param: Tensor) -> int:
        return math.prod(sizes(param))
