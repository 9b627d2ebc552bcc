"""Whether somebody watches what is printed."""

from __future__ import annotations

import sys


def is_watched() -> bool:
    """Tell whether somebody sees a progress bar: a terminal, or a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return hasattr(shell, "kernel") or sys.stderr.isatty()
