"""What a page may send, however wrong: it changes nothing, raises nothing, and is said below."""

from __future__ import annotations

import json
import re
import threading
import traceback
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

import gradwright as gw
from gradwright_widgets import (
    GraphView,
    LivePlot,
    ParameterTable,
    StepperPanel,
    TensorView,
    Workbench,
)
from gradwright_widgets._base import _storable
from gradwright_widgets._work import Work
from tests.panels import EVIL

HOSTILE = [
    None, True, -1, 3, 10**30, 1.5, float("nan"), float("-inf"), "", EVIL, "</script>", "loss",
    "a\nb", "nan", "[1", "[[1, 2], [3]]", "'s'", "\ud800", "9**9**9**9", "9" * 5000, "(" * 500,
    "{1: 2}", "1j", "(3).max()", "[", [], {}, [None], ["loss"], [[["deep"]]], {"a": 1}, [10**30],
    [float("nan")], [-1] * 8, ["a"] * 8,
]  # fmt: skip
ELEMENT = {"name": "hidden/w", "how": "element", "value": "1", "index": "0, 0", "rerun": True}
VERBS = (
    "run", "run_to", "into_gradient", "find", "step", "back", "into", "out", "reset", "rerun",
    "load", "last_batch",
)  # fmt: skip
MESSAGES = [
    *({"kind": f"train.{verb}"} for verb in ("pause", "resume", "stop", "hear")),
    {"kind": "train.rate", "value": 0.1},
    {"kind": "train.evaluate", "weights": "ema"},
    *({"kind": f"{panel}.sync"} for panel in ("plot", "parameters", "stepper", "tensor", "check")),
    *({"kind": f"{panel}.sync"} for panel in ("schedule", "runcurves")),
    *({"kind": f"checkpoints.{verb}"} for verb in ("look", "save")),
    {"kind": "checkpoints.restore", "file": "step-000000002.gw"},
    {"kind": "runs.look", "whole": True},
    {"kind": "parameters.freeze", "names": ["hidden/w"], "frozen": True},
    *({"kind": "stepper.move", "verb": verb, "name": "loss"} for verb in VERBS),
    {"kind": "stepper.stop"},
    {"kind": "stepper.look", "tensor": "loss"},
    {"kind": "stepper.look", "name": "loss"},
    *({"kind": "stepper.edit", **ELEMENT, "how": how} for how in ("element", "scale", "whole")),
    *(
        {"kind": "stepper.break", "place": "name", "text": "loss", "condition": c, "limit": "3"}
        for c in ("nan", "above", "when", None)
    ),
    *(
        {"kind": "stepper.break", "place": place, "text": "loss", "condition": None}
        for place in ("op", "scope", "regex", "node")
    ),
    {"kind": "stepper.breakpoint", "numbers": [1], "on": True},
    {"kind": "stepper.watch", "text": 't["loss"]', "remove": False},
    {"kind": "stepper.rows", "first": 0, "level": 1},
    {"kind": "tensor.look", "view": "v", "shown": True, "fresh": True},
    {"kind": "tensor.index", "text": "[0]"},
    {"kind": "tensor.jump", "at": [0, 0]},
    {"kind": "tensor.window", "window": [0, 1, 0, 1, 0, 1, 0, 1], "view": "v", "serial": 1},
    {"kind": "tensor.value", "at": [0, 0, 1, 0, 1], "view": "v"},
    {"kind": "check.stop"},
    {"kind": "check.map", "name": "hidden/w"},
    {"kind": "check.curve", "index": [0, 0], "name": "hidden/w", "part": "real"},
]
LONG = {"train.start", "train.step", "check.start"}  # they take no facts


def network(name="hidden"):
    g = gw.Graph(name)
    x, t = g.placeholder("x", ("B", 4)), g.placeholder("t", ("B",), dtype="int64")
    with g.scope(name):
        w = g.variable("w", (4, 3), init=gw.init.he_normal(seed=0))
        h = gw.nn.relu(x @ w, name="relu")
    h = gw.nn.layer_norm(h, g.variable("gain", (3,), init=1.0), g.variable("shift", (3,)))
    gw.loss.sparse_softmax_cross_entropy(t, h, name="loss")
    return g


