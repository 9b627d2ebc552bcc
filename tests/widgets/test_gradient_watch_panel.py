"""The watch beside a training, in the panel of the check: switches, strip, alarms, lit nodes."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GradwrightError
from gradwright_widgets import GradCheckPanel, Workbench
from gradwright_widgets.panels.check.watch import VERDICTS, WatchPanel, watch_message

pytestmark = pytest.mark.filterwarnings("ignore:step [0-9]+. .* is wrong:UserWarning")


@pytest.fixture
def net():
    """A net with a wrong vjp inside of a loop, and its trainer."""
    bad = gw.define_op("watched/cube", lambda x: x**3, vjp=lambda g, y, x: g * 2.0 * x**2)
    g = gw.Graph("net")
    x = g.placeholder("x", (None, 3))
    h = x @ g.variable("w", (3, 3), init=gw.init.he_normal(seed=0))
    c, _ = gw.scan(
        lambda c, v: (bad(gw.tanh(c + v), name="third"), None), np.ones(3, "f4"), h, name="loop"
    )
    loss = gw.mean(gw.square(c), name="loss")
    return gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.01))


def data(rows=4):
    return [{"x": np.random.default_rng(1).standard_normal((rows, 3)).astype("f4")}] * 8


def sent(panel):
    """Return the latest strip that new views are brought."""
    found = [m for m in panel.new_view_messages() if m[0]["kind"] == "watch.points"]
    return found[-1] if found else None


def test_a_switch_adds_the_watch_and_takes_it_off(net):
    panel = GradCheckPanel(net.graph, net)
    assert (panel.watch_state, panel.gradient_watch) == ("idle", None)
    panel.watch_on = True
    watch = panel.gradient_watch
    assert watch in net.callbacks
    watch.every = 1
    net.fit(data(), epochs=1, progress=False)
    facts, (steps, errors, noises, verdicts, names) = sent(panel)
    assert len(watch.points) == len(verdicts) > 3
    assert np.frombuffer(steps).tolist() == [p.step for p in watch.points]
    assert np.frombuffer(errors).tolist() == [p.error for p in watch.points]
    assert np.frombuffer(noises).tolist() == [p.noise for p in watch.points]
    assert [VERDICTS[v] for v in bytes(verdicts)] == [p.verdict for p in watch.points]
    assert [facts["names"][k] for k in np.frombuffer(names, "<i4")] == [
        p.name for p in watch.points
    ]
    assert facts["looks"] == watch.cost.nodes + watch.cost.elements
    panel.watch_on = False
    assert watch not in net.callbacks
    panel.watch_on = True
    assert panel.gradient_watch is watch, "what was seen stays"


def test_an_alarm_lights_the_place_inside_of_the_loop(net):
    bench = Workbench(net.graph, net)
    bench.watch_on = True
    bench.gradient_watch.every = 1
    net.fit(data(), epochs=2, progress=False)
    assert bench.blamed == ["loop::third"]
    facts, _ = sent(bench)
    (alarm,) = facts["alarms"]
    assert alarm["nodes"] == ["loop::third"]
    assert "watched/cube" in alarm["text"]
    assert "test_gradient_watch_panel.py" in alarm["where"]
    assert bench.watch_state == "idle", "the training is over"
    bench.selected = alarm["nodes"][0]
    bench.check(wait=True, max_per_param=2)
    assert "loop:0:third" in bench.blamed
    assert bench.overlay["inside"].keys() == {"loop::third"}


def test_the_training_pauses_at_an_error_above_noise(net):
    panel = GradCheckPanel(net.graph, net, watch_on=True, watch_pause=True)
    panel.gradient_watch.every = 1
    calls = []
    net.pause = lambda: calls.append(net.steps_done)
    net.fit(data(), epochs=1, progress=False)
    assert len(calls) == 1
    panel.watch_pause = False
    assert panel.gradient_watch.on_alarm is None


def test_a_watch_that_is_there_is_shown_and_keeps_its_own_ways(net):
    told = []
    watch = gw.GradientWatch(every=1, on_alarm=told.append)
    net.add_callback(watch)
    panel = GradCheckPanel(net.graph, net)
    assert panel.watch_on
    assert panel.gradient_watch is watch
    net.fit(data(), epochs=1, progress=False)
    assert len(told) == 1
    assert panel.blamed == ["loop::third"]


def test_without_a_trainer_there_is_nothing_to_watch(net):
    panel = GradCheckPanel(net.graph, loss="loss", feeds=data()[0])
    assert panel.watch_state == ""
    assert sent(panel) is None
    with pytest.raises(GradwrightError, match="trainer"):
        panel.watch_on = True
    assert not panel.watch_on


def test_what_is_not_a_number_has_a_place(net):
    watch = gw.GradientWatch()
    facts, columns = watch_message(watch)
    assert [len(c) for c in columns] == [0, 0, 0, 0, 0]
    assert facts["worst"] is None
    watch.seen.strip.append(gw.debug.Point(3, "w", "element", np.inf, np.inf, "fail"))
    facts, (steps, errors, *_) = watch_message(watch)
    assert (np.frombuffer(steps)[0], np.frombuffer(errors)[0]) == (3, np.inf)


def test_a_panel_that_is_closed_hears_nothing_more(net):
    panel = GradCheckPanel(net.graph, net, watch_on=True)
    watch = panel.gradient_watch
    panel.close()
    watch.every = 1
    net.fit(data(), epochs=1, progress=False)
    assert panel.part(WatchPanel).gradient_watch is watch
