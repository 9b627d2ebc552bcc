"""All ops: SameDiff's names, lookups, tables, loading on first use."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

import gradwright as gw
from gradwright import ops
from gradwright.errors import GradwrightError, UnsupportedOpError
from gradwright.op import OPS
from gradwright.ops import namespaces
from gradwright.ops.reference.samediff import SAMEDIFF, SHARED
from gradwright.testing import samples


def shared() -> dict[str, set[str]]:
    """Return our ops that stand for several names of SameDiff, with those names."""
    names = defaultdict(set)
    for theirs in SAMEDIFF.values():
        for name, ours in theirs.items():
            names[ours].add(name)
    return {ours: found for ours, found in names.items() if len(found) > 1}


@pytest.mark.parametrize("namespace", SAMEDIFF)
def test_every_name_of_samediff_has_an_op(namespace: str) -> None:
    gw.ops.table()
    missing = {t: ours for t, ours in SAMEDIFF[namespace].items() if ours not in OPS}
    assert not missing


def test_the_list_is_whole() -> None:
    counts = {namespace: len(names) for namespace, names in SAMEDIFF.items()}
    assert counts == {
        **{"base": 103, "math": 113, "nn": 103, "cnn": 27, "rnn": 7, "loss": 14, "image": 18},
        **{"linalg": 20, "random": 7, "bitwise": 12, "audio": 13, "signal": 5, "training": 10},
    }


def test_names_that_share_an_op_are_few() -> None:
    """At most 40 names of SameDiff lead to an op that has another name there already."""
    assert shared().keys() == SHARED.keys()
    assert sum(len(names) - 1 for names in shared().values()) <= 40


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md"])
def test_pages_count_the_ops_right(page: str) -> None:
    text = (Path(__file__).parents[2] / page).read_text("utf-8")
    (told,) = re.findall(r"\*\*Ops\.?\*\*:? (\d+)", text)
    assert int(told) == len(gw.ops.table())


def test_found_by_any_name() -> None:
    for namespace, names in SAMEDIFF.items():
        for theirs, ours in names.items():
            if ours in OPS:
                assert gw.ops.find(f"{namespace}.{theirs}").name == ours
    assert gw.ops.find("gw.nn.relu").name == gw.ops.find("nn.relu").name == "relu"
    assert gw.ops.find("base.max").name == "max"
    assert gw.ops.find("math.max").name == "maximum"
    assert gw.ops.find("LayerNormalization").name == "layer_norm"


@pytest.mark.parametrize(
    ("operator", "name"),
    [
        ("Conv", "conv2d"),
        ("ConvTranspose", "conv_transpose2d"),
        ("MaxPool", "max_pool2d"),
        ("AveragePool", "avg_pool2d"),
        ("ScatterND", "scatter_nd_update"),
        ("ScatterElements", "scatter_update"),
        ("Compress", "compress"),
    ],
)
def test_of_several_ops_for_one_operator_the_plainest_is_found(operator: str, name: str) -> None:
    assert gw.ops.find(operator).name == name


def test_a_name_that_is_none() -> None:
    with pytest.raises(UnsupportedOpError, match=r"did you mean gw\.nn\.softmax"):
        gw.ops.find("sofmax")
    with pytest.raises(UnsupportedOpError, match=r"no op goes by the name 'nn\.frobnicate'"):
        gw.ops.find("nn.frobnicate")
    with pytest.raises(UnsupportedOpError, match="one of audio, base"):
        gw.ops.table("nonsense")


def test_every_entry_can_be_called_by_its_name() -> None:
    for entry in gw.ops.table():
        assert callable(entry.function), entry.call
        assert entry.signature.startswith(f"{entry.call}(")


def test_every_op_has_an_example() -> None:
    silent = [e.call for e in gw.ops.table() if ">>> " not in e.doc]
    assert not silent


def test_search() -> None:
    found = gw.ops.table("cnn").search("Max pooling")
    assert "gw.cnn.max_pool2d" in [entry.call for entry in found]
    assert all("gw.cnn." in entry.call for entry in found)
    assert not gw.ops.table().search("no such words anywhere")


def test_tables_are_text_and_html() -> None:
    few = gw.ops.table("bitwise")
    assert str(few).splitlines()[0].split()[-2:] == ["ONNX", "SameDiff"]
    assert few._repr_html_().startswith("<table>")
    assert "<script" not in gw.ops.table()._repr_html_()


def test_families_load_when_they_are_needed() -> None:
    code = """
