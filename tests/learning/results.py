"""RESULTS.md: what the commands of this folder have found; ``--write`` renews a command's own."""

from __future__ import annotations

import platform
import re
import time
from pathlib import Path

import llvmlite
import numpy as np

import gradwright as gw
from gradwright.words.tables import Table

AS_MUST = "All is as it must be."
PATH = Path(__file__).with_name("RESULTS.md")
HEAD = """# What is learned

Each section is written by the command below its title, with ``--write``: three seeds each, judged
by what nothing was trained on, in a split that was drawn when the command was run.
"""


def section(found: Table, command: str) -> str:
    """Return a table as a section of the file: how it was made, rows, and what there is to say."""
    by = f"gradwright {gw.__version__}, Python {platform.python_version()}, numpy {np.__version__}"
    by = f"`{command} --write`, {time.strftime('%Y-%m-%d')}, {by}, llvmlite {llvmlite.__version__}"
    lines = [found.columns, ["---"] * len(found.columns), *found.rows]
    rows = [f"| {' | '.join(cells)} |" for cells in lines]
    return "\n".join([f"## {found.title}", "", by, "", *rows, "", *(f"- {n}" for n in found.notes)])


def write(found: Table, command: str, path: Path = PATH) -> None:
    """Put a table into the file, in the place of the one of its title, or behind all others."""
    held = path.read_text() if path.is_file() else HEAD
    head, *parts = re.split(r"(?m)^(?=## )", held)
    made = section(found, command)
    titles = [part.splitlines()[0] for part in parts]
    own = f"## {found.title}"
    at = titles.index(own) if own in titles else len(parts)
    parts[at : at + 1] = [made]
    path.write_text("\n\n".join(part.strip() for part in [head, *parts]) + "\n")
