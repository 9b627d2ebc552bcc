"""Attention that is written out, with all that exporters put around it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.graph import Graph, Tensor
from tests.rewrite.test_recognition import check

DRAW = np.random.default_rng(1)
B, H, T, D = 2, 4, 5, 8
Q, K, V = (DRAW.standard_normal((B, H, T, D)).astype(np.float32) for _ in range(3))
LOWEST = float(np.finfo(np.float32).min)
SCALE = 1 / math.sqrt(D)


def inputs(
    g: Graph, heads: int = H, sizes: tuple[Any, Any] = ("B", "T")
) -> tuple[Tensor, Tensor, Tensor]:
    b, t = sizes
    q = g.placeholder("q", (b, H, t, D))
    k, v = (g.placeholder(n, (b, heads, t, D)) for n in "kv")
    return q, k, v


def feeds(heads: int = H) -> dict[str, Any]:
    return {"q": Q, "k": K[:, :heads], "v": V[:, :heads]}


def turned(k: Tensor) -> Tensor:
    return k.transpose(0, 1, 3, 2)


def causal(q: Tensor) -> Tensor:
    """Build who comes before whom, as torch's exporters do."""
    places = gw.arange(q.shape[2], name="places")
    return gw.less_equal(places[None, None, None, :], places[None, None, :, None])


def padding(g: Graph) -> Tensor:
    return gw.cast(g.placeholder("pad", ("B", "T"), "int64"), "bool")[:, None, None, :]


PAD = np.array([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0]])
LOST = np.array([[1, 1, 1, 1, 1], [0, 0, 0, 0, 0]])
"""A second sample of which no key is seen."""


PLAIN: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "scores times": lambda q, k: (q @ turned(k)) * SCALE,
    "scores by": lambda q, k: (q @ turned(k)) / math.sqrt(D),
    "queries times": lambda q, k: (q * SCALE) @ turned(k),
    "keys times": lambda q, k: q @ turned(k * SCALE),
    "turned keys times": lambda q, k: q @ (turned(k) * SCALE),
    "roots on both": lambda q, k: (q * math.sqrt(SCALE)) @ (turned(k) * math.sqrt(SCALE)),
    "no scale": lambda q, k: q @ turned(k),
    "twice": lambda q, k: ((q * SCALE) @ turned(k)) * SCALE,
    "as matrices": lambda q, k: (
        q @ k.reshape(-1, k.shape[2], D).transpose(0, 2, 1).reshape(k.shape[0], H, D, k.shape[2])
    ),
    "of a size that is computed": lambda q, k: (
        q @ turned(k) / gw.sqrt(gw.cast(gw.shape_of(q)[3], "float32"))
    ),
}
SCALES = {"keys times": 1.0, "no scale": 1.0, "twice": SCALE**2, "as matrices": 1.0}


@pytest.mark.parametrize("name", PLAIN)
def test_scores_in_all_forms(g: Graph, name: str) -> None:
    q, k, v = inputs(g)
    gw.matmul(gw.nn.softmax(PLAIN[name](q, k)), v, name="y")
    made = check(g, feeds(), {"attention": 1})
    op: Any = g["y"].op
    scale = SCALES.get(name, SCALE)
    assert op.name == "scaled_dot_product_attention"
    assert math.isclose(op.scale or SCALE, scale, rel_tol=1e-6)
    assert made.nodes[1] == (2 if name == "keys times" else 1)


def masked(kind: str, scores: Tensor, g: Graph) -> Tensor:
    zero = np.float32(0)
    match kind:
        case "added":
            return scores + g.placeholder("mask", ("T", "T"))
        case "added, lowest":
            return gw.where(causal(scores) & padding(g), zero, np.float32(LOWEST)) + scores
        case "added, −∞":
            return scores + gw.where(padding(g), zero, np.float32(-np.inf))
        case "chosen, −∞":
            return gw.where(padding(g), scores, np.float32(-np.inf))
        case "hidden, −∞":
            return gw.where(gw.logical_not(padding(g)), np.float32(-np.inf), scores)
        case "chosen, lowest":
            return gw.where(padding(g), scores, np.float32(LOWEST))
        case "chosen, −1e4":
            return gw.where(padding(g), scores, np.float32(-1e4))
        case "two added":
            bias = g.placeholder("bias", (H, "T", "T"))
            return scores + bias + gw.where(padding(g), zero, np.float32(LOWEST))
        case "one chosen, one added":
            own = gw.where(causal(scores), scores, np.float32(LOWEST))
            return own + gw.where(padding(g), zero, np.float32(LOWEST))
        case "two chosen":
            own = gw.where(causal(scores), scores, np.float32(-np.inf))
            return gw.where(padding(g), own, np.float32(-np.inf))
    raise AssertionError(kind)


