"""How long the cells of the tutorials take, and how much memory: held against Binder's limits.

    python tests/packaging/tutorials.py [part of a name ...]

It runs each notebook below ``notebooks/`` in a kernel of the Python that it is started with, prints
a line for each, and exits with 1 where one fails, a cell takes 30 s or more, or a kernel has had
2 GB resident: Binder ends a kernel there.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
SECONDS, BYTES = 30.0, 2e9


def tutorials(parts: list[str]) -> Iterator[Path]:
    """Yield the notebooks whose names have one of ``parts``."""
    for path in sorted(NOTEBOOKS.rglob("*.ipynb")):
        if ".ipynb_checkpoints" not in path.parts and any(part in path.name for part in parts):
            yield path


def peak(pid: int) -> float:
    """Return the most bytes that a process and its children have had resident, each by itself."""
    found = 0.0
    for each in [pid, *children(pid)]:
        try:
            status = Path(f"/proc/{each}/status").read_text()
        except OSError:
            continue
        high = re.search(r"VmHWM:\s+(\d+) kB", status)
        found += 1024 * int(high[1]) if high else 0
    return found


def children(pid: int) -> list[int]:
    """Return the processes that a process has started and that are alive."""
    try:
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def measure(path: Path) -> tuple[list[float], float, str]:
    """Run a notebook; return the seconds of its cells, its memory, and what went wrong."""
    notebook = nbformat.read(path, 4)
    seconds: list[float] = []
    began = 0.0

    def begin(**_: Any) -> None:
        nonlocal began
        began = time.perf_counter()

    def end(cell: Any, **_: Any) -> None:
        if cell.cell_type == "code":
            seconds.append(time.perf_counter() - began)

    where = {"metadata": {"path": str(path.parent)}}
    client = NotebookClient(
        notebook, timeout=600, resources=where, on_cell_execute=begin, on_cell_executed=end
    )
    client.extra_arguments = ["--log-level=40"]  # else each says that its ports are not encrypted
    wrong = ""
    with client.setup_kernel():
        pid = client.km.provisioner.pid
        try:
            for index, cell in enumerate(notebook.cells):
                client.execute_cell(cell, index)
        except CellExecutionError as error:
            wrong = f"{error.ename}: {error.evalue}"
        memory = peak(pid)
    return seconds, memory, wrong


def main() -> int:
    """Measure the tutorials."""
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    bad = 0
    print(f"{'tutorial':<28}{'seconds':>9}{'slowest cell':>14}{'resident':>10}")
    for path in tutorials(sys.argv[1:] or [""]):
        seconds, memory, wrong = measure(path)
        slowest = max(seconds, default=0.0)
        if not wrong and slowest >= SECONDS:
            wrong = f"a cell took {slowest:.0f} s, and {SECONDS:.0f} is the limit"
        if not wrong and memory >= BYTES:
            wrong = f"{memory / 1e9:.1f} GB were resident, and {BYTES / 1e9:.0f} is the limit"
        bad += bool(wrong)
        line = f"{path.stem:<28}{sum(seconds):>8.1f}s{slowest:>13.1f}s{memory / 1e6:>7.0f} MB"
        print(f"{line}  {wrong}".rstrip(), flush=True)
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
