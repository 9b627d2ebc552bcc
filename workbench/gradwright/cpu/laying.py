"""Laying: where a program with kernels has its values, those first that lie within others."""

from __future__ import annotations

from ..program.joined import join
from ..program.liveness import place
from ..program.memory import Layout
from .binder import Binder
from .call import Native


def laid(binder: Binder) -> tuple[Layout, dict[int, int]]:
    """Return where values lie, and which are written over which.

    Parts lie within what joins them where that takes no more memory.
    """
    program, lives, roots = binder.program, binder.lives, binder.lives.roots
    told = lives, binder.fixed, binder.overwritable, binder.elsewhere
    free = {i for i in binder.written if roots[i] == i and i not in binder.elsewhere}
    steps = [n for n, found in enumerate(binder.launches) if isinstance(found, Native)]
    apart = place(*told)
    if within := join(program, steps, free):
        inside = place(*told, within)
        if inside[0].nbytes <= apart[0].nbytes:
            return inside
    return apart