MASKS = [
    *("added", "added, lowest", "added, −∞", "chosen, −∞", "hidden, −∞", "chosen, lowest"),
    *("chosen, −1e4", "two added", "one chosen, one added", "two chosen"),
]


@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("kind", MASKS)
def test_masks_are_the_same_where_nothing_is_seen(g: Graph, kind: str, guarded: bool) -> None:
    """A query that sees no key gets NaN, zeros or an average, as it is written."""
    q, k, v = inputs(g)
    weights = gw.nn.softmax(masked(kind, (q @ turned(k)) * SCALE, g))
    if guarded:
        weights = gw.where(gw.is_nan(weights), np.float32(0), weights)
    gw.matmul(weights, v, name="y")
    given = feeds()
    if "pad" in g:
        given["pad"] = LOST
    if "mask" in g:
        given["mask"] = np.where(np.tri(T, dtype=bool), DRAW.standard_normal((T, T)), -np.inf)
        given["mask"][2] = -np.inf
    if "bias" in g:
        given["bias"] = DRAW.standard_normal((H, T, T))
    before = g.output(given, "y")["y"]
    made = gw.recognize(g, outputs=["y"])
    assert made.counts == {"attention": 1}, made
    after = g.output(given, "y")["y"]
    np.testing.assert_array_equal(np.isnan(after), np.isnan(before))
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)
    assert np.isnan(before).any() != (
        guarded or kind not in ("added", "added, −∞", "chosen, −∞", "hidden, −∞", "two chosen")
    )


@pytest.mark.parametrize("kind", MASKS)
def test_masks_and_gradients(g: Graph, kind: str) -> None:
    q, k, v = inputs(g)
    gw.matmul(gw.nn.softmax(masked(kind, (q @ turned(k)) * SCALE, g)), v, name="y")
    given = feeds()
    if "pad" in g:
        given["pad"] = PAD
    if "mask" in g:
        given["mask"] = DRAW.standard_normal((T, T))
    if "bias" in g:
        given["bias"] = DRAW.standard_normal((H, T, T))
    check(g, given, {"attention": 1}, 1e-5)


CAUSAL: dict[str, Callable[[Tensor, Graph], Tensor]] = {
    "ranges": lambda s, g: gw.where(causal(s), s, np.float32(-np.inf)),
    "ranges, the other way": lambda s, g: gw.where(
        gw.greater_equal(gw.arange(s.shape[2])[:, None], gw.arange(s.shape[2])), s, np.float32(-1e4)
    ),
    "what comes after": lambda s, g: gw.where(
        gw.greater(gw.arange(s.shape[2]), gw.arange(s.shape[2])[:, None]), np.float32(-1e4), s
    ),
    "added": lambda s, g: s + gw.where(causal(s), np.float32(0), np.float32(LOWEST)),
    "a triangle": lambda s, g: gw.where(
        gw.cast(gw.tril(gw.full((s.shape[2], s.shape[2]), 1.0)), "bool"), s, np.float32(-1e4)
    ),
    "a stored triangle, cut": lambda s, g: gw.where(
        g.constant(np.tri(16, dtype=bool)[None, None])[:, :, : s.shape[2], : s.shape[2]],
        s,
        np.float32(LOWEST),
    ),
}


@pytest.mark.parametrize("name", CAUSAL)
def test_what_came_before_is_an_attribute(g: Graph, name: str) -> None:
    q, k, v = inputs(g)
    gw.matmul(gw.nn.softmax(CAUSAL[name]((q @ turned(k)) * SCALE, g)), v, name="y")
    check(g, feeds(), {"attention": 1})
    op: Any = g["y"].op
    assert op.is_causal
    assert len(g["y"].node.inputs) == 3


