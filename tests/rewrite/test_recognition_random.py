"""Random graphs with norms, activations and attention written out: the same with what is found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.rewrite import RULES
from tests.support.random_graphs import ALL, RandomGraph

WRITTEN = [n for n in RULES if any(w in n for w in ("norm", "gelu", "silu", "attention"))]
OPS = [cls for cls in ALL if cls.namespace in ("math", "nn", "base", "linalg")]


def wide(x: Any) -> Any:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs(seed: int) -> None:
    draw = np.random.default_rng(seed)
    ops = [OPS[i] for i in draw.integers(len(OPS), size=10)]
    rules = [WRITTEN[i] for i in draw.integers(len(WRITTEN), size=4)]
    made = RandomGraph(lambda n: int(draw.integers(n)), ops, rules)
    g = made.graph
    g.changed()  # gradients go
    names = [t.name for t in made.fetches if t.name in g and not t.spec.by_reference]
    feeds = {t.name: x for t, x in made.feeds.items()}
    with np.errstate(all="ignore"):
        before = g.output(feeds, *names)
        assert gw.recognize(g, outputs=names)
        after = g.output(feeds, *names)
    for name, x in before.items():
        assert (after[name].shape, after[name].dtype) == (x.shape, x.dtype)
        close = 3e-3 if x.dtype.itemsize < 4 else 1e-4
        size = np.abs(wide(x)[np.isfinite(wide(x))]).max(initial=1.0)
        np.testing.assert_allclose(wide(after[name]), wide(x), close, close * size)
