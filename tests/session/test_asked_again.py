"""What a graph was asked before is found again, and only as long as it means the same."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu.executor import LATER
from gradwright.errors import FeedError, GraphError


def graph() -> tuple[gw.Graph, gw.Tensor]:
    g = gw.Graph()
    x, w = g.placeholder("x", (None, 2)), g.variable("w", (2, 3), init=np.ones((2, 3)))
    return g, gw.nn.relu(x @ w, name="y")


ONE = {"x": np.ones((1, 2), np.float32)}


def test_values_edits_names_and_ops_count_from_the_next_call() -> None:
    g, y = graph()
    ask = {
        "output": lambda: float(g.output(ONE, "y")["y"][0, 0]),
        "predict": lambda: float(gw.predict(g, "y", ONE)["y"][0, 0]),
    }

    def both() -> set[float]:
        return {call() for call in ask.values() for _ in range(3)}

    assert both() == {2.0}
    g.values["w"] = np.full((2, 3), 2.0)
    assert both() == {4.0}
    with g.edit() as edit:
        edit.insert_after(y.node.inputs[0], lambda t: t * 10.0)
    assert both() == {40.0}
    g["y"].rename("old")
    gw.mul(g["old"], 2.0, name="y")
    assert both() == {80.0}
    g["w"].trainable = False
    assert both() == {80.0}
    g["x"].rename("other")
    for call in ask.values():
        with pytest.raises(FeedError, match=r"no placeholder|no tensor|not fed"):
            call()
    z = g.placeholder("x", (None, 2))
    gw.identity(z, name="z")
    assert g.output(ONE, "z")["z"].shape == gw.predict(g, "z", ONE)["z"].shape == (1, 2)


def test_a_redefined_op_takes_the_place_of_the_old_one() -> None:
    def define(factor: float) -> Any:
        @gw.register("asked/times")
        class Times(gw.Op):
            """A product with a number."""

            def infer(self, x: Any) -> Any:
                return x

            def forward(self, x: Any) -> Any:
                return np.float32(factor) * x

        return Times

    g = gw.Graph()
    x = g.placeholder("x", (None, 2))
    y = define(2.0)()(x, name="y")
    assert g.output(ONE, y)["y"][0, 0] == gw.predict(g, y, ONE)["y"][0, 0] == 2.0
    again = gw.Graph()
    z = define(3.0)()(again.placeholder("x", (None, 2)), name="y")
    assert again.output(ONE, z)["y"][0, 0] == gw.predict(again, z, ONE)["y"][0, 0] == 3.0


def test_output_goes_over_to_kernels_at_the_same_run_each_time() -> None:
    found = []
    for _ in range(2):
        g, y = graph()
        z = gw.tanh(y * 0.37, name="z")
        feeds = {"x": np.linspace(-1, 1, 200, dtype=np.float32).reshape(100, 2)}
        runs = [g.output(feeds, z)["z"].tobytes() for _ in range(LATER + 4)]
        assert len(set(runs[: LATER - 1])) == len(set(runs[LATER - 1 :])) == 1
        found.append(runs)
        assert g.output({"x": feeds["x"][:7]}, z)["z"].shape == (7, 3)  # another shape, anew
    assert found[0] == found[1]


def test_threads_and_ops_that_ask_their_own_graph_get_sessions_of_their_own() -> None:
    g, y = graph()
    inner = {"x": np.full((1, 2), 5.0, np.float32)}

    @gw.register("asked/inner")
    class Asks(gw.Op):
        """What asks the graph that it stands in."""

        def infer(self, x: Any) -> Any:
            return x

        def forward(self, x: Any) -> Any:
            return x + g.output(inner, y)["y"]

    z = Asks()(y, name="z")
    for _ in range(3):
        assert g.output(ONE, z)["z"][0, 0] == 12.0
    rows = [np.full((1, 2), i, np.float32) for i in range(40)]
    with ThreadPoolExecutor(4) as pool:
        sums = list(pool.map(lambda row: g.output({"x": row}, y)["y"].sum(), rows))
        more = list(pool.map(lambda row: gw.predict(g, y, {"x": row})["y"].sum(), rows))
    assert sums == more == [6.0 * i for i in range(40)]


def test_each_prediction_draws_what_the_first_did() -> None:
    g, y = graph()
    with g:
        noisy = y + gw.random.normal((3,))
    found = [gw.predict(m, noisy, ONE)[noisy.name] for m in (g, g, gw.Session(g))]
    assert found[0].tolist() == found[1].tolist() == found[2].tolist()


def test_errors_are_those_of_the_first_call() -> None:
    g, y = graph()
    for _ in range(2):
        assert g.output(ONE, y)["y"].shape == gw.predict(g, y, ONE)["y"].shape == (1, 3)
        for feeds in ({"x": np.ones((1, 3), "f")}, {}, {"x": [["a", "b"]]}):
            with pytest.raises(gw.errors.GradwrightError):
                g.output(feeds, y)
            with pytest.raises(gw.errors.GradwrightError):
                gw.predict(g, y, feeds)
        with pytest.raises(GraphError, match="no tensor"):
            g.output(ONE, ["y"])
        both = g.output({"x": ONE["x"], g["x"]: ONE["x"]}, y)["y"]  # one by name and as itself
        assert both.shape == (1, 3)


def test_results_are_the_caller_s_and_memory_of_large_runs_is_let_go() -> None:
    g, y = graph()
    first = g.output(ONE, y)["y"]
    first[:] = 7.0
    assert g.output(ONE, y)["y"][0, 0] == 2.0
    where = gw.nonzero(y)[0]  # as many rows as there are
    for n in (1, 2, 1):
        assert g.output({"x": np.ones((n, 2), np.float32)}, where)[where.name].shape == (3 * n,)
    large = {"x": np.ones((200_000, 2), np.float32)}
    for _ in range(2):
        assert g.output(large, y)["y"].shape == (200_000, 3)
        assert gw.predict(g, y, large, batch_size=200_000)["y"].shape == (200_000, 3)
    assert all(session.memory.held == 0 for session in g.idle.values())


def test_predictions_of_one_batch_are_those_of_several() -> None:
    g, y = graph()
    rows = np.random.default_rng(0).standard_normal((12, 2))
    for data in (
        {"x": rows},
        {"x": rows.astype("f")},
        {"x": rows.tolist()},
        {"x": rows, "t": rows},
    ):
        for model in (g, gw.Session(g), gw.Trainer(g, gw.sum(y), optimizer="sgd")):
            for outputs in ("y", y, [y], {"a": y, "b": "y"}):
                once = gw.predict(model, outputs, data)
                several = gw.predict(model, outputs, data, batch_size=5)
                assert once.keys() == several.keys()
                for name, array in once.items():
                    np.testing.assert_allclose(array, several[name], 1e-6)
                    assert array.flags.writeable and array.dtype == np.float32
        g, y = graph()
