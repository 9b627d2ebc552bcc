"""Rows of a batch with adapters of their own: each as it would be alone, on any graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.adapters import LoRA, serve
from gradwright.errors import FeedError, GraphError, ShapeError
from gradwright.models import Decoder, DecoderConfig
from tests.adapters.serving import drawn

CONFIG = DecoderConfig(vocabulary=31, width=32, layers=2, heads=4, kv_heads=2, inner=48)
METHODS = {
    "a": LoRA(r=4, alpha=8),
    "b": LoRA(r=2, alpha=3),
    "c": LoRA(r=6, alpha=5, rslora=True, rank_pattern={"layer0/v": 3}, alpha_pattern={"q": 7}),
}
ROWS = ["a", "b", None, "c", "a"]
Array = np.ndarray[Any, Any]


def decoder(seed: int = 3, **settings: Any) -> Decoder:
    """Return a model of weights large enough for adapters to show."""
    return drawn.weights(Decoder(CONFIG, **settings), seed=seed)


def trained(make: Any, method: LoRA, where: Any, seed: int) -> dict[str, Array]:
    """Return the state of an adapter as training might have left it."""
    return drawn.state(gw.adapters.add(make(), method, where), np.random.default_rng(seed), 0.3)


def alone(make: Any, method: LoRA, state: Any, where: Any, feeds: Any, y: str) -> Array:
    """Return what a graph with one adapter gives."""
    model = make()
    adapted = gw.adapters.add(model, method, where)
    adapted.load_state(state)
    found: Array = getattr(model, "graph", model).output(feeds, y)[y]
    return found


def check(make: Any, where: Any, feeds: dict[str, Array], y: str, tolerance: float = 1e-6) -> Any:
    """Hold each row of a batch against its own run alone; return what serves."""
    states = {name: trained(make, m, where, i) for i, (name, m) in enumerate(METHODS.items())}
    served = serve(make(), {n: (METHODS[n], states[n]) for n in METHODS}, slots=4)
    found = served.output(feeds, y, rows=ROWS)[y]
    base = make()
    plain = getattr(base, "graph", base).output(feeds, y)[y]
    nobody = served.output(feeds, y, rows=None)[y]
    for i, name in enumerate(ROWS):
        one = {key: array[i : i + 1] for key, array in feeds.items()}
        if name is None:
            same = np.array_equal(found[i], nobody[i])
            assert same or tolerance > 1e-6, "a row feels the others"  # softmax does in last bits
            wanted = plain[i]
        else:
            wanted = alone(make, METHODS[name], states[name], where, one, y)[0]
            assert np.abs(found[i] - plain[i]).max() > 0.01 * np.abs(plain[i]).max()
        assert np.abs(found[i] - wanted).max() <= tolerance * np.abs(wanted).max()
    return served


def test_rows_of_a_decoder_are_as_they_are_alone() -> None:
    ids = np.random.default_rng(0).integers(0, 31, (5, 7))
    check(decoder, "all-linear", {"ids": ids}, "logits", 3e-6)


def mlp() -> gw.Graph:
    g, rng = gw.Graph(), np.random.default_rng(5)
    x = g.placeholder("x", (None, 12))
    w, v = (
        g.variable(n, s, init=rng.standard_normal(s)) for n, s in (("w", (12, 16)), ("v", (9, 16)))
    )
    h = gw.tanh(gw.nn.linear(x, w, g.variable("b", (16,), init=rng.standard_normal(16))))
    gw.identity(h @ v.mT, name="y")
    return g


def test_rows_of_a_declared_network() -> None:
    x = np.random.default_rng(1).standard_normal((5, 12)).astype("f4")
    served = check(mlp, "w|v", {"x": x}, "y")
    assert [place.name for place in served.adapted.places] == ["w", "v"]


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float64", 1e-12), ("float16", 2e-3), ("bfloat16", 2e-2)]
)
def test_bases_of_other_dtypes(dtype: str, tolerance: float) -> None:
    """Adapters of a 16-bit base are float32, as they are alone; results are of the base's dtype."""

    def other() -> gw.Graph:
        g, rng = gw.Graph(), np.random.default_rng(5)
        x = g.placeholder("x", ("B", 12), dtype)
        w = g.variable("w", (12, 16), init=rng.standard_normal((12, 16)), dtype=dtype)
        gw.identity(x @ w, name="y")
        return g

    x = np.random.default_rng(1).standard_normal((5, 12)).astype(gw.spec.dtype(dtype))
    served = check(other, "w", {"x": x}, "y", tolerance)
    assert served.adapted.variables["w"]["lora_A"].dtype == max(dtype, "float32", key=_bits)


