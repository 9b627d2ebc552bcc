"""Pictures of every panel: light and dark, wide and narrow, in use, empty, busy and in error.

    python -m tests.browser.screens [--readme] [part of a name ...]

They go to build/screens. Most are pages that need no kernel; what only a kernel shows (a training
that runs or pauses, a check under way, a busy cell) comes from one notebook in JupyterLab, as do
the two pictures of the README, which ``--readme`` writes to notebooks/images.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import sync_playwright
from sklearn.datasets import load_digits

import gradwright as gw
import gradwright_widgets as gww
from tests.browser.lab import FLAGS, Lab, Page, chromium

ROOT = Path(__file__).parents[2]
SCREENS, README = ROOT / "build/screens", ROOT / "notebooks/images"
TABS = ("train", "parameters", "step", "tensor", "check", "runs")
PANEL, BENCH = (400, 720), (560, 1000, 1500)

Act = Callable[[Any], object]


class Scene(NamedTuple):
    """A widget, the widths to show it at, and what to do on its page before the picture."""

    name: str
    widget: Any
    widths: tuple[int, ...] = PANEL
    act: Act | None = None


def digits() -> tuple[gw.Trainer, dict[str, Any], dict[str, Any]]:
    """Return the tour's network with its trainer, and data to train and to validate on."""
    images, labels = load_digits(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(images))
    train, test = rows[360:], rows[:360]
    g = gw.Graph("digits")
    x = g.placeholder("x", (None, 64))
    t = g.placeholder("t", (None,), dtype="int64")
    with g.scope("hidden"):
        w = g.variable("w", (64, 128), init=gw.init.he_normal(seed=0))
        b = g.variable("b", (128,))
        h = gw.nn.dropout(gw.nn.relu(x @ w + b), p=0.2)
    with g.scope("head"):
        w2 = g.variable("w", (128, 10), init=gw.init.xavier_uniform(seed=1))
        b2 = g.variable("b", (10,))
        logits = h @ w2 + b2
    gw.nn.softmax(logits, name="p")
    loss = gw.loss.sparse_softmax_cross_entropy(t, logits, name="loss")
    accuracy = gw.metrics.accuracy(t, logits)
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.Adam(2e-3), metrics={"accuracy": accuracy})
    pixels = (images / 16.0).astype("float32")
    return trainer, *({"x": pixels[part], "t": labels[part]} for part in (train, test))


def tower(blocks: int = 24) -> gw.Graph:
    """Return a deep network of nested scopes, more than fits on a screen."""
    g = gw.Graph("tower")
    h = g.placeholder("tokens", (None, 32))
    for k in range(blocks):
        with g.scope(f"block_{k}"):
            with g.scope("attention"):
                q = h @ g.variable("query", (32, 32), init=gw.init.he_normal(seed=k))
                h = gw.nn.softmax(q) * h + h
            with g.scope("mlp"):
                u = gw.nn.relu(h @ g.variable("up", (32, 64), init=gw.init.he_normal(seed=k)))
                h = h + u @ g.variable("down", (64, 32), init=gw.init.he_normal(seed=k))
    gw.mean(h, name="score")
    return g


class Square(gw.Op):
    """y = x², with a gradient that forgets the factor 2."""

    def infer(self, x):
        return x

    def forward(self, x):
        return x * x

    def vjp(self, gs, ys, xs):
        return (gs[0] * xs[0],)


gw.register("tour/square")(Square)


def broken() -> tuple[gw.Graph, dict[str, Any]]:
    """Return the tour's graph with a wrong op, and feeds."""
    g = gw.Graph("broken")
    a = g.placeholder("a", (None, 64))
    v = g.variable("v", (64, 5), init=gw.init.he_normal(seed=2))
    Square()(gw.nn.tanh(a @ v), name="energy").sum(name="total")
    return g, {"a": np.random.default_rng(0).random((4, 64), "float32")}


