"""Recurrent layers as machine code: against numpy in both directions, layouts and dtypes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import gradwright as gw
from gradwright.catalogue.recurrent.gru import Gru
from gradwright.catalogue.recurrent.lstm import Lstm
from gradwright.catalogue.recurrent.rnn import Rnn
from gradwright.native.compiler import available
from gradwright.plan.bound import Bound

pytestmark = pytest.mark.skipif(not available(), reason="llvmlite is not installed")

LAYERS = {
    "lstm": (Lstm, {}),
    "gru": (Gru, {"linear_before_reset": True}),
    "rnn": (Rnn, {}),
}
STATES = ("initial_h", "initial_c")
TOLERANCE = {"float64": 1e-10, "float32": 2e-5}


class Case:
    """A layer on random inputs, and a loss that every result goes into."""

    def __init__(self, kind, given=(), shape=(5, 3, 4, 6), dtype="float64", results=None, **attrs):
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
        }
        self.graph = gw.Graph()
        self.feeds = {
            k: (rng.standard_normal(s) * 0.5).astype(dtype)
            for k, s in shapes.items()
            if s is not None and (k in "xwr" or k in given)
        }
        made = {k: self.graph.placeholder(k, a.shape, dtype) for k, a in self.feeds.items()}
        self.inputs = made
        ys = getattr(gw.rnn, kind)(*(made.get(k) for k in shapes), **attrs)
        self.results = list(ys)
        loss = 0.0
        for k in range(len(ys)) if results is None else results:
            weights = self.graph.constant(rng.standard_normal(ys[k].shape).astype(dtype))
            loss = loss + (ys[k] * weights).sum()
        self.loss = loss
        self.dtype = dtype

    def run(self, kernels, fetches, times=2):
        with gw.Session(self.graph, kernels=kernels) as session:
            for k in reversed(range(times)):
                feeds = {name: a * (1 + k) for name, a in self.feeds.items()}
                found = session.run(fetches, feeds)
            self.segments = [p.segment for plan in session.plan_cache.values() for p in plan.parts]
        return found

    def check(self, wrt=None):
        """Compare machine code with numpy; return how many steps of machine code there are."""
        wrt = list(self.inputs) if wrt is None else wrt
        of = gw.gradients(self.loss, [self.inputs[k] for k in wrt])
        fetches = [*self.results, *of]
        plain = self.run("off", fetches)
        found = self.run("wait", fetches)
        names = [*(f"result {k}" for k in range(len(self.results))), *wrt]
        tolerance = TOLERANCE[self.dtype]
        for name, a, b in zip(names, found, plain, strict=True):
            assert a.dtype == b.dtype and a.shape == b.shape
            np.testing.assert_allclose(a, b, tolerance, tolerance * np.abs(b).max(), err_msg=name)

    def steps_of_python(self):
        """Return the names of the ops that run as calls of Python."""
        [segment] = self.segments
        assert isinstance(segment, Bound)
        binder = segment._binder
        calls = binder.body
        return [
            binder.program.instrs[step].op.name
            for call, step in zip(*calls, strict=True)
            if hasattr(call, "func") and getattr(call.func, "__name__", "") == "_forward"
        ]


WAYS = [
    {"direction": d, "layout": n}
    for d, n in itertools.product(("forward", "reverse", "bidirectional"), (0, 1))
]


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("given", [(), ("b",), ("b", *STATES)])
@pytest.mark.parametrize("way", WAYS, ids=lambda w: f"{w['direction']}{w['layout']}")
def test_every_way_through_time_gives_the_numbers_of_numpy(kind, given, way):
    case = Case(kind, given, **way)
    case.check()
    assert case.steps_of_python() == []


@pytest.mark.parametrize("kind", LAYERS)
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(
    "shape", [(1, 3, 4, 6), (5, 1, 4, 6), (5, 3, 1, 6), (5, 3, 4, 1), (1, 1, 1, 1), (7, 32, 9, 48)]
)
def test_every_size_gives_the_numbers_of_numpy(kind, dtype, shape):
    case = Case(kind, ("b", *STATES), shape, dtype)
    case.check()
    assert case.steps_of_python() == []
    Case(kind, (), shape, dtype, direction="bidirectional").check()


@pytest.mark.parametrize("kind", LAYERS)
def test_any_results_and_any_inputs_may_take_part(kind):
    for k in range(2):
        case = Case(kind, ("b", *STATES), results=[k])
        case.check()
        assert case.steps_of_python() == []
    for wrt in (["x"], ["w"], ["r"], ["b"], ["initial_h"], ["r", "x"]):
        Case(kind, ("b", *STATES), layout=1).check(wrt)