import sys
import gradwright as gw
first = {*sys.modules}
def loaded():
    files = {m.removeprefix("gradwright.ops.") for m in {*sys.modules} - first}
    return {m for m in files if "." in m}
gw.nn.relu, gw.exp, gw.cnn.conv2d
assert not loaded(), loaded()
gw.bitwise.bitwise_and
assert loaded() == {"arithmetic.bits"}, loaded()
gw.nn.lora_matmul
assert "adapters.low_rank" in loaded() and "adapters.products" not in loaded(), loaded()
from gradwright.op import find_op
assert find_op("digamma") and "arithmetic.gamma" in loaded(), loaded()
assert find_op("roi_align").namespace == "image", loaded()
assert not any(m.startswith("attention.f") for m in loaded()), loaded()
assert {"gru", "lstm"} < set(dir(gw.rnn)) and "recurrent.lstm" in loaded(), loaded()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert not done.returncode, done.stderr


def test_a_training_loads_the_families_of_its_ops_alone() -> None:
    code = """
import sys
import gradwright as gw
g = gw.Graph()
y = g.placeholder("x", (None, 2)) @ g.variable("w", (2,))
gw.Trainer(g, gw.mean(y**2.0)).step({"x": [[1.0, 2.0]]})
loaded = {m.split(".")[2] for m in sys.modules if m.startswith("gradwright.ops.")}
assert not loaded & {"images", "recurrent", "signals", "texts"}, loaded
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert not done.returncode, done.stderr


def test_functions_that_are_more_than_their_op_come_with_it() -> None:
    """Whichever of a namespace is asked for first, ``token_sample`` takes logits and no stream."""
    code = """
import sys, importlib, os
from pathlib import Path
import gradwright as gw
from gradwright.op.registry import FUNCTIONS, OPS
from gradwright.ops import loading
known = {(s, n) for s, made in FUNCTIONS.items() for n in made}
loading.load()
late = {(s, n) for s, made in FUNCTIONS.items() for n in made if n in OPS} - known
assert len(late) >= 5, late
for space, name in late:
    home = OPS[name].__module__
    if os.fork() == 0:
        for m in [m for m in sys.modules if m.startswith("gradwright")]:
            del sys.modules[m]
        again = importlib.import_module("gradwright")
        importlib.import_module(home)
        found = getattr(getattr(again, space), name)
        os._exit(hasattr(found, "op"))
    assert os.wait()[1] == 0, (space, name)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert not done.returncode, done.stderr


def test_rooms_of_the_face() -> None:
    code = """
import gradwright as gw, importlib.util
assert gw.debug.loss_curve and gw.tracing and importlib.util.find_spec("gradwright.nn")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert not done.returncode, done.stderr


def test_ops_are_looked_up_while_another_thread_defines_some(monkeypatch) -> None:
    made, names = namespaces.function, iter(f"test/meanwhile_{i}" for i in range(10_000))
    known = set(OPS)

    def function(cls):
        gw.register(next(names))(type("Meanwhile", (gw.Op,), {}))
        return made(cls)

    monkeypatch.setattr(namespaces, "function", function)
    try:
        assert "exp" in ops.loaded("math")
    finally:
        for name in OPS.keys() - known:
            del OPS[name]


TAKES_ALL = {
    *("cast", "identity", "copy", "stop_gradient", "is_numeric_tensor", "rank", "shape_of"),
    *("zeros_like", "ones_like", "full_like", "outer", "kron", "all_finite", "empty"),
    *("optional_get_element", "optional_has_element"),
}
"""Ops that no dtype and no shape of numbers can fail."""


def test_every_op_says_what_it_refuses() -> None:
    silent = {e.name for e in gw.ops.table() if not list(e.op.error_samples())}
    assert silent == TAKES_ALL


def test_numbers_are_asked_for_where_text_comes_in() -> None:
    """No op that takes numbers fails inside numpy, or not at all, when it is given text."""
    for entry in gw.ops.table():
        sample = samples(entry.op)[0]
        if entry.op.by_reference or not sample.inputs or entry.op.is_composite():
            continue
        graph = gw.Graph(entry.name, scratch=True)
        first, *rest = sample.inputs
        text = graph.placeholder("text", np.shape(first), "str")
        with graph, pytest.raises(GradwrightError):
            entry.op(**sample.attrs)(text, *(None if x is None else np.asarray(x) for x in rest))
