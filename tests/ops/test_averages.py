"""Averages of weights: those of torch.optim.swa_utils, part of a step, swapped in and out."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import TrainingError
from tests.support.networks import regression


def net(dtype="float64", **options):
    """Return a trainer of a small net with a running mean."""
    loss = regression(dtype)
    options.setdefault("optimizer", gw.optim.SGD(0.1, momentum=0.9))
    options.setdefault("deterministic", True)
    return gw.Trainer(loss.graph, loss, **options)


def batch(i, dtype="float64"):
    rng = np.random.default_rng(i)
    x = rng.standard_normal((8, 4)).astype(dtype)
    return {"x": x, "t": (x[:, 0] - 2 * x[:, 1]).astype(dtype)}


def data(n=40):
    parts = [batch(i) for i in range(n // 8)]
    return {k: np.concatenate([p[k] for p in parts]) for k in parts[0]}


def everything(trainer):
    state = {k: v for k, v in trainer.state_dict().items() if not k.endswith("seconds")}
    values = {t.name: trainer.values[t.name] for t in trainer.graph.variables}
    return {k: np.asarray(v).tobytes() for k, v in {**state, **values}.items()}


@pytest.mark.parametrize("buffers", [False, True])
@pytest.mark.parametrize(("start", "every"), [(1, 1), (3, 2)])
def test_averages_are_those_of_torch(torch, buffers, start, every):
    """AveragedModel copies at its first update and averages from then on; two kinds at once."""
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

    how = {"start": start, "every": every, "buffers": buffers}
    trainer = net(ema=gw.EMA(0.8, **how), swa=gw.SWA(**how))
    names = ("w", "v", "mean")
    module = torch.nn.Module()
    for name in names[:2]:
        module.register_parameter(name, torch.nn.Parameter(torch.tensor(trainer.values[name])))
    module.register_buffer("mean", torch.tensor(trainer.values["mean"]))
    oracles = {
        "ema": AveragedModel(module, multi_avg_fn=get_ema_multi_avg_fn(0.8), use_buffers=buffers),
        "swa": AveragedModel(module, use_buffers=buffers),
    }
    for step in range(1, 9):
        trainer.step(batch(step))
        with torch.no_grad():
            for name in names:
                getattr(module, name).copy_(torch.tensor(trainer.values[name]))
        if step >= start and (step - start) % every == 0:
            for oracle in oracles.values():
                oracle.update_parameters(module)
        for kind, oracle in oracles.items():
            if step < start:
                continue
            with trainer.averaged(kind):
                for name in names[: 2 + buffers]:
                    expected = getattr(oracle.module, name).detach().numpy()
                    np.testing.assert_allclose(trainer.values[name], expected, rtol=1e-12)


def test_before_the_first_update_that_counts_the_weights_stand_for_themselves():
    trainer = net(ema=gw.EMA(0.25, start=3))
    for step in range(4):
        trainer.step(batch(step))
        with trainer.averaged():
            averaged = trainer.values["w"]
        if step < 3:  # the third is a copy
            np.testing.assert_array_equal(averaged, trainer.values["w"])
            before = averaged
    np.testing.assert_allclose(averaged, 0.25 * before + 0.75 * trainer.values["w"], rtol=1e-12)


def test_evaluation_and_validation_can_see_the_average():
    trainer = net(ema=gw.EMA(0.9), validate_with="ema")
    history = trainer.fit(
        data(), epochs=2, batch_size=8, validation=batch(99), progress=False, shuffle=False
    )
    now, averaged = (trainer.evaluate(batch(99), weights=name) for name in ("trained", "ema"))
    assert now["loss"] != averaged["loss"]
    assert trainer.evaluate(batch(99)) == averaged
    assert history.epochs["val_loss"][-1] == averaged["loss"]
    before = everything(trainer)
    with trainer.averaged("ema"):
        assert trainer.evaluate(batch(99)) == averaged
        trainer.values["w"] = np.zeros((4, 6))
        with pytest.raises(TrainingError, match=r"hold their average 'ema'"):
            trainer.step(batch(0))
        with pytest.raises(TrainingError, match=r"hold their average 'ema'"):
            trainer.fit(data(), progress=False)
    assert everything(trainer) == before
    with pytest.raises(ZeroDivisionError), trainer.averaged("ema"):
        1 / 0  # noqa: B018 - raises
    assert everything(trainer) == before


def test_averages_are_saved_and_continued_to_the_bit():
    options = {"ema": gw.EMA(0.9, every=2), "swa": gw.SWA(start=3)}
    whole, first, second = net(**options), net(**options), net(**options)
    for step in range(8):
        whole.step(batch(step))
    for step in range(4):
        first.step(batch(step))
    second.values.restore({t.name: first.values[t.name] for t in first.graph.variables})
    second.load_state_dict(first.state_dict())
    for step in range(4, 8):
        second.step(batch(step))
    assert everything(second) == everything(whole)


def test_groups_of_steps_average_as_single_steps_do():
    options = {"ema": gw.EMA(0.9, start=2), "swa": gw.SWA(every=3)}
    states = []
    for unroll in (1, 5):
        trainer = net(**options)
        trainer.fit(data(120), epochs=2, batch_size=8, unroll=unroll, progress=False)
        states.append(everything(trainer))
    assert states[0] == states[1]


def test_a_skipped_step_leaves_the_averages():
    trainer = net(ema=gw.EMA(0.9), swa=gw.SWA(), nonfinite="skip")
    trainer.step(batch(0))
    before = {n: trainer.values[n].tobytes() for n in trainer.values}
    bad = batch(1)
    bad["t"][0] = np.nan
    trainer.step(bad)
    assert {n: trainer.values[n].tobytes() for n in trainer.values} == before
    assert trainer.skipped == 1


def test_a_parameter_that_is_frozen_keeps_its_part_of_the_average():
    """One that was frozen at first is its own average; one frozen later is averaged on."""
    trainer = net(swa=gw.SWA())
    trainer.graph.freeze("v")
    held = trainer.values["v"]
    for step in range(3):
        trainer.step(batch(step))
    assert "optimizer/averaged/swa/v" not in trainer.values
    trainer.graph.unfreeze("v")
    trainer.graph.freeze("w")
    trainer.step(batch(3))
    with trainer.averaged("swa"):
        averaged = trainer.values["v"]
    np.testing.assert_allclose(averaged, (3 * held + trainer.values["v"]) / 4, rtol=1e-12)


def test_averages_of_sixteen_bits_are_float32():
    g = gw.Graph()
    w = g.variable("w", init=np.float16(1.0))
    trainer = gw.Trainer(g, w * 1.0, optimizer=gw.optim.SGD(2.0**-9), ema=gw.EMA(0.999))
    for _ in range(3):
        trainer.step({})
    assert trainer.values["optimizer/averaged/ema/w"].dtype == np.float32
    with trainer.averaged():
        assert trainer.values["w"].dtype == np.float16


def test_averages_that_make_no_sense_are_named():
    with pytest.raises(TrainingError, match=r"EMA: decay=1.5 is out of range"):
        gw.EMA(1.5)
    with pytest.raises(TrainingError, match=r"SWA: every=0 is no number of updates"):
        gw.SWA(every=0)
    trainer = net()
    with (
        pytest.raises(TrainingError, match=r"no average 'ema'(.|\n)*ema=gw.EMA\(\)"),
        trainer.averaged(),
    ):
        pass
    with pytest.raises(TrainingError, match="validate_with='ema' is no average"):
        net(swa=gw.SWA(), validate_with="ema")
