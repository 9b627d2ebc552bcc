"""Rotary embeddings that are written out, in all forms of exporters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.graph import Graph, Tensor
from tests.rewrite.test_recognition import check
from tests.rewrite.test_recognition_attention import SCALE, D, H, Q, feeds, inputs, turned


def angles(x: Tensor, pairs: bool = False) -> Tensor:
    """Build the angles of all features, every one twice, as Hugging Face does."""
    g = x.graph
    speeds = g.constant(np.float32(10.0 ** -np.arange(0, 1, 2 / D)))
    places = gw.cast(gw.arange(x.shape[2]), "float32")
    once = places[:, None] * speeds
    if pairs:
        wide = gw.broadcast_to(gw.expand_dims(once, 2), (x.shape[2], D // 2, 2))
        return wide.reshape(x.shape[2], D)
    return gw.concat(once, once, axis=-1)


def half_turned(x: Tensor) -> Tensor:
    return gw.concat(-x[..., D // 2 :], x[..., : D // 2], axis=-1)


def pair_turned(x: Tensor) -> Tensor:
    parts = (gw.expand_dims(part, 4) for part in (-x[..., 1::2], x[..., 0::2]))
    return gw.concat(*parts, axis=-1).reshape(*x.shape)


def split_turned(x: Tensor) -> Tensor:
    first, second = gw.split(x, 2, axis=-1)
    return gw.concat(-second, first, axis=-1)


def by_parts(x: Tensor) -> Tensor:
    once = angles(x)[:, : D // 2]
    cos, sin = gw.cos(once), gw.sin(once)
    a, b = x[..., : D // 2], x[..., D // 2 :]
    return gw.concat(a * cos - b * sin, b * cos + a * sin, axis=-1)


def by_pairs(x: Tensor) -> Tensor:
    once = angles(x)[:, : D // 2]
    cos, sin = gw.cos(once), gw.sin(once)
    a, b = x[..., 0::2], x[..., 1::2]
    parts = (gw.expand_dims(p, -1) for p in (a * cos - b * sin, a * sin + b * cos))
    return gw.concat(*parts, axis=-1).reshape(*x.shape)


def stored(x: Tensor) -> Tensor:
    """Build a rotation by tables that are stored, and read by position."""
    table = np.arange(16)[:, None] * 10.0 ** -np.tile(np.arange(0, 1, 2 / D), 2)
    cos, sin = (x.graph.constant(np.float32(f(table))) for f in (np.cos, np.sin))
    at = x.graph.placeholder("at", ("B", "T"), "int64")
    cos, sin = (gw.gather(t, at)[:, None] for t in (cos, sin))
    return x * cos + half_turned(x) * sin


ROPES: dict[str, tuple[Callable[[Tensor], Tensor], bool]] = {
    "halves": (lambda x: x * gw.cos(angles(x)) + half_turned(x) * gw.sin(angles(x)), False),
    "halves, the other way": (
        lambda x: gw.sin(angles(x)) * half_turned(x) + gw.cos(angles(x)) * x,
        False,
    ),
    "halves by split": (
        lambda x: x * gw.cos(angles(x)) + split_turned(x) * gw.sin(angles(x)),
        False,
    ),
    "scaled tables": (
        lambda x: x * (gw.cos(angles(x)) * 1.2) + half_turned(x) * (gw.sin(angles(x)) * 1.2),
        False,
    ),
    "tables with axes of ones": (
        lambda x: (
            x * gw.expand_dims(gw.cos(angles(x)), (0, 1)) + half_turned(x) * gw.sin(angles(x))[None]
        ),
        False,
    ),
    "stored tables": (stored, False),
    "pairs": (
        lambda x: x * gw.cos(angles(x, True)) + pair_turned(x) * gw.sin(angles(x, True)),
        True,
    ),
    "by parts": (by_parts, False),
    "by pairs": (by_pairs, True),
}


@pytest.mark.parametrize("name", ROPES)
def test_rotary_embeddings(g: Graph, name: str) -> None:
    form, pairs = ROPES[name]
    x = g.placeholder("x", ("B", H, "T", D))
    form(x).rename("y")
    given: dict[str, Any] = {"x": Q}
    if "at" in g:
        given["at"] = np.array([[0, 1, 2, 3, 4], [3, 4, 5, 9, 0]])
    check(g, given, {"rope": 1})
    op: Any = g["y"].op
    assert op.name == "rotate_pairs"
    assert op.interleaved == pairs
    assert g["y"].node.inputs[1].shape[-1] == D // 2


UNTURNED: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "other angles in each half": (
        lambda x: (
            x * gw.cos(gw.concat(angles(x)[:, :4], angles(x)[:, :4] * 2.0, axis=-1))
            + half_turned(x) * gw.sin(angles(x))
        ),
        "cannot be seen to hold every angle twice",
    ),
    "tables for pairs": (
        lambda x: x * gw.cos(angles(x, True)) + half_turned(x) * gw.sin(angles(x, True)),
        "cannot be seen to hold every angle twice",
    ),
    "another second part": (
        lambda x: (lambda a, b, c, s: gw.concat(a * c - b * s, b * c + a * c, axis=-1))(
            x[..., :4], x[..., 4:], gw.cos(angles(x)[:, :4]), gw.sin(angles(x)[:, :4])
        ),
        "the second part is turned by other angles",
    ),
    "the sign of the other half": (
        lambda x: (
            x * gw.cos(angles(x)) + gw.concat(x[..., 4:], -x[..., :4], axis=-1) * gw.sin(angles(x))
        ),
        "",
    ),
    "unequal parts": (
        lambda x: (
            x * gw.cos(angles(x)) + gw.concat(-x[..., 5:], x[..., :5], axis=-1) * gw.sin(angles(x))
        ),
        "",
    ),
    "another tensor": (
        lambda x: (x + 1.0) * gw.cos(angles(x)) + half_turned(x) * gw.sin(angles(x)),
        "",
    ),
}


@pytest.mark.parametrize("name", UNTURNED)
def test_what_is_no_rotation_stays(g: Graph, name: str) -> None:
    form, why = UNTURNED[name]
    form(g.placeholder("x", ("B", H, "T", D))).rename("y")
    made = check(g, {"x": Q}, {})
    assert [m.why.endswith(why) for m in made.missed] == [True] * bool(why), made


def test_tables_are_shared(g: Graph) -> None:
    q, k, v = inputs(g)
    cos, sin = gw.cos(angles(q), name="cos"), gw.sin(angles(q), name="sin")
    q, k = (x * cos + half_turned(x) * sin for x in (q, k))
    gw.matmul(gw.nn.softmax((q @ turned(k)) * SCALE), v, name="y")
    before = g.output(feeds(), "y")["y"]
    assert gw.recognize(g, outputs=["y"]).counts == {"rope": 2, "attention": 1}
    np.testing.assert_allclose(g.output(feeds(), "y")["y"], before, rtol=1e-5, atol=1e-6)
    ops = [n.op.name for n in g.nodes if n.kind == "array"]
    assert (ops.count("cos"), ops.count("sin"), ops.count("concat")) == (1, 1, 0)
    assert "cos_half" in g
    assert "cos" not in g
