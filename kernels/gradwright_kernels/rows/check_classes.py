"""Class numbers, looked at: a copy of them, and for each program whether one is out of range.

Bytes moved for N labels of s bytes: 2·N·s. What is wrong is told by the op's own ``forward`` when
the run is done, so that no launch waits for the host.
"""

# Kernels are Triton's language, not Python: they are typed when they are compiled.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import triton
import triton.language as tl

from gradwright.program.lowering import Launch, lowering
from gradwright.spec import TensorSpec

from ..launch import alarm, contiguous, index_type, prepare

BLOCK = 1_024


@triton.jit
def _check_classes_kernel(
    label_ptr,
    copy_ptr,
    alarm_ptr,
    n,
    n_classes,
    IGNORES: tl.constexpr,
    IGNORED: tl.constexpr,
    BLOCK: tl.constexpr,
    INDEX: tl.constexpr,
):
    """Copy BLOCK labels, and tell whether one of them is no class.

    label_ptr, copy_ptr: [n]; alarm_ptr: i32[programs].
    """
    program = tl.program_id(0)
    at = program.to(INDEX) * BLOCK + tl.arange(0, BLOCK)
    label = tl.load(label_ptr + at, mask=at < n, other=0)
    number = label.to(tl.int64)  # as what is ignored may be below 0, where labels cannot be
    wrong = (number < 0) | (number >= n_classes)
    if IGNORES:
        wrong = wrong & (number != IGNORED)
    tl.store(copy_ptr + at, label, mask=at < n)
    tl.store(alarm_ptr + program, tl.max(tl.where(wrong & (at < n), 1, 0), axis=0))


@lowering("check_classes", device="cuda")
def check_classes(op: Any, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> Launch | None:
    """Launch a program for each ``BLOCK`` labels."""
    labels, logits = ins
    if logits is None or labels.dtype.kind not in "iu" or labels.size == 0:
        return None
    n_programs = triton.cdiv(labels.size, BLOCK)
    bad = TensorSpec((n_programs,), "int32")
    args = {"label_ptr": labels.dtype, "copy_ptr": labels.dtype, "alarm_ptr": bad.dtype}
    args |= {"n": labels.size, "n_classes": int(logits.shape[-1]), "BLOCK": BLOCK}
    args |= {"IGNORES": op.ignore_index is not None, "IGNORED": op.ignore_index or 0}
    run = prepare(_check_classes_kernel, n_programs, args | {"INDEX": index_type(labels.size)})
    found = alarm(bad)
    return lambda xs, ys: run(*contiguous(xs[:1]), *ys, found)
