"""Positions as rotations: RoPE, its scalings to longer contexts, and its forms in several axes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...errors import DTypeError, GraphError, ShapeError
from ...op import LINEAR, ZERO, Cotangent, ErrorSample, OnnxRule, Op, Sample, attr
from ...spec import TensorSpec, broadcast, differ, kind, promote_all, shapes_differ
from ..core.elementwise import promoted
from ..core.index import Gather
from ..core.joining import Concat
from ..core.special import widened

Array = np.ndarray[Any, Any]


class RotatePairs(Op):
    """Pairs of features turned by an angle: the last axis holds two halves, or pairs side by side.

    (y₁, y₂) = (x₁·cos − x₂·sin, x₁·sin + x₂·cos)

    x: f32[…, 2·n], cos and sin: f32[…, n], broadcast against the leading axes of x, which they do
    not extend. Pair i is (xᵢ, xᵢ₊ₙ), or (x₂ᵢ, x₂ᵢ₊₁) if ``interleaved``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> zero, one = g.constant([0.0]), g.constant([1.0])
    >>> y = gw.nn.rotate_pairs(g.constant([[2.0, 5.0]]), zero, one, name="y")
    >>> g.output({}, y)["y"].tolist()
    [[-5.0, 2.0]]
    """

    namespace = "nn"
    dependence = LINEAR
    interleaved: bool = attr(False, doc="Pairs stand side by side.")

    def infer(self, x: TensorSpec, cos: TensorSpec, sin: TensorSpec) -> TensorSpec:
        dtype = promote_all(x, cos, sin)
        if kind(dtype) != "f":
            raise DTypeError(f"rotate_pairs does not take {dtype}", hint="gw.cast(x, 'float32')")
        if not x.rank or not cos.rank or not sin.rank:
            raise ShapeError("rotate_pairs needs features", need="one axis or more")
        half = x.shape[-1] // 2
        angles = broadcast(cos.shape, sin.shape)
        joint = broadcast((*x.shape[:-1], half), angles)
        odd = differ(half * 2, x.shape[-1]) or differ(angles[-1], half)
        if odd or len(joint) > x.rank or any(map(differ, joint, (*x.shape[:-1], half))):
            raise ShapeError(
                "the angles do not fit",
                need=f"cos and sin of half as many features as {x}",
                facts=[f"got {cos} and {sin}"],
            )
        return TensorSpec(x.shape, dtype)

    def forward(self, x: Any, cos: Any, sin: Any) -> Any:
        dtype = promoted(x, cos, sin)
        x, cos, sin = map(widened, (x, cos, sin))
        y = np.empty(x.shape, np.result_type(x, cos, sin))
        (x1, x2), (y1, y2) = self.pairs(x), self.pairs(y)
        np.multiply(x1, cos, out=y1)
        y1 -= x2 * sin
        np.multiply(x1, sin, out=y2)
        y2 += x2 * cos
        return y.astype(dtype, copy=False)

    def pairs(self, x: Any) -> tuple[Any, Any]:
        """Return the first and the second features of all pairs."""
        if self.interleaved:
            return x[..., 0::2], x[..., 1::2]
        half = x.shape[-1] // 2
        return x[..., :half], x[..., half:]

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        (g,), (x, cos, sin) = gs, xs

        def cosine() -> Any:
            (g1, g2), (x1, x2) = self.pairs(g), self.pairs(x)
            return g1 * x1 + g2 * x2

        def sine() -> Any:
            (g1, g2), (x1, x2) = self.pairs(g), self.pairs(x)
            return g2 * x1 - g1 * x2

        return lambda: self.replace()(g, cos, -sin), cosine, sine

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        draw = rng.standard_normal
        yield Sample((draw((2, 3, 4)), draw((3, 2)), draw((3, 2))))
        yield Sample((draw((2, 4)), draw((1, 2)), draw((2, 2))), {"interleaved": True})
        yield Sample((draw((0, 2)), draw(1), draw(1)))

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, c = TensorSpec((2, 4)), TensorSpec((2,))
        yield ErrorSample((TensorSpec((2, 3)), c, c), {}, "the angles do not fit")
        yield ErrorSample((x, TensorSpec((4,)), TensorSpec((4,))), {}, "do not broadcast")
        yield ErrorSample((TensorSpec((2, 4), "int32"),) * 3, {}, "does not take int32")


class Rope(Op):
    """Rotary position embedding with given tables of angles (Su et al. 2021).

    y = x, its first ``rotary_dim`` features rotated in pairs by the angles of a position

    x: f32[B, n, T, D], or f32[B, T, n·D] with ``num_heads``. cos_cache and sin_cache:
    f32[P, D/2] with position_ids: i64[B, T], else f32[B, T, D/2]. ``interleaved`` pairs neighbours
    (GPT-J) rather than halves (GPT-NeoX). ONNX operator RotaryEmbedding-23.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> cos, sin = gw.nn.rope_cos_sin(g.constant(range(16)), dim=4)
    >>> x, at = g.placeholder("x", (1, 2, 3, 4)), g.placeholder("at", (1, 3), "int64")
    >>> gw.nn.rope(x, cos, sin, at).shape
    (1, 2, 3, 4)
    """

    namespace = "nn"
    onnx = OnnxRule("RotaryEmbedding", since=23, rename={"rotary_dim": "rotary_embedding_dim"})
    interleaved: bool = attr(False, doc="Pairs stand side by side.")
    rotary_dim: int = attr(0, doc="How many features are rotated; 0 is all.")
    num_heads: int = attr(0, doc="Heads of packed features.")

    def infer(
        self,
        x: TensorSpec,
        cos_cache: TensorSpec,
        sin_cache: TensorSpec,
        position_ids: TensorSpec | None = None,
    ) -> TensorSpec:
        dtype = promote_all(x, cos_cache, sin_cache)
        if kind(dtype) != "f":
            raise DTypeError(f"rope does not take {dtype}", hint="gw.cast(x, 'float32')")
        if x.rank not in (3, 4):
            raise ShapeError("rope takes sequences", need="f32[B, n, T, D] or f32[B, T, n·D]")
        if x.rank == 3 and self.num_heads < 1:
            raise ShapeError("rope of packed heads needs num_heads", hint="num_heads=8")
        width = x.shape[-1] if x.rank == 4 else x.shape[-1] // self.num_heads
        if x.rank == 3 and differ(width * self.num_heads, x.shape[-1]):
            raise ShapeError(f"{x.shape[-1]} features are not {self.num_heads} heads")
        turned = self.rotary_dim or width
        if isinstance(turned, int) and (
            turned % 2 or turned < 0 or (isinstance(width, int) and turned > width)
        ):
            raise ShapeError(
                f"{turned} features of {width} cannot be rotated", need="an even number"
            )
        b, t = x.shape[0], x.shape[-2]
        if position_ids is not None and (
            kind(position_ids.dtype) not in "iu" or position_ids.rank != 2
        ):
            raise DTypeError("positions are integers", need="position_ids: i64[B, T]")
        if position_ids is not None and any(
            d != 1 and differ(d, n) for d, n in zip(position_ids.shape, (b, t), strict=True)
        ):
            raise ShapeError("position_ids do not fit", need=f"i64[{b}, {t}], got {position_ids}")
        lead = (b, t) if position_ids is None else cos_cache.shape[:1]
        for name, cache in (("cos_cache", cos_cache), ("sin_cache", sin_cache)):
            want = (*lead, turned // 2)
            if shapes_differ(cache.shape, want):
                raise ShapeError(f"{name} does not fit", need=f"f32{list(want)}, got {cache}")
        return TensorSpec(x.shape, dtype)

    def expand(self, x: Any, cos_cache: Any, sin_cache: Any, position_ids: Any = None) -> Any:
        angles = [cos_cache, sin_cache]
        if position_ids is not None:
            angles = [Gather()(table, position_ids) for table in angles]
        shape = x.shape
        if x.rank == 3:
            x = x.reshape(*shape[:2], self.num_heads, -1)
            angles = [a[:, :, None] for a in angles]
        else:
            angles = [a[:, None] for a in angles]
        turn, n = RotatePairs(interleaved=self.interleaved), self.rotary_dim
        y = Concat(axis=-1)(turn(x[..., :n], *angles), x[..., n:]) if n else turn(x, *angles)
        return y.reshape(*shape) if len(shape) == 3 else y

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        draw = rng.standard_normal
        at = np.array([[0, 2], [1, 1]])
        yield Sample((draw((2, 1, 2, 4)), draw((3, 2)), draw((3, 2)), at))
        attrs = {"num_heads": 2, "interleaved": True, "rotary_dim": 2}
        yield Sample((draw((2, 2, 6)), draw((2, 2, 1)), draw((2, 2, 1))), attrs)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, c = TensorSpec((2, 1, 2, 4)), TensorSpec((2, 2, 2))
        yield ErrorSample((TensorSpec((2, 4)), c, c), {}, "takes sequences")
        yield ErrorSample((c, c, c), {}, "needs num_heads")
        yield ErrorSample((x, c, TensorSpec((2, 2, 3))), {}, "sin_cache does not fit")
        yield ErrorSample((x, c, c), {"rotary_dim": 6}, "cannot be rotated")
        yield ErrorSample((x, c, c, TensorSpec((2, 2))), {}, "positions are integers")
        table, at = TensorSpec((8, 2)), TensorSpec((2, 3), "int64")
        yield ErrorSample((x, table, table, at), {}, "position_ids do not fit")


def frequencies(op: Any, dim: int, base: float) -> Array:
    """Return the angle per position of each pair of features, scaled to a longer context."""
    place = np.arange(0, dim, 2, dtype=np.float64) / max(dim, 1)
    factor, old = op.factor, op.original_length
    if op.scaling == "ntk":  # the slowest pair slows by the factor, the fastest stays
        return np.asarray((base * factor ** (dim / (dim - 2))) ** -place)
    own = base**-place
    if op.scaling == "linear":
        return np.asarray(own / factor)
    if op.scaling == "yarn":

        def pair_of(turns: float) -> float:  # the pair that turns so often over the old length
            return dim * math.log(old / (turns * 2 * math.pi)) / (2 * math.log(base))

        low = max(math.floor(pair_of(op.beta_fast)), 0)
        high = min(math.ceil(pair_of(op.beta_slow)), dim - 1)
        slowed = np.clip((np.arange(dim // 2) - low) / max(high - low, 1e-3), 0, 1)
        return np.asarray(own / factor * slowed + own * (1 - slowed))
    if op.scaling == "llama3":
        turns = old * own / (2 * math.pi)
        kept = (turns - op.low_freq_factor) / (op.high_freq_factor - op.low_freq_factor)
        kept = np.clip(kept, 0, 1)
        return np.asarray(own * kept + own / factor * (1 - kept))
    return own


class _Angles(Op):
    """What all ops that make angles from positions are told."""

    namespace = "nn"
    base: float = attr(10000.0, doc="The slowest pair turns once in 2π·base positions.")
    scaling: str = attr(
        "none",
        doc="How a longer context is reached.",
        choices=("none", "linear", "ntk", "yarn", "llama3"),
    )
    factor: float = attr(1.0, doc="How many times longer the context is than in pre-training.")
    original_length: int = attr(8192, doc="Length in pre-training, for yarn and llama3.")
    beta_fast: float = attr(32.0, doc="yarn: pairs that turn more often keep their speed.")
    beta_slow: float = attr(1.0, doc="yarn: pairs that turn less often slow by the factor.")
    low_freq_factor: float = attr(1.0, doc="llama3: likewise, turns at which all slow.")
    high_freq_factor: float = attr(4.0, doc="llama3: likewise, turns at which none slow.")
    attention_factor: float | None = attr(
        None,
        doc="Factor of cos and sin; None is 1, for yarn with a factor above 1 0.1·ln factor + 1.",
    )

    def check(self, dim: Any, positions: TensorSpec) -> None:
        """Refuse what has no angles."""
        if not isinstance(dim, int):
            raise ShapeError("the number of features decides the angles", need="a known size")
        if dim % 2 or dim < 2 or (self.scaling == "ntk" and dim < 4):
            raise ShapeError(f"{dim} features make no pairs", need="an even number")
        if not (self.base > 1 and self.factor > 0 and self.original_length > 0):
            raise GraphError(
                f"base={self.base}, factor={self.factor} give no angles",
                need="base > 1, both > 0",
            )
        if self.scaling == "yarn" and not self.beta_fast > self.beta_slow > 0:
            raise GraphError(
                f"yarn between {self.beta_slow} and {self.beta_fast} turns",
                need="beta_fast > beta_slow > 0",
            )
        if self.scaling == "llama3" and not self.high_freq_factor > self.low_freq_factor:
            raise GraphError(
                f"llama3 between {self.low_freq_factor} and {self.high_freq_factor} turns",
                need="high_freq_factor > low_freq_factor",
            )
        if kind(positions.dtype) not in "iu":
            raise DTypeError("positions are integers", need=f"i64, got {positions}")

    def table(self, positions: Any, dim: int, base: float) -> tuple[Array, Array]:
        """Return cosines and sines ``[…, dim/2]`` of positions, in float64."""
        angles = positions[..., None] * frequencies(self, dim, base)
        return np.cos(angles) * self.size, np.sin(angles) * self.size

    @property
    def size(self) -> float:
        """What cosines and sines are multiplied by."""
        if self.attention_factor is not None:
            return self.attention_factor
        return 0.1 * math.log(max(self.factor, 1)) + 1 if self.scaling == "yarn" else 1.0


class RopeCosSin(_Angles):
    """Cosines and sines of the angles by which rotary embeddings turn, position by position.

    cos(pᵢ·ωₖ), sin(pᵢ·ωₖ), ωₖ = base^(−2k/dim), for k = 0 … dim/2 − 1

    position_ids: i64[…] gives two tensors f32[…, dim/2]. ``scaling`` reaches ``factor`` times
    longer contexts: all ω/factor (linear, Chen et al. 2023), base·factor^(dim/(dim − 2)) (ntk), or
    ω/factor for slow pairs only (yarn, Peng et al. 2023; llama3, 2024).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> cos, sin = gw.nn.rope_cos_sin(g.constant([0, 1]), dim=2, name="y")
    >>> g.output({}, cos)["y"].round(4).tolist()
    [[1.0], [0.5403000116348267]]
    """

    returns = "cos", "sin"
    dim: int = attr(doc="Number of features that are rotated, two to an angle.")
    dtype: np.dtype[Any] = attr("float32", doc="Dtype of the result.")

    def infer(self, position_ids: TensorSpec) -> tuple[TensorSpec, TensorSpec]:
        self.check(self.dim, position_ids)
        if kind(self.dtype) != "f":
            raise DTypeError(f"cosines are not {self.dtype}", need="a float dtype")
        spec = TensorSpec((*position_ids.shape, self.dim // 2), self.dtype)
        return spec, spec.with_shape(spec.shape)

    def forward(self, position_ids: Any) -> Any:
        cos, sin = self.table(position_ids, self.dim, self.base)
        return cos.astype(self.dtype), sin.astype(self.dtype)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return (ZERO,)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((np.array([[0, 3], [2, 900]]),), {"dim": 4})
        yield Sample((np.array(5),), {"dim": 8, "scaling": "yarn", "factor": 4.0})
        yield Sample((np.arange(0),), {"dim": 4, "scaling": "llama3", "dtype": "float64"})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        at = TensorSpec((3,), "int64")
        yield ErrorSample((at,), {"dim": 3}, "make no pairs")
        yield ErrorSample((at,), {"dim": 4, "base": 0.5}, "give no angles")
        yield ErrorSample((TensorSpec((3,)),), {"dim": 4}, "positions are integers")
        yarn = {"dim": 4, "scaling": "yarn", "beta_fast": 0.0}
        yield ErrorSample((at,), yarn, "yarn between 1.0 and 0.0 turns")
        llama = {"dim": 4, "scaling": "llama3", "high_freq_factor": 1.0}
        yield ErrorSample((at,), llama, "llama3 between 1.0 and 1.0 turns")
        yield ErrorSample((at,), {"dim": 4, "dtype": "int32"}, "cosines are not int32")
