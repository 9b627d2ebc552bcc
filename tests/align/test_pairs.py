"""Preference pairs as a training sees them, held against float64 numbers from its logits."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.align import PairView, pairs_of
from gradwright.errors import FeedError, GraphError
from gradwright_widgets import PreferencePanel
from gradwright_widgets.panels.rollouts.pairs import PairsPanel
from tests.support.panels import EVIL, sent
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
    parts = [pairs_of(trainer, gw.align.examples(data, "pair", trainer.objective.tokenizer,
                                                 eos=eos), 2), pairs_of(trainer.objective, data, 2)]
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


# -- the panel -------------------------------------------------------------------------------------


def made(tokenizer=None):
    """Return three pairs with margins 2, −1 and 0.5; a prompt of two tokens, tails of padding."""
    ids = np.array([[1, 2, 3, 4]] * 6)
    labels = np.array([[-100, -100, 3, 4]] * 3 + [[-100, -100, 3, -100]] * 3)
    said = np.array([[0, -1, -2], [0, -2, -2], [0, -1, -1.5], [0, -3, 9], [0, -1, 9], [0, -1, 9]])
    ref = np.array([[0, -2, -2], [0, -2, -2], [0, -1, -2], [0, -2, 9], [0, -2, 9], [0, -1, 9]])
    return PairView(ids, labels, said, ref, tokenizer)


def page(panel):
    content, (data,) = panel.part(PairsPanel).new_view_messages()[0]
    return content, np.frombuffer(data, "<f4")


def test_pairs_stand_side_by_side_in_the_order_of_their_margins():
    panel = PreferencePanel(made())
    assert panel.pairs["n"] == 3 and panel.pairs["accuracy"] == pytest.approx(2 / 3)
    assert panel.pairs["mean"] == pytest.approx(0.5)
    orders = {"given": [0, 1, 2], "wrong": [1, 2, 0], "right": [0, 2, 1], "close": [2, 1, 0]}
    for sort, order in orders.items():
        panel.pairs_sort = sort
        assert [group["at"] for group in page(panel)[0]["groups"]] == order
    panel.pairs_sort = "wrong"
    content, values = page(panel)
    first = content["groups"][0]
    assert first["mean"] == -1 and [row["row"] for row in first["rows"]] == [1, 4]
    assert [row["tokens"] for row in first["rows"]] == [["3 ", "4 "], ["3 "]]
    assert values.tolist() == [0, 0, 1, 0, 0.5, 0, 1, 0, -1]
    assert panel.look_at_pair(3, 1) == {"log π": -3, "log π of the reference": -2, "log-ratio": -1}
    assert panel.pairs_token == [3, 1]
    for row, place in ((0, 0), (3, 2), (6, 1), (-1, 1)):
        with pytest.raises(GraphError, match="there is no token"):
            panel.look_at_pair(row, place)
    with pytest.raises(GraphError, match="measured once"):
        panel.measure_pairs()


def test_pairs_are_measured_anew_as_training_goes_on(trained, monkeypatch):
    trainer, data, _ = trained
    panel = PreferencePanel(lambda: pairs_of(trainer, data), trainer)
    before = panel.pairs["mean"]
    trainer.fit(data, batch_size=8, epochs=2, progress=False)
    assert panel.pairs["mean"] == before
    messages = sent(panel, monkeypatch)
    panel._receive(panel, {"kind": "pairs.measure", "id": 1}, [])
    assert panel.pairs["mean"] > before
    assert [c["kind"] for c, _ in messages] == ["heard", "pairs.page", "done"]


def test_pairs_are_text_and_hostile_messages_change_nothing(tmp_path):
    class Marks:
        def decode(self, ids):
            return EVIL * len(ids)

    panel = PreferencePanel(made(Marks()))
    html = panel.to_html(tmp_path / "page.html")
    assert EVIL not in html and "<img" not in panel.to_table() and "&lt;img" in panel.to_table()
    for wrong in (None, True, -1, 10**30, 1.5, float("nan"), "", "</script>", [], {}):
        panel._receive(panel, {"kind": "pairs.look", "row": wrong, "place": 1}, [])
        panel._receive(panel, {"kind": "pairs.look", "row": 0, "place": wrong}, [])
        panel.set_state({"pairs_sort": wrong, "pairs_first": wrong})
    panel._receive(panel, {"kind": "pairs.sync"}, [])
    panel.pairs_first = 10**9
    assert len(page(panel)[0]["groups"]) == 3
    assert PreferencePanel().pairs == {} and PreferencePanel().to_table() == ""
