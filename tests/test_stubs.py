"""Signatures: what editors read is what Python accepts."""

from __future__ import annotations

import ast
import inspect

import numpy as np
import pytest

import gradwright as gw
from gradwright.ops import stubs


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
        body = ast.parse(text).body
        found = [node.name for node in body if isinstance(node, ast.FunctionDef)]
        if path.stem == "base":  # its functions stand at the top level alone
            assert set(found) <= set(dir(gw))
            assert all(callable(getattr(gw, name)) for name in found)
        elif path.stem != "methods":
            assert all(callable(getattr(getattr(gw, path.stem), name)) for name in found)
        assert found == sorted(found)
    methods = ast.parse(stubs.stubs()[stubs.PACKAGE / "graph/methods.pyi"]).body[-1]
    assert isinstance(methods, ast.ClassDef) and len(methods.body) > 50
    for node in methods.body:
        assert isinstance(node, ast.FunctionDef) and callable(getattr(gw.Tensor, node.name))


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
        (lambda x: gw.sum(x, axes=0), "sum has no attribute 'axes'; it has axis, keepdims"),
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
