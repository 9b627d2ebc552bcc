"""Kernels in a widget without a browser: looked into, walked, refused; and without Triton."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError
from gradwright_widgets import KernelView, Workbench
from gradwright_widgets.panels.kernels.panel import INSTALL, KernelsPanel
from tests.support.panels import EVIL, wait_for

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="Triton has wheels for Linux only"
)
X = np.random.default_rng(0).standard_normal((40, 12)).astype("f4")


def net(name: str = "p") -> tuple[gw.Graph, Any]:
    g = gw.Graph("net")
    x, w = g.placeholder("x", (None, 12)), g.variable("w", (12, 20))
    return g, gw.nn.softmax(gw.nn.gelu(x @ w), name=name)


def told(view: Any) -> dict[str, tuple[dict[str, Any], list[bytes]]]:
    return {c["kind"]: (c, b) for c, b in view.part(KernelsPanel).new_view_messages()}


def asked(view: Any, kind: str, **facts: Any) -> None:
    view._receive(view, {"kind": f"kernels.{kind}", "id": 1, **facts}, [])
    view.wait_for_kernels()


@needs_triton
def test_a_node_is_looked_into_and_its_programs_are_walked() -> None:
    g, p = net(EVIL)
    view = KernelView(g, loss=p, feeds={"x": X})
    view.look_into(EVIL)
    assert (view.kernel_state, view.kernel_step, view.kernel_program) == ("done", 1, 0)
    launch, buffers = told(view)["kernels.launch"]
    assert EVIL in launch["nodes"] and launch["programs"] == list(range(launch["total"]))
    assert [o["name"] for o in launch["operands"]] == ["matmul", "constant", EVIL]
    writers = np.frombuffer(buffers[5], np.int32).reshape(40, 20)
    assert (writers[0] == 0).all() and (writers[-1] == launch["total"] - 1).all()
    program, parts = told(view)["kernels.program"]
    line = program["lines"][view.kernel_line]
    assert line["accesses"][0]["how"] == "loads", "it stands at the first line that reads memory"
    found = np.frombuffer(parts[line["accesses"][0]["buffer"]], np.int32)
    np.testing.assert_array_equal(found, np.arange(len(found)))

    last = launch["total"] - 1
    asked(view, "program", program=last)
    assert (view.kernel_program, told(view)["kernels.program"][0]["program"]) == (last, last)
    asked(view, "users", argument=2, element=799)
    assert told(view)["kernels.users"][0]["writes"] == [last]
    at = len(told(view)["kernels.program"][0]["lines"]) - 1
    asked(view, "value", line=at, name="inside")
    value, (data,) = told(view)["kernels.value"]
    assert np.frombuffer(data, "f").sum() == (40 - 32) * 20, "lanes within the array"
    assert value["rows"] * value["columns"] == len(data) // 4
    assert "<img" not in view.to_table() and "loads" in view.to_table()

    asked(view, "program", program=last + 1)
    assert "was not looked at" in view.message
    with pytest.raises(GraphError, match="no kernel computes 'x'"):
        view.look_into("x")
    assert view.kernel_state == "failed"


@needs_triton
def test_a_workbench_looks_into_the_update_of_its_trainer() -> None:
    g, p = net()
    loss = gw.mean(gw.square(p), name="loss")
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.1))
    bench = Workbench(g, trainer, data={"x": X})
    before = g.values["w"].copy()
    assert bench.kernel_devices == [{"name": "cuda-sim"}]
    bench.selected, bench.tab = "loss", "kernels"
    asked(bench, "look", node="loss")
    wait_for(lambda: bench.kernel_state in ("done", "failed"))
    assert bench.kernel_state == "done", bench.message
    rows = told(bench)["kernels.steps"][0]["rows"]
    assert "loss" in rows[bench.kernel_step]["nodes"]
    assert any("sgd_update" in name for row in rows for name in row["nodes"])
    np.testing.assert_array_equal(g.values["w"], before)
    cost = bench.kernel_cost(80)
    assert told(bench)["kernels.cost"][0]["registers"] == cost.resources.registers
    with pytest.raises(GraphError, match="80, 90 or 100"):
        bench.kernel_cost(70)
    bench.close()


def test_without_triton_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    missing = lambda name, *rest: None if name == "triton" else real(name, *rest)  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", missing)
    g, p = net()
    view = KernelView(g, loss=p, feeds={"x": X})
    assert view.kernel_hint == INSTALL and not view.kernel_devices and view.to_table() == ""
