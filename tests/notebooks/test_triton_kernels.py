"""The tutorial on Triton kernels; its cells assert what its text claims."""

from __future__ import annotations

import pytest

from gradwright.op import OPS
from gradwright.program import lowering
from tests.notebooks.tutorials import run

pytest.importorskip("triton", reason="Triton has wheels for Linux only")


def test_the_tutorial_runs() -> None:
    known = set(OPS)
    try:
        run("triton_kernels", {})
    finally:  # its ops are this page's alone
        for name in OPS.keys() - known:
            OPS.pop(name)
            lowering._table.pop((name, "cuda"), None)