def _bits(dtype: str) -> int:
    return int(dtype.removeprefix("b").removeprefix("float"))


def folded() -> gw.Graph:
    """Return a graph as exporters write it: positions are folded into rows before a product."""
    g, rng = gw.Graph(), np.random.default_rng(6)
    x = g.placeholder("x", ("B", "T", 12))
    w = g.variable("w", (12, 12), init=rng.standard_normal((12, 12)))
    v = g.variable("v", (12, 8), init=rng.standard_normal((12, 8)))
    h = (x.reshape(-1, 12) @ w).reshape(*x.shape)
    heads = h.reshape(*x.shape[:2], 2, 6).transpose(0, 2, 1, 3)
    u = g.variable("u", (6, 6), init=rng.standard_normal((6, 6)))
    h = (heads @ u).transpose(0, 2, 1, 3).reshape(*x.shape)
    gw.identity(h @ v, name="y")
    return g


def test_rows_folded_with_positions_and_with_heads_between() -> None:
    x = np.random.default_rng(1).standard_normal((5, 3, 12)).astype("f4")
    check(folded, "w|u|v", {"x": x}, "y")


def table() -> gw.Graph:
    g, rng = gw.Graph(), np.random.default_rng(7)
    e = g.variable("e", (20, 12), init=rng.standard_normal((20, 12)))
    gw.nn.embedding(g.placeholder("ids", ("B", "T"), "int64"), e, name="y")
    return g


def test_rows_of_an_embedding() -> None:
    ids = np.random.default_rng(2).integers(0, 20, (5, 4))
    check(table, "e", {"ids": ids}, "y")


def test_a_base_in_blocks() -> None:
    def packed() -> Any:
        return decoder().quantized("q8_0", {}).model

    ids = np.random.default_rng(3).integers(0, 31, (5, 6))
    check(packed, "q|v", {"ids": ids}, "logits", 3e-6)


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")
def test_the_batch_of_peft(tmp_path: Any) -> None:
    """Rows of three adapters and none, beside ``adapter_names`` of peft, from the same folders."""
    torch = pytest.importorskip("torch")
    transformers, peft = pytest.importorskip("transformers"), pytest.importorskip("peft")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=31, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, initializer_range=0.3,
        tie_word_embeddings=False, bos_token_id=None, eos_token_id=None, pad_token_id=None,
    )  # fmt: skip
    base = transformers.LlamaForCausalLM(config).eval()
    base.save_pretrained(tmp_path / "base")
    theirs = base
    for name, r, alpha, targets in (
        ("first", 4, 8, ["q_proj", "v_proj"]),
        ("second", 2, 5, ["q_proj", "down_proj"]),
        ("third", 8, 8, ["v_proj"]),
    ):
        settings = peft.LoraConfig(
            r=r, lora_alpha=alpha, target_modules=targets, init_lora_weights=False
        )
        if theirs is base:
            theirs = peft.PeftModel(base, settings, adapter_name=name).eval()
        else:
            theirs.add_adapter(name, settings)
    theirs.save_pretrained(tmp_path / "adapters")
    ids = np.random.default_rng(0).integers(0, 31, (4, 6))
    with torch.no_grad():
        wanted = theirs(
            torch.tensor(ids), adapter_names=["third", "first", "__base__", "second"]
        ).logits.numpy()
    model = gw.models.from_pretrained(tmp_path / "base")
    served = serve(model, tmp_path / "adapters")
    assert (served.names, served.method.r) == (["first", "second", "third"], 8)
    rows = ["third", "first", None, "second"]
    found = served.output({"ids": ids}, "logits", rows=rows)["logits"]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max())


# -- several, and weights ------------------------------------------------------------------------


def one() -> gw.Graph:
    g = gw.Graph()
    gw.identity(g.placeholder("x", ("B", 6)) @ g.variable("w", (6, 4), init=0.5), name="y")
    return g


