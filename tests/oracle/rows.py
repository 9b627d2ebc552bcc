"""One row says how another library spells an op, and on which inputs the two are compared."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import gradwright as gw
from gradwright.ops import namespace
from gradwright.ops.namespaces import NAMESPACES

Array = np.ndarray[Any, Any]
Case = tuple[Any, ...]
"""Arrays, and at the end perhaps a dict of attributes."""

TOLERANCE = {"f8": 1e-10, "c16": 1e-10, "f4": 1e-5, "c8": 1e-5}
RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Row:
    """How another library spells an op.

    ``theirs`` is a dotted name in it, which takes the same attributes, or a function of the library
    and the tensors. ``ours`` is the public function of the same name unless it is given. ``fixed``
    lists inputs that the library does not differentiate by.
    """

    theirs: str | Callable[..., Any]
    cases: Sequence[Case]
    ours: Callable[..., Any] | None = None
    library: str = "torch"
    fixed: tuple[int, ...] = ()


def op_of(name: str) -> str:
    """Return the op that a row is about: ``conv2d, dilated`` is about ``conv2d``."""
    return name.partition(",")[0]


def public(name: str) -> Callable[..., Any]:
    """Return the public function of an op."""
    return namespace("base", *NAMESPACES)[name]


# -- inputs ----------------------------------------------------------------------------------------


def normal(*shape: int) -> Array:
    return np.asarray(RNG.standard_normal(shape))


def uniform(low: float, high: float, *shape: int) -> Array:
    return np.asarray(RNG.uniform(low, high, shape))


def ints(low: int, high: int, *shape: int, dtype: str = "int64") -> Array:
    return np.asarray(RNG.integers(low, high, shape), dtype)


def bools(*shape: int) -> Array:
    return np.asarray(RNG.random(shape) < 0.6)


def complexes(*shape: int) -> Array:
    return np.asarray(normal(*shape) + 1j * normal(*shape))


def probabilities(*shape: int) -> Array:
    e = np.exp(normal(*shape))
    return np.asarray(e / e.sum(-1, keepdims=True))


SHAPES = ((3, 4), (), (0, 2), (2, 1, 3, 1, 2))
PAIRS = (
    ((3, 4), (3, 4)),
    ((3, 1), (1, 4)),
    ((2, 3), ()),
    ((), ()),
    ((0, 3), (3,)),
    ((2, 1, 1, 2, 3), (4, 1, 1)),
)


def unary(low: float, high: float, *more: Array) -> list[Case]:
    """Return an input of each shape between two numbers, and more inputs."""
    return [(uniform(low, high, *shape),) for shape in SHAPES] + [(x,) for x in more]


def binary(low: float, high: float, *more: Case) -> list[Case]:
    """Return pairs that broadcast both ways."""
    return [(uniform(low, high, *a), uniform(low, high, *b)) for a, b in PAIRS] + list(more)


def integers(n: int, low: int = -4, high: int = 5) -> list[Case]:
    """Return ``n`` integer tensors that broadcast, of several dtypes."""
    shapes = ((2, 3), (3,), ()), ((2, 1, 2), (3, 1), (1,))
    kinds = "int64", "int32", "int16", "int8", "uint8"
    return [
        tuple(ints(max(low, 0 if k[0] == "u" else low), high, *s, dtype=k) for s in some[:n])
        for k in kinds
        for some in shapes
    ]


def over_axes(
    draw: Callable[..., Array], *, empty: bool = True, several: bool = True
) -> list[Case]:
    """Return inputs of ranks 0 to 5 with the axes to reduce, counted from either end."""
    rng = np.random.default_rng(1)
    cases: list[Case] = [(draw(3, 4), {}), (draw(), {}), (draw(2, 3), {"keepdims": True})]
    for rank in range(1, 6):
        for _ in range(3):
            shape = rng.integers(0 if empty else 1, 4, rank)
            axes = rng.permutation(rank)[: rng.integers(1, rank + 1)] - rank * rng.integers(0, 2)
            axis = tuple(map(int, axes)) if several else int(axes[0])
            keepdims = bool(rng.integers(0, 2))
            cases.append((draw(*map(int, shape)), {"axis": axis, "keepdims": keepdims}))
    return cases


LAYOUTS: tuple[Callable[[Array], Array], ...] = (
    lambda x: x,
    lambda x: np.flip(np.flip(x).copy()),  # strides below zero
    lambda x: x.T.copy().T,  # column-major
    lambda x: np.repeat(x, 2, -1)[..., ::2] if x.ndim else x,  # gaps
)


def inputs(case: Case, dtype: str) -> tuple[list[Array], dict[str, Any]]:
    """Return the arrays of a case in a precision and odd layouts, and its attributes."""
    *arrays, attrs = case if case and isinstance(case[-1], dict) else (*case, {})
    single = dtype == "float32"
    narrow = {"f": "float32", "c": "complex64"} if single else {}
    with np.errstate(over="ignore", under="ignore"):
        moved = [np.asarray(a, narrow.get(np.asarray(a).dtype.kind)) for a in arrays]
    return [LAYOUTS[(i + a.ndim) % 4](a) for i, a in enumerate(moved)], attrs


def is_floating(x: Array) -> bool:
    return x.dtype.kind in "fc"


def has_floats(case: Case) -> bool:
    return any(is_floating(np.asarray(a)) for a in case if not isinstance(a, dict))


def seed_for(y: Array, number: int) -> Array:
    """Return a random cotangent."""
    rng = np.random.default_rng(100 + number)
    g = rng.standard_normal(y.shape)
    if y.dtype.kind == "c":
        g = g + 1j * rng.standard_normal(y.shape)
    return np.asarray(g, y.dtype)


# -- both sides ------------------------------------------------------------------------------------


def as_tuple(ys: Any) -> tuple[Any, ...]:
    return tuple(ys) if isinstance(ys, (tuple, list)) else (ys,)


def torch_side(
    torch: Any, row: Row, arrays: Sequence[Array], attrs: dict[str, Any]
) -> tuple[list[Array], list[int], list[Array]]:
    """Return torch's outputs, which of them have gradients, and the gradients of all floats."""
    xs = [
        torch.tensor(np.array(a, order="C"), requires_grad=is_floating(a) and i not in row.fixed)
        for i, a in enumerate(arrays)
    ]
    if isinstance(row.theirs, str):
        ys = as_tuple(operator.attrgetter(row.theirs)(torch)(*xs, **attrs))
    else:
        ys = as_tuple(row.theirs(torch, *xs, **attrs))
    found = [y.detach().resolve_conj().numpy(force=True) for y in ys]
    live = [i for i, y in enumerate(ys) if y.requires_grad]
    wrt = [x for x in xs if x.requires_grad]
    if not live:
        return found, [], []
    seeds = [torch.tensor(seed_for(found[i], i)) for i in live]
    grads = torch.autograd.grad([ys[i] for i in live], wrt, seeds, materialize_grads=True)
    return found, live, [g.resolve_conj().numpy(force=True) for g in grads]


