"""Distillation beside torch, a student that learns from its teacher, and continued pretraining."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import ShapeError, TrainingError
from gradwright.recipes.pretraining import continue_pretraining, replayed, token_rows


def value_and_gradient(build, *arrays):
    """Return a term of the first array and constants, and its gradient with respect to it."""
    g = gw.Graph()
    s = g.variable("s", arrays[0].shape, init=arrays[0], dtype=str(arrays[0].dtype))
    term = build(s, *(g.constant(a, dtype=str(a.dtype)) for a in arrays[1:]))
    (ds,) = gw.gradients(term, [s])
    return gw.Session(g).run([term, ds])


def torch_value_and_gradient(torch, build, *arrays):
    s, *rest = (torch.tensor(a) for a in arrays)
    s.requires_grad_()
    term = build(s, *rest)
    term.backward()
    return term.item(), s.grad.numpy()


def both(torch, ours, theirs, *arrays):
    for a, b in zip(
        value_and_gradient(ours, *arrays),
        torch_value_and_gradient(torch, theirs, *arrays),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_hinton_with_a_mask(torch, rng):
    s, t = rng.standard_normal((2, 3, 4, 5))
    labels, mask = rng.integers(0, 5, (3, 4)), rng.uniform(size=(3, 4)) > 0.4
    F = torch.nn.functional

    def theirs(s, t, labels, mask):
        kl = F.kl_div((s / 3).log_softmax(-1), (t / 3).softmax(-1), reduction="none").sum(-1)
        hard = F.cross_entropy(s.movedim(-1, 1), labels, reduction="none")
        return (0.7 * 9 * kl + 0.3 * hard)[mask].mean()

    def ours(s, t, labels, mask):
        return gw.distillation.soft_targets(s, t, labels, temperature=3.0, alpha=0.7, mask=mask)

    both(torch, ours, theirs, s, t, labels, mask)


@pytest.mark.parametrize("beta", [0.0, 0.3, 0.5, 1.0])
def test_gkd_is_trls_divergence(torch, rng, beta):
    s, t = rng.standard_normal((2, 6, 5))
    mask = np.array([1, 1, 0, 1, 0, 1], bool)

    def theirs(s, t, mask):
        kl, log = torch.nn.functional.kl_div, torch.log
        s, t = (s / 0.9).log_softmax(-1), (t / 0.9).log_softmax(-1)
        if beta in (0, 1):
            pair = (s, t) if beta == 0 else (t, s)
            loss = kl(*pair, reduction="none", log_target=True)
        else:
            mixed = log(beta * t.exp() + (1 - beta) * s.exp())
            to_teacher = kl(mixed, t, reduction="none", log_target=True)
            to_student = kl(mixed, s, reduction="none", log_target=True)
            loss = beta * to_teacher + (1 - beta) * to_student
        return loss[mask].sum() / mask.sum()

    def ours(s, t, mask):
        return gw.distillation.on_policy(s, t, beta=beta, mask=mask)

    both(torch, ours, theirs, s, t, mask)


def test_attention_maps_are_normalised(torch, rng):
    s, t = rng.standard_normal((2, 3, 4, 4)), rng.standard_normal((2, 7, 4, 4))

    def theirs(s, t):
        maps = [torch.nn.functional.normalize(x.pow(2).sum(1).flatten(1), dim=1) for x in (s, t)]
        return (maps[0] - maps[1]).pow(2).sum(1).mean()

    both(torch, gw.distillation.attention_maps, theirs, s, t)
    with pytest.raises(ShapeError, match="need: activations"):
        both(torch, gw.distillation.attention_maps, theirs, s[0, 0], t[0, 0])


def test_features_are_projected_where_widths_differ(rng):
    g = gw.Graph()
    s, t = g.placeholder("s", (None, 3), "float64"), g.placeholder("t", (None, 5), "float64")
    loss = gw.distillation.features(s, t, name="project")
    feeds = {"s": rng.standard_normal((4, 3)), "t": rng.standard_normal((4, 5))}
    w = g.values["project"]
    expected = np.mean((feeds["s"] @ w - feeds["t"]) ** 2)
    assert float(gw.Session(g).run(loss, feeds)) == pytest.approx(expected)
    np.testing.assert_allclose(w @ w.T, np.eye(3), atol=1e-12)
    unknown = g.placeholder("u", (None, None), "float64")
    with pytest.raises(ShapeError, match="need: known widths"):
        gw.distillation.features(unknown, t)


def test_the_teacher_gets_no_gradient():
    g = gw.Graph()
    s, t = g.variable("s", (1, 3), init=0.0), g.variable("t", (1, 3), init=[[1.0, 2.0, 3.0]])
    for term in (
        gw.distillation.soft_targets(s, t),
        gw.distillation.on_policy(s, t),
        gw.distillation.features(s, t),
    ):
        (dt,) = gw.gradients(term, [t], unreachable="zero")
        assert not gw.Session(g).run(dt).any()


def test_terms_are_weighed_and_measured():
    g = gw.Graph()
    a, b = g.variable("a", (), init=3.0), g.variable("b", (), init=5.0)
    distilled = gw.distillation.Distillation({"a": a * 1.0, "b": (0.5, b * 1.0)})
    assert float(gw.Session(g).run(distilled.loss)) == 5.5
    assert list(distilled.metrics) == ["a", "b"] and repr(distilled).endswith("1·a + 0.5·b>")
    for terms in ({}, {"a": (-1.0, a * 1.0)}, {"a": 3.0}, {"v": g.constant([1.0])}):
        with pytest.raises((TrainingError, ShapeError)):
            gw.distillation.Distillation(terms)
    with pytest.raises(TrainingError, match=r'(?s)of type list.*by name.*Distillation\({"labels"'):
        gw.distillation.Distillation([a * 1.0])


def test_a_student_learns_from_soft_targets_what_labels_alone_do_not_tell():
    """Few labelled examples, a teacher that knows the rule: the student follows the teacher."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((600, 6)).astype("float32")
    truth = np.argmax(x[:, :3] * x[:, 3:], 1)

    def network(name, width, seed):
        g = gw.Graph(name)
        fed, t = g.placeholder("x", (None, 6)), g.placeholder("t", (None,), "int64")
        w = g.variable("w", (6, width), init=gw.init.he_normal(seed=seed))
        h = gw.nn.relu(fed @ w + g.variable("b", (width,)))
        logits = h @ g.variable("v", (width, 3), init=gw.init.he_normal(seed=seed + 1))
        return g, t, logits

    g, t, teacher = network("teacher", 128, 0)
    trainer = gw.Trainer(g, gw.loss.sparse_softmax_cross_entropy(t, teacher), gw.optim.Adam(0.01))
    trainer.fit({"x": x, "t": truth}, epochs=60, batch_size=64, progress=False)
    train, test = slice(0, 300), slice(300, None)
    said = gw.predict(g, {"said": teacher}, {"x": x})["said"]

    def student(soft):
        g, t, logits = network("student", 32, 7)
        told = g.placeholder("said", (None, 3))
        few = gw.loss.sparse_softmax_cross_entropy(t, logits, ignore_index=-1)
        loss = gw.distillation.Distillation(
            {"few": few, **({"soft": gw.distillation.soft_targets(logits, told)} if soft else {})}
        ).loss
        labels = np.where(np.arange(300) < 30, truth[train], -1)
        data = {"x": x[train], "t": labels, **({"said": said[train]} if soft else {})}
        gw.Trainer(g, loss, gw.optim.Adam(0.01)).fit(data, epochs=60, batch_size=64, progress=False)
        found = gw.predict(g, {"l": logits}, {"x": x[test]})["l"]
        return float(np.mean(found.argmax(1) == truth[test]))

    with_teacher, alone = student(True), student(False)
    assert with_teacher > alone + 0.1