NOT_CAUSAL: dict[str, Callable[[Tensor, Graph], Tensor]] = {
    "what came before, without itself": lambda s, g: gw.less(
        gw.arange(s.shape[2]), gw.arange(s.shape[2])[:, None]
    ),
    "what comes after": lambda s, g: gw.greater_equal(
        gw.arange(s.shape[2]), gw.arange(s.shape[2])[:, None]
    ),
    "a range of another start": lambda s, g: gw.less_equal(
        gw.arange(1, s.shape[2] + 1), gw.arange(s.shape[2])[:, None]
    ),
    "another triangle": lambda s, g: g.constant(np.tri(T, k=1, dtype=bool)),
    "a triangle that is spread": lambda s, g: gw.logical_and(
        g.constant(np.ones((T, T), bool)), g.constant(np.tri(1, dtype=bool))
    ),
    "a triangle of one": lambda s, g: g.constant(np.tri(1, dtype=bool)),
    "positions of samples": lambda s, g: gw.less_equal(
        gw.arange(s.shape[2])[None, :], gw.arange(s.shape[0])[:, None]
    )[:, None, None],
}


@pytest.mark.parametrize("name", NOT_CAUSAL)
def test_other_masks_stay_masks(g: Graph, name: str) -> None:
    q, k, v = inputs(g, sizes=(B, T))
    scores = (q @ turned(k)) * SCALE
    seen = NOT_CAUSAL[name](scores, g)
    gw.matmul(gw.nn.softmax(gw.where(seen, scores, np.float32(LOWEST))), v, name="y")
    check(g, feeds(), {"attention": 1})
    op: Any = g["y"].op
    assert not op.is_causal
    assert len(g["y"].node.inputs) == 4


