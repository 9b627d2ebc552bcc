"""Adapters: affine maps with a small trained part beside a large frozen one."""

from . import low_rank, products