def test_rows_of_several_adapters_with_weights() -> None:
    states = {n: trained(one, LoRA(r=2, alpha=3), "w", i) for i, n in enumerate("abc")}
    sources = {n: (LoRA(r=2, alpha=3), s) for n, s in states.items()}
    delta = {n: 1.5 * s["w/lora_B"] @ s["w/lora_A"] for n, s in states.items()}
    x = np.random.default_rng(0).standard_normal((4, 6)).astype("f4")
    served = serve(one(), sources, per_row=2)
    rows = [{"a": 0.5, "b": -2.0}, ["b", "c"], {"c": 3.0}, None]
    found = served.output({"x": x}, "y", rows=rows)["y"]
    w = np.full((4, 6), 0.5, "f4")
    for y, row, weights in zip(
        found,
        x,
        (w + 0.5 * delta["a"] - 2 * delta["b"], w + delta["b"] + delta["c"], w + 3 * delta["c"], w),
        strict=True,
    ):
        np.testing.assert_allclose(y, weights @ row, rtol=1e-5, atol=1e-5)
    for row in ("a", {"a": 0.25}):  # one for all rows
        same = served.output({"x": x}, "y", rows=row)["y"]
        weight = row["a"] if isinstance(row, dict) else 1.0
        np.testing.assert_allclose(same, x @ (w + weight * delta["a"]).T, rtol=1e-5, atol=1e-5)


def test_what_is_off_is_the_base_to_the_bit_and_removed_leaves_nothing() -> None:
    ids = np.random.default_rng(0).integers(0, 31, (3, 7))
    model = decoder()
    before = model.graph.output({"ids": ids}, "logits")["logits"]
    names = [node.name for node in model.graph.nodes]
    state = trained(decoder, METHODS["a"], "q|v", 0)
    served = serve(model, {"a": (METHODS["a"], state)})
    assert not np.array_equal(served.output({"ids": ids}, "logits", rows="a")["logits"], before)
    served.adapted.disable()
    assert np.array_equal(model.graph.output({"ids": ids}, "logits")["logits"], before)
    served.adapted.enable()
    served.close()
    assert [node.name for node in model.graph.nodes] == names
    assert np.array_equal(model.graph.output({"ids": ids}, "logits")["logits"], before)


# -- what is refused -----------------------------------------------------------------------------


def small(**settings: Any) -> Any:
    sources = {
        name: (LoRA(r=r, alpha=1), trained(one, LoRA(r=r, alpha=1), "w", 0))
        for name, r in (("a", 1), ("b", 2), ("wide", 4))
    }
    return serve(one(), sources, **{"slots": 2, "r": 2, **settings})


@pytest.mark.parametrize(
    ("rows", "match"),
    [
        (["a", "c"], r"row 1 asks for 'c', and no adapter is called that.*\n.*a, b, wide"),
        (["a", "wid"], "did you mean 'wide'"),
        (["a", "b", "a"], "3 rows have adapters, and 2 are fed"),
        ([["a", "b"], None], r"row 0 asks for 2 adapters at once: a, b\n.*1 or fewer"),
        ([{"a": float("nan")}, None], "row 0 asks for nan of 'a'"),
        ([3, None], "row 0 asks for 3"),
        ([{1: 0.5, "a": 1.0}, None], "row 0 asks for {1: 0.5"),
        (5, "rows=5 has no adapters"),
    ],
)
def test_rows_that_make_no_sense(rows: Any, match: str) -> None:
    with pytest.raises(FeedError, match=match):
        small().output({"x": np.ones((2, 6))}, "y", rows=rows)


def test_more_different_adapters_than_slots() -> None:
    served, x = small(slots=1), {"x": np.ones((2, 6))}
    with pytest.raises(FeedError, match=r"2 different adapters, and there are 1 slots"):
        served.output(x, "y", rows=["a", "b"])
    served.output(x, "y", rows=["a", None])
    served.output(x, "y", rows=["b", "b"])


def test_a_rank_above_that_of_slots() -> None:
    served = small()
    with pytest.raises(ShapeError, match="'wide': it is of rank 4 at 'w', and slots are"):
        served.output({"x": np.ones((1, 6))}, "y", rows=["wide"])
    assert len(served.slots) == len(served.memory) == 0
    served.output({"x": np.ones((2, 6))}, "y", rows=["a", "b"])  # both slots are free as before


