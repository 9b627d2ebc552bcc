"""Folders of adapters of graphs that no family has: declared, or read from ONNX, by own names."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import gradwright as gw
from gradwright import adapters
from gradwright.errors import ArchiveError, GraphError
from tests.adapters import folders
from tests.adapters.folders import distance

X = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype("f4")


def network():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    layers = {
        "conv": torch.nn.Conv2d(3, 6, 3, stride=2, padding=1),
        "relu": torch.nn.ReLU(),
        "grouped": torch.nn.Conv2d(6, 4, 3, groups=2),
        "flat": torch.nn.Flatten(),
        "fc": torch.nn.Linear(16, 5),
    }
    net = torch.nn.Sequential()
    for name, layer in layers.items():
        net.add_module(name, layer)
    return net.eval()


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The network as an ONNX file."""
    torch, path = pytest.importorskip("torch"), tmp_path_factory.mktemp("net") / "net.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network(), (torch.from_numpy(X),), path, dynamo=False, input_names=["x"],
            output_names=["y"], do_constant_folding=False, dynamic_axes={"x": [0]},
        )  # fmt: skip
    return path


CONFIGS = {
    "LoRA": lambda p: p.LoraConfig(r=2, lora_alpha=5, target_modules=["conv", "grouped", "fc"]),
    "DoRA": lambda p: p.LoraConfig(r=2, use_dora=True, target_modules=["conv", "fc"]),
    "LoHa": lambda p: p.LoHaConfig(r=2, target_modules=["conv", "fc"]),
    "LoHa, kernels": lambda p: p.LoHaConfig(
        r=2, use_effective_conv2d=True, target_modules=["conv"]
    ),
    "LoKr": lambda p: p.LoKrConfig(r=2, target_modules=["conv", "fc"]),
    "IA3": lambda p: p.IA3Config(target_modules=["conv", "fc"], feedforward_modules=["fc"]),
}


@pytest.mark.parametrize("kind", CONFIGS)
def test_an_adapter_of_a_module_of_torch_fits_the_onnx_model_of_it(kind, exported, tmp_path):
    torch = pytest.importorskip("torch")
    theirs = folders.wrapped(network(), CONFIGS[kind](folders.peft()))
    there = folders.saved(theirs, tmp_path / "there")
    with torch.no_grad():
        want = theirs(torch.from_numpy(X)).numpy()
    graph = gw.onnx.load(exported)
    before = graph.output({"x": X}, "y")["y"]
    adapted = adapters.load(graph, there)
    assert distance(graph.output({"x": X}, "y")["y"], want) < 1e-5 < 0.01 < distance(before, want)
    adapters.save(adapted, tmp_path / "here")
    assert folders.settings(tmp_path / "here") == folders.settings(there)
    again = folders.loaded(network(), tmp_path / "here")
    with torch.no_grad():
        assert distance(again(torch.from_numpy(X)).numpy(), want) < 1e-6
    adapted.remove()
    assert np.array_equal(graph.output({"x": X}, "y")["y"], before)


def declared(seed=0):
    g = gw.Graph()
    x = g.placeholder("x", ("B", 4))
    with g.scope("a"):
        h = x @ g.variable("w", (4, 6), init=gw.init.normal(seed=seed)) + g.variable("b", (6,))
    h = gw.nn.tanh(h) @ g.variable("w", (6, 4), init=gw.init.normal(seed=seed + 1))
    gw.nn.relu(h, name="y")
    return g


def test_weights_of_a_declared_graph_are_called_as_they_are(tmp_path):
    g = declared()
    adapted = adapters.add(g, adapters.LoRA(r=2, init=False, bias="only", alpha_pattern={"w": 3}))
    feed = {"x": X[0, 0, :, :4]}
    want = g.output(feed, "y")["y"]
    adapters.save(adapted, tmp_path)
    assert set(gw.open(tmp_path).arrays) == {"a/w", "w"}
    assert "base_model.model.a/w.base_layer.bias" in gw.open(tmp_path / folders.WEIGHTS)
    other = declared()
    before = other.output(feed, "y")["y"]
    found = adapters.load(other, tmp_path)
    assert np.array_equal(other.output(feed, "y")["y"], want)
    assert [found.adapter.scale(place) for place in found.places] == [1.5, 1.5]
    assert distance(before, want) > 0.01
    with pytest.raises(ArchiveError, match=r"unexpected: a/w.bias"):
        g = gw.Graph()
        g.placeholder("x", ("B", 6)) @ g.variable("w", (6, 4))
        adapters.load(g, tmp_path)


def test_a_weight_that_no_model_of_the_family_has_is_named(tmp_path):
    model = gw.models.Decoder(gw.models.DecoderConfig(vocabulary=9, width=8, layers=1, heads=2))
    own = model.graph.variable("own", (9, 3))
    model.logits @ own
    adapted = adapters.add(model, adapters.LoRA(r=1), "own")
    with pytest.raises(GraphError, match="stands at 'own', for which files have no module"):
        adapters.save(adapted, tmp_path / "a")
    adapters.save(adapted, tmp_path / "a", model=model.graph)
    assert list(gw.open(tmp_path / "a").arrays) == ["own"]
