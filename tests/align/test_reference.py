"""The reference: what it shares, what it copies, and that a policy is never its own."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError, TrainingError
from gradwright.models import Decoder, DecoderConfig

align = gw.align
LoRA = gw.adapters.LoRA
SIZES = {"vocabulary": 12, "width": 16, "layers": 1, "heads": 2}
PAIRS = [
    {"prompt": [1, 2], "chosen": [3, 4, 5], "rejected": [6]},
    {"prompt": [7], "chosen": [8], "rejected": [9, 10]},
]


def decoder(**settings):
    return Decoder(DecoderConfig(**SIZES, **settings), eos=0)


def asked(model, *tensors):
    return gw.Session(model.graph).run(list(tensors), model.examples([[1, 2, 3, 4], [5, 6]], 1))


def dpo(model, **settings):
    return align.trainer(model, align.DPO(**settings), optimizer=gw.optim.SGD(0.5), kernels="off")


def test_a_model_without_adapters_has_a_frozen_copy():
    model = decoder()
    names = [t.name for t in model.graph.variables]
    said, ref = align.model_log_probs(model).log_probs, align.reference_log_probs(model)
    policy, before = asked(model, said, ref)
    assert (policy == before).all() and align.reference_log_probs(model) is ref
    assert [t.name for t in model.graph.trainable] == names
    made = [t.name for t in model.graph.variables][len(names) :]
    assert made == [f"reference/{name}" for name in names]

    dpo(model).step(PAIRS)
    policy, after = asked(model, said, ref)
    assert (after == before).all() and np.abs(policy - after).max() > 1e-3


def test_adapters_have_the_base_without_a_second_copy():
    model = decoder()
    said = align.model_log_probs(model).log_probs
    base = asked(model, said)[0]
    one = gw.adapters.add(model, LoRA(r=2, init=False), where="q|v", name="one")
    two = gw.adapters.add(model, LoRA(r=2, init=False), where="up", name="two")
    two.disable()
    n, before = len(model.graph.variables), asked(model, said)[0]
    ref = align.reference_log_probs(model)
    assert len(model.graph.variables) == n
    assert one.is_enabled and not two.is_enabled and (asked(model, said)[0] == before).all()
    assert (asked(model, ref)[0] == base).all()

    gw.adapters.add(model, LoRA(r=2, init=False), where="q|o", name="three")
    two.enable()
    dpo(model).step(PAIRS)
    policy, later = asked(model, said, ref)
    assert (later == base).all() and np.abs(policy - base).max() > 1e-3


def test_an_adapter_that_has_been_trained_is_part_of_it():
    model = decoder()
    gw.adapters.add(model, LoRA(r=2), where="q|v", name="tuned")
    said = align.model_log_probs(model).log_probs
    align.trainer(model, align.SFT(), optimizer=gw.optim.SGD(1.0)).step(
        [{"prompt": [1, 2], "completion": [3, 4]}]
    )
    gw.adapters.add(model, LoRA(r=2, init=False), where="o", name="fresh").disable()
    n, start = len(model.graph.variables), asked(model, said)[0]
    gw.adapters.of(model)["fresh"].enable()
    ref = align.reference_log_probs(model)
    copies = [t.name for t in model.graph.variables][n:]
    assert len(copies) == 4 and all("tuned/lora" in name for name in copies)
    assert (asked(model, ref)[0] == start).all()
    dpo(model).step(PAIRS)
    assert (asked(model, ref)[0] == start).all()


def test_weights_that_are_trained_beside_adapters_are_copied():
    model = decoder()
    gw.adapters.add(model, LoRA(r=2), where="q", keep=".*norm")
    n = len(model.graph.variables)
    ref = align.reference_log_probs(model)
    copies = [t.name for t in model.graph.variables][n:]
    assert len(copies) == 3 and all(name.endswith("norm") for name in copies)
    before = asked(model, ref)[0]
    gw.adapters.add(model, LoRA(r=2), where="v", keep=".*norm", name="more")
    dpo(model).step(PAIRS)
    assert (asked(model, ref)[0] == before).all()


def test_a_reference_whose_weights_are_trained_is_refused_and_made_anew():
    model = decoder()
    adapted = gw.adapters.add(model, LoRA(r=2), where="q")
    shared = align.reference_log_probs(model)
    trainer = dpo(model)
    adapted.remove()
    with pytest.raises(TrainingError, match="shares 12 weights that are trained now"):
        trainer.step(PAIRS)
    assert align.reference_log_probs(model) is not shared
    dpo(model).step(PAIRS)


@pytest.mark.parametrize("keep", [False, True])
def test_dropout(keep):
    model = decoder(dropout=0.5)
    gw.adapters.add(model, LoRA(r=2, dropout=0.5), where="q")
    trainer = dpo(model, disable_dropout=not keep)
    loss = trainer.step(PAIRS).metrics["loss"]
    assert (abs(loss - np.log(2)) > 1e-3) == keep  # the reference drops nothing


def test_a_reference_that_follows():
    model = decoder()
    trainer = dpo(model, sync_ref_model=True, ref_model_mixup_alpha=0.25, ref_model_sync_steps=2)
    held = model.graph.values["reference/head"].copy()
    trainer.step(PAIRS)
    assert (model.graph.values["reference/head"] == held).all()
    trainer.step(PAIRS)
    follows = 0.25 * model.graph.values["head"] + 0.75 * held
    np.testing.assert_allclose(model.graph.values["reference/head"], follows, rtol=1e-6)
    gw.adapters.add(model, LoRA(r=2), where="q")
    with pytest.raises(TrainingError, match="cannot follow it"):
        dpo(model, sync_ref_model=True)
    with pytest.raises(GraphError, match="cannot be asked before training"):
        align.DPO(sync_ref_model=True, precompute_ref_log_probs=True)


def test_a_notebook_cell_that_runs_again_has_one_reference_of_what_the_model_is_now():
    model, sizes = decoder(), []
    for _ in range(2):
        with model.graph.cell("train"):
            trainer = dpo(model)
        held = model.graph.values["reference/head"].copy()
        assert (held == model.graph.values["head"]).all()
        losses = [trainer.step(PAIRS).metrics["loss"] for _ in range(2)]
        assert losses[1] < losses[0] and abs(losses[0] - np.log(2)) < 1e-6
        assert (model.graph.values["reference/head"] == held).all()
        sizes.append(len(model.graph.all_nodes))
    assert sizes[0] == sizes[1]


@pytest.mark.parametrize("adapter", [None, LoRA(r=2)])
def test_the_next_trainer_has_a_reference_of_the_model_that_the_last_one_left(adapter):
    model = decoder()
    if adapter is not None:
        gw.adapters.add(model, adapter, where="q|v")
    first = dpo(model)
    n = len(model.graph.variables)
    assert dpo(model).objective.asked.reference is first.objective.asked.reference
    first.step(PAIRS)
    second = dpo(model)
    copies = [t.name for t in model.graph.variables][n:]
    assert len(copies) == len(model.graph.trainable)
    said, new = align.model_log_probs(model).log_probs, second.objective.asked.reference
    old = first.objective.asked.reference
    before, now, held = asked(model, old, said, new)
    assert (held == now).all() and np.abs(before - now).max() > 1e-3
    assert abs(second.step(PAIRS).metrics["loss"] - np.log(2)) < 1e-6
    assert first.step(PAIRS).metrics["loss"] < np.log(2) - 1e-3
    again = asked(model, old, new)
    assert (again[0] == before).all() and (again[1] == held).all()
