"""What other tools read of a training: TensorBoard's files, and offline runs of W&B."""

from __future__ import annotations

import struct
import sys
import types

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import TrainingError
from tests.support.lines import line, rows


def fit(trainer, **options):
    return trainer.fit(rows(), batch_size=8, validation=rows(seed=1), progress=False, **options)


# -- TensorBoard -----------------------------------------------------------------------------------


@pytest.fixture
def scalars():
    """Return a function that reads all event files of a folder: {tag: [(step, value)]}."""
    events = pytest.importorskip(
        "tensorboardX.proto.event_pb2", reason="no tensorboardX: pip install -e '.[tensorboard]'"
    )

    def records(path):
        data, at = path.read_bytes(), 0
        while at < len(data):
            (length,) = struct.unpack_from("<Q", data, at)
            event = events.Event()
            event.ParseFromString(data[at + 12 : at + 12 + length])
            yield event
            at += 16 + length

    def read(folder):
        found = {}
        for path in sorted(folder.glob("events.out.tfevents.*")):  # the order of TensorBoard
            for event in records(path):
                if event.session_log.status == events.SessionLog.START:  # hides what is done again
                    found = {
                        tag: [point for point in points if point[0] < event.step]
                        for tag, points in found.items()
                    }
                for value in event.summary.value:
                    kind = value.WhichOneof("value")
                    held = value.simple_value if kind == "simple_value" else getattr(value, kind)
                    found.setdefault(value.tag, []).append((event.step, held))
        return found

    return read


def test_tensorboard_reads_what_the_history_has(tmp_path, scalars):
    trainer = line(callbacks=[gw.train.TensorBoard(tmp_path)])
    history = fit(trainer, epochs=2)
    found = scalars(tmp_path)
    for kind, table in (("steps", history.steps), ("epochs", history.epochs)):
        for name in set(table) - {"step", "epoch", "seconds"}:
            steps, values = zip(*found[f"{kind}/{name}"], strict=True)
            assert list(steps) == table["step"].tolist()
            np.testing.assert_allclose(values, table[name], rtol=1e-6)


def test_every_tells_which_steps_and_histograms_which_parameters(tmp_path, scalars):
    trainer = line(callbacks=[gw.train.TensorBoard(tmp_path, every=3, histograms=2)])
    fit(trainer, epochs=4)
    found = scalars(tmp_path)
    assert [step for step, _ in found["steps/loss"]] == [3, 6, 9, 12]
    assert [step for step, _ in found["epochs/loss"]] == [3, 6, 9, 12]
    (_, first), (step, last) = found["w"]
    assert step == 12 and first.num == last.num == 3
    assert last.sum == pytest.approx(trainer.values["w"].sum(), rel=1e-6)


def test_what_is_done_again_after_a_resume_replaces_what_was_written(tmp_path, scalars):
    logs, kept = tmp_path / "logs", tmp_path / "kept"

    def training():
        return line(callbacks=[gw.Checkpoints(kept), gw.train.TensorBoard(logs)])

    fit(training(), epochs=2)
    expected = scalars(logs)["steps/loss"]
    again = training()
    gw.resume(again, kept, 3)
    fit(again, epochs=2)
    found = scalars(logs)["steps/loss"]
    assert [step for step, _ in found] == list(range(1, 10))
    assert found[:6] == expected


def test_a_folder_that_cannot_be_made_is_an_error_before_the_first_step(tmp_path):
    pytest.importorskip("tensorboardX", reason="no tensorboardX: pip install -e '.[tensorboard]'")
    (tmp_path / "file").write_text("")
    trainer = line(callbacks=[gw.train.TensorBoard(tmp_path / "file" / "logs")])
    with pytest.raises(TrainingError, match="cannot be written"):
        fit(trainer)
    assert trainer.steps_done == 0


