"""AdamW on a flat buffer of parameters, in place (Loshchilov & Hutter 2019, arXiv:1711.05101).

    m ← β₁·m + (1 − β₁)·g        v ← β₂·v + (1 − β₂)·g²
    p ← p − lr·((m / (1 − β₁ᵗ)) / (√(v / (1 − β₂ᵗ)) + ε) + λ·p)

Bytes moved for N float32 parameters: 28·N (p, g, m and v read, p, m and v written), whereas one
kernel per arithmetic operation would move about 100·N.
"""

# Kernels are Triton's language, not Python: they are typed when they are compiled.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

from __future__ import annotations

import triton
import triton.language as tl

# Chosen from the compiler's report, not measured: no kernel here has run on a GPU yet. 1,024
# elements on 128 threads are two 16-byte loads per thread and buffer, eight in flight.
BLOCK = 1_024


@triton.jit
def _adamw_kernel(
    p_ptr,
    g_ptr,
    m_ptr,
    v_ptr,
    lr_ptr,
    step_ptr,
    p_out_ptr,
    m_out_ptr,
    v_out_ptr,
    n,
    BETA1: tl.constexpr,
    BETA2: tl.constexpr,
    EPS: tl.constexpr,
    DECAY: tl.constexpr,
    BLOCK: tl.constexpr,
    ACC: tl.constexpr,
    INDEX: tl.constexpr,
):
    """Update BLOCK parameters; all arithmetic in ACC."""
    tl.static_assert(True)
