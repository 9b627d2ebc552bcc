"""Mixtures of experts: the gate, the experts it chooses, and those that always take part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ...errors import DTypeError, ShapeError
from ...op import ErrorSample, Op, Sample, WeightSite, attr
from ...spec import TensorSpec, differ, kind, shapes_differ
from ..core.activation import Gelu, Relu, Sigmoid, Silu
from ..core.index import Gather
from ..core.like import SizeOf
from ..core.masking import OneHot
from ..core.sorting import Argsort, TopK
from ..layers.nn import Softmax
from .grouped import GroupedMatmul

ACTIVATIONS: Mapping[str, Callable[[Any], Any]] = {
    "relu": Relu(),
    "gelu": Gelu(),
    "silu": Silu(),
}


def check_gate(op: Op, x: TensorSpec, gate: TensorSpec, k: int) -> None:
    """Raise unless the gate fits the features and has enough experts."""
    if kind(x.dtype) != "f":
        raise DTypeError(f"{op.name} does not take {x.dtype}", hint="gw.cast(x, 'float32')")
    if x.rank < 1 or gate.rank != 2 or differ(x.shape[-1], gate.shape[0]):
        raise ShapeError(
            "gate does not fit", need="x: […, D], gate: [D, E]", facts=[f"got {x} and {gate}"]
        )
    experts = gate.shape[1]
    if k < 1 or (isinstance(experts, int) and k > experts):
        raise ShapeError(f"{k} of {experts} experts", need="1 <= k <= the number of experts")


class MoeGate(Op):
    """Choose the k most probable experts of each token (Shazeer et al. 2017).

    p = softmax(x @ gate); weights, experts = top_k(p), over Σ weights with ``renormalize``;
    balance = E·Σ_e share_e·mean(p_e), where share_e is the part of all choices that went to e: 1
    for an even load (Fedus et al. 2021)

    x: f32[…, D], gate: f32[D, E] -> weights: f32[…, k], experts: i64[…, k], balance: f32[]. Raises
    ShapeError where these differ, or there are fewer experts than k.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, gate = g.constant([[1.0, 0.0]]), g.constant([[0.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
    >>> weights, experts, _ = gw.nn.moe_gate(x, gate, k=1, renormalize=True, name="gate")
    >>> [a.tolist() for a in g.output({}, weights, experts).values()]
    [[[1.0]], [[1]]]
    """

    namespace = "nn"
    k: int = attr(2, doc="Experts of a token.")
    renormalize: bool = attr(False, doc="Let the weights of the chosen ones sum to 1.")

    def infer(self, x: TensorSpec, gate: TensorSpec) -> Any:
        check_gate(self, x, gate, self.k)
        return super().infer(x, gate)

    def expand(self, x: Any, gate: Any) -> Any:
        p = Softmax()(x @ gate)
        weights, experts = TopK(k=self.k)(p)
        if self.renormalize:
            weights = weights / weights.sum(-1, keepdims=True)
        axes = tuple(range(x.rank - 1))
        chosen = OneHot(depth=gate.shape[1], dtype=p.dtype)(experts)
        share = chosen.mean((*axes, x.rank - 1)) if axes else chosen.mean(0)
        balance = (share * (p.mean(axes) if axes else p)).sum()
        balance = balance * SizeOf(axis=1, dtype=p.dtype)(gate)
        return weights, experts, balance

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        x, gate = rng.standard_normal((3, 2)), rng.standard_normal((2, 4))
        yield Sample((x, gate))
        yield Sample((x[None], gate), {"k": 3, "renormalize": True})
        yield Sample((x[0], gate), {"k": 1})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, gate = TensorSpec((3, 2)), TensorSpec((2, 4))
        yield ErrorSample((x, TensorSpec((3, 4))), {}, "gate does not fit")
        yield ErrorSample((x, gate), {"k": 5}, "5 of 4 experts")
        yield ErrorSample((TensorSpec((3, 2), "int64"), gate), {}, "does not take int64")


def routed(
    x: Any, gate: Any, network: Callable[[Any, Any, Any], Any], *, k: int, renormalize: bool
) -> tuple[Any, Any]:
    """Return the mixture of what experts give for the tokens that choose them, and the balance.

    ``network`` computes rows in groups, as ``grouped_matmul`` does, from them, sizes of groups, and
    the expert of each row.
    """
    flat = x.reshape((-1, x.shape[-1]))
    weights, experts, balance = MoeGate(k=k, renormalize=renormalize)(flat, gate)
    of_token = experts.reshape((-1,))
    order = Argsort()(of_token)
    sizes = OneHot(depth=gate.shape[1], dtype=np.dtype("int64"))(of_token).sum(0)
    y = network(Gather()(flat, order // k), sizes, Gather()(of_token, order))
    back = Gather()(y, Argsort()(order)).reshape((-1, k, x.shape[-1]))
    return (back * weights.expand_dims(-1)).sum(1).reshape(x.shape), balance


class MixtureOfExperts(Op):
    """Networks of two layers, of which each token goes through the k that a gate chooses.

    y = Σ_e weight_e·(f(x @ w1_e + b1_e) @ w2_e + b2_e) over the chosen experts (Shazeer et al.
    2017); if w3 is given, with f(…)⊙(x @ w3_e) instead of f(…) (Shazeer 2020)

    x: f32[…, D], gate: f32[D, E], w1, w3: f32[E, D, F], w2: f32[E, F, D], b1: f32[E, F],
    b2: f32[E, D] -> y: f32[…, D] and the load balance of ``moe_gate``: f32[]. Tokens are grouped by
    expert, so that each expert computes one product. Raises ShapeError where these differ.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, gate = g.constant([[1.0], [-1.0]]), g.constant([[9.0, -9.0]])
    >>> w1, w2 = g.constant([[[1.0]], [[-1.0]]]), g.constant([[[10.0]], [[100.0]]])
    >>> y, _ = gw.nn.mixture_of_experts(x, gate, w1, w2, k=1, activation="relu", name="moe")
    >>> g.output({}, y)[y.name].round(3).tolist()
    [[10.0], [100.0]]
    """

    namespace = "nn"
    k: int = attr(2, doc="Experts of a token.")
    renormalize: bool = attr(False, doc="Let the weights of the chosen ones sum to 1.")
    activation: str = attr("silu", doc="The function f.", choices=tuple(ACTIVATIONS))

    def infer(
        self,
        x: TensorSpec,
        gate: TensorSpec,
        w1: TensorSpec,
        w2: TensorSpec,
        w3: TensorSpec | None = None,
        b1: TensorSpec | None = None,
        b2: TensorSpec | None = None,
    ) -> Any:
        check_gate(self, x, gate, self.k)
        if w1.rank != 3:
            raise ShapeError("w1 is no set of matrices", need="[E, D, F]", facts=[f"w1: {w1}"])
        n_experts, d, f = gate.shape[1], x.shape[-1], w1.shape[2]
        for name, spec, shape in (
            ("w1", w1, (n_experts, d, f)),
            ("w2", w2, (n_experts, f, d)),
            ("w3", w3, (n_experts, d, f)),
            ("b1", b1, (n_experts, f)),
            ("b2", b2, (n_experts, d)),
        ):
            if spec is not None and shapes_differ(spec.shape, shape):
                raise ShapeError(f"{name} does not fit", need=f"{shape}", facts=[f"{name}: {spec}"])
        return super().infer(x, gate, w1, w2, w3, b1, b2)

    def expand(
        self, x: Any, gate: Any, w1: Any, w2: Any, w3: Any = None, b1: Any = None, b2: Any = None
    ) -> Any:
        def network(rows: Any, sizes: Any, place: Any) -> Any:
            def apply(rows: Any, w: Any, b: Any = None) -> Any:
                y = GroupedMatmul()(rows, w, sizes)
                return y if b is None else y + Gather()(b, place)

            hidden = ACTIVATIONS[self.activation](apply(rows, w1, b1))
            if w3 is not None:
                hidden = hidden * apply(rows, w3)
            return apply(hidden, w2, b2)

        return routed(x, gate, network, k=self.k, renormalize=self.renormalize)

    def weight_sites(self) -> tuple[WeightSite, ...]:
        return tuple(WeightSite(i, "expert,in,out", "experts") for i in (2, 3, 4))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        shapes = (3, 2), (2, 3), (3, 2, 2), (3, 2, 2), (3, 2, 2), (3, 2), (3, 2)
        xs = tuple(rng.standard_normal(s) for s in shapes)
        yield Sample(xs[:4], {"activation": "gelu"})
        yield Sample((xs[0][None], *xs[1:]), {"renormalize": True})
        yield Sample((xs[0][:0], *xs[1:4]), smooth=False)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, gate, w = TensorSpec((3, 2)), TensorSpec((2, 4)), TensorSpec((4, 2, 5))
        yield ErrorSample((x, gate, w, w), {}, "w2 does not fit")
        yield ErrorSample((x, gate, gate, w), {}, "no set of matrices")
        yield ErrorSample((x, gate, w, w), {"k": 5}, "5 of 4 experts")


class MoeSharedExperts(Op):
    """Mixture of experts beside a network that every token goes through (Dai et al. 2024).

    y = mixture_of_experts(x, …) + s·shared(x), shared(x) = f(x @ shared_w1) @ shared_w2, with
    f(…)⊙(x @ shared_w3) if that is given; s = σ(x @ shared_gate) if given, else 1

    Inputs as of ``mixture_of_experts`` without biases, and shared_w1, shared_w3: f32[D, G],
    shared_w2: f32[G, D], shared_gate: f32[D, 1] -> y: f32[…, D], balance: f32[].

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, gate, w = g.constant([[2.0]]), g.constant([[1.0]]), g.constant([[[1.0]]])
    >>> y, _ = gw.nn.moe_shared_experts(x, gate, w, w, gate, gate, k=1, activation="relu", name="y")
    >>> g.output({}, y)[y.name].tolist()
    [[4.0]]
    """

    namespace = "nn"
    k: int = attr(2, doc="Experts of a token.")
    renormalize: bool = attr(False, doc="Let the weights of the chosen ones sum to 1.")
    activation: str = attr("silu", doc="The function f.", choices=tuple(ACTIVATIONS))

    def infer(
        self,
        x: TensorSpec,
        gate: TensorSpec,
        w1: TensorSpec,
        w2: TensorSpec,
        shared_w1: TensorSpec,
        shared_w2: TensorSpec,
        w3: TensorSpec | None = None,
        shared_w3: TensorSpec | None = None,
        shared_gate: TensorSpec | None = None,
    ) -> Any:
        check_gate(self, x, gate, self.k)
        d, n = x.shape[-1], (shared_w1.shape or (0,))[-1]
        for name, spec, shape in (
            ("shared_w1", shared_w1, (d, n)),
            ("shared_w2", shared_w2, (n, d)),
            ("shared_w3", shared_w3, (d, n)),
            ("shared_gate", shared_gate, (d, 1)),
        ):
            if spec is not None and (spec.rank != 2 or any(map(differ, spec.shape, shape))):
                raise ShapeError(f"{name} does not fit", need=f"{shape}", facts=[f"{name}: {spec}"])
        return super().infer(x, gate, w1, w2, shared_w1, shared_w2, w3, shared_w3, shared_gate)

    def expand(
        self,
        x: Any,
        gate: Any,
        w1: Any,
        w2: Any,
        shared_w1: Any,
        shared_w2: Any,
        w3: Any = None,
        shared_w3: Any = None,
        shared_gate: Any = None,
    ) -> Any:
        routed, balance = MixtureOfExperts(**self.attributes())(x, gate, w1, w2, w3)
        hidden = ACTIVATIONS[self.activation](x @ shared_w1)
        if shared_w3 is not None:
            hidden = hidden * (x @ shared_w3)
        shared = hidden @ shared_w2
        if shared_gate is not None:
            shared = shared * Sigmoid()(x @ shared_gate)
        return routed + shared, balance

    def weight_sites(self) -> tuple[WeightSite, ...]:
        experts = (WeightSite(i, "expert,in,out", "experts") for i in (2, 3, 6))
        return (*experts, *(WeightSite(i, "in,out", "linear") for i in (4, 5, 7)))

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        shapes = (
            *((3, 2), (2, 3), (3, 2, 2), (3, 2, 2), (2, 4), (4, 2)),
            *((3, 2, 2), (2, 4), (2, 1)),
        )
        xs = tuple(rng.standard_normal(s) for s in shapes)
        yield Sample(xs[:6], {"activation": "gelu"})
        yield Sample(xs, {"k": 1, "renormalize": False})

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        x, gate, w = TensorSpec((3, 2)), TensorSpec((2, 4)), TensorSpec((4, 2, 2))
        yield ErrorSample((x, gate, w, w, gate, gate), {}, "shared_w2 does not fit")
