"""Splits, class weights and buckets: every row once, by seed, in few shapes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import gradwright as gw
from gradwright.data.buckets import best_boundaries
from gradwright.errors import FeedError, TrainingError

N = 37
B = np.arange(N)
T = np.arange(N) % 4


def plain(items):
    return [{k: np.asarray(v).tolist() for k, v in item.items()} for item in items]


# -- splits and weights ----------------------------------------------------------------------------


def test_a_split_is_a_partition_by_seed(torch):
    loader_data = torch.utils.data.TensorDataset(torch.tensor(B))
    for data, names in (({"b": B}, None), (loader_data, ("b",)), ((B,), ("b",))):
        train, held_out = gw.data.split(data, 0.25, seed=3, names=names)
        parts = [part.rows(0, slice(0, part.n))["b"].tolist() for part in (train, held_out)]
        assert sorted(parts[0] + parts[1]) == B.tolist() and len(parts[1]) == round(N * 0.25)
        again = gw.data.split({"b": B}, 0.25, seed=3)[1]
        assert again.rows(0, slice(0, again.n))["b"].tolist() == parts[1]
        assert all(part == sorted(part) for part in parts)
    other = gw.data.split({"b": B}, 0.25, seed=4)[1]
    assert other.rows(0, slice(0, other.n))["b"].tolist() != parts[1]
    assert other.signature() != again.signature()


def test_a_stratified_split_keeps_the_share_of_each_class():
    labels = np.array([0] * 60 + [1] * 30 + [2] * 10)
    for stratify in ("t", labels):
        _, held_out = gw.data.split({"t": labels}, 0.2, stratify=stratify)
        found = held_out.rows(0, slice(0, held_out.n))["t"]
        assert np.bincount(found).tolist() == [12, 6, 2]


def test_what_has_no_label_is_a_class_of_its_own():
    labels = np.array([np.nan] * 4 + [1.0] * 6)
    for _, held_out in gw.data.k_folds({"t": labels}, 2, stratify="t"):
        found = held_out.rows(0, slice(0, held_out.n))["t"]
        assert (np.isnan(found).sum(), len(found)) == (2, 5)


@pytest.mark.parametrize(
    ("data", "options", "error", "message"),
    [
        ([{"b": B}], {}, FeedError, "cannot be split by a fraction"),
        ({"b": B}, {"validation": 1.0}, TrainingError, "0 < validation < 1"),
        ({"b": B}, {"validation": True}, TrainingError, "0 < validation < 1"),
        ({"b": B[:3]}, {"validation": 0.1}, TrainingError, "leaves 3 to train on and 0 to"),
        ({"b": B}, {"stratify": T[:5]}, FeedError, r"labels of shape \(5,\) for 37 rows"),
        ({"b": B}, {"stratify": "z"}, FeedError, "no column 'z'"),
    ],
)
def test_splits_that_make_no_sense_are_named(data, options, error, message):
    with pytest.raises(error, match=message):
        gw.data.split(data, **options)


def test_class_weights_are_those_of_scikit_learn():
    sklearn = pytest.importorskip(
        "sklearn.utils", reason="no scikit-learn: pip install -e '.[lab]'"
    )
    labels = np.random.default_rng(0).choice(5, 200, p=[0.5, 0.2, 0.2, 0.05, 0.05])
    expected = sklearn.compute_class_weight("balanced", classes=np.arange(5), y=labels)
    np.testing.assert_allclose(gw.data.class_weights(labels), expected, rtol=1e-6)
    weights = gw.data.example_weights(labels)
    np.testing.assert_allclose(
        weights, sklearn.compute_sample_weight("balanced", labels), rtol=1e-6
    )
    assert weights.mean() == pytest.approx(1.0)
    assert gw.data.class_weights([0, 2, 2], n_classes=4).tolist() == [1.5, 0.0, 0.75, 0.0]
    assert gw.data.example_weights([2, 0], [0.5, 1.0, 2.0]).tolist() == [2.0, 0.5]


def test_labels_that_are_no_classes_are_named():
    for labels in ([0.5], [-1], [], [[0]]):
        with pytest.raises(FeedError, match="class numbers from 0"):
            gw.data.class_weights(labels)
    for text in (["u", "v"], np.array(["u", "v"], object)):
        with pytest.raises(FeedError, match=r"np.unique\(labels, return_inverse=True\)\[1\]"):
            gw.data.class_weights(text)
    with pytest.raises(FeedError, match="label 3 is beyond n_classes=3"):
        gw.data.class_weights([0, 3], n_classes=3)
    for weights in ({0: 1.0}, [1.0]):
        with pytest.raises(FeedError, match="class 1 has no weight"):
            gw.data.example_weights([0, 1], weights)


# -- buckets ---------------------------------------------------------------------------------------


def sentences(n=200, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.integers(1, 99, size) for size in rng.integers(1, 40, n)]


def test_buckets_hold_every_row_once_in_few_shapes():
    ids = sentences()
    labels = np.arange(len(ids))
    data = gw.data.buckets(
        {"ids": ids, "t": labels}, [10, 20, 40], batch_tokens=160, masks={"ids": "mask"}, seed=2
    )
    found = list(data.epoch(1))
    assert len(found) == data.n
    assert {b["ids"].shape[1] for b in found} == {10, 20, 40}
    assert len({b["ids"].shape for b in found}) <= 6
    assert all(b["ids"].size <= 160 for b in found)
    assert sorted(np.concatenate([b["t"] for b in found]).tolist()) == labels.tolist()
    for batch in found:
        for row, mask, label in zip(batch["ids"], batch["mask"], batch["t"], strict=True):
            assert row[mask].tolist() == ids[label].tolist()
            assert not row[~mask].any() and mask.sum() == len(ids[label])
    lengths = [b["ids"].shape[1] for b in found]
    assert lengths != sorted(lengths)
    assert data.where(1, 3, 2) == f"row {found[3]['t'][2]} of the data"


def test_buckets_resume_without_reading_what_is_done():
    ids = sentences(60)
    first, data = (gw.data.buckets({"ids": ids}, n=3, batch_size=8, seed=5) for _ in range(2))
    assert first.signature() == data.signature()
    for epoch in (0, 2):
        whole = plain(first.epoch(epoch))
        for skip in range(len(whole) + 1):
            assert plain(data.epoch(epoch, skip)) == whole[skip:]
    read, table = [], data._table
    data._table = type(
        "Counting", (), {"rows": lambda s, e, at: read.append(at) or table.rows(e, at)}
    )()
    list(data.epoch(0, skip=data.n - 1))
    assert len(read) == 1


def test_boundaries_pad_least():
    pa = pytest.importorskip("pyarrow", reason="no pyarrow: pip install -e '.[data]'")
    lengths = np.random.default_rng(1).integers(1, 12, 40)

    def padded(ends):
        return sum(min(e for e in ends if e >= size) for size in lengths)

    sizes = sorted(set(lengths.tolist()))
    for n in (1, 2, 3):
        best = min(
            padded([*inner, sizes[-1]]) for inner in itertools.combinations(sizes[:-1], n - 1)
        )
        assert padded(best_boundaries(lengths, n)) == best
    ids = [np.ones(n) for n in lengths]
    data = gw.data.buckets({"ids": ids}, n=3, batch_size=4)
    assert data.padding == pytest.approx(1 - lengths.sum() / best)
    table = pa.table({"ids": [list(s) for s in ids], "t": list(range(40))})
    from_arrow = gw.data.buckets(table, n=3, batch_size=4)
    assert [b["ids"].shape for b in from_arrow] == [b["ids"].shape for b in data]


def test_sequences_of_two_columns_share_a_bucket():
    pairs = {"source": [[1, 2], [1], [1, 2, 3]], "target": [[1], [1, 2, 3, 4], [5]]}
    (batch,) = gw.data.buckets(pairs, [4], shuffle=False, pad={"source": 0, "target": -1})
    assert batch["source"].shape == batch["target"].shape == (3, 4)
    assert batch["target"][2].tolist() == [5, -1, -1, -1]


@pytest.mark.parametrize(
    ("data", "options", "error", "message"),
    [
        ({"ids": [[1], [1, 2, 3]]}, {"boundaries": [2]}, FeedError, "row 1 has length 3"),
        ({"ids": [[1], [1, 2]]}, {"boundaries": []}, TrainingError, "no boundaries"),
        ({"ids": [[1], [1, 2]]}, {"batch_tokens": 1}, TrainingError, "less than one row"),
        ({"ids": [[1]]}, {"batch_tokens": 8, "batch_size": 2}, TrainingError, "both given"),
        ({"ids": [[1]]}, {"n": 0}, TrainingError, "number of buckets is 0"),
        ({"t": [1, 2]}, {}, FeedError, "no column holds sequences"),
        ({"ids": [[1]], "t": [1]}, {"by": "t"}, FeedError, "'t' does not hold sequences"),
        ([{"ids": [[1]]}], {}, FeedError, "cannot be sorted into buckets"),
        ({"ids": [[1]]}, {"masks": "m"}, TrainingError, 'masks={"ids": "m"}'),
    ],
)
def test_buckets_that_make_no_sense_are_named(data, options, error, message):
    with pytest.raises(error, match=message):
        gw.data.buckets(data, **options)


def test_plans_are_reused_over_the_shapes_of_buckets():
    g = gw.Graph()
    x, mask = g.placeholder("ids", (None, None), "int64"), g.placeholder("mask", (None, None))
    table = g.variable("table", (100, 2), init=0.1)
    loss = gw.mean(gw.gather(table, x)[:, :, 0] * mask)
    ids = sentences(120)
    data = gw.data.buckets({"ids": ids}, n=3, batch_size=10, masks={"ids": "mask"})
    trainer = gw.Trainer(g, loss, gw.optim.SGD(0.1))
    trainer.fit(data, progress=False)
    plans = len(trainer.session.plan_cache)
    assert plans <= 6
    trainer.fit(data, epochs=2, progress=False)
    assert trainer.steps_done == 3 * data.n and len(trainer.session.plan_cache) == plans
