"""Adam with moments of 8 bits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import Cotangent, ErrorSample, Op, Sample, attr
from ...spec import TensorSpec, at_least_float32, differ, kind, shapes_differ
from ...spec.rounding import rounded
from ..quantised.nf4 import FROZEN, blocks, check_blocks, codes, count, dynamic_map


class Adam8bitUpdate(Op):
    """Adam whose moments are stored as 8 bits each and a scale per block (Dettmers et al. 2022).

    m ← β₁·m + (1 − β₁)·g        v ← β₂·v + (1 − β₂)·g²
    p ← p·(1 − lr·λ) − lr/(1 − β₁ᵗ) · m / (√v / √(1 − β₂ᵗ) + ε)

    The moments are read from codes of the dynamic type times their block's absmax, the signed type
    for m and the unsigned one for v; the parameter moves by the new moments before those are
    rounded to codes again (arXiv:2110.02861). They begin as codes of 0: 127 for m and 0 for v.

    param, grad: f32[…] of n elements; m, v: u8[…]; m_absmax, v_absmax: f32[⌈n/block_size⌉].

    >>> import gradwright as gw, numpy as np
    >>> g = gw.Graph()
    >>> p, dp, one = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0]))
    >>> m, v = (g.constant(np.full(2, code, "uint8")) for code in (127, 0))
    >>> p, *states = gw.training.adam8bit_update(
    ...     p, dp, m, one, v, one, 1, 0.1, 0.9, 0.999, 1e-8, 0.0, name="p"
    ... )
    >>> g.output({}, p)["p"].round(3)
    array([ 0.9, -1.1], dtype=float32)
    """

    namespace = "training"
    returns = "param", "m", "m_absmax", "v", "v_absmax"
    block_size: int = attr(256, doc="Elements that share a scale.")

    def infer(
        self,
        param: TensorSpec,
        grad: TensorSpec,
        m: TensorSpec,
        m_absmax: TensorSpec,
        v: TensorSpec,
        v_absmax: TensorSpec,
        step: TensorSpec,
        learning_rate: TensorSpec,
        beta1: TensorSpec,
        beta2: TensorSpec,
        eps: TensorSpec,
        weight_decay: TensorSpec,
    ) -> tuple[TensorSpec, ...]:
        check_blocks(self, self.block_size)
        n = blocks(count(param.shape), self.block_size)
        for name, x in (("param", param), ("grad", grad)):
            if kind(x.dtype) != "f":
                raise DTypeError(f"{name} cannot be {x.dtype}", need="a floating dtype")
        for name, x in (("grad", grad), ("m", m), ("v", v)):
            if shapes_differ(x.shape, param.shape):
                raise ShapeError(f"{name} has another shape than the parameter", need=str(param))
        for name, code, absmax in (("m", m, m_absmax), ("v", v, v_absmax)):
            if code.dtype != np.dtype("uint8") or kind(absmax.dtype) != "f":
                raise DTypeError(f"{name} is {code}, of {absmax}", need="u8[…] codes, f32[…]")
            if absmax.rank != 1 or differ(absmax.shape[0], n):
                raise ShapeError(f"{name}_absmax is {absmax}", need=f"f32[{n}]")
        numbers = (step, learning_rate, beta1, beta2, eps, weight_decay)
        for p, x in zip(self.inputs[6:], numbers, strict=True):
            if x.rank:
                raise ShapeError(f"{p.name} must be a scalar", need="a 0-d tensor")
        moved = (param, m, m_absmax, v, v_absmax)
        return tuple(x.with_shape(x.shape) for x in moved)

    def forward(
        self,
        param: Any,
        grad: Any,
        m: Any,
        m_absmax: Any,
        v: Any,
        v_absmax: Any,
        step: Any,
        learning_rate: Any,
        beta1: Any,
        beta2: Any,
        eps: Any,
        weight_decay: Any,
    ) -> Any:
        work = at_least_float32(param.dtype)
        p, g = param.astype(work, copy=False), grad.astype(np.float32, copy=False)
        lr, b1, b2, t = float(learning_rate), float(beta1), float(beta2), float(step)
        m1 = self.read(m, m_absmax, signed=True)
        v1 = self.read(v, v_absmax, signed=False)
        m1 = b1 * m1 + (1 - b1) * g
        v1 = b2 * v1 + (1 - b2) * (g * g)
        with np.errstate(divide="ignore", invalid="ignore"):
            rate, root = np.float64(lr) / (1 - b1**t), np.float64(1 - b2**t) ** 0.5
            scale = np.sqrt(v1) * float(1 / root) + float(eps)
            p = p * (1 - lr * float(weight_decay)) - (m1 / scale) * float(rate)
        new_m, m_scale = codes(m1, dynamic_map(), self.block_size)
        new_v, v_scale = codes(v1, dynamic_map(signed=False), self.block_size)
        return (
            rounded(p, param.dtype),
            new_m.reshape(m.shape),
            rounded(m_scale, m_absmax.dtype),
            new_v.reshape(v.shape),
            rounded(v_scale, v_absmax.dtype),
        )

    def read(self, code: Any, absmax: Any, *, signed: bool) -> Any:
        """Return what codes stand for, as float32."""
        y = dynamic_map(signed=signed)[code.ravel()]
        y *= np.repeat(absmax.astype(np.float32, copy=False), self.block_size)[: y.size]
        return y.reshape(code.shape)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return [FROZEN] * len(xs)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        numbers = [np.asarray(x) for x in (3, 0.1, 0.9, 0.99, 1e-8, 0.01)]
        for shape in ((3, 5), (), (0, 2)):
            n = int(np.prod(shape))
            p, g = rng.standard_normal(shape), rng.standard_normal(shape)
            state = []
            for _ in range(2):
                state.append(rng.integers(0, 256, shape).astype("u1"))
                state.append(rng.uniform(0.5, 1, -(-n // 4)).astype("f4"))
            yield Sample((p, g, *state, *numbers), {"block_size": 4}, smooth=False)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        p, code, scale = TensorSpec((4,)), TensorSpec((4,), "uint8"), TensorSpec((1,))
        numbers = [TensorSpec(())] * 6
        good = (code, scale, code, scale)
        yield ErrorSample((p, p, *good, *numbers), {"block_size": 5}, "block_size 5")
        yield ErrorSample((p, scale, *good, *numbers), {}, "grad has another shape")
        yield ErrorSample((p, code, *good, *numbers), {}, "grad cannot be uint8")
        yield ErrorSample((p, p, p, scale, code, scale, *numbers), {}, "m is f32")
        yield ErrorSample((p, p, code, p, code, scale, *numbers), {}, "m_absmax is")
        yield ErrorSample((p, p, *good, scale, *numbers[1:]), {}, "step must be a scalar")
