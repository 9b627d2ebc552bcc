"""Signatures: what editors read is what Python accepts."""

from __future__ import annotations

import ast
import inspect
import json
import subprocess
import sys

import numpy as np
import pytest

import gradwright as gw
from gradwright.ops import loading, stubs


def test_stubs_are_up_to_date():
    stale = [
        str(path.relative_to(stubs.PACKAGE))
        for path, text in stubs.stubs().items()
        if not path.exists() or path.read_text("utf-8") != text
    ]
    assert not stale, f"run python -m gradwright.ops.stubs: {stale} differ from the ops"


def test_a_stale_stub_is_noticed_and_written(tmp_path, monkeypatch, capsys):
    texts = {tmp_path / "a.pyi": "new\n", tmp_path / "b.pyi": "same\n"}
    for path in texts:
        path.write_text("same\n", "utf-8")
    monkeypatch.setattr(stubs, "PACKAGE", tmp_path)
    monkeypatch.setattr(stubs, "stubs", lambda: texts)
    assert stubs.main(["--check"]) == 1 and (tmp_path / "a.pyi").read_text("utf-8") == "same\n"
    assert stubs.main([]) == 0 and (tmp_path / "a.pyi").read_text("utf-8") == "new\n"
    assert stubs.main(["--check"]) == 0 and capsys.readouterr().out == "a.pyi\na.pyi\n"


def test_stubs_are_python_and_name_every_function():
    for path, text in stubs.stubs().items():
        if path.suffix != ".pyi" or path.stem in ("__init__", "methods"):
            continue
        found = [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
        homes = [gw] if path.stem == "base" else [getattr(gw, path.stem)]
        homes += [gw] if path.stem in ("linalg", "math") else []
        for home in homes:
            assert set(found) <= set(dir(home))
            assert all(callable(getattr(home, name)) for name in found)
        assert found == sorted(found)
    methods = ast.parse(stubs.stubs()[stubs.PACKAGE / "graph/methods.pyi"]).body[-1]
    assert isinstance(methods, ast.ClassDef) and len(methods.body) > 50
    for node in methods.body:
        assert isinstance(node, ast.FunctionDef) and callable(getattr(gw.Tensor, node.name))


def test_the_face_is_stated_as_it_is():
    text = stubs.stubs()[stubs.PACKAGE / "__init__.pyi"]
    stated = {
        alias.asname
        for node in ast.parse(text).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert stated == {*gw.__all__, *vars(gw)["ROOMS"], *gw.ops.members(*vars(gw)["TOP"])}


def test_an_index_that_knows_less_only_costs_time(tmp_path):
    """Names that it lacks, in files that it does not know as they are, are found all the same."""
    code = """
import gradwright as gw
from gradwright.ops import loading
from pathlib import Path
loading.INDEX = Path("INDEX")
assert gw.nn.lora_matmul and gw.random.poisson and "gru" in dir(gw.rnn)
"""
    held = json.loads(loading.INDEX.read_text("utf-8"))
    for name, text in {
        "missing": "",
        "damaged": "{",
        "a list": "[]",
        "of another form": json.dumps(dict.fromkeys(held, 3)),
        "older": json.dumps({file: {"nn": ["relu"]} for file in held}),
        "old": json.dumps({file: [size + 1, {}] for file, (size, _) in held.items()}),
    }.items():
        path = tmp_path / name
        if text:
            path.write_text(text, "utf-8")
        done = subprocess.run(
            [sys.executable, "-c", code.replace('"INDEX"', repr(str(path)))],
            capture_output=True,
            text=True,
        )
        assert not done.returncode, done.stderr


def x23() -> gw.Tensor:
    return gw.Graph().placeholder("x", (2, 3))


def test_attributes_are_positional_or_keywords():
    x = x23()
    assert gw.sum(x, 1).shape == gw.sum(x, axis=1).shape == x.sum(axis=1).shape == (2,)
    assert gw.clip(x, 0.0, 1.0).node.op == gw.clip(x, max=1.0, min=0.0).node.op
    assert gw.concat(x, x, axis=1).shape == gw.concat([x, x], axis=1).shape == (2, 6)
    assert gw.einsum("ij->j", x).shape == gw.einsum(x, equation="ij->j").shape == (3,)
    assert gw.reshape(x, shape=(6,)).shape == gw.reshape(x, g_constant(x, [6])).shape == (6,)
    assert gw.transpose(x, name="turned").name == "turned"


def g_constant(x: gw.Tensor, values: list[int]) -> gw.Tensor:
    return x.graph.constant(np.array(values))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: gw.sum(x, 0, axis=1), "sum got 'axis' twice"),
        (lambda x: gw.sum(), "sum needs the input 'x'"),
        (lambda x: gw.sum(x, 0, False, 3), "got 4 positional arguments"),
        (lambda x: gw.sum(x, axes=0), "sum has no 'axes'; it has axis, keepdims"),
        (lambda x: gw.cast(x), "cast needs the attribute 'dtype'"),
    ],
)
def test_wrong_calls_say_what_is_taken(call, message):
    with pytest.raises(TypeError, match=message):
        call(x23())


def test_functions_show_their_signature_and_documentation():
    assert str(inspect.signature(gw.cumsum)) == (
        "(x: 'Tensor', axis: 'int', reverse: 'bool' = False, exclusive: 'bool' = False, *, "
        "name: 'str | None' = None) -> 'Tensor'"
    )
    assert "Axis to sum along." in gw.cumsum.__doc__ and gw.cumsum.__name__ == "cumsum"
