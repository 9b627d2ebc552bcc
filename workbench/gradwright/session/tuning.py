"""Tuning: what decides the last bits of a number on this machine, fixed and recorded."""

from __future__ import annotations

import os
import platform
from typing import Any

import ml_dtypes
import numpy as np

from ..plan.options import PlanOptions

_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def recorded(options: PlanOptions) -> dict[str, Any]:
    """Return versions of libraries, the machine, thread counts and how kernels are made."""
    blas = np.show_config("dicts")["Build Dependencies"]["blas"]
    return {
        "numpy": np.__version__,
        "ml_dtypes": ml_dtypes.__version__,
        "llvmlite": _version("llvmlite"),
        "blas": f"{blas.get('name')} {blas.get('version')}",
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "kernels": options.kernels,
        "threads": options.threads,
        **{name: os.environ.get(name, "") for name in _THREADS},
    }


def _version(package: str) -> str:
    import importlib.metadata  # 20 ms, and only for deterministic sessions

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
