"""Recurrent layers as machine code: against numpy in all directions, layouts and dtypes."""

from __future__ import annotations

import gc
import itertools
import tracemalloc

import numpy as np
import pytest

import gradwright as gw
from gradwright.cpu.call import Native
from gradwright.cpu.llvm.blas import blas
from gradwright.cpu.llvm.compiler import available
from gradwright.cpu.llvm.gemm import bind_matmul
from gradwright.cpu.llvm.recurrent import layer
from gradwright.cpu.llvm.steps import Steps
from gradwright.ops.recurrent.gru import Gru
from gradwright.ops.recurrent.layer import RecurrentGrad
from gradwright.ops.recurrent.lstm import Lstm
from gradwright.ops.recurrent.rnn import Rnn
from gradwright.program.declined import DeclinedError
from gradwright.program.lowering import find_launch
from gradwright.spec import spec_of
from tests.cpu.sketches import run_all

pytestmark = pytest.mark.skipif(not available(), reason="llvmlite is not installed")
multiplied = pytest.mark.skipif(blas() is None, reason="numpy has another BLAS: layers stay there")

LAYERS = {
    "lstm": (Lstm, {}),
    "gru": (Gru, {"linear_before_reset": True}),
    "reset gru": (Gru, {}),
    "rnn": (Rnn, {}),
}
STATES = ("initial_h", "initial_c")
TOLERANCE = {"float64": 1e-10, "float32": 1e-5}
FORWARDS: set[str] = set()


class Case:
    """A layer on random inputs, and a loss that results go into: all, or those that are named.

    ``turned`` inputs reach the layer as views whose axes are in another order in memory.
    """

    def __init__(
        self,
        kind,
        given=(),
        shape=(5, 3, 4, 6),
        dtype="float64",
        results=None,
        turned=(),
        lengths=None,
        **attrs,
    ):
        cls, usual = LAYERS[kind]
        attrs = {**usual, **attrs}
        op, (t, b, width, size) = cls(**attrs), shape
        rng = np.random.default_rng(sum(shape))
        n, gates = op.n_directions, cls.n_gates * size
        state = (b, n, size) if op.layout else (n, b, size)
        shapes = {
            "x": (b, t, width) if op.layout else (t, b, width),
            "w": (n, gates, width),
            "r": (n, gates, size),
            "b": (n, 2 * gates),
            "lengths": None,
            **{f"initial_{s}": state for s in cls.states},
            "p": (n, 3 * size),
        }
        self.graph, self.dtype = gw.Graph(), dtype
        self.feeds, self.inputs, layer = {}, {}, {}
        for k, s in shapes.items():
            if s is None or not (k in "xwr" or k in given):
                continue
            s = s[::-1] if k in turned else s
            self.feeds[k] = (rng.standard_normal(s) * 0.5).astype(dtype)
            self.inputs[k] = self.graph.placeholder(k, s, dtype)
            layer[k] = self.inputs[k].T if k in turned else self.inputs[k]
        if lengths is not None:
            layer["lengths"] = self.graph.constant(np.array(lengths))
        names = [p.name for p in cls.inputs]
        ys = getattr(gw.rnn, cls.name)(*(layer.get(k) for k in names), **attrs)
        self.results = list(ys)
        self.loss = 0.0
        for k in range(len(ys)) if results is None else results:
            weights = self.graph.constant(rng.standard_normal(ys[k].shape).astype(dtype))
            self.loss = self.loss + (ys[k] * weights).sum()

    def run(self, kernels, fetches, factors=(2, 1), **how):
        """Run on several feeds; return the last results."""
        with gw.Session(self.graph, kernels=kernels, **how) as session:
            for factor in factors:
                found = session.run(fetches, {k: a * factor for k, a in self.feeds.items()})
        return found

    def check(self, wrt=None):
        """Compare kernels with numpy; return those of the layer's ops that run on numpy anyway."""
        wrt = list(self.inputs) if wrt is None else wrt
        of = gw.gradients(self.loss, [self.inputs[k] for k in wrt])
        plain = self.run("off", [*self.results, *of])
        FORWARDS.clear()
        found = self.run("wait", [*self.results, *of])
        ran = set(FORWARDS)
        names = [*(f"result {k}" for k in range(len(self.results))), *wrt]
        tolerance = TOLERANCE[self.dtype]
        for name, a, b in zip(names, found, plain, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            size = np.abs(b).max(initial=0)
            np.testing.assert_allclose(a, b, tolerance, tolerance * size, err_msg=name)
        return ran


@pytest.fixture(autouse=True)
def forwards(monkeypatch):
    """Collect the names of the ops whose ``forward`` runs."""
    FORWARDS.clear()
    for cls in (Lstm, Gru, Rnn, RecurrentGrad):

        def forward(self, *xs, plain=cls.forward):
            FORWARDS.add(self.name)
            return plain(self, *xs)

        monkeypatch.setattr(cls, "forward", forward)


WAYS = [
    {"direction": d, "layout": n}
    for d, n in itertools.product(("forward", "reverse", "bidirectional"), (0, 1))
]
GIVEN = [(), ("b",), ("b", *STATES)]


# -- the same numbers -----------------------------------------------------------------------------


@multiplied
@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize(("way", "given"), list(zip(WAYS, 2 * GIVEN, strict=True)))
def test_every_way_through_time_gives_the_numbers_of_numpy(kind, given, way):
    assert not Case(kind, given, **way).check()


@multiplied
@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        ("float64", (1, 3, 4, 6)),
        ("float32", (5, 1, 4, 6)),
        ("float64", (5, 3, 1, 6)),
        ("float32", (5, 5, 4, 1)),
        ("float64", (1, 1, 1, 1)),
        ("float32", (13, 3, 4, 6)),  # x meets w for ten steps at once
        ("float64", (13, 5, 4, 6)),
        ("float32", (7, 32, 9, 48)),
        ("float32", (4, 66, 9, 5)),
        ("float64", (2, 4, 140, 130)),  # sums of more than 128
    ],
)
def test_every_size_gives_the_numbers_of_numpy(kind, dtype, shape):
    assert not Case(kind, ("b", *STATES), shape, dtype).check()
    assert not Case(kind, (), shape, dtype, direction="bidirectional").check()


