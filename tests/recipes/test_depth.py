"""Stacks of layers through two plans, stores, seeded objectives, and the trainer made of them."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError, ShapeError, TrainingError
from gradwright.recipes.depth import Disk, Memory, Section, seeded_cross_entropy

D = 8
SHAPES = {
    "g": (D,), "q": (D, D), "k": (D, D), "v": (D, D), "o": (D, D),
    "w1": (D, 4 * D), "b1": (4 * D,), "w2": (4 * D, D),
}  # fmt: skip


def wide(*shape):
    return gw.TensorSpec(shape, "float64")


def block(p, x, mask):
    """Return one layer of a transformer with a single head."""
    h = gw.nn.rms_norm(x, p["g"])
    scores = (h @ p["q"]) @ (h @ p["k"]).swapaxes(-1, -2) / D**0.5 + mask
    x = x + gw.nn.softmax(scores) @ (h @ p["v"]) @ p["o"]
    return x + gw.nn.gelu(x @ p["w1"] + p["b1"]) @ p["w2"]


def transformer(**session):
    specs = {n: wide(*s) for n, s in SHAPES.items()}
    shared = {"mask": wide("T", "T")}
    return gw.CheckpointedStack(block, specs, wide("B", "T", D), shared=shared, **session)


def weights(rng, n):
    return [{k: rng.standard_normal(s) * 0.3 for k, s in SHAPES.items()} for _ in range(n)]


@pytest.mark.parametrize("n", [1, 4, 9])
@pytest.mark.parametrize("store", [Memory, Disk])
def test_a_stack_is_the_monolith_to_the_bit(rng, n, store):
    layers, mask = weights(rng, n), np.triu(np.full((5, 5), -1e9), 1)
    x, seed = rng.standard_normal((2, 2, 5, D))
    with transformer(deterministic=True) as stack:
        y, held = stack.forward(layers, x, {"mask": mask}, store=store())
        grads, dx = stack.backward(layers, held, seed)
    g = gw.Graph()
    fed, s = (g.placeholder(k, ("B", "T", D), "float64") for k in "xs")
    m, h, params = g.placeholder("m", ("T", "T"), "float64"), fed, []
    for i, layer in enumerate(layers):
        with g.scope(f"layer{i}"):
            p = {k: g.variable(k, v.shape, init=v, dtype="float64") for k, v in layer.items()}
            h = block(p, h, m)
            params += p.values()
    found = gw.gradients(h, [*params, fed], s)
    with gw.Session(g, deterministic=True) as session:
        whole = session.run([h, *found], {"x": x, "s": seed, "m": mask}, training=True)
    ours = [y, *(a for layer in grads for a in layer.values()), dx]
    assert len(ours) == len(whole) == 2 + n * len(SHAPES)
    assert all(np.array_equal(a, b) for a, b in zip(ours, whole, strict=True))


def test_depth_costs_no_plans_and_no_nodes(rng):
    with transformer() as stack:
        sizes = []
        for n in (4, 64):
            layers = weights(rng, n)
            _, held = stack.forward(layers, np.ones((1, 3, D)), {"mask": np.zeros((3, 3))})
            stack.backward(layers, held, np.ones((1, 3, D)))
            session = stack.section.session
            sizes.append((len(session.plans), len([*stack.section.graph.nodes])))
        assert sizes[0] == sizes[1] and sizes[0][0] == 2


def test_dropout_draws_the_same_for_the_gradient_and_anew_per_layer_and_step(rng):
    def layer(p, x):
        return gw.nn.dropout(x * p["w"], 0.5)

    layers = [{"w": np.ones(200)} for _ in range(3)]
    with gw.CheckpointedStack(layer, {"w": wide(200)}, wide("B", 200)) as stack:
        y, held = stack.forward(layers, np.ones((1, 200)), step=7)
        grads, dx = stack.backward(layers, held, np.ones((1, 200)))
        np.testing.assert_array_equal(dx, y)  # a product of masks
        assert all(np.array_equal(g["w"], y[0]) for g in grads)
        assert set(np.unique(y)) == {0.0, 8.0}
        assert 5 < np.count_nonzero(y) < 60  # 1/8 of 200; one mask in all layers would leave 1/2
        other, _ = stack.forward(layers, np.ones((1, 200)), step=8)
        assert not np.array_equal(other, y)
        still, nothing = stack.forward(layers, np.ones((1, 200)), training=False)
        assert (still == 1.0).all() and nothing.n == 0


def test_a_stack_says_what_does_not_fit():
    with pytest.raises(ShapeError, match=r"takes f32\[B, 2\] and returns f32\[B, 3\]"):
        gw.CheckpointedStack(lambda p, x: x @ p["w"], {"w": (2, 3)}, gw.TensorSpec(("B", 2)))
    stack = gw.CheckpointedStack(lambda p, x: x * p["w"], {"w": ()}, gw.TensorSpec(("B",)))
    layers = [{"w": np.float32(2.0)}] * 2
    y, held = stack.forward(layers, np.ones(1, "float32"))
    stack.backward(layers, held, y)
    with pytest.raises(GraphError, match="0 inputs of layers are held"):
        stack.backward(layers, held, y)
    with pytest.raises(gw.errors.FeedError, match="parameter 'w' is not given"):
        stack.forward([{"v": 1.0}], y)


def test_state_that_nobody_would_store_is_refused():
    def layer(p, x, training=None):
        scale, offset, mean, var = (p[name] for name in ("a", "b", "m", "v"))
        return gw.nn.batch_norm(x, scale, offset, mean, var, training=training, name="bn")

    params = dict.fromkeys(("a", "b", "m", "v"), (3,))
    inputs = {"x": gw.TensorSpec((None, 3))}
    with pytest.raises(GraphError, match=r"'bn' would set state(.|\n)*gw\.nn\.layer_norm"):
        Section(layer, params, inputs)
    fixed = Section(lambda p, x: layer(p, x, training=False), params, inputs)
    values = {"a": np.ones(3), "b": np.zeros(3), "m": np.ones(3), "v": np.ones(3)}
    found = fixed.run(values, {"x": np.full((2, 3), 2.0)})
    np.testing.assert_allclose(found, np.full((2, 3), 1 / np.sqrt(1 + 1e-5)), rtol=1e-6)


# -- stores --------------------------------------------------------------------------------------


def test_a_disk_gives_back_what_it_got(rng, tmp_path):
    arrays = {
        "f": rng.standard_normal((3, 4)),
        "t": rng.standard_normal((3, 4)).T,
        "b": rng.standard_normal(5).astype(ml_dtypes.bfloat16),
        "zero": np.float32(2.5) + np.zeros((), "float32"),
        "none": np.empty((0, 3), "int8"),
    }
    with Disk(tmp_path) as store:
        for i in range(20):
            store.put(f"k{i}", {n: a + i if a.dtype.kind == "f" else a for n, a in arrays.items()})
        for i in (3, 19, 0, 7):
            store.prefetch(f"k{i}")
            for name, array in store.get(f"k{i}").items():
                expected = arrays[name] + i if array.dtype.kind == "f" else arrays[name]
                assert array.dtype == expected.dtype and array.shape == expected.shape
                np.testing.assert_array_equal(array, expected)
        store.put("k3", {"x": np.ones(2)})
        assert store.pop("k3")["x"].tolist() == [1.0, 1.0]
        with pytest.raises(GraphError, match="nothing is kept under 'k3'"):
            store.get("k3")
        assert len(store) == 19
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(GraphError, match="closed"):
        store.put("late", {})


def test_a_forgotten_disk_leaves_neither_files_nor_thread(tmp_path):
    def offloads():
        return [t for t in threading.enumerate() if t.name == "offload"]

    before = len(offloads())
    store = Disk(tmp_path)
    store.put("a", {"x": np.ones(3)})
    del store
    gc.collect()
    assert list(tmp_path.iterdir()) == [] and len(offloads()) == before


def test_a_disk_that_cannot_be_written_says_so(tmp_path):
    with pytest.raises(TrainingError, match="no scratch folder can be made in"):
        Disk(tmp_path / "nowhere")
    pytest.importorskip("resource", reason="limits of file size are a thing of POSIX")
    script = """
        import resource
        import numpy as np
        from gradwright.errors import TrainingError
        from gradwright.recipes.depth import Disk
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        with Disk() as store:
            try:
                for i in range(10):
                    store.put(str(i), {"x": np.zeros(100_000)})
            except TrainingError as error:
                print(error)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    said = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True).stdout
    assert "cannot be offloaded" in said and "File too large" in said and "free some space" in said


