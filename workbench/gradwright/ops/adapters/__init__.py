"""Adapters: affine maps with a small trained part beside a large frozen one."""

from ...op import Family

FAMILY = Family("Adapters", drawing="activation")
