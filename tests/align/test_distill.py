"""On-policy distillation beside TRL's, and what it leaves alone."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw
from gradwright.align import Distill, trainer
from gradwright.errors import GraphError, TrainingError
from gradwright.models import Decoder, DecoderConfig

ROWS = [
    {"prompt": [1, 2, 3], "completion": [4, 5]},
    {"prompt": [6], "completion": [7, 8, 9, 10]},
    {"prompt": [2, 2], "completion": [3]},
]
"""Of unequal lengths, in prompts and completions."""


def decoder(seed: int, width: int = 16, **settings) -> Decoder:
    config = DecoderConfig(vocabulary=12, width=width, layers=1, heads=2, context=16, **settings)
    made = Decoder(config, seed=seed, eos=11)
    for name in ("head", "embed"):  # large enough that student and teacher differ
        if name in made.graph.values:
            made.graph.values[name] = made.graph.values[name] * 20
    return made


def logits(model: Decoder, ids) -> np.ndarray:
    return np.asarray(gw.Session(model.graph).run(model.logits, {"ids": ids}))


def whole_rows() -> dict[str, np.ndarray]:
    """Return rows with their ends as one batch, as TRL would have them."""
    rows = [[*r["prompt"], *r["completion"], 11] for r in ROWS]
    return decoder(0).examples(rows, [len(r["prompt"]) for r in ROWS])


@pytest.mark.parametrize(
    ("beta", "temperature"), [(0.0, 1.0), (0.0, 2.0), (0.3, 2.0), (1.0, 1.0), (1.0, 2.0)]
)
def test_the_loss_of_a_batch_is_that_of_trl(beta: float, temperature: float) -> None:
    torch = pytest.importorskip("torch")
    gkd = pytest.importorskip("trl.experimental.gkd")
    student, teacher = decoder(0), decoder(5, width=24)
    batch = whole_rows()
    said = [torch.tensor(logits(m, batch["ids"])[:, :-1]) for m in (student, teacher)]
    labels = torch.tensor(batch["labels"][:, 1:])
    wanted = gkd.GKDTrainer.generalized_jsd_loss(*said, labels, beta, temperature)

    method = Distill(lmbda=0.0, beta=beta, loss_temperature=temperature)
    made = trainer(student, method, teacher=teacher)
    assert made.evaluate(ROWS)["loss"] == pytest.approx(wanted.item(), rel=1e-5)
    record = made.step(ROWS)
    assert record is not None and record.metrics["loss"] == pytest.approx(wanted.item(), rel=1e-5)


def test_the_gradient_is_that_of_the_loss_and_the_teacher_gets_none() -> None:
    student, teacher = decoder(0), decoder(5)
    before = bits(teacher)
    made = trainer(student, Distill(lmbda=0.0), teacher=teacher, optimizer=gw.optim.SGD(0.5))
    feeds = {t.name: array for t, array in made.parts.objective.feeds(ROWS).items()}
    report = gw.gradient_check(student.graph, made.loss, feeds, max_per_param=2)
    assert report.passed, report
    made.step(ROWS)
    assert bits(teacher) == before


def test_prompts_and_padding_count_for_nothing() -> None:
    """The mean is over tokens of completions and their ends: 3 + 5 + 2 of them."""
    student, teacher = decoder(0), decoder(5)
    made = trainer(student, Distill(lmbda=0.0), teacher=teacher)
    feeds = made.parts.objective.feeds(ROWS)
    counts = next(array for t, array in feeds.items() if t.name.endswith("counts"))
    assert counts.sum() == 10
    session, loss = gw.Session(student.graph), made.loss
    said = next(t for t in feeds if t.name.endswith("teacher"))
    wrong = {**feeds, said: np.where(counts[:, None] == 0, 5.0, feeds[said])}
    assert session.run(loss, feeds) == session.run(loss, wrong)


# -- completions of one's own ----------------------------------------------------------------------


def test_a_share_of_batches_is_drawn_from_the_student_as_it_is() -> None:
    student, teacher = decoder(0), decoder(5)
    objective = trainer(
        student, Distill(lmbda=0.5, max_new_tokens=4), teacher=teacher
    ).parts.objective
    asked = [r["prompt"] for r in ROWS]
    own, given = 0, objective.model.examples([[*r["prompt"], *r["completion"], 11] for r in ROWS])
    for _ in range(40):
        feeds = objective.feeds(ROWS)
        ids, labels = feeds[student.ids], feeds[student.labels]
        for row, prompt in zip(ids, asked, strict=True):
            assert row[: len(prompt)].tolist() == prompt
        assert [(np.flatnonzero(row != -100)[0]) for row in labels] == [len(p) for p in asked]
        width = given["ids"].shape[1]
        own += not np.array_equal(ids[:, :width], given["ids"])
    assert 10 < own < 30


def test_what_is_measured_keeps_the_completions_of_the_data() -> None:
    made = trainer(decoder(0), Distill(lmbda=1.0, max_new_tokens=4), teacher=decoder(5))
    assert made.evaluate(ROWS)["loss"] == made.evaluate(ROWS)["loss"]
    assert made.evaluate(ROWS)["on_policy"] == 0 and made.parts.objective.state_dict()["drawn"] == 0


@pytest.mark.parametrize("seq_kd", [False, True])
def test_a_student_comes_to_say_what_its_teacher_says(seq_kd: bool) -> None:
    """On prompts whose completions in the data are wrong."""
    student, teacher = decoder(0), decoder(5, width=24)
    method = Distill(lmbda=0.5 if seq_kd else 1.0, beta=0.5, max_new_tokens=4, seq_kd=seq_kd)
    made = trainer(student, method, teacher=teacher, optimizer=gw.optim.Adam(0.02))
    made.fit(ROWS * 4, steps=60, batch_size=12, progress=False)
    said = [
        [c.tokens for c in m.generate([r["prompt"] for r in ROWS], 4)] for m in (student, teacher)
    ]
    assert said[0] == said[1]


def test_a_training_resumes_to_the_bit(tmp_path) -> None:
    def made(**settings) -> gw.Trainer:
        method = Distill(lmbda=0.5, max_new_tokens=4)
        return trainer(decoder(0), method, teacher=decoder(5), deterministic=True, **settings)

    whole = made()
    whole.fit(ROWS * 3, steps=8, batch_size=3, progress=False)
    first = made(callbacks=[gw.Checkpoints(tmp_path)])
    first.fit(ROWS * 3, steps=4, batch_size=3, progress=False)
    second = made()
    gw.resume(second, tmp_path)
    second.fit(ROWS * 3, steps=4, batch_size=3, progress=False)
    for v in whole.graph.variables:
        assert whole.values[v.name].tobytes() == second.values[v.name].tobytes(), v.name
    other = trainer(decoder(0), Distill(beta=1.0), teacher=decoder(5), deterministic=True)
    with pytest.raises(TrainingError, match="by another method"):
        gw.resume(other, tmp_path)


def test_a_head_that_is_tied_or_capped_gives_the_same_logits() -> None:
    teacher = decoder(5, tied=True, logit_cap=5.0)
    student = decoder(0, logit_cap=3.0, norm="layer")
    objective = trainer(student, Distill(lmbda=0.0), teacher=teacher).parts.objective
    feeds = objective.feeds(ROWS)
    said = next(a for t, a in feeds.items() if t.name.endswith("teacher"))
    places = next(a for t, a in feeds.items() if t.name.endswith("places"))
    ids = feeds[student.ids]
    assert np.allclose(said, logits(teacher, ids).reshape(-1, 12)[places], atol=1e-5)


# -- what is refused -------------------------------------------------------------------------------


def test_what_cannot_be_distilled_is_refused() -> None:
    student = decoder(0)
    with pytest.raises(TrainingError, match="its own teacher"):
        trainer(student, Distill(), teacher=student)
    other = Decoder(DecoderConfig(vocabulary=13, width=16, layers=1, heads=2))
    with pytest.raises(TrainingError, match="a teacher of 13 tokens"):
        trainer(student, Distill(), teacher=other)
    with pytest.raises(TypeError, match="teacher"):
        trainer(student, Distill())
    for wrong in ({"lmbda": 1.5}, {"beta": -1.0}, {"temperature": 0.0}, {"max_new_tokens": 0}):
        with pytest.raises(GraphError, match="makes no sense"):
            Distill(**wrong)
    with pytest.raises(GraphError, match="the teacher is given"):
        Distill(teacher_model_init_kwargs={})


def bits(model: Decoder) -> dict[str, bytes]:
    return {v.name: model.graph.values[v.name].tobytes() for v in model.graph.variables}
