"""Explanations of single ops of all kinds: they agree with the gradient, and have a cause."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.op import OPS, Op
from gradwright.ops.loading import load

load()
EVERY = 11
"""Of so many ops one is tried, on its first sample: all of them take 20 s."""
NARROW = {"scaled_matmul"}
"""Ops that take floats of 8 bits alone, which no variable has."""
OURS = {n: op for n, op in OPS.items() if op.__module__.startswith("gradwright.")}
NAMES = [
    n
    for n in sorted(OURS.keys() - NARROW)[::EVERY]
    if OURS[n].samples.__func__ is not Op.samples.__func__
]


@pytest.mark.parametrize("name", sorted({*NAMES, "quantize_fp8", "fake_cast", "fp8_matmul"}))
def test_an_op(name: str) -> None:
    sample = next(iter(OPS[name].samples(np.random.default_rng(0))), None)
    if sample is None or any(np.asarray(a).dtype.kind in "OT" for a in sample.inputs):
        return
    g = gw.Graph()
    xs = [
        None if a is None
        else g.variable(f"v{i}", init=a.astype("f8")) if a.dtype.kind == "f"
        else g.constant(a)
        for i, a in enumerate(map(np.asarray, sample.inputs))
    ]  # fmt: skip
    made = OPS[name](**sample.attrs)(*xs) if xs else None
    ys = made if isinstance(made, tuple) else (made,)
    parts = [gw.sin(y).sum() for y in ys if y is not None and y.dtype.kind == "f"]
    if not parts:
        return
    loss = gw.mul(sum(parts[1:], parts[0]), 1.0, name="the_loss")
    for parameter in (x for x in xs if x is not None and x.kind == "variable"):
        found = gw.explain_gradient(g, loss, parameter)
        assert found.causes or found.verdict == "ordinary"
        try:
            (slope,) = gw.gradients(loss, [parameter], unreachable="zero")
        except gw.errors.GradientError:
            assert found.verdict in ("zero", "unreachable")
            continue
        with gw.Session(g) as session:
            norm = np.linalg.norm(session.run(slope, training=True))
        expected = 0.0 if found.verdict == "unreachable" else found.norm
        np.testing.assert_allclose(expected, norm, rtol=1e-6, atol=1e-9)
