"""Updates of a graph in training steps: which of them a step runs, in which order, on what."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError, ShapeError, TrainingError
from gradwright.op import Op


def batch(seed: int, shift: float, shape: tuple[int, ...] = (16, 3)):
    return (np.random.default_rng(seed).standard_normal(shape) * 2 + shift).astype("float32")


A, B = batch(0, 5.0), batch(1, -5.0)


def statistics(g: gw.Graph) -> list[gw.Tensor]:
    """Return scale, offset, running mean and variance of three channels."""
    return [
        g.variable("gamma", (3,), init=1.0),
        g.variable("beta", (3,)),
        g.variable("mean", (3,), trainable=False),
        g.variable("var", (3,), init=1.0, trainable=False),
    ]


def towers() -> tuple[gw.Graph, gw.Tensor, gw.Tensor]:
    """Return two calls on the same statistics, with different momenta."""
    g = gw.Graph()
    a, b = g.placeholder("a", (None, 3)), g.placeholder("b", (None, 3))
    held = statistics(g)
    return g, gw.nn.batch_norm(a, *held), gw.nn.batch_norm(b, *held, momentum=0.3)


def of_torch(torch, *calls: tuple[np.ndarray, float]) -> tuple[np.ndarray, np.ndarray]:
    """Return torch's running mean and variance after calls of (batch, momentum)."""
    bn = torch.nn.BatchNorm1d(3)
    for x, momentum in calls:
        bn.momentum = momentum
        bn(torch.tensor(x))
    return bn.running_mean.numpy(), bn.running_var.numpy()


