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
from gradwright_widgets import TensorView, Workbench
from gradwright_widgets.panels.check.panel import CheckPanel
from gradwright_widgets.panels.stepper.panel import StepPanel
from tests.support.panels import EVIL
from tests.support.sweeps import spread
from tests.widgets import benches
from tests.widgets.benches import data, network, state

bench = pytest.fixture(benches.bench)

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
    *({"kind": f"training.{verb}"} for verb in ("pause", "resume", "stop")),
    {"kind": "desk.hear"},
    {"kind": "desk.output", "name": "loss"},
    {"kind": "desk.undo"},
    {"kind": "rate.set", "value": 0.1},
    {"kind": "training.evaluate", "weights": "ema"},
    *({"kind": f"{panel}.sync"} for panel in ("plot", "parameters", "stepper", "tensor", "check")),
    *({"kind": f"{panel}.sync"} for panel in ("rate", "runs", "watch", "compare")),
    {"kind": "graph.adapter", "name": "default", "on": False},
    *({"kind": f"adapters.{verb}"} for verb in ("sync", "look")),
    *({"kind": f"adapters.{verb}", "name": "x"} for verb in ("merge", "unmerge", "drift")),
    {"kind": "adapters.switch", "name": "default", "on": False},
    {"kind": "adapters.weigh", "name": "default", "weight": 0.5},
    {"kind": "adapters.load", "at": 0},
    *({"kind": f"rollouts.{verb}"} for verb in ("pause", "resume", "tensor")),
    {"kind": "rollouts.sync", "module": True},
    *({"kind": f"rollouts.{verb}", "row": 0, "place": 3} for verb in ("look", "step")),
    {"kind": "rollouts.weigh", "name": "exact", "weight": 0.5},
    {"kind": "rollouts.switch", "name": "exact", "on": False},
    {"kind": "kernels.sync", "module": True},
    {"kind": "kernels.program", "program": 0},
    {"kind": "kernels.users", "argument": 0, "element": 0},
    {"kind": "kernels.value", "line": 0, "name": "x_ptr"},
    {"kind": "kernels.cost", "chip": 90},
    {"kind": "why.ask", "name": "hidden/w"},
    {"kind": "why.clear"},
    {"kind": "inspector.sync"},
    {"kind": "inspector.look"},
    {"kind": "inspector.code", "name": "hidden/"},
    {"kind": "colors.measure", "by": "zero"},
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
    {"kind": "compare.stop"},
    {"kind": "check.map", "name": "hidden/w"},
    {"kind": "check.curve", "index": [0, 0], "name": "hidden/w", "part": "real"},
]
LONG = {
    "training.start",
    "training.step",
    "check.start",
    "compare.start",
    "kernels.look",
}  # they take no facts


def variations(message, wrongs):
    """Give the message, without each of its keys, and with each of them wrong in every way."""
    yield message
    for key in message.keys() - {"kind"}:
        yield {k: v for k, v in message.items() if k != key}
        yield from ({**message, key: wrong} for wrong in wrongs)


def test_every_handler_is_tried(bench):
    assert {m["kind"] for m in MESSAGES} | LONG == set(bench._handlers)


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
    wrongs = HOSTILE if where == "stepped" else spread(HOSTILE, 12)
    for message in MESSAGES:
        for sent in variations(message, wrongs):
            try:
                bench._receive(bench, sent, [])
            except Exception:
                pytest.fail(f"{sent}\n{traceback.format_exc()}")
            bench.part(StepPanel).walk.stop()
            bench.part(StepPanel).walk.join()
            assert not re.search(r"^\w*(Error|Exception): ", bench.message), (sent, bench.message)
        state(bench)
    for work in bench._works:  # a curve that was asked for may still be on its way to its error
        work.join(30)
    assert not lost
    assert [node.name for node in bench.graph.nodes] == names
    for t in bench.graph.variables:
        np.testing.assert_array_equal(bench.graph.values[t.name], before[t.name])
    bench.unfreeze()
    bench._receive(bench, {"kind": "rate.set", "value": 0.1, "id": 1}, [])
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
    bench.part(CheckPanel)._check_work.join()
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
    for panel in map(bench.part, bench.panels):
        tables.feed(panel.to_table())
        if picture := panel.to_svg():
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