class Slow(gw.Callback):
    """Makes a training last long enough to be watched and sampled."""

    def on_step_end(self, trainer, record):
        time.sleep(0.004)


class Fails(gw.Callback):
    """Ends a training with an error."""

    def on_step_end(self, trainer, record):
        if record.step == 40:
            raise OSError("No space left on device: 'digits.gw'")


def trained() -> tuple[gw.Trainer, dict[str, Any], dict[str, Any]]:
    trainer, train, test = digits()
    trainer.fit(train, epochs=12, batch_size=64, validation=test, progress=False)
    return trainer, train, test


def press(label: str) -> Act:
    return lambda page: page.get_by_role("button", name=label).first.click()


def keys(place: str, *pressed: str) -> Act:
    def act(page: Any) -> None:
        page.locator(place).first.focus()
        for key in pressed:
            page.keyboard.press(key)

    return act


# -- scenes without a kernel -----------------------------------------------------------------------


def drawings() -> Iterator[Scene]:
    trainer, _, _ = trained()
    g = trainer.graph
    yield Scene("graph", gww.GraphView(g))
    yield Scene("graph_selected", gww.GraphView(g, selected="hidden/relu", paths="both"))
    yield Scene("graph_gradients", gww.GraphView(g, trainer, loss="loss", gradients=True))
    yield Scene("graph_menu", gww.GraphView(g), act=press("More"))
    yield Scene("graph_search", gww.GraphView(g), act=keys(".gw-stage", "/", "w"))
    yield Scene("graph_outline", gww.GraphView(g, selected="head/w"), act=press("outline"))
    yield Scene("graph_focus", gww.GraphView(g), act=keys(".gw-outline", "ArrowDown", "ArrowDown"))
    heat = gww.GraphView(g)
    heat.set_overlay("weights", {"hidden/w": 8192, "head/w": 1280, "hidden/b": 128}, scale="log")
    yield Scene("graph_overlay", heat)
    yield Scene("graph_large", gww.GraphView(tower(), expanded=["block_0", "block_0/mlp"]))
    yield Scene("graph_empty", gww.GraphView(gw.Graph("empty")))
    yield Scene("graph_error", _complaining(gww.GraphView(g)))


def _complaining(widget: Any) -> Any:
    widget.guarded(lambda: widget.graph["hidden/v"])
    return widget


def steppers() -> Iterator[Scene]:
    trainer, train, _ = trained()
    g, feeds = trainer.graph, {name: rows[:8] for name, rows in train.items()}
    empty = gw.Graph("empty")
    empty.placeholder("x", (None, 3))
    yield Scene("stepper_empty", gww.StepperPanel(empty, height=520))
    panel = gww.StepperPanel(g, loss="loss", feeds=feeds, height=520)
    panel.run_to("hidden/relu")
    yield Scene("stepper_forward", panel)
    panel.break_at("loss")
    panel.watch('norm(t["hidden/relu"])')
    panel.watch('t["loss"]')
    panel.run()
    yield Scene("stepper_breakpoints", panel, act=_tab("Breakpoints"))
    yield Scene("stepper_watches", panel, act=_tab("Watches"))
    panel.into_gradient("hidden/relu")
    yield Scene("stepper_gradient", panel)
    bad = gw.Graph("bad")
    q = bad.placeholder("q", (3,))
    end = (gw.sqrt(q - 1.0, name="root") * 2.0).sum(name="end")
    nans = gww.StepperPanel(bad, loss=end, feeds={"q": [1.0, 0.5, 4.0]}, height=520)
    with np.errstate(invalid="ignore"):
        nans.find_nonfinite()
    yield Scene("stepper_nan", nans)
    edited = gww.StepperPanel(g, loss="loss", feeds=feeds, height=520)
    edited.run_to("loss")
    edited.step()
    edited.edit("hidden/b", np.full(128, -100.0))
    edited.rerun()
    yield Scene("stepper_edited", edited)


def _tab(name: str) -> Act:
    return lambda page: page.get_by_role("tab", name=name).click()