@pytest.mark.parametrize(
    ("module", "make"),
    [
        ("tensorboardX", lambda: gw.train.TensorBoard("logs")),
        ("wandb", lambda: gw.train.WeightsAndBiases("project")),
    ],
)
def test_a_library_that_is_missing_is_named_with_how_to_get_it(module, make, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(TrainingError, match=rf"{module} is not installed(.|\n)*pip install"):
        fit(line(callbacks=[make()]))


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(TrainingError, match="every=0"):
        gw.train.TensorBoard("logs", every=0)
    with pytest.raises(TrainingError, match="it is offline"):
        gw.train.WeightsAndBiases("project", mode="online")


# -- Weights & Biases ------------------------------------------------------------------------------


class Recorded:
    """Stands for the module wandb, and notes what is asked of it."""

    def __init__(self):
        self.began, self.logged, self.summary, self.ended = [], [], {}, []

    def init(self, **given):
        self.began.append(given)
        run = types.SimpleNamespace(id=given.get("id", "abc"), summary=self.summary)
        run.log = lambda numbers, step: self.logged.append((step, numbers))
        run.finish = lambda exit_code: self.ended.append(exit_code)
        return run


@pytest.fixture
def recorded(monkeypatch):
    module = Recorded()
    monkeypatch.setitem(sys.modules, "wandb", module)
    return module


def test_a_run_has_the_numbers_of_the_history_and_how_it_ended(recorded, tmp_path):
    tracker = gw.train.WeightsAndBiases("lines", tmp_path / "new", tags=["tiny"])
    trainer = line(callbacks=[tracker], clip_norm=2.0)
    history = fit(trainer, epochs=2)
    (began,) = recorded.began
    assert began["mode"] == "offline" and began["tags"] == ["tiny"] and began["name"] == "line"
    assert began["dir"] == str(tmp_path / "new") and (tmp_path / "new").is_dir()
    assert began["config"]["clip_norm"] == 2.0
    assert began["config"]["optimizer"]["$class"] == "SGD"
    for kind, table in (("steps", history.steps), ("epochs", history.epochs)):
        for name in set(table) - {"step", "epoch", "seconds"}:
            found = [(s, n[f"{kind}/{name}"]) for s, n in recorded.logged if f"{kind}/{name}" in n]
            assert found == list(zip(table["step"], table[name], strict=True))
    assert recorded.summary == {"outcome": "finished", "reason": "2 epochs are done"}
    assert recorded.ended == [0]


def test_a_folder_of_runs_that_cannot_be_made_is_an_error(recorded, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TrainingError, match="cannot be written"):
        fit(line(callbacks=[gw.train.WeightsAndBiases("lines", tmp_path / "file" / "logs")]))
    assert not recorded.began


def test_a_resumed_training_is_the_same_run_and_a_failure_its_end(recorded, tmp_path):
    def training(**options):
        callbacks = [gw.train.WeightsAndBiases("lines"), gw.Checkpoints(tmp_path)]
        return line(callbacks=callbacks, **options)

    fit(training(), steps=1)
    again = training(optimizer=gw.optim.SGD(lambda step: 0.1 if step < 2 else float("nan")))
    gw.resume(again, tmp_path, allow="config.optimizer")
    with pytest.raises(TrainingError, match="learning rate is nan"):
        fit(again, steps=9)
    assert recorded.began[1]["id"] == "abc" and recorded.began[1]["resume"] == "allow"
    assert "lambda" in recorded.began[1]["config"]["optimizer"]
    assert recorded.summary["outcome"] == "failed" and recorded.ended == [0, 1]


def blocks(path):
    """Yield the records of a ``.wandb`` file: LevelDB's log, behind a header of 7 bytes."""
    data, at, held = path.read_bytes(), 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        length, kind = struct.unpack_from("<HB", data, at + 4)
        held += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield held
            held = b""


def test_wandb_itself_writes_a_run_offline_whatever_the_environment_says(tmp_path, monkeypatch):
    protocol = pytest.importorskip(
        "wandb.proto.wandb_internal_pb2", reason="no wandb: pip install wandb"
    )
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.setenv("WANDB_SILENT", "true")
    trainer = line(callbacks=[gw.train.WeightsAndBiases("lines", tmp_path)])
    history = fit(trainer, epochs=2)
    (path,) = tmp_path.glob("wandb/offline-run-*/*.wandb")
    losses = {}
    for data in blocks(path):
        record = protocol.Record()
        record.ParseFromString(data)
        for item in record.history.item:
            if (item.key or "/".join(item.nested_key)) == "steps/loss":
                losses[record.history.step.num] = float(item.value_json)
    assert losses == dict(zip(history.steps["step"], history.steps["loss"], strict=True))
