"""Adam and AdamW on flat buffers, in place where outputs are the inputs.

    m ← β₁·m + (1 − β₁)·g        v ← β₂·v + (1 − β₂)·g²
    p ← p·(1 − lr·λ) − lr/(1 − β₁ᵗ) · m / (√v / √(1 − β₂ᵗ) + ε)

Bytes moved for N float32 parameters: 28·N (p, g, m and v read, p, m and v written), where a kernel
for each arithmetic operation would move about 150·N. The six scalars are read from device memory,
so that a captured graph follows a learning rate that changes.
"""

# Kernels are Triton's language, not Python: they are typed when they are compiled.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import triton
import triton.language as tl

from gradwright.program.lowering import Launch, lowering
from gradwright.spec import TensorSpec, dtype_name

from ..compile.compiler import POINTERS
from ..launch import accumulator, contiguous, index_type, prepare, workspace

# Chosen from the compiler's report; RESULTS.md has times on a GPU. 1,024 elements on 128 threads
# are two 16-byte loads per thread and buffer, eight in flight.
BLOCK = 1_024


@triton.jit
def _adam_scalars_kernel(
    step_ptr, learning_rate_ptr, beta1_ptr, beta2_ptr, epsilon_ptr, weight_decay_ptr, scalars_ptr
):
    """Work out once, in float64, what every element needs: 1 − β₂ᵗ has few digits in float32.

    step_ptr, ..., weight_decay_ptr: []; scalars_ptr: f64[8].
    """
    t = tl.load(step_ptr).to(tl.float64)
    rate = tl.load(learning_rate_ptr).to(tl.float64)
    beta1 = tl.load(beta1_ptr).to(tl.float64)
    beta2 = tl.load(beta2_ptr).to(tl.float64)
    tl.store(scalars_ptr, beta1)
    tl.store(scalars_ptr + 1, 1.0 - beta1)
    tl.store(scalars_ptr + 2, beta2)
    tl.store(scalars_ptr + 3, 1.0 - beta2)
    tl.store(scalars_ptr + 4, 1.0 / tl.sqrt(1.0 - tl.exp2(t * tl.log2(beta2))))
    tl.store(scalars_ptr + 5, tl.load(epsilon_ptr).to(tl.float64))
    tl.store(scalars_ptr + 6, 1.0 - rate * tl.load(weight_decay_ptr).to(tl.float64))
    tl.store(scalars_ptr + 7, rate / (1.0 - tl.exp2(t * tl.log2(beta1))))


@triton.jit
def _adam_kernel(
    p_ptr,
    g_ptr,
    m_ptr,
    v_ptr,
    scalars_ptr,
    new_p_ptr,
    new_m_ptr,
    new_v_ptr,
    n,
    BLOCK: tl.constexpr,
    ACC: tl.constexpr,
    INDEX: tl.constexpr,
):
    """Update BLOCK parameters; all arithmetic in ACC.

    p_ptr, ..., new_v_ptr: [n], where a new one may be the old one; scalars_ptr: f64[8].
    """
    at = tl.program_id(0).to(INDEX) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    p = tl.load(p_ptr + at, mask=inside, other=0.0).to(ACC)
    g = tl.load(g_ptr + at, mask=inside, other=0.0).to(ACC)
    m = tl.load(m_ptr + at, mask=inside, other=0.0).to(ACC)
    v = tl.load(v_ptr + at, mask=inside, other=1.0).to(ACC)
    m = tl.load(scalars_ptr).to(ACC) * m + tl.load(scalars_ptr + 1).to(ACC) * g
    v = tl.load(scalars_ptr + 2).to(ACC) * v + tl.load(scalars_ptr + 3).to(ACC) * (g * g)
    scale = tl.sqrt(v) * tl.load(scalars_ptr + 4).to(ACC) + tl.load(scalars_ptr + 5).to(ACC)
    p = p * tl.load(scalars_ptr + 6).to(ACC) - tl.load(scalars_ptr + 7).to(ACC) * (m / scale)
    tl.store(new_p_ptr + at, p.to(new_p_ptr.dtype.element_ty), mask=inside)
    tl.store(new_m_ptr + at, m.to(new_m_ptr.dtype.element_ty), mask=inside)
    tl.store(new_v_ptr + at, v.to(new_v_ptr.dtype.element_ty), mask=inside)


@lowering("adam_update", device="cuda")
def adam_update(op: Any, ins: Sequence[Any], outs: Sequence[TensorSpec]) -> Launch | None:
    """Launch the scalar kernel, then one program for each ``BLOCK`` parameters."""
    tensors, numbers, n = ins[:4], ins[4:], outs[0].size
    acc = accumulator(*tensors)
    if acc is None or n == 0 or any(dtype_name(s.dtype) not in POINTERS for s in numbers):
        return None
    scalars = TensorSpec((8,), "float64")
    names = ("step", "learning_rate", "beta1", "beta2", "epsilon", "weight_decay")
    args: dict[str, Any] = {f"{k}_ptr": s.dtype for k, s in zip(names, numbers, strict=True)}
    by_step = prepare(_adam_scalars_kernel, 1, {**args, "scalars_ptr": scalars.dtype}, num_warps=1)

    args = {f"{k}_ptr": s.dtype for k, s in zip("pgmv", tensors, strict=True)}
    args |= {f"new_{k}_ptr": s.dtype for k, s in zip("pmv", outs, strict=True)}
    args |= {"scalars_ptr": scalars.dtype, "n": n}
    args |= {"BLOCK": BLOCK, "ACC": acc, "INDEX": index_type(n)}
    by_element = prepare(_adam_kernel, triton.cdiv(n, BLOCK), args)
    space = workspace(scalars)

    def run(xs: Sequence[Any], ys: Sequence[Any]) -> None:
        by_step(*xs[4:], space)
        by_element(*contiguous(xs[:4]), space, *ys)

    return run
