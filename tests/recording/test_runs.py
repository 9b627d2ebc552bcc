"""Runs: folders that tell all of a training."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import TrainingError
from gradwright.recording import events
from gradwright.recording.about import git_commit
from gradwright.recording.store import default_root
from tests.support.lines import rows

SOURCES = str(Path(gw.__file__).parent.parent)


def line(callbacks=(), rate=0.1, name="line", **options):
    g = gw.Graph(name)
    x, t = g.placeholder("x", (None, 3)), g.placeholder("t", (None,))
    w, b = g.variable("w", (3,), init=[1.0, -1.0, 0.5]), g.variable("b", ())
    error = x @ w + b - t
    loss = gw.mean(error * error, name="loss")
    options.setdefault("optimizer", gw.optim.SGD(rate))
    return gw.Trainer(g, loss, callbacks=callbacks, **options)


def fit(trainer, epochs=2, **options):
    return trainer.fit(rows(), batch_size=8, epochs=epochs, progress=False, **options)


def strict(path):
    """Return the lines of a file as strict JSON."""
    refuse = {"parse_constant": lambda word: pytest.fail(f"{word} is no JSON")}
    return [json.loads(text, **refuse) for text in path.read_text("utf-8").splitlines()]


# -- the folder ------------------------------------------------------------------------------------


def test_a_run_has_the_whole_history(tmp_path):
    run = gw.Run(tmp_path / "a", store=None)
    trainer = line([run])
    history = fit(trainer, validation=rows())
    found = strict(tmp_path / "a" / "events.jsonl")
    assert [e["event"] for e in found if e["event"] != "steps"] == [
        *("fit_started", "epoch", "epoch", "fit_ended")
    ]
    read = gw.train.RunFolder(tmp_path / "a").history
    for mine, kept in ((history.steps, read.steps), (history.epochs, read.epochs)):
        assert list(mine) == list(kept)
        for name in mine:
            np.testing.assert_allclose(
                kept[name], mine[name], rtol=0, atol=1e-6 * (name == "seconds")
            )


def test_its_config_says_what_was_trained(tmp_path):
    run = gw.Run(tmp_path / "a", name="first", tags=["x", "y"], notes="why", store=None)
    trainer = line([run], seed=7, clip_norm=2.0)
    fit(trainer)
    (config,) = [json.loads((tmp_path / "a" / "config.json").read_text("utf-8"))]
    assert (config["name"], config["tags"], config["notes"]) == ("first", ["x", "y"], "why")
    assert config["graph"]["name"] == "line" and config["graph"]["trained"] == 4
    assert config["graph"]["parameters"] == {"w": "f32[3]", "b": "f32[]"}
    assert gw.TrainingConfig.from_json(config["training"]) == trainer.config
    assert config["seeds"]["trainer"] == 7
    assert config["versions"]["numpy"] == np.__version__
    assert config["session"]["device"] == "cpu"


def test_settings_that_json_has_not_are_text(tmp_path):
    run = gw.Run(tmp_path / "a", store=None)
    fit(line([run], optimizer=gw.optim.SGD(lambda step: 0.1)))
    assert "function" in run.read().config["training"]["text"]


def test_a_resumed_training_goes_on_in_its_folder(tmp_path):
    first = line([gw.Run(tmp_path / "a", store=None)])
    fit(first, epochs=1)
    state = first.state_dict()
    values = {name: first.values[name] for name in ("w", "b")}
    fit(first, epochs=2)  # and this is lost: the process was killed before the next checkpoint
    second = line([gw.Run(tmp_path / "a", name="other", store=None)], rate=0.2)
    second.load_state_dict(state)
    second.values.restore(values)
    history = fit(second, epochs=1)
    run = gw.train.RunFolder(tmp_path / "a")
    assert run.config["name"] == "line"
    assert run.config["training"]["optimizer"]["learning_rate"] == 0.2
    read = run.history
    assert read.steps["step"].tolist() == [1, 2, 3, 4, 5, 6]
    assert read.epochs["epoch"].tolist() == [1, 2]
    np.testing.assert_array_equal(read.steps["loss"], history.steps["loss"])
    assert run.summary().steps == 6 and run.status == "finished"


@pytest.mark.parametrize("torn", [b'{"event": "ep', b'{"event":"epoch"}', b"\xff\xfe", b"{"])
def test_a_torn_last_line_is_left_out_and_cut_off_before_the_next(tmp_path, torn):
    run = gw.Run(tmp_path / "a", store=None)
    trainer = line([run])
    fit(trainer, epochs=1)
    path = tmp_path / "a" / "events.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    assert run.read().history.epochs.rows == 1
    fit(trainer, epochs=1)
    assert path.read_bytes().startswith(whole + b'{"event":"fit_started"')
    assert run.read().history.epochs.rows == 2


def test_damage_in_the_middle_is_told(tmp_path):
    run = gw.Run(tmp_path / "a", store=None)
    fit(line([run]))
    path = tmp_path / "a" / "events.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], b"garbage\n", *lines[1:]]))
    with pytest.raises(TrainingError, match="line 2: b'garbage' is no event"):
        _ = run.read().history
    path.write_bytes(lines[0] + b'{"event": "epoch", "step": []}\n')
    with pytest.raises(TrainingError, match="an event that is none"):
        _ = run.read().history
    with pytest.raises(TrainingError, match="is no run folder"):
        gw.train.RunFolder(tmp_path)


def test_numbers_that_json_has_not_are_strict_and_come_back(tmp_path):
    g = gw.Graph()
    x, w = g.placeholder("x", ()), g.variable("w", (), init=1.0)
    run = gw.Run(tmp_path / "a", store=None)
    trainer = gw.Trainer(g, w * x, nonfinite="skip", callbacks=[run])
    trainer.fit([{"x": v} for v in (1.0, math.nan, math.inf)], progress=False)
    found = strict(tmp_path / "a" / "events.jsonl")
    (columns,) = [e["metrics"]["loss"] for e in found if e["event"] == "steps"][:1] or [[]]
    assert columns[0] == 1.0
    skips = [e["skipped"] for e in found if e["event"] == "skipped"]
    assert skips == [1, 2]
    np.testing.assert_array_equal(run.read().history.steps["loss"], [1.0, math.nan, math.inf])


@pytest.mark.parametrize("unroll", [1, 4])
def test_steps_that_were_skipped_are_named(tmp_path, unroll):
    g = gw.Graph()
    x, w = g.placeholder("x", ()), g.variable("w", (), init=1.0)
    run = gw.Run(tmp_path / "a", store=None)
    trainer = gw.Trainer(g, w * x, nonfinite="skip", callbacks=[run])
    fed = [1.0, math.nan, 2.0, math.inf, 1.0, 1.0, math.nan, 1.0]
    trainer.fit([{"x": np.float32(v)} for v in fed], unroll=unroll, progress=False)
    found = [(e["step"], e["skipped"]) for e in run.read().events() if e["event"] == "skipped"]
    assert found == [(2, 1), (4, 2), (7, 3)]


def test_checkpoints_lie_in_the_folder_and_a_training_resumes_from_it(tmp_path):
    def trainer():
        run = gw.Run(tmp_path / "a", store=None)
        return line([run, gw.Checkpoints(run), gw.train.Divergence()]), run

    first, run = trainer()
    fit(first, epochs=2)
    assert len(list((tmp_path / "a" / "checkpoints").glob("*.gw"))) == 2
    second, run = trainer()
    gw.resume(second, run)
    history = fit(second, epochs=1)
    read = run.read()
    assert read.history.epochs["epoch"].tolist() == [1, 2, 3]
    np.testing.assert_array_equal(read.history.steps["loss"], history.steps["loss"])
    whole = line([], deterministic=True)
    fit(whole, epochs=3)
    assert whole.history.steps["loss"].tobytes() == history.steps["loss"].tobytes()


def test_how_a_fit_ended_is_recorded(tmp_path):
    run = gw.Run(tmp_path / "a", store=None)
    trainer = line([run, gw.train.MaxSteps(2)])
    fit(trainer)
    last = run.read().events()[-1]
    assert (last["outcome"], last["reason"]) == ("stopped", "2 steps are done")
    run = gw.Run(tmp_path / "b", store=None)
    bad = rows()
    bad["x"][3] = math.nan
    with pytest.raises(TrainingError):
        line([run]).fit(bad, progress=False)
    last = run.read().events()[-1]
    assert last["outcome"] == "failed" and "the data of placeholder 'x'" in last["error"]
    assert run.read().status == "failed"


def test_pauses_and_notes_are_recorded(tmp_path):
    run = gw.Run(tmp_path / "a", store=None)

    def at(trainer, record):
        run.note("checkpoint", path="x.gw", step=record.step)
        with pytest.raises(TrainingError, match="cannot be recorded"):
            run.note("bad", value=math.nan)
        trainer.pause()

    class Resumes(gw.Callback):
        def on_pause(self, trainer):
            trainer.resume()

    fit(line([run, gw.train.on_step(at, every=3), Resumes()]), epochs=1)
    names = [e["event"] for e in run.read().events()]
    assert names == [
        "fit_started",
        "steps",
        "checkpoint",
        "paused",
        "resumed",
        "epoch",
        "fit_ended",
    ]
    with pytest.raises(TrainingError, match="while a fit goes on"):
        run.note("late")


def test_every_chooses_steps(tmp_path):
    run = gw.Run(tmp_path / "a", store=None, every=4)
    fit(line([run]), epochs=3)
    assert run.read().history.steps["step"].tolist() == [4, 8]
    assert run.read().history.epochs["step"].tolist() == [3, 6, 9]


def test_nothing_is_made_before_a_fit(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADWRIGHT_RUNS", str(tmp_path / "mine"))
    run = gw.Run()
    assert run.folder.parent == tmp_path / "mine" == default_root()
    assert len(gw.runs()) == 0 and list(tmp_path.iterdir()) == []
    fit(line([run]))
    assert [row.folder for row in gw.runs()] == [str(run.folder)]


def test_two_trainings_do_not_share_a_folder(tmp_path):
    holder = gw.Run(tmp_path / "a", store=None)

    def second(trainer, record):
        other = line([gw.Run(tmp_path / "a", store=None)])
        with pytest.raises(TrainingError, match="is in use by this process"):
            fit(other)
        assert other.steps_done == 0

    fit(line([holder, gw.train.on_step(second, every=3)]), epochs=1)
    assert holder.read().history.steps.rows == 3


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    trainer = line([gw.Run(tmp_path / "file" / "run", store=None)])
    with pytest.raises(TrainingError, match="cannot be made"):
        fit(trainer)
    assert trainer.status == "idle" and trainer.steps_done == 0


def test_a_full_disk_is_told_at_the_end_and_takes_nothing_with_it(tmp_path, monkeypatch):
    plain = fit(line(deterministic=True))
    run = gw.Run(tmp_path / "a", store=None)
    trainer = line([run], deterministic=True)

    def full(trainer, record):
        if record.step == 1:
            run.flush()
            run._writer._file.close()
            run._writer._file = Full()

    class Full:
        def write(self, data):
            raise OSError(28, "No space left on device")

        def close(self):
            pass

    trainer.add_callback(gw.train.on_step(full))
    with pytest.raises(TrainingError, match="No space left on device"):
        fit(trainer)
    np.testing.assert_array_equal(trainer.history.steps["loss"], plain.steps["loss"])
    assert run.read().history.steps.rows == 1
    trainer.remove_callback(trainer.callbacks[-1])
    fit(trainer, epochs=1)  # there is room again
    assert run.read().status == "finished"


def test_what_is_written_is_there_while_the_training_goes_on(tmp_path, monkeypatch):
    monkeypatch.setattr(events, "INTERVAL", 0.01)
    run = gw.Run(tmp_path / "a", store=None)
    seen = []

    def look(trainer, record):
        if record.step == 2:
            for _ in range(1000):
                if run.read().history.steps.rows == 2:
                    break
            seen.append(gw.train.RunFolder(tmp_path / "a").status)

    fit(line([run, gw.train.on_step(look)]))
    assert seen == ["running"]


def test_events_come_in_order_and_none_is_lost(tmp_path):
    writer = events.EventWriter(tmp_path / "e.jsonl", lambda: None)
    for step in range(1, 5001):
        writer.step(gw.train.Record(step, 1, {"loss": step / 7}, step / 100))
        if step % 100 == 0:
            writer.add("mark", at=step)
            writer.flush()
    writer.close()
    steps, marks = [], []
    for event in events.read(tmp_path / "e.jsonl"):
        if event["event"] == "steps":
            steps += event["step"]
        else:
            marks.append(event["at"])
            assert steps[-1] == event["at"]
    assert steps == list(range(1, 5001)) and marks == list(range(100, 5001, 100))


def test_the_numbers_of_the_training_are_the_same(tmp_path):
    plain, recorded = (
        line(deterministic=True),
        line([gw.Run(tmp_path / "a", store=None)], deterministic=True),
    )
    fit(plain), fit(recorded)
    assert plain.values["w"].tobytes() == recorded.values["w"].tobytes()
    losses = [t.history.steps["loss"].tobytes() for t in (plain, recorded)]
    assert losses[0] == losses[1]


# -- git -------------------------------------------------------------------------------------------


def test_the_commit_is_read_from_the_files_of_git(tmp_path):
    commit = "0123456789abcdef0123456789abcdef01234567"
    git = tmp_path / ".git"
    (git / "refs/heads/topic").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/topic/x\n")
    (git / "refs/heads/topic/x").write_text(commit + "\n")
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert git_commit(inner) == {"commit": commit, "branch": "topic/x"}
    (git / "refs/heads/topic/x").unlink()
    (git / "packed-refs").write_text(f"# pack-refs\n{commit} refs/heads/topic/x\n")
    assert git_commit(inner) == {"commit": commit, "branch": "topic/x"}
    (git / "HEAD").write_text(commit + "\n")
    assert git_commit(inner) == {"commit": commit}
    (git / "HEAD").write_text("ref: refs/heads/none\n")
    assert git_commit(inner) is None


def test_git_itself_agrees(tmp_path):
    def git(*args, at=tmp_path):
        who = ["-c", "user.name=n", "-c", "user.email=e", "-c", "init.defaultBranch=main"]
        done = subprocess.run(["git", *who, *args], cwd=at, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"git: {done.stderr}")
        return done.stdout.strip()

    git("init")
    git("commit", "--allow-empty", "-m", "first")
    expected = git("rev-parse", "HEAD")
    assert git_commit(tmp_path) == {"commit": expected, "branch": "main"}
    git("worktree", "add", "-b", "side", str(tmp_path / "tree"))
    assert git_commit(tmp_path / "tree") == {"commit": expected, "branch": "side"}


def test_a_training_that_begins_is_not_written_over_one_that_has_ended(tmp_path):
    def trainer(run):
        g = gw.Graph("parabola")
        w = g.variable("w", (), init=2.0)
        return gw.Trainer(g, w * w, gw.optim.SGD(0.25), callbacks=[run])

    run = gw.Run(tmp_path / "run", store=None)
    first = trainer(run)
    first.fit([{}], epochs=3, progress=False)
    first.fit([{}], epochs=2, progress=False)  # the same one goes on
    before = (run.folder / "events.jsonl").read_bytes()
    with pytest.raises(TrainingError, match="holds a training that has finished") as caught:
        trainer(gw.Run(tmp_path / "run", store=None)).fit([{}], progress=False)
    assert "after 5 steps" in str(caught.value)
    assert (run.folder / "events.jsonl").read_bytes() == before
    first.fit([{}], progress=False)  # the folder is free again
    assert run.read().summary().steps == 6
