"""Scenes: every panel in use, empty, busy and in error, as `screens` takes pictures of them."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import gradwright as gw
import gradwright_widgets as gww
from gradwright_widgets.panels.rollouts.measures import MEASURES
from tests.browser.shown import (
    Slow,
    adapted,
    broken,
    digits,
    nested,
    off,
    recorded,
    storyteller,
    tower,
    trained,
)
from tests.support.rollouts import adding, preferring, sums

TABS = ("train", "parameters", "step", "tensor", "check", "onnx", "runs")
PANEL, BENCH = (400, 720), (560, 1000, 1500)

Act = Callable[[Any], object]


class Scene(NamedTuple):
    """A widget, the widths to show it at, and what to do on its page before the picture."""

    name: str
    widget: Any
    widths: tuple[int, ...] = PANEL
    act: Act | None = None


OPENED = ["encoder", "encoder/block::", "loop::", "choose::"]


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
    yield Scene("graph_path", gww.GraphView(g), act=keys(".gw-stage", "/", *"matmul -> add"))
    yield Scene("graph_inspector", gww.GraphView(g, selected="hidden/matmul", inspector=True))
    yield Scene("graph_dtypes", gww.GraphView(g, color_by="dtype"))
    timed = gww.GraphView(g, trainer, loss="loss", selected="hidden/", inspector=True, height=560)
    timed.measure("time", wait=True)
    yield Scene("graph_time", timed)
    heat = gww.GraphView(g)
    heat.set_overlay("weights", {"hidden/w": 8192, "head/w": 1280, "hidden/b": 128}, scale="log")
    yield Scene("graph_overlay", heat)
    explained = gww.GraphView(
        nested(), loss="loss", feeds={"x": np.ones((3, 4), "f4")}, expanded=OPENED, height=760
    )
    explained.explain_gradient("encoder/w", wait=True)
    yield Scene("graph_large", gww.GraphView(tower(), expanded=["block_0", "block_0/mlp"]))
    yield Scene("graph_insides", gww.GraphView(nested(), expanded=OPENED, selected="loop::add"))
    yield Scene("graph_why", explained)
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
    watched = gww.GradCheckPanel(trainer.graph, trainer, watch_on=True)
    watched.gradient_watch.every = 1
    trainer.fit(train, epochs=2, batch_size=256, progress=False)
    yield Scene("check_watched", watched)


def sides() -> Iterator[Scene]:
    g = nested()
    feeds = {"x": np.random.default_rng(0).standard_normal((4, 4)).astype("f")}
    alone = gw.Graph("alone")
    alone.placeholder("x", (None, 3))
    yield Scene("compare_empty", gww.RuntimeComparison(alone), PANEL)
    yield Scene("compare_ready", gww.RuntimeComparison(g, feeds=feeds), PANEL)
    passed = gww.RuntimeComparison(g, feeds=feeds)
    passed.compare(wait=True)
    yield Scene("compare_passed", passed, (*PANEL, 1000))
    with off(gw.op.find_op("tanh")):
        bench = gww.Workbench(g, feeds=feeds, tab="onnx", expanded=OPENED)
        found = bench.compare_onnx(wait=True)
    wrong = gww.RuntimeComparison(g, comparison=found)
    yield Scene("compare_wrong", wrong, (*PANEL, 1000))
    yield Scene("bench_onnx_wrong", bench, BENCH, press("show"))
    failed = gww.RuntimeComparison(alone, feeds={"x": np.ones((1, 3))})
    with contextlib.suppress(gw.errors.GradwrightError):
        failed.compare(wait=True)
    yield Scene("compare_failed", failed)


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


def comparisons() -> Iterator[Scene]:
    yield Scene("runs_empty", gww.RunComparison(tempfile.mkdtemp()))
    store = recorded()
    yield Scene("runs_none_chosen", gww.RunComparison(store), BENCH)
    panel = gww.RunComparison(store, runs_sort="val_loss")
    panel.compare(*(row["key"] for row in panel.run_table()[:5]))
    yield Scene("runs", panel, (400, *BENCH[1:]))
    yield Scene("runs_settings", panel, (400, *BENCH[1:]), _tab("Settings"))


def texts() -> Iterator[Scene]:
    model = storyteller()
    yield Scene("text_empty", gww.TextPanel(model, text_prompt="the cat"), (*PANEL, 1000))
    written = gww.TextPanel(model, text_length=120, text_temperature=1.3, height=560)
    written.write("the cat sat", wait=True)
    written.why(30)
    written.look_at(30, 1)
    yield Scene("text_written", written, (*PANEL, 1000))
    yield Scene("text_attention", written, (*PANEL, 1000), _tab("Attention"))
    yield Scene("text_why", written, (*PANEL, 1000), _tab("Why"))
    scored = gww.TextPanel(model, text_mode="score", height=560)
    scored.score("the cat sat on the mat and the mat ran to the rat.")
    yield Scene("text_scored", scored, (*PANEL, 1000))
    stepped = gww.TextPanel(model, height=560)
    stepped.write("the cat sat", wait=True)
    stepped.step_to(14)
    yield Scene("text_stepped", stepped, PANEL)


def adapters() -> Iterator[Scene]:
    yield Scene("adapters_empty", gww.AdapterPanel(gw.Graph("empty")), PANEL)
    model, trainer, folder = adapted()
    tokens = model.tokenizer.encode("the cat sat on the mat and the rat ran. " * 4)
    batch = model.examples([tokens[:96]])
    panel = gww.AdapterPanel(model, trainer, folder=folder, height=620)
    for _ in range(60):
        trainer.step(batch)
        panel.measure_deltas()
    panel.measure_drift("story")
    other = gw.adapters.add(model, gw.adapters.LoRA(r=4), where="o", name="other")
    panel.switch_adapter(other.name, False)
    panel.measure_deltas()
    panel.adapter_place = ["story", "layer0/v"]
    yield Scene("adapters", panel, (*PANEL, 1000))
    panel.merge_adapter("story")
    yield Scene("adapters_merged", panel, PANEL, lambda page: page.click("summary"))
    bench = gww.Workbench(model.graph, trainer, tab="adapters", adapter_place=["story", "layer0/v"])
    yield Scene("bench_adapters", bench, BENCH)


def kernels() -> Iterator[Scene]:
    """A kernel that was generated, its cost, and nothing looked at yet."""
    g = gw.Graph("layer")
    y = gw.nn.softmax(gw.nn.gelu(g.placeholder("x", (37, 20)) * 0.5), name="p")
    feeds = {"x": np.random.default_rng(0).standard_normal((37, 20)).astype("f4")}
    yield Scene("kernels_empty", gww.KernelView(g, loss=y, feeds=feeds), PANEL)
    view = gww.KernelView(g, loss=y, feeds=feeds)
    view.look_into("p")
    view.kernel_cost()
    yield Scene("kernels_source", view, (*PANEL, 1000))
    yield Scene("kernels_cost", view, (1000,), _tab("Cost"))


def rollouts() -> Iterator[Scene]:
    """Yield a training by rewards whose policy has left its reference, and pairs."""
    yield Scene("rollouts_empty", gww.RolloutPanel(digits()[0]), PANEL)
    yield Scene("rollouts_begun", gww.RolloutPanel(adding()), PANEL)
    trainer = adding(max_completion_length=24)
    panel = gww.RolloutPanel(trainer, height=760, rollout_sort="best")
    trainer.fit(sums(8), batch_size=32, steps=90, progress=False)
    panel.weigh_reward("near", 2.0)
    panel.switch_reward("digits", False)
    trainer.fit(sums(8), batch_size=32, steps=4, progress=False)
    panel.rollout_sort = "spread"
    for measure in MEASURES:
        panel.rollout_measure = measure
        panel.look_at_token(0, 3)
        yield Scene(f"rollouts_{measure}", panel, (*PANEL, 1000, 1500))
    panel.step_to_token(0, 3)
    yield Scene("rollouts_step", panel, (1000,), _tab("Step"))
    bench = gww.Workbench(trainer.graph, trainer, tab="rollouts", height=760)
    yield Scene("bench_rollouts", bench, BENCH)


def preferences() -> Iterator[Scene]:
    yield Scene("pairs_empty", gww.PreferencePanel(), PANEL)
    trainer, data = preferring()
    panel = gww.PreferencePanel(lambda: gw.align.pairs_of(trainer, data), trainer)
    trainer.fit(data, batch_size=8, epochs=3, progress=False)
    panel.measure_pairs()
    panel.pairs_sort = "wrong"
    panel.look_at_pair(0, 3)
    yield Scene("pairs", panel, (*PANEL, 1000, 1500))


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
    sides,
    plots,
    trainers,
    methods,
    comparisons,
    texts,
    adapters,
    rollouts,
    kernels,
    preferences,
    benches,
)
