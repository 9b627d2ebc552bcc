"""A few of the random programs that ``python -m tests.fuzz`` runs by the thousand."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gradwright.cpu.llvm.compiler import available
from tests.fuzz import CAMPAIGN, Program


@pytest.mark.skipif(not available(), reason="no machine code here")
def test_programs_compute_with_kernels_what_they_compute_without() -> None:
    assert list(CAMPAIGN.search(200, 0)) == []


def test_a_seed_decides_a_program_and_one_line_shows_it() -> None:
    assert Program(7).lines == Program(7).lines != Program(8).lines
    command = [sys.executable, "-m", "tests.fuzz", "--seed", "7", "--one"]
    root = Path(__file__).parents[2]
    shown = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=300)
    assert shown.stdout.splitlines() == [*Program(7).lines, CAMPAIGN.well], shown.stderr


CRASH = "import os, signal; print(5, flush=True); os.kill(os.getpid(), signal.SIGSEGV)"


def test_what_ends_a_process_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CAMPAIGN, "command", lambda *_: [sys.executable, "-c", CRASH])
    assert list(CAMPAIGN.search(2, 4)) == ["ended with -11: python -m tests.fuzz --seed 5 --one"]
    monkeypatch.setattr(CAMPAIGN, "patience", 3.0)
    sleep = "import time; print(5, flush=True); time.sleep(60)"
    monkeypatch.setattr(CAMPAIGN, "command", lambda *_: [sys.executable, "-c", sleep])
    assert list(CAMPAIGN.search(2, 4)) == ["hangs for 3 s: python -m tests.fuzz --seed 5 --one"]
