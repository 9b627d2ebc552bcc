"""Plans on disk: the same bits in another process; nothing stale, damaged or foreign."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.files import trusted
from gradwright.plan import kept
from gradwright.program.lowering import _table
from gradwright.program.program import Program
from gradwright.program.stored import NotStorableError, Places, Reader, Writer
from tests import plans
from tests.plan.small_steps import steps

SEEDS = (3, 4, 5, 7, 12, 15, 18, 19, 24, 25, 31)
FINGERPRINT = kept.fingerprint.__wrapped__  # not what it has told before
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GRADWRIGHT_CACHE", str(tmp_path))
    monkeypatch.delenv("GRADWRIGHT_PLANS", raising=False)
    monkeypatch.setattr(kept, "LEAST", 8)
    monkeypatch.setattr(kept, "fingerprint", lambda: "")  # whoever edits meanwhile
    return tmp_path


def test_a_plan_is_written_once_and_read_with_the_same_bits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    states, results = [], []
    for switch in ("off", "", "", "off"):
        monkeypatch.setenv("GRADWRIGHT_PLANS", switch)
        state, found, _ = steps()
        states.append(state)
        results.append([a.tobytes() for a in found])
    off = "not on disk: switched off"
    assert states == [off, "written to disk", "read from disk", off]
    assert results[1:] == results[:-1]


def test_a_plan_that_was_read_tells_what_one_that_was_made_tells() -> None:
    _, _, made = steps()
    state, _, read = steps()
    assert state == "read from disk" and repr(read.kept) == f"<Kept: {state}>"
    assert str(read.rewrites) == str(made.rewrites) and made.rewrites.entries
    assert str(read.kernels) == str(made.kernels) and str(read.memory()) == str(made.memory())
    assert list(map(repr, read.program.instrs)) == list(map(repr, made.program.instrs))
    known = [[plan.head.known[t] for t in plan.feeds] for plan in (made, read)]
    assert known[0] == known[1], "profiles ask for them"
    plain = [plan.head.executor.plain for plan in (made, read)]
    assert plain[0].layout == plain[1].layout and plain[0].over == plain[1].over


CHANGES: dict[str, dict[str, Any]] = {
    "a node more": {"n": 5},
    "a number": {"scale": np.nextafter(np.float32(0.5), np.float32(1))},
    "an element of a constant": {"table": (1.0, 2.0, 3.0000002)},
    "an op": {"op": gw.sin},
    "an attribute": {"axis": 1},
    "what is fetched": {"fetched": "mean"},
    "rewrites": {"skip_rewrites": ["mul_one"]},
    "checkpoints": {"checkpoint": "sqrt"},
    "a device": {"device": "guard"},
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_has_changed_is_not_found(change: str) -> None:
    given = CHANGES[change]
    steps()
    assert steps(**given)[0] == "written to disk"
    assert steps(**given)[0] == "read from disk"


def test_what_cannot_be_told_by_content_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    class Twice(gw.Op):
        """Twice the input."""

        def infer(self, x: Any) -> Any:
            return x

        def forward(self, x: Any) -> Any:
            return x + x

        def vjp(self, gs: Any, ys: Any, xs: Any) -> Any:
            return (gs[0] * 2.0,)

    theirs = "not on disk: the op 'local/twice' is not one of gradwright's own"
    assert steps(op=Twice())[0] == theirs
    inside = gw.function("inside")(lambda x: Twice()(gw.sin(x)))
    assert steps(op=inside)[0] == theirs
    monkeypatch.setitem(_table, ("tanh", "cpu"), lambda op, ins, outs: None)
    assert steps()[0] == "not on disk: 'tanh' has a lowering that is not gradwright's own"


def test_other_versions_and_edited_sources_do_not_share(monkeypatch: pytest.MonkeyPatch) -> None:
    steps()
    monkeypatch.setattr(kept, "fingerprint", lambda: "another version")
    assert steps()[0] == "written to disk"
    monkeypatch.setattr(kept, "fingerprint", FINGERPRINT)
    monkeypatch.setattr(kept, "_begun", 0)
    assert "source has changed since it was imported" in steps()[0]


@pytest.mark.skipif(sys.platform == "win32", reason="there, files tell no time of their change")
def test_a_file_of_the_same_size_and_date_is_another_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "__file__", str(folder / "plan" / "kept.py"))
    source, found = folder / "source.py", set()
    for text in ("1", "2"):
        source.write_text(text)
        os.utime(source, (1e9, 1e9))
        monkeypatch.setattr(kept, "_begun", time.time_ns() + 10**9)
        found.add(FINGERPRINT())
        monkeypatch.setattr(kept, "_begun", 10**18)
        with pytest.raises(NotStorableError, match="has changed"):
            FINGERPRINT()
        time.sleep(0.02)  # the clock of a file system may go in steps of 10 ms
    assert len(found) == 2


def test_a_file_of_somebody_else_and_a_link_are_not_read(folder: Path) -> None:
    steps()
    files = sorted(folder.glob("*.plan"))
    assert len(files) == 2  # the program, and the one with kernels
    contents = [path.read_bytes() for path in files]
    for path, other in zip(files, reversed(contents), strict=True):
        path.write_bytes(other)  # under another name
    assert steps()[0] == "written to disk"
    for n, path in enumerate(files):
        path.rename(folder / f"elsewhere{n}")
        path.symlink_to(folder / f"elsewhere{n}")
    assert steps()[0] == "written to disk" and not any(path.is_symlink() for path in files)
    (folder / "secret").write_bytes(bytes(32))
    assert steps()[0] == "written to disk"


def test_plans_go_where_the_folder_has_too_much(folder: Path) -> None:
    steps()
    assert len(trusted.files(folder)) >= 2
    trusted.trim(folder, 0)
    assert not trusted.files(folder) and steps()[0] == "written to disk"


def test_random_graphs_with_plans_on_disk() -> None:
    assert [said for seed in SEEDS if (said := plans.problem(seed))] == []
    assert plans.STATES[-len(SEEDS) :].count("read from disk") >= 5  # the programs of elements


CODE = """
import hashlib, sys
from gradwright.plan import kept
kept.LEAST = 8
from tests.plan.small_steps import steps
state, found, plan = steps(deterministic=sys.argv[1] == "wait", threads=1)
print(state, hashlib.sha256(b"".join(a.tobytes() for a in found)).hexdigest(), plan.kernels.state)
"""


def test_processes_share_plans_even_at_once() -> None:
    def start(how: str) -> Any:
        command = [sys.executable, "-c", CODE, how]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)

    def ended(process: Any) -> list[str]:
        said = process.communicate(timeout=120)[0]
        assert process.returncode == 0
        return str(said).split()

    one, other = [ended(process) for process in (start("wait"), start("wait"))]
    assert one[-1] == other[-1] and {one[0], other[0]} <= {"read", "written"}
    # Where all is on disk, a default session has its kernels from the first run on.
    assert ended(start("background")) == ["read", "from", "disk", one[-1]]


def test_constants_come_back_as_they_lay() -> None:
    base = np.arange(120, dtype="f4").reshape(4, 5, 6)
    arrays = [
        *(base, base.T, base[::-1, ::2], base.transpose(1, 0, 2), base[..., :0], np.array(2.5)),
        *(np.broadcast_to(np.arange(8)[::2], (3, 4)), (base + 1j * base)[1].real),
        np.arange(6).astype(gw.spec.dtype("bfloat16")).reshape(2, 3).T,
    ]
    program, nowhere = Program(lambda *_: False), Places([], [], False, {})
    for array in arrays:
        program.constant(array)
    found = Reader(nowhere, Writer(nowhere, program).bytes()).program(Program(lambda *_: False))
    for array, again in zip(arrays, found.constants.values(), strict=True):
        assert (again.dtype, again.shape) == (array.dtype, array.shape)
        assert again.tobytes() == array.tobytes()
        assert again.strides == array.strides or not array.size
