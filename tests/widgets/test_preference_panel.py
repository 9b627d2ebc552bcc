"""Preference pairs without a browser: side by side, by their margins, measured anew, refused."""

from __future__ import annotations

import numpy as np
import pytest

from gradwright.align import PairView, pairs_of
from gradwright.errors import GraphError
from gradwright_widgets import PreferencePanel
from gradwright_widgets.panels.rollouts.pairs import PairsPanel
from tests.support.panels import EVIL, sent
from tests.support.rollouts import preferring


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


def test_tokens_that_do_not_count_are_shown_without_a_number():
    ids, labels = (
        np.array([[1, 2, 3, 4]] * 2),
        np.array([[-100, 2, -100, 4], [-100, 2, -100, -100]]),
    )
    view = PairView(ids, labels, np.array([[-1.0, 9, -2], [-3, 9, 9]]))
    content, values = page(PreferencePanel(view))
    rows = content["groups"][0]["rows"]
    assert [row["tokens"] for row in rows] == [["2 ", "3 ", "4 "], ["2 "]]
    assert values.tolist() == [-1, 0, -2, -3] and content["groups"][0]["mean"] == 0


def test_pairs_are_measured_anew_as_training_goes_on(monkeypatch):
    trainer, data = preferring()
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
