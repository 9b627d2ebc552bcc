"""Products with packed weights, and what goes back through them to what was multiplied.

    y[m, f] = Σ_d x[m, d]·W[f, d]        dx[m, d] = Σ_f g[m, f]·W[f, d]

W: [F, D] in NF4, AWQ's 4 bits, scaled integers of 4 or 8 bits, or blocks of ggml. A tile of it is
unpacked in registers and multiplied, in the dtype of x. Bytes moved for b bits a number and tiles
of BM rows: F·D·b/8·⌈M/BM⌉, s·M·D·⌈F/BN⌉ and s·M·F; 2·M·F·D flops. A row of x, as in decoding,
is bound by F·D·b/8. Sums are in float32, float64 for float64.
"""

# Kernels are Triton's language, not Python: they are typed when they are compiled.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import triton
import triton.language as tl

from gradwright.ops.quantised.awq import AwqMatmul
from gradwright.ops.quantised.blocks import FORMATS
from gradwright.ops.quantised.products import GgmlMatmul, Nf4Matmul
from gradwright.program.lowering import Launch, lowering
from gradwright.spec import TensorSpec, dtype_name

from ..device.array import DeviceArray
from ..launch import accumulator, contiguous, fitted, index_type, named, pointer, prepare
from .unpacking import number

TILES = {2: (64, 64, 64, 4), 4: (32, 32, 32, 4), 8: (32, 32, 16, 4)}
"""Rows, columns and depth of a tile, and warps, by bytes of an element."""
BYTES = {"int8": 8, "int4": 4, "uint8": 0, "uint4": 0}
"""Integers that lie in a byte each: bits of those with a sign."""
UNPACKED = frozenset(("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q4_k", "q5_k", "q6_k"))
"""Formats of ggml that kernels unpack."""


@triton.jit
def _packed_product_kernel(
    x_ptr, w_ptr, scale_ptr, zero_ptr, y_ptr, M, N, K, n_rows, width, BACK: tl.constexpr,
    FORMAT: tl.constexpr, SIZE: tl.constexpr, N_BYTES: tl.constexpr, EACH: tl.constexpr,
    SIGNED: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
    OPERAND: tl.constexpr, ACC: tl.constexpr, INDEX: tl.constexpr,
):  # fmt: skip
    """Multiply BM rows by BN rows of a packed weight, or by BN of its columns if BACK.

    x_ptr: [M, K], y_ptr: [M, N]; w_ptr, scale_ptr, zero_ptr: of a weight [n_rows, width].
    """
    row = tl.program_id(0) * BM + tl.arange(0, BM)
    col = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), ACC)
    for first in range(0, K, BK):
        k = first + tl.arange(0, BK)
        at = row.to(INDEX)[:, None] * K + k[None, :]
        left = tl.load(x_ptr + at, mask=(row < M)[:, None] & (k < K)[None, :], other=0.0)
        inside = (k < K)[:, None] & (col < N)[None, :]
        f = (k[:, None] if BACK else col[None, :]) + tl.zeros((BK, BN), tl.int32)
        d = (col[None, :] if BACK else k[:, None]) + tl.zeros((BK, BN), tl.int32)
        right = number(
            w_ptr, scale_ptr, zero_ptr, f, d, inside, n_rows, width, FORMAT, SIZE, N_BYTES, EACH,
            SIGNED, ACC, INDEX,
        )  # fmt: skip
        right = tl.where(inside, right, 0.0).to(OPERAND)
        total = tl.dot(left.to(OPERAND), right, total, input_precision="ieee", out_dtype=ACC)
    at = row.to(INDEX)[:, None] * N + col[None, :]
    inside = (row < M)[:, None] & (col < N)[None, :]
    tl.store(y_ptr + at, total.to(y_ptr.dtype.element_ty), mask=inside)


