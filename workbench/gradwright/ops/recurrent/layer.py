"""What recurrent layers share: inputs as in ONNX, directions, lengths, and gradients of any order.

A layer computes the products with its input for all steps at once and then loops over time; its
gradient loops back over the saved gates. Both loops stand beside the layer's cell. The gradient's
own gradient goes through the layer as a scan of its cell.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ...errors import DTypeError, GraphError, ShapeError
from ...op import ZERO, Autocast, Cotangent, ErrorSample, Op, Sample, WeightSite, attr, find_op
from ...op.facts import elements, multiplied
from ...spec import (
    TensorSpec,
    at_least_float32,
    check_floats,
    is_floating,
    kind,
    promote,
    shapes_differ,
)  # fmt: skip
from ..control.scan import scan
from ..core.choice import Where
from ..core.creation import Arange
from ..core.joining import Stack
from ..core.like import ZerosLike
from ..core.pullback import Pullback
from ..core.special import widened
from .activations import Activation, activations
from .arrays import Arrays, Cotangents

Array = np.ndarray[Any, Any]


class RecurrentLayer(Op, abstract=True):
    """A layer that reads a sequence step by step, in one direction or both."""

    namespace = "rnn"
    drawing = "linear"
    autocast = Autocast.STATE
    direction: str = attr(
        "forward", doc="Way through time.", choices=("forward", "reverse", "bidirectional")
    )
    layout: int = attr(0, doc="0: time first; 1: batch first.", choices=(0, 1))
    activations: tuple[str, ...] | None = attr(None, doc="Functions by ONNX name, per direction.")
    activation_alpha: tuple[float, ...] = attr((), doc="α of those that have one, in order.")
    activation_beta: tuple[float, ...] = attr((), doc="β of those that have one, in order.")
    clip: float | None = attr(None, doc="Largest size of what goes into an activation.")

    n_gates: ClassVar[int]
    """Blocks of H rows in the weights."""
    states: ClassVar[tuple[str, ...]] = ("h",)
    functions: ClassVar[tuple[str, ...]]
    """Activations of a direction by default."""

    @property
    def n_directions(self) -> int:
        """Return 2 for a bidirectional layer, else 1."""
        return 2 if self.direction == "bidirectional" else 1

    @property
    def n_inputs(self) -> int:
        """Return how many inputs there are, given or not."""
        return len(type(self).inputs)

    def chosen(self) -> list[list[Activation]]:
        """Return the activations of each direction."""
        n = len(self.functions)
        names = self.activations or self.functions * self.n_directions
        if len(names) != n * self.n_directions:
            raise GraphError(f"{len(names)} activations", need=f"{n} per direction")
        found = activations(names, self.activation_alpha, self.activation_beta)
        return [found[i : i + n] for i in range(0, len(found), n)]

    def orders(self, n_steps: int) -> list[range]:
        """Return the steps of each direction in the order in which they are taken."""
        ways = {"forward": range(n_steps), "reverse": range(n_steps - 1, -1, -1)}
        return [ways[d] for d in ways if self.direction in (d, "bidirectional")]

    # -- shapes -----------------------------------------------------------------------------------

    def infer(  # the inputs of all layers; LSTM has two more
        self,
        x: TensorSpec,
        w: TensorSpec,
        r: TensorSpec,
        b: TensorSpec | None = None,
        lengths: TensorSpec | None = None,
        initial_h: TensorSpec | None = None,
    ) -> tuple[TensorSpec, ...]:
        return self.specs(x, w, r, b, lengths, initial_h)

    def specs(self, *inputs: TensorSpec | None) -> tuple[TensorSpec, ...]:
        """Return the specs of the results, after a look at every input."""
        x, w, r, b, lengths, *rest = inputs
        assert x is not None and w is not None and r is not None
        self.chosen()
        if self.clip is not None and not self.clip > 0:
            raise GraphError(f"clip={self.clip} leaves nothing", need="clip > 0, or None")
        if x.rank != 3 or w.rank != 3 or r.rank != 3:
            raise ShapeError(
                "x, w and r have three axes",
                need=f"x: [T, B, I], w: [D, {self.n_gates}·H, I], r: [D, {self.n_gates}·H, H]",
                facts=[f"got {x}, {w}, {r}"],
            )
        lead, batch = x.shape[:2] if self.layout == 0 else x.shape[1::-1]
        n, size = self.n_directions, r.shape[2]
        known: list[tuple[str, TensorSpec | None, tuple[Any, ...]]] = [
            ("w", w, (n, size * self.n_gates, x.shape[2])),
            ("r", r, (n, size * self.n_gates, size)),
            ("b", b, (n, size * self.n_gates * 2)),
            ("lengths", lengths, (batch,)),
        ]
        state = (n, batch, size) if self.layout == 0 else (batch, n, size)
        names = [f"initial_{s}" for s in self.states]
        known += [(name, s, state) for name, s in zip(names, rest, strict=False)]
        known += [("p", s, (n, size * 3)) for s in rest[len(names) :]]
        joint = x.dtype
        for name, spec, shape in known:
            if spec is None:
                continue
            if shapes_differ(spec.shape, shape):
                raise ShapeError(
                    f"{name} does not fit", need=f"{list(shape)}", facts=[f"{name}: {spec}"]
                )
            if name != "lengths":
                joint = promote(joint, spec.dtype)
            elif kind(spec.dtype) not in "iu":
                raise DTypeError(f"lengths are {spec.dtype}", need="integers")
        if kind(joint) != "f":
            raise DTypeError(f"{self.name} does not take {joint}", hint="gw.cast(x, 'float32')")
        seq = (lead, n, batch, size) if self.layout == 0 else (batch, lead, n, size)
        wide = at_least_float32(joint)
        saved = ((n, *blocks, lead, batch, size) for blocks in self.saved())
        return (
            TensorSpec(seq, joint),
            *(TensorSpec(state, joint) for _ in self.states),
            *(TensorSpec(shape, wide) for shape in saved),
        )

    def saved(self) -> tuple[tuple[int, ...], ...]:
        """Return what stands before [T, B, H] in the shapes of what is saved for the gradient."""
        return ((self.n_gates,),)

    def flops(self, ins: Sequence[Any], outs: Sequence[Any]) -> Any:
        return multiplied(TensorSpec(ins[0].shape[:2]), elements(*ins[1:3]))

    # -- numbers ----------------------------------------------------------------------------------

    def forward(self, *inputs: Any) -> Any:
        layer = Arrays(self, inputs)
        size = layer.r.shape[2]
        shape = layer.n_steps, layer.n_batch, size
        y = np.zeros((shape[0], self.n_directions, *shape[1:]), layer.dtype)
        last = [np.empty((self.n_directions, *shape[1:]), layer.dtype) for _ in self.states]
        n = self.n_directions
        saved = [np.empty((n, *blocks, *shape), layer.dtype) for blocks in self.saved()]
        for d in range(n):
            final = self.sweep(layer, d, y[:, d], [s[d] for s in saved])
            for whole, part in zip(last, final, strict=True):
                whole[d] = part
        return (layer.outwards(y), *map(layer.outwards, last), *saved)

    def sweep(self, layer: Arrays, d: int, y: Array, saved: Sequence[Array]) -> Sequence[Array]:
        """Loop over time in one direction; fill ``y`` and ``saved``, return the last states."""
        raise NotImplementedError

    def unsweep(
        self, layer: Arrays, d: int, y: Array, saved: Sequence[Array], g: Cotangents
    ) -> dict[str, Array]:
        """Loop back over time in one direction; return cotangents of the inputs by name."""
        raise NotImplementedError

    # -- gradients --------------------------------------------------------------------------------

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        return self.pull(gs, ys, xs, [x is not None for x in xs])

    def pull(
        self, gs: Sequence[Any], ys: Any, xs: Any, wanted: Sequence[bool]
    ) -> Sequence[Cotangent]:
        full = [*xs, *[None] * (self.n_inputs - len(xs))]
        wrt = tuple(i for i, want in enumerate(wanted) if want and is_floating(xs[i].dtype))
        op = RecurrentGrad(op=self, wrt=wrt)
        made = op(*full, *ys, *(None if g is ZERO else g for g in gs))
        found = dict(zip(wrt, made, strict=True))
        return [found.get(i, ZERO) for i in range(len(xs))]

    def steps(self, *inputs: Any) -> tuple[Any, ...]:
        """Return what the layer computes as a scan of its cell."""
        x, w, r, b, lengths, *rest = inputs
        if self.layout:
            x = x.transpose((1, 0, 2))
            rest = [None if t is None or t.rank < 3 else t.transpose((1, 0, 2)) for t in rest]
            if inputs[-1] is not None and inputs[-1].rank == 2:
                rest[-1] = inputs[-1]
        scanned = [x]
        if lengths is not None:
            valid = (lengths > Arange(start=x.shape[0])().expand_dims(1)).expand_dims(2)
            scanned = [Where()(valid, x, ZerosLike()(x)), valid]
        n, parts = len(self.states), []
        for d, order in enumerate(self.orders(0)):
            own = [None if t is None else t[d] for t in (w, r, b, *rest)]
            first = (ZerosLike()((x.sum(0) @ w[d].T)[:, : r.shape[2]]) for _ in range(n))
            states = [zero if s is None else s for zero, s in zip(first, own[3:], strict=False)]

            def step(states: Any, now: Any, d: int = d, own: Any = own) -> Any:
                item, *valid = now
                new, saved = self.cell(item, states, own[:3], own[3 + n :], d)
                y = new[0]
                if valid:
                    y = Where()(valid[0], y, ZerosLike()(y))
                    new = [Where()(valid[0], a, b) for a, b in zip(new, states, strict=True)]
                    saved = [Where()(valid[0], s, ZerosLike()(s)) for s in saved]
                return list(new), (y, *saved, *new[1:])

            last, (y, gates, *cells) = scan(step, states, scanned, reverse=order.step < 0)
            parts.append([y, gates.transpose((1, 0, 2, 3)), *cells, *last])
        y, *more = (Stack(axis=0)(*part) for part in zip(*parts, strict=True))
        saved, last = more[: len(more) - n], more[len(more) - n :]
        swap = (1, 0, 2, 3) if not self.layout else (2, 1, 0, 3)
        turned = [s.transpose((1, 0, 2)) if self.layout else s for s in last]
        if y.dtype.itemsize < 4:
            saved = [s.cast("float32") for s in saved]
        return (y.transpose(swap), *turned, *saved)

    def cell(
        self, x: Any, states: Sequence[Any], weights: Sequence[Any], more: Sequence[Any], d: int
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """Return the states after a step, and what is saved of it, as graph."""
        raise NotImplementedError

    def weight_sites(self) -> tuple[WeightSite, ...]:
        return tuple(WeightSite(i, "dir,out,in", "recurrent") for i in (1, 2))

    # -- tests ------------------------------------------------------------------------------------

    @classmethod
    def sample(
        cls, rng: np.random.Generator, *given: str, lengths: Any = None, **attrs: Any
    ) -> Sample:
        """Return three steps of two sequences, with the optional inputs that are named."""
        op = cls(**attrs)
        n, t, batch, width, size = op.n_directions, 3, 2, 2, 2
        state = (n, batch, size) if op.layout == 0 else (batch, n, size)
        shapes = {
            "x": (t, batch, width) if op.layout == 0 else (batch, t, width),
            "w": (n, size * cls.n_gates, width),
            "r": (n, size * cls.n_gates, size),
            "b": (n, size * cls.n_gates * 2),
            "lengths": None,
            **{f"initial_{s}": state for s in cls.states},
            "p": (n, size * 3),
        }
        inputs: list[Any] = []
        for p in cls.inputs:
            shape = shapes[p.name]
            if p.name == "lengths":
                inputs.append(None if lengths is None else np.array(lengths))
            elif p.default is None and p.name not in given:
                inputs.append(None)
            else:
                assert shape is not None
                inputs.append(rng.standard_normal(shape))
        while inputs[-1] is None:
            inputs.pop()
        return Sample(tuple(inputs), attrs)

    @classmethod
    def error_samples(cls) -> Iterator[ErrorSample]:
        n = cls.n_gates * 2
        x, w, r = TensorSpec((3, 1, 2)), TensorSpec((1, n, 2)), TensorSpec((1, n, 2))
        yield ErrorSample((x, w, TensorSpec((1, n, 3))), {}, "w does not fit")
        yield ErrorSample((TensorSpec((3, 2)), w, r), {}, "have three axes")
        yield ErrorSample((x, w, r), {"activations": ("Sin",) * len(cls.functions)}, "'Sin' is no")
        yield ErrorSample((x, w, r, None, TensorSpec((1,))), {}, "lengths are float32")
        yield ErrorSample((x, w, r), {"direction": "bidirectional"}, "w does not fit")
        yield ErrorSample((x, w, r), {"clip": -1.0}, "leaves nothing")


class RecurrentGrad(Op):
    """Cotangents of a recurrent layer's inputs, from the gates that it saved.

    dz_t, backwards through time; then dw = Σ dz_t x_tᵀ, dr = Σ dz_t h_{t-1}ᵀ (Werbos 1990). The
    inputs are those of the layer, its results, and a cotangent of each result or None.
    """

    namespace = "gradient"
    returns = ("*gradients",)
    many = True
    op: Op = attr(doc="The layer.")
    wrt: tuple[int, ...] = attr(doc="The inputs of the layer whose cotangents are returned.")

    @property
    def layer(self) -> RecurrentLayer:
        """Return the layer."""
        assert isinstance(self.op, RecurrentLayer)
        return self.op

    def infer(self, *args: TensorSpec | None) -> tuple[TensorSpec, ...]:
        check_floats(self.name, *args[:4], *args[5:])  # all but lengths
        wanted = (args[i] for i in self.wrt)
        return tuple(x.with_shape(x.shape) for x in wanted if x is not None)

    def names(self) -> list[str]:
        """Return the names of the inputs whose cotangents are returned."""
        return [type(self.op).inputs[i].name for i in self.wrt]

    def forward(self, *args: Any) -> Any:
        op = self.layer
        n, m = op.n_inputs, (len(args) - op.n_inputs) // 2
        layer = Arrays(op, args[:n])
        y, saved = widened(args[n]), args[n + 1 + len(op.states) : n + m]
        if op.layout:
            y = y.transpose(1, 2, 0, 3)
        parts = []
        for d in range(op.n_directions):
            g = Cotangents(layer, op, args[n + m :], d)
            parts.append(op.unsweep(layer, d, y[:, d], [s[d] for s in saved], g))
        found = {k: np.stack([part[k] for part in parts]) for k in parts[0] if k != "x"}
        found["x"] = functools.reduce(np.add, [part["x"] for part in parts])
        if op.layout:
            turned = ("x", *(f"initial_{s}" for s in op.states))
            found |= {k: found[k].swapaxes(0, 1) for k in turned}
        return tuple(
            found[k].astype(args[i].dtype, copy=False)
            for i, k in zip(self.wrt, self.names(), strict=True)
        )

    def flops(self, ins: Sequence[Any], outs: Sequence[Any]) -> Any:
        return 2 * self.layer.flops(ins, outs)

    def vjp(self, gs: Sequence[Any], ys: Any, xs: Any) -> Sequence[Cotangent]:
        n, m = self.layer.n_inputs, (len(xs) - self.layer.n_inputs) // 2
        of_wrt = dict(zip(self.wrt, gs, strict=True))
        outer = second_order(RecurrentSteps(op=self.op), xs[:n], xs[n + m :], of_wrt)
        saved = [ZERO] * m  # functions of the inputs, as which they are differentiated
        return [*outer[:n], *saved, *outer[n:]]

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        op: Any = find_op("rnn")()
        xs = [np.asarray(x) for x in op.sample(rng).inputs]
        ys = op.forward(*xs)
        full = [*xs, *[None] * (op.n_inputs - len(xs))]
        gs = [rng.standard_normal(ys[0].shape), None, None]
        yield Sample((*full, *ys, *gs), {"op": op, "wrt": (0, 1, 2)}, smooth=False)


class RecurrentSteps(Op):
    """A recurrent layer as a scan of its cell.

    h_t, … = cell(x_t, h_{t-1}, …) for each step t
    """

    namespace = "gradient"
    returns = ("*results",)
    many = True
    op: Op = attr(doc="The layer.")

    def infer(self, *args: TensorSpec | None) -> tuple[TensorSpec, ...]:
        found: tuple[TensorSpec, ...] = self.op.infer(*args)
        return found

    def expand(self, *args: Any) -> Any:
        assert isinstance(self.op, RecurrentLayer)
        return self.op.steps(*args)

    @classmethod
    def samples(cls, rng: np.random.Generator) -> Iterator[Sample]:
        rnn: Any = find_op("rnn")
        full = (*rnn.sample(rng, "b", lengths=[2, 3]).inputs, rng.standard_normal((1, 2, 2)))
        yield Sample(full, {"op": rnn()})


def second_order(
    op: Op, xs: Sequence[Any], gs: Sequence[Any], of_wrt: Mapping[int, Any]
) -> list[Any]:
    """Return cotangents of (xs, gs), given those of ∂(op(xs)·gs)/∂xs, through op's expansion.

    ``xs`` and ``gs`` may be None; the cotangents come by place in ``xs``, ZERO where none flows.
    """
    wrt, hs = tuple(of_wrt), list(of_wrt.values())
    there = [i for i, g in enumerate(gs) if g is not None]
    first = Pullback(op=op, n_inputs=len(xs), wrt=wrt, present=tuple(g is not None for g in gs))
    inputs = [*xs, *(gs[i] for i in there)]
    chosen = tuple(i for i, x in enumerate(inputs) if x is not None and is_floating(x.dtype))
    present = tuple(h is not ZERO for h in hs)
    second = Pullback(op=first, n_inputs=len(inputs), wrt=chosen, present=present)
    made = second(*inputs, *(h for h in hs if h is not ZERO))
    found = dict(zip(chosen, made if isinstance(made, tuple) else (made,), strict=True))
    out = [found.get(i, ZERO) for i in range(len(xs))]
    places = {i: len(xs) + k for k, i in enumerate(there)}
    return out + [found[places[i]] if i in places else ZERO for i in range(len(gs))]