# -- continued pretraining -----------------------------------------------------------------------


def test_rows_of_tokens():
    rows = token_rows(["abc", [9, 9]], 2, encode=lambda s: [ord(c) for c in s], end=0)
    assert rows.tolist() == [[97, 98], [99, 0], [9, 9]]
    with pytest.raises(TrainingError, match="make no row of 9"):
        token_rows(["abc"], 9, encode=lambda s: [1] * len(s))
    with pytest.raises(TrainingError, match="a document is text"):
        token_rows(["abc"], 1)


def test_old_rows_are_replayed_in_their_share():
    new, old = np.zeros((95, 3), int), np.arange(1, 4)[:, None] * np.ones((1, 3), int)
    rows = replayed(new, old, 0.05)
    assert len(rows) == 100 and sorted(rows[95:, 0]) in (
        [1, 1, 2, 2, 3],
        [1, 1, 2, 3, 3],
        [1, 2, 2, 3, 3],
    )
    np.testing.assert_array_equal(rows, replayed(new, old, 0.05))
    assert len(replayed(new, old, 0.0)) == 95
    with pytest.raises(TrainingError, match="share=1"):
        replayed(new, old, 1)


def test_replay_keeps_what_was_learnt():
    rng = np.random.default_rng(0)

    def language(successor):
        """Return rows in which each token is followed by its successor, mostly."""
        rows = np.zeros((200, 9), int)
        rows[:, 0] = rng.integers(0, 6, 200)
        for i in range(1, 9):
            noise = rng.uniform(size=200) < 0.1
            rows[:, i] = np.where(noise, rng.integers(0, 6, 200), successor[rows[:, i - 1]])
        return rows

    # Half of the tokens go on as they did, so the texts do not contradict each other throughout.
    old, new = language(np.array([1, 2, 3, 4, 5, 0])), language(np.array([1, 2, 3, 5, 0, 4]))

    def run(share):
        g = gw.Graph()
        ids = g.placeholder("ids", (None, 9), "int64")
        x = gw.gather(g.variable("table", (6, 6), init=0.0), ids[:, :-1])
        loss = gw.loss.sparse_softmax_cross_entropy(ids[:, 1:], x)
        first = gw.Trainer(g, loss, gw.optim.Adam(0.05))
        first.fit({"ids": old[:150]}, epochs=20, progress=False)
        schedule = gw.schedules.Cosine(0.05, steps=400, warmup=20)
        return continue_pretraining(
            gw.Trainer(g, loss, gw.optim.Adam(schedule)),
            replayed(new[:150], old[:150], share),
            held_out={"old": old[150:], "new": new[150:]},
            feeds=lambda r: {"ids": r},
            epochs=20,
            progress=False,
        )

    alone, mixed = run(0.0), run(0.3)
    assert alone.after["new"] < 2.2 < alone.before["new"]
    assert mixed.after["new"] < mixed.before["new"]
    assert mixed.after["old"] < 0.7 * alone.after["old"]
    assert "old" in str(mixed) and len(mixed.plot().data) == 2
