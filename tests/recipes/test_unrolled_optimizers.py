"""Every optimizer takes the same steps to the bit, one by one or several in one plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from tests.support.sweeps import IS_WHOLE
from tests.train.test_optimizer_state import ALL

SLOW = gw.Group("v", optimizer=gw.optim.Lion(0.01), lr_multiplier=0.3)
SETTINGS: dict[str, dict[str, Any]] = {
    "clipped": {"clip_norm": 0.5},
    "decayed": {"weight_decay": 0.1, "ema": gw.EMA(0.9)},
    "in groups": {"groups": [SLOW], "l1": 0.01, "l2": 0.1},
    "skipping": {"nonfinite": "skip", "clip_tensor_norm": 0.1},
    "all": {
        "clip_norm": 0.5, "weight_decay": 0.1, "ema": gw.EMA(0.9), "swa": gw.SWA(),
        "groups": [SLOW],
    },
}  # fmt: skip


def trained(name: str, dtype: str, unroll: int, **settings: Any) -> dict[str, bytes]:
    """Return all numbers of a training of two epochs of six batches."""
    rng = np.random.default_rng(1)
    g = gw.Graph()
    x, t = g.placeholder("x", (None, 6), dtype), g.placeholder("t", (None,), "int64")
    w = g.variable("w", init=rng.standard_normal((6, 12)).astype(dtype))
    v = g.variable("v", init=rng.standard_normal((12, 3)).astype(dtype))
    h = x @ w if name == "muon" else x @ w + g.variable("b", (12,), dtype=dtype)
    loss = gw.loss.sparse_softmax_cross_entropy(t, gw.nn.gelu(h) @ v)
    trainer = gw.Trainer(g, loss, replace(ALL[name]), deterministic=True, seed=4, **settings)
    data = {"x": rng.standard_normal((48, 6)).astype(dtype), "t": rng.integers(0, 3, 48)}
    trainer.fit(data, batch_size=8, epochs=2, unroll=unroll, progress=False)
    state = {k: a for k, a in trainer.state_dict().items() if not k.endswith("seconds")}
    values = {n.name: trainer.values[n.name] for n in g.variables}
    return {k: np.asarray(a).tobytes() for k, a in {**state, **values}.items()}


PAIRS = [
    (name, settings)
    for i, name in enumerate(ALL)
    for settings in (SETTINGS if IS_WHOLE else (list(SETTINGS)[i % 4], "all"))
]


@pytest.mark.parametrize(("name", "settings"), PAIRS)
def test_steps_in_one_plan_are_single_ones_to_the_bit(name: str, settings: str) -> None:
    dtype = "float64" if settings == "all" else "float32"
    one, many = (trained(name, dtype, unroll, **SETTINGS[settings]) for unroll in (1, 4))
    assert one.keys() == many.keys()
    assert not [k for k in one if one[k] != many[k]]


def test_what_is_set_and_never_read_goes_with_single_steps() -> None:
    def trained(unroll: int) -> tuple[list[bytes], int]:
        rng = np.random.default_rng(1)
        g = gw.Graph()
        x = g.placeholder("x", (None, 6))
        w = g.variable("w", init=rng.standard_normal((6, 12)).astype("float32"))
        h = gw.tanh(x @ w * 1.1 + x @ w)
        g.update(g.variable("seen", (12,), trainable=False), gw.mean(h * 1.3 + h, axis=0))
        trainer = gw.Trainer(g, gw.mean(h * h), gw.optim.Nadam(), deterministic=True)
        trainer.session.listeners.append(runs := Runs())
        data = {"x": rng.standard_normal((32, 6)).astype("float32")}
        trainer.fit(data, batch_size=8, unroll=unroll, progress=False)
        return [trainer.values[n.name].tobytes() for n in g.variables], runs.count

    assert trained(4) == trained(1) == (trained(1)[0], 4)


class Runs(gw.Listener):
    """Counts the runs of a session that train."""

    def __init__(self) -> None:
        self.count = 0

    def run_started(self, event: Any) -> None:
        self.count += event.training
