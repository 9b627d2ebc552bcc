"""Fusing: the program of a segment with its kernels, made here or by an earlier process."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from ..files.trusted import OBJECTS
from ..fuse import fuse
from ..program.executor import Keep
from ..program.lowering import replaced_ops
from ..program.program import Instr, Program
from .followed import follow
from .untapped import untap

PART = "kernels"
"""What it is called on disk."""


class Fusing:
    """Makes a program's kernels; where one may be on disk, it is looked for, and left, there."""

    def __init__(self, program: Program, device: str, keep: Keep | None) -> None:
        self._program, self._device, self._keep = program, device, keep
        self._read: tuple[Program, Any] | None = None
        self._is_read = False
        self._made: Program | None = None

    @property
    def may_be_on_disk(self) -> bool:
        """Whether the program is from there, so that its kernels may be there, too."""
        return self._keep is not None and self._keep.is_read

    def is_on_disk(self) -> bool:
        """Tell whether an earlier process has compiled all of it, so that there is no waiting."""
        found = self._found()
        return found is not None and all(map(OBJECTS.holds, found[1]))

    def fused(self, refused: Sequence[Instr]) -> Program:
        """Return the program with kernels, to be changed; those ``refused`` are left to numpy."""
        found, self._read = self._found(), None
        if found is not None and not refused:
            return found[0]
        replaced = replaced_ops(self._device)
        fused = fuse(
            self._program, refused, replaced, functools.partial(_taken_up, replaced=replaced)
        )
        if self._keep is not None:  # who binds it puts it in another order
            self._made = _copy(fused)
        return fused

    def keep(self, functions: Iterable[int]) -> None:
        """Leave on disk what ``fused`` made last, with the names of its machine code."""
        made, self._made = self._made, None
        if self._keep is not None and made is not None:
            from .llvm.compiler import names_of

            self._keep.write(PART, made, self._program, names_of(functions))

    def _found(self) -> tuple[Program, Any] | None:
        if self._keep is not None and not self._is_read:
            self._is_read = True
            self._read = self._keep.read(PART, lambda: _copy(self._program), self._program)
        return self._read


def _taken_up(program: Program, replaced: Collection[str]) -> None:
    """Make of a program with kernels what machine code here does in fewer steps, or shorter."""
    follow(program, replaced)
    untap(program, replaced)


def _copy(program: Program) -> Program:
    """Return a program whose instructions and values are its own."""
    return dataclasses.replace(
        program,
        specs=list(program.specs),
        instrs=list(program.instrs),
        constants=dict(program.constants),
    )