@multiplied
@pytest.mark.parametrize("kind", LAYERS)
def test_any_results_and_any_inputs_may_take_part(kind):
    for k in range(2):
        assert not Case(kind, ("b", *STATES), results=[k]).check()
    for wrt in (["x"], ["w"], ["r"], ["b"], ["initial_h"], ["r", "x"]):
        assert not Case(kind, ("b", *STATES), layout=1).check(wrt)


@multiplied
@pytest.mark.parametrize("kind", LAYERS)
def test_inputs_may_lie_in_memory_in_any_order(kind):
    case = Case(kind, ("b", *STATES), turned=("x", "w", "r", "b", *STATES), layout=1)
    assert not case.check()


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("how", [{"clip": 0.5}, {"lengths": [5, 0, 2]}, {"shape": (5, 3, 0, 6)}])
def test_what_machine_code_does_not_take_stays_with_numpy(kind, how):
    case = Case(kind, ("b",), direction="bidirectional", **how)
    assert case.check() == {case.results[0].node.op.name, "recurrent_grad"}


@pytest.mark.parametrize("how", [{"given": ("b", "p")}, {"input_forget": True}])
def test_peepholes_and_coupled_gates_stay_with_numpy(how):
    assert Case("lstm", **how).check() == {"lstm", "recurrent_grad"}


