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
They are found, not listed: importing this package imports all files of its folders but ``seen``.

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
from typing import TYPE_CHECKING, Any

if os.environ.get("TRITON_INTERPRET", "0") not in ("", "0"):
    raise LoweringError(
        "TRITON_INTERPRET is set, so that Triton compiles nothing in this process",
        hint='unset it: device="cuda-sim" interprets kernels without it',
    )

from .launch import Strided, alarm, compile_ahead, prepare, pullback, workspace

if TYPE_CHECKING:
    from .seen.check import KernelCheck as KernelCheck
    from .seen.check import check_kernel as check_kernel
    from .seen.cost import Cost as Cost
    from .seen.cost import cost as cost
    from .seen.launch import SeenLaunch as SeenLaunch
    from .seen.steps import Seen as Seen
    from .seen.steps import Steps as Steps
    from .seen.steps import see as see

for _found in pkgutil.walk_packages(__path__, f"{__name__}."):
    if not _found.name.startswith(f"{__name__}.seen."):
        importlib.import_module(_found.name)
importlib.import_module(f"{__name__}.seen.insight")

_SEEN = {
    "Cost": "cost",
    "KernelCheck": "check",
    "Seen": "steps",
    "SeenLaunch": "launch",
    "Steps": "steps",
    "check_kernel": "check",
    "cost": "cost",
    "see": "steps",
}
"""What looks into kernels, and its module, which is loaded when it is first asked for.

It needs trainers and the debugger, which a session on a GPU need not wait for.
"""

__all__ = [
    *_SEEN,
    "Strided",
    "alarm",
    "compile_ahead",
    "prepare",
    "pullback",
    "workspace",
]


def __getattr__(name: str) -> Any:
    if name not in _SEEN:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.seen.{_SEEN[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_SEEN})