def test_adapters_of_another_model_or_place() -> None:
    served = small()
    served.add("place", (LoRA(r=1), {"v/lora_A": np.ones((1, 6)), "v/lora_B": np.ones((4, 1))}))
    served.add("size", (LoRA(r=1), {"w/lora_A": np.ones((1, 7)), "w/lora_B": np.ones((4, 1))}))
    a, b = np.ones((2, 6)), np.ones((4, 1))
    served.add("rank", (LoRA(r=1), {"w/lora_A": a, "w/lora_B": b}))
    served.add("half", (LoRA(r=1), {"w/lora_A": a[:1]}))
    for name, error, match in (
        ("rank", ShapeError, r"'rank' is of another model.*\n.*lora_A is \[2, 6\]"),
        ("half", GraphError, "'half' has no lora_B at 'w'"),
        ("place", GraphError, "'place' changes 'v', where there is no slot"),
        ("size", ShapeError, "'size' is of another model: 'w' is"),
    ):
        with pytest.raises(error, match=match):
            served.output({"x": np.ones((1, 6))}, "y", rows=[name])
    with pytest.raises(GraphError, match="'a' is served already"):
        served.add("a", (LoRA(r=1), {}))
    with pytest.raises(GraphError, match="5 is no name of an adapter"):
        served.add(5, (LoRA(r=1), {}))
    with pytest.raises(GraphError, match="a list is no folder of adapters"):
        serve(one(), [served])
    with pytest.raises(GraphError, match="a list is no adapter"):
        served.add("d", [])
    with pytest.raises(FileNotFoundError, match="there is no nowhere"):
        served.add("d", "nowhere")


def test_layers_that_have_no_rows_or_do_more_than_multiply() -> None:
    g = gw.Graph()
    x = g.placeholder("x", ("T", "B", 6))
    steps = g.placeholder("n", ("B", 2))
    gw.identity(x @ g.variable("w", (6, 4), init=1.0), name="y")
    serve(g, where="w")  # steps are nothing that x depends on, so its first axis is that of rows
    assert steps.shape[0] != g["served/rows"].shape[0]
    g = gw.Graph()
    x = g.placeholder("x", ("B", 6))
    u = x.mT @ gw.cast(x, "float32")  # f32[6, 6]: no rows any more
    gw.identity((x @ g.variable("w", (6, 6))) + (u @ g.variable("v", (6, 1))).mT, name="y")
    with pytest.raises(ShapeError, match="its first axis is not that of rows"):
        serve(g, where="w|v")
    assert not gw.adapters.of(g) and "served/rows" not in g, "half of an edit is left"


def test_rows_of_what_is_disabled_or_merged_are_refused_and_not_silently_the_base() -> None:
    g, x = one(), {"x": np.ones((2, 6))}
    method = LoRA(r=1, alpha=1)
    state = trained(one, method, "w", 0)
    served = serve(g, {"a": (method, state)})
    served.adapted.disable()
    base = served.output(x, "y", rows=None)["y"]
    with pytest.raises(GraphError, match="'served' is disabled, so rows have no adapters"):
        served.output(x, "y", rows="a")
    served.adapted.enable()
    assert np.array_equal(served.output(x, "y", rows=None)["y"], base)
    with pytest.raises(GraphError, match=r"rows have adapters of their own at 'w'"):
        gw.adapters.merge(served.adapted)
    g = one()
    other = gw.adapters.add(g, method, "w", name="other")
    other.load_state(state)
    gw.adapters.merge(other)
    served = serve(g, {"a": (method, state)}, where="w")
    for rows in ("a", None):
        with pytest.raises(GraphError, match="'other' is merged into the weights, so each row"):
            served.output(x, "y", rows=rows)
    gw.adapters.unmerge(other)
    other.remove()
    want = np.ones(6) @ (np.full((4, 6), 0.5) + state["w/lora_B"] @ state["w/lora_A"]).T
    np.testing.assert_allclose(served.output(x, "y", rows="a")["y"][0], want, rtol=1e-5)


def test_adapters_that_changed_the_model_are_refused() -> None:
    sources: dict[str, Any] = {}
    for name, method in {"bias": LoRA(r=1, bias="only"), "weight": LoRA(r=1)}.items():
        g = gw.Graph()
        x = g.placeholder("x", ("B", 6))
        gw.nn.linear(x, g.variable("w", (6, 4)), g.variable("b", (4,)), name="y")
        sources[name] = gw.adapters.add(g, method, "w")
    sources["weight"].replace({"w": np.ones((6, 4))})
    for name, adapted in sources.items():
        match = r"has changed weights of the model, too, and rows share these\n.*'[bw]'"
        with pytest.raises(GraphError, match=match):
            serve(one(), {name: adapted})
    adapted = gw.adapters.add(one(), LoRA(r=1), "w")
    adapted.weight = 0.5
    with pytest.raises(GraphError, match=r"'default' has the weight 0\.5"):
        serve(one(), {"a": adapted})