def assert_statistics(g: gw.Graph, expected: tuple[np.ndarray, np.ndarray]) -> None:
    np.testing.assert_allclose(g.values["mean"], expected[0], rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(g.values["var"], expected[1], rtol=2e-5, atol=1e-6)


# -- state of layers -------------------------------------------------------------------------------


@pytest.mark.parametrize("swapped", [False, True])
def test_calls_on_the_same_statistics_count_in_their_order_as_in_torch(torch, swapped):
    g, ya, yb = towers()
    parts = [(ya**2.0).mean(), (yb**2.0).mean()]
    loss = parts[1] + parts[0] if swapped else parts[0] + parts[1]
    trainer = gw.Trainer(g, loss, gw.optim.SGD(0.0))
    trainer.fit([{"a": A, "b": B}, {"a": B, "b": A}], shuffle=False, progress=False)
    assert_statistics(g, of_torch(torch, (A, 0.1), (B, 0.3), (B, 0.1), (A, 0.3)))


@pytest.mark.parametrize(("tower", "x", "momentum"), [(0, A, 0.1), (1, B, 0.3)])
def test_a_loss_of_one_call_keeps_that_one_s(torch, tower, x, momentum):
    g, *ys = towers()
    trainer = gw.Trainer(g, (ys[tower] ** 2.0).mean(), gw.optim.SGD(0.0))
    trainer.step({"ab"[tower]: x})
    assert_statistics(g, of_torch(torch, (x, momentum)))


def test_several_losses_and_trainers_of_one_graph_keep_what_is_theirs(torch):
    g, ya, yb = towers()
    one, two = (ya**2.0).mean(name="one"), (yb**2.0).mean(name="two")
    both = gw.Trainer(g, [one, two], gw.optim.SGD(0.0))
    first = gw.Trainer(g, one, gw.optim.SGD(0.0))
    both.step({"a": A, "b": B})
    first.step({"a": B})
    both.step({"a": B, "b": A})
    calls = [(A, 0.1), (B, 0.3), (B, 0.1), (B, 0.1), (A, 0.3)]
    assert_statistics(g, of_torch(torch, *calls))


def test_a_layer_on_its_own_output_and_functions_called_twice_count_each_time(torch):
    g = gw.Graph()
    a, b, held = g.placeholder("a", (None, 3)), g.placeholder("b", (None, 3)), statistics(g)

    @gw.function("block")
    def block(x):
        return gw.nn.batch_norm(2.0 * gw.nn.batch_norm(x, *held), *held)

    loss = gw.mean(block(a) ** 2.0) + gw.mean(block(b) ** 2.0)
    gw.Trainer(g, loss, gw.optim.SGD(0.0)).step({"a": A, "b": B})
    bn = torch.nn.BatchNorm1d(3)
    for x in (A, B):
        bn(2.0 * bn(torch.tensor(x)))
    assert_statistics(g, (bn.running_mean.numpy(), bn.running_var.numpy()))


def test_a_clone_s_layers_count_as_its_model_s_do(torch):
    g = gw.Graph()
    a, b = g.placeholder("a", (None, 3)), g.placeholder("b", (None, 3))
    y = gw.nn.batch_norm(a, *statistics(g))
    loss = gw.mean(y**2.0) + gw.mean(gw.clone(y, {a: b}) ** 2.0)
    gw.Trainer(g, loss, gw.optim.SGD(0.0)).step({"a": A, "b": B})
    assert_statistics(g, of_torch(torch, (A, 0.1), (B, 0.1)))


def test_frozen_statistics_stay_between_calls_that_count(torch):
    g = gw.Graph()
    a, held = g.placeholder("a", (None, 3)), statistics(g)
    ys = [gw.nn.batch_norm(a, *held, training=t) for t in (None, False, None)]
    gw.Trainer(g, gw.mean(sum(ys[1:], ys[0]) ** 2.0), gw.optim.SGD(0.0)).step({"a": A})
    assert_statistics(g, of_torch(torch, (A, 0.1), (A, 0.1)))


def test_an_unrelated_network_on_the_same_input_is_left_alone():
    g = gw.Graph()
    x, w = g.placeholder("x", (None, 3)), g.variable("w", (3, 3), init=1.0)
    with g.scope("other"):
        gw.nn.batch_norm(x, name="bn")
    mine = gw.nn.batch_norm(x @ w, name="bn")
    metric = gw.mean(g["other/bn"], name="metric")
    before = dict(g.values)
    trainer = gw.Trainer(g, gw.mean(mine**2.0), metrics={"metric": metric}, parameters=["w"])
    trainer.step({"x": A})
    moved = [n for n in before if not np.array_equal(before[n], g.values[n])]
    assert moved == ["w", "bn/running_mean", "bn/running_var"]


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_both_calls_count_where_the_step_computes_in_fewer_bits(torch, precision):
    g = gw.Graph()
    a, held = g.placeholder("a", (None, 3)), statistics(g)
    w = g.variable("w", init=np.eye(3, dtype="float32"))
    y = gw.nn.batch_norm(2.0 * gw.nn.batch_norm(a @ w, *held), *held)
    gw.Trainer(g, gw.mean(y**2.0), gw.optim.SGD(0.0), precision=precision).step({"a": A})
    bn = torch.nn.BatchNorm1d(3)
    bn(2.0 * bn(torch.tensor(A)))
    np.testing.assert_allclose(g.values["mean"], bn.running_mean.numpy(), atol=0.02)
    np.testing.assert_allclose(g.values["var"], bn.running_var.numpy(), rtol=0.02)


def test_every_batch_of_a_window_counts(torch):
    g, ya, yb = towers()
    trainer = gw.Trainer(
        g, gw.mean(ya**2.0) + gw.mean(yb**2.0), gw.optim.SGD(0.1), accumulation=gw.Accumulation(2)
    )
    for a, b in ((A, B), (B, A)):
        trainer.step({"a": a, "b": b})
    assert trainer.steps_done == 1
    assert_statistics(g, of_torch(torch, (A, 0.1), (B, 0.3), (B, 0.1), (A, 0.3)))


def test_steps_that_run_as_one_leave_the_same_bits():
    found = []
    for unroll in (1, 3):
        g, ya, yb = towers()
        session = gw.Session(g, deterministic=True)
        loss = gw.mean((ya * 3.0) ** 2.0) + gw.mean((yb - 1.0) ** 2.0)
        trainer = gw.Trainer(g, loss, gw.optim.SGD(0.1), session=session)
        data = {"a": batch(3, 1.0, (48, 3)), "b": batch(4, -1.0, (48, 3))}
        trainer.fit(data, batch_size=8, unroll=unroll, progress=False)
        found.append({name: g.values[name].tobytes() for name in g.values})
    assert found[0] == found[1]


def test_a_run_of_a_session_sets_what_the_updates_of_its_losses_say(torch):
    g, ya, yb = towers()
    losses = gw.mean(ya**2.0), gw.mean(yb**2.0)
    with gw.Session(g) as session:
        session.run(losses, {"a": A, "b": B}, g.updates, training=True)
        session.run(losses[1], {"b": A}, g.updates.of(losses[1]), training=True)
    assert_statistics(g, of_torch(torch, (A, 0.1), (B, 0.3), (A, 0.3)))
    assert [v.name for v in g.updates] == ["mean", "var"] and g["mean"] in g.updates
    assert g["gamma"] not in g.updates and "mean" not in g.updates
    nodes = len(g.all_nodes)
    assert g.updates.of(*losses) == g.updates and len(g.all_nodes) == nodes


def test_state_in_turns_and_branches_is_refused_where_it_would_be_set():
    g = gw.Graph()
    x, held = g.placeholder("x", (4, None, 3)), statistics(g)
    with pytest.raises(GraphError, match=r"would set 'mean' in the body of scan(.|\n)*training=F"):
        gw.map_fn(lambda row: gw.nn.batch_norm(row, *held), x)
    block = gw.function("block")(lambda row: gw.nn.batch_norm(row, *held))
    with pytest.raises(GraphError, match="'block' would set 'mean' in the then branch of cond"):
        gw.cond(gw.mean(x) > 0.0, lambda: block(x[0]), lambda: x[0])
    y = gw.map_fn(lambda row: gw.nn.batch_norm(row, *held, training=False), x)
    found = g.output({"x": np.stack([A] * 4)}, y)[y.name]
    np.testing.assert_allclose(found[2], A / np.sqrt(1 + 1e-5), rtol=1e-6)


class Tally(Op):
    """The input, and how many rows have passed: an op of a user's with state."""

    @property
    def next_state(self):
        return {1: 1}

    def infer(self, x, count):
        return x.with_shape(x.shape), count.with_shape(count.shape)

    def forward(self, x, count):
        return x.copy(), count + np.float32(len(x))

    def vjp(self, gs, ys, xs):
        return gs[0], gw.NotDifferentiable("a count")


def test_an_op_of_one_s_own_may_have_state():
    g = gw.Graph()
    x, w = g.placeholder("x", (None, 3)), g.variable("w", (3,), init=1.0)
    count = g.variable("count", ())
    y, _ = Tally()(x * w, count, name="tally")
    z, _ = Tally()(y + 1.0, count, name="again")
    assert [v.name for v in g.updates] == ["count"] and g.updates.holds_state(count)
    gw.Trainer(g, gw.mean(z**2.0)).step({"x": A})
    gw.Trainer(g, gw.mean(y**2.0)).step({"x": A[:5]})
    assert g.values["count"] == 2 * len(A) + 5


def test_layers_that_are_edited_or_built_again_by_a_cell_count_once(torch):
    g = gw.Graph()
    with g.cell("data"):
        a, held = g.placeholder("a", (None, 3)), statistics(g)
    for scale in (1.0, 2.0):
        with g.cell("model"):
            y = gw.nn.batch_norm(a * scale, *held, name="bn")
            loss = gw.mean(y**2.0, name="loss")
    with g.edit() as edit:
        edit.insert_after(g["mul"], lambda t: t + 1.0)
    gw.Trainer(g, loss, gw.optim.SGD(0.0)).step({"a": A})
    assert_statistics(g, of_torch(torch, (A * 2 + 1, 0.1)))


# -- updates that the user declares ----------------------------------------------------------------


def test_what_reads_after_a_step_sees_what_the_step_has_set():
    g = gw.Graph()
    x, w = g.placeholder("x", (None, 3)), g.variable("w", (3,), init=1.0)
    seen, target = (g.variable(n, (3,), trainable=False) for n in ("seen", "target"))
    copy, mean = (g.variable(n, (3,), trainable=False) for n in ("copy", "mean"))
    loss = gw.mean(gw.nn.batch_norm(x * w, name="bn") * 3.0) + gw.sum(w)
    g.update(seen, seen * 0.0 + w)
    g.update(target, 0.75 * target + 0.25 * w, when="after")
    g.update(copy, w, when="after")
    g.update(mean, g["bn/running_mean"] + seen, when="after")
    trainer = gw.Trainer(g, loss, gw.optim.SGD(0.5), parameters=["w"])
    expected = np.zeros(3)
    for _ in range(3):
        before = g.values["w"]
        trainer.step({"x": A})
        expected = 0.75 * expected + 0.25 * g.values["w"].astype("float64")
        assert np.array_equal(g.values["seen"], before) and (g.values["w"] != before).all()
        assert np.array_equal(g.values["copy"], g.values["w"])
        np.testing.assert_allclose(g.values["target"], expected, rtol=1e-6)
        assert np.array_equal(g.values["mean"], g.values["bn/running_mean"] + before)


def test_a_bound_on_a_weight_is_kept_after_each_step_and_its_average_sees_it():
    g = gw.Graph()
    w = g.variable("w", (2,), init=0.5)
    g.update(w, gw.clip(w, -1.0, 1.0), when="after")
    trainer = gw.Trainer(g, gw.sum(w * np.float32([-3.0, 0.25])), gw.optim.SGD(1.0), swa=gw.SWA())
    assert trainer.parameters == [w]
    trainer.fit([{}, {}], progress=False)
    assert g.values["w"].tolist() == [1.0, 0.0]
    with trainer.averaged("swa"):
        assert g.values["w"].tolist() == [1.0, 0.125]


def test_what_reads_one_network_waits_for_steps_that_move_it():
    g = gw.Graph()
    w, v = (g.variable(n, (), init=1.0) for n in ("g/w", "d/v"))
    of_w, of_both, count, held = (
        g.variable(n, (), trainable=False) for n in ("of_w", "of_both", "count", "held")
    )
    g.update(of_w, of_w + w, when="after")
    g.update(of_both, of_both + v * w, when="after")
    g.update(count, count + 1.0, when="after")
    one, two = (gw.Trainer(g, w * v, gw.optim.SGD(1.0), parameters=f"{name}/*") for name in "gd")
    one.step({})  # w: 0
    two.step({})  # v: 1
    two.step({})  # v: 1
    one.step({})  # w: -1
    found = {t.name: float(g.values[t.name]) for t in (w, v, of_w, of_both, count)}
    assert found == {"g/w": -1.0, "d/v": 1.0, "of_w": -1.0, "of_both": -1.0, "count": 4.0}
    g.update(held, held + w, when="after")
    two.step({})
    g.freeze("g/w")  # nobody moves it now, so there is nothing to wait for
    two.step({})
    assert g.values["held"] == g.values["g/w"] == -1.0


@pytest.mark.parametrize("left_over", [False, True])
def test_a_window_counts_batches_before_and_updates_after(left_over):
    g = gw.Graph()
    x, w = g.placeholder("x", ()), g.variable("w", (), init=8.0)
    batches, updates = (g.variable(n, (), trainable=False) for n in ("batches", "updates"))
    last = g.variable("last", (), trainable=False)
    g.update(batches, batches + 1.0)
    g.update(updates, updates + w, when="after")
    g.update(last, w + x, when="after")
    trainer = gw.Trainer(g, x * w, gw.optim.SGD(1.0), accumulation=gw.Accumulation(2))
    trainer.fit([{"x": float(n)} for n in (1, 1, 1, 1, 1)[: 4 + left_over]], progress=False)
    assert g.values["batches"] == 4 + left_over
    assert g.values["updates"] == 7 + 6 + left_over * 5
    assert g.values["last"] == 7  # what feeds x is not there for what an epoch has left over


@pytest.mark.parametrize("settings", [{"nonfinite": "skip"}, {"precision": "float16"}, {}])
def test_a_step_that_is_refused_or_skipped_sets_nothing(settings):
    g = gw.Graph()
    x, w = g.placeholder("x", (None, 3)), g.variable("w", (3,), init=1.0)
    count, slow = (g.variable(n, (), trainable=False) for n in ("count", "slow"))
    g.update(count, count + 1.0)
    g.update(slow, gw.sum(w), when="after")
    loss = gw.mean(gw.nn.batch_norm(x, name="bn") * gw.log(w))
    trainer = gw.Trainer(g, loss, gw.optim.SGD(0.1), parameters=["w"], **settings)
    g.values["w"] = [0.0, 1.0, 1.0]
    before = {name: g.values[name].tobytes() for name in g.values}
    if settings:
        trainer.step({"x": A})
        assert trainer.skipped == 1
    else:
        with pytest.raises(TrainingError, match="not finite; nothing was changed"):
            trainer.step({"x": A})
    assert all(g.values[name].tobytes() == held for name, held in before.items())
    g.values["w"] = [1.0, 1.0, 1.0]
    trainer.step({"x": A})
    assert g.values["count"] == 1.0 and g.values["slow"] == np.sum(g.values["w"])


def test_steps_that_run_as_one_read_after_each_step():
    found = []
    for unroll in (1, 4):
        g = gw.Graph()
        x, w = g.placeholder("x", (None, 3)), g.variable("w", (3,), init=1.0)
        slow = g.variable("slow", (3,), init=1.0, trainable=False)
        g.update(slow, 0.9 * slow + 0.1 * w, when="after")
        loss = gw.mean((x * w - gw.stop_gradient(slow)) ** 2.0)
        session = gw.Session(g, deterministic=True)
        trainer = gw.Trainer(g, loss, gw.optim.Adam(0.1), session=session)
        trainer.fit({"x": A}, batch_size=2, unroll=unroll, progress=False)
        found.append([g.values[n].tobytes() for n in ("w", "slow")])
    assert found[0] == found[1]


def test_a_run_of_a_session_is_told_what_moves():
    g = gw.Graph()
    w, slow = g.variable("w", (), init=4.0), g.variable("slow", (), trainable=False)
    g.update(slow, w, when="after")
    loss = w * w
    (slope,) = gw.gradients(loss, [w])
    moved = w - 0.25 * slope
    with gw.Session(g) as session:
        session.run(loss, updates=g.updates.of(loss, moved={w: moved}))
    assert g.values["w"] == g.values["slow"] == 2.0
    assert g.updates[slow] is g.updates.of(loss)[slow] is w
    assert g.updates.of(loss, moved={}) == {}


def test_updates_that_do_not_fit_are_refused_and_change_nothing():
    g = gw.Graph()
    x, w = g.placeholder("x", (2,)), g.variable("w", (2,))
    g.update(w, w * 2.0)
    with pytest.raises(GraphError, match=r"when='later' is not known(.|\n)*'before' or 'after'"):
        g.update(w, w, when="later")
    with pytest.raises(GraphError, match="only variables are updated"):
        g.update(x, w)
    with pytest.raises(ShapeError, match="the update of 'w' has another spec"):
        g.update(w, gw.sum(w), when="after")
    assert g.updates[w].name == "mul"


def test_an_update_that_takes_the_place_of_another_says_so():
    g = gw.Graph()
    count = g.variable("count", (), trainable=False)
    one, two = count + 1.0, count + 2.0
    g.update(count, one)
    g.update(count, one)  # says the same
    with pytest.warns(UserWarning, match=r"'count' to 'add_1' takes the place of that to 'add', m"):
        g.update(count, two, when="after")
    assert g.updates[count] is two
    g.update(count, None)
    assert count not in g.updates and not g.updates
    g.update(count, one)
    held = statistics(g)
    gw.nn.batch_norm(g.placeholder("x", (None, 3)), *held, name="bn")
    with pytest.warns(UserWarning, match="takes the place of what 'bn' makes of it"):
        g.update(held[2], held[2] * 0.5)
    trainer = gw.Trainer(g, gw.mean(g["bn"] ** 2.0), gw.optim.SGD(0.0))
    trainer.step({"x": A})
    assert not g.values["mean"].any() and (g.values["var"] != 1.0).all()


def test_state_of_a_layer_that_shall_have_no_update_stays(torch):
    g = gw.Graph()
    x, held = g.placeholder("x", (None, 3)), statistics(g)
    trainer = gw.Trainer(g, gw.mean(gw.nn.batch_norm(x, *held) ** 2.0), gw.optim.SGD(0.0))
    g.update(held[2], None)
    trainer.step({"x": A})
    assert not g.values["mean"].any() and g.updates.holds_state(held[2])
    np.testing.assert_allclose(g.values["var"], of_torch(torch, (A, 0.1))[1], rtol=2e-5)
    g.update(held[2], held[2] + 3.0)  # no warning: it had none
    trainer.step({"x": A})
    assert (g.values["mean"] == 3.0).all()
    g.update(held[3], 2.0 * held[3], when="after")  # reads what the layer makes of it
    before = g.values["var"]
    trainer.step({"x": A})
    expected = 2.0 * (0.9 * before + 0.1 * A.var(0, ddof=1))
    np.testing.assert_allclose(g.values["var"], expected, rtol=2e-5)


def test_a_cell_that_runs_again_declares_its_updates_anew_in_silence():
    g = gw.Graph()
    with g.cell("variables"):
        count = g.variable("count", (), trainable=False)
    for n in (1.0, 2.0, 3.0):
        with g.cell("updates"):
            g.update(count, count + n if n < 3 else count * n, when="after")
    assert [(v.name, t.name) for v, t in g.updates.items()] == [("count", "mul")]
    assert "add" not in g


def test_a_summary_tells_what_steps_set():
    g = gw.Graph()
    x, held = g.placeholder("x", (None, 3)), statistics(g)
    gw.nn.batch_norm(x, *held, name="one")
    gw.nn.batch_norm(x, *held, name="two")
    count, slow = g.variable("count", ()), g.variable("slow", (3,))
    g.update(count, (count + 1.0).rename("more"))
    g.update(slow, held[2], when="after")
    lines = g.summary().splitlines()
    assert "each training step sets count to more" in lines
    assert "each training step sets slow to mean, after it" in lines
    assert "training steps through one, two set mean" in lines


def test_what_is_due_follows_what_is_frozen_meanwhile():
    g = gw.Graph()
    a, b = g.variable("a", init=1.0), g.variable("b", init=2.0)
    slow = g.variable("slow", init=0.0, trainable=False)
    g.update(slow, b * 1.0, when="after")
    loss, moved = a * a, {a: a * 0.5}
    for freeze in (False, True, False):  # of what nothing trains any more, no step moves a part
        (g.freeze if freeze else g.unfreeze)("b")
        assert (slow in g.updates.of(loss, moved=moved)) == freeze


def test_what_is_due_follows_what_an_edit_made_of_a_value():
    g = gw.Graph()
    a, b = g.variable("a", init=1.0), g.variable("b", init=2.0)
    slow = g.variable("slow", init=0.0, trainable=False)
    read, other = a * 1.0, b * 1.0
    g.update(slow, read + 0.5, when="after")
    trainer = gw.Trainer(g, a * a, gw.optim.SGD(0.25), parameters=[a])
    trainer.step({})
    assert g.values["slow"] == 1.0  # a moved to 0.5
    with g.edit() as edit:
        edit.replace_use(read, other)
    trainer.step({})
    assert g.values["slow"] == 1.0  # no step moves b, which is trainable
    g.freeze("b")
    trainer.step({})
    assert g.values["slow"] == 2.5


def test_updates_of_and_to_what_is_no_tensor_are_named():
    g = gw.Graph()
    w = g.variable("w", init=1.0)
    for variable, value in ((w, "w"), (w, 3), ("w", w), (None, w)):
        with pytest.raises(GraphError, match="is no tensor"):
            g.update(variable, value)
    assert not g.updates