# -- seeds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("hard", [True, False])
def test_a_seeded_objective_has_the_gradient_of_its_loss(rng, hard):
    g = gw.Graph()
    x = g.placeholder("x", (None, 3), "float64")
    w = g.variable("w", (3, 5), init=rng.standard_normal((3, 5)), dtype="float64")
    if hard:
        t, labels = g.placeholder("t", (None,), "int64"), np.array([4, 0, -100, 2])
        plain = gw.loss.sparse_softmax_cross_entropy(t, x @ w, ignore_index=-100)
    else:
        t, labels = g.placeholder("t", (None, 5), "float64"), rng.uniform(0, 1, (4, 5))
        plain = gw.loss.softmax_cross_entropy(t, x @ w)
    seeded = seeded_cross_entropy(x @ w, t)
    grads = [gw.gradients(loss * 3.0, [w])[0] for loss in (seeded, plain)]
    feeds = {"x": rng.standard_normal((4, 3)), "t": labels}
    ours, theirs, a, b = gw.Session(g).run([*grads, seeded, plain], feeds)
    np.testing.assert_allclose(ours, theirs, rtol=1e-11)
    assert a == b and np.abs(theirs).max() > 0.01


def test_a_value_may_be_trained_by_what_is_told_from_outside(rng):
    """The gradient that another program says is the one that a step takes."""
    g = gw.Graph()
    x, w = g.placeholder("x", (3,)), g.variable("w", (3,), init=1.0)
    y, told = x * w, g.placeholder("told", (3,))
    loss = gw.training.with_gradient(gw.sum(y), y, told)
    gw.Trainer(g, loss, gw.optim.SGD(0.5)).step({"x": [1.0, 2.0, 3.0], "told": [1.0, 0.0, -2.0]})
    assert g.values["w"].tolist() == [0.5, 1.0, 4.0]


