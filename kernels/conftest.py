"""Docstring examples need Triton, which has wheels for Linux."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [] if find_spec("triton") else ["gradwright_kernels"]
