"""What goes back through a head: logits of a run of rows at a time, and what comes back to them.

    dx = (a·([j = id] − p) − b·p·(log p + entropy) + 2c·(softmax(2x) − p) + d/V)·slope
    dh = dx·w        dw = dxᵀ·h        dbias = Σ dx

a, b, c, d: [N] are cotangents, h: [N, D], w: [V, D]; slope is that of cap and temperature. A run
has as many rows as `RUN` allows: their logits are a product, a kernel reads each row twice and
leaves dx in its place, and two more products follow, of which that of w adds to what it has. Bytes
moved by a run of R rows, s of an element: 12·R·V + 3·s·R·V + 3·s·V·D + 8·V·D; 6·R·V·D flops. Sums
are in float32, float64 for float64; dx is rounded to the dtype of h before its products.
"""

# Kernels are Triton's language, not Python: they are typed when they are compiled.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import triton
import triton.language as tl

from gradwright.fuse.dense import stand_in
from gradwright.program.lowering import Launch, lowering
from gradwright.spec import TensorSpec

from ..device.array import DeviceArray
from ..launch import alarm, contiguous, index_type, pointer, prepare, workspace
from ..products.matmul import product
from .head import taken
from .logits import BELOW, grown, logits

RUN = 1 << 25
"""Logits of a run at the most, 128 MB in float32: 262 rows of 128k words."""
FEWEST = 128
"""Rows of a run are a multiple: a tile of their product, and all that begins there is aligned."""
CHUNK = 4_096
"""Words of a row that a program reads at once."""
COLUMNS, ROWS = 64, 32
"""Words, and rows at once, whose dx a program adds up for the bias."""


@triton.jit
def _read(
    x_at, bias_ptr, word, there, CAP: tl.constexpr, TEMPERATURE: tl.constexpr, ACC: tl.constexpr
):
    """Return logits of some words of a row, and their slope in its products at ``x_at``."""
    x = tl.load(x_at + word, mask=there, other=0.0).to(ACC)
    if bias_ptr is not None:
        x += tl.load(bias_ptr + word, mask=there, other=0.0).to(ACC)
    return logits(x, CAP, TEMPERATURE)


@triton.jit
def _slopes_kernel(
    x_ptr, bias_ptr, a_ptr, b_ptr, c_ptr, d_ptr, id_ptr, dx_ptr, alarm_ptr, n_words,
    IGNORED: tl.constexpr, CAP: tl.constexpr, TEMPERATURE: tl.constexpr, LEAST: tl.constexpr,
    CHUNK: tl.constexpr, ACC: tl.constexpr, INDEX: tl.constexpr,
):  # fmt: skip
    """Turn the products of a row into what comes back to them.

    x_ptr, dx_ptr: [rows, n_words], where one may be the other; bias_ptr: [n_words] or absent;
    a_ptr, …, id_ptr: [rows]; alarm_ptr: i32[rows], whether the id is no word.
    """
    row = tl.program_id(0)
    label = tl.load(id_ptr + row).to(tl.int64)
    kept = label != IGNORED
    tl.store(alarm_ptr + row, (kept & ((label < 0) | (label >= n_words))).to(tl.int32))
    x_at, to = x_ptr + row.to(INDEX) * n_words, dx_ptr + row.to(INDEX) * n_words
    top = tl.full((1,), LEAST, ACC)
    size, tilt, squares = tl.zeros((1,), ACC), tl.zeros((1,), ACC), tl.zeros((1,), ACC)
    for first in range(0, n_words, CHUNK):
        word = first + tl.arange(0, CHUNK)
        there = word < n_words
        x, _ = _read(x_at, bias_ptr, word, there, CAP, TEMPERATURE, ACC)
        top, size, tilt, squares = grown(x[None, :], there[None, :], top, size, tilt, squares)
    a, b = tl.load(a_ptr + row).to(ACC), tl.load(b_ptr + row).to(ACC)
    c, d = tl.load(c_ptr + row).to(ACC), tl.load(d_ptr + row).to(ACC)
    for first in range(0, n_words, CHUNK):
        word = first + tl.arange(0, CHUNK)
        there = word < n_words
        x, slope = _read(x_at, bias_ptr, word, there, CAP, TEMPERATURE, ACC)
        back = tl.maximum(x - top, BELOW)
        e = tl.exp(x - top)
        p = e / size
        dx = a * (tl.where(word == label, 1.0, 0.0) - p) - b * p * (back - tilt / size)
        dx = (dx + 2.0 * c * (e * e / squares - p) + d / n_words) * slope
        dx = tl.where(kept, dx, 0.0)
        tl.store(to + word, dx.to(dx_ptr.dtype.element_ty), mask=there)


