"""The guard device, replay and listeners; errors that name the user's node."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError, LoweringError, ShapeError
from tests.support.networks import squares

line = pytest.fixture(squares)
FEEDS = {"x": np.ones((4, 3)), "t": np.zeros(4)}


# -- devices, replay, listeners --------------------------------------------------------------------


def test_guard_names_a_lowering_that_writes_outside(line):
    g, *_ = line

    @gw.register("test/leaky")
    class Leaky(gw.Op):
        """Copy the input."""

        def infer(self, x):
            return x

        def forward(self, x):
            return x.copy()

    @gw.lowering("test/leaky", "guard")
    def leaky(op, ins, outs):
        def launch(xs, ys):
            ys[0][...] = xs[0]
            beyond = np.lib.stride_tricks.as_strided(ys[0].ravel(), (ys[0].size + 1,))
            beyond[-1] = 0.0

        return launch

    y = Leaky()(g["x"], name="copy")
    with (
        gw.Session(g, "guard") as session,
        pytest.raises(LoweringError, match="'copy' wrote outside"),
    ):
        session.run(y, {"x": np.ones((2, 3))})


def test_replay_names_the_first_node_that_differs(line):
    g, *_ = line

    @gw.register("test/too_large")
    class Wrong(gw.Op):
        """Copy the input."""

        def infer(self, x):
            return x

        def forward(self, x):
            return x.copy()

    @gw.lowering("test/too_large")
    def wrong(op, ins, outs):
        return lambda xs, ys: np.multiply(xs[0], 1.01, out=ys[0])

    y = gw.exp(Wrong()(g["x"], name="culprit"), name="after").sum()
    feeds = {"x": np.ones((2, 3))}
    gw.Session(g).run(y, feeds)
    message = r"differ at test/too_large 'culprit'[\s\S]*largest difference"
    with gw.Session(g, check="replay") as session, pytest.raises(LoweringError, match=message):
        session.run(y, feeds)


def test_listeners_see_runs_nodes_and_commits(line):
    g, _, _, w, loss = line
    seen = []

    class Watch(gw.Listener):
        wants_nodes = True

        def run_started(self, event):
            seen.append("start")

        def node_ran(self, event):
            seen.append(event.node.name)

        def run_finished(self, event):
            seen.append(("end", event.committed))

        def values_changed(self, versions):
            seen.append(versions)

    with gw.Session(g, listeners=[Watch()]) as session:
        session.run(loss, FEEDS, updates={w: w * 2.0})
    assert seen[0] == "start" and "matmul" in seen and seen.index("w") < seen.index("matmul")
    assert seen[-2:] == [("end", True), {"w": 1}]


# -- what fails, however it runs -------------------------------------------------------------------


def test_an_op_that_fails_on_constants_is_explained():
    class Fails(gw.Op):
        """Raise when run."""

        def infer(self, x):
            return x

        def forward(self, x):
            raise ValueError("no luck")

    g = gw.Graph()
    y = Fails()(g.constant([1.0]), name="culprit")
    with pytest.raises(
        LoweringError, match=r"'culprit' \(test_session_checks.py:\d+\)[\s\S]*no luck"
    ):
        gw.Session(g).run(y)


def test_composites_follow_the_mode_however_they_run():
    class Doubled(gw.Op):
        """Dropout, doubled."""

        def expand(self, rng, x):
            return gw.op.OPS["dropout"](p=0.5, stream=3)(rng, x) * 2.0

    class Listens(gw.Listener):
        wants_nodes = True

    g = gw.Graph()
    x = g.placeholder("x", (100,))
    y = Doubled()(g.rng, x)
    feeds = {"x": np.ones(100)}
    for training in (True, False):
        plain = gw.Session(g, check="replay").run(y, feeds, training=training, step=0)
        listened = gw.Session(g, listeners=[Listens()])
        assert np.array_equal(plain, listened.run(y, feeds, training=training, step=0))
        assert (plain == 0.0).any() == training
        stepper = gw.Stepper(g, [y], feeds, training=training)
        stepper.run()
        assert np.array_equal(stepper.results()[0], plain)


def test_guard_looks_into_branches():
    @gw.register("test/leaky_branch")
    class Leaky(gw.Op):
        """Copy the input."""

        def infer(self, x):
            return x

        def forward(self, x):
            return x.copy()

    @gw.lowering("test/leaky_branch", "guard")
    def leaky(op, ins, outs):
        def launch(xs, ys):
            ys[0][...] = xs[0]
            np.lib.stride_tricks.as_strided(ys[0], (ys[0].size + 1,))[-1] = 0.0

        return launch

    g = gw.Graph()
    x = g.placeholder("x", (3,))
    y = gw.cond(x.sum() > 0.0, lambda: Leaky()(x, name="inside"), lambda: x)
    with pytest.raises(LoweringError, match="'inside' wrote outside"):
        gw.Session(g, "guard").run(y, {"x": np.ones(3)})


class _Halved(gw.Op):
    """Three rows, halved."""

    def expand(self, x):
        return x.reshape(3, -1) * 0.5


def test_what_fails_inside_a_composite_names_the_users_node():
    g = gw.Graph()
    x = g.placeholder("x", ("B", 2))
    with g.scope("inner"):
        y = _Halved()(x)
    message = (
        r"'inner/_?halved' \(test_session_checks.py:\d+\)[\s\S]*inside, at reshape[\s\S]*4 elements"
    )
    with pytest.raises(ShapeError, match=message):
        gw.Session(g).run(y, {"x": np.ones((2, 2))})


@pytest.mark.parametrize("device", ["cpu", "guard"])
def test_a_forward_that_contradicts_infer_is_named(device):
    class Widens(gw.Op):
        """Return float64, whatever comes in."""

        def infer(self, x):
            return x

        def forward(self, x):
            return x.astype(np.float64)

    g = gw.Graph()
    y = Widens()(g.placeholder("x", (2,)), name="culprit")
    message = (
        r"'culprit' \(test_session_checks.py:\d+\): forward gave float64\[2\]\s+need: f32\[2\]"
    )
    with pytest.raises(LoweringError, match=message):
        gw.Session(g, device).run(y, {"x": np.ones(2)})


def test_replay_lets_right_plans_pass_where_the_written_form_would_lose():
    """Long sums of float32, and what a rule makes stable: the plain run is as good as the plan."""
    g = gw.Graph()
    x, p = g.placeholder("x", (None, 2)), g.placeholder("p", (None,), "float64")
    fetches = [gw.square(x).sum(0), gw.log(gw.nn.sigmoid(p)), gw.log(gw.exp(p).sum())]
    feeds = {"x": np.full((300_000, 2), 0.1, "f4"), "p": np.array([-800.0, 900.0])}
    with gw.Session(g, kernels="off", check="replay") as session:
        total, logs, top = session.run(fetches, feeds)
    np.testing.assert_allclose(total, 3000.0, rtol=1e-5)
    np.testing.assert_allclose(logs, [-800.0, 0.0])
    assert top == 900.0
    with gw.Session(g, check="replay", skip_rewrites=["log_sigmoid"]) as session:
        assert session.run(fetches[1], feeds)[0] == -np.inf


@pytest.mark.parametrize("fetch", [["y"], None, 3, gw.Graph()])
def test_output_names_a_fetch_that_is_no_tensor(fetch):
    g = gw.Graph()
    gw.exp(g.placeholder("x", (2,)), name="y")
    with pytest.raises(GraphError, match="is no tensor"):
        g.output({"x": [1.0, 2.0]}, fetch)
