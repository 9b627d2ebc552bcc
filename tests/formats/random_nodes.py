"""Random nodes of ONNX models: what computes on numbers, and what computes shapes for that."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.formats.onnx_models import FLOAT, INT64, TensorProto, numpy_helper
from tests.formats.random_graphs import Builder, Shape, Value, kind

UNARY = (
    "Relu",
    "Tanh",
    "Sigmoid",
    "Abs",
    "Neg",
    "Erf",
    "Softplus",
    "Sin",
    "HardSigmoid",
    "Identity",
)


@kind
def unary(b: Builder) -> None:
    """One function of elements."""
    x = b.pick()
    if x is not None:
        b.keep(b.add(b.draw.choice(UNARY), x), x.shapes)


@kind
def binary(b: Builder) -> None:
    """Two tensors whose shapes broadcast."""
    x = b.pick()
    y = b.pick(lambda y: x is not None and _broadcast(x, y) is not None)
    if x is None or y is None:
        return
    op_type = b.draw.choice(["Add", "Sub", "Mul", "Max", "Min"])
    name = b.add(op_type, x, y)
    b.keep(b.add("Tanh", name) if op_type == "Mul" else name, _broadcast(x, y) or ())


def _broadcast(x: Value, y: Value) -> list[Shape] | None:
    try:
        return [np.broadcast_shapes(a, c) for a, c in zip(x.shapes, y.shapes, strict=True)]
    except ValueError:
        return None


@kind
def constant(b: Builder) -> None:
    """A stored tensor of the last axis's size, or a number."""
    x = b.pick(lambda x: x.rank > 0 and len({s[-1] for s in x.shapes}) == 1)
    shape = () if x is None or b.draw.random() < 0.3 else (x.shapes[0][-1],)
    y = np.float32(np.random.default_rng(b.draw.randrange(99)).standard_normal(shape))
    if x is not None:
        b.keep(b.add(b.draw.choice(["Mul", "Add"]), x, b.store(y)), x.shapes)


@kind
def matmul(b: Builder) -> None:
    """A product with a stored matrix, or with a transpose of its own."""
    x = b.pick(lambda x: x.rank >= 2)
    if x is None:
        return
    widths = {s[-1] for s in x.shapes}
    if len(widths) == 1 and b.draw.random() < 0.5:
        w = np.float32(np.random.default_rng(1).standard_normal((widths.pop(), 3)))
        name, shapes = b.add("MatMul", x, b.store(w)), [(*s[:-1], 3) for s in x.shapes]
    else:
        perm = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
        name = b.add("MatMul", x, b.add("Transpose", x, perm=perm))
        shapes = [(*s[:-1], s[-2]) for s in x.shapes]
    b.keep(b.add("Tanh", name), shapes)


@kind
def transpose(b: Builder) -> None:
    """Axes in another order."""
    x = b.pick(lambda x: x.rank >= 2)
    if x is not None:
        perm = b.draw.sample(range(x.rank), x.rank)
        b.keep(b.add("Transpose", x, perm=perm), [tuple(s[p] for p in perm) for s in x.shapes])


@kind
def reshape(b: Builder) -> None:
    """Two axes that become one, by sizes that are computed, by 0 and -1, or by Flatten."""
    x = b.pick(lambda x: x.rank >= 2 and _is_full(x))
    if x is None:
        return
    at = b.draw.randrange(x.rank - 1)
    shapes = [(*s[:at], s[at] * s[at + 1], *s[at + 2 :]) for s in x.shapes]
    way = b.draw.randrange(3)
    if way == 0:
        first, second = b.size_of(x, at), b.size_of(x, at + 1)
        joint = Value(b.add("Mul", first, second), ((1,),) * 3)
        rest = [b.size_of(x, i) for i in range(x.rank)]
        name = b.add("Reshape", x, b.vector([*rest[:at], joint, *rest[at + 2 :]]))
    elif way == 1 and at == 0:
        sizes = [-1, *(b.size_of(x, i) for i in range(2, x.rank))]
        name = b.add("Reshape", x, b.vector(sizes))
    else:
        tail = [b.size_of(x, i) for i in range(at + 2, x.rank)]
        name = b.add("Reshape", x, b.vector([*[0] * at, -1, *tail]))
    b.keep(name, shapes)


