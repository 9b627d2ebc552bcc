"""Objectives of fixed data: batches, accumulation, references asked before, resuming, refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import FeedError, GraphError, TrainingError
from gradwright.models import Decoder, DecoderConfig
from gradwright.words.jsonable import from_json, to_json

align = gw.align
SIZES = {"vocabulary": 12, "width": 16, "layers": 1, "heads": 2}


def rows(*columns, n=6, seed=1):
    rng = np.random.default_rng(seed)
    return [
        {c: rng.integers(1, 12, rng.integers(1, 5)).tolist() for c in columns} for _ in range(n)
    ]


PAIRS = rows("prompt", "chosen", "rejected")
SINGLE = rows("prompt", "completion")
LABELLED = [{**row, "label": i % 2 == 0} for i, row in enumerate(SINGLE)]
EVERY = {
    "sft": (align.SFT(), SINGLE),
    "dpo, asked before": (align.DPO(precompute_ref_log_probs=True), PAIRS),
    "dpo, following": (align.DPO(sync_ref_model=True, ref_model_sync_steps=2), PAIRS),
    "kto": (align.KTO(), LABELLED),
    "reward model": (align.RewardModel(center_rewards_coefficient=0.01), PAIRS),
    "simpo": (align.SimPO(), PAIRS),
    "dpo": (align.DPO(loss_type=["sigmoid", "ipo"], loss_weights=[1, 0.2]), PAIRS),
}
RESUMED = 3
"""How many of these are interrupted."""


def decoder(**settings):
    return Decoder(DecoderConfig(**SIZES), eos=0, **settings)


def trainer(method, model=None, **settings):
    settings = {
        "optimizer": gw.optim.Adam(0.01),
        "deterministic": True,
        "kernels": "off",
        **settings,
    }
    return align.trainer(decoder() if model is None else model, method, **settings)


def fit(made, data, epochs=2, **more):
    return made.fit(data, epochs=epochs, batch_size=2, progress=False, **more)


def whole(made):
    values = {t.name: made.values[t.name] for t in made.graph.variables}
    state = {k: v for k, v in made.state_dict().items() if not k.endswith("seconds")}
    return {k: np.asarray(v).tobytes() for k, v in {**state, **values}.items()}


@pytest.mark.parametrize(
    ("method", "data"), list(EVERY.values())[:RESUMED], ids=list(EVERY)[:RESUMED]
)
def test_a_training_that_was_interrupted_goes_on_to_the_bit(tmp_path, method, data):
    undisturbed = trainer(method)
    fit(undisturbed, data, 3)
    first = trainer(method, callbacks=[gw.Checkpoints(tmp_path)])
    fit(first, data, 3, steps=5)
    second = trainer(method)
    gw.resume(second, tmp_path)
    fit(second, data, 2)
    assert second.steps_done == 9 and whole(second) == whole(undisturbed)


@pytest.mark.parametrize("where", ["in another graph", "in the same graph"])
def test_a_training_behind_another_goes_on_with_its_own_reference(tmp_path, where):
    def tuned():
        fit(trainer(align.DPO(), model := decoder()), PAIRS, 1)
        return model

    undisturbed = trainer(align.DPO(), tuned())
    fit(undisturbed, PAIRS, 2)
    model = tuned()
    fit(trainer(align.DPO(), model, callbacks=[gw.Checkpoints(tmp_path)]), PAIRS, 2, steps=4)
    if where == "in another graph":
        model = decoder()
        model.graph.values.restore(
            tuned().graph.values.snapshot([t.name for t in model.graph.variables])
        )
    second = trainer(align.DPO(), model)
    gw.resume(second, tmp_path, allow="all")  # names in the graph are others
    fit(second, PAIRS, 1)
    assert second.steps_done == 6
    for t in second.parameters:
        assert (second.values[t.name] == undisturbed.values[t.name]).all()


def test_another_method_does_not_go_on(tmp_path):
    fit(trainer(align.DPO(), callbacks=[gw.Checkpoints(tmp_path)]), PAIRS)
    other = trainer(align.DPO(beta=0.2))
    before = whole(other)
    with pytest.raises(TrainingError, match="by another method") as raised:
        gw.resume(other, tmp_path)
    assert "beta: 0.1, not 0.2" in str(raised.value) and whole(other) == before


@pytest.mark.parametrize("name", ["sft", "reward model", "dpo"])
def test_an_accumulated_gradient_is_that_of_the_large_batch(name):
    method, data = EVERY[name]
    made = []
    for size, settings in ((6, {}), (3, {"accumulation": 2})):
        one = trainer(method, optimizer=gw.optim.SGD(0.5), clip_norm=None, **settings)
        one.fit(data, batch_size=size, shuffle=False, progress=False)
        made.append(one)
    large, small = made
    assert large.steps_done == small.steps_done == 1
    for t in large.parameters:
        np.testing.assert_allclose(small.values[t.name], large.values[t.name], atol=1e-6)
    means = [h.history.last()["loss"] for h in made]
    np.testing.assert_allclose(means[0], means[1], rtol=1e-6)


def tokens(data, *columns):
    """Return how many tokens rows have with each of the columns, and its end."""
    return sum(len(row["prompt"]) + len(row[c]) + 1 for row in data for c in columns)


@pytest.mark.parametrize(
    ("method", "data", "n"),
    [
        (align.DPO(), PAIRS, tokens(PAIRS, "chosen", "rejected")),
        (align.KTO(), LABELLED, tokens(SINGLE, "completion")),  # none behind others' prompts
        (align.SFT(packing=True, max_length=16), SINGLE, tokens(SINGLE, "completion")),
    ],
    ids=["pairs", "labels", "packed"],
)
def test_tokens_are_counted_once_each(tmp_path, method, data, n):
    """Those of steps that were taken, however they are gathered, stopped or resumed."""

    def made(**settings):
        model = decoder(position_ids=isinstance(method, align.SFT))
        return trainer(method, model, accumulation=2, **settings)

    whole, how = made(callbacks=[gw.Checkpoints(tmp_path)]), {"batch_size": 1, "progress": False}
    history = whole.fit(data, epochs=2, validation=data, **how)
    assert history.epochs["num_tokens"].tolist() == [n, 2 * n]
    assert history.epochs["val_num_tokens"].tolist() == [n, 2 * n]
    assert (np.diff(history.steps["num_tokens"]) > 0).all()
    second = made()
    gw.resume(second, tmp_path)
    assert second.fit(data, **how).last()["num_tokens"] == 3 * n
    stopped = made()
    source = stopped.objective.batches

    def stops(*given, **settings):
        """Stop the training while its first window waits for another batch."""
        found = source(*given, **settings)
        epoch = found.epoch

        def first(number, skip=0):
            for batch in epoch(number, skip):
                if not skip:
                    stopped.stop()
                yield batch

        found.epoch = first
        return found

    stopped.objective.batches = stops
    stopped.fit(data, **how)
    assert stopped.steps_done == 0 and stopped.parts.position.begun.gathered == 1
    assert stopped.fit(data, **how).last()["num_tokens"] == n


def test_epochs_are_a_function_of_seed_and_number():
    orders = []
    for seed in (0, 0, 1):
        source = (
            align.DPO()
            .objective(decoder(), seed=seed)
            .batches(PAIRS, None, batch_size=4, shuffle=True)
        )
        orders.append([[n.tolist() for n in source.row_numbers(e)] for e in (0, 1)])
        assert [n for _, n in source.epoch(0)] == [4, 2] and source.n_batches == 2
        assert sum(1 for _ in source.epoch(0, skip=1)) == 1
    assert orders[0] == orders[1] != orders[2] and orders[0][0] != orders[0][1]


def test_rows_of_a_batch_lie_part_below_part_in_few_widths():
    model = decoder()
    objective = align.DPO(pad_to_multiple_of=4).objective(model)
    feeds = objective.feeds(PAIRS[:2])
    ids, labels = feeds[model.ids], feeds[model.labels]
    assert ids.shape[1] % 4 == 0
    for i, row in enumerate(PAIRS[:2]):
        for at, name in ((i, "chosen"), (i + 2, "rejected")):
            n, tokens = len(row["prompt"]), [*row["prompt"], *row[name], 0]
            assert ids[at, : len(tokens)].tolist() == tokens
            shown = [-100] * n + tokens[n:] + [-100] * (ids.shape[1] - len(tokens))
            assert labels[at].tolist() == shown


def test_rows_longer_than_the_context_are_cut_or_named():
    config = DecoderConfig(**SIZES, positions="learned", context=6)
    model = Decoder(config, eos=0)
    long = [{"prompt": [1, 2, 3, 4], "completion": [5, 6, 7]}] * 2
    feeds = align.SFT().objective(model).feeds(long)
    assert feeds[model.ids].tolist() == [[1, 2, 3, 4, 5, 6]] * 2
    whole = align.examples(long, "completion", eos=0)
    with pytest.raises(FeedError, match="row 0 of the data has 8 tokens"):
        trainer(align.SFT(), model).fit(whole, progress=False)


def test_no_packed_row_is_longer_than_the_context():
    model = Decoder(DecoderConfig(**SIZES, context=6), eos=0, position_ids=True)
    feeds = align.SFT(packing=True).objective(model).feeds(SINGLE)
    assert feeds[model.ids].shape[1] == feeds[model.position_ids].shape[1] == 6


def test_a_reward_model_leaves_out_pairs_that_are_too_long():
    model = decoder()
    pair = {"prompt": [1, 2], "chosen": [3], "rejected": [4]}
    feeds = (
        align.RewardModel(max_length=4).objective(model).feeds([pair, {**pair, "chosen": [3, 4]}])
    )
    assert feeds[model.ids][:, :4].tolist() == [[1, 2, 3, 0], [1, 2, 4, 0]]


@pytest.mark.parametrize("name", ["sft", "dpo"])
def test_batches_of_rows_of_about_the_same_length(name):
    method, _ = EVERY[name]
    method = replace(method, group_by_length=True, pad_to_multiple_of=1)
    lengths = [2, 9, 3, 9, 2, 3, 9]
    tokens = [[1] * n for n in lengths]
    data = {"prompt": [[1]] * 7, "completion": tokens}
    if name == "dpo":
        data = {"prompt": [[1]] * 7, "chosen": tokens, "rejected": [[2]] * 7}
    source = method.objective(decoder()).batches(data, None, batch_size=2, shuffle=True)
    orders = [source.row_numbers(epoch) for epoch in (0, 1)]
    for order in orders:
        assert sorted(np.concatenate(order)) == list(range(7)) and len(order[-1]) == 1
        assert sum(np.ptp(np.take(lengths, batch)) for batch in order[:-1]) <= 7
    assert [b.tolist() for b in orders[0]] != [b.tolist() for b in orders[1]]
    fed = [n for _, n in source.epoch(0)]
    assert fed == [2, 2, 2, 1]


def test_prompts_stand_before_the_completion_of_the_row_before():
    model = decoder()
    feeds = align.KTO().objective(model).feeds(LABELLED[:3])
    for i, row in enumerate(LABELLED[:3]):
        other = LABELLED[:3][i - 1]["completion"]
        tokens = [*row["prompt"], *other, 0]
        assert feeds[model.ids][3 + i, : len(tokens)].tolist() == tokens
    with pytest.raises(FeedError, match="behind another prompt"):
        trainer(align.KTO()).step(LABELLED[:1])


def test_a_reference_asked_before_says_the_same():
    histories = [
        fit(
            trainer(align.DPO(precompute_ref_log_probs=early, ld_alpha=0.5)),
            PAIRS,
            validation=PAIRS,
        )
        for early in (False, True)
    ]
    now, early = (h.last() for h in histories)
    assert now.keys() == early.keys() and "val_rewards/margins" in now
    for name in now.keys() - {"seconds"}:
        np.testing.assert_allclose(now[name], early[name], rtol=1e-4, atol=1e-6, err_msg=name)


def test_packed_rows_have_the_loss_of_rows_apart():
    found = []
    for packing in (False, True):
        made = trainer(align.SFT(packing=packing, max_length=24), decoder(position_ids=True))
        found.append(made.evaluate(SINGLE, batch_size=6))
    for name in found[0]:
        np.testing.assert_allclose(found[0][name], found[1][name], rtol=1e-5, err_msg=name)
    with pytest.raises(TrainingError, match="packed rows see each other"):
        trainer(align.SFT(packing=True))


def test_a_reward_model_is_saved_and_scores_in_a_script(tmp_path):
    model = decoder()
    made = trainer(align.RewardModel(), model, optimizer=gw.optim.Adam(0.05))
    history = fit(made, PAIRS, 12)
    assert history.last()["accuracy"] == 1.0 and "head" not in {t.name for t in made.parameters}
    batch = model.examples([[1, 2, 3], [4, 5]])
    before = model.graph.output(batch, align.reward_head(model))["score"]
    model.graph.save(tmp_path / "reward.gw")
    found = gw.load(tmp_path / "reward.gw").output(batch, "score")["score"]
    assert before.shape == (2,) and (found == before).all()


def test_dpo_moves_an_adapter_and_nothing_else():
    model = decoder()
    base = model.graph.values.snapshot()
    gw.adapters.add(model, gw.adapters.LoRA(r=4), where="all-linear")
    n = len(model.graph.variables)
    made = trainer(align.DPO(), model, optimizer=gw.optim.Adam(0.05))
    history = fit(made, PAIRS, 10)
    assert history.last()["rewards/accuracies"] == 1.0 and len(model.graph.variables) == n
    assert all((base[name] == model.graph.values[name]).all() for name in base)


def test_settings_are_json():
    for method, _ in EVERY.values():
        assert from_json(to_json(method)) == method


def test_what_is_refused():
    for refused in (
        lambda: align.DPO(beta=0),
        lambda: align.DPO(loss_type="dpo"),
        lambda: align.DPO(loss_type=["sigmoid", "sft"], loss_weights=[1.0]),
        lambda: align.DPO(loss_type="robust", label_smoothing=0.5),
        lambda: align.DPO(ref_model_sync_steps=0),
        lambda: align.KTO(desirable_weight=-1),
        lambda: align.SFT(max_length=1),
        lambda: align.SFT(packing_strategy="tight"),
        lambda: align.SFT(packing=True, group_by_length=True),
        lambda: align.CPO(padding_free=True),
        lambda: align.CPO(label_smoothing="a"),
        lambda: align.SFT(packing="no"),
        lambda: align.SimPO(simpo_gamma=float("nan")),
        lambda: align.DPO(loss_type=None),
        lambda: align.DPO(loss_weights=["a"]),
        lambda: align.ORPO(bf16=True),
    ):
        with pytest.raises(GraphError):
            refused()
    with pytest.raises(TypeError, match="no_such"):
        align.DPO(no_such=1)
    for model, method in ((decoder(), align.DPO), (decoder(), "dpo"), (None, align.DPO())):
        with pytest.raises(TrainingError, match="is no"):
            align.trainer(model, method)
    with pytest.raises(TypeError, match="rewards"):
        align.trainer(decoder(), align.DPO(), rewards=[len])


@pytest.mark.parametrize(
    ("method", "data", "size", "said"),
    [
        (align.DPO(), SINGLE, 2, "chosen"),
        (align.SFT(), PAIRS, 2, "of the kind 'pair'"),
        (align.DPO(), [], 2, "the data is empty"),
        (align.DPO(), PAIRS, 7, "batch_size=7 does not fit the data"),
        (align.DPO(), [{"prompt": [1], "chosen": [], "rejected": [2]}], 1, "no row of the data"),
    ],
)
def test_data_that_does_not_fit_changes_nothing(method, data, size, said):
    made = trainer(method)
    before = made.values.snapshot()
    with pytest.raises((FeedError, TrainingError), match=said):
        made.fit(data, batch_size=size, progress=False)
    assert made.steps_done == 0 and all((before[n] == made.values[n]).all() for n in before)


def test_settings_of_a_trainer():
    made = align.trainer(decoder(), align.DPO())
    assert made.optimizer == gw.optim.AdamW(1e-6, weight_decay=0.0) and made.clip_norm == 1.0
    config = gw.TrainingConfig(gw.optim.SGD(0.1), seed=7)
    made = align.trainer(decoder(), align.SFT(), config=config, accumulation=3)
    assert made.optimizer == config.optimizer and made.clip_norm is None and made.seed == 7
    assert made.config.accumulation.by == "token" and made.objective.state_dict()["seed"] == 7
