"""The decoder: logits, loss and gradients of transformers' Llama; shift and mask of the loss."""

from __future__ import annotations

import json

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import ArchiveError, FeedError, GraphError
from gradwright.models import Decoder, DecoderConfig, load_state_dict, windows
from gradwright.models.huggingface.families import FAMILIES
from gradwright.models.huggingface.weights import places
from gradwright.words.jsonable import from_json, to_json
from tests.support import networks

SIZES = {"vocabulary": 31, "width": 24, "layers": 2, "heads": 4, "inner": 40, "eps": 1e-5}
IDS = np.random.default_rng(0).integers(0, 31, (3, 11))


def llama(config: DecoderConfig):
    """Return transformers' Llama of these sizes, and its module torch."""
    torch = pytest.importorskip("torch", reason="pip install -e '.[oracle]'")
    pytest.importorskip("transformers", reason="pip install -e '.[oracle]'")
    torch.manual_seed(0)
    model = networks.llama(config)
    with torch.no_grad():
        for p in model.parameters():  # larger than in training, so that mistakes show
            p.copy_(torch.randn(p.shape) * (0.3 if p.ndim > 1 else 0.1) + (p.ndim == 1))
    return model, torch


@pytest.mark.parametrize(
    "more", [{}, {"kv_heads": 2, "tied": True}, {"kv_heads": 1, "rope_base": 500.0}], ids=repr
)
def test_logits_loss_and_gradients_are_those_of_llama(more) -> None:
    config = DecoderConfig(**SIZES, **more)
    theirs, torch = llama(config)
    model = Decoder(config)
    load_state_dict(model, theirs.state_dict())
    labels = IDS.copy()
    labels[1, 6:] = labels[2, :4] = -100
    out = theirs(input_ids=torch.tensor(IDS), labels=torch.tensor(labels))
    out.loss.backward()
    names = ("layer0/q", "layer1/k", "layer1/down", "norm", "embed", "layer0/attention_norm")
    grads = gw.gradients(model.loss, [model.graph[n] for n in names])
    feeds = {"ids": IDS, "labels": labels}
    with gw.Session(model.graph) as session:
        logits, loss, found = session.run([model.logits, model.loss, list(grads)], feeds)
    np.testing.assert_allclose(logits, out.logits.detach().numpy(), 1e-4, 2e-5)
    np.testing.assert_allclose(loss, out.loss.item(), 1e-5)
    there = {name: place.names[0] for name, _, place in places(FAMILIES["llama"], config)}
    held = dict(theirs.named_parameters())
    for name, grad in zip(names, found, strict=True):
        wanted = held[there[name]].grad.numpy()
        np.testing.assert_allclose(grad, wanted, 1e-3, 2e-5, err_msg=name)


def test_the_loss_is_of_the_next_token_where_there_is_a_label() -> None:
    """By hand: −ln p of each token that follows a token, prompt and padding left out."""
    model = Decoder(DecoderConfig(**SIZES))
    rows = [[1, 2, 3, 4, 5], [6, 7, 8]]
    batch = model.examples(rows, n_prompt=[0, 2])
    assert batch["labels"].tolist() == [[1, 2, 3, 4, 5], [-100, -100, 8, -100, -100]]
    with gw.Session(model.graph) as session:
        logits, loss = session.run([model.logits, model.loss], batch)
    logp = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    each = [-logp[0, t, rows[0][t + 1]] for t in range(4)] + [-logp[1, 1, 8]]
    np.testing.assert_allclose(loss, np.mean(each), 1e-5)


def test_padding_on_the_right_changes_nothing_before_it() -> None:
    model = Decoder(DecoderConfig(**SIZES))
    with gw.Session(model.graph) as session:
        whole = session.run(model.logits, {"ids": IDS})
        short = session.run(model.logits, {"ids": IDS[:, :5]})
    np.testing.assert_allclose(whole[:, :5], short, 1e-4, 1e-6)


