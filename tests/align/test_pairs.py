"""Preference pairs as a training sees them, held against float64 numbers from its logits."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.align import PairView, pairs_of
from gradwright.errors import FeedError, GraphError
from tests.support.rollouts import adding, preferring


@pytest.fixture(scope="module")
def trained():
    trainer, data = preferring()
    model = trainer.objective.model
    start = pairs_of(trainer, data, 5)
    first = model.graph.output({"ids": start.ids, "labels": start.labels}, "logits")["logits"]
    trainer.fit(data, batch_size=8, epochs=2, progress=False)
    return trainer, data, log_probs_of(first, start.ids)


def log_probs_of(logits, ids):
    x = logits[:, :-1].astype(np.float64)
    x = x - x.max(-1, keepdims=True)
    log_p = x - np.log(np.exp(x).sum(-1, keepdims=True))
    return np.take_along_axis(log_p, ids[:, 1:, None], -1)[..., 0]


def test_pairs_are_what_the_logits_say(trained):
    trainer, data, reference = trained
    view = pairs_of(trainer, data, 5)
    assert len(view) == 5 and view.ids.shape[0] == 10
    feeds = {"ids": view.ids, "labels": view.labels}
    logits = trainer.graph.output(feeds, "logits")["logits"]
    told = log_probs_of(logits, view.ids) * view.mask
    np.testing.assert_allclose(view.log_probs, told, atol=1e-5)
    np.testing.assert_allclose(view.ref_log_probs, reference * view.mask, atol=1e-5)
    sums = ((told - reference) * view.mask).sum(1)
    np.testing.assert_allclose(view.margins, sums[:5] - sums[5:], atol=1e-4)
    assert view.accuracy == (sums[:5] > sums[5:]).mean()
    encode = trainer.objective.tokenizer.encode
    eos = trainer.objective.model.eos
    for row, side in ((0, "chosen"), (5, "rejected")):
        tokens = [*encode(data[0][side]), eos]
        assert view.ids[row, 1:][view.mask[row]].tolist() == tokens
    parts = [
        pairs_of(trainer, gw.align.examples(data, "pair", trainer.objective.tokenizer, eos=eos), 2),
        pairs_of(trainer.objective, data, 2),
    ]
    for part in parts:
        np.testing.assert_allclose(part.margins, view.margins[:2], atol=1e-5)
    assert len(pairs_of(trainer, data, None)) == len(data)


def test_what_makes_no_pairs_is_refused(trained):
    with pytest.raises(GraphError, match="PolicyObjective is not trained on pairs"):
        pairs_of(adding(), [])
    with pytest.raises(GraphError, match="Supervised is not trained on pairs"):
        model = trained[0].objective.model
        pairs_of(gw.Trainer(model.graph, model.loss), [])
    ids = np.zeros((4, 3), np.int64)
    for labels, log_probs in ((ids[:2], ids[:, 1:]), (ids, ids)):
        with pytest.raises(FeedError, match="make no pairs"):
            PairView(ids, labels, log_probs)
    with pytest.raises(FeedError, match="make no pairs"):
        PairView(ids[:3], ids[:3], ids[:3, 1:])
    assert np.isnan(PairView(ids[:0], ids[:0], ids[:0, 1:]).accuracy)
