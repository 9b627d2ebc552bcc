"""What holds of every method there is; one more in ``methods/`` is held to it by its folder."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright import adapters
from gradwright.models import Decoder, DecoderConfig

CONFIG = DecoderConfig(
    vocabulary=9, width=8, layers=1, heads=2, inner=12, context=32, qkv_bias=True, norm="layer"
)
IDS = np.random.default_rng(0).integers(0, 9, (2, 6))
FEEDS = {"ids": IDS, "labels": IDS}
SMALL = {
    "AdaLoRA": {"init_r": 3, "target_r": 2, "total_step": 9},
    "BitFit": {},
    "Bottleneck": {"reduction_factor": 2},
    "HeadLoRA": {"r": 2, "heads": 2},
    "IA3": {"feedforward": "down"},
    "NormTuning": {},
    "PTuning": {"tokens": 2, "hidden": 4},
    "Prefix": {"tokens": 2},
    "Prompt": {"tokens": 2},
    "VeRA": {"r": 4},
}
"""Settings of those that are not of a rank 2."""


@pytest.fixture(params=sorted(adapters.METHODS))
def adapted(request):
    """A method in a decoder, all that it trains drawn."""
    model = Decoder(CONFIG)
    method = adapters.METHODS[request.param](**SMALL.get(request.param, {"r": 2}))
    made = adapters.add(model, method, "q|down" if "LoRA" in request.param else None)
    rng = np.random.default_rng(1)
    made.load_state({k: v + 0.3 * rng.standard_normal(v.shape) for k, v in made.state().items()})
    return model, made


def test_gradients_are_slopes_in_float64(adapted) -> None:
    model, made = adapted
    loss = model.loss if made.penalty is None else model.loss + made.penalty
    report = gw.gradient_check(model.graph, loss, FEEDS, wrt=made.parameters, max_per_param=2)
    assert report.passed, report


def test_only_it_is_trained(adapted) -> None:
    """A step moves its variables and no other of the model, and it says how many they are."""
    model, made = adapted
    own = {t.name for t in made.parameters}
    before = {v.name: model.graph.values[v.name].copy() for v in model.graph.variables}
    gw.Trainer(model.graph, model.loss, gw.optim.Adam(1e-2)).step(FEEDS)
    moved = {n for n, v in before.items() if not np.array_equal(v, model.graph.values[n])}
    assert moved & {n for n, _ in CONFIG.weights()} == own & {n for n, _ in CONFIG.weights()}
    assert own <= moved
    assert made.trainable.n_trained == sum(before[n].size for n in own)


def test_removed_the_model_is_what_it_was(adapted) -> None:
    """To the bit, and all of its weights are trained again."""
    model, made = adapted
    made.remove()
    other = Decoder(CONFIG)
    found, wanted = (
        gw.Session(m.graph, deterministic=True).run(m.logits, {"ids": IDS}) for m in (model, other)
    )
    assert [v.name for v in model.graph.trainable] == [v.name for v in other.graph.trainable]
    if not made.thawed:
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    "method", [adapters.LoHa(r=1), adapters.IA3(feedforward="w")], ids=lambda m: type(m).__name__
)
def test_behind_another_adapter_it_adds_what_it_adds_alone(method, bias) -> None:
    """Alone one product takes the place of the layer's; behind LoRA, LoRA's must not be lost."""
    rng = np.random.default_rng(2)
    g = gw.Graph()
    y = g.placeholder("x", (None, 4)) @ g.variable("w", (4, 3), init=rng.standard_normal((4, 3)))
    y = y + g.variable("b", (3,), init=rng.standard_normal(3)) if bias else gw.identity(y)
    first = adapters.add(g, adapters.LoRA(r=2), "w", name="first")
    second = adapters.add(g, method, "w", name="second")
    for one in (first, second):
        drawn = {k: v + rng.standard_normal(v.shape) for k, v in one.state().items()}
        one.load_state(drawn)
    feeds = {"x": rng.standard_normal((5, 4))}
    both = gw.Session(g).run(y, feeds)
    with first.disabled():
        of_second = gw.Session(g).run(y, feeds)
        with second.disabled():
            base = gw.Session(g).run(y, feeds)
    with second.disabled():
        of_first = gw.Session(g).run(y, feeds)
    assert min(np.abs(of_first - base).max(), np.abs(of_second - base).max()) > 0.1
    np.testing.assert_allclose(both - base, (of_first - base) + (of_second - base), 0, 1e-5)
