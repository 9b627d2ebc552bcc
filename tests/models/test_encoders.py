"""BERT and ViT against transformers, both ways; and what of them needs no other library."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import ArchiveError, FeedError, GraphError
from gradwright.models import Bert, BertConfig, Vit, VitConfig, from_pretrained, save_pretrained
from tests.models import theirs as other

SIZES = {
    **{"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4},
    "intermediate_size": 40,
}
BERT = {**SIZES, "vocab_size": 31, "max_position_embeddings": 32}
VIT = {**SIZES, "image_size": 12, "patch_size": 4}
KINDS = {
    "BertModel": BERT,
    "BertForMaskedLM": {**BERT, "hidden_act": "gelu_new"},
    "BertForSequenceClassification": {**BERT, "num_labels": 3},
    "ViTModel": {**VIT, "qkv_bias": False},
    "ViTForImageClassification": {**VIT, "num_labels": 5, "num_channels": 1},
}
ROWS, SEGMENTS = [[3, 4, 5, 6, 7, 8], [9, 10, 11]], [[0, 0, 0, 1, 1, 1], [0, 1, 1]]
PIXELS = np.random.default_rng(0).standard_normal((2, 3, 12, 12)).astype("float32")


def made(kind: str):
    """Return a model of transformers with weights so large that all parts of it show."""
    other.torch_of()
    import transformers

    cls = getattr(transformers, kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return other.drawn(cls(cls.config_class(**KINDS[kind])).eval())


def outputs(model) -> dict[str, np.ndarray]:
    if isinstance(model, Bert):
        feeds = model.examples(ROWS, SEGMENTS)
    else:
        feeds = {"pixels": PIXELS[:, : model.config.channels]}
    wanted = {n: model.graph[n] for n in ("hidden", "pooled", "logits") if n in model.graph}
    with gw.Session(model.graph) as session:
        return session.run(wanted, feeds)


def outputs_there(theirs) -> dict[str, np.ndarray]:
    torch = other.torch_of()
    with torch.no_grad():
        if theirs.config.model_type == "bert":
            rows = Bert(BertConfig(vocabulary=31)).examples(ROWS, SEGMENTS)
            feeds = {n.replace("ids", "input_ids", 1) if n == "ids" else n: torch.tensor(a)
                     for n, a in rows.items()}  # fmt: skip
        else:
            feeds = {"pixel_values": torch.tensor(PIXELS[:, : theirs.config.num_channels])}
        found = theirs(**feeds, output_hidden_states=True)
    names = {"last_hidden_state": "hidden", "pooler_output": "pooled", "logits": "logits"}
    return {ours: found[name].numpy() for name, ours in names.items() if name in found}


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_of_transformers_is_their_model_and_ours_theirs(kind, tmp_path) -> None:
    theirs = made(kind)
    model = from_pretrained(other.saved(theirs, tmp_path / "theirs"))
    ours, wanted = outputs(model), outputs_there(theirs)
    assert wanted
    exists = np.array([[1] * 6, [1] * 3 + [0] * 3], bool)
    for name, array in wanted.items():
        found = ours[name]
        if array.ndim == 3 and isinstance(model, Bert):  # what padding becomes is nobody's matter
            found, array = found[exists], array[exists]
        np.testing.assert_allclose(found, array, 0, 1e-5 * np.abs(array).max(), err_msg=name)
    save_pretrained(model, tmp_path / "ours")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        back = type(theirs).from_pretrained(tmp_path / "ours").eval()
    for name, array in outputs_there(back).items():
        np.testing.assert_allclose(array, wanted[name], 0, 1e-6 * np.abs(array).max())
    again = from_pretrained(tmp_path / "ours")
    assert again.config == model.config
    first = Bert(model.config) if isinstance(model, Bert) else Vit(model.config)
    save_pretrained(first, tmp_path / "first")
    assert from_pretrained(tmp_path / "first").config == model.config
    info = gw.inspect(tmp_path / "ours")
    assert (info.architecture, info.parameters, list(info.findings)) == (
        theirs.config.model_type, model.n_weights, [],
    )  # fmt: skip


def test_ten_steps_of_a_classifier_are_those_of_transformers(tmp_path) -> None:
    torch = other.torch_of()
    theirs = made("BertForSequenceClassification")
    folder = other.saved(theirs, tmp_path)
    data = json.loads((folder / "config.json").read_text())
    data["hidden_dropout_prob"] = 0.0
    (folder / "config.json").write_text(json.dumps(data))
    model = from_pretrained(folder)
    trainer = gw.Trainer(model.graph, model.loss, gw.optim.SGD(0.05))
    optimizer = torch.optim.SGD(theirs.parameters(), 0.05)
    for step in range(10):
        feeds = model.examples(ROWS, SEGMENTS) | {"labels": np.array([step % 3, 1])}
        tensors = {n: torch.tensor(a) for n, a in feeds.items()}
        tensors["input_ids"] = tensors.pop("ids")
        out = theirs(**tensors)
        optimizer.zero_grad()
        out.loss.backward()
        optimizer.step()
        found = trainer.step(feeds).metrics["loss"]
        np.testing.assert_allclose(found, out.loss.item(), 1e-4)


@pytest.mark.parametrize("head", ["none", "tokens", "classes"])
def test_padding_and_what_stands_behind_it_change_nothing(head) -> None:
    model = Bert(BertConfig(vocabulary=31, width=16, layers=2, heads=2, head=head), seed=3)
    together, alone = (model.examples(rows) for rows in (ROWS, ROWS[1:]))
    with gw.Session(model.graph) as session:
        both = session.run(model.hidden, together)
        one = session.run(model.hidden, alone)
    np.testing.assert_allclose(both[1, :3], one[0], 1e-4, 1e-6)


@pytest.mark.parametrize("kind", ["tokens", "classes", "vit"])
def test_gradients_are_those_of_differences(kind) -> None:
    rng = np.random.default_rng(0)
    if kind == "vit":
        model = Vit(VitConfig(image=4, patch=2, width=8, layers=1, heads=2, inner=8, classes=3))
        feeds = {"pixels": PIXELS[:, :, :4, :4], "labels": np.array([0, 2])}
    else:
        model = Bert(BertConfig(11, 8, 1, 2, inner=8, context=6, head=kind, classes=3))
        feeds = model.examples([[1, 2, 3, 4], [5, 6]])
        labels = [[1, -100, 3, 4], [5, -100, -100, -100]] if kind == "tokens" else [0, 2]
        feeds["labels"] = np.array(labels)
    for v in model.graph.variables:
        model.graph.values[v.name] = model.graph.values[v.name] + 0.2 * rng.standard_normal(v.shape)
    names = [  # a pooler has no part in what is told of tokens
        v for v in model.graph.variables if kind != "tokens" or not v.name.startswith("pooler")
    ]
    report = gw.gradient_check(model.graph, model.loss, feeds, wrt=names)
    assert report.passed, report


def test_what_is_none_is_refused(tmp_path) -> None:
    for make, what in (
        (lambda: BertConfig(vocabulary=9, width=10, heads=4), "10 is not 4 heads"),
        (lambda: BertConfig(vocabulary=0), "vocabulary is 0"),
        (lambda: BertConfig(vocabulary=9, head="spans"), "no head 'spans'"),
        (lambda: BertConfig(vocabulary=9, head="classes", pooler=False), "what is pooled"),
        (lambda: BertConfig(vocabulary=9, activation="tanh"), "no activation 'tanh'"),
        (lambda: VitConfig(image=10, patch=4), "patches of 4"),
        (lambda: VitConfig(dropout=1.0), "is no share"),
    ):
        with pytest.raises(GraphError, match=what):
            make()
    model = Bert(BertConfig(vocabulary=9, width=8, layers=1, heads=2, context=4))
    for rows in ([], [[]], [range(5)]):
        with pytest.raises(FeedError, match="1 to 4"):
            model.examples(rows)
    save_pretrained(model, tmp_path)
    with pytest.raises(GraphError, match="is no model of Hugging Face"):
        save_pretrained(model, tmp_path, family="vit")
    path = tmp_path / "config.json"
    data = json.loads(path.read_text())
    for keys, what in (
        ({"architectures": ["BertForQuestionAnswering"]}, "BertForQuestionAnswering"),
        ({"is_decoder": True}, "is_decoder is True"),
        ({"position_embedding_type": "relative_key"}, "relative_key"),
        ({"hidden_size": 9}, "tells of no model"),
        ({"architectures": ["BertForSequenceClassification"]}, r"no classifier\.weight"),
    ):
        path.write_text(json.dumps({**data, **keys}))
        with pytest.raises(ArchiveError, match=what):
            from_pretrained(tmp_path)
