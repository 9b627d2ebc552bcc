"""What a graph has written out: found in all its forms, not found in what is nearly one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError
from gradwright.graph import Graph, Tensor
from gradwright.rewrite.recognition import Recognition, kinds, search

DRAW = np.random.default_rng(0)
X = DRAW.standard_normal((2, 3, 8)).astype(np.float32)
Form = Callable[[Tensor], Tensor]


def gate(x: Tensor, scale: float = math.sqrt(2), half: float = 0.5) -> Tensor:
    """Build a gelu as torch's exporters write it."""
    return (x * (gw.erf(x / scale) + 1.0)) * half


def bent(x: Tensor, cubic: float = 0.044715, steep: float = math.sqrt(2 / math.pi)) -> Tensor:
    """Build what a gelu takes the hyperbolic tangent of."""
    return (x + x**3 * cubic) * steep


def rms(x: Tensor, eps: float = 1e-6, axis: Any = -1) -> Tensor:
    return (x**2.0).mean(axis, keepdims=True) + eps


def centred(x: Tensor) -> Tensor:
    return x - x.mean(-1, keepdims=True)


def deviation(x: Tensor, eps: float = 1e-5) -> Tensor:
    return gw.sqrt((centred(x) ** 2.0).mean(-1, keepdims=True) + eps)


def length(x: Tensor) -> Tensor:
    return (x * x).sum(-1, keepdims=True)


def soft(x: Tensor, axis: int = -1) -> Tensor:
    e = gw.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


FORMS: dict[str, tuple[str, Form]] = {
    "erf last": ("gelu", lambda x: x * 0.5 * (1.0 + gw.erf(x / math.sqrt(2)))),
    "erf first": ("gelu", gate),
    "erf by the inverse": ("gelu", lambda x: 0.5 * (x * (1.0 + gw.erf(x * math.sqrt(0.5))))),
    "probability first": ("gelu", lambda x: x * ((1.0 + gw.erf(x / math.sqrt(2))) * 0.5)),
    "probability as a sum": ("gelu", lambda x: x * (0.5 + 0.5 * gw.erf(x / math.sqrt(2)))),
    "halved by division": ("gelu", lambda x: (x / 2.0) * (gw.erf(x / math.sqrt(2)) + 1.0)),
    "the tail": ("gelu", lambda x: (x * 0.5) * gw.erfc(x * -math.sqrt(0.5))),
    "tanh": ("gelu", lambda x: (x * 0.5) * (1.0 + gw.tanh(bent(x)))),
    "tanh of a product": (
        "gelu",
        lambda x: x * 0.5 * (1.0 + gw.tanh(x * math.sqrt(2 / math.pi) * (1.0 + x * x * 0.044715))),
    ),
    "tanh of products": (
        "gelu",
        lambda x: 0.5 * x * (gw.tanh((x * x * x * 0.044715 + x) * math.sqrt(2 / math.pi)) + 1.0),
    ),
    "sigmoid of twice": (
        "gelu",
        lambda x: x * gw.nn.sigmoid(bent(x, steep=math.sqrt(8 / math.pi))),
    ),
    "silu": ("silu", lambda x: gw.nn.sigmoid(x) * x),
    "silu by exp": ("silu", lambda x: x / (1.0 + gw.exp(-x))),
    "quick gelu": ("quick_gelu", lambda x: x * gw.nn.sigmoid(1.702 * x)),
    "mish": ("mish", lambda x: x * gw.tanh(gw.nn.softplus(x))),
    "hard swish": ("hard_swish", lambda x: x * gw.clip(x + 3.0, 0.0, 6.0) / 6.0),
    "hard swish by relu6": ("hard_swish", lambda x: gw.nn.relu6(x + 3.0) * x * (1 / 6)),
    "rms by sqrt": ("rms_norm", lambda x: x / gw.sqrt(rms(x))),
    "rms by reciprocal": ("rms_norm", lambda x: x * gw.reciprocal(gw.sqrt(rms(x)))),
    "rms by quotient": ("rms_norm", lambda x: x * (1.0 / gw.sqrt(rms(x)))),
    "rms by rsqrt": ("rms_norm", lambda x: gw.rsqrt(rms(x)) * x),
    "rms by power": ("rms_norm", lambda x: x * rms(x) ** -0.5),
    "rms of two axes": ("rms_norm", lambda x: x / gw.sqrt(rms(x, axis=(1, 2)))),
    "layer norm": ("layer_norm", lambda x: centred(x) / deviation(x)),
    "layer norm by product": ("layer_norm", lambda x: centred(x) * (1.0 / deviation(x))),
    "softmax": ("softmax", soft),
    "softmax of an inner axis": ("softmax", lambda x: soft(x, 1)),
    "unit length": ("normalize", lambda x: x / gw.maximum(length(x) ** 0.5, 1e-12)),
    "unit length, clipped": (
        "normalize",
        lambda x: x / gw.broadcast_to(gw.clip(gw.sqrt(length(x)), 1e-12), x.shape),
    ),
}
"""What is to be found, and how it may be written."""


