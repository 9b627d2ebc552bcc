"""TurboQuant: keys and values as directions in few bits, after one random rotation."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import ZERO, Cotangent, ErrorSample, Op, Sample, attr
from ...spec import AnyDim, TensorSpec, check_floats, differ, kind, promote
from ..core.choice import Where
from ..core.index import Gather
from ..core.special import normal_cdf, widened
from .attention import Attention
from .weights import VisibleKeys, check_heads

Array = np.ndarray[Any, Any]
BITS = (1, 2, 3, 4)


@functools.cache
def levels(bits: int) -> tuple[float, ...]:
    """Return the numbers that stand for a standard normal with least squared error (Max 1960).

    Lloyd's steps: each level is the mean of what is nearest to it, until nothing moves.
    """
    half = 1 << (bits - 1)
    level = np.linspace(0.1, 2.5, half)
    step = np.inf
    while step > 1e-14:  # after 2, 60, 217 and 782 steps: within 1e-12 of where they end
        border = np.concatenate([[0.0], (level[1:] + level[:-1]) / 2, [np.inf]])
        density = np.exp(-np.square(border) / 2) / np.sqrt(2 * np.pi)
        before, level = level, (density[:-1] - density[1:]) / np.diff(normal_cdf(border))
        step = np.abs(level - before).max()
    return (*(-level[::-1]).tolist(), *level.tolist())


class TurboQuantize(Op):
    """Length of each vector, and its direction in few bits a feature (Zandieh et al. 2025).

    norm = ‖x‖,  code = index of the level nearest to √D·(x/norm @ rotationᵀ)

    x: f32[…, D], rotation: f32[D, D] orthogonal and random, so that the features of any direction
    are nearly normal; levels are the best for that. Returns codes: i8[…, D] and norm: f32[…].
    Gradients flow through the norm; codes are integers.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, turn = g.constant([[3.0, -4.0]]), g.constant([[1.0, 0.0], [0.0, 1.0]])
    >>> codes, norm = gw.nn.turbo_quantize(x, turn, bits=1, name="q")
    >>> [a.tolist() for a in g.output({}, codes, norm).values()]
    [[[1, 0]], [5.0]]
    """

    namespace = "nn"
    returns = "codes", "norms"
    bits: int = attr(4, doc="Bits of a code.", choices=BITS)

    def infer(self, x: TensorSpec, rotation: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        check_floats("turbo_quantize", x, rotation)
        if not x.rank:
            raise ShapeError("turbo_quantize takes vectors", need="f32[..., D]")
        check_rotation(rotation, x.shape[-1])
        return x.with_dtype("int8"), x.with_shape(x.shape[:-1])

    def forward(self, x: Any, rotation: Any) -> Any:
        wide = widened(x)
        norm = np.sqrt(np.square(wide).sum(-1))
        unit = wide / np.where(norm == 0, 1, norm)[..., None]
        level = np.array(levels(self.bits))
        turned = unit @ widened(rotation).T * np.sqrt(x.shape[-1])
        codes = np.searchsorted((level[1:] + level[:-1]) / 2, turned)
        return codes.astype(np.int8), norm.astype(x.dtype)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        g, x, norm = gs[1], xs[0], ys[1]
        if g is ZERO:
            return ZERO, ZERO
        return (g / Where()(norm == 0.0, 1.0, norm))[..., None] * x, ZERO

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        turn = np.linalg.qr(rng.standard_normal((4, 4)))[0]
        x = rng.standard_normal((2, 3, 4))
        yield Sample((x, turn))
        yield Sample((x * 0.0, turn), {"bits": 1}, smooth=False)
        yield Sample((x[:0], turn), {"bits": 2})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x = TensorSpec((3, 4))
        yield ErrorSample((x, x), {}, "rotation does not fit")
        yield ErrorSample(
            (TensorSpec((3, 4), "int32"), TensorSpec((4, 4), "int32")), {}, "not take"
        )


class TurboQuantAttention(Op):
    """Attention to keys and values that are kept in a few bits a feature (Zandieh et al. 2025).

    K = norm·level[code] @ rotation/√D, V likewise,  y = softmax(query @ Kᵀ·scale) @ V

    query: f32[B, Hq, T, D]; key_codes: i8[B, H, S, D] and key_norms: f32[B, H, S], and those of the
    values, from ``turbo_quantize``, with the same rotation: f32[D, D]. Queries are rotated, and
    results rotated back, so that keys and values never are. nonpad_kv_seqlen: i64[B] or i64[] says
    how many keys of a cache exist; query i stands at S − T + i, or nonpad_kv_seqlen − T + i.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, turn = g.placeholder("x", (1, 2, 5, 8)), g.placeholder("turn", (8, 8))
    >>> kv = gw.nn.turbo_quantize(x, turn)
    >>> gw.nn.turbo_quant_attention(x, *kv, *kv, turn).shape
    (1, 2, 5, 8)
    """

    namespace = "nn"
    bits: int = attr(4, doc="Bits of a code.", choices=BITS)
    is_causal: bool = attr(False, doc="Hide the keys behind each query.")
    scale: float | None = attr(None, doc="Factor of the scores; None is 1/√D.")

    def infer(
        self,
        query: TensorSpec,
        key_codes: TensorSpec,
        key_norms: TensorSpec,
        value_codes: TensorSpec,
        value_norms: TensorSpec,
        rotation: TensorSpec,
        nonpad_kv_seqlen: TensorSpec | None = None,
    ) -> TensorSpec:
        check_floats("attention", query, key_norms, value_norms, rotation)
        joint = promote(promote(query.dtype, key_norms.dtype), value_norms.dtype)
        k, v = key_codes.with_dtype(joint), value_codes.with_dtype(joint)
        if kind(key_codes.dtype) not in "iu" or kind(value_codes.dtype) not in "iu":
            raise DTypeError("codes are no integers", need="i8[B, H, S, D]")
        check_heads(query, k, v)
        for norms, codes in ((key_norms, k), (value_norms, v)):
            if norms.rank != 3 or any(map(differ, norms.shape, codes.shape)):
                raise ShapeError("there is not one norm per position", need=str(codes.shape[:3]))
        if differ(k.shape[3], v.shape[3]):
            raise ShapeError("keys and values share a rotation", need="equally many features")
        check_rotation(rotation, query.shape[3])
        if nonpad_kv_seqlen is not None:
            VisibleKeys().infer(TensorSpec((*query.shape[:3], k.shape[2])), nonpad_kv_seqlen)
        return TensorSpec(query.shape, promote(joint, rotation.dtype))

    def expand(
        self,
        query: Any,
        key_codes: Any,
        key_norms: Any,
        value_codes: Any,
        value_norms: Any,
        rotation: Any,
        nonpad_kv_seqlen: Any = None,
    ) -> Any:
        length, d = nonpad_kv_seqlen, int(query.shape[3])
        if length is None:
            length = query.graph.constant(np.int64(int(key_codes.shape[2])))
        level = np.array(levels(self.bits)) / np.sqrt(max(d, 1))

        def vectors(codes: Any, norms: Any) -> Any:
            table = query.graph.constant(level.astype(norms.dtype))
            return Gather()(table, codes) * norms[..., None]

        op = Attention(is_causal=self.is_causal, scale=self.scale)
        k, v = vectors(key_codes, key_norms), vectors(value_codes, value_norms)
        y = op(query @ rotation.mT, k, v, None, None, None, length)[0]
        return y @ rotation

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        turn = np.linalg.qr(rng.standard_normal((4, 4)))[0]
        query = rng.standard_normal((1, 2, 2, 4))
        k, v = (TurboQuantize().forward(rng.standard_normal((1, 1, 3, 4)), turn) for _ in "kv")
        yield Sample((query, *k, *v, turn))
        yield Sample((query, *k, *v, turn, np.array([2])), {"is_causal": True, "scale": 0.4})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        q, codes = TensorSpec((1, 2, 3, 4)), TensorSpec((1, 2, 3, 4), "int8")
        norms, turn = TensorSpec((1, 2, 3)), TensorSpec((4, 4))
        yield ErrorSample((q, q, norms, codes, norms, turn), {}, "codes are no integers")
        yield ErrorSample((q, codes, q, codes, norms, turn), {}, "one norm per position")
        yield ErrorSample((q, codes, norms, codes, norms, q), {}, "rotation does not fit")


def check_rotation(rotation: TensorSpec, features: AnyDim) -> None:
    """Refuse what is no square matrix of these features."""
    if rotation.rank != 2 or any(differ(d, features) for d in rotation.shape):
        raise ShapeError("rotation does not fit", need=f"f32[{features}, {features}]")
