"""Convolutions and poolings as machine code, image by image.

An image is copied once, with its padding, into a small place, or read where it lies. There a tap of
a kernel is a fixed distance, so that windows are never written out. Results go through what follows
while they are in the cache (``cpu/followed.py``). All numbers stand in blocks; machine code
depends on the dtype and on how many channels go at a time.
"""

from .averages import bind_average, bind_average_grad
from .backward import bind_weight_grad
from .forward import bind_convolution, bind_input_grad, bind_transposed
from .pooling import bind_max_pool, bind_untap

__all__ = [
    "bind_average",
    "bind_average_grad",
    "bind_convolution",
    "bind_input_grad",
    "bind_max_pool",
    "bind_transposed",
    "bind_untap",
    "bind_weight_grad",
]