def built(form: Form, dtype: str = "float32") -> tuple[Graph, Tensor]:
    g = Graph()
    x = g.placeholder("x", ("B", "T", 8), dtype)
    return g, form(x).rename("y")


def check(
    g: Graph, feeds: dict[str, Any], counts: dict[str, int], rtol: float = 2e-6
) -> Recognition:
    """Recognise, and hold values and gradients of ``y`` against what they were."""
    wrt = [t for t in g.placeholders if t.spec.differentiable]
    found: list[list[Any]] = []
    made = None
    for _ in range(2):
        slopes = gw.gradients(gw.sin(g["y"] * 1.5).sum(), wrt) if wrt else []
        run = g.output(feeds, g["y"], *slopes)
        found.append(list(run.values()))
        if made is None:
            made = gw.recognize(g, outputs=["y"])
    assert made is not None
    assert made.counts == counts, str(made)
    for before, after in zip(*found, strict=True):
        np.testing.assert_allclose(
            after, before, rtol=rtol, atol=rtol * np.abs(before).max(initial=0)
        )
    return made


@pytest.mark.parametrize("name", FORMS)
def test_forms(name: str) -> None:
    kind, form = FORMS[name]
    g, y = built(form)
    made = check(g, {"x": X}, {kind: 1}, 1e-5)
    assert made.nodes[1] == 1
    assert made[0].node == y.name == "y"
    assert g["y"].op.name in (kind, "lp_normalize")
    assert not made.missed


@pytest.mark.parametrize("name", FORMS)
def test_forms_of_float64_are_exact(name: str) -> None:
    kind, form = FORMS[name]
    g, _ = built(form, "float64")
    check(g, {"x": X.astype(np.float64)}, {kind: 1}, 1e-13)