def tensors() -> Iterator[Scene]:
    trainer, _, _ = trained()
    g = trainer.graph
    yield Scene("tensor_weights", gww.TensorView(g["hidden/w"], height=480))
    first = g.values["hidden/w"].T[:8].reshape(8, 8, 8)
    yield Scene("tensor_cube", gww.TensorView(first, name="eight hidden units", height=480))
    part = gww.TensorView(g.values["head/w"][:12], "[:, :6]", name="head/w, a part", height=480)
    yield Scene("tensor_numbers", part, act=press("numbers"))
    yield Scene("tensor_scalar", gww.TensorView(np.float32(0.0347), name="loss", height=480))
    holes = first[0].copy()
    holes[1, 2], holes[4, 4], holes[6, 1] = np.nan, np.inf, -np.inf
    yield Scene("tensor_nonfinite", gww.TensorView(holes, name="with holes", height=480))
    yield Scene("tensor_computed", gww.TensorView(g["hidden/relu"], height=480))


def tables() -> Iterator[Scene]:
    fresh, _, _ = digits()
    yield Scene("parameters_untrained", gww.ParameterTable(fresh.graph, fresh))
    trainer, train, _ = digits()
    trainer.add_callback(Slow())
    table = gww.ParameterTable(trainer.graph, trainer)
    trainer.fit(train, epochs=6, batch_size=64, progress=False)
    table.freeze("hidden/w")
    table.selected = "head/w"
    yield Scene("parameters", table)
    yield Scene("parameters_columns", table, act=press("columns"))
    yield Scene("parameters_grouped", gww.ParameterTable(tower()))
    yield Scene("parameters_empty", gww.ParameterTable(gw.Graph("empty")))


def checks() -> Iterator[Scene]:
    trainer, train, _ = trained()
    g, feeds = trainer.graph, {name: rows[:4] for name, rows in train.items()}
    alone = gw.Graph("alone")
    alone.placeholder("x", (None, 3))
    yield Scene("check_empty", gww.GradCheckPanel(alone))
    yield Scene("check_ready", gww.GradCheckPanel(g, loss="loss", feeds=feeds))
    passed = gww.GradCheckPanel(g, loss="loss", feeds=feeds, height=520)
    passed.check(max_per_param=60, wait=True)
    yield Scene("check_passed", passed)
    yield Scene("check_detail", passed, (*PANEL, 1000), lambda page: page.click("text=head/b"))
    suspect, rows = broken()
    wrong = gww.GradCheckPanel(suspect, loss="total", feeds=rows)
    wrong.check(wait=True)
    yield Scene("check_wrong", wrong)


def plots() -> Iterator[Scene]:
    yield Scene("plot_empty", gww.LivePlot())
    trainer, _, _ = trained()
    plot = gww.LivePlot()
    plot.show(trainer.history)
    yield Scene("plot", plot)
    yield Scene("plot_menu", plot, act=press("Choose curves"))
    logged = gww.LivePlot(log_scale=True, smoothing=0.9)
    logged.show(trainer.history)
    yield Scene("plot_log", logged)
    yield Scene("plot_crosshair", plot, act=keys(".gw-plot-stage", "Home", *["ArrowRight"] * 150))


def trainers() -> Iterator[Scene]:
    fresh, train, test = digits()
    yield Scene("trainer_no_data", gww.TrainerPanel(fresh))
    yield Scene("trainer_idle", gww.TrainerPanel(fresh, train, test, epochs=2000))
    done, train, test = trained()
    panel = gww.TrainerPanel(done, train, test, epochs=2000, batch_size=64)
    yield Scene("trainer_finished", panel)


