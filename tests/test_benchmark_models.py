"""The models of the engine benchmark learn, agree with other libraries, and are timed as said."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

import gradwright as gw
from tests.benchmarks import check_models, checking, onnx_models
from tests.benchmarks import onnx as onnx_race
from tests.benchmarks.engine import report
from tests.benchmarks.engine.allocations import count_allocations
from tests.benchmarks.engine.models import MODELS
from tests.benchmarks.engine.process import Process
from tests.benchmarks.engine.race import Result, Side, geometric_mean
from tests.support.sweeps import spread

STEPS = 3
ROWS = [row for row in MODELS if row not in ("resnet", "mobilenet")]
"""Deep convolutions take minutes here; the race itself compares their losses."""


@pytest.mark.parametrize("row", ROWS)
def test_a_model_learns(row):
    model = MODELS[row]()
    trainer, batch = model.trainer(), model.batch()
    start = {k: trainer.graph.values[k].copy() for k in model.weights()}
    records = [trainer.step(batch).metrics for _ in range(STEPS)]
    losses = [r["loss"] for r in records]
    assert all(np.isfinite(r["grad_norm"]) and r["grad_norm"] > 0 for r in records)
    assert losses[-1] < losses[0]
    for name, before in start.items():
        after = trainer.graph.values[name]
        assert np.isfinite(after).all(), name
        assert np.array_equal(before, after) != model.is_trained(name), name


@pytest.mark.parametrize("row", spread(ROWS, 5))
def test_gradients_agree_with_jax(jax: ModuleType, row: str) -> None:
    model = MODELS[row]()
    weights, batch = model.weights(), model.batch()
    rng = np.random.default_rng(2)
    for name in weights:  # where a factor of an adapter is zero, the other has no gradient
        if name.endswith("_b"):
            weights[name] = rng.standard_normal(weights[name].shape).astype(np.float32) * 0.05
    g, loss = model.graph()
    trained = {k: a for k, a in weights.items() if model.is_trained(k)}
    for name, array in weights.items():
        g.values[name] = array
    with gw.Session(g) as session:
        found, *slopes = session.run(
            [loss, *gw.gradients(loss, [g[k] for k in trained])], batch, training=True
        )
    expected, theirs = jax.value_and_grad(lambda p: model.jax({**weights, **p}, batch))(trained)
    np.testing.assert_allclose(found, expected, 1e-5)
    for name, slope in zip(trained, slopes, strict=True):
        want = np.asarray(theirs[name])
        np.testing.assert_allclose(slope, want, 1e-3, 1e-4 * np.abs(want).max(), err_msg=name)


@pytest.mark.parametrize("row", ROWS)
def test_first_losses_agree_with_torch(torch: ModuleType, row: str) -> None:
    model = MODELS[row]()
    for name in model.torch_needs:
        pytest.importorskip(name, reason=f"no {name}: pip install -e '.[bench]'")
    loss_of, trained = model.torch_model()
    optimizer = getattr(torch.optim, model.optimizer)(trained, lr=model.rate)
    trainer, batch = model.trainer(), model.batch()
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        found = trainer.step(batch).metrics["loss"]
        np.testing.assert_allclose(found, loss.item(), 1e-5)


def test_llama_trains_the_adapters_alone():
    model = MODELS["g"]()
    sizes = {k: a.size for k, a in model.weights().items()}
    assert sum(sizes.values()) == 4_741_376
    assert sum(n for k, n in sizes.items() if model.is_trained(k)) == 32_768


def test_a_peer_answers_from_its_own_process():
    process = Process("ours", "a", 1, [0])
    try:
        by_trainer, prepared = process.ask("losses").values()
        assert by_trainer == prepared == sorted(prepared, reverse=True)
        assert len(prepared) == 5
        assert process.ask("run", steps=2).keys() == {"wall", "cpu", "others"}
        with pytest.raises(RuntimeError, match=r"ours: .*no_such_command"):
            process.ask("no_such_command")
    finally:
        process.close()


def test_ratios_are_medians_of_rounds():
    result = Result(
        "e",
        "transformer",
        2,
        {
            "ours": Side("step", [1.0, 2.0, 4.0], [1.0, 1.0, 1.0]),
            "torch": Side("fused Adam", [1.5, 3.0, 2.0], [2.0, 3.0, 1.0]),
            "compile": Side(trouble="not installed: torch"),
            "jax": Side("jit", [1.2, 2.0, 4.0], [1.0, 1.0, 1.0]),
        },
    )
    assert result.ratio("torch") == 1.5
    assert result.ratio("torch", "cpu") == 2.0
    assert result.ratio("compile") is None
    assert result.best(["compile", "jax"]) == 1.0
    assert report.aim_of(result) == 1.15
    line = report.line(result, ["torch", "compile", "jax"])
    assert "1.50x +1.15" in line
    assert " not installed " in line
    result.clock = "cpu"
    assert result.ratio("torch") == 2.0
    assert not result.is_disturbed
    result.sides["jax"].others = [0.0, 0.2, 0.3]
    assert result.is_disturbed
    assert report.line(result, ["torch"]).endswith("disturbed")
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)


def test_allocations_that_are_freed_at_once_are_counted():
    a = np.ones(1000, np.float32)
    counter = count_allocations()
    with counter.counted():
        total = (a + 1).sum()
        np.add(a, 1, out=a)
        b = np.zeros((100, 10))
        c = np.empty(3)
    d = np.empty(5000)
    assert counter.above(1000) == [8000, 4000]
    assert (total, b.sum(), c.size, d.size) == (2000, 0, 3, 5000)


@pytest.mark.parametrize("name", check_models.MODELS)
def test_checked_models_are_the_same_in_torch(torch: ModuleType, name: str) -> None:
    model = check_models.MODELS[name]()
    g, loss = model.graph()
    for variable, value in model.parameters.items():
        assert g.values[variable].tolist() == value.tolist()
    slopes = gw.gradients(loss, [g[k] for k in model.parameters])
    found, *slopes = gw.Session(g).run([loss, *slopes], model.data)
    function, leaves = model.torch()
    value = function(*leaves)
    value.backward()
    np.testing.assert_allclose(found, value.item(), 1e-5)
    for leaf, slope in zip(leaves, slopes, strict=True):
        top = leaf.grad.abs().max().item()
        np.testing.assert_allclose(slope, leaf.grad.numpy(), 1e-3, 1e-4 * top)


@pytest.mark.parametrize("name", ["PPO loss", "CNN"])
def test_fast_and_slow_checks_say_the_same_and_name_the_wrong_op(name: str) -> None:
    model = check_models.MODELS[name]()
    for activation, blamed in ((None, []), (checking.slightly_wrong(model), ["wrong"])):
        g, loss = model.graph(activation)
        fast, slow = (
            gw.gradient_check(g, loss, model.data, method=method)
            for method in ("auto", "differences")
        )
        assert checking.differing(fast, slow) == 0
        assert [n.name for n in fast.blame] == [n.name for n in slow.blame] == blamed


@pytest.mark.parametrize("name", onnx_models.WRITTEN)
def test_what_is_raced_on_onnx_runtime_computes_the_same(name):
    pytest.importorskip("onnxruntime", reason="no onnxruntime: pip install -e '.[onnxruntime]'")
    sides = onnx_race.rivals(gw.onnx.to_model(onnx_models.WRITTEN[name]()), threads=1)
    assert list(sides) == [onnx_race.OURS, onnx_race.THEIRS]
    (theirs,) = sides[onnx_race.THEIRS]().values()
    assert sides[onnx_race.OURS]().shape == theirs.shape
