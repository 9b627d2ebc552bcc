"""Parts of tuples: features, labels, and masks of both, by name and by pattern."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import FeedError

SETTINGS = {
    "features": "in/*",
    "labels": "out/*",
    "feature_masks": "shown_in",
    "label_masks": "shown_out",
}


def network():
    """Return a graph of sequences x, numbers z and labels, with a mask of x and one of labels."""
    g = gw.Graph()
    with g.scope("in"):
        x, z = g.placeholder("x", (None, None, 3)), g.placeholder("z", (None,))
    with g.scope("out"):
        t = g.placeholder("t", (None, None), "int64")
    seen = g.placeholder("shown_in", (None, None), "bool")
    counts = g.placeholder("shown_out", (None, None))
    hidden = gw.where(gw.expand_dims(seen, -1), x, 0.0) + gw.reshape(z, (-1, 1, 1))
    scores = hidden @ g.variable("w", (3, 4), init=gw.init.normal(seed=1))
    return g, gw.loss.sparse_softmax_cross_entropy(t, scores, counts, name="loss")


def arrays(n=6):
    rng = np.random.default_rng(0)
    x, z = rng.standard_normal((n, 5, 3)).astype(np.float32), rng.standard_normal(n)
    t, seen = rng.integers(0, 4, (n, 5)), rng.random((n, 5)) < 0.7
    return x, z.astype(np.float32), t, seen, (rng.random((n, 5)) < 0.5).astype(np.float32)


NAMES = ("in/x", "in/z", "out/t", "shown_in", "shown_out")


def losses(data, *more, **options):
    g, loss = network()
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.5), **SETTINGS)
    history = trainer.fit(data, *more, batch_size=3, epochs=2, progress=False, **options)
    return history.steps["loss"].tolist()


def by_name(*parts):
    g, loss = network()
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.5))
    data = dict(zip(NAMES, parts, strict=True))
    return trainer.fit(data, batch_size=3, epochs=2, progress=False).steps["loss"].tolist()


def test_parts_go_to_the_placeholders_that_patterns_fit():
    parts = arrays()
    expected = by_name(*parts)
    assert losses(parts) == expected == losses(*parts)
    x, z, t, seen, counts = parts
    assert losses(((x, z), t, seen, counts)) == expected


def test_a_mask_that_is_none_or_left_out_shows_all():
    x, z, t, seen, _ = arrays()
    everything = np.ones((6, 5))
    for mask, given in ((seen, (seen, None)), (everything, (None, None)), (everything, ())):
        expected = by_name(x, z, t, mask.astype(bool), everything)
        assert losses((x, z, t, *given)) == expected
    assert losses(x, z, t, seen) == by_name(x, z, t, seen, everything)


def test_masks_may_be_none_in_some_batches_and_examples():
    x, z, t, seen, counts = arrays()
    everything = np.ones((3, 5), np.float32)
    g, loss = network()
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.5), **SETTINGS)
    first, second = slice(0, 3), slice(3, 6)
    batches = [
        (x[first], z[first], t[first], seen[first], counts[first]),
        (x[second], z[second], t[second], None, None),
    ]
    found = trainer.fit(batches, progress=False).steps["loss"]
    whole = np.concatenate([seen[first], everything.astype(bool)])
    counted = np.concatenate([counts[first], everything])
    other, loss = network()
    trainer = gw.Trainer(other, loss, optimizer=gw.optim.SGD(0.5))
    data = dict(zip(NAMES, (x, z, t, whole, counted), strict=True))
    expected = trainer.fit(data, batch_size=3, shuffle=False, progress=False).steps["loss"]
    assert found.tolist() == expected.tolist()
    again, loss = network()
    trainer = gw.Trainer(again, loss, optimizer=gw.optim.SGD(0.5), **SETTINGS)
    found = trainer.fit(Rows(x, z, t, whole), batch_size=3, shuffle=False, progress=False)
    other, loss = network()
    trainer = gw.Trainer(other, loss, optimizer=gw.optim.SGD(0.5))
    data["shown_out"] = np.ones((6, 5), np.float32)
    expected = trainer.fit(data, batch_size=3, shuffle=False, progress=False).steps["loss"]
    assert found.steps["loss"].tolist() == expected.tolist()


class Rows:
    """Examples one by one, whose labels have no mask."""

    def __init__(self, *columns):
        self.columns = columns

    def __len__(self):
        return len(self.columns[0])

    def __getitem__(self, i):
        return (*(column[i] for column in self.columns), None)


def test_a_step_takes_a_tuple_too():
    x, z, t, seen, counts = arrays()
    g, loss = network()
    trainer = gw.Trainer(g, loss, **SETTINGS)
    expected = loss.eval(dict(zip(NAMES, (x, z, t, seen, counts), strict=True)))
    assert trainer.step((x, z, t, seen, counts)).metrics["loss"] == pytest.approx(expected)
    data = dict(zip(NAMES, (x, z, t, seen, np.ones((6, 5))), strict=True))
    expected = loss.eval(data)
    assert trainer.step(((x, z), t, seen)).metrics["loss"] == pytest.approx(expected)


def test_validation_split_and_folds_know_the_parts():
    parts = arrays(12)
    g, loss = network()
    trainer = gw.Trainer(g, loss, **SETTINGS)
    history = trainer.fit(parts[:3], batch_size=3, validation=0.25, progress=False)
    assert history.steps.rows == 3 and np.isfinite(history.epochs["val_loss"]).all()

    def make(fold):
        g, loss = network()
        return gw.Trainer(g, loss, **SETTINGS)

    report = gw.train.cross_validate(make, parts, 3, progress=False)
    assert report.sizes == (4, 4, 4)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (lambda x, z, t, seen, counts: (x, z), "has 2 parts, but there are 5 names"),
        (lambda x, z, t, seen, counts: (x, z, t, seen, counts, t), "has 6 parts"),
        (lambda x, z, t, seen, counts: (x, z, None, seen, counts), "out/t"),
    ],
)
def test_other_parts_may_not_be_missing(parts, message):
    g, loss = network()
    trainer = gw.Trainer(g, loss, **SETTINGS)
    with pytest.raises(FeedError, match=message):
        trainer.fit(parts(*arrays()), progress=False)


def test_a_pattern_that_fits_nothing_is_named():
    g, loss = network()
    trainer = gw.Trainer(g, loss, features="inn/*", labels="out/*")
    with pytest.raises(FeedError, match=r"no placeholder 'inn/\*'"):
        trainer.fit((arrays()[0], arrays()[2]), progress=False)


def test_settings_are_json():
    config = gw.TrainingConfig(**SETTINGS, masks="more")
    assert gw.TrainingConfig.from_json(config.to_json()) == config
    assert config.columns == ("in/*", "out/*", "shown_in", "shown_out", "more")
