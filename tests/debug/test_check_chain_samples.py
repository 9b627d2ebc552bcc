"""Two small samples of every op: the chain's verdicts beside those of differences of the loss.

A whole sweep (``tests.support.sweeps``) takes all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.graph import Source
from gradwright.op import OPS, Op
from gradwright.ops.core.pullback import Pullback
from gradwright.ops.loading import load as load_ops
from gradwright.testing import cases, samples
from tests.support.sweeps import spread

BEYOND = ("entropy", "log_entropy", "shannon_entropy", "root_sum_squares")
"""Sampled where differences cannot tell: 0·log 0 has a value on one side only, and at 1e-200 their
steps are far beyond a norm's kink at 0."""
MOST = 6
"""Elements of a sample; larger ones have the same kinds of dependence."""
load_ops()
CLASSES = [
    cls
    for name, cls in sorted(OPS.items())
    if "/" not in name and not issubclass(cls, Source) and cls is not Pullback
    if name not in BEYOND
]


def graphs(cls: type[Op]) -> Iterator[tuple[gw.Graph, gw.Tensor]]:
    """Yield a loss over the floating outputs of each small sample, its inputs as variables."""
    for sample in samples(cls):
        for op, xs in cases(cls, sample):
            floats = [x for x in xs if x is not None and np.asarray(x).dtype.kind == "f"]
            if not 0 < sum(np.asarray(x).size for x in floats) <= MOST:
                continue
            if any(x is not None and np.asarray(x).dtype.kind not in "biuf" for x in xs):
                continue
            g = gw.Graph()
            ins = [None if x is None else source(g, i, np.asarray(x)) for i, x in enumerate(xs)]
            g.add(op, ins)
            ys = [y for y in g.latest.public if y.dtype == np.float64]
            if ys:
                loss = sum(((y * 0.7 + gw.sin(y)).sum() for y in ys[1:]), gw.sin(ys[0]).sum())
                yield g, loss


def source(g: gw.Graph, i: int, x: np.ndarray[Any, Any]) -> gw.Tensor:
    if x.dtype.kind == "f":
        return g.variable(f"x{i}", init=x.astype(np.float64), dtype="float64")
    return g.constant(x)


@pytest.mark.parametrize("part", range(8))
def test_verdicts_are_those_of_differences(part: int) -> None:
    checked, wrong = 0, []
    for cls in CLASSES[part::8]:
        for g, loss in spread([*graphs(cls)], 2):
            try:
                slow = gw.gradient_check(g, loss, method="differences")
            except Exception as error:  # an op that does not take float64
                with pytest.raises(type(error)):
                    gw.gradient_check(g, loss)
                continue
            fast = gw.gradient_check(g, loss)
            for name, p in fast.parameters.items():
                checked += p.checked
                if (p.verdicts != slow.parameters[name].verdicts).any():
                    wrong.append((cls.name, name, p.verdicts, slow.parameters[name].verdicts))
            if [n.name for n in fast.blame] != [n.name for n in slow.blame]:
                wrong.append((cls.name, fast.blame, slow.blame))
    assert not wrong and checked > 100
