"""Inputs of two dtypes: an error as the graph is built, or the dtype and value as inferred."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu.llvm.compiler import available
from gradwright.debug.float64 import known_specs
from gradwright.errors import DTypeError, GradwrightError
from gradwright.op import infer_specs, run_forward
from gradwright.spec import TensorSpec, dtype, is_half, kind
from gradwright.testing import samples
from tests.support.random_graphs import ALL
from tests.support.sweeps import spread

Array = np.ndarray[Any, Any]

PAIRS = (
    ("float16", "int32"),
    ("int64", "bfloat16"),
    ("float32", "float64"),
    ("bfloat16", "bool"),
    ("float16", "bfloat16"),
    ("float64", "float16"),
    ("uint8", "float32"),
    ("bool", "float16"),
    ("int32", "bool"),
)
MASKS = {"attn_mask", "attention_bias"}
"""Inputs in which a bool says what is seen, where a number is added."""
INNER = {"recurrent_grad"}
"""Reads what a layer saved, which never has another dtype than the layer's results."""


def converted(x: Array, name: str) -> Array:
    """Return numbers in a dtype, rounded to whole ones where it holds no others."""
    if kind(dtype(name)) in "iu":
        x = np.abs(np.rint(x)) if name.startswith("u") else np.rint(x)
    return x > 0 if name == "bool" else x.astype(dtype(name))


def mixed(one: str, other: str) -> Any:
    """Yield each op with the floats of a sample in one dtype, but for one of them in the other."""
    for cls in ALL:
        full = [s for s in samples(cls) if all(x is None or np.size(x) for x in s.inputs)]
        if not full or cls.name in INNER:
            continue
        given = [None if x is None else np.asarray(x) for x in full[0].inputs]
        floats = [i for i, x in enumerate(given) if x is not None and x.dtype.kind == "f"]
        op = cls(**full[0].attrs)
        names = [p.name for p in cls.inputs]
        for odd in floats if len(floats) > 1 else []:
            if odd < len(names) and names[odd] in MASKS:
                continue
            xs = list(given)
            for i in floats:
                x: Any = given[i]
                xs[i] = converted(x, other if i == odd else one)
            yield op, xs, floats


@pytest.mark.parametrize(("one", "other"), spread(PAIRS, 4))
def test_what_is_inferred_is_what_comes(one: str, other: str) -> None:
    tried = 0
    for op, xs, floats in mixed(one, other):
        try:
            specs = infer_specs(op, known_specs(op, xs))
        except GradwrightError:
            continue
        with np.errstate(all="ignore"):
            found = run_forward(op, xs)
            # A mask of bools says something else than one of numbers.
            wide = [
                x.astype("f8") if i in floats and x.dtype.kind != "b" else x
                for i, x in enumerate(xs)
            ]
            exact = run_forward(op, wide)
        tried += 1
        for spec, y, want in zip(specs, found, exact, strict=True):
            assert y.dtype == spec.dtype, op
            if y.shape != want.shape or not (is_half(y.dtype) or y.dtype.kind == "f"):
                continue
            with np.errstate(over="ignore"):
                a, b = y.astype("f8"), want.astype(y.dtype).astype("f8")
            tolerance = max(2 * float(ml_dtypes.finfo(y.dtype).eps), 3e-5)
            size = np.abs(b[np.isfinite(b)]).max(initial=0.0)
            close = np.allclose(a, b, tolerance, tolerance * size + 1e-7, equal_nan=True)
            assert close, (op, [None if x is None else x.dtype for x in xs])
    assert tried > 100


# -- by name --------------------------------------------------------------------------------------

TWO: dict[str, tuple[Any, Any]] = {
    "swiglu": (gw.nn.swiglu, lambda a, b: a / (1 + np.exp(-a)) * b),
    "reglu": (gw.nn.reglu, lambda a, b: np.maximum(a, 0) * b),
    "lerp": (lambda a, b: gw.lerp(a, a, b), lambda a, b: a),
    "linear": (
        lambda a, b: gw.nn.linear(a.reshape(2, 2), a.reshape(2, 2), b[:2]),
        lambda a, b: a.reshape(2, 2) @ a.reshape(2, 2) + b[:2],
    ),
}


