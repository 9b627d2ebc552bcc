"""Tuning: what decides the last bits of a number on this machine, fixed and recorded."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from ...errors import GraphError
from ..llvm.blas import default_threads
from ..llvm.target import SWITCHES, switch
from .tuning import Tuning, checked

_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def recorded(tuning: Tuning) -> dict[str, Any]:
    """Return versions of libraries, the machine, for what kernels are made, and the threads."""
    tuning.settle()
    blas = np.show_config("dicts")["Build Dependencies"]["blas"]
    return {
        "numpy": np.__version__,
        "ml_dtypes": ml_dtypes.__version__,
        "llvmlite": _version("llvmlite"),
        "blas": f"{blas.get('name')} {blas.get('version')}",
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        **{name: switch(name) for name in SWITCHES},
        "threads": tuning.threads,
        **{name: os.environ.get(name, "") for name in _THREADS},
        "choices": dict(sorted(tuning.choices.copy().items())),
    }


def tuned(threads: int | None, record: Mapping[str, Any] | None, *, deterministic: bool) -> Tuning:
    """Return how a session uses threads; raises GraphError for what is no number or no record."""
    if threads is not None and (type(threads) is not int or threads < 1):
        raise GraphError(
            f"threads={threads!r} is no number of threads", need="an int >= 1, or None"
        )
    choices: dict[str, int] = {}
    if record is not None:
        try:
            choices, known = checked(record["choices"]), record["threads"]
        except (KeyError, TypeError, ValueError) as error:
            raise GraphError(
                f"tuning={_short(record)} is no record",
                need="what session.tuning returned",
                hint="json.load gives back what json.dump wrote of it",
            ) from error
        threads = threads or tuned(known, None, deterministic=False).threads
    if deterministic and threads is None:
        threads = default_threads()
    return Tuning(threads, not deterministic, choices)


def _short(record: Any) -> str:
    text = repr(record)
    return text if len(text) < 60 else f"{text[:57]}..."


def _version(package: str) -> str:
    import importlib.metadata  # 20 ms, and only for who asks

    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