def test_backward_from_stops_where_it_is_told(rng):
    g = gw.Graph()
    w, v = g.variable("w", (), init=2.0), g.variable("v", (), init=5.0)
    inner = w * v
    y = inner * w
    (free,) = gw.backward_from(y, 1.0, [w]).values()
    (stopped,) = gw.backward_from(y, 1.0, [w], stop=[inner]).values()
    assert [float(a) for a in gw.Session(g).run([free, stopped])] == [20.0, 10.0]


# -- the trainer ---------------------------------------------------------------------------------

N, HIDDEN = 5, 6


def parts(rng, **session):
    """Return bottom, stack and top of a small residual network, and values for them."""
    x = wide(None, HIDDEN)
    bottom = Section(
        lambda p, a: a @ p["w"], {"w": wide(3, HIDDEN)}, {"a": wide(None, 3)}, **session
    )
    stack = gw.CheckpointedStack(
        lambda p, x: x + gw.tanh(x @ p["w"] + p["b"]),
        {"w": wide(HIDDEN, HIDDEN), "b": wide(HIDDEN)},
        x,
        **session,
    )
    top = Section(
        lambda p, x, t: gw.mean(((x @ p["v"]) - t) ** 2.0),
        {"v": wide(HIDDEN)},
        {"x": x, "t": wide(None)},
        wrt=["x"],
        **session,
    )
    values = (
        {"w": rng.standard_normal((3, HIDDEN))},
        [
            {"w": rng.standard_normal((HIDDEN, HIDDEN)) * 0.3, "b": np.zeros(HIDDEN)}
            for _ in range(N)
        ],
        {"v": rng.standard_normal(HIDDEN)},
    )
    return (bottom, stack, top), values


def whole(values):
    """Return the same network as one graph, and its loss."""
    g = gw.Graph()
    a, t = g.placeholder("a", (None, 3), "float64"), g.placeholder("t", (None,), "float64")

    def variable(name, value):
        return g.variable(name, value.shape, init=value, dtype="float64")

    bottom, layers, top = values
    h = a @ variable("bottom", bottom["w"])
    for i, p in enumerate(layers):
        h = h + gw.tanh(h @ variable(f"w{i}", p["w"]) + variable(f"b{i}", p["b"]))
    return g, gw.mean((h @ variable("top", top["v"]) - t) ** 2.0)


@pytest.mark.parametrize(
    "optimizer", [gw.optim.AdamW(0.01), gw.optim.SGD(0.02, momentum=0.9, nesterov=True), "lion"]
)
@pytest.mark.parametrize("store", [Memory, Disk])
def test_a_deep_trainer_trains_as_the_trainer_does(rng, optimizer, store):
    (bottom, stack, top), values = parts(rng)
    batches = [{"a": rng.standard_normal((4, 3)), "t": rng.standard_normal(4)} for _ in range(6)]
    deep = gw.DeepTrainer(bottom, stack, top, optimizer, clip_norm=0.5, store=store())
    deep.start(*values)
    g, loss = whole(values)
    trainer = gw.Trainer(g, loss, optimizer=optimizer, clip_norm=0.5)
    for batch in batches:
        ours, theirs = deep.step(batch), trainer.step(batch).metrics["loss"]
        assert ours == pytest.approx(theirs, rel=1e-10)
    for i in range(N):
        for name in "wb":
            expected = g.values[f"{name}{i}"]
            np.testing.assert_allclose(deep.parameters(f"layers/{i}")[name], expected, rtol=1e-9)
    np.testing.assert_allclose(deep.parameters("top")["v"], g.values["top"], rtol=1e-9)
    assert deep.evaluate(batches[0]) == pytest.approx(trainer.evaluate(batches[0])["loss"])
    deep.close()


