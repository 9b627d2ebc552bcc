"""Checkpoints that hold what is trained alone: small, and for the model they were made of."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import ArchiveError, TrainingError
from gradwright.models import Decoder, DecoderConfig
from gradwright.train.checkpoints.base import PIECE, WHOLE, checksum, left_out

CONFIG = DecoderConfig(vocabulary=64, width=64, layers=2, heads=4)
ROWS = [[1, 2, 3, 4, 5], [6, 7, 8, 9, 1]]


def adapted(seed=0, where="q|v", change=None):
    model = Decoder(CONFIG, seed=seed)
    if change:
        values = model.graph.values
        values[change] = values[change] + np.float32(1e-3)
    gw.adapters.add(model, gw.adapters.LoRA(r=2), where)
    return model


def trainer(model, *callbacks):
    return gw.Trainer(
        model.graph,
        model.loss,
        gw.optim.AdamW(1e-2),
        callbacks=callbacks,
        session=gw.Session(model.graph, seed=0, deterministic=True, threads=1),
    )


def fit(made, model, steps):
    made.fit([model.examples(ROWS)] * steps, epochs=1, progress=False)


def test_a_training_goes_on_to_the_bit_from_adapters_alone(tmp_path):
    whole, small = (gw.Checkpoints(tmp_path / n, frozen=n == "whole") for n in ("whole", "small"))
    for kept in (whole, small):
        fit(trainer(model := adapted(), kept), model, 3)
    sizes = [kept.list()[-1].nbytes for kept in (whole, small)]
    assert sizes[1] < sizes[0] / 2.5
    straight = trainer(model := adapted())
    fit(straight, model, 3)
    fit(straight, model, 3)
    again = trainer(other := adapted())
    gw.resume(again, tmp_path / "small")
    fit(again, other, 3)
    assert again.history.steps["loss"].tolist() == straight.history.steps["loss"].tolist()
    for t in model.graph.variables:
        assert np.array_equal(model.graph.values[t.name], other.graph.values[t.name]), t.name


def test_such_a_file_says_what_it_is(tmp_path):
    kept = gw.Checkpoints(tmp_path, frozen=False)
    fit(trainer(model := adapted(), kept), model, 1)
    path = kept.list()[-1].path
    with pytest.raises(ArchiveError, match=r"trained alone: 21 arrays[\s\S]*gw.resume"):
        gw.open(path)
    info = gw.inspect(path)
    assert "21 arrays of the model were left out" in str(info.findings[0])
    assert not any(name.endswith("/up") for name in info.tensors)
    assert "layer0/q/default/lora_A" in info.tensors
    outline = gw.formats.registry.find(gw.formats.source.at(path)).outline
    assert len(outline(gw.formats.source.at(path)).graph.nodes) == len(model.graph.nodes)


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (lambda: adapted(seed=1), "another model"),
        (lambda: adapted(change="layer1/down"), r"another model\n *other values: layer1/down\n"),
        (lambda: adapted(where="q|k"), "other settings"),
    ],
)
def test_another_model_is_refused_and_stays_what_it_was(model, match, tmp_path):
    kept = gw.Checkpoints(tmp_path, frozen=False)
    fit(trainer(first := adapted(), kept), first, 2)
    other = model()
    before = dict(other.graph.values.items())
    again = trainer(other)
    with pytest.raises(TrainingError, match=match):
        gw.resume(again, tmp_path)
    assert again.steps_done == 0
    assert all(np.array_equal(a, other.graph.values[n]) for n, a in before.items())


def test_what_steps_change_is_never_left_out():
    g = gw.Graph()
    x = g.placeholder("x", ("B", 4))
    frozen = g.variable("frozen", (4, 4), init=1.0, trainable=False)
    big, small = g.constant(np.ones((64, 64), "f4"), name="big"), g.constant(2.0, name="small")
    counter = g.variable("counter", (), init=0.0, trainable=False)
    g.update(counter, counter + 1.0)
    gw.nn.batch_norm(x @ frozen, name="norm")
    gw.mean(big) * small
    assert left_out(g) == ["frozen", "big"]


def test_a_run_holds_adapters_alone(tmp_path):
    run = gw.Run(tmp_path / "run", name="first", store=None)
    fit(trainer(model := adapted(), run, gw.Checkpoints(run, frozen=False)), model, 2)
    again = trainer(adapted())
    assert gw.resume(again, run).base.keys() >= {"embed", "layer0/q"} and again.steps_done == 2


def test_a_checksum_sees_all_of_small_arrays_and_pieces_of_large_ones():
    small, large = np.zeros(1000, "f4"), np.zeros(WHOLE, "f4")
    seen = {
        checksum(small),
        checksum(large),
        checksum(small.astype("f8")),
        checksum(small[:, None]),
    }
    for i in range(0, 1000, 333):
        seen.add(checksum(np.where(np.arange(1000) == i, np.float32(1), small)))
    for i in (0, PIECE // 4 - 1, WHOLE - 1):
        changed = large.copy()
        changed[i] = 1
        seen.add(checksum(changed))
    assert len(seen) == 4 + 4 + 3