def data(n=16):
    rng = np.random.default_rng(0)
    return {"x": rng.standard_normal((n, 4)).astype("f4"), "t": rng.integers(0, 3, n)}


@pytest.fixture
def bench(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADWRIGHT_RUNS", str(tmp_path))
    g = network()
    trainer = gw.Trainer(g, "loss", optimizer=gw.optim.SGD(0.05))
    made = Workbench(g, trainer, data=data(), epochs=1, batch_size=8)
    yield made
    made.close()


def variations(message):
    """Give the message, without each of its keys, and with each of them wrong in many ways."""
    yield message
    for key in message.keys() - {"kind"}:
        yield {k: v for k, v in message.items() if k != key}
        yield from ({**message, key: wrong} for wrong in HOSTILE)


def state(bench):
    """Return all traits as a page would get them, and fail where JSON has no word for one."""
    traits = {name: getattr(bench, name) for name in bench.keys if not name.startswith("_")}
    return json.dumps(_storable({k: v for k, v in traits.items() if k not in ("layout", "tabbable",
                      "tooltip")}), allow_nan=False)  # fmt: skip


def test_every_handler_is_tried():
    assert {m["kind"] for m in MESSAGES} | LONG == set(Workbench._handlers)


@pytest.mark.filterwarnings("ignore:Possible nested set:FutureWarning")  # of re, for "[["
@pytest.mark.parametrize("where", ["untouched", "stepped", "inside a composite"])
def test_no_message_raises_or_changes_what_it_should_not(bench, where, monkeypatch):
    lost = []
    monkeypatch.setattr(threading, "excepthook", lambda args: lost.append(args.exc_value))
    if where != "untouched":
        bench.start()
        bench.wait()
        bench.check(wait=True, max_per_param=2)
        bench.stepper.run_to("loss")
        bench.show_tensor("hidden/w")
    if where == "inside a composite":
        inner = next(n for n in bench.stepper.nodes() if n.op.name == "layer_norm")
        bench.stepper.run_to(inner)
        bench.stepper.into()
    before = bench.graph.values.snapshot()
    names = [node.name for node in bench.graph.nodes]
    for message in MESSAGES:
        for sent in variations(message):
            try:
                bench._receive(bench, sent, [])
            except Exception:
                pytest.fail(f"{sent}\n{traceback.format_exc()}")
            bench._walk.stop()
            bench._walk.join()
            assert not re.search(r"^\w*(Error|Exception): ", bench.message), (sent, bench.message)
        state(bench)
    for work in bench._works:  # a curve that was asked for may still be on its way to its error
        work.join(30)
    assert not lost
    assert [node.name for node in bench.graph.nodes] == names
    for t in bench.graph.variables:
        np.testing.assert_array_equal(bench.graph.values[t.name], before[t.name])
    bench.unfreeze()
    bench._receive(bench, {"kind": "train.rate", "value": 0.1, "id": 1}, [])
    steps = bench.trainer.steps_done
    bench.start()
    bench.wait()
    assert bench.message == "" and bench.state == "finished" and bench.trainer.steps_done > steps
    bench.to_html()


@pytest.mark.parametrize("content", [None, 3, "x", [], {}, {"kind": 3}, {"kind": ["x"]},
                                     {"kind": "no.such"}, {"id": 1}])  # fmt: skip
def test_what_is_no_message_is_passed_over(bench, content):
    before = state(bench)
    bench._receive(bench, content, [])
    assert state(bench) == before


@pytest.mark.parametrize("kind", sorted(LONG))
def test_messages_that_start_something_take_no_facts(bench, kind):
    bench.check_limit = 1
    bench._receive(bench, {"kind": kind, "epochs": EVIL, "wrt": [EVIL], "id": [EVIL]}, [])
    bench.wait()
    bench._check_work.join()
    assert bench.message == ""


@pytest.mark.parametrize(
    "trait, wrong",
    [
        ("selected", "nothing"), ("selected", 3), ("tensor", EVIL), ("expanded", ["nothing"]),
        ("path_to", "nothing"), ("table_sort", "nothing"), ("table_columns", [EVIL]),
        ("smoothing", float("nan")), ("smoothing", 7), ("epochs", 0), ("epochs", 10**400),
        ("check_limit", -4), ("tensor_limits", [float("nan"), 1]), ("tensor_limits", [1]),
        ("tensor_plane", [1]), ("tab", EVIL), ("height", "tall"), ("gradients", 3),
        ("state", "flying"), ("frozen", 3), ("overlay", []),
    ],
)  # fmt: skip
def test_a_trait_that_is_refused_goes_back_in_the_page_too(bench, trait, wrong, monkeypatch):
    sent = []
    monkeypatch.setattr(bench, "_send", lambda message, buffers=None: sent.append(message))
    told = []
    bench.observe(told.append, trait)
    before = getattr(bench, trait)
    bench.set_state({trait: wrong, "log_scale": True})
    assert getattr(bench, trait) == before and not told
    assert bench.message and bench.log_scale, "the others are taken"
    back = [m["state"] for m in sent if m["method"] == "update" and trait in m["state"]]
    assert back and back[-1][trait] == before


def test_a_held_message_of_one_thread_keeps_nothing_of_another(bench, monkeypatch):
    sent = []
    monkeypatch.setattr(bench, "_send", lambda message, buffers=None: sent.append(message))

    def change():
        bench.message = "from another thread"

    with bench.hold_sync():
        bench.smoothing = 0.5
        thread = threading.Thread(target=change)
        thread.start()
        thread.join()
        states = [m["state"] for m in sent]
        assert states == [{"message": "from another thread"}]
    assert sent[-1]["state"] == {"smoothing": 0.5}


def test_a_training_outlives_what_goes_wrong_in_its_widgets(bench, monkeypatch):
    def broken(record):
        raise ZeroDivisionError("a panel")

    monkeypatch.setattr(bench, "step_ended", broken)
    bench.trainer.fit(data(), batch_size=8, progress=False)
    assert bench.trainer.progress.outcome == "finished"
    assert bench.message == "ZeroDivisionError: a panel"


def test_a_command_of_the_training_thread_runs_at_once(bench):
    seen = []

    class Look(gw.Callback):
        def on_step_end(self, trainer, record):
            seen.append(bench.stepper.run_to("loss").reason)

    bench.trainer.add_callback(Look())
    bench.trainer.fit(data(), batch_size=16, progress=False)
    assert seen == ["target"]


def test_no_step_runs_beside_a_command_of_a_pause(bench):
    inside, go_on, order = threading.Event(), threading.Event(), []

    def command():
        inside.set()
        assert go_on.wait(10)
        order.append("command")

    class Pause(gw.Callback):
        def on_step_end(self, trainer, record):
            order.append(f"step {record.step}")
            if record.step == 1:
                trainer.pause()

        def on_pause(self, trainer):
            self.thread = threading.Thread(target=bench.commands.submit, args=(command,))
            self.thread.start()
            assert inside.wait(10)
            trainer.resume()
            threading.Timer(0.05, go_on.set).start()

    pause = Pause()
    bench.trainer.add_callback(pause)
    bench.trainer.fit(data(), batch_size=8, progress=False)
    pause.thread.join()
    assert order == ["step 1", "command", "step 2"]


def test_widgets_made_again_and_again_leave_nothing_at_the_trainer(bench):
    g, trainer = bench.graph, bench.trainer
    before = trainer.callbacks
    for make in (Workbench, ParameterTable, GraphView):
        for _ in range(3):
            make(g, trainer).close()
    LivePlot(trainer).close()
    assert trainer.callbacks == before
    again = Workbench(g, trainer, data=data(), epochs=2, batch_size=8)
    again.start()
    again.wait()
    again.close()
    assert trainer.callbacks == before


def test_a_widget_closed_during_a_fit_leaves_at_its_end(bench):
    other = ParameterTable(bench.graph, bench.trainer)
    follow = bench.trainer.callbacks[-1]

    class Close(gw.Callback):
        def on_step_end(self, trainer, record):
            other.close()
            other.freeze("gain")  # waits for the end of the fit
            assert follow in trainer.callbacks

    close = Close()
    bench.trainer.add_callback(close)
    bench.trainer.fit(data(), batch_size=16, progress=False)
    assert follow not in bench.trainer.callbacks and not other.commands.busy
    assert not bench.graph["gain"].trainable


def test_tables_are_made_while_a_training_samples(bench):
    failed, made = [], []

    def train():
        try:
            bench.trainer.fit(data(), epochs=200, batch_size=8, progress=False)
        except Exception as error:
            failed.append(error)

    bench.trainer.callbacks[0].seconds = 0.0
    thread = threading.Thread(target=train)
    thread.start()
    while thread.is_alive() and len(made) < 40:
        made.append(ParameterTable(bench.graph, bench.trainer))
    bench.trainer.stop()
    thread.join()
    for table in made:
        table.close()
    assert not failed


def test_work_that_is_about_to_begin_is_waited_for(monkeypatch):
    begin, done, start = threading.Event(), [], threading.Thread.start

    def late(thread):
        if thread.name == "gradwright late":
            assert begin.wait(10)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", late)
    work = Work("late")
    starter = threading.Thread(target=work.start, args=(lambda stop: done.append(1),))
    starter.start()
    threading.Timer(0.05, begin.set).start()
    while work._thread is None:
        pass
    work.join()
    starter.join()
    assert done == [1]


@pytest.mark.parametrize(
    "wrong", [{"scale": 1e300}, {"scale": float("nan")}, {"value": 1.5, "index": (0,)},
              {"value": float("nan")}, {"value": [[1], [2, 3]]}, {"value": "'a'"}, {"value": 300},
              {"value": 300, "index": (0,)}, {"value": 1j, "index": (0,)}, {}],
)  # fmt: skip
def test_an_edit_that_does_not_fit_changes_nothing(wrong):
    g = gw.Graph()
    x = g.placeholder("x", (3,), dtype="int8")
    gw.sum(x, name="y")
    panel = StepperPanel(g, fetches=["y"], feeds={"x": [1, 2, 3]})
    panel.stepper.run()
    with pytest.raises(gw.errors.GradwrightError):
        panel.edit("x", **wrong)
    assert panel.stepper.value("x").tolist() == [1, 2, 3] and not panel.stepper.pending
    panel.edit("x", scale=-2.0)
    assert panel.stepper.value("x").tolist() == [-2, -4, -6]


def test_a_point_that_is_no_number_leaves_the_curves_whole():
    plot = LivePlot()
    plot.append(1, {"a": 1.0, "b": 1.0})
    for step, value in ((2, "much"), ("two", 2.0), (2, None), (2, 10**400)):
        with pytest.raises(gw.errors.GradwrightError, match="a point of a curve is a number"):
            plot.append(step, {"a": 2.0, "b": value})
    plot.append(3, {"a": 3.0, "b": 3.0})
    assert plot.points("a") == plot.points("b") == ([1.0, 3.0], [1.0, 3.0])


def test_a_check_that_cannot_begin_is_not_running(bench):
    with pytest.raises(Exception, match="check_limit"):
        bench.check(max_per_param=-5)
    assert bench.check_state == "" and bench.check_report is None
    bench.check(wait=True, max_per_param=1)
    assert bench.check_state == "done"


def test_a_tensor_that_was_removed_is_shown_no_more(bench):
    g = bench.graph
    spare = g.variable("spare", (2,))
    bench.refresh()
    bench.selected = "spare"
    bench._receive(bench, {"kind": "tensor.look", "view": "v", "shown": True}, [])
    assert bench.tensor == "spare"
    with g.edit() as edit:
        edit.remove(spare)
    bench._receive(bench, {"kind": "tensor.sync", "id": 1}, [])
    assert bench.message == "", "the cell that removes it may still run"
    bench.refresh()
    assert bench.tensor == bench.selected == ""
    bench.to_html()


def test_a_variable_that_was_made_anew_or_renamed_is_measured_anew():
    g = gw.Graph()
    first = g.variable("w", (2,), init=1.0)
    g.variable("v", (2,), init=9.0)
    table = ParameterTable(g)
    table._receive(table, {"kind": "parameters.sync"}, [])

    def means():
        table.refresh()
        return {name: row["mean"] for name, row in table.parameter_numbers().items()}

    assert means() == {"w": 1.0, "v": 9.0}
    with g.edit() as edit:
        edit.remove(first)
    g.variable("w", (2,), init=5.0)
    assert means() == {"v": 9.0, "w": 5.0}
    for old, new in (("w", "other"), ("v", "w"), ("other", "v")):
        g.rename(old, new)
    assert means() == {"w": 9.0, "v": 5.0}


def test_a_page_of_a_check_whose_parameter_was_renamed(bench):
    bench.check(wait=True, max_per_param=2)
    bench.graph.rename("gain", "strength")
    bench.to_html()
    with pytest.raises(gw.errors.GradwrightError, match="'gain'"):
        bench.check_curve("gain", 0)
    with pytest.raises(gw.errors.GradwrightError, match="'strength'"):
        bench.check_curve("strength", 0)


def test_a_loss_that_was_renamed_is_still_the_loss():
    g = network()
    view = Workbench(g, loss="loss", feeds=data(4))
    g.rename("loss", "the loss")
    assert view.loss_tensor() is g["the loss"]
    assert view.check(wait=True, max_per_param=1).loss == "the loss"


def test_values_of_a_session_are_those_that_are_shown_and_checked():
    g = network()
    mine = g.values.snapshot()
    session = gw.Session(g, values=mine)
    bench = Workbench(g, gw.Trainer(g, "loss", session=session), data=data(), batch_size=8)
    bench.start()
    bench.wait()
    bench.show_tensor("hidden/w")
    assert np.abs(g.values["hidden/w"] - mine["hidden/w"]).max() > 0
    np.testing.assert_array_equal(bench.tensor_value(), mine["hidden/w"])
    report = bench.check(wait=True, max_per_param=0)
    np.testing.assert_array_equal(report.occasion.values["hidden/w"], mine["hidden/w"])


def test_a_tensor_view_that_cannot_be_made_stays_nowhere():
    import ipywidgets.widgets.widget as host

    before = set(host._instances)
    with pytest.raises(gw.errors.GraphError):
        TensorView(np.zeros(3), "[99]")
    made = [host._instances[key] for key in host._instances.keys() - before]
    assert not any(isinstance(held, TensorView) for held in made)


class _Elements(HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = set()

    def handle_starttag(self, tag, attributes):
        self.found.add(tag)
        assert not any(name.startswith("on") for name, _ in attributes)


NAMES = (
    EVIL, "</script><script>alert(1)//", "]]>", "&lt;b&gt;", "a" * 3000, '"quoted\\', "{braces}",
    "%s", "\N{LATIN SMALL LETTER A WITH DIAERESIS}\N{CJK UNIFIED IDEOGRAPH-6F22}\N{GRINNING FACE}",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_names_are_text_in_all_that_is_written(name, tmp_path):
    name = name.replace("/", "\N{FRACTION SLASH}")
    g = network(name)
    trainer = gw.Trainer(g, "loss", metrics={name: g["loss"]})
    bench = Workbench(g, trainer, data=data(), epochs=1, batch_size=8)
    bench.start()
    bench.wait()
    bench.append(1, {name: 1.0}, name=name)
    bench.check(wait=True, max_per_param=1)
    bench.stepper.watch(f't["{name}/w"]'.replace("\\", "\\\\")) if '"' not in name else None
    bench.stepper.run()
    bench.show_tensor(f"{name}/w")
    bench.set_overlay(name, {f"{name}/w": 1.0}, unit=name)
    bench._receive(bench, {"kind": "stepper.look", "tensor": name, "id": 1}, [])
    assert name[:40] in bench.message

    tables = _Elements()
    for panel in type(bench).__mro__:
        if "to_table" in vars(panel):
            tables.feed(panel.to_table(bench))
        if "to_svg" in vars(panel) and (picture := panel.to_svg(bench)):
            tags = {e.tag.rpartition("}")[2] for e in ElementTree.fromstring(picture).iter()}
            assert not tags & {"script", "img", "image", "foreignObject"}
    assert tables.found <= {"table", "thead", "tbody", "tr", "th", "td", "caption", "style", "div",
                            "p", "ul", "li", "span"}  # fmt: skip
    page = _Elements()
    page.feed(bench.to_html(tmp_path / "page.html"))
    assert page.found == {"html", "head", "meta", "title", "style", "body", "main", "script"}
    saved = re.search(r'id="saved">(.*?)</script>', bench.to_html(), re.DOTALL)[1]
    state = json.loads(saved, parse_constant=pytest.fail)["state"]
    assert f"{name}/w" in state["graph_spec"]["names"]
    assert bench.to_dot().count("\n") < 200 and bench.to_csv().count(name[:9]) >= 1
