"""Panels, their desk and their host: what a widget has of them, and what they do out of sight."""

from __future__ import annotations

import graphlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import traitlets

import gradwright as gw
import gradwright_widgets as gww
from gradwright_widgets import contract
from gradwright_widgets.host import desk
from gradwright_widgets.host.base import BaseWidget
from gradwright_widgets.host.desk import Desk
from gradwright_widgets.host.host import Host
from gradwright_widgets.host.panel import Panel
from gradwright_widgets.host.part import checks, handles, shared, watches
from gradwright_widgets.panels.parameters.panel import ParameterPanel
from gradwright_widgets.panels.stepper import facts
from tests.support.panels import sent
from tests.test_layers import imports
from tests.widgets import benches
from tests.widgets.benches import data

bench = pytest.fixture(benches.bench)
PACKAGE = Path(gww.__file__).parent
PANELS = Path(__file__).parents[2] / "widgets/frontend/src/panels"
ROOMS = ["drawing", "host", "still", "panels", "workbench", "contract", "bridge", "server"]
SHOWS = {
    "ops": {"graph"},
    "runs": {"parameters", "plot"},
    "stepper": {"graph", "tensor"},
    "text": {"stepper"},
    "rollouts": {"stepper"},
    "training": {"plot"},
}
"""Panel -> panels that it has inside of it, or whose parts it uses."""


class CountPanel(Panel):
    """A panel of a count."""

    name = "count"
    count = shared(traitlets.Int(0))
    told = shared(traitlets.Unicode(""), late=True)

    def __init__(self, desk: Desk, *, step: int = 1) -> None:
        super().__init__(desk)
        self.step, self.looks = step, 0
        desk.on("edited", lambda: self.when_shown(self._look))

    @handles("more")
    def more(self, content=None):
        """Count on."""
        self.count += self.step

    @property
    def double(self):
        """Twice the count."""
        return 2 * self.count

    @checks("count")
    def _check(self, value):
        if value > 9:
            raise gw.errors.GraphError("too many")
        return value

    @watches("count")
    def _changed(self):
        self.desk.tell("edited")

    def _look(self):
        self.looks += 1
        self.told = f"{self.count}"


class Counter(Host):
    module = "live_plot"
    panels = (CountPanel,)
    desk_type = Desk
    hidden = False

    def shows(self, part):
        return not self.hidden


def test_what_a_panel_declares_its_widget_has(monkeypatch):
    widget = Counter(step=2, count=1)
    assert (widget.count, widget.told, widget.double) == (1, "1", 2)
    messages = sent(widget, monkeypatch)
    widget._receive(widget, {"kind": "count.more", "id": 5}, [])
    widget.more()
    assert (widget.count, Counter.more.__doc__) == (5, "Count on.")
    assert [content["kind"] for content, _ in messages] == ["heard", "done"]
    with pytest.raises(gw.errors.GraphError, match="too many"):
        widget.count = 10
    assert widget.count == 5 and "count" in widget.keys and "step" not in widget.traits()
    with pytest.raises(TypeError, match="no option 'stepp'; did you mean 'step'"):
        Counter(stepp=3)


def test_widgets_of_the_same_panel_share_nothing():
    one, other = Counter(step=2), Counter()
    one.more()
    assert (one.count, other.count) == (2, 0)
    assert Counter.count is not CountPanel.traits["count"].trait


def test_two_panels_cannot_have_one_name():
    class Other(Panel):
        name = "other"
        count = shared(traitlets.Int(0))

    with pytest.raises(TypeError, match="'count' is of Other and CountPanel"):

        class Both(Host):
            panels = (CountPanel, Other)


def test_out_of_sight_a_panel_puts_off_what_it_computes():
    widget = Counter()
    panel = widget.part(CountPanel)
    widget.hidden = True
    for _ in range(3):
        widget.count += 1
    assert panel.looks == 0
    assert widget.told == "3" and panel.looks == 1, "who reads brings it up to date"
    widget.count += 1
    widget.hidden = False
    assert panel.looks == 1
    assert widget.part(CountPanel).looks == 2 and panel.looks == 2


def test_a_desk_tells_all_and_answers_once():
    table, heard = Counter().desk, []
    table.on("value", lambda name: heard.append(name))
    table.on("value", lambda name: name.upper())
    table.on("value", lambda name: "too late")
    table.tell("value", name="a")
    assert table.ask("value", name="b") == "B" and heard == ["a", "b"]
    assert table.ask("planned") is None
    assert table.hears("value") and not table.hears("planned")


def test_a_workbench_has_three_classes_of_ours():
    ours = [cls for cls in gww.Workbench.__mro__ if cls.__module__.startswith("gradwright")]
    assert ours == [gww.Workbench, Host, BaseWidget]


# -- the workbench ---------------------------------------------------------------------------------


