"""What threads of ``tests.stress`` do: each action holds what it gets against numpy."""

from __future__ import annotations

import gc
import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import gradwright as gw

try:
    import onnx  # noqa: F401
except ImportError:
    HAS_ONNX = False
else:
    HAS_ONNX = True
try:
    import gradwright_widgets as gww

    gww.LivePlot().close()
except (ImportError, FileNotFoundError):  # not installed, or its JavaScript is not made yet
    HAS_WIDGETS = False
else:
    HAS_WIDGETS = True

Action = Callable[["World", np.random.Generator], None]
ACTIONS: list[Action] = []
_serial = itertools.count()


def action(do: Action) -> Action:
    """Register what a thread may do."""
    ACTIONS.append(do)
    return do


class World:
    """What all threads share: a graph with weights and a counter, its session, and a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        rng = np.random.default_rng(0)
        self.w = rng.standard_normal((8, 8)).astype(np.float32)
        self.graph = g = gw.Graph("shared")
        x = g.placeholder("x", ("B", 8))
        w = g.variable("w", (8, 8), init=self.w)
        self.count = g.variable("count", (), dtype="int64", init=0)
        self.counted = self.count + 1
        gw.tanh(x @ w, name="y")
        gw.nn.softmax(gw.exp(x * 0.1) @ w, name="p")
        gw.sum(gw.boolean_mask(x, x > 0.0) ** 2, name="positive")  # of a size that values decide
        self.last = gw.scan(lambda c, r: (c * 0.5 + r, c), np.zeros(8, np.float32), x)[0]
        self.session = gw.Session(g, max_plans=5)
        self.store = gw.train.Store(folder / "runs")
        self.runs = 0
        self.lock = threading.Lock()

    def expected(self, name: str, x: np.ndarray[Any, Any]) -> Any:
        """Return in float64 what a tensor of the graph is."""
        x, w = x.astype(float), self.w.astype(float)
        if name == "y":
            return np.tanh(x @ w)
        if name == "positive":
            return (x[x > 0] ** 2).sum()
        if name == "p":
            e = np.exp(np.exp(x * 0.1) @ w)
            return e / e.sum(-1, keepdims=True)
        carry = np.zeros(8)
        for row in x:
            carry = carry * 0.5 + row
        return carry


def close(found: Any, expected: Any) -> None:
    """Refuse a value that is off by more than float32 rounds."""
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=2e-5)


def rows(rng: np.random.Generator) -> np.ndarray[Any, Any]:
    return rng.standard_normal((int(rng.integers(1, 12)), 8)).astype(np.float32)


# -- what all share -------------------------------------------------------------------------------


@action
def run_shared(world: World, rng: np.random.Generator) -> None:
    """Run the shared session on another shape, and count the runs in a variable."""
    name = str(rng.choice(["y", "p", "positive", "last"]))
    fetched = world.last if name == "last" else name
    for _ in range(int(rng.integers(1, 6))):
        x = rows(rng)
        found = world.session.run(fetched, {"x": x}, {world.count: world.counted})
        with world.lock:
            world.runs += 1
        close(found, world.expected(name, x))


@action
def run_beside(world: World, rng: np.random.Generator) -> None:
    """Run the loop of the shared graph in a session of one's own, and a traced function."""
    manager = str(rng.choice(["arena", "caching", "none"]))
    with gw.Session(world.graph, memory=manager) as session:
        for _ in range(int(rng.integers(1, 5))):
            x = rows(rng)
            close(session.run(world.last, {"x": x}), world.expected("last", x))
    close(traced(x), np.tanh(x) * 2 + x.sum(0))


@gw.compile
def traced(x: Any) -> Any:
    return np.tanh(x) * 2 + np.sum(x, axis=0)


@action
def look_at_shared(world: World, rng: np.random.Generator) -> None:
    """Read all that says something of plans, kernels and values while others change them."""
    for plan in world.session.plans:
        str(plan.kernels), str(plan.memory()), plan.buffers(), repr(plan)
        for row in plan.kernels.rows:
            row.llvm  # noqa: B018
    str(world.session.memory), str(world.session.timing)
    assert isinstance(world.session.tuning["choices"], dict)
    repr(world.session), repr(world.graph.values), world.graph.summary(), world.graph.nodes
    assert world.graph.values.snapshot()["w"].shape == (8, 8)