def test_a_deep_trainer_goes_on_from_saved_state_to_the_bit(rng):
    batches = [{"a": rng.standard_normal((4, 3)), "t": rng.standard_normal(4)} for _ in range(6)]
    sections, values = parts(rng, deterministic=True)
    runs = []
    for stop in (6, 3):
        deep = gw.DeepTrainer(*sections)
        deep.start(*values)
        for batch in batches[:stop]:
            deep.step(batch)
        saved = {k: v.copy() for k, v in deep.state_dict().items()}
        again = gw.DeepTrainer(*sections)
        again.load_state_dict(saved)
        for batch in batches[stop:]:
            again.step(batch)
        assert all(u.session.deterministic for u in deep._updates.values())
        runs.append(again.state_dict())
    assert runs[0].keys() == runs[1].keys()
    assert all(np.array_equal(runs[0][k], runs[1][k]) for k in runs[0])
    del saved["parameters/layers/2:w"]
    with pytest.raises(TrainingError, match="no parameters/layers/2:w"):
        again.load_state_dict(saved)


@pytest.mark.parametrize("how", ["raise", "skip"])
def test_a_step_that_is_not_finite_changes_nothing(rng, how):
    sections, values = parts(rng)
    deep = gw.DeepTrainer(*sections, nonfinite=how)
    deep.start(*values)
    batch = {"a": rng.standard_normal((4, 3)), "t": rng.standard_normal(4)}
    deep.step(batch)
    before = {k: v.tobytes() for k, v in deep.state_dict().items() if k != "counters"}
    bad = {**batch, "t": np.array([np.nan, 0, 0, 0])}
    if how == "raise":
        with pytest.raises(TrainingError, match="nothing was changed"):
            deep.step(bad)
    else:
        assert np.isnan(deep.step(bad))
    assert {k: v.tobytes() for k, v in deep.state_dict().items() if k != "counters"} == before
    assert deep.skipped == 1 and np.isfinite(deep.step(batch))


def test_after_a_torn_update_the_trainer_asks_for_saved_state(rng, monkeypatch):
    sections, values = parts(rng)
    deep = gw.DeepTrainer(*sections)
    deep.start(*values)
    batch = {"a": rng.standard_normal((4, 3)), "t": rng.standard_normal(4)}
    saved = deep.state_dict()
    done = []

    def fail(name, *rest):
        done.append(name)
        if len(done) == 3:
            raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(deep, "_update", fail)
        with pytest.raises(OSError, match="disk full"):
            deep.step(batch)
    with pytest.raises(TrainingError, match="an update was interrupted"):
        deep.step(batch)
    deep.load_state_dict(saved)
    assert np.isfinite(deep.step(batch))


def test_saved_state_that_was_loaded_stays_the_callers(rng):
    sections, values = parts(rng)
    deep = gw.DeepTrainer(*sections)
    deep.start(*values)
    saved = deep.state_dict()
    before = {name: np.array(a) for name, a in saved.items()}
    deep.load_state_dict(saved)
    assert not any(
        np.shares_memory(a, saved[name]) for name, a in deep.state_dict().items() if a.ndim
    )
    for _ in range(2):
        deep.step({"a": rng.standard_normal((4, 3)), "t": rng.standard_normal(4)})
    for name, a in saved.items():
        np.testing.assert_array_equal(a, before[name])


@pytest.mark.parametrize("at", range(1, 40, 5))
def test_a_disk_that_was_full_is_tried_again(rng, monkeypatch, at):
    """Wherever in a step it is full, what is kept is still there, and the training goes on."""
    sections, values = parts(rng)
    batch = {"a": rng.standard_normal((4, 3)), "t": rng.standard_normal(4)}
    optimizer = gw.optim.Adam(0.01)
    whole = gw.DeepTrainer(*sections, optimizer)
    whole.start(*values)
    losses = [whole.step(batch) for _ in range(3)]
    opened, writes, is_full = Path.open, itertools.count(1), threading.Event()

    def limited(path, mode="r", *rest):
        if mode == "wb" and is_full.is_set() and next(writes) >= at:
            raise OSError(28, "No space left on device")
        return opened(path, mode, *rest)

    with Disk(ahead=1) as store:
        deep = gw.DeepTrainer(*sections, optimizer, store=store)
        deep.start(*values)
        np.testing.assert_allclose(deep.step(batch), losses[0], rtol=1e-9)
        saved = deep.state_dict()
        monkeypatch.setattr(Path, "open", limited)
        is_full.set()
        with pytest.raises(TrainingError, match="No space left"):
            while True:
                deep.step(batch)
                deep.load_state_dict(saved)
        is_full.clear()
        deep.load_state_dict(saved)
        again = [deep.step(batch) for _ in range(2)]
    np.testing.assert_allclose(again, losses[1:], rtol=1e-9)