def test_a_selection_is_followed_when_the_stepper_is_shown(bench, monkeypatch):
    bench.stepper.run_to("loss")
    looks, real = [], facts.focus_facts
    monkeypatch.setattr(facts, "focus_facts", lambda *a: looks.append(a) or real(*a))
    for name in ("hidden/relu", "gain", "hidden/matmul"):
        bench.selected = name
    assert bench.tab == "train" and not looks
    bench.tab = "step"
    assert len(looks) == 1 and looks[0][1].name == "hidden/matmul"
    bench.selected = "hidden/relu"
    assert len(looks) == 2 and bench.stepping["focus"]["name"] == "hidden/relu"


def test_code_reads_what_is_selected_of_a_hidden_panel(bench):
    bench.stepper.run_to("loss")
    bench.selected = "gain"
    assert (bench.tab, bench.tensor) == ("train", "gain")
    bench.selected = "hidden/w"
    assert bench.tensor_value().shape == (4, 3)
    bench.selected = "hidden/relu"
    assert bench.stepping["focus"]["name"] == "hidden/relu"


def test_a_hidden_table_sends_nothing_while_a_training_runs(bench, monkeypatch):
    bench._receive(bench, {"kind": "parameters.sync"}, [])
    panel = bench.part(ParameterPanel)
    monkeypatch.setattr(panel._statistics_pace, "request", panel._send_statistics)
    messages = sent(bench, monkeypatch)
    bench.trainer.fit(data(), batch_size=8, progress=False)
    bench.refresh()
    assert not [c for c, _ in messages if c["kind"].startswith("parameters")]
    bench.tab = "parameters"
    assert [c for c, _ in messages if c["kind"] == "parameters.statistics"]


def test_a_saved_page_has_what_was_put_off(bench):
    bench.stepper.run_to("loss")
    bench.selected = "gain"
    assert '"tensor": "gain"' in bench.to_html()


# -- rooms -----------------------------------------------------------------------------------------


def files() -> Iterator[tuple[str, list[str]]]:
    """Yield each module of the package, and those of the package that it imports."""
    for path in PACKAGE.rglob("*.py"):
        inside = path.relative_to(PACKAGE).with_suffix("").parts
        package = ".".join(("gradwright_widgets", *inside[:-1]))
        found = imports(path.read_text("utf-8"), path.name, package)
        names = [i.module.removeprefix("gradwright_widgets.") for i in found
                 if i.module.startswith("gradwright_widgets.") and not i.for_types]  # fmt: skip
        if inside[-1] != "__init__":
            yield ".".join(inside), [known(name) for name in names]


def known(name: str) -> str:
    """Return the module of an import, which may name something inside of one."""
    path = PACKAGE.joinpath(*name.split("."))
    return name if path.with_suffix(".py").is_file() else name.rpartition(".")[0]


def allowed(here: str, there: str) -> bool:
    """Tell whether a module may import another.

    >>> allowed("panels.plot.panel", "host.desk"), allowed("host.desk", "panels.plot.panel")
    (True, False)
    """
    mine, other = (ROOMS.index(name.partition(".")[0]) for name in (here, there))
    if here.startswith("panels.") and there.startswith("panels."):
        panel, used = here.split(".")[1], there.split(".")[1]
        return used == panel or used in SHOWS.get(panel, ())
    return other <= mine


def test_rooms_and_panels_import_downwards_and_in_no_circle():
    found = dict(files())
    wrong = [f"{a} imports {b}" for a, imported in found.items() for b in imported
             if not allowed(a, b)]  # fmt: skip
    assert not wrong and len(found) > 40
    graphlib.TopologicalSorter(found).prepare()


def test_a_panel_is_a_folder_on_each_side():
    here = {path.parent.name for path in (PACKAGE / "panels").glob("*/panel.py")}
    there = {path.parent.name for path in PANELS.glob("*/panel.ts")}
    assert here - there == {"ops"}, "made of widgets that the notebook has"
    assert there <= here


def test_the_contract_is_what_python_declares():
    assert contract.PATH.read_text("utf-8") == contract.contract(), (
        "python -m gradwright_widgets.contract"
    )


def test_every_name_of_the_face_is_in_its_room():
    for name in gww.__all__:
        assert getattr(gww, name).__name__ == name and name in dir(gww)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        gww.Nothing  # noqa: B018


def test_the_package_alone_loads_no_widgets():
    script = "import sys, gradwright_widgets; print(*{n.split('.')[0] for n in sys.modules})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert not {"ipywidgets", "anywidget", "traitlets", "numpy"} & set(done.stdout.split())


def test_every_panel_stands_at_the_desk_that_it_needs():
    for name in gww.__all__:
        host = getattr(gww, name)
        for panel in getattr(host, "panels", ()):
            needed = getattr(desk, panel.__annotations__.get("desk", "Desk"))
            assert issubclass(host.desk_type, needed), (name, panel)