WRONG: dict[str, tuple[Callable[[Tensor, Tensor, Tensor, Graph], Tensor], str]] = {
    "a number that does not hide": (
        lambda q, k, v, g: (
            gw.nn.softmax(
                gw.where(padding(g), q @ turned(k), np.float32(-1e4))
                + g.placeholder("m", ("T", "T"))
            )
            @ v
        ),
        "-10000 does not hide: a query that sees no key would see some",
    ),
    "zero for what is hidden": (
        lambda q, k, v, g: gw.nn.softmax(gw.where(causal(q), q @ turned(k), np.float32(0))) @ v,
        "0 does not hide",
    ),
    "a mask that is scaled": (
        lambda q, k, v, g: (
            gw.nn.softmax((q @ turned(k) + g.placeholder("m", ("T", "T"))) * 0.3) @ v
        ),
        "what masks the scores is scaled with them",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_nearly_attention_stays_and_says_why(g: Graph, name: str) -> None:
    form, why = WRONG[name]
    form(*inputs(g), g).rename("y")
    given = feeds()
    given |= {"pad": PAD} if "pad" in g else {}
    given |= {"m": DRAW.standard_normal((T, T))} if "m" in g else {}
    made = check(g, given, {})
    assert [why in m.why for m in made.missed] == [True], made


OTHERS: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "over queries": lambda q, k, v: gw.nn.softmax(q @ turned(k), axis=2) @ v,
    "from the right": lambda q, k, v: v.mT @ gw.nn.softmax(q @ turned(k)),
    "of elements": lambda q, k, v: gw.nn.softmax(q * k) @ v.mT,
    "squared": lambda q, k, v: gw.nn.softmax((q @ turned(k)) ** 2.0) @ v,
    "guarded by one": lambda q, k, v: (
        (lambda w: gw.where(gw.is_nan(w), np.float32(1), w))(gw.nn.softmax(q @ turned(k))) @ v
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_attention_stays(g: Graph, name: str) -> None:
    OTHERS[name](*inputs(g)).rename("y")
    check(g, feeds(), {})


def test_weights_that_are_shown_stay(g: Graph) -> None:
    q, k, v = inputs(g)
    weights = gw.nn.softmax(q @ turned(k), name="weights")
    gw.matmul(weights, v, name="y")
    made = gw.recognize(g, outputs=["y", "weights"])
    assert not made
    assert made.missed[0].why == "'weights', inside of it, is an output"
    assert gw.recognize(g, outputs=["y"]).counts == {"attention": 1}


@pytest.mark.parametrize("softcap", [False, True])
@pytest.mark.parametrize("kind", ["", "added, lowest", "chosen, −∞"])
def test_heads_that_share_keys(g: Graph, kind: str, softcap: bool) -> None:
    def repeated(x: Tensor) -> Tensor:
        wide = gw.broadcast_to(gw.expand_dims(x, 2), (x.shape[0], 2, 2, x.shape[2], D))
        return wide.reshape(x.shape[0], H, x.shape[2], D)

    q, k, v = inputs(g, 2)
    scores = (q @ turned(repeated(k))) * SCALE
    if softcap:
        scores = gw.tanh(scores / 3.0) * 3.0
    scores = masked(kind, scores, g) if kind else scores
    gw.matmul(gw.nn.softmax(scores), repeated(v), name="y")
    given = feeds(2) | ({"pad": PAD} if kind else {})
    if kind == "chosen, −∞" and softcap:
        made = check(g, given, {})
        assert made.missed[0].why == "a cap of the scores beside a mask that may hide all keys"
        return
    lost = given | ({"pad": LOST} if kind else {})
    before = g.output(lost, "y")["y"]
    check(g, given, {"attention": 1}, 1e-5)
    np.testing.assert_allclose(g.output(lost, "y")["y"], before, rtol=1e-5, atol=1e-6)
    op: Any = g["y"].op
    if kind == "chosen, −∞":  # where no key is seen there is NaN, which grouped heads do not give
        assert op.name == "scaled_dot_product_attention"
        return
    assert op.name == "grouped_query_attention"
    assert [t.name for t in g["y"].node.inputs[:3]] == ["q", "k", "v"]
    assert op.softcap == (3.0 if softcap else 0.0)


def test_halves_are_widened_for_the_softmax(g: Graph) -> None:
    q, k, v = (g.placeholder(n, ("B", H, "T", D), "float16") for n in "qkv")
    weights = gw.nn.softmax(gw.cast((q @ turned(k)) * np.float16(SCALE), "float32"))
    gw.matmul(gw.cast(weights, "float16"), v, name="y")
    halves = {name: x.astype(np.float16) for name, x in feeds().items()}
    before = g.output(halves, "y")["y"]
    assert gw.recognize(g).counts == {"attention": 1}
    np.testing.assert_allclose(g.output(halves, "y")["y"], before, rtol=4e-3, atol=4e-3)


EINSUMS = {
    "heads before positions": ("bhtd,bhsd->bhts", "bhts,bhsd->bhtd"),
    "values first": ("bhtd,bhsd->bhts", "bhsd,bhts->bthd"),
    "as Keras": ("aecd,abcd->acbe", "acbe,aecd->abcd"),
    "dots": ("...td,...sd->...ts", "...ts,...sd->...td"),
}


@pytest.mark.parametrize("name", EINSUMS)
def test_products_by_labels(name: str) -> None:
    g = Graph()
    first, second = EINSUMS[name]
    q, k, v = (g.placeholder(n, (B, T, T, D)) for n in "qkv")
    pair = (k, q) if name == "as Keras" else (q, k)
    weights = gw.nn.softmax(gw.einsum(first, *pair) * SCALE)
    both = (v, weights) if name == "values first" else (weights, v)
    gw.einsum(second, *both, name="y")
    given = {n: DRAW.standard_normal((B, T, T, D)).astype(np.float32) for n in "qkv"}
    check(g, given, {"attention": 1})


@pytest.mark.parametrize("first", ["bhtd,bhsd->bhst", "bhtd,hbsd->bhts", "bhtd,bhsd->bhtd"])
def test_other_products_by_labels_stay(first: str) -> None:
    g = Graph()
    q, k, v = (g.placeholder(n, (T, T, T, T)) for n in "qkv")
    gw.einsum("bhts,bhsd->bhtd", gw.nn.softmax(gw.einsum(first, q, k)), v, name="y")
    given = {n: DRAW.standard_normal((T, T, T, T)).astype(np.float32) for n in "qkv"}
    found = 0 if first == "bhtd,bhsd->bhtd" else 1  # of others the axes are turned
    check(g, given, {"attention": 1} if found else {}, 1e-5)


def test_attention_of_any_rank() -> None:
    for shape in ((T, D), (B, T, D), (2, 2, 3, T, D), (B, T, 0)):
        g = Graph()
        q, k, v = (g.placeholder(n, shape) for n in "qkv")
        gw.matmul(gw.nn.softmax((q @ k.mT) * 0.2), v, name="y")
        given = {n: DRAW.standard_normal(shape).astype(np.float32) for n in "qkv"}
        check(g, given, {"attention": 1})
