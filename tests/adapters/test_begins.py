"""How adapters of a graph begin: step 0 is the base's, or what is said; ranks follow the data."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.adapters import EVA, DoRA, LoftQ, LoRA, sites
from gradwright.adapters.initial.loftq import rounded
from gradwright.errors import FeedError, GraphError
from gradwright.models import Decoder, DecoderConfig
from gradwright.words.jsonable import from_json, to_json

CONFIG = DecoderConfig(vocabulary=50, width=64, layers=2, heads=4, inner=64)
ROWS = np.random.default_rng(0).integers(0, 50, (4, 24))
STARTS = ["pissa", "pissa_niter_4", "olora", "orthogonal"]


def decoder(seed: int = 1) -> Decoder:
    rng = np.random.default_rng(seed)
    values = {
        n: (0.1 * rng.standard_normal(s) + (len(s) == 1)).astype("f4") for n, s in CONFIG.weights()
    }
    return Decoder(CONFIG, values=values)


def logits(model: Decoder) -> Any:
    return model.graph.output({"ids": ROWS}, model.logits)["logits"]


@pytest.mark.parametrize(
    ("method", "init"), [*((LoRA, init) for init in STARTS), (DoRA, "pissa"), (DoRA, "orthogonal")]
)
def test_the_first_output_is_that_of_the_base(init: str, method: Any) -> None:
    model = decoder()
    exact = logits(model)
    held = {n: model.graph.values[n] for n, _ in CONFIG.weights()}
    adapted = gw.adapters.add(model, method(r=4, alpha=6, init=init), where="q|v|down")
    assert np.linalg.norm(logits(model) - exact) < 1e-6 * np.linalg.norm(exact)
    changed = {n for n, w in held.items() if not np.array_equal(model.graph.values[n], w)}
    moved = {p.name for p in adapted.places} if init != "orthogonal" else set()
    assert changed == moved
    assert all(t.node.trainable for t in adapted.parameters)
    state = adapted.state()
    assert state["layer0/q/lora_A"].any() and state["layer0/q/lora_B"].any()
    gw.Trainer(model.graph, model.loss, "adam").step(model.examples(ROWS))
    assert not np.array_equal(adapted.state()["layer0/q/lora_A"], state["layer0/q/lora_A"])
    generated = model.generate([[1, 2, 3]], 4)[0].tokens
    again = logits(model)
    assert np.abs(again - exact).max() > 1e-5
    adapted.remove()
    assert all(np.array_equal(model.graph.values[n], w) for n, w in held.items())
    np.testing.assert_array_equal(logits(model), exact)
    assert len(generated) == 4


def test_generations_follow_a_base_that_has_changed() -> None:
    model, plain = decoder(), decoder()
    gw.adapters.add(model, LoRA(r=4, alpha=8, init="pissa"), where="all-linear")
    found, exact = (m.generate([[5, 9, 2]], 8)[0].tokens for m in (model, plain))
    assert found == exact


@pytest.mark.parametrize("init", ["pissa", "olora"])
def test_of_embeddings_and_convolutions_and_of_any_layout(init: str) -> None:
    g = gw.Graph()
    rng = np.random.default_rng(0)
    images = g.placeholder("images", (None, 3, 6, 6))
    kernel = g.variable("kernel", init=rng.standard_normal((8, 3, 3, 3)).astype("f4"))
    ids = g.placeholder("ids", (None, 5), "int64")
    table = g.variable("table", init=rng.standard_normal((20, 12)).astype("f4"))
    w = g.variable("w", init=rng.standard_normal((12, 7)).astype("f4"))
    outs = [gw.cnn.conv2d(images, kernel), gw.nn.embedding(ids, table) @ w]
    feeds = {
        "images": rng.standard_normal((2, 3, 6, 6)).astype("f4"),
        "ids": rng.integers(0, 20, (2, 5)),
    }
    before = [g.output(feeds, y)[y.name] for y in outs]
    base = {n: g.values[n] for n in ("kernel", "table", "w")}
    adapted = gw.adapters.add(g, LoRA(r=3, alpha=6, init=init), where="kernel|table|w")
    for y, exact in zip(outs, before, strict=True):
        np.testing.assert_allclose(g.output(feeds, y)[y.name], exact, rtol=1e-4, atol=1e-4)
    assert all(not np.array_equal(g.values[n], held) for n, held in base.items())
    adapted.remove()


def test_loftq_replaces_a_weight_of_floats_by_numbers_that_are_quantised() -> None:
    model = decoder()
    before = model.graph.values["layer0/q"]
    start = LoRA(r=8, alpha=16, init=LoftQ(iterations=3))
    adapted = gw.adapters.add(model, start, where="q|v")
    base, state = model.graph.values["layer0/q"], adapted.state()
    assert np.array_equal(rounded(base, "nf4"), base) and not np.array_equal(base, before)
    made_up = base + 2 * state["layer0/q/lora_B"] @ state["layer0/q/lora_A"]
    lost, plain = (np.linalg.norm(before - x) for x in (made_up, rounded(before, "nf4")))
    assert lost < 0.75 * plain
    packed = gw.quant.quantize(model, "nf4", formats={"k": "float32", "o": "float32"}).model
    assert np.array_equal(packed.floats("layer0/q"), base)


@pytest.mark.parametrize("kind", ["nf4", "nf4_double", "q4_0"])
def test_loftq_makes_up_for_a_base_that_is_quantised_already(kind: str) -> None:
    model = decoder()
    exact = logits(model)
    packed = gw.quant.quantize(model, kind, formats={"embed": "float32", "head": "float32"}).model
    plain = np.linalg.norm(logits(packed) - exact)
    bytes_before = packed.graph.values["layer0/q"].tobytes()
    gw.adapters.add(packed, LoRA(r=16, alpha=16, init="loftq"), where="all-linear", data=model)
    assert np.linalg.norm(logits(packed) - exact) < 0.8 * plain
    assert packed.graph.values["layer0/q"].tobytes() == bytes_before
    assert len(packed.generate([[1, 2]], 3)[0].tokens) == 3


def test_ranks_follow_what_inputs_show_and_their_sum_stays() -> None:
    model = decoder()
    exact = logits(model)
    data = [model.examples(rows, 3) for rows in np.split(ROWS, 2)]
    start = LoRA(r=4, alpha=8, init="eva")
    adapted = gw.adapters.add(model, start, where="all-linear", data=data)
    np.testing.assert_array_equal(logits(model), exact)  # B is zero
    ranks = {p.name: adapted.adapter.rank(p) for p in adapted.places}
    every = [s for s in sites(decoder().graph) if s.kind == "linear" and s.name != "head"]
    assert sum(ranks.values()) == 4 * len(every) == 56
    assert len(set(ranks.values())) > 1 and max(ranks.values()) <= 8
    for place in adapted.places:
        a = adapted.state()[f"{place.name}/lora_A"]
        assert a.shape[0] == ranks[place.name]
        np.testing.assert_allclose(a @ a.T, np.eye(len(a)), atol=1e-4)
        assert adapted.adapter.scale(place) == 2.0
    kept = from_json(json.loads(json.dumps(to_json(adapted.adapter))))
    assert kept == adapted.adapter
    q, k = (adapted.state()[f"layer0/{n}/lora_A"] for n in "qk")
    n = min(len(q), len(k))
    np.testing.assert_array_equal(q[:n], k[:n])  # they read the same
    assert len(model.generate([[1, 2]], 3)[0].tokens) == 3


def test_what_labels_leave_out_does_not_count() -> None:
    """Tokens before the labels begin vary in a direction of their own."""
    g = gw.Graph()
    x, labels = g.placeholder("x", (None, 6, 4)), g.placeholder("labels", (None, 6), "int64")
    w = g.variable("w", (4, 3), init=1.0)
    _ = (x @ w).sum() + labels.sum().astype("float32")
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((30, 6, 4)) * [1, 1, 1, 1]
    rows[:, :3, 0] *= 20
    rows[:, 3:, 1] *= 5
    told = np.zeros((30, 6), int)
    told[:, :3] = -100
    data = [{"x": rows.astype("f4"), "labels": told}]
    for use, leading in ((True, 1), (False, 0)):
        start = LoRA(r=1, init=EVA(rho=1.0, use_label_mask=use))
        adapted = gw.adapters.add(g, start, where="w", data=data[0])
        assert np.abs(adapted.state()["w/lora_A"]).argmax() == leading
        adapted.remove()


@pytest.mark.parametrize(
    ("start", "kind", "data", "error", "match"),
    [
        ("pisa", "", None, GraphError, "init='pisa' is not known"),
        (3, "", None, GraphError, "init=3 is not known"),
        ("pissa", "q4_0", None, GraphError, "would change 'layer0/q', which is q4_0"),
        ("loftq", "nf4", None, GraphError, "LoftQ needs what it was made of"),
        ("eva", "", None, GraphError, "EVA looks at inputs"),
        ("eva", "", [], FeedError, "no batch was large enough"),
        ("eva", "", [{"ids": [[1, 2]]}], FeedError, "no batch was large enough"),
    ],
)
def test_what_cannot_begin_so_says_why_and_changes_nothing(
    start: Any, kind: str, data: Any, error: Any, match: str
) -> None:
    model = gw.quant.quantize(decoder(), kind).model if kind else decoder()
    names = [n.name for n in model.graph.nodes]
    with pytest.raises(error, match=match):
        gw.adapters.add(model, LoRA(r=4, init=start), where="q", data=data)
    assert [n.name for n in model.graph.nodes] == names and not gw.adapters.of(model)


@pytest.mark.parametrize("init", ["pissa", "olora"])
def test_halves_of_a_base_stay_halves(init: str) -> None:
    g = gw.Graph()
    x = g.placeholder("x", (None, 16), "float16")
    w = np.random.default_rng(0).standard_normal((16, 8)).astype("f2")
    y = x @ g.variable("w", init=w)
    feeds = {"x": np.random.default_rng(1).standard_normal((4, 16)).astype("f2")}
    before = g.output(feeds, y)[y.name]
    adapted = gw.adapters.add(g, LoRA(r=4, init=init), where="w")
    assert g.values["w"].dtype == np.float16
    assert adapted.state()["w/lora_A"].dtype == np.float32
    np.testing.assert_allclose(g.output(feeds, y)[y.name], before, atol=0.02)
