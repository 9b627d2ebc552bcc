"""The tutorials of the site: their cells run, their exercises know right from wrong."""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwright as gw

pytest.importorskip("sklearn", reason="pip install -e '.[test]'")
pytest.importorskip("anywidget", reason="pip install -e '.[test]'")
TUTORIALS = Path(__file__).parents[2] / "notebooks/site/tutorials"
NAMES = sorted(path.stem for path in TUTORIALS.glob("*.ipynb"))
BLANK = "Fill in the blank, ..., and run this cell again."
SOLUTION = re.compile(r"<details><summary>Solution</summary>\n\n```python\n(.*?)```", re.S)


@pytest.fixture(autouse=True)
def beside_the_notebooks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let the exercises be found as a notebook finds them; what Start records goes nowhere else."""
    monkeypatch.setenv("GRADWRIGHT_RUNS", str(tmp_path))
    monkeypatch.syspath_prepend(str(TUTORIALS))
    for name in [name for name in sys.modules if name.partition(".")[0] == "exercises"]:
        monkeypatch.delitem(sys.modules, name)


def cells(name: str) -> list[dict[str, Any]]:
    return json.loads((TUTORIALS / f"{name}.ipynb").read_text("utf-8"))["cells"]


def execute(source: str, space: dict[str, Any]) -> None:
    exec(compile(source, "cell", "exec"), space)


def test_there_are_ten() -> None:
    assert [name[:2] for name in NAMES] == [f"{number:02}" for number in range(1, 11)]


@pytest.mark.parametrize("name", NAMES)
def test_a_tutorial_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A blank asks to be filled in, the solution below it is right, the rest runs after both."""
    space: dict[str, Any] = {}
    found, exercises = cells(name), 0
    for cell, after in zip(found, [*found[1:], {}], strict=True):
        source = "".join(cell["source"])
        if cell["cell_type"] != "code":
            continue
        capsys.readouterr()
        execute(source, space)
        if "exercise" in cell["metadata"].get("tags", []):
            exercises += 1
            assert BLANK in capsys.readouterr().out, source
            solution = SOLUTION.search("".join(after["source"]))
            assert solution, f"no solution below:\n{source}"
            execute(solution[1] + "\n" + source.strip().split("\n")[-1], space)
            assert capsys.readouterr().out == "Right.\n", solution[1]
    assert exercises >= 2


@pytest.mark.parametrize("name", NAMES)
def test_a_tutorial_is_kept_without_results(name: str) -> None:
    for cell in cells(name):
        assert not cell.get("outputs") and cell.get("execution_count") is None


def said(check: Any, capsys: pytest.CaptureFixture[str], *answers: Any) -> str:
    capsys.readouterr()
    check(*answers)
    return capsys.readouterr().out


def plane() -> tuple[gw.Tensor, gw.Tensor]:
    g = gw.Graph("plane")
    return g.placeholder("p", (2,)), g.placeholder("q", (2,))


def late_heads(tokens: Any) -> Any:
    return tokens.reshape(-1, 4, tokens.shape[1], 8)


def all_places(words: Any, lengths: Any) -> Any:
    return words.mean(axis=1)


def divided_by_all(words: Any, lengths: Any) -> Any:
    exists = (gw.arange(words.shape[1]) < lengths[:, None]).astype("float32")
    return (words * exists[:, :, None]).mean(axis=1)


def cut(loss: Any, w: Any) -> Any:
    (slope,) = gw.gradients(loss, [w])
    return loss + 0.1 * gw.stop_gradient(gw.square(slope).sum())


def whole_average(x: Any, r: Any) -> Any:
    return gw.scan(lambda a, value: (r * a + (1.0 - r) * value, None), 0.0, x)[0]


def hidden_in_where(e: Any) -> Any:
    return gw.where(gw.abs(e) <= 1.0, 0.5 * e * e, gw.abs(e) - 0.5)


WRONG = {
    ("first_graph", "distance", "a number"): (lambda: (3.0,), "A tensor is wanted"),
    ("first_graph", "distance", "a vector"): (
        lambda: (gw.square(np.subtract(*plane())),),
        "sum it up",
    ),
    ("first_graph", "distance", "a square"): (
        lambda: (gw.square(np.subtract(*plane())).sum(),),
        "a root is missing",
    ),
    ("first_graph", "negative", "what inherits"): (lambda: ("riddle",), "go back towards x"),
    ("first_graph", "negative", "what is positive"): (lambda: ("grow/exp",), "is positive"),
    ("first_graph", "negative", "a slip"): (lambda: ("turn/neg1",), "no name in the graph"),
    ("shapes", "said", "too many axes"): (lambda: ("[B, 3, 1]",), "Which axes are left?"),
    ("shapes", "heads", "cut along time"): (lambda: (late_heads,), "of several words"),
    ("shapes", "masked", "unmasked"): (lambda: (all_places,), "also those behind"),
    ("shapes", "masked", "divided by T"): (lambda: (divided_by_all,), "not by T"),
    ("gradients", "slope", "the 1 is missing"): (lambda: (lambda a, x: 2.0 * a * x,), "slope is"),
    ("gradients", "penalised", "cut off"): (lambda: (cut,), "has no gradient"),
    ("training", "falling", "too steep"): (
        lambda: (gw.schedules.Step(0.1, 50, 0.1),),
        "At step 99 it should be 0.1, and is 0.01",
    ),
    ("stepping", "overflow", "what is finite"): (lambda: ("terms",), "is finite"),
    ("checking", "softsign", "without the square"): (
        lambda: (lambda g, y, x: g / (1.0 + np.abs(x)),),
        "is wrong",
    ),
    ("checking", "suspect", "a good one"): (lambda: ("cube",), "agrees"),
    ("checking", "twice", "the first order alone"): (lambda: (lambda op: True,), "its second"),
    ("control_flow", "huber", "by where"): (lambda: (hidden_in_where,), "gw.cond was wanted"),
    ("control_flow", "average", "the last alone"): (lambda: (whole_average,), "f32[]"),
    ("control_flow", "collatz", "one too many"): (
        lambda: (lambda n: gw.ones_like(n),),
        "From 1 it takes 0 steps, not 1",
    ),
    ("keeping", "padded", "another name"): (lambda: (lambda s: {"ids": s},), "are wanted"),
    ("own_op", "log_cosh", "a wrong sign"): (
        lambda: (lambda g, y, x: -g * np.tanh(x),),
        "is wrong",
    ),
    ("own_op", "straight_through", "no surrogate"): (
        lambda: (gw.define_op("test/rounded", lambda x: np.round(x), vjp=lambda g, y, x: g),),
        "surrogate",
    ),
}


@pytest.mark.parametrize(("place", "case"), WRONG.items(), ids=[" ".join(key) for key in WRONG])
def test_a_wrong_answer_is_told_why(
    place: tuple[str, str, str], case: tuple[Any, str], capsys: pytest.CaptureFixture[str]
) -> None:
    check = getattr(importlib.import_module(f"exercises.{place[0]}"), place[1])
    make, wanted = case
    out = said(check, capsys, *make())
    assert out.startswith("Not yet. ") and wanted in out


def test_an_error_of_an_answer_is_a_finding(capsys: pytest.CaptureFixture[str]) -> None:
    check = importlib.import_module("exercises.gradients").slope
    out = said(check, capsys, lambda a, x: x.no_such_thing)
    assert out.startswith("Not yet. AttributeError")