@multiplied
@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize(
    ("way", "batch"), [("reverse", 13), ("bidirectional", 13), ("bidirectional", 2)]
)
def test_threads_share_rows_and_directions_to_the_bit(kind, way, batch):
    case = Case(kind, ("b", *STATES), (5, batch, 4, 20), "float32", direction=way)
    grads = gw.gradients(case.loss, [case.inputs[k] for k in "xwrb"])
    for node in (case.results[0].node, grads[0].node):
        given = [t for t in node.inputs if t is not None]
        arrays = dict(zip(given, case.run("off", given), strict=True))
        xs = [None if t is None else arrays[t] for t in node.inputs]
        ys = [np.empty(y.shape, y.dtype) for y in node.outputs]
        ins = [None if x is None else spec_of(x) for x in xs]
        calls = find_launch(node.op, "cpu", ins, [spec_of(y) for y in ys]).bind(xs, ys)
        assert any(callable(call.cut) for call in calls)
        run_all(calls)
        whole = [y.copy() for y in ys]
        for n in (2, 3):
            run_all([p for c in calls for p in (callable(c.cut) and c.cut(n)) or [c]])
            for a, b in zip(ys, whole, strict=True):
                np.testing.assert_array_equal(a, b)
        assert_apart(next(c.cut(2) for c in calls if callable(c.cut)))


def assert_apart(pieces):
    """Hold that no two pieces write to the same place, whether they meet there or not."""
    rng, written = np.random.default_rng(0), 0
    own = [*{id(x): x for piece in pieces for x in scratch(piece.held)}.values()]
    assert len(pieces) > 1 and own
    for piece in pieces:
        for x in own:
            x[...] = rng.integers(0, 256, x.shape, np.uint8)
        before = np.concatenate(own)
        run_all([piece])
        now = before != np.concatenate(own)
        assert not (now & written).any()
        written = now | written


def scratch(held):
    """Yield the memory in what calls hold."""
    if isinstance(held, np.ndarray) and held.dtype == np.uint8:
        yield held
    elif isinstance(held, tuple | list):
        for part in held:
            yield from scratch(part)


@multiplied
def test_steps_are_a_loop_where_rows_are_cut_and_else_limited(monkeypatch):
    monkeypatch.setattr(layer, "MAX_STEPS", 4)
    assert Case("lstm").check() == {"lstm", "recurrent_grad"}
    assert not Case("lstm", shape=(5, 4, 4, 6)).check()


@multiplied
def test_activations_are_the_usual_ones_by_any_spelling():
    assert not Case("lstm", activations=("Sigmoid", "Tanh", "TANH")).check()
    assert Case("rnn", activations=("Relu",)).check() == {"rnn", "recurrent_grad"}


def test_gates_may_have_cotangents(rng):
    """Those that the block returns: the layer is machine code, its gradient is not."""
    shapes = {"x": (4, 3, 2), "w": (12, 2), "r": (12, 3), "b": (24,)}
    feeds = {k: rng.standard_normal(s) for k, s in shapes.items()}
    g = gw.Graph()
    xs = [g.placeholder(k, s, "float64") for k, s in shapes.items()]
    found = gw.rnn.lstm_block(*xs)
    fetches = gw.gradients(sum((y * y).sum() for y in found), xs)
    plain, fast = (gw.Session(g, kernels=k).run(fetches, feeds) for k in ("off", "wait"))
    for a, b in zip(fast, plain, strict=True):
        np.testing.assert_allclose(a, b, 1e-10, 1e-10)


# -- what is not computed -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", LAYERS)
def test_only_cotangents_that_are_wanted_are_made(kind):
    case = Case(kind, ("b", *STATES))
    [dr] = gw.gradients(case.loss, [case.inputs["r"]])
    assert len(dr.node.outputs) == 1 and dr.node.op.names() == ["r"]


@pytest.mark.parametrize("kind", LAYERS)
def test_gradients_of_some_inputs_have_gradients(kind):
    """∂/∂w Σ (∂loss/∂r)², against finite differences."""
    case = Case(kind, ("b",), (3, 2, 2, 2))
    dr, _ = gw.gradients(case.loss, [case.inputs["r"], case.inputs["b"]])
    total = (dr * dr).sum()
    [exact] = gw.gradients(total, [case.inputs["w"]])
    feeds, h = case.feeds, 1e-5
    with gw.Session(case.graph, kernels="off") as session:
        [found] = session.run([exact], feeds)
        w = feeds["w"]
        for place in np.ndindex(w.shape):
            ends = []
            for sign in (1, -1):
                moved = w.copy()
                moved[place] += sign * h
                [end] = session.run([total], {**feeds, "w": moved})
                ends.append(float(end))
            assert (ends[0] - ends[1]) / (2 * h) == pytest.approx(found[place], rel=1e-5, abs=1e-7)


