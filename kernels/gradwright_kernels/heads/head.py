"""Log-probabilities of tokens at the head of a language model, and what else logits say.

    x = softcap·tanh((h·wᵀ + bias)/softcap)/temperature        p = softmax x
    log p[id], −Σ p·log p, log Σ p², mean x, and whether id is the argmax

h: [N, D], w: [V, D], bias: [V], ids: [N]. A program takes a tile of rows through a part of the
vocabulary and keeps six numbers and an index of each row; a second kernel joins the parts in their
order. Logits are never in memory. Bytes moved, for elements of s bytes and tiles of BM rows:
s·(⌈N/BM⌉·V·D + N·D·parts), of which programs of one part find most of w in L2, and 28·N·parts;
2·N·V·D flops. Sums are in float32, float64 for float64.
"""

# Kernels are Triton's language, not Python: they are typed when they are compiled.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import triton
import triton.language as tl

from gradwright.program.lowering import Launch, lowering
from gradwright.spec import TensorSpec

from ..launch import (
    PROGRAMS,
    accumulator,
    alarm,
    contiguous,
    index_type,
    named,
    pointer,
    prepare,
    workspace,
)
from .logits import BELOW, grown, logits

TILES = {2: (64, 128, 64, 8), 4: (64, 64, 32, 8), 8: (32, 32, 16, 4)}
"""Rows, words and features of a tile, and warps, by bytes of an element."""
BLOCK = 128
"""Rows that a program joins."""


@triton.jit
def _read_words_kernel(
    h_ptr, w_ptr, bias_ptr, id_ptr, sums_ptr, best_ptr, n, n_words, width, each,
    CAP: tl.constexpr, TEMPERATURE: tl.constexpr, LEAST: tl.constexpr, ROWS: tl.constexpr,
    WORDS: tl.constexpr, DEPTH: tl.constexpr, OPERAND: tl.constexpr, ACC: tl.constexpr,
    INDEX: tl.constexpr,
):  # fmt: skip
    """Read ``each`` words' logits of ROWS rows.

    h_ptr: [n, width]; w_ptr: [n_words, width]; bias_ptr: [n_words] or absent; id_ptr: [n];
    sums_ptr: ACC[parts, 6, n]; best_ptr: i32[parts, n], the first word of the largest logit.
    """
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    part = tl.program_id(1)
    inside = row < n
    label = tl.load(id_ptr + row, mask=inside, other=0).to(tl.int64)
    k = tl.arange(0, DEPTH)
    top = tl.full((ROWS,), LEAST, ACC)
    size, tilt, squares = tl.zeros((ROWS,), ACC), tl.zeros((ROWS,), ACC), tl.zeros((ROWS,), ACC)
    sums, picked = tl.zeros((ROWS,), ACC), tl.zeros((ROWS,), ACC)
    best, most = tl.zeros((ROWS,), tl.int32), tl.full((ROWS,), -float("inf"), ACC)
    for start in range(part * each, tl.minimum(part * each + each, n_words), WORDS):
        word = start + tl.arange(0, WORDS)
        there = word < n_words
        x = tl.zeros((ROWS, WORDS), ACC)
        for first in range(0, width, DEPTH):
            at = first + k
            left = tl.load(
                h_ptr + row.to(INDEX)[:, None] * width + at[None, :],
                mask=inside[:, None] & (at < width)[None, :],
                other=0.0,
            )
            right = tl.load(
                w_ptr + word.to(INDEX)[None, :] * width + at[:, None],
                mask=(at < width)[:, None] & there[None, :],
                other=0.0,
            )
            left, right = left.to(OPERAND), right.to(OPERAND)
            x = tl.dot(left, right, x, input_precision="ieee", out_dtype=ACC)
        if bias_ptr is not None:
            x += tl.load(bias_ptr + word, mask=there, other=0.0).to(ACC)[None, :]
        x, _ = logits(x, CAP, TEMPERATURE)
        seen = tl.broadcast_to(there[None, :], (ROWS, WORDS))
        top, size, tilt, squares = grown(x, seen, top, size, tilt, squares)
        sums += tl.sum(tl.where(seen, x, 0.0), axis=1)
        picked += tl.sum(tl.where(word[None, :] == label[:, None], x, 0.0), axis=1)
        x = tl.where(seen, x, -float("inf"))
        now = tl.max(x, axis=1)
        best = tl.where(now > most, start + tl.argmax(x, axis=1).to(tl.int32), best)
        most = tl.maximum(most, now)
    to = sums_ptr + part.to(INDEX) * 6 * n + row
    tl.store(to, top, mask=inside)
    tl.store(to + n, size, mask=inside)
    tl.store(to + 2 * n, tilt, mask=inside)
    tl.store(to + 3 * n, squares, mask=inside)
    tl.store(to + 4 * n, sums, mask=inside)
    tl.store(to + 5 * n, picked, mask=inside)
    tl.store(best_ptr + part.to(INDEX) * n + row, best, mask=inside)


