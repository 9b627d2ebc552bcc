"""Docstring examples compile kernels, so they need Triton (Linux) and not its interpreter."""

from __future__ import annotations

import os
from importlib.util import find_spec

compiles = find_spec("triton") and os.environ.get("TRITON_INTERPRET", "0") in ("", "0")
collect_ignore = [] if compiles else ["gradwright_kernels"]
