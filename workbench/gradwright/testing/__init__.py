"""Checks that every op passes, yours included: all derived from the op's own samples.

>>> import gradwright as gw
>>> from gradwright.testing import check_op
>>> @gw.register("me/third_power")
... class ThirdPower(gw.Op):
...     '''Third power.
...
...     y = x³
...     '''
...     def infer(self, x): return x.with_shape(x.shape)
...     def forward(self, x): return x * x * x
...     def vjp(self, gs, ys, xs): return (gs[0] * 3.0 * xs[0] * xs[0],)
...     @classmethod
...     def samples(cls, rng): yield gw.Sample((rng.standard_normal((2, 3)),))
>>> check_op(ThirdPower, skip=["complex"])
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from ..errors import GraphError
from ..op import Op, Sample
from .common import OpCheckError, cases, samples
from .declaration import check_documented, check_errors, check_onnx, check_sampled
from .dependence import check_dependence
from .engine import check_session, check_symbolic
from .gradients import check_complex, check_partial, check_second, check_vjp
from .values import check_expansion, check_forward, check_infer, check_precision

__all__ = ["CLASS_CHECKS", "SAMPLE_CHECKS", "OpCheckError", "cases", "check_op", "samples"]

CLASS_CHECKS: Mapping[str, Callable[[type[Op]], None]] = {
    "sampled": check_sampled,
    "documented": check_documented,
    "onnx": check_onnx,
    "errors": check_errors,
}


def _quiet(check: Callable[[type[Op], Sample], None]) -> Callable[[type[Op], Sample], None]:
    """Let a check ignore overflow and the like: samples are awkward on purpose."""

    @functools.wraps(check)
    def run(cls: type[Op], sample: Sample) -> None:
        with np.errstate(all="ignore"):
            check(cls, sample)

    return run


SAMPLE_CHECKS: Mapping[str, Callable[[type[Op], Sample], None]] = {
    "infer": _quiet(check_infer),
    "forward": _quiet(check_forward),
    "precision": _quiet(check_precision),
    "vjp": _quiet(check_vjp),
    "complex": _quiet(check_complex),
    "second": _quiet(check_second),
    "partial": _quiet(check_partial),
    "expansion": _quiet(check_expansion),
    "session": _quiet(check_session),
    "symbolic": _quiet(check_symbolic),
    "dependence": _quiet(check_dependence),
}


def check_op(op: Op | type[Op] | Any, *, skip: Collection[str] = ()) -> None:
    """Check an op on its own samples: inference, gradients, devices, errors, documentation.

    ``op`` is an op's class, what ``gw.define_op`` returned, or one op: then only samples with its
    attributes are used. ``skip`` leaves
    out checks by name, such as ``complex`` for an op that will only ever see real numbers; the
    names are those of ``CLASS_CHECKS`` and ``SAMPLE_CHECKS``.

    Raises OpCheckError with all that is wrong, one finding a line; its cause is the first of them.
    """
    if not isinstance(op, (type, Op)):  # what gw.define_op returned
        op = op.op
    cls: type[Op] = op if isinstance(op, type) else type(op)
    unknown = sorted(set(skip) - {*CLASS_CHECKS, *SAMPLE_CHECKS})
    if unknown:
        raise GraphError(f"no check is called {unknown[0]!r}", need=", ".join(SAMPLE_CHECKS))
    problems: dict[str, Exception] = {}
    for name, check in CLASS_CHECKS.items():
        if name not in skip:
            _collect(problems, name, check, cls)
    for number, sample in enumerate([] if problems else samples(cls)):
        if isinstance(op, type) or cls(**sample.attrs) == op:
            for name, sample_check in SAMPLE_CHECKS.items():
                if name not in skip:
                    _collect(problems, f"sample {number}, {name}", sample_check, cls, sample)
    if problems:
        first = next(iter(problems.values()))
        raise OpCheckError("\n  ".join([f"{cls.name}:", *problems])) from first


def _collect(
    problems: dict[str, Exception], label: str, check: Callable[..., None], *args: Any
) -> None:
    """Run a check and note under a line of its own what it raises."""
    try:
        check(*args)
    except OpCheckError as error:
        problems[f"{label}: {error}"] = error
    except Exception as error:
        problems[f"{label}: {type(error).__name__}: {error}"] = error
