"""gradwright's kernels for NVIDIA GPUs, written in Triton.

Nothing imports this package by name: a session that asks for ``device="cuda"`` or ``"cuda-sim"``
finds it through the entry point ``gradwright.lowerings``, and importing it registers the devices
and one lowering per op.

``cuda-sim`` is a simulated GPU: host memory, kernels in Triton's interpreter, and a look at each
access that names what is wrong. What is proven on it: numbers, and all that a device does for
sessions and trainers. What is proven by compiling ahead of time: code without spills within the
budgets of sm_80, sm_90 and sm_100; on a driver that only records: the arguments of every call. What
is not: no session has run on a GPU yet; ``make gpu-test`` and ``make gpu-bench`` try the kernels on
one.

Reading order: ``compile``, ``launch``, ``fused`` (kernels that are generated), ``device``, ``seen``
(kernels looked into), then a folder per family of kernels that are written by hand, a file per op.
They are found, not listed: importing this package imports all files of its folders.

A kernel of your own is registered by ``gw.lowering(op, device="cuda")``, made ready by ``prepare``,
and checked by ``check_kernel``; ``notebooks/triton_kernels.ipynb`` does so.
"""

from __future__ import annotations

from gradwright.errors import LoweringError

try:
    import triton as _triton  # noqa: F401
except ModuleNotFoundError as error:
    raise LoweringError(
        "devices 'cuda' and 'cuda-sim' need Triton, which is not installed",
        hint="pip install 'gradwright[gpu]', on Linux",
    ) from error

import importlib
import os
import pkgutil

if os.environ.get("TRITON_INTERPRET", "0") not in ("", "0"):
    raise LoweringError(
        "TRITON_INTERPRET is set, so that Triton compiles nothing in this process",
        hint='unset it: device="cuda-sim" interprets kernels without it',
    )

from .launch import Strided, alarm, compile_ahead, prepare, pullback, workspace
from .seen.check import KernelCheck, check_kernel
from .seen.cost import Cost, cost
from .seen.launch import SeenLaunch
from .seen.steps import Seen, Steps, see

for _found in pkgutil.walk_packages(__path__, f"{__name__}."):
    importlib.import_module(_found.name)

__all__ = [
    "Cost",
    "KernelCheck",
    "Seen",
    "SeenLaunch",
    "Steps",
    "Strided",
    "alarm",
    "check_kernel",
    "compile_ahead",
    "cost",
    "prepare",
    "pullback",
    "see",
    "workspace",
]
