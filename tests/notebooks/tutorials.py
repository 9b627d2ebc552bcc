"""Runs the cells of tutorials."""

from __future__ import annotations

import json
import linecache
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def run(name: str, small: Mapping[str, str]) -> dict[str, Any]:
    """Run the cells of a notebook with some of its text replaced; return what they leave."""
    cells = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text("utf-8"))["cells"]
    code = "\n# ----\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
    for long, short in small.items():
        assert long in code, long
        code = code.replace(long, short)
    space: dict[str, Any] = {"__name__": "__main__"}
    for number, source in enumerate(code.split("\n# ----\n")):
        name = f"cell {number}"  # as in a notebook, who asks for the text of a function finds it
        linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
        exec(compile(source, name, "exec"), space)
    return space