WRONG: dict[str, tuple[Form, str]] = {
    "another root of two": (lambda x: gate(x, 1.41), "the factor is 0.7092199 where 0.7071068 is"),
    "another half": (lambda x: gate(x, half=0.51), "the factor is 0.51 where 0.5 is meant"),
    "another cube": (lambda x: x * 0.5 * (1.0 + gw.tanh(bent(x, 0.044))), "0.044 where 0.044715"),
    "another slope": (lambda x: x * 0.5 * (1.0 + gw.tanh(bent(x, steep=0.8))), "0.8 where"),
    "ε outside of the root": (
        lambda x: x / (gw.sqrt((x * x).mean(-1, keepdims=True)) + 1e-6),
        "ε is added outside of the root",
    ),
    "an axis that is not last": (lambda x: x / gw.sqrt(rms(x, axis=1)), "not over the last"),
    "softmax of two axes": (
        lambda x: (lambda e: e / e.sum((1, 2), keepdims=True))(
            gw.exp(x - x.max((1, 2), keepdims=True))
        ),
        "it is over axes (1, 2), not along one",
    ),
    "a length of nothing": (
        lambda x: x / gw.maximum(length(x) ** 0.5, 0.0),
        "what has no length would be NaN, not 0",
    ),
    "another sigmoid": (lambda x: x * gw.nn.sigmoid(x * 1.7), "1.7 where 1.702 is meant"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_nearly_a_form_stays_and_says_why(name: str) -> None:
    form, why = WRONG[name]
    g, _ = built(form)
    made = check(g, {"x": X}, {})
    assert any(why in missed.why for missed in made.missed), made
    assert why in str(made)


OTHERS: dict[str, Form] = {
    "another x": lambda x: x * 0.5 * (1.0 + gw.erf((x + 1.0) / math.sqrt(2))),
    "minus one": lambda x: x * 0.5 * (gw.erf(x / math.sqrt(2)) - 1.0),
    "another mean": lambda x: x / gw.sqrt(rms(x + 1.0)),
    "a mean that is not kept": lambda x: x / gw.sqrt((x * x).mean() + 1e-6),
    "a sum for the mean": lambda x: x / gw.sqrt((x * x).sum(-1, keepdims=True) + 1e-6),
    "the variance of another": lambda x: centred(x) / deviation(x * x),
    "a softmax over another axis": lambda x: (
        gw.exp(x - x.max(-1, keepdims=True))
        / gw.exp(x - x.max(-1, keepdims=True)).sum(1, keepdims=True)
    ),
    "a softmax that overflows": lambda x: gw.exp(x) / gw.exp(x).sum(-1, keepdims=True),
    "the root of the root": lambda x: x / gw.sqrt(gw.sqrt(rms(x))),
    "a swish upside down": lambda x: x * (1.0 + gw.exp(-x)),
    "silu of the opposite": lambda x: x * gw.nn.sigmoid(-x),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_functions_stay(name: str) -> None:
    g, _ = built(OTHERS[name])
    check(g, {"x": X}, {})


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_compare_numbers_as_they_are_rounded(dtype: str) -> None:
    g, _ = built(gate, dtype)
    assert gw.recognize(g).counts == {"gelu": 1}
    g, _ = built(lambda x: gate(x, 1.41), dtype)
    assert gw.recognize(g).counts == {}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_norms_of_halves_keep_each_rounding(dtype: str) -> None:
    """Llama's norm: widened, normalised, rounded, and then scaled in halves."""

    def form(x: Tensor) -> Tensor:
        wide = gw.cast(x, "float32")
        weight = x.graph.variable("w", (8,), init=np.linspace(0.5, 2, 8), dtype=dtype)
        return weight * gw.cast(wide * gw.rsqrt(rms(wide)), dtype)

    g, _ = built(form, dtype)
    x = X.astype(gw.TensorSpec((), dtype).dtype)
    before = g.output({"x": x}, "y")["y"]
    made = gw.recognize(g)
    assert made.counts == {"rms_norm": 1}
    assert [n.op.name for n in g.nodes if n.kind == "array"] == ["rms_norm", "mul"]
    np.testing.assert_array_equal(g.output({"x": x}, "y")["y"], before)


def test_norms_take_weight_and_bias() -> None:
    def form(x: Tensor) -> Tensor:
        w, b = (x.graph.variable(n, init=DRAW.standard_normal(8).astype(np.float32)) for n in "wb")
        return b + centred(x) / deviation(x, 1e-3) * w

    g, _ = built(form)
    made = check(g, {"x": X}, {"layer_norm": 1}, 1e-5)
    assert [t.name for t in g["y"].node.inputs if t is not None] == ["x", "w", "b"]
    assert made[0].op == "layer_norm(eps=0.001)"


def test_a_layer_norm_as_tensorflow_folds_it() -> None:
    def form(x: Tensor) -> Tensor:
        w, b = (x.graph.variable(n, init=DRAW.standard_normal(8).astype(np.float32)) for n in "wb")
        scale = gw.rsqrt((centred(x) ** 2.0).mean(-1, keepdims=True) + 1e-3) * w
        return x * scale + (b - x.mean(-1, keepdims=True) * scale)

    g, _ = built(form)
    check(g, {"x": X}, {"layer_norm": 1}, 1e-5)


def test_a_weight_of_another_shape_stays_outside() -> None:
    g, _ = built(lambda x: x / gw.sqrt(rms(x)) * x.graph.variable("w", (3, 8), init=2.0))
    made = check(g, {"x": X}, {"rms_norm": 1}, 1e-5)
    assert g["y"].op.name == "mul"
    assert "not of the normalised axes" in made.missed[0].why


def test_what_is_read_elsewhere_stays() -> None:
    g = Graph()
    x = g.placeholder("x", ("B", 8))
    inner = gw.erf(x / math.sqrt(2), name="inner")
    gw.mul(x * 0.5, inner + 1.0, name="y")
    gw.exp(inner, name="z")
    made = gw.recognize(g)
    assert not made
    assert made.missed[0].why == "'inner', inside of it, feeds 'z'"
    assert gw.recognize(g, outputs=["y"]).counts == {"gelu": 1}
    assert "z" not in g


def test_an_inner_value_that_is_asked_for_stays() -> None:
    g = Graph()
    x = g.placeholder("x", ("B", 8))
    gate = gw.nn.sigmoid(x, name="gate")
    gw.mul(x, gate, name="y")
    made = gw.recognize(g, outputs=["y", "gate"])
    assert not made
    assert made.missed[0].why == "'gate', inside of it, is an output"
    v = g.variable("v", (8,), trainable=False)
    g.update(v, gate.sum(0))
    assert "feeds 'sum'" in gw.recognize(g, outputs=["y"]).missed[0].why


def test_sizes_that_are_read_do_not_matter() -> None:
    g = Graph()
    x = g.placeholder("x", ("B", 8))
    gate = gw.nn.sigmoid(x, name="gate")
    y = gw.mul(x, gate, name="y")
    gw.full(gw.shape_of(gate), 1.0, name="ones")
    assert gw.recognize(g).counts == {"silu": 1}
    assert "ones" in g
    np.testing.assert_array_equal(g.output({"x": X[0]}, "ones")["ones"], np.ones((3, 8)))
    assert g["y"] is not y


def test_names_scopes_places_and_lines_are_kept() -> None:
    g = Graph()
    x = g.placeholder("x", ("B", 8))
    with g.scope("block/act"):
        y = gw.mul(x, gw.nn.sigmoid(x), name="y")
    z = gw.exp(y, name="z")
    made = gw.recognize(g)
    assert [(m.kind, m.where, m.node, m.replaced) for m in made] == [
        ("silu", "block/act", "block/act/y", ("block/act/sigmoid", "block/act/y"))
    ]
    assert [n.name for n in g.nodes] == ["x", "block/act/y", "z"]
    assert g["block/act/y"].node.where == y.node.where
    assert z.node.inputs == (g["block/act/y"],)


def test_kinds_are_chosen() -> None:
    def both(x: Tensor) -> Tensor:
        return gate(x * gw.nn.sigmoid(x))

    for options, counts in (
        ({"only": {"gelu"}}, {"gelu": 1}),
        ({"skip": ("gelu",)}, {"silu": 1}),
        ({"only": {"gelu", "silu"}, "skip": kinds()}, {}),
        ({}, {"silu": 1, "gelu": 1}),
    ):
        g, _ = built(both)
        assert gw.recognize(g, **options).counts == counts  # type: ignore[arg-type]
    g, _ = built(lambda x: gate(x * gw.nn.sigmoid(x)) + gate(x))
    made = gw.recognize(g, skip=[g["y"].node.inputs[1].name])
    assert made.counts == {"silu": 1, "gelu": 1}
    assert made.missed[0].why == "it is left out"
    g, _ = built(both)
    with pytest.raises(GraphError, match=r"nothing called 'glu' is looked for[\s\S]*'gelu'"):
        gw.recognize(g, {"glu"})
    with pytest.raises(GraphError, match="no tensor"):
        gw.recognize(g, outputs=["nowhere"])


def test_an_error_leaves_the_graph_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    g, _ = built(lambda x: gate(x * gw.nn.sigmoid(x)))
    gw.mul(g["x"], 3.0, name="beside")
    names, uses = [n.name for n in g.nodes], {n.name: len(n.outputs[0].uses) for n in g.nodes}
    before = g.output({"x": X}, "y")["y"]

    def fail(self: Any) -> None:
        raise RuntimeError("in the midst")

    monkeypatch.setattr(search._Work, "arrange", fail)
    with pytest.raises(RuntimeError, match="in the midst"):
        gw.recognize(g, outputs=["y"])
    assert [n.name for n in g.nodes] == names
    assert {n.name: len(n.outputs[0].uses) for n in g.nodes} == uses
    np.testing.assert_array_equal(g.output({"x": X}, "y")["y"], before)
    monkeypatch.undo()
    assert gw.recognize(g, outputs=["y"]).counts == {"silu": 1, "gelu": 1}


def test_training_goes_on_with_what_was_found() -> None:
    def made() -> tuple[Graph, Tensor]:
        g = Graph()
        x = g.placeholder("x", ("B", 8))
        w = g.variable("w", (8, 8), init=gw.init.he_normal(seed=0))
        return g, (gate(x @ w) ** 2.0).mean(name="loss")

    g, loss = made()
    plain = gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.1))
    first = [plain.step({"x": X[0]}).metrics["loss"] for _ in range(5)]
    g, loss = made()
    assert gw.recognize(g).counts == {"gelu": 1}
    again = gw.Trainer(g, g["loss"], optimizer=gw.optim.SGD(0.1))
    second = [again.step({"x": X[0]}).metrics["loss"] for _ in range(5)]
    np.testing.assert_allclose(second, first, rtol=1e-5)


def test_long_products_and_many_nodes_are_no_matter() -> None:
    g = Graph()
    x = y = g.placeholder("x", ("B", 8))
    for _ in range(1500):
        y = y * 1.001
    y = gate(y)
    for _ in range(200):
        y = y * gw.nn.sigmoid(y)
    made = gw.recognize(g)
    assert made.counts == {"gelu": 1, "silu": 200}
    assert x.uses


def test_weights_that_are_still_ones_are_weights() -> None:
    def form(x: Tensor) -> Tensor:
        ones, zeros = (
            x.graph.constant(np.full(8, v, np.float32), n) for n, v in (("w", 1), ("b", 0))
        )
        return centred(x) / deviation(x) * ones + zeros

    g, _ = built(form)
    check(g, {"x": X}, {"layer_norm": 1}, 1e-5)
    assert [t.name for t in g["y"].node.inputs if t is not None] == ["x", "w", "b"]
