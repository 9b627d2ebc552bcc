"""gradwright's kernels for NVIDIA GPUs, written in Triton.

Nothing imports this package by name: a session that asks for ``device="cuda"`` finds it through the
entry point ``gradwright.lowerings``, and importing it registers the device and one lowering per op.

What is proven: numbers, in Triton's interpreter on numpy arrays; code without spills within the
budgets of sm_80 and sm_90, by compiling ahead of time; the arguments of every launch, on a driver
that only records; numbers and times on a GPU, by ``make gpu-test`` and ``make gpu-bench``, whose
last table is ``RESULTS.md``. What is not: no session keeps its values on a GPU yet, so it refuses
one. With ``TRITON_INTERPRET=1`` in the environment when Python starts, ``Session(graph,
device="cuda")`` runs the same lowerings in the interpreter, slowly.

Reading order: ``compile``, ``device``, ``launch``, then a folder per family of kernels, a file per
op. Kernels are found, not listed: importing this package imports all files of its folders.
"""

from __future__ import annotations

from gradwright.errors import LoweringError

try:
    import triton as _triton  # noqa: F401
except ModuleNotFoundError as error:
    raise LoweringError(
        "device 'cuda' needs Triton, which is not installed",
        hint="pip install 'gradwright[gpu]', on Linux",
    ) from error

import importlib
import pkgutil

from .launch import compile_ahead

for _found in pkgutil.walk_packages(__path__, f"{__name__}."):
    importlib.import_module(_found.name)

__all__ = ["compile_ahead"]