@action
def release_shared(world: World, rng: np.random.Generator) -> None:
    """Let the memory of all shared plans go, or all plans, and collect garbage."""
    freed = world.session.release() if rng.integers(2) else world.session.release_plans()
    assert freed.plans >= 0 <= freed.nbytes
    world.session.timing.reset(), world.session.memory.reset()
    gc.collect(int(rng.integers(3)))


# -- graphs of one's own --------------------------------------------------------------------------

CHAIN: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "tanh": (gw.tanh, np.tanh),
    "exp": (lambda x: gw.exp(gw.tanh(x)), lambda x: np.exp(np.tanh(x))),
    "relu": (gw.nn.relu, lambda x: np.maximum(x, 0)),
    "one": (lambda x: x * 1.0 + 0.0, lambda x: x),
    "sum": (lambda x: x + gw.sum(x, axis=0), lambda x: x + x.sum(0)),
    "scaled": (lambda x: x / (1.0 + gw.sqrt(gw.abs(x))), lambda x: x / (1 + np.sqrt(abs(x)))),
}


def chain(rng: np.random.Generator, x: Any) -> tuple[Any, Callable[[Any], Any]]:
    """Return a tensor made of a few random ops, and the same in numpy."""
    names = [str(n) for n in rng.choice([*CHAIN], rng.integers(1, 6))]
    for name in names:
        x = CHAIN[name][0](x)

    def reference(a: Any) -> Any:
        for name in names:
            a = CHAIN[name][1](a)
        return a

    return x, reference


@action
def compile_own(world: World, rng: np.random.Generator) -> None:
    """Build a graph, run it often enough for the background compiler, and drop it midway."""
    g = gw.Graph()
    y, reference = chain(rng, g.placeholder("x", ("B", 8)))
    kernels = str(rng.choice(["background", "background", "wait", "off"]))
    session = gw.Session(g, kernels=kernels)
    for _ in range(int(rng.integers(1, 7))):
        x = rows(rng)
        close(session.run(y, {"x": x}), reference(x.astype(float)))
    if rng.integers(2):
        assert session.wait_for_kernels(120)
        close(session.run(y, {"x": x}), reference(x.astype(float)))
    if rng.integers(2):
        session.close()


@action
def edit_own(world: World, rng: np.random.Generator) -> None:
    """Edit a graph between runs, and take its gradient."""
    g = gw.Graph()
    x = g.placeholder("x", ("B", 8))
    double = gw.mul(x, 2.0, name="double")
    y = gw.sum(double * double, name="y")
    (dx,) = gw.gradients(y, [x])
    a = rows(rng)
    with gw.Session(g) as session:
        total, slope = session.run([y, dx], {"x": a})
        close(total, 4 * (a.astype(float) ** 2).sum())
        close(slope, 8 * a)
        triple = gw.mul(x, 3.0, name="triple")
        with g.edit() as e:
            e.replace_use(double, triple)
        close(session.run("y", {"x": a}), 9 * (a.astype(float) ** 2).sum())


@action
def close_another(world: World, rng: np.random.Generator) -> None:
    """Close a session that another thread runs: it computes rightly, or says that it is closed."""
    g = gw.Graph()
    y = gw.tanh(g.placeholder("x", ("B", 8)))
    session, errors = gw.Session(g), []

    def run() -> None:
        try:
            for _ in range(20):
                a = np.ones((2, 8), np.float32)
                close(session.run(y, {"x": a}), np.tanh(a))
        except gw.errors.GraphError as error:
            if "closed" not in str(error):
                errors.append(error)
        except BaseException as error:
            errors.append(error)

    other = threading.Thread(target=run)
    other.start()
    session.close()
    other.join()
    assert not errors, errors
    assert not session.plan_cache


# -- registries -----------------------------------------------------------------------------------


@action
def define(world: World, rng: np.random.Generator) -> None:
    """Define an op, use it, define it anew, and use it again."""
    name, factor = f"stress/op_{next(_serial) % 40}_{threading.get_ident()}", float(rng.integers(9))
    g = gw.Graph()
    x = g.placeholder("x", (None, 8))
    a = rows(rng)
    with gw.Session(g) as session:
        y = gw.define_op(name, lambda x: x * factor)(x)
        close(session.run(y, {"x": a}), a * factor)
        gw.define_op(name, lambda x: x - factor)
        again = gw.ops.find(name).function(x)
        close(session.run(again, {"x": a}), a - factor)


@action
def lower(world: World, rng: np.random.Generator) -> None:
    """Register a lowering, which makes all plans stale."""
    if rng.integers(8) == 0:
        gw.lowering(f"stress/nothing_{next(_serial) % 5}", device="cpu")(lambda op, ins, outs: None)


