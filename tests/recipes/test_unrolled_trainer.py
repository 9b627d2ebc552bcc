"""UnrolledTrainer: several batches in one plan are single steps of a Trainer, to the bit."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import TrainingError
from tests.train.test_unroll import BATCH, At, Runs, data, net, outcome, spoiled


def pair(unroll=4, **options):
    """Return an UnrolledTrainer and a Trainer of the same net, and the runs of the first."""
    one, twin = net(**options), net(**options)
    metrics = twin.parts.objective.metrics
    many = gw.UnrolledTrainer(
        twin.graph, "loss", unroll=unroll, metrics=metrics, config=twin.config, session=twin.session
    )
    many.session.listeners.append(runs := Runs())
    return many, one, runs


def split(whole):
    n = len(whole["t"])
    return [{k: a[i : i + BATCH] for k, a in whole.items()} for i in range(0, n, BATCH)]


def test_a_step_takes_its_batches_as_one_plan():
    many, one, runs = pair()
    batches = split(data(64))
    for half in (batches[:4], batches[4:]):
        found = many.step(half)
        single = [one.step(batch) for batch in half]
        assert [(r.step, r.epoch, r.metrics) for r in found] == [
            (r.step, r.epoch, r.metrics) for r in single
        ]
    assert outcome(many) == outcome(one) and runs.count == 2 and many.epochs_done == 0


@pytest.mark.parametrize("count", [1, 3, 5, 9])
def test_other_numbers_of_batches_are_groups_and_single_steps(count):
    many, one, runs = pair()
    batches = split(data(72))[:count]
    assert len(many.step(iter(batches))) == count
    for batch in batches:
        one.step(batch)
    assert outcome(many) == outcome(one) and runs.count == count // 4 + count % 4


def test_a_short_batch_goes_singly_and_in_order():
    many, one, runs = pair(unroll=2)
    batches = split(data(BATCH * 3 + 3))
    batches[1], batches[3] = batches[3], batches[1]
    assert [r.step for r in many.step(batches)] == [1, 2, 3, 4]
    for batch in batches:
        one.step(batch)
    assert outcome(many) == outcome(one) and runs.count == 3


def test_fit_unrolls_by_default():
    many, one, runs = pair()
    many.fit(data(64), epochs=2, batch_size=BATCH, progress=False)
    one.fit(data(64), epochs=2, batch_size=BATCH, progress=False)
    assert outcome(many) == outcome(one) and runs.count == 4
    many.fit(data(64), batch_size=BATCH, progress=False, unroll=1)
    assert runs.count == 12


def test_a_step_that_is_not_finite_is_skipped_or_named():
    many, one, runs = pair(nonfinite="skip")
    batches = split(spoiled(2))[:4]
    records = many.step(batches)
    for batch in batches:
        one.step(batch)
    assert outcome(many) == outcome(one) and many.skipped == 1 and runs.count == 1
    assert len(records) == 4
    many, one, _ = pair()
    with pytest.raises(TrainingError, match="step 3"):
        many.step(batches)
    for batch in batches[:2]:
        one.step(batch)
    assert many.steps_done == 2
    assert many.values["w"].tobytes() == one.values["w"].tobytes()


def test_windows_give_a_record_each():
    many, one, _ = pair(accumulation=2)
    batches = split(data(40))
    records = many.step(batches)
    single = [r for b in batches if (r := one.step(b)) is not None]
    assert [r.metrics for r in records] == [r.metrics for r in single] and len(records) == 2
    assert outcome(many) == outcome(one)


def test_a_stop_ends_a_step_between_plans():
    many, *_ = pair(unroll=2)
    many.add_callback(At(lambda trainer: trainer.stop(), 2))
    assert len(many.step(split(data(64)))) == 2 and many.steps_done == 2


@pytest.mark.parametrize("unroll", [0, -1, 1.5, True, "4"])
def test_numbers_of_steps_that_make_no_sense_are_named(unroll):
    g = gw.Graph()
    with pytest.raises(TrainingError, match="unroll"):
        gw.UnrolledTrainer(g, g.variable("w", ()) * 1.0, unroll=unroll)


def test_a_batch_that_fits_nothing_changes_nothing():
    many, one, _ = pair()
    with pytest.raises(gw.errors.FeedError, match="no placeholder"):
        many.step([*split(data(16)), {"y": np.zeros(3)}])
    assert many.steps_done == 0 and many.status == "idle" and many.step([]) == []
    many.step(split(data(16)))
    for batch in split(data(16)):
        one.step(batch)
    assert outcome(many) == outcome(one)


# -- resident or not -------------------------------------------------------------------------------


def small(**options):
    g = gw.Graph()
    x, t = g.placeholder("x", (None, 4)), g.placeholder("t", (None,), "int64")
    h = gw.tanh(x @ g.variable("w", (4, 8), init=gw.init.normal(seed=1)))
    scores = h @ g.variable("v", (8, 3), init=gw.init.normal(seed=2))
    loss = gw.loss.sparse_softmax_cross_entropy(t, scores)
    options.setdefault("optimizer", gw.optim.Adam(0.05))
    return gw.UnrolledTrainer(g, loss, unroll=3, deterministic=True, **options)


def rows(n=48):
    x = np.random.default_rng(0).standard_normal((n, 4)).astype(np.float32)
    return {"x": x, "t": (x.sum(1) > 0).astype(np.int64)}


@pytest.mark.parametrize("way", ["fit", "step"])
def test_numbers_are_the_same_to_the_bit_whether_arrays_stay_or_not(way):
    def trained(resident):
        trainer = small(resident=resident)
        if way == "fit":
            trainer.fit(rows(), epochs=3, batch_size=4, progress=False)
        else:
            data = rows()
            trainer.step([{k: v[i : i + 4] for k, v in data.items()} for i in range(0, 48, 4)])
        return {k: np.asarray(v).tobytes() for k, v in trainer.state_dict().items()} | {
            name: trainer.values[name].tobytes() for name in trainer.values
        }

    kept, shuttled = trained(True), trained(False)
    timed = {name for name in kept if name.endswith("seconds")}
    assert {k: v for k, v in kept.items() if k not in timed} == {
        k: v for k, v in shuttled.items() if k not in timed
    }


def addresses(resident):
    """Return where a variable lies after each of six runs."""
    trainer, data = small(resident=resident, kernels="wait"), rows(12)
    batches = [{k: v[i : i + 4] for k, v in data.items()} for i in range(0, 12, 4)]
    places = []
    for _ in range(6):
        trainer.step(batches)
        places.append(trainer.values.array("w").ctypes.data)
    return places


def test_arrays_that_were_there_before_a_run_stay_as_they_are():
    assert all(a != b for a, b in itertools.pairwise(addresses(False)))


def test_resident_arrays_are_written_over():
    pytest.importorskip("llvmlite", reason="no llvmlite: pip install -e '.[fast]'")
    assert len(set(addresses(True)[2:])) == 1


def test_accuracy_is_the_share_of_hits():
    trainer, data = small(), rows()
    trainer.fit(data, epochs=20, batch_size=8, progress=False)
    h = np.tanh(data["x"] @ trainer.values["w"])
    expected = ((h @ trainer.values["v"]).argmax(1) == data["t"]).mean()
    assert trainer.accuracy(data["x"], data["t"], batch_size=7) == pytest.approx(expected)
    assert expected > 0.9
