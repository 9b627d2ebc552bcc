"""Convolution along time that sees the past only, and hands on what it has seen."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import Autocast, ErrorSample, OnnxRule, Op, Sample, WeightSite, attr
from ...spec import TensorSpec, differ, kind
from ..core.activation import Silu
from ..core.joining import Concat
from ..core.like import ZerosLike
from .halves import narrowed, wide


class CausalConv1d(Op):
    """Convolution of each channel along time, over this element and those before it.

    y[b, c, t] = f(bias[c] + Σ_j weight[c, 0, j]·x[b, c, t + j − k + 1]), with past_state before x

    x: f32[B, C, T], weight: f32[C, 1, k], bias: f32[C], past_state: f32[B, C, k − 1], else 0
    -> y: f32[B, C, T] and the state to go on with: f32[B, C, k − 1], the last elements of the past
    and x. f is SiLU or nothing. Raises ShapeError where these differ (ONNX
    CausalConvWithState-27; Gu and Dao 2023).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[[1.0, 2.0, 3.0]]]), g.constant([[[10.0, 1.0]]])
    >>> y, state = gw.nn.causal_conv1d(x, w, name="conv")
    >>> [a.tolist() for a in g.output({}, y, state).values()]
    [[[[1.0, 12.0, 23.0]]], [[[3.0]]]]
    """

    namespace = "nn"
    drawing = "linear"
    autocast = Autocast.CONVOLUTION
    activation: str = attr("none", doc="The function f.", choices=("none", "silu", "swish"))
    onnx = OnnxRule("CausalConvWithState", since=27)

    def infer(
        self,
        x: TensorSpec,
        weight: TensorSpec,
        bias: TensorSpec | None = None,
        past_state: TensorSpec | None = None,
    ) -> Any:
        if x.rank != 3 or kind(x.dtype) != "f":
            raise DTypeError(f"{self.name} does not take {x}", need="f32[B, C, T]")
        channels = x.shape[1]
        if (
            weight.rank != 3
            or differ(weight.shape[0], channels)
            or differ(weight.shape[1], 1)
            or not isinstance(weight.shape[2], int)
            or not weight.shape[2]
        ):
            raise ShapeError("weight does not fit", need=f"[{channels}, 1, k]", facts=[f"{weight}"])
        if bias is not None and (bias.rank != 1 or differ(bias.shape[0], channels)):
            raise ShapeError("bias does not fit", need=f"[{channels}]", facts=[f"bias: {bias}"])
        state = (*x.shape[:2], weight.shape[2] - 1)
        if past_state is not None and (
            past_state.rank != 3 or any(map(differ, past_state.shape, state))
        ):
            raise ShapeError("past_state does not fit", need=f"{state}", facts=[f"{past_state}"])
        return super().infer(x, weight, bias, past_state)

    def expand(self, x: Any, weight: Any, bias: Any = None, past_state: Any = None) -> Any:
        k, given = int(weight.shape[2]), x
        x, weight, bias, past_state = wide(x, weight, bias, past_state)
        whole, state = x, past_state
        if k > 1:
            if past_state is None:
                nothing = ZerosLike()(x.sum(2, keepdims=True))
                past_state = Concat(axis=2)(*[nothing] * (k - 1))
            whole = Concat(axis=2)(past_state, x)
            state = whole[:, :, -(k - 1) :]
        elif past_state is None:
            state = ZerosLike()(x[:, :, :0])
        y = None
        for j in range(k):
            part = whole[:, :, j : (j - k + 1) or None] * weight[:, :, j]
            y = part if y is None else y + part
        if bias is not None:
            y = y + bias.expand_dims(1)
        return narrowed(given, y if self.activation == "none" else Silu()(y), state)

    def weight_sites(self) -> tuple[WeightSite, ...]:
        return (WeightSite(1, "out,in,w", "conv1d"),)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x, w, b, past = (rng.standard_normal(s) for s in ((2, 2, 3), (2, 1, 3), (2,), (2, 2, 2)))
        yield Sample((x, w))
        yield Sample((x, w, b, past), {"activation": "silu"})
        yield Sample((x[:, :, :1], w[:, :, :1], b))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, w = TensorSpec((2, 3, 5)), TensorSpec((3, 1, 4))
        yield ErrorSample((x, TensorSpec((4, 1, 4))), {}, "weight does not fit")
        yield ErrorSample((x, w, TensorSpec((4,))), {}, "bias does not fit")
        yield ErrorSample((x, w, None, TensorSpec((2, 3, 4))), {}, "past_state does not fit")
        yield ErrorSample((TensorSpec((3, 5)), w), {}, "does not take")