def test_first_weights_are_those_of_the_seed_and_scaled_by_depth() -> None:
    one, same, other = (Decoder(DecoderConfig(**SIZES), seed=s).graph.values for s in (0, 0, 1))
    assert all(np.array_equal(one[n], same[n]) for n in one if n in same)
    assert not np.array_equal(one["embed"], other["embed"])
    assert not np.array_equal(one["layer0/q"], one["layer1/q"])
    assert one["layer0/q"].std() == pytest.approx(0.02, rel=0.1)
    assert one["layer1/down"].std() == pytest.approx(0.02 / 2, rel=0.1)
    assert (one["norm"] == 1).all()
    model = Decoder(DecoderConfig(**SIZES))
    assert model.n_weights == sum(v.spec.size for v in model.graph.variables)


def test_it_learns_and_drops_in_training_only() -> None:
    model = Decoder(DecoderConfig(**{**SIZES, "dropout": 0.1}))
    trainer = gw.Trainer(model.graph, model.loss, gw.optim.AdamW(1e-2))
    text = np.arange(400) * 7 % 31
    rows = windows(text, 12)
    history = trainer.fit({"ids": rows, "labels": rows}, epochs=15, batch_size=12, progress=False)
    first, last = history.epochs["loss"][[0, -1]]
    assert last < 0.5 < 3.0 < first
    with gw.Session(model.graph) as session:
        a, b = (session.run(model.loss, model.examples(rows)) for _ in range(2))
    assert a == b
    found = model.generation().generate([text[:4]], 8)[0].tokens
    assert found == text[4:12].tolist()


def test_windows_predict_each_token_once() -> None:
    rows = windows(range(20), 5)
    assert rows.shape == (4, 5)
    assert rows[:, 1:].ravel().tolist() == list(range(1, 17))
    with pytest.raises(FeedError, match="3 tokens give no rows of 4"):
        windows([1, 2, 3], 4)


def test_a_config_comes_back_from_json() -> None:
    config = DecoderConfig(**SIZES, kv_heads=2, tied=True)
    assert from_json(json.loads(json.dumps(to_json(config)))) == config
    assert (config.features, config.shared, config.hidden) == (6, 2, 40)
    assert DecoderConfig(vocabulary=9, width=384).hidden == 1024


def test_sizes_that_do_not_go_together_are_refused() -> None:
    for wrong, what in (
        ({"width": 20}, "5 of 5 features of a head cannot turn in pairs"),
        ({"kv_heads": 3}, "4 heads of queries cannot share 3"),
        ({"layers": 0}, "layers=0 is no size"),
        ({"vocabulary": 2.5}, "vocabulary=2.5 is no size"),
        ({"dropout": 1.0}, "is no share"),
    ):
        with pytest.raises(GraphError, match=what):
            DecoderConfig(**{**SIZES, **wrong})
    model = Decoder(DecoderConfig(**{**SIZES, "context": 8}))
    for rows in ([[1]], [], [range(9)]):
        with pytest.raises(FeedError, match="2 to 8"):
            model.examples(rows)


def test_what_was_saved_is_taken_over(tmp_path) -> None:
    one, other = (Decoder(DecoderConfig(**SIZES), seed=s) for s in (0, 1))
    one.graph.save(tmp_path / "decoder.gw")
    other.graph.values.restore(gw.load(tmp_path / "decoder.gw").values)
    rows = [row.tokens for m in (one, other) for row in m.generation().generate([[1, 2]], 9)]
    assert rows[0] == rows[1]


def test_weights_of_another_model_are_refused_whole() -> None:
    model = Decoder(DecoderConfig(**SIZES))
    before = model.graph.values.snapshot()
    state = {
        place.names[0]: np.ones(shape)
        for _, shape, place in places(FAMILIES["llama"], model.config)
    }
    for change, what in (
        ({"lm_head.bias": np.ones(3)}, r"left over: lm_head\.bias"),
        ({"model.norm.weight": np.ones(5)}, r"model\.norm\.weight is f64\[5\]"),
        ({"model.norm.weight": np.ones(24, "int64")}, r"model\.norm\.weight is i64\[24\]"),
    ):
        with pytest.raises(ArchiveError, match=what):
            load_state_dict(model, {**state, **change})
    state.pop("model.norm.weight")
    with pytest.raises(ArchiveError, match=r"missing: model\.norm\.weight"):
        load_state_dict(model, state)
    assert all(np.array_equal(before[n], model.graph.values[n]) for n in before)