@action
def look_up(world: World, rng: np.random.Generator) -> None:
    """Go through the registry."""
    assert gw.ops.find("maxPooling2d").call == "gw.cnn.max_pool2d"
    table = gw.ops.table(str(rng.choice(["nn", "loss", "signal", "math"])))
    assert len(table) > 5 and all(entry.name for entry in table)
    assert gw.ops.find(str(rng.choice(["MatMul", "Relu", "nn.gelu"]))).call
    if rng.integers(6) == 0:
        assert len(gw.ops.table()) > 400


# -- files ----------------------------------------------------------------------------------------


@action
def archive(world: World, rng: np.random.Generator) -> None:
    """Save and load a graph with an op that loads on first use, as archive and as ONNX model."""
    g = gw.Graph()
    y, reference = chain(rng, g.placeholder("x", ("B", 8)))
    y = gw.nn.gelu(y * 0.0 + 1.0) + y
    a = rows(rng)
    expected = reference(a.astype(float)) + 0.8413447
    path = world.folder / f"{next(_serial)}.gw"
    g.save(path)
    (found,) = gw.load(path).output({"x": a}, y.name).values()
    close(found, expected)
    path.unlink()
    if HAS_ONNX:
        again = gw.onnx.load(gw.onnx.to_model(g, [y]))
        (found,) = again.output({"x": a}).values()
        close(found, expected)


@action
def train(world: World, rng: np.random.Generator) -> None:
    """Train with checkpoints and a run of the shared index, and resume."""
    folder = world.folder / "runs" / f"run-{next(_serial)}"

    def trainer() -> Any:
        g = gw.Graph("parabola")
        w = g.variable("w", (4,), init=2.0)
        run = gw.Run(folder, store=world.store)
        callbacks = [run, gw.Checkpoints(run, keep_last=2)]
        optimizer = gw.optim.SGD(0.25)
        return gw.Trainer(g, (w * w).sum(), optimizer=optimizer, callbacks=callbacks)

    first = trainer()
    first.fit([{}, {}], epochs=2, progress=False)
    close(first.values["w"], np.full(4, 2.0 / 2**4))
    again = trainer()
    gw.resume(again, folder)
    again.fit([{}, {}], epochs=3, progress=False)
    close(again.values["w"], np.full(4, 2.0 / 2**again.steps_done))
    assert len(again.history.steps) and again.steps_done >= 6


@action
def list_runs(world: World, rng: np.random.Generator) -> None:
    """List the runs of the index while others enter theirs; sometimes it has to be made anew."""
    if (world.folder / "runs").is_dir():
        assert all(r.name == "parabola" for r in gw.runs(world.store))
        if rng.integers(10) == 0:
            world.store.rebuild()


@action
def prefetch(world: World, rng: np.random.Generator) -> None:
    """Read batches ahead, and stop midway."""
    a = np.arange(40.0)
    batches = gw.data.dataset({"x": a}).batch(4).prefetch(2)
    seen = []
    for batch in itertools.islice(batches, int(rng.integers(1, 12))):
        seen.append(batch["x"])
    found = np.concatenate(seen)
    close(found, a[: len(found)])


@action
def watch(world: World, rng: np.random.Generator) -> None:
    """Look at a training from the widgets of a notebook, frozen and thawed while it runs."""
    if not HAS_WIDGETS or rng.integers(4):
        return
    g = gw.Graph("watched")
    w = g.variable("w", (4,), init=2.0)
    trainer = gw.Trainer(g, (w * w).sum(), optimizer=gw.optim.SGD(0.25))
    plot, table = gww.LivePlot(trainer), gww.ParameterTable(g, trainer)
    errors: list[BaseException] = []

    def fit() -> None:
        try:
            trainer.fit([{}] * 4, epochs=3, progress=False)
        except BaseException as error:
            errors.append(error)

    training = threading.Thread(target=fit)
    training.start()
    while training.is_alive():
        plot.points("loss", "step"), repr(trainer.history), g.summary(), len(g.derived)
        table.refresh()
        training.join(0.001)
    assert not errors, errors
    close(trainer.values["w"], np.full(4, 2.0 / 2**12))
    steps, losses = plot.points("loss", "step")
    assert steps == [*range(1, 13)]
    close(losses, [16.0 / 4**n for n in range(12)])
    plot.close(), table.close()
