"""Adapters: affine maps with a small trained part beside a large frozen one."""