def methods() -> Iterator[Scene]:
    """Yield a trainer with all that may be on, and what it writes."""
    plain, train, test = digits()
    folder = Path(tempfile.mkdtemp())
    trainer = gw.Trainer(
        plain.graph,
        "loss",
        optimizer=gw.optim.Adam(gw.schedules.Cosine(4e-3, steps=300, warmup=30)),
        accumulation=4,
        precision="float16",
        loss_scale=gw.LossScale(initial=2.0**40),
        nonfinite="skip",
        clip_norm=1.0,
        ema=gw.EMA(0.99),
        callbacks=[gw.Checkpoints(folder, keep_last=5, keep_best=1)],
    )
    panel = gww.TrainerPanel(trainer, train, test, epochs=20, batch_size=64, height=640)
    with np.errstate(all="ignore"):
        trainer.fit(train, epochs=12, batch_size=64, validation=test, progress=False)
    (folder / "step-000000001.gw").write_bytes(b"half of a checkpoint")
    panel.refresh_checkpoints()
    yield Scene("trainer_methods", panel)
    yield Scene("trainer_checkpoints", panel, act=_tab("Checkpoints"))
    panel.schedule_open = True
    panel.metrics = ["loss", "loss_scale"]
    panel.log_scale = True
    yield Scene("trainer_schedule", panel, act=keys(".gw-schedule-stage", "End", "ArrowLeft"))


def recorded() -> gw.train.Store:
    """Return runs of several settings, some with names that nobody would choose."""
    store = gw.train.Store(tempfile.mkdtemp())
    names = ("baseline", "wide & fast", "sgd", "sgd", "<img src=x onerror=alert(1)>", "step")
    for k, name in enumerate(names):
        plain, train, test = digits()
        g = plain.graph
        kind = gw.optim.SGD if name == "sgd" else gw.optim.Adam
        trainer = gw.Trainer(
            g,
            "loss",
            optimizer=kind((0.1 if name == "sgd" else 1e-3) * (1 + k)),
            metrics={"accuracy": gw.metrics.accuracy(g["t"], g["p"])},
            callbacks=[gw.Run(name=name, tags=["digits", kind.__name__], store=store)],
        )
        trainer.fit(train, epochs=6 + k, batch_size=64, validation=test, progress=False)
    return store


def comparisons() -> Iterator[Scene]:
    yield Scene("runs_empty", gww.RunComparison(tempfile.mkdtemp()))
    store = recorded()
    yield Scene("runs_none_chosen", gww.RunComparison(store), BENCH)
    panel = gww.RunComparison(store, runs_sort="val_loss")
    panel.compare(*(row["key"] for row in panel.run_table()[:5]))
    yield Scene("runs", panel, (400, *BENCH[1:]))
    yield Scene("runs_settings", panel, (400, *BENCH[1:]), _tab("Settings"))


def benches() -> Iterator[Scene]:
    trainer, train, test = digits()
    trainer.add_callback(Slow())
    bench = gww.Workbench(trainer.graph, trainer, data=train, validation=test, epochs=12)
    trainer.fit(train, epochs=12, batch_size=64, validation=test, progress=False)
    bench.stepper.run_to("hidden/relu")
    bench.check(max_per_param=20, wait=True)
    bench.selected = "hidden/w"
    for tab in TABS:
        bench.tab = tab
        yield Scene(f"bench_{tab}", bench, BENCH)
    suspect, rows = broken()
    blamed = gww.Workbench(suspect, loss="total", feeds=rows, tab="check", height=460)
    blamed.check(wait=True)
    yield Scene("bench_blame", blamed, BENCH)
    bare = gw.Graph("bare")
    bare.placeholder("x", (None, 3))
    empty = gww.Workbench(bare)
    for tab in TABS:
        empty.tab = tab
        yield Scene(f"bench_empty_{tab}", empty, (1000,))


SCENES = (
    drawings,
    steppers,
    tensors,
    tables,
    checks,
    plots,
    trainers,
    methods,
    comparisons,
    benches,
)


