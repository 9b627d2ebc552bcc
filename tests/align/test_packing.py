"""Packed rows see nothing of each other; padded and sorted batches hold what the rows hold."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.align import TokenRow, collate, order_by_length, pack
from gradwright.models import Decoder, DecoderConfig


def drawn(seed: int, n: int, most: int) -> list[TokenRow]:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, most, n)
    return [
        TokenRow(rng.integers(0, 19, length).tolist(), int(rng.integers(0, length)))
        for length in lengths
    ]


def test_packed_loss_is_that_of_separate_rows_weighted_by_tokens() -> None:
    config = DecoderConfig(vocabulary=19, width=16, layers=2, heads=2)
    rng = np.random.default_rng(0)
    values = {name: np.float32(rng.normal(0, 0.4, shape)) for name, shape in config.weights()}
    model = Decoder(config, position_ids=True, values=values)
    session = gw.Session(model.graph)
    rows = drawn(1, 24, 9)
    for strategy in ("bfd", "wrapped"):
        if strategy == "wrapped":  # a row that it cuts goes on as one of its own
            begins = np.cumsum([0, *map(len, rows)]).tolist()
            cuts = [12 - begin % 12 for begin in begins]
            parts = [
                part
                for row, cut in zip(rows, cuts, strict=False)
                for part in (row.part(0, cut), row.part(cut, len(row)))
            ]
            rows = [row for row in parts if len(row)]
        wanted = session.run([model.loss, model.tokens], collate(rows, position_ids=True))
        found = session.run([model.loss, model.tokens], pack(drawn(1, 24, 9), 12, strategy))
        np.testing.assert_allclose(found, wanted, rtol=1e-6)
        assert wanted[1] > 30


def test_a_packing_loses_tokens_only_where_it_says_so() -> None:
    rows = drawn(2, 40, 30)
    held = sorted(token for row in rows for token in row.tokens)
    for strategy in ("bfd_split", "wrapped"):
        found = pack(rows, 8, strategy)
        starts = np.diff(found["position_ids"], axis=1, prepend=0)
        assert ((starts == 1) | (found["position_ids"] == 0)).all()
        padding = found["ids"].size - len(held)
        zeros = [0] * padding
        assert sorted(found["ids"].reshape(-1).tolist()) == sorted(held + zeros)
    assert np.count_nonzero(pack(rows, 8)["ids"]) <= sum(min(8, len(row)) for row in rows)


def test_batches_are_as_wide_as_a_multiple() -> None:
    rows = drawn(3, 5, 11)
    wide, narrow = collate(rows, multiple_of=16), collate(rows)
    n = max(map(len, rows))
    assert wide["ids"].shape == (5, 16) and narrow["ids"].shape == (5, n)
    np.testing.assert_array_equal(wide["labels"][:, :n], narrow["labels"])
    assert (wide["labels"][:, n:] == -100).all()


def test_order_by_length_pads_less_and_is_a_permutation() -> None:
    lengths = np.random.default_rng(4).integers(1, 200, 403)
    for epoch in range(2):
        found = order_by_length(lengths, 8, epoch=epoch, seed=5)
        assert sorted(found.tolist()) == list(range(403))
        full = lengths[found[:400]].reshape(-1, 8)
        plain = lengths[gw.data.order(5, epoch, 403)[:400]].reshape(-1, 8)
        waste = [(batch.max(1, keepdims=True) - batch).sum() for batch in (full, plain)]
        assert waste[0] < waste[1] / 4
    assert found.tolist() == order_by_length(lengths, 8, epoch=1, seed=5).tolist()
    assert found.tolist() != order_by_length(lengths, 8, epoch=0, seed=5).tolist()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: pack([TokenRow([1, 2])], 8, "first"),
        lambda: pack([TokenRow([1, 2])], 1),
        lambda: pack([TokenRow([])], 8),
        lambda: collate([]),
        lambda: collate([TokenRow([1])], multiple_of=0),
        lambda: order_by_length([1], 0),
        lambda: TokenRow([1, 2], 3),
        lambda: TokenRow([1, 2], 0, [True]),
    ],
)
def test_what_cannot_be_packed_is_told(wrong) -> None:
    with pytest.raises(gw.errors.FeedError):
        wrong()
