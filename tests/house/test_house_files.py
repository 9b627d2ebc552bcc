"""Files that earlier versions have written are read as they were meant.

What they are, and how they came to be, is in ``tests/house/files.py``. Values come from another
machine, so floats are compared to a tolerance; bits are the matter of ``python -m tests.house``.
"""

from __future__ import annotations

import lzma
import shutil

import numpy as np
import pytest

import gradwright as gw
from tests.house.files import DATA, RUN, TRAININGS, ending, fit, grouped, lines, unpack, values

ARCHIVES = sorted(path.name.removesuffix(".gw.xz") for path in DATA.glob("*.gw.xz"))
CLOSE = 1e-4
"""How far floats of other processors, BLAS libraries and kernels may lie from those, relative to
the largest of an array where that is below 1; six settings of ours lie within."""
NOTHING = 1e-6
"""What a float32 may be that is zero but for rounding, as the slope of a bias below a batch norm.
"""

pytestmark = pytest.mark.filterwarnings("ignore:.* was written under other conditions")


def differing(found, expected, tolerance):
    """Return the names of arrays that are not what they were."""
    assert found.keys() == expected.keys()
    return [name for name in expected if not is_close(found[name], expected[name], tolerance)]


def is_close(a, b, tolerance):
    if a.dtype != b.dtype or a.shape != b.shape or a.dtype.kind not in "fc":
        return a.dtype.kind == b.dtype.kind and np.array_equal(a, b)
    finite = np.abs(b[np.isfinite(b)])
    size = finite.max() if finite.size else 0.0
    atol = max(tolerance * min(size, 1.0), NOTHING)
    return np.allclose(a, b, rtol=tolerance, atol=atol, equal_nan=True)


@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_is_the_graph_that_was_saved(tmp_path, name):
    path = tmp_path / f"{name}.gw"
    path.write_bytes(lzma.decompress((DATA / f"{name}.gw.xz").read_bytes()))
    kept, graph = unpack(DATA / f"{name}.npz.xz"), gw.load(path)
    told, fetches = kept.pop("lines").tolist(), kept.pop("fetches").tolist()
    feeds = {k.removeprefix("feed/"): kept.pop(k) for k in list(kept) if k.startswith("feed/")}
    assert lines(graph) == told
    assert not differing(values(graph, feeds, fetches), kept, CLOSE)


@pytest.mark.parametrize("name", TRAININGS)
def test_a_checkpoint_is_gone_on_from(tmp_path, name):
    make, data, saved_at, tolerance = TRAININGS[name]
    folder = shutil.copytree(DATA / name, tmp_path / name)
    trainer = make()
    one = gw.resume(trainer, folder)
    assert one.step == trainer.steps_done and one.batch == trainer.batches_done == saved_at
    fit(trainer, data)
    assert not differing(ending(trainer, one.step), unpack(DATA / f"{name}.npz.xz"), tolerance)


@pytest.mark.parametrize("name", TRAININGS)
def test_a_checkpoint_is_gone_on_from_without_the_code_that_made_its_trainer(tmp_path, name):
    _, data, saved_at, tolerance = TRAININGS[name]
    (path,) = (DATA / name).glob("*.gw")
    trainer = gw.load(path).trainer()
    step = trainer.steps_done
    assert trainer.batches_done == saved_at and trainer.session.deterministic
    fit(trainer, data)
    assert not differing(ending(trainer, step), unpack(DATA / f"{name}.npz.xz"), tolerance)


def test_a_checkpoint_is_an_archive_and_a_run_folder_may_hold_it(tmp_path):
    folder = shutil.copytree(DATA / "grouped", tmp_path / "checkpoints")
    (one,) = gw.Checkpoints(folder).list()
    assert gw.inspect(one.path).states == ("trainer",)
    state = gw.load_state(one.path, "trainer")
    trainer = grouped()
    assert state.keys() >= {k for k in trainer.state_dict() if k.startswith("state/")}
    assert state["state/hidden/w/m"].dtype == np.uint8
    gw.resume(trainer, tmp_path)
    assert trainer.steps_done == one.step


def test_a_run_is_listed_and_read(tmp_path):
    shutil.copytree(DATA / RUN, tmp_path / RUN)
    (row,) = gw.train.Store(tmp_path).rows()
    assert (row.name, row.status, row.epochs, row.tags) == (
        "kept",
        "finished",
        4,
        ("small", "kept"),
    )
    read = row.open()
    assert gw.TrainingConfig.from_json(read.config["training"]) == grouped().config
    assert [e["event"] for e in read.events() if e["event"] != "steps"] == [
        *("fit_started", *["epoch"] * 4, "fit_ended")
    ]
    assert read.history.steps.rows == row.steps == 44
    assert read.history.epochs["accuracy"][-1] == row.metrics["accuracy"]