def take_pages(browser: Any, wanted: Callable[[str], bool], folder: Path) -> None:
    """Save every scene as a page and take its pictures."""
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(3000)
    page.on("pageerror", lambda error: print("  !!", error))
    for scenes in SCENES:
        for name, widget, widths, act in scenes():
            if not wanted(name):
                continue
            path = folder / f"{name}.html"
            widget.to_html(path)
            page.set_viewport_size({"width": widths[-1] + 48, "height": 1300})
            page.goto(path.as_uri())
            page.locator(".gw").wait_for()
            page.wait_for_timeout(400)
            try:
                act and act(page)
            except PlaywrightError as error:
                print(f"  !! {name}: {error}")
            for width in widths:
                page.set_viewport_size({"width": width + 48, "height": 1300})
                for theme in ("light", "dark"):
                    page.emulate_media(color_scheme=theme)
                    page.wait_for_timeout(300)
                    snap(page.locator(".gw"), f"{name}_{width}_{theme}")
    context.close()


def snap(place: Any, name: str) -> None:
    path = SCREENS / f"{name}.png"
    place.screenshot(path=path)
    print(path.relative_to(ROOT))


# -- scenes with a kernel --------------------------------------------------------------------------


def tour(part: str) -> str:
    """Return the code cell of the tour that has this in it."""
    cells = json.loads((ROOT / "notebooks/00_tour.ipynb").read_text("utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    return next(source for source in sources if part in source)


CELLS = {
    "begin": f"""
import sys, time
sys.path.insert(0, {str(ROOT)!r})
import gradwright as gw
import gradwright_widgets as gww
from tests.browser import screens
""",
    "trainer": """
trainer, train, test = screens.digits()
trainer.add_callback(screens.Slow())
gww.TrainerPanel(trainer, train, test, epochs=2000, batch_size=64)
""",
    "trainer_failed": """
failing, train, test = screens.digits()
failing.add_callback(screens.Fails())
failed = gww.TrainerPanel(failing, train, test, epochs=3, batch_size=64)
failed.start(); failed.wait()
failed
""",
    "check": """
checked, train, test = screens.digits()
feeds = {name: rows[:512] for name, rows in train.items()}
gww.GradCheckPanel(checked.graph, loss="loss", feeds=feeds, check_limit=None)
""",
    "stepper": """
edited = gww.StepperPanel(checked.graph, loss="loss", feeds=feeds, height=520)
edited.run_to("loss"); edited.step()
edited.edit("hidden/b", -1.0 - edited.stepper.value("hidden/b")); edited.rerun()
edited
""",
    "tensor": """
unit = checked.graph.values["hidden/w"].T[:8].reshape(8, 8, 8)
gww.TensorView(unit, name="eight hidden units", height=480)
""",
    "empty": """
bare = gw.Graph("bare")
bare.placeholder("x", (None, 3))
gww.Workbench(bare, height=480)
""",
    "data": tour("load_digits"),
    "graph": tour('gw.Graph("digits")'),
    "how": tour("trainer = gw.Trainer("),
    "bench": tour("bench = Workbench("),
    "drive": """
bench.start(); bench.wait()
bench.height = 700
bench.gradients = True
bench.tab = "step"
bench.stepper.run_to("hidden/relu")
bench.selected = "hidden/relu"
""",
    "blame": tour('"tour/square"'),
    "busy": "time.sleep(8)",
}


class Notebook:
    """A notebook in JupyterLab with a cell for each state that needs a kernel."""

    def __init__(self, page: Page) -> None:
        page.lab.write_notebook("screens.ipynb", list(CELLS.values()))
        page.open_notebook("screens.ipynb")
        self.page, self.view = page, page.page
        page.command("application:toggle-left-area")
        page.run_cell(0)

    def run(self, cell: str) -> int:
        """Run a cell and return its number."""
        number = list(CELLS).index(cell)
        self.page.run_cell(number)
        return number

    def show(self, cell: str) -> Any:
        """Run a cell and return its widget."""
        widget = self.view.locator(".jp-Notebook .jp-Cell").nth(self.run(cell)).locator(".gw")
        widget.wait_for()
        return widget

    def snap(self, widget: Any, name: str, widths: tuple[int, ...]) -> None:
        for theme in ("Light", "Dark"):
            self.page.set_theme(f"JupyterLab {theme}")
            for width in widths:
                widget.evaluate("(e, w) => (e.parentElement.style.width = `${w}px`)", width)
                widget.evaluate("e => e.scrollIntoView({block: 'start'})")
                self.view.mouse.move(3, 3)
                self.view.wait_for_timeout(700)
                snap(widget, f"lab_{name}_{width}_{theme.lower()}")


def take_notebook(browser: Any, wanted: Callable[[str], bool], folder: Path, readme: bool) -> None:
    """Run the notebook and take the pictures that need a kernel."""
    lab = Lab(folder / "lab")
    context = browser.new_context(viewport={"width": 1640, "height": 1000})
    try:
        lab.start()
        page = Page(context, lab)
        kernels = "@jupyterlab/apputils-extension:kernels-settings"
        with page.setting(kernels, commsOverSubshells="disabled"):  # so that a cell makes it deaf
            notebook = Notebook(page)
        if wanted("lab_trainer"):
            widget = notebook.show("trainer")
            widget.get_by_role("button", name="Start", exact=True).click()
            widget.locator('.gw-train[data-state="running"]').wait_for()
            notebook.snap(widget, "trainer_running", PANEL)
            widget.get_by_role("button", name="Pause", exact=True).click()
            widget.locator('.gw-train[data-state="paused"]').wait_for()
            notebook.snap(widget, "trainer_paused", PANEL)
            notebook.snap(notebook.show("trainer_failed"), "trainer_failed", PANEL)
        if wanted("lab_check"):
            widget = notebook.show("check")
            widget.get_by_role("button", name="Check", exact=True).click()
            widget.get_by_role("button", name="Stop", exact=True).wait_for()
            notebook.snap(widget, "check_running", PANEL)
            widget.get_by_role("button", name="Stop", exact=True).click()
            notebook.snap(widget, "check_stopped", PANEL[:1])
            notebook.snap(notebook.show("stepper"), "stepper_edited", PANEL)
            widget = notebook.show("tensor")
            widget.get_by_label("Slice", exact=True).fill("[9]")
            widget.get_by_label("Slice", exact=True).press("Enter")
            notebook.snap(widget, "tensor_bad_slice", PANEL)
            notebook.snap(notebook.show("empty"), "bench_empty", (1000,))
        if wanted("lab_bench"):
            for cell in ("data", "graph", "how"):
                notebook.run(cell)
            widget = notebook.show("bench")
            widget.locator(".gw-graph[data-ready]").wait_for()
            notebook.run("drive")
            notebook.snap(widget, "bench", (1300, *BENCH))
            widget.get_by_role("tab", name="Train", exact=True).click()
            page.start_cell(list(CELLS).index("busy"))
            widget.get_by_role("button", name="Step", exact=True).click()
            widget.locator(".gw-notice:not([hidden])").wait_for()
            notebook.snap(widget, "bench_busy", (1000,))
        if wanted("lab_blame"):
            widget = notebook.show("blame")
            widget.locator(".gw-graph[data-ready]").wait_for()
            notebook.snap(widget, "blame", (1000,))
        if readme:
            for name, width in (("bench", 1300), ("blame", 1000)):
                picture = SCREENS / f"lab_{name}_{width}_light.png"
                kept = README / {"bench": "workbench.png", "blame": "blame.png"}[name]
                kept.write_bytes(picture.read_bytes())
        print("errors on the page:", page.errors or "none")
    finally:
        context.close()
        lab.stop()


def main(*args: str) -> None:
    parts = [arg for arg in args if not arg.startswith("--")]
    readme = "--readme" in args
    SCREENS.mkdir(parents=True, exist_ok=True)

    def wanted(name: str) -> bool:
        return not parts or any(part in name or name in part for part in parts)

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        take_pages(browser, wanted, Path(folder))
        if not parts or any("lab" in part for part in parts):
            take_notebook(browser, wanted, Path(folder), readme)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
