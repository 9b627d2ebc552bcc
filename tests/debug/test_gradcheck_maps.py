"""The gradient check panel: maps of elements, curves, and pages that last."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.debug.check.report import VERDICTS
from gradwright.errors import GraphError
from gradwright_widgets.host.host import Host
from gradwright_widgets.panels.check.panel import SAVED_CURVES, CheckPanel, GradCheckPanel
from gradwright_widgets.panels.check.rows import map_message, worst_elements
from gradwright_widgets.panels.graph.panel import GraphPanel
from tests.support import check_panels
from tests.support.check_panels import model, opened, whole
from tests.support.panels import EVIL, sent

bad_cap = pytest.fixture(scope="module", autouse=True)(check_panels.bad_cap)


def saved(page: str) -> dict[str, Any]:
    start = page.index('id="saved">') + len('id="saved">')
    return json.loads(page[start : page.index("</script>", start)])


# -- maps, curves ----------------------------------------------------------------------------------


def test_a_map_holds_the_checked_elements(bad_cap, monkeypatch):
    g, feeds = model(bad_cap())
    panel = opened(g, feeds)
    report = panel.check(max_per_param=5, wait=True)
    messages = sent(panel, monkeypatch)
    panel._receive(panel, {"kind": "check.map", "name": "hidden/w"}, [])
    ((facts, buffers),) = messages
    at, verdicts = np.frombuffer(buffers[0], "<i4"), np.frombuffer(buffers[1], "u1")
    ways = np.frombuffer(buffers[2], "u1")
    errors, analytic, numeric = (np.frombuffer(b, "<f8") for b in buffers[3:])
    p = report.parameters["hidden/w"]
    assert (facts["shape"], facts["complex"], len(at)) == ([4, 3], False, 5)
    assert at.tolist() == np.flatnonzero(p.verdicts).tolist()
    np.testing.assert_array_equal(analytic, p.analytic.reshape(-1)[at])
    np.testing.assert_array_equal(numeric, p.numeric.reshape(-1)[at])
    assert [VERDICTS[v] for v in verdicts] == ["fail"] * 5
    assert ways.tolist() == p.ways.reshape(-1)[at].tolist()
    np.testing.assert_allclose(errors, 0.5, rtol=1e-4)
    panel._receive(panel, {"kind": "check.map", "name": "nothing"}, [])
    assert len(messages) == 1


def test_a_click_on_an_element_brings_its_curve(bad_cap, monkeypatch):
    g, feeds = model(bad_cap())
    panel = opened(g, feeds)
    panel.check(wait=True)
    messages = sent(panel, monkeypatch)
    ask = {"kind": "check.curve", "name": "hidden/w", "index": [2, 1], "part": "real"}
    for _ in range(2):
        panel._receive(panel, ask, [])
        panel.part(CheckPanel)._check_curve_work.join()
    (facts, buffers), (again, same) = messages
    assert (facts["name"], facts["index"], facts["verdict"]) == ("hidden/w", [2, 1], "fail")
    assert facts["text"].startswith("Wrong: the gradient is ")
    assert again == facts and same == buffers
    assert panel.check_focus == {"name": "hidden/w", "index": [2, 1], "part": "real"}
    slopes, offsets, changes, steps, errors, _ = (np.frombuffer(b, "<f8") for b in buffers)
    assert slopes[2] == pytest.approx(slopes[3] / 2, rel=1e-4)
    assert len(offsets) == len(changes) == 5 * facts["points"] and len(steps) == len(errors)
    panel._receive(panel, ask | {"index": [9, 9]}, [])
    panel.part(CheckPanel)._check_curve_work.join()
    assert panel.message == "'hidden/w' has no element [9, 9]\n  its shape is [4, 3]"


def test_complex_parameters_have_maps_of_pairs(monkeypatch):
    g = gw.Graph()
    w = g.variable("w", init=np.array([1 + 2j, 3 - 1j]))
    gw.square(gw.abs(w)).sum(name="loss")
    panel = opened(g)
    panel.check(wait=True)
    ((facts, buffers),) = [map_message(0, panel.report.parameters["w"])]
    assert facts["complex"] is True
    np.testing.assert_allclose(np.frombuffer(buffers[4], "<f8"), [2, 4, 6, -2])
    assert np.frombuffer(buffers[3], "<f8").shape == (2,)


def test_a_finished_report_can_be_shown(bad_cap):
    g, feeds = model(bad_cap())
    report = gw.gradient_check(g, "loss", feeds, max_per_param=3)
    panel = GradCheckPanel(g, report=report)
    assert (panel.check_state, panel.blamed) == ("done", ["cap"])
    assert len(whole(panel)["parameters"]) == 3
    assert panel.curve("w2", (0, 0)).check.verdict == "ok"
    panel.report = None
    assert (panel.check_state, panel.blamed, panel.report) == ("", [], None)
    with pytest.raises(GraphError, match="nothing has been checked"):
        panel.curve("w2", (0, 0))


def test_the_drawing_is_coloured_where_there_is_one(bad_cap):
    class Drawn(Host):
        module = "gradcheck_panel"
        panels = (GraphPanel, CheckPanel)

    painted: list[dict[str, Any]] = []
    g, feeds = model(bad_cap(share=-1.0))
    panel = Drawn(g, loss="loss", feeds=feeds)
    panel.desk.on("overlay", lambda **facts: painted.append(facts))
    panel.check(wait=True)
    assert (painted[-1]["title"], painted[-1]["scale"]) == ("gradient error", "log")
    values = painted[-1]["values"]
    assert values["cap"] == pytest.approx(2.0) and values["loss"] < 1e-5
    assert panel.overlay["title"] == "gradient error" and panel.color_by == "overlay"
    panel.check_overlay = False
    assert panel.overlay == {} and panel.color_by == "category"
    panel.check_overlay = True
    panel.set_overlay("time", {"loss": 1.0})
    panel.check_overlay = False
    assert panel.overlay["title"] == "time", "and not what somebody else has put there"


# -- what lasts ------------------------------------------------------------------------------------


def test_a_saved_page_has_maps_and_the_worst_curves(bad_cap):
    panel = opened(*model(bad_cap()))
    panel.check(wait=True)
    kinds = [
        (m["content"]["kind"], m["content"].get("name")) for m in saved(panel.to_html())["messages"]
    ]
    assert kinds[0][0] == "check.rows"
    assert [n for k, n in kinds if k == "check.map"] == ["hidden/w", "hidden/b", "w2"]
    curves = [n for k, n in kinds if k == "check.curve"]
    assert set(curves) == {"hidden/w", "hidden/b", "w2"} and len(curves) <= SAVED_CURVES
    assert all("$bytes" not in str(m["content"]) for m in saved(panel.to_html())["messages"])
    assert "check.map" not in [m[0]["kind"] for m in panel.new_view_messages()]


def test_every_parameter_has_one_of_the_curves(bad_cap):
    g, feeds = model(bad_cap())
    report = gw.gradient_check(g, "loss", feeds)
    found = worst_elements(report, 5)
    assert {name for name, _, _ in found[:3]} == {"hidden/w", "hidden/b", "w2"}
    assert found[2][0] == "w2" and {name for name, _, _ in found[3:]} == {"hidden/w"}
    assert len(worst_elements(report, 100)) == 12 + 3 + 1


def test_names_stay_text():
    g = gw.Graph()
    w = g.variable(EVIL, init=[0.0, 1.0])
    gw.nn.relu(w, name=f"{EVIL}2").sum(name="loss")
    panel = opened(g)
    panel.check(wait=True)
    assert whole(panel)["parameters"][0]["name"] == EVIL
    assert "<img" not in panel.to_html() and "<img" not in panel.to_table()
    assert "&lt;img" in panel.to_table()


def test_numbers_that_are_none_survive_json(bad_cap):
    g, feeds = model(bad_cap(share=float("nan")))
    panel = opened(g, feeds)
    panel.check(wait=True)
    told = json.loads(json.dumps(whole(panel), allow_nan=False))
    assert [row["error"] for row in told["nodes"] if row["name"] == "cap"] == [None]
    assert "is not a number" in told["findings"][0]["text"]
    assert panel.to_html()


def test_an_empty_panel_has_no_table():
    panel = opened(*model())
    assert panel.to_table() == "" and panel.check_state == ""
    panel.check(wait=True)
    assert "hidden/w" in panel.to_table()