@triton.jit
def _join_parts_kernel(
    id_ptr, sums_ptr, best_ptr, log_p_ptr, entropy_ptr, squares_ptr, mean_ptr, is_top_ptr,
    alarm_ptr, n, n_words, parts,
    IGNORED: tl.constexpr, LEAST: tl.constexpr, BLOCK: tl.constexpr, ACC: tl.constexpr,
    INDEX: tl.constexpr,
):  # fmt: skip
    """Join what was read of the words' parts, in their order; rows that do not count get 0.

    id_ptr, log_p_ptr, …, is_top_ptr: [n]; alarm_ptr: i32[programs].
    """
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = row < n
    label = tl.load(id_ptr + row, mask=inside, other=0).to(tl.int64)
    top = tl.full((BLOCK,), LEAST, ACC)
    size, tilt, squares = tl.zeros((BLOCK,), ACC), tl.zeros((BLOCK,), ACC), tl.zeros((BLOCK,), ACC)
    sums, picked = tl.zeros((BLOCK,), ACC), tl.zeros((BLOCK,), ACC)
    best = tl.zeros((BLOCK,), tl.int32)
    for part in range(0, parts):
        at = sums_ptr + (row.to(INDEX) + part * 6 * n)
        its = tl.load(at, mask=inside, other=0.0)
        higher = tl.maximum(top, its)
        old, new = tl.exp(top - higher), tl.exp(its - higher)
        its_size = tl.load(at + n, mask=inside, other=1.0)
        its_tilt = tl.load(at + 2 * n, mask=inside, other=0.0)
        its_squares = tl.load(at + 3 * n, mask=inside, other=1.0)
        here = tl.load(best_ptr + (row.to(INDEX) + part * n), mask=inside, other=0)
        best = tl.where((its > top) | (part == 0), here, best)
        tilt = (tilt + size * tl.maximum(top - higher, BELOW)) * old
        tilt += (its_tilt + its_size * tl.maximum(its - higher, BELOW)) * new
        size = size * old + its_size * new
        squares = squares * old * old + its_squares * new * new
        sums += tl.load(at + 4 * n, mask=inside, other=0.0)
        picked += tl.load(at + 5 * n, mask=inside, other=0.0)
        top = higher
    kept = label != IGNORED
    norm = tl.log(size)
    tl.store(log_p_ptr + row, tl.where(kept, picked - top - norm, 0.0), mask=inside)
    tl.store(entropy_ptr + row, tl.where(kept, norm - tilt / size, 0.0), mask=inside)
    tl.store(squares_ptr + row, tl.where(kept, tl.log(squares) - 2.0 * norm, 0.0), mask=inside)
    tl.store(mean_ptr + row, tl.where(kept, sums / n_words, 0.0), mask=inside)
    tl.store(is_top_ptr + row, kept & (best == label), mask=inside)
    wrong = kept & ((label < 0) | (label >= n_words)) & inside
    tl.store(alarm_ptr + tl.program_id(0), tl.max(tl.where(wrong, 1, 0), axis=0))


def taken(floats: Sequence[Any], weight: Any, ids: Any) -> Any:
    """Return what sums are in; None declines these inputs."""
    acc = accumulator(*floats)
    return acc if ids.size and 0 < weight.shape[0] < 2**31 else None


@lowering("head_log_probs", device="cuda")
def head_log_probs(op: Any, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> Launch | None:
    """Launch programs for tiles of rows and parts of the words, then for blocks of rows."""
    hidden, weight, ids, bias = (*ins, None)[:4]
    acc = taken([hidden, weight, bias], weight, ids)
    if acc is None:
        return None
    n, (n_words, width) = ids.size, weight.shape
    same = hidden.dtype == weight.dtype
    rows, words, depth, warps = TILES[
        hidden.dtype.itemsize if same else acc.primitive_bitwidth // 8
    ]
    tiles = triton.cdiv(n, rows)
    parts = min(triton.cdiv(PROGRAMS, tiles), triton.cdiv(n_words, words))
    each = triton.cdiv(triton.cdiv(n_words, words), parts) * words
    parts = triton.cdiv(n_words, each)
    sums = TensorSpec((parts, 6, n), outs[0].dtype)
    best = TensorSpec((parts, n), "int32")
    least = float(np.finfo(outs[0].dtype).min)
    shared = {"id_ptr": ids.dtype, "sums_ptr": sums.dtype, "best_ptr": best.dtype, "n": n}
    shared |= {"n_words": n_words, "LEAST": least, "ACC": acc}
    shared |= {"INDEX": index_type(max(hidden.size, weight.size, sums.size))}
    args = {**shared, "h_ptr": hidden.dtype, "w_ptr": weight.dtype, "bias_ptr": pointer(bias)}
    args |= {"width": width, "each": each, "CAP": op.softcap, "TEMPERATURE": float(op.temperature)}
    args |= {"ROWS": rows, "WORDS": words, "DEPTH": depth}
    args |= {"OPERAND": named(hidden.dtype) if same else acc}
    read = prepare(_read_words_kernel, (tiles, parts, 1), args, warps)
    blocks = triton.cdiv(n, BLOCK)
    bad = TensorSpec((blocks,), "int32")
    names = "log_p", "entropy", "squares", "mean", "is_top"
    args = {**shared, **{f"{k}_ptr": s.dtype for k, s in zip(names, outs, strict=True)}}
    args |= {"alarm_ptr": bad.dtype, "parts": parts, "IGNORED": op.ignore_index, "BLOCK": BLOCK}
    join = prepare(_join_parts_kernel, blocks, args)
    space, of_best, found = workspace(sums), workspace(best), alarm(bad)

    def run(xs: Sequence[Any], ys: Sequence[Any]) -> None:
        h, w, label, *rest = contiguous(xs)
        read(h, w, *rest, label, space, of_best)
        join(label, space, of_best, *ys, found)

    return run