@pytest.mark.parametrize("kernels", ["off", "wait"] if available() else ["off"])
@pytest.mark.parametrize("name", TWO)
@pytest.mark.parametrize(("one", "other"), [p for p in PAIRS if p != ("int32", "bool")])
def test_formulas_of_two_dtypes(name: str, one: str, other: str, kernels: str) -> None:
    call, formula = TWO[name]
    a, b = np.array([1.0, 0.0, 1.0, 1.0]), np.array([0.5, 1.5, -2.0, 3.0])
    arrays = [converted(x, n) for x, n in zip((a, b), (one, other), strict=True)]
    g = gw.Graph()
    x, y = (g.placeholder(n, (4,), dtype=d) for n, d in zip("xy", (one, other), strict=True))
    z = call(x, y)
    with gw.Session(g, kernels=kernels) as session:
        for _ in range(3):
            found = session.run(z, dict(zip("xy", arrays, strict=True)))
    assert found.dtype == z.dtype
    want = formula(*(v.astype("f8") for v in arrays))
    tolerance = max(2 * float(ml_dtypes.finfo(z.dtype).eps), 1e-6)
    np.testing.assert_allclose(found.astype("f8"), want, tolerance, tolerance)


def test_an_op_inside_that_refuses_is_told_as_the_graph_is_built() -> None:
    """Naming the node, and what came in."""
    g = gw.Graph()
    whole, y = g.placeholder("whole", (2, 3), dtype="int32"), g.placeholder("y", (2, 3))
    with pytest.raises(DTypeError, match=r"'node'.*does not take int32"):
        gw.loss.cosine_embedding(y[:, 0], y, whole, name="node")
    with pytest.raises(DTypeError, match=r"(?s)'node'.*does not take int32.*inside, at quantize"):
        gw.nn.fp8_product(whole, y, transpose_b=True, name="node")


@pytest.mark.parametrize("place", range(3))
@pytest.mark.parametrize("wrong", ["int32", "uint8", "bool"])
def test_attention_takes_floats_only(wrong: str, place: int) -> None:
    g = gw.Graph()
    names = [wrong if i == place else "float16" for i in range(3)]
    ins = [g.placeholder(f"x{i}", (1, 2, 4, 2), dtype=n) for i, n in enumerate(names)]
    for call in (
        gw.nn.flash_attention,
        gw.nn.grouped_query_attention,
        lambda *xs, name: gw.nn.windowed_attention(*xs, window_size=2, name=name),
    ):
        with pytest.raises(DTypeError, match=f"'node'.*does not take {wrong}"):
            call(*ins, name="node")


def test_floats_of_two_widths_have_the_wider_inside() -> None:
    """The product that float32 would round away is there in the float64 result."""
    g = gw.Graph()
    x, c = g.constant(np.float32([[1.0, 1.0]])), g.constant(np.array([1e-9, 0.0]))
    y = gw.nn.center_and_sharpen(x, c, g.constant(np.float32(1.0)))
    found = g.output({}, y)[y.name]
    assert found.dtype == np.float64
    e = np.exp(-np.array([1e-9, 0.0]))
    np.testing.assert_allclose(found[0], e / e.sum(), rtol=1e-14)


def test_linear_sums_bools_as_numbers() -> None:
    g = gw.Graph()
    ones = g.placeholder("ones", (1, 3), dtype="bool")
    w = g.placeholder("w", (3, 1), dtype="bool")
    bias = g.constant(np.zeros(1, "f2"))
    assert TensorSpec((1, 1), "float16") == gw.nn.linear(ones, w, bias).spec
    feeds = {"ones": np.ones((1, 3), bool), "w": np.ones((3, 1), bool)}
    y = gw.nn.linear(ones, w, bias, name="y")
    assert g.output(feeds, y)["y"].item() == 3.0
