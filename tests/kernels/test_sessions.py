"""Whole sessions on a simulated GPU, against the same on the CPU."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError, IdError, LoweringError, MemoryLimitError

pytest.importorskip("triton", reason="Triton has wheels for Linux only")

from gradwright_kernels.device import open as opening
from gradwright_kernels.device.value import DeviceValue
from tests.fuzz import Program, problem

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)
X = RNG.standard_normal((5, 7)).astype(np.float32)


def both(build: Any, feeds: Any = None, **how: Any) -> list[list[Array]]:
    """Return what a graph gives on the CPU and on the simulated GPU, the tensors built anew."""
    found = []
    for device in ("cpu", "cuda-sim"):
        g = gw.Graph()
        with gw.Session(g, device=device, kernels="off", **how) as session:
            given = {"x": X} if feeds is None else feeds
            found.append(session.run(build(g), given, training=True))
    return found


def agree(build: Any, feeds: Any = None, **how: Any) -> None:
    for y, expected in zip(*reversed(both(build, feeds, **how)), strict=True):
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-6)
        assert y.dtype == expected.dtype and y.flags.writeable


def mlp(g: gw.Graph) -> gw.Tensor:
    x, y = g.placeholder("x", ("B", 7)), g.placeholder("y", ("B",), "int32")
    w1, w2 = (
        g.variable(f"w{n}", s, init=gw.init.normal(seed=n))
        for n, s in ((1, (7, 33)), (2, (33, 10)))
    )
    b1, b2 = g.variable("b1", (33,)), g.variable("b2", (10,))
    return gw.loss.sparse_softmax_cross_entropy(y, gw.nn.relu(x @ w1 + b1) @ w2 + b2)


@pytest.mark.parametrize("optimizer", [gw.optim.Adam(1e-2), gw.optim.SGD(1e-2, momentum=0.9)])
def test_training_steps_of_an_mlp_are_those_of_the_cpu(optimizer: Any) -> None:
    found = []
    batches = [(X, np.arange(5)), (X[::-1], np.arange(5) + 2), (X[:3], np.array([1, 0, 9]))]
    for device in ("cpu", "cuda-sim"):
        g = gw.Graph()
        trainer = gw.Trainer(g, mlp(g), optimizer=optimizer, device=device)
        losses = [trainer.step({"x": x, "y": y}).metrics["loss"] for x, y in batches]
        found.append((losses, {name: g.values[name] for name in g.values}))
        if device == "cuda-sim":
            assert isinstance(g.values.buffer("w1"), DeviceValue)
            whats = set(trainer.session.plans[-1].kernels.counts)
            assert whats <= {"kernel", "product", "view"}
    (losses, values), (sim_losses, sim_values) = found
    np.testing.assert_allclose(sim_losses, losses, rtol=1e-5)
    for name, value in values.items():
        np.testing.assert_allclose(sim_values[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


def test_products_of_views_batches_and_vectors() -> None:
    def build(g: gw.Graph) -> list[gw.Tensor]:
        x = g.placeholder("x", (5, 7))
        q = gw.stack([x, x + 1.0, x * 2.0])  # [3, 5, 7]
        heads = gw.stack([q, q])[:, 1:, 1:, ::2]  # [2, 2, 4, 4], strided
        return [
            x[:0].mean(), x.T @ x, x @ x[0], x[:, 0] @ x, x[0] @ x[1], q @ q.mT, q @ x.T, x @ q.mT,
            heads @ heads.mT, x[:0] @ x.T, (q @ x.T)[1].T @ x,
        ]  # fmt: skip

    agree(build)


def test_views_become_copies_where_memory_does_not_allow_them() -> None:
    def build(g: gw.Graph) -> list[gw.Tensor]:
        x = g.placeholder("x", (5, 7))
        return [
            x.T.reshape(35),
            gw.nn.softmax(x.T[::2]),
            x.T,
            x[1:, 2:],
            gw.exp(x.T.reshape(7, 5).T),
        ]

    agree(build)


def test_hand_written_kernels_run_forward_and_backward() -> None:
    def build(g: gw.Graph) -> list[gw.Tensor]:
        x = g.placeholder("x", (5, 7))
        w, b = g.variable("w", (7,), init=gw.init.ones()), g.variable("b", (7,))
        y = (gw.nn.layer_norm(x.T[:, :5].T, w, b) ** 2.0).sum()
        return [y, *gw.gradients(y, [x, w, b])]

    agree(build)


def test_a_transformer_block_learns_on_the_device_alone() -> None:
    def build(g: gw.Graph) -> list[gw.Tensor]:
        ids = g.placeholder("i", ("B", 4), "int32")
        words = g.variable("e", (11, 8), init=gw.init.normal(seed=1))
        x = gw.gather(words, ids)
        h = gw.nn.layer_norm(x, g.variable("n", (8,), init=gw.init.ones()))
        q, k, v, o = (g.variable(c, (8, 8), init=gw.init.normal(seed=ord(c))) for c in "qkvo")
        x = x + gw.nn.softmax((h @ q) @ (h @ k).mT) @ (h @ v)
        x = x + gw.nn.dropout(gw.nn.gelu(x @ o), 0.3)
        loss = gw.loss.sparse_softmax_cross_entropy(ids, x @ words.T)
        return [loss, *gw.gradients(loss, [words, q, k, v, o])]

    agree(build, {"i": RNG.integers(0, 11, (3, 4))}, seed=5)


def test_updates_read_old_values_and_commit_together_or_not_at_all() -> None:
    found = []
    for device in ("cpu", "cuda-sim"):
        g = gw.Graph()
        a, b = g.variable("a", (3,), init=gw.init.ones()), g.variable("b", (3,))
        x = g.placeholder("x", ())
        with gw.Session(g, device=device) as session:
            swap = {a: b + x, b: a}  # b becomes what a was: that is no kernel's own
            fetch = [a, a * 2.0]
            run = [session.run(fetch, {"x": v}, swap, commit_if=x > 0.0) for v in (1, -1, 2)]
        found.append([*itertools.chain(*run), g.values["a"], g.values["b"]])
        assert (g.values.version("a"), g.values.version("b")) == (2, 2)
    np.testing.assert_equal(*found)


def test_a_variable_becomes_what_is_fed_or_itself_turned() -> None:
    for device in ("cpu", "cuda-sim"):
        g, given = gw.Graph(), np.arange(9, dtype="f4").reshape(3, 3)
        w, x = g.variable("w", (3, 3)), g.placeholder("x", (3, 3))
        with gw.Session(g, device=device, kernels="wait") as session:
            session.run([], {"x": given}, {w: x})
            assert given.flags.writeable
            for _ in range(2):
                session.run([], {}, {w: w[::-1].T * 2.0})
        given[...] = 0
        np.testing.assert_array_equal(g.values["w"], 4 * np.arange(9)[::-1].reshape(3, 3))


def test_host_and_device_hold_one_value() -> None:
    g = gw.Graph()
    w = g.variable("w", (2,))
    with gw.Session(g, device="cuda-sim") as sim, gw.Session(g) as cpu:
        step = {w: w + 1.0}
        sim.run([], {}, step)
        held, taken = g.values["w"], g.values.snapshot()
        sim.run([], {}, step)
        assert (held.tolist(), taken["w"].tolist()) == ([1.0, 1.0], [1.0, 1.0])
        cpu.run([], {}, step)  # reads what the device has, and has it from now on
        assert sim.run(w * 1.0).tolist() == [3.0, 3.0]
        g.values["w"] = [5.0, 6.0]
        g.rename("w", "v")
        sim.run([], {}, step)
        with gw.Session(g, device="cuda-sim") as other:
            other.run([], {}, step)
        assert sim.run(w).tolist() == [7.0, 8.0]
        g.values.restore(taken.rename("w", "v") or taken)
    assert g.values["v"].tolist() == [1.0, 1.0]


def test_what_has_no_kernel_is_named_or_goes_over_the_host() -> None:
    def build(g: gw.Graph) -> list[gw.Tensor]:
        return [gw.linalg.pinv(g.placeholder("x", (5, 7)) + 1.0, name="turned") * 2.0]

    g = gw.Graph()
    with gw.Session(g, device="cuda-sim") as session:
        message = (
            r"(?s)pinv 'turned'.*'cuda-sim' has no kernel for pinv of float32.*fallback=\"cpu\""
        )
        with pytest.raises(LoweringError, match=message) as caught:
            session.plan(build(g), {"x": (5, 7)})
    assert caught.value.node is g["turned"].node
    agree(build, fallback="cpu")
    with gw.Session(g, device="cuda-sim", fallback="cpu") as session:
        rows = session.plan("turned", {"x": (5, 7)}).kernels
    assert [(r.what, r.why) for r in rows] == [
        ("kernel", ""),
        ("numpy", "on the host: no kernel for pinv"),
    ]
    with pytest.raises(GraphError, match="fallback='gpu' is not known"):
        gw.Session(g, device="cuda-sim", fallback="gpu")


def test_rows_go_to_places_of_a_table_that_is_there() -> None:
    def build(g: gw.Graph) -> list[gw.Tensor]:
        x, at = g.placeholder("x", (5, 7)), g.constant(np.array([[1], [1], [3]]))
        joins = gw.scatter_nd_update, gw.scatter_nd_max, gw.scatter_nd_min, gw.scatter_nd_add
        return [join(x * 1.5, at, x[1:4] + 1.0) for join in joins]

    agree(build)


def test_loops_are_driven_by_the_host_with_turns_on_the_device() -> None:
    def build(g: gw.Graph) -> list[gw.Tensor]:
        x = g.placeholder("x", (5, 7))
        total, rows = gw.scan(lambda s, row: (s + row, s * row), x[0], x)
        picked = gw.cond(x[0, 0] > 0.0, lambda: x * 2.0, lambda: x - 1.0)
        return [total, rows, picked]

    agree(build)


def test_wrong_numbers_are_told_by_node() -> None:
    g = gw.Graph()
    w, x = g.variable("w", (4, 2)), g.placeholder("x", ("B",), "int64")
    y = g.placeholder("y", ("B", 4))
    loss = gw.loss.sparse_softmax_cross_entropy(x, gw.gather(w, x, name="rows") @ w.T, name="loss")
    with gw.Session(g, device="cuda-sim") as session:
        assert session.run(loss, {"x": [0, 3]}).shape == ()
        with pytest.raises(LoweringError, match=r"gather 'rows'.*\n?.*index 9"):
            session.run("rows", {"x": [1, 9]})
        with pytest.raises(IdError, match=r"7 at \[1\] is no class"):
            session.run(
                gw.loss.sparse_softmax_cross_entropy(x, y), {"x": [0, 7], "y": np.ones((2, 4))}
            )
        step = {w: w + gw.gather(w, x, name="moved").sum()}  # in the tail: nothing else reads it
        session.run([], {"x": [0, 3]}, step)
        before = g.values["w"]
        with pytest.raises(LoweringError, match="gather 'moved'"):
            session.run([], {"x": [1, 9]}, step)
        assert np.array_equal(g.values["w"], before)


def test_replay_holds_each_op_against_its_forward() -> None:
    def build(g: gw.Graph) -> list[gw.Tensor]:
        x = g.placeholder("x", (5, 7))
        y = (gw.nn.softmax(gw.tanh(x @ x.T)) ** 2.0).sum()
        total, _ = gw.scan(lambda s, row: (s + row, s), x[0], x[::-1])
        return [y, *gw.gradients(y, [x]), gw.cond(y > 0.0, lambda: total, lambda: x[0])]

    agree(build, check="replay")


@pytest.mark.parametrize("seed", [3, 11, 17])
def test_random_programs_are_those_of_numpy(seed: int) -> None:
    assert not problem(Program(seed), "cuda-sim")


def test_too_little_memory_is_told_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "TOTAL", 100_000)
    g = gw.Graph()
    x = g.placeholder("x", ("B",))
    with gw.Session(g, device="cuda-sim") as session:
        run = session.prepare(gw.exp(x).sum(), ["x"])
        assert run(np.zeros(1000)) == 1000.0
        with pytest.raises(
            MemoryLimitError, match=r"(?s)takes .* on device 'cuda-sim'.*checkpoint="
        ):
            run(np.zeros(100_000))
        assert run(np.zeros(1000)) == 1000.0


def test_plans_of_many_shapes_share_memory_which_is_let_go() -> None:
    g = gw.Graph()
    x, w = g.placeholder("x", ("B",)), g.variable("w", (64,))
    with gw.Session(g, device="cuda-sim") as session:
        for n in (100, 1000, 10):
            g.values["w"] = np.ones(64)
            assert session.run(gw.exp(x) * w[0], {"x": np.zeros(n)}).tolist() == [1.0] * n
        free, total = session.device.cuda.memory()
        held = 64 * 4 + session.device.arena_bytes  # the variable once, and no outgrown arena
        assert total - free == held
        assert session.plans[-1].profile({"x": np.zeros(10)}, repeats=2)
        session.release()
        assert session.run(gw.exp(x), {"x": [0.0]}).tolist() == [1.0]
        assert "triton" in session.plans[-1].kernels[0].texts("triton")
    with pytest.raises(GraphError, match="memory='none' are not for device 'cuda-sim'"):
        gw.Session(g, device="cuda-sim", memory="none")
