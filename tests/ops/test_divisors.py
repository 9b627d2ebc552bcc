"""What a mean says that it divides by: parts of a batch, weighed by it, make the whole."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.op import OPS

MEANS = ("mean_by_weight", "mean_by_nonzero_weight_count")
JOINED = {
    "contrastive": "each row is compared with all others of its batch",
}
"""Losses of which parts do not make the whole, and why."""


def losses():
    for name in dir(gw.loss):
        getattr(gw.loss, name)  # defines it
    return sorted(
        name for name, cls in OPS.items() if cls.namespace == "loss" and "reduction" in cls.attrs
    )


def measured(op, inputs):
    """Return a loss and what it divides by."""
    g = gw.Graph()
    xs = [None if x is None else g.constant(x) for x in inputs]
    found = g.output({}, op(*xs, name="loss"), op.divisor(*xs))
    return [float(value) for value in found.values()]


def cut(inputs, n, rows):
    return [x if x is None or not x.ndim or len(x) != n else x[rows] for x in inputs]


@pytest.mark.parametrize("name", losses())
def test_parts_of_a_batch_weighed_by_what_they_divide_by_make_the_whole(name, rng):
    tried = 0
    for sample in OPS[name].samples(rng):
        for reduction in MEANS:
            op = OPS[name](**{**sample.attrs, "reduction": reduction})
            inputs = [None if x is None else np.asarray(x) for x in sample.inputs]
            n = len(inputs[1]) if inputs[1].ndim else 0
            if op.attributes().get("axis", -1) == 0 or n < 2 or name in JOINED:
                continue
            whole, divisor = measured(op, inputs)
            parts = [measured(op, cut(inputs, n, rows)) for rows in (slice(1), slice(1, n))]
            assert divisor == pytest.approx(sum(d for _, d in parts), rel=1e-6)
            if divisor:
                joined = sum(value * d for value, d in parts if d) / divisor
                assert joined == pytest.approx(whole, rel=1e-6)
                tried += 1
    assert tried or name in JOINED


@pytest.mark.parametrize("reduction", ["sum", "none"])
def test_what_is_no_mean_divides_by_nothing(reduction):
    op = OPS["mean_squared_error"](reduction=reduction)
    g = gw.Graph()
    assert op.divisor(g.constant([1.0]), g.constant([2.0])) is None
    assert OPS["exp"]().divisor(g.constant([1.0])) is None


def test_a_mean_divides_by_the_number_of_its_elements():
    g = gw.Graph()
    x = g.constant(np.zeros((2, 3, 4)))
    for axis, count in ((None, 24), (1, 3), ((0, 2), 8)):
        op = OPS["mean"](axis=axis)
        assert op.divisor(x).eval() == count