@triton.jit
def _add_columns_kernel(
    dx_ptr, sums_ptr, out_ptr, n_rows, n_words, BEGINS: tl.constexpr, ENDS: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, ACC: tl.constexpr, INDEX: tl.constexpr,
):  # fmt: skip
    """Add up a run's rows of COLUMNS words, to those of runs before.

    dx_ptr: [n_rows, n_words]; sums_ptr: ACC[n_words], from run to run; out_ptr: [n_words].
    """
    word = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    there = word < n_words
    total = tl.zeros((COLUMNS,), ACC)
    if not BEGINS:
        total = tl.load(sums_ptr + word, mask=there, other=0.0)
    for first in range(0, n_rows, ROWS):
        row = first + tl.arange(0, ROWS)
        at = row.to(INDEX)[:, None] * n_words + word[None, :]
        inside = (row < n_rows)[:, None] & there[None, :]
        total += tl.sum(tl.load(dx_ptr + at, mask=inside, other=0.0).to(ACC), axis=0)
    tl.store(sums_ptr + word, total, mask=there)
    if ENDS:
        tl.store(out_ptr + word, total.to(out_ptr.dtype.element_ty), mask=there)


@lowering("head_log_probs_grad", device="cuda")
def head_log_probs_grad(op: Any, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> Launch | None:
    """Launch three products and a pass over logits for each run of rows."""
    *asked, hidden, weight, ids, bias = (*ins, None)[:8]
    acc = taken([*asked, hidden, weight, bias], weight, ids)
    if acc is None:
        return None
    runs = [_Run(op, ins, outs, acc, rows) for rows in _runs(ids.size, weight.shape[0])]
    wide = f"float{acc.primitive_bitwidth}"
    n, n_words = max(run.n for run in runs), weight.shape[0]
    products = workspace(TensorSpec((n, n_words), wide))
    slopes = products
    if hidden.dtype != wide:
        slopes = workspace(TensorSpec((n, n_words), hidden.dtype))
    sums = None
    if len(runs) > 1 and weight.dtype != wide:
        sums = workspace(TensorSpec(weight.shape, wide))
    of_bias = None if bias is None else workspace(TensorSpec(bias.shape, wide))
    found = alarm(TensorSpec((ids.size,), "int32"))

    def launch(xs: Sequence[Any], ys: Sequence[Any]) -> None:
        given = contiguous(xs)
        for run in runs:
            run(given, ys, products, slopes, sums, of_bias, found)

    return launch


def _runs(n: int, n_words: int) -> list[slice]:
    """Return the rows that are taken at a time."""
    size = max(RUN // n_words // FEWEST * FEWEST, FEWEST)
    return [slice(at, min(at + size, n)) for at in range(0, n, size)]


class _Run:
    """The launches of one run of rows."""

    def __init__(
        self, op: Any, ins: Sequence[Any], outs: Sequence[TensorSpec], acc: Any, rows: slice
    ) -> None:
        *asked, hidden, weight, ids, bias = (*ins, None)[:8]
        self._rows, self.n = rows, rows.stop - rows.start
        self._is_first, self._is_last = rows.start == 0, rows.stop == ids.size
        n, (n_words, width) = self.n, weight.shape
        wide = f"float{acc.primitive_bitwidth}"
        h, dh = (stand_in(TensorSpec((n, width), s.dtype)) for s in (hidden, outs[0]))
        w, sums = stand_in(weight), stand_in(TensorSpec(weight.shape, wide))
        x = stand_in(TensorSpec((n, n_words), wide))
        dx = stand_in(TensorSpec((n, n_words), hidden.dtype))
        dw = stand_in(outs[1]) if self._is_last else sums
        before = None if self._is_first else sums
        self._logits = product(h, w.T, x)
        self._of_hidden = product(dx, w, dh)
        self._of_weight = product(dx.T, h, dw, added=before)
        args = {f"{k}_ptr": s.dtype for k, s in zip("abcd", asked, strict=True)}
        args |= {"x_ptr": x.dtype, "dx_ptr": dx.dtype, "bias_ptr": pointer(bias)}
        args |= {"id_ptr": ids.dtype, "alarm_ptr": np.dtype("int32"), "n_words": n_words}
        args |= {"IGNORED": op.ignore_index, "CAP": op.softcap}
        args |= {"TEMPERATURE": float(op.temperature), "LEAST": float(np.finfo(wide).min)}
        args |= {"CHUNK": min(CHUNK, int(triton.next_power_of_2(n_words)))}
        args |= {"ACC": acc, "INDEX": index_type(n * n_words)}
        self._slopes = prepare(_slopes_kernel, n, args, 8)
        self._of_bias: Callable[..., None] | None = None
        if bias is not None:
            args = {"dx_ptr": dx.dtype, "sums_ptr": x.dtype, "out_ptr": outs[2].dtype}
            args |= {"n_rows": n, "n_words": n_words, "INDEX": index_type(n * n_words)}
            args |= {"BEGINS": self._is_first, "ENDS": self._is_last, "ACC": acc}
            args |= {"ROWS": ROWS, "COLUMNS": COLUMNS}
            self._of_bias = prepare(_add_columns_kernel, triton.cdiv(n_words, COLUMNS), args)

    def __call__(
        self, xs: Sequence[Any], ys: Sequence[Any], products: Any, slopes: Any, sums: Any,
        of_bias: Any, found: Any,
    ) -> None:  # fmt: skip
        """Launch them; ``sums`` are of the weight, in its own place where they are of its dtype."""
        *asked, hidden, weight, ids = xs[:7]
        bias = xs[7:]
        x, dx = (self._part(a, slice(0, self.n)) for a in (products, slopes))
        h, dh = (self._part(self._flat(a), self._rows) for a in (hidden, ys[0]))
        by_row = [self._part(self._flat(a, 0), self._rows) for a in (*asked, ids)]
        alarm = self._part(found, self._rows)
        self._logits(h, weight, x)
        self._slopes(x, *bias, *by_row, dx, alarm)
        self._of_hidden(dx, weight, dh)
        held = ys[1] if sums is None else sums
        before = [] if self._is_first else [held]
        self._of_weight(dx, h, *before, ys[1] if self._is_last else held)
        if self._of_bias is not None:
            self._of_bias(dx, of_bias, ys[2])

    @staticmethod
    def _flat(a: Any, inner: int = 1) -> Any:
        """Return an array of rows, with the axes before its last ``inner`` as one."""
        size = int(np.prod(a.shape[: len(a.shape) - inner]))
        spec = TensorSpec((size, *a.shape[len(a.shape) - inner :]), a.dtype)
        return DeviceArray(a.address, spec, name=a.name, held=a.held)

    @staticmethod
    def _part(a: Any, rows: slice) -> Any:
        """Return some rows of a dense array."""
        spec = TensorSpec((rows.stop - rows.start, *a.shape[1:]), a.dtype)
        at = a.address + rows.start * a.strides[0]
        return DeviceArray(at, spec, name=a.name, held=a.held)
