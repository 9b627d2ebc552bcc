"""Recurrent layers as machine code: products and a kernel for each step of time, all in one loop.

    forward    per step  z = x wᵀ,  z += h rᵀ,  cell: gates in the place of z, h
    backward   per step  cell: dz,  dh = dz r;  for all steps  dw = dzᵀ x,  dr = dzᵀ h,  dx = dz w

Rows of a batch have nothing in common but weights, nor have directions. So threads share them for
all of time, and wait for each other once a sweep, not in each of its steps of some 40 µs.
"""

from .backward import bind_grad
from .cells import cell_of
from .forward import bind_layer

__all__ = ["bind_grad", "bind_layer", "cell_of"]