def jax_side(
    jax: Any, row: Row, arrays: Sequence[Array], attrs: dict[str, Any]
) -> tuple[list[Array], list[int], list[Array]]:
    """Return JAX's outputs, which of them have gradients, and the gradients of all floats."""
    places = [i for i, a in enumerate(arrays) if is_floating(a) and i not in row.fixed]

    def function(*floats: Any) -> Any:
        xs = list(arrays)
        for i, x in zip(places, floats, strict=True):
            xs[i] = x
        if isinstance(row.theirs, str):
            return as_tuple(operator.attrgetter(row.theirs)(jax)(*xs, **attrs))
        return as_tuple(row.theirs(jax, *xs, **attrs))

    ys, pull = jax.vjp(function, *(arrays[i] for i in places))
    found = [np.asarray(y) for y in ys]
    return found, list(range(len(found))), [
        np.asarray(g) for g in pull(tuple(seed_for(y, i) for i, y in enumerate(found)))
    ]  # fmt: skip


SIDES = {"torch": torch_side, "jax": jax_side}


def our_side(
    name: str,
    row: Row,
    arrays: Sequence[Array],
    attrs: dict[str, Any],
    live: Sequence[int],
) -> tuple[list[Array], list[Array]]:
    """Return our outputs and gradients."""
    g = gw.Graph()
    xs = [g.placeholder(f"x{i}", a.shape, a.dtype) for i, a in enumerate(arrays)]
    with g:
        ys = as_tuple((row.ours or public(op_of(name)))(*xs, **attrs))
        assert op_of(name) in {node.op.name for node in g.nodes}, "the row builds another op"
        wrt = [x for i, x in enumerate(xs) if is_floating(arrays[i]) and i not in row.fixed]
        with gw.Session(g) as session:
            feeds = dict(zip(xs, arrays, strict=True))
            found = session.run(list(ys), feeds)
            if not live or not wrt:
                return found, []
            seeds = [g.constant(seed_for(found[i], i)) for i in live]
            grads = gw.gradients([ys[i] for i in live], wrt, seeds, unreachable="zero")
            return found, session.run(grads, feeds)


def hold(name: str, row: Row, case: Case, dtype: str, library: Any) -> None:
    """Hold one op against another library on one case."""
    arrays, attrs = inputs(case, dtype)
    wanted, live, slopes = SIDES[row.library](library, row, arrays, attrs)
    found, grads = our_side(name, row, arrays, attrs, live)
    assert len(found) == len(wanted), f"{len(found)} outputs, not {len(wanted)}"
    for i, (f, w) in enumerate(zip(found, wanted, strict=True)):
        same(f, w, f"output {i} for {describe(arrays, attrs)}")
    for i, (f, w) in enumerate(zip(grads, slopes, strict=bool(live))):
        same(f, w, f"gradient {i} for {describe(arrays, attrs)}")


def same(found: Array, wanted: Array, what: str) -> None:
    """Compare shape and dtype; floats up to rounding, all else exactly."""
    assert found.shape == wanted.shape, f"{what}: {found.shape}, not {wanted.shape}"
    assert found.dtype == wanted.dtype, f"{what}: {found.dtype}, not {wanted.dtype}"
    if not is_floating(wanted):
        np.testing.assert_array_equal(found, wanted, what)
        return
    tolerance = TOLERANCE[found.dtype.str[1:]]
    size = min(np.abs(wanted[np.isfinite(wanted)]).max(initial=1.0), 1e6)
    np.testing.assert_allclose(found, wanted, tolerance, tolerance * size, err_msg=what)


def describe(arrays: Sequence[Array], attrs: dict[str, Any]) -> str:
    return f"{[f'{a.dtype}{list(a.shape)}' for a in arrays]} {attrs}"
