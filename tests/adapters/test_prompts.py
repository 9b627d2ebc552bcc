"""Prefix and prompt tuning: against peft on a tiny Llama, generating, switched, and refused."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.adapters import AdaLoRA, Adapted, LoRA, Prefix, Prompt, PTuning, add
from gradwright.errors import GradwrightError, GraphError
from gradwright.models import Decoder, DecoderConfig
from tests.adapters import peft_models as other
from tests.adapters.methods import peft
from tests.models.theirs import torch_of

pytestmark = pytest.mark.filterwarnings("ignore:.past_key_values. is deprecated")  # peft's own
IDS = np.random.default_rng(7).integers(1, 37, (2, 9))
LABELS = np.where(np.arange(9) > 0, IDS, -100)  # nothing predicts the first token here
FEEDS = {"ids": IDS, "labels": LABELS}


@pytest.fixture(scope="module", params=["prefix", "prompt"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[Any, Decoder, Adapted, Any]]:
    name = {"prefix": "PrefixTuningConfig", "prompt": "PromptTuningConfig"}[request.param]
    config = getattr(peft(), name)(num_virtual_tokens=3, task_type="CAUSAL_LM")
    theirs = other.llama()
    model = other.decoder(theirs)
    wrapped = other.with_peft(theirs, config).eval()
    adapted = add(model, Prefix(tokens=3) if request.param == "prefix" else Prompt(tokens=3))
    [parameter] = [p for p in wrapped.parameters() if p.requires_grad]
    [key] = adapted.state()
    adapted.load_state({key: parameter.detach().numpy()})
    yield wrapped, model, adapted, parameter


def test_outputs_and_gradients_are_those_of_peft(pair: Any) -> None:
    torch = torch_of()
    wrapped, model, adapted, parameter = pair
    session = gw.Session(model.graph)
    other.close(session.run(model.logits, {"ids": IDS}), other.logits_there(wrapped, IDS), 1e-5)
    wrapped.zero_grad()
    loss = wrapped(input_ids=torch.tensor(IDS), labels=torch.tensor(LABELS)).loss
    loss.backward()
    [mine] = adapted.parameters
    found = session.run([model.loss, *gw.gradients(model.loss, [mine])], FEEDS)
    assert found[0] == pytest.approx(loss.item(), rel=1e-5)
    other.close(found[1], parameter.grad.numpy(), 1e-4)


def test_five_steps_are_those_of_peft(pair: Any) -> None:
    torch = torch_of()
    wrapped, model, adapted, parameter = pair
    before, there = adapted.state(), parameter.detach().clone()
    trainer = gw.Trainer(model.graph, model.loss, gw.optim.AdamW(1e-2))
    optimizer = torch.optim.AdamW([parameter], 1e-2)
    for _ in range(5):
        loss = wrapped(input_ids=torch.tensor(IDS), labels=torch.tensor(LABELS)).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        record = trainer.step(FEEDS)
        assert record is not None
        assert record.metrics["loss"] == pytest.approx(loss.item(), rel=1e-5)
    adapted.load_state(before)
    with torch.no_grad():
        parameter.copy_(there)


@pytest.mark.parametrize("encoder", ["MLP", "LSTM"])
def test_p_tuning_as_peft(encoder: str) -> None:
    torch = torch_of()
    config = peft().PromptEncoderConfig(
        num_virtual_tokens=3,
        encoder_reparameterization_type=encoder,
        encoder_hidden_size=12,
        encoder_num_layers=2,
        task_type="CAUSAL_LM",
    )
    theirs = other.llama()
    model = other.decoder(theirs)
    wrapped = other.with_peft(theirs, config).train()
    adapted = add(model, PTuning(tokens=3, encoder=encoder.lower(), hidden=12))
    trained = {
        n.partition(".default.")[2]: p for n, p in wrapped.named_parameters() if p.requires_grad
    }
    adapted.load_state({f"embed/{n}": p.detach().numpy() for n, p in trained.items()})
    loss = wrapped(input_ids=torch.tensor(IDS), labels=torch.tensor(LABELS)).loss
    loss.backward()
    mine = adapted.variables["embed"]
    assert mine.keys() == trained.keys()
    session = gw.Session(model.graph)
    found = session.run([model.loss, *gw.gradients(model.loss, list(mine.values()))], FEEDS)
    assert found[0] == pytest.approx(loss.item(), rel=1e-5)
    for name, grad in zip(mine, found[1:], strict=True):
        other.close(grad, trained[name].grad.numpy(), 1e-4)
    tokens = [3, 1, 4]
    for _ in range(3):
        logits = model.graph.output({"ids": [tokens]}, "logits")["logits"]
        tokens.append(int(logits[0, -1].argmax()))
    assert model.generate([[3, 1, 4]], 3)[0].tokens == tokens[3:]


def test_generations_have_it_and_know_when_it_is_off(pair: Any) -> None:
    _, model, adapted, _ = pair
    plain = Decoder(
        model.config, values={n: model.graph.values[n] for n, _ in model.config.weights()}
    )
    prompts = [[3, 1, 4], [1, 5]]
    wanted = []
    for prompt in prompts:
        tokens = list(prompt)
        for _ in range(4):
            logits = model.graph.output({"ids": [tokens]}, "logits")["logits"]
            tokens.append(int(logits[0, -1].argmax()))
        wanted.append(tokens[len(prompt) :])
    found = model.generate(prompts, 4)
    assert [row.tokens for row in found] == wanted
    assert [row.prompt for row in found] == prompts
    chunked = model.generate(prompts, 4, prefill_chunk=2)
    assert [row.tokens for row in chunked] == wanted
    without = [row.tokens for row in plain.generate(prompts, 4)]
    assert without != wanted
    with adapted.disabled():
        assert [row.tokens for row in model.generate(prompts, 4)] == without
    assert [row.tokens for row in model.generate(prompts, 4)] == wanted


def test_generations_that_nobody_holds_go() -> None:
    model = Decoder(DecoderConfig(vocabulary=37, width=16, layers=1, heads=2))
    adapted = add(model, LoRA(r=2), "q")
    kept = model.generation()
    for _ in range(3):
        model.generation()
    gc.collect()
    assert [one.graph for one in adapted.followers] == [kept.graph]
    adapted.disable()
    assert not gw.adapters.of(kept.graph)["default"].is_enabled


def test_disabled_and_removed_it_is_the_base_to_the_bit() -> None:
    for method in (Prefix(tokens=2), Prompt(tokens=2), Prefix(tokens=2, projection=True)):
        model = Decoder(DecoderConfig(vocabulary=37, width=16, layers=2, heads=2))
        g = model.graph
        nodes = [repr(n) for n in g.nodes]
        before = g.output(FEEDS, "logits", "loss")
        adapted = add(model, method)
        after = g.output(FEEDS, "logits", "loss")
        assert after["logits"].shape == (2, 9, 37) and after["loss"] != before["loss"]
        with adapted.disabled():
            for name, array in g.output(FEEDS, "logits", "loss").items():
                np.testing.assert_array_equal(array, before[name])
        reference = adapted.reference(model.logits)
        found = g.output(FEEDS, reference)[reference.name]
        np.testing.assert_allclose(found, before["logits"], rtol=1e-5, atol=1e-6)
        for name, array in g.output(FEEDS, "logits", "loss").items():
            np.testing.assert_array_equal(array, after[name])
        with pytest.raises(GraphError, match="counts whole or not at all"):
            adapted.weight = 0.5
        adapted.remove()
        assert [repr(n) for n in g.nodes if "reference" not in n.name] == nodes


def test_with_lora_in_either_order() -> None:
    found = []
    for methods in (
        [LoRA(r=2, init=False), Prompt(tokens=2)],
        [Prompt(tokens=2), LoRA(r=2, init=False)],
    ):
        model = Decoder(DecoderConfig(vocabulary=37, width=16, layers=2, heads=2))
        every = {}
        for method in methods:
            name = type(method).__name__.lower()
            every[name] = add(model, method, "all-linear" if name == "lora" else None, name=name)
        rng = np.random.default_rng(0)
        for name in ("lora", "prompt"):
            state = every[name].state()
            every[name].load_state(
                {k: rng.standard_normal(v.shape) * 0.1 for k, v in state.items()}
            )
        found.append(model.graph.output(FEEDS, "loss")["loss"])
        every["prompt"].disable()
        found.append(model.graph.output(FEEDS, "loss")["loss"])
    assert found[0] == pytest.approx(found[2], rel=1e-6) and found[1] == pytest.approx(found[3])
    assert found[0] != found[1]


def test_beside_others_that_are_on_and_off() -> None:
    """In any order of adding and switching each model is what it is with that adapter alone."""
    config = DecoderConfig(vocabulary=37, width=16, layers=2, heads=2)
    methods = {
        "lora": (LoRA(r=2, init=False), "q|o"),
        "ada": (AdaLoRA(init_r=3, target_r=1, total_step=5), "o"),
        "prefix": (Prefix(tokens=2), None),
        "prompt": (Prompt(tokens=3), None),
    }
    wanted, told = {}, {}
    for name, (method, where) in methods.items():
        model = Decoder(config)
        add(model, method, where, name=name)
        wanted[name] = model.graph.output(FEEDS, "logits")["logits"]
        told[name] = str(gw.adapters.of(model)[name].trainable)
    for order in (list(methods), list(methods)[::-1]):
        model = Decoder(config)
        base = model.graph.output(FEEDS, "logits")["logits"]
        every = {}
        for name in order:
            method, where = methods[name]
            every[name] = add(model, method, where, name=name)
            if name != "prompt":
                every[name].disable()
        model.graph.output(FEEDS, "logits")
        every["prompt"].disable()
        for name, adapted in every.items():
            adapted.enable()
            found = model.graph.output(FEEDS, "logits")["logits"]
            np.testing.assert_allclose(found, wanted[name], rtol=1e-5, atol=1e-6)
            assert str(adapted.trainable) == told[name]
            adapted.disable()
        np.testing.assert_array_equal(model.graph.output(FEEDS, "logits")["logits"], base)
        for adapted in every.values():
            adapted.remove()
        assert len(model.graph.nodes) == len(Decoder(config).graph.nodes)


@pytest.mark.parametrize("more", [{}, {"embedding_scale": 4.0}, {"window": 5}], ids=str)
def test_a_prompt_of_tokens_is_these_tokens(more: dict[str, Any]) -> None:
    """Rows as the model reads them, scaled; a prefix of their keys and values is as good."""
    model = Decoder(DecoderConfig(vocabulary=37, width=16, layers=2, heads=2, **more))
    g, first = model.graph, np.array([[4, 7, 9]])
    whole = g.output({"ids": np.concatenate([np.repeat(first, 2, 0), IDS], 1)}, "logits")["logits"]
    generated = model.generate([[4, 7, 9, 3, 1]], 6)[0].tokens
    adapted = add(model, Prompt(tokens=3))
    rows = g.values["embed"][first[0]] * more.get("embedding_scale", 1.0)
    adapted.load_state({"embed/prompt_embeddings": rows})
    found = g.output({"ids": IDS}, "logits")["logits"]
    np.testing.assert_allclose(found, whole[:, 3:], rtol=1e-4, atol=1e-5)
    assert model.generate([[3, 1]], 6)[0].tokens == generated


def test_a_prefix_is_seen_as_far_as_layers_reach() -> None:
    model = Decoder(DecoderConfig(vocabulary=37, width=16, layers=1, heads=2, window=4))
    adapted = add(model, Prefix(tokens=3))
    found = []
    for shift in (0.0, 1.0):
        adapted.load_state({k: v + shift for k, v in adapted.state().items()})
        found.append(model.graph.output({"ids": IDS}, "logits")["logits"])
    moved = abs(found[0] - found[1]).max((0, 2))
    assert (moved[:3] > 1e-5).all() and (moved[3:] == 0).all()
    tokens = [3, 1, 4]
    for _ in range(4):
        logits = model.graph.output({"ids": [tokens]}, "logits")["logits"]
        tokens.append(int(logits[0, -1].argmax()))
    assert model.generate([[3, 1, 4]], 4)[0].tokens == tokens[3:]


def test_first_values_of_prompts() -> None:
    config = DecoderConfig(vocabulary=37, width=16, layers=1, heads=2)
    model = Decoder(config)
    table = model.graph.values["embed"].copy()
    for method, wanted in (
        (Prompt(tokens=5, init="ids", ids=(4, 7)), table[[4, 7, 4, 7, 4]]),
        (Prompt(tokens=5, init="vocabulary"), None),
    ):
        adapted = add(model, method)
        [rows] = adapted.state().values()
        if wanted is not None:
            np.testing.assert_array_equal(rows, wanted)
        assert all((table == row).all(1).any() for row in rows)
        adapted.remove()
    with pytest.raises(GraphError, match="no rows"):
        add(model, Prompt(tokens=2, init="ids", ids=(37,)))
    assert not gw.adapters.of(model)


def test_gradients_are_slopes() -> None:
    model = Decoder(DecoderConfig(vocabulary=37, width=16, layers=1, heads=2))
    for method in (Prefix(tokens=2, projection=True), Prompt(tokens=2)):
        adapted = add(model, method)
        report = gw.gradient_check(
            model.graph, model.loss, FEEDS, wrt=adapted.parameters, max_per_param=3
        )
        assert report.passed, report
        adapted.remove()


def test_an_encoder_has_a_prefix() -> None:
    rng = np.random.default_rng(0)
    g = gw.Graph()
    x, seen = g.placeholder("x", ("B", "T", 8)), g.placeholder("seen", ("B", "T"), "bool")
    parts = [x @ g.variable(n, init=rng.standard_normal((8, 8)).astype("f")) for n in "qkv"]
    q, k, v = (t.reshape(-1, t.shape[1], 2, 4).transpose(0, 2, 1, 3) for t in parts)
    y = gw.nn.scaled_dot_product_attention(q, k, v, seen[:, None, None])
    adapted = add(g, Prefix(tokens=3))
    assert len(adapted.places) == 1  # nothing says where positions are
    feeds = {"x": rng.standard_normal((2, 5, 8)).astype("f"), "seen": np.arange(5) < [[3], [5]]}
    found = g.output(feeds, y)[y.name]
    flat = adapted.state()["prompt_embeddings"].reshape(3, 2, 2, 4).transpose(1, 2, 0, 3)
    heads = [(feeds["x"] @ g.values[n]).reshape(2, 5, 2, 4).transpose(0, 2, 1, 3) for n in "qkv"]
    keys, values = (
        np.concatenate([np.broadcast_to(f, (2, 2, 3, 4)), h], 2)
        for f, h in zip(flat, heads[1:], strict=True)
    )
    scores = heads[0] @ keys.swapaxes(-1, -2) / 2
    hidden = np.concatenate([np.ones((2, 3), bool), feeds["seen"]], 1)[:, None, None]
    weights = np.exp(np.where(hidden, scores, -np.inf))
    wanted = weights / weights.sum(-1, keepdims=True) @ values
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_what_is_refused_says_why() -> None:
    g = gw.Graph()
    y = g.placeholder("x", (None, 3)) @ g.variable("w", (3, 2))
    with pytest.raises(GraphError, match="no attention that a prefix"):
        add(g, Prefix())
    with pytest.raises(GraphError, match="rows of one table"):
        add(g, Prompt())
    fixed = gw.Graph()
    h = gw.nn.embedding(fixed.placeholder("ids", (2, 4), "int64"), fixed.variable("t", (5, 3)))
    y = h @ fixed.variable("w", (3, 2))
    with pytest.raises(GraphError, match="fixed length"):
        add(fixed, Prompt())
    g = gw.Graph()
    ids, kinds = (g.placeholder(n, ("B", "T"), "int64") for n in ("ids", "kinds"))
    h = gw.nn.embedding(ids, g.variable("words", (5, 3)))
    h = h + gw.nn.embedding(kinds, g.variable("types", (2, 3)))
    y = h @ g.variable("w", (3, 2))
    with pytest.raises(GraphError, match=r"'words'.*\n.*'types'"):
        add(g, Prompt())
    with pytest.raises(GradwrightError, match="do not broadcast"):
        add(g, Prompt(), "words")
    assert not gw.adapters.of(g) and y.spec == g["matmul"].spec
    model = Decoder(DecoderConfig(vocabulary=37, width=16, layers=2, heads=2))
    with pytest.raises(GraphError, match="before all attentions"):
        add(model, Prefix(), layers=[0])
    add(model, Prompt(tokens=2))
    with pytest.raises(GraphError, match="has a prompt already"):
        add(model, Prompt(tokens=2), name="second")
    for wrong in (Prefix, Prompt):
        with pytest.raises(GraphError):
            wrong(tokens=0)