@lowering("nf4_matmul", device="cuda")
@lowering("quantized_matmul", device="cuda")
@lowering("awq_matmul", device="cuda")
@lowering("ggml_matmul", device="cuda")
def packed_matmul(op: Any, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> Launch | None:
    """Launch a program for each tile of the product."""
    x, *packed = ins
    return _made(op, x, packed, outs[0], back=False)


@lowering("packed_matmul_grad", device="cuda")
def packed_matmul_grad(op: Any, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> Launch | None:
    """Launch a program for each tile of what goes back."""
    g, _, *packed = ins
    return _made(op.op, g, packed, outs[0], back=True)


def _made(op: Any, x: Any, packed: list[Any], y: TensorSpec, *, back: bool) -> Launch | None:
    w, scale, zero = (*packed, None, None)[:3]
    if isinstance(op, AwqMatmul):
        scale, zero = zero, scale
    format, acc = _format(op, w, scale, zero), accumulator(x, None if scale is None else scale)
    if format is None or acc is None or y.size == 0:
        return None
    width, n_rows = (y if back else x).shape[-1], (x if back else y).shape[-1]
    n, k = int(y.shape[-1]), x.shape[-1]
    m = x.size // max(k, 1)
    bm, bn, bk, warps = TILES[x.dtype.itemsize]
    bm, bn, bk = fitted(bm, m), fitted(bn, n), fitted(bk, k)
    seen = _seen(w), _seen(zero)
    args = {"x_ptr": x.dtype, "w_ptr": pointer(seen[0]), "scale_ptr": pointer(scale)}
    args |= {"zero_ptr": pointer(seen[1]), "y_ptr": y.dtype, "M": m, "N": n, "K": k}
    args |= {"n_rows": n_rows, "width": width, "BACK": back, "BM": bm, "BN": bn, "BK": bk}
    args |= {"OPERAND": named(x.dtype), "ACC": acc, **format}
    args |= {"INDEX": index_type(max(x.size, y.size, n_rows * width, w.size))}
    grid = triton.cdiv(m, bm), triton.cdiv(n, bn), 1
    run, first = prepare(_packed_product_kernel, grid, args, warps), 2 if back else 1
    is_turned = isinstance(op, AwqMatmul)

    def launch(xs: Sequence[Any], ys: Sequence[Any]) -> None:
        w, *rest = contiguous([*xs[first:]])
        of_scales = rest[::-1] if is_turned else rest
        run(*contiguous(xs[:1]), *(_as_bytes(a) for a in (w, *of_scales)), *ys)

    return launch


def _format(op: Any, w: Any, scale: Any, zero: Any) -> dict[str, Any] | None:
    """Return how a weight is packed; None: in a way that the kernel does not read."""
    found = {"FORMAT": "int", "SIZE": 1, "N_BYTES": 1, "EACH": "all", "SIGNED": 0}
    if isinstance(op, Nf4Matmul):
        return found | {"FORMAT": "nf4", "SIZE": op.block_size}
    if isinstance(op, AwqMatmul):
        return found | {"FORMAT": "awq", "SIZE": w.shape[0] // scale.shape[0]}
    if isinstance(op, GgmlMatmul):
        if op.format not in UNPACKED or op.activations != "float32":
            return None
        block = FORMATS[op.format]
        return found | {"FORMAT": op.format, "SIZE": block.size, "N_BYTES": block.n_bytes}
    names = {dtype_name(s.dtype) for s in (w, zero) if s is not None}
    if len(names) > 1 or not names <= BYTES.keys():
        return None
    each = "block" if op.block_size else "row" if scale.size > 1 else "all"
    return found | {"EACH": each, "SIZE": op.block_size or 1, "SIGNED": BYTES[names.pop()]}


def _seen(spec: TensorSpec | None) -> TensorSpec | None:
    """Return how a kernel sees integers that lie in a byte each: as bytes."""
    is_byte = spec is not None and dtype_name(spec.dtype) in BYTES
    return TensorSpec(spec.shape, "uint8") if spec is not None and is_byte else spec


def _as_bytes(a: Any) -> Any:
    spec = _seen(TensorSpec(a.shape, a.dtype))
    assert spec is not None
    return DeviceArray(a.address, spec, name=a.name, held=a.held)