@multiplied
@pytest.mark.parametrize("kind", LAYERS)
def test_a_steady_step_allocates_no_array(kind):
    case = Case(kind, ("b",), (12, 8, 6, 10), "float32")
    gradients = gw.gradients(case.loss, [case.inputs[k] for k in "wrb"])
    size = sum((d * d).sum() for d in gradients)
    with gw.Session(case.graph, kernels="wait") as session:
        run = session.prepare([size], {k: spec_of(a) for k, a in case.feeds.items()})
        for _ in range(3):
            run(case.feeds)
        gc.collect()
        tracemalloc.start()
        try:
            run(case.feeds)
            tracemalloc.reset_peak()
            base = tracemalloc.get_traced_memory()[0]
            for _ in range(5):
                run(case.feeds)
            peak = tracemalloc.get_traced_memory()[1] - base
        finally:
            tracemalloc.stop()
    assert peak < 3_000


# -- steps ----------------------------------------------------------------------------------------


@multiplied
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    "shapes", [((3, 4), (4, 5)), ((3, 4), (4, 1)), ((1, 4), (4, 5)), ((2, 3, 4), (2, 4, 5))]
)
def test_products_may_be_added(dtype, shapes, rng):
    a, b = (rng.standard_normal(s).astype(dtype) for s in shapes)
    y = rng.standard_normal((a @ b).shape).astype(dtype)
    expected = y + a @ b
    run_all(bind_matmul([a, b], [y], adds=True))
    np.testing.assert_allclose(y, expected, 1e-6, 1e-6)


def test_steps_name_the_operands_that_they_lie_in(rng):
    """Parts of operands move with them; scratch does not."""
    x, y = rng.standard_normal((4, 3, 2)), np.zeros((4, 3, 2))
    steps = Steps([None, x, y])
    own = steps.scratch((3, 2), x.dtype)
    for t in range(4):
        steps.copy(x[3 - t, ::-1], own)
        steps.copy(own, y[t])
    assert [[n for _, n in call.slots] for call in steps.calls] == [[1], [2]] * 4
    run_all(steps.calls)
    np.testing.assert_array_equal(y, x[::-1, ::-1])


@multiplied
def test_turns_share_their_scratch(rng):
    """What moves from turn to turn are operands: long sums have parts in memory of their own."""
    x, w = (rng.standard_normal(s).astype("f4") for s in ((5, 2, 2100), (2100, 3)))
    y = np.empty((5, 2, 3), "f4")
    steps = Steps([x, w, y])
    steps.repeat(range(4), lambda t: steps.product(x[t], w, y[t]))
    steps.product(x[4], w, y[4])
    run_all(steps.calls)
    np.testing.assert_allclose(y, x @ w, 1e-4, 1e-4)


def test_steps_decline_what_blas_cannot_read(rng):
    x = rng.standard_normal((4, 4))
    with pytest.raises(DeclinedError):
        Steps([x]).product(x[::2, ::2], x[:2, :2], np.empty((2, 2)))


def test_halves_and_empty_batches_are_declined(rng):
    x, w, r = Lstm.sample(rng).inputs
    for inputs in ([v.astype("float16") for v in (x, w, r)], [x[:, :0], w, r]):
        ins = [*inputs, *[None] * 5]
        outs = Lstm().forward(*ins)
        specs = [None if v is None else spec_of(v) for v in ins], [spec_of(v) for v in outs]
        found = find_launch(Lstm(), "cpu", *specs)
        assert found is None or (isinstance(found, Native) and found.bind(ins, outs) is None)