@kind
def split_axis(b: Builder) -> None:
    """An axis that becomes two, of which one is known."""
    x = b.pick(lambda x: bool(_even(x)) and _is_full(x))
    if x is None:
        return
    at = b.draw.choice(_even(x))
    parts: list[Value | int] = [b.size_of(x, i) for i in range(x.rank)]
    half = b.add("Div", parts[at], b.store(np.int64([2])))
    parts[at : at + 1] = [Value(half, ((1,),) * 3), 2]
    if b.draw.random() < 0.4:
        parts[at] = -1
    b.keep(
        b.add("Reshape", x, b.vector(parts)),
        [(*s[:at], s[at] // 2, 2, *s[at + 1 :]) for s in x.shapes],
    )  # fmt: skip


def _is_full(x: Value) -> bool:
    """Tell whether a tensor has elements; Reshape takes a size of 0 for another one."""
    return all(map(all, x.shapes))


def _even(x: Value) -> list[int]:
    """Return the axes whose size is even at all sizes."""
    return [i for i in range(x.rank) if all(s[i] % 2 == 0 for s in x.shapes)]


@kind
def flatten(b: Builder) -> None:
    """A matrix of all that is before and after an axis."""
    x = b.pick(lambda x: x.rank >= 1)
    if x is not None:
        at = b.draw.randint(0, x.rank)
        shapes = [(int(np.prod(s[:at])), int(np.prod(s[at:]))) for s in x.shapes]
        b.keep(b.add("Flatten", x, axis=at), shapes)


@kind
def unsqueeze(b: Builder) -> None:
    """Axes of size 1 come and go."""
    x = b.pick()
    if x is None:
        return
    ones = [i for i in range(x.rank) if all(s[i] == 1 for s in x.shapes)]
    if ones and b.draw.random() < 0.5:
        at = b.draw.choice(ones)
        name = b.add("Squeeze", x, b.store(np.int64([at - b.draw.choice([0, x.rank])])))
        b.keep(name, [s[:at] + s[at + 1 :] for s in x.shapes])
    else:
        at = b.draw.randint(0, x.rank)
        name = b.add("Unsqueeze", x, b.store(np.int64([at])))
        b.keep(name, [(*s[:at], 1, *s[at:]) for s in x.shapes])


@kind
def slice_(b: Builder) -> None:
    """Part of an axis, forwards or backwards, to an end that is known or computed."""
    x = b.pick(lambda x: x.rank >= 1)
    if x is None:
        return
    axis, step = b.draw.randrange(x.rank), b.draw.choice([1, 1, 1, 2, 3, -1, -2])
    start = b.draw.choice([0, 1, -1, -2, -9, 9, 2])
    end = b.draw.choice([-1, 1, 2, 99, -99, 2**63 - 1 if step > 0 else -(2**63)])
    ends = [end] * 3
    to: Any = b.store(np.int64([end]))
    if b.draw.random() < 0.4:
        size, less = b.size_of(x, axis), min(b.draw.choice([0, 1, 2]), x.least(axis))
        to = b.add("Sub", size, b.store(np.int64([less])))
        ends = [int(n[0]) - less for n in size.numbers]
    at = axis - b.draw.choice([0, x.rank])
    name = b.add(
        "Slice",
        x,
        b.store(np.int64([start])),
        to,
        b.store(np.int64([at])),
        b.store(np.int64([step])),
    )
    shapes = []
    for s, stop in zip(x.shapes, ends, strict=True):
        n = s[axis]
        first, last = (i + n if i < 0 else i for i in (start, stop))
        low, high = (0, n) if step > 0 else (-1, n - 1)
        first = min(max(first, low if step > 0 else 0), high)
        last = min(max(last, low), n if step > 0 else n - 1)
        shapes.append((*s[:axis], len(range(first, last, step)), *s[axis + 1 :]))
    b.keep(name, shapes)


@kind
def split(b: Builder) -> None:
    """Parts of an axis, uneven or of stated sizes."""
    x = b.pick(lambda x: x.rank >= 1 and any(x.least(i) >= 2 for i in range(x.rank)))
    if x is None:
        return
    axis = b.draw.choice([i for i in range(x.rank) if x.least(i) >= 2])
    known = {s[axis] for s in x.shapes}
    if len(known) == 1 and b.draw.random() < 0.5:
        n = known.pop()
        parts = [1, n - 1]
        names = b.add("Split", x, b.store(np.int64(parts)), n=2, axis=axis)
        sizes = [parts] * 3
    else:
        names = b.add("Split", x, n=2, axis=axis, num_outputs=2)
        sizes = [[-(-s[axis] // 2), s[axis] - -(-s[axis] // 2)] for s in x.shapes]
    for i, name in enumerate(names):
        b.keep(
            name, [(*s[:axis], n[i], *s[axis + 1 :]) for s, n in zip(x.shapes, sizes, strict=True)]
        )


@kind
def concat(b: Builder) -> None:
    """Tensors that differ along one axis at most."""
    x = b.pick(lambda x: x.rank >= 1)
    if x is None:
        return
    axis = b.draw.randrange(x.rank)

    def rest(v: Value) -> list[Shape]:
        return [s[:axis] + s[axis + 1 :] for s in v.shapes]

    y = b.pick(lambda y: y.rank == x.rank and rest(y) == rest(x))
    if y is not None:
        joint = zip(x.shapes, y.shapes, strict=True)
        b.keep(
            b.add("Concat", x, y, axis=axis - b.draw.choice([0, x.rank])),
            [(*s[:axis], s[axis] + t[axis], *s[axis + 1 :]) for s, t in joint],
        )  # fmt: skip


@kind
def expand(b: Builder) -> None:
    """A tensor as large as another one, or with an axis in front."""
    x = b.pick()
    y = b.pick(lambda y: x is not None and _broadcast(x, y) is not None)
    if x is None or y is None:
        return
    shapes = _broadcast(x, y) or []
    if not y.rank:
        to, shapes = b.store(np.int64([1])), shapes if x.rank else [(1,)] * 3
    elif b.draw.random() < 0.5:
        to = b.add("Shape", y)
    else:
        to = b.vector([b.size_of(y, i) for i in range(y.rank)])
    if b.draw.random() < 0.2 and len(shapes[0]) <= max(y.rank, 1):
        to, shapes = b.add("Concat", b.store(np.int64([2])), to, axis=0), [(2, *s) for s in shapes]
    b.keep(b.add("Expand", x, to), shapes)


@kind
def fill(b: Builder) -> None:
    """A tensor of one value, of a shape that is computed."""
    x = b.pick(lambda x: x.rank >= 1)
    if x is not None:
        axes = [b.draw.randrange(x.rank) for _ in range(b.draw.randint(1, 3))]
        to = b.vector([b.size_of(x, i) for i in axes])
        value = numpy_helper.from_array(np.float32([0.5]))
        shapes = [tuple(s[i] for i in axes) for s in x.shapes]
        b.keep(b.add("ConstantOfShape", to, value=value), shapes)


@kind
def count(b: Builder) -> None:
    """The numbers up to a size, as floats."""
    x = b.pick(lambda x: x.rank >= 1)
    if x is None:
        return
    axis = b.draw.randrange(x.rank)
    to = b.add("Squeeze", b.size_of(x, axis))
    if b.draw.random() < 0.3:
        limit = b.add("Cast", to, to=FLOAT)
        name = b.add("Range", b.store(np.float32(0)), limit, b.store(np.float32(1)))
    else:
        made = b.add("Range", b.store(np.int64(0)), to, b.store(np.int64(1)))
        name = b.add("Cast", made, to=FLOAT)
    b.keep(b.add("Sin", name), [(s[axis],) for s in x.shapes])


@kind
def tile(b: Builder) -> None:
    """An axis twice."""
    x = b.pick(lambda x: x.rank >= 1)
    if x is not None:
        reps = [b.draw.choice([1, 1, 2]) for _ in range(x.rank)]
        shapes = [tuple(n * r for n, r in zip(s, reps, strict=True)) for s in x.shapes]
        b.keep(b.add("Tile", x, b.store(np.int64(reps))), shapes)


@kind
def where(b: Builder) -> None:
    """A choice by the sign of an input, which nothing has rounded."""
    fed = [v for v in b.root.values if v.name.startswith("x")]
    c = b.draw.choice(fed)
    x = b.pick(lambda x: _broadcast(c, x) is not None)
    if x is not None:
        zero = b.store(np.float32(0))
        mask = b.add("Greater", c, zero)
        b.keep(b.add("Where", mask, x, zero), _broadcast(c, x) or [])


@kind
def gather(b: Builder) -> None:
    """Some places along an axis."""
    x = b.pick(lambda x: x.rank >= 1 and any(x.least(i) for i in range(x.rank)))
    if x is None:
        return
    axis = b.draw.choice([i for i in range(x.rank) if x.least(i)])
    n = x.least(axis)
    shape = b.draw.choice([(), (1,), (2,), (2, 2)])
    at = np.reshape(np.int64([b.draw.randrange(-n, n) for _ in range(int(np.prod(shape)))]), shape)
    shapes = [(*s[:axis], *shape, *s[axis + 1 :]) for s in x.shapes]
    b.keep(b.add("Gather", x, b.store(at), axis=axis), shapes)


REDUCERS = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2", "ReduceMin", "ReduceLogSumExp")


@kind
def reduce(b: Builder) -> None:
    """Some axes or all, stored, left out, or fed when the model runs."""
    x = b.pick(lambda x: x.rank >= 1 and _is_full(x))
    if x is None:
        return
    axes = sorted(b.draw.sample(range(x.rank), b.draw.randint(0, min(2, x.rank))))
    keep = b.draw.random() < 0.5
    stated = np.int64([a - b.draw.choice([0, x.rank]) for a in axes])
    inputs: list[Any] = [x]
    if axes and b.draw.random() < 0.3:
        inputs.append(b.root.feed("axes", [stated] * 3, INT64, [len(axes)]))
        keep = True if b.draw.random() < 0.5 else keep
    elif axes:
        inputs.append(b.store(stated))
    gone = axes or range(x.rank)
    name = b.add(b.draw.choice(REDUCERS), *inputs, keepdims=int(keep))
    shapes = [
        tuple(1 if i in gone else n for i, n in enumerate(s) if keep or i not in gone)
        for s in x.shapes
    ]
    b.keep(b.add("Tanh", name), shapes)


@kind
def normalise(b: Builder) -> None:
    """Softmax, cumulative sums, layer norms."""
    x = b.pick(lambda x: x.rank >= 1 and _is_full(x))
    if x is None:
        return
    axis = b.draw.randrange(-x.rank, x.rank)
    way = b.draw.randrange(3)
    if way == 0:
        name = b.add("Softmax", x, axis=axis)
    elif way == 1:
        name = b.add(
            "Tanh", b.add("CumSum", x, b.store(np.int64(axis)), reverse=b.draw.randrange(2))
        )
    else:
        widths = {s[-1] for s in x.shapes}
        if len(widths) > 1:
            return
        scale = b.store(np.ones(widths.pop(), np.float32))
        name = b.add("LayerNormalization", x, scale, epsilon=0.1)
    b.keep(name, x.shapes)


@kind
def image(b: Builder) -> None:
    """Resize, convolution or pooling of what has four axes."""
    x = b.pick(lambda x: x.rank == 4 and _is_full(x))
    if x is None:
        return
    way = b.draw.randrange(4)
    grid = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    if way == 0:
        scales = b.store(np.float32([1, 1, 2, 2]))
        mode = b.draw.choice(["nearest", "linear"])
        name = b.add("Resize", x, "", scales, mode=mode, **grid)
        shapes = [(*s[:2], 2 * s[2], 2 * s[3]) for s in x.shapes]
    elif way == 1:
        high = b.add("Mul", b.size_of(x, 2), b.store(np.int64([2])))
        sizes = [b.size_of(x, 0), b.size_of(x, 1), Value(high, ((1,),) * 3), 5]
        name = b.add("Resize", x, "", "", b.vector(sizes), mode="nearest", **grid)
        shapes = [(*s[:2], 2 * s[2], 5) for s in x.shapes]
    elif way == 2 and len({s[1] for s in x.shapes}) == 1:
        w = np.float32(np.random.default_rng(2).standard_normal((2, x.shapes[0][1], 3, 3)))
        name = b.add("Conv", x, b.store(w), pads=[1, 1, 1, 1])
        name = b.add("Tanh", name)
        shapes = [(s[0], 2, *s[2:]) for s in x.shapes]
    else:
        op_type = b.draw.choice(["MaxPool", "AveragePool"])
        name = b.add(op_type, x, kernel_shape=[2, 2], pads=[1, 1, 1, 1])
        shapes = [(*s[:2], s[2] + 1, s[3] + 1) for s in x.shapes]
    b.keep(name, shapes)


@kind
def pad(b: Builder) -> None:
    """A border of a value, around some axes."""
    x = b.pick(lambda x: x.rank >= 1 and _is_full(x))
    if x is not None:
        pads = [b.draw.choice([0, 0, 1, 2]) for _ in range(2 * x.rank)]
        around = [a + c for a, c in zip(pads[: x.rank], pads[x.rank :], strict=True)]
        shapes = [tuple(n + p for n, p in zip(s, around, strict=True)) for s in x.shapes]
        value = b.store(np.float32(0.5))
        b.keep(b.add("Pad", x, b.store(np.int64(pads)), value), shapes)


@kind
def branch(b: Builder) -> None:
    """A choice by a size between two sub-graphs that see what is outside."""
    x = b.pick(lambda x: x.rank >= 1)
    if x is None or b.depth > 1:
        return
    size = b.add("Squeeze", b.size_of(x, b.draw.randrange(x.rank)))
    cond = b.add("Greater", size, b.store(np.int64(b.draw.choice([1, 2, 3, 4]))))
    graphs = {}
    for name in ("then_branch", "else_branch"):
        inner = b.inside()
        inner.values.append(x)
        for _ in range(b.draw.randint(0, 2)):
            b.draw.choice([unary, constant, where, reduce])(inner)
        last = inner.pick(lambda v: v.shapes == x.shapes) or x
        graphs[name] = inner.graph([inner.add(b.draw.choice(["Tanh", "Abs"]), last)])
    b.keep(b.add("If", cond, **graphs), x.shapes)


@kind
def loop(b: Builder) -> None:
    """A loop of a known or computed number of turns; each turn's value is kept, too."""
    x = b.pick(lambda x: x.rank >= 1 and _is_full(x) and b.is_small(x))
    if x is None or b.depth > 1:
        return
    inner = b.inside()
    turn, go, carry = (inner.fresh(n) for n in ("i", "go", "v"))
    v = Value(carry, x.shapes)
    scaled = inner.add("Mul", v, inner.store(np.float32(0.5)))
    new = inner.add("Add", scaled, x)
    out = inner.add("Identity", new)
    body = inner.graph(
        [inner.add("Identity", go), new, out],
        [(turn, INT64, []), (go, TensorProto.BOOL, []), (carry, FLOAT, [None] * x.rank)],
        [TensorProto.BOOL, FLOAT, FLOAT],
    )
    turns = [2] * 3
    trip = b.store(np.int64(2))
    if b.draw.random() < 0.5:
        size = b.size_of(x, 0)
        trip, turns = b.add("Squeeze", size), [int(n[0]) for n in size.numbers]
    last, each = b.add("Loop", trip, "", x, n=2, body=body)
    b.keep(last, x.shapes)
    b.keep(each, [(n, *s) for n, s in zip(turns, x.shapes, strict=True)])
