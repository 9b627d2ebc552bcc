"""Part: a segment of a plan, in numpy at first and with its kernels when they are compiled."""

from __future__ import annotations

import functools
import logging
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..cpu.binder import RefusedError
from ..cpu.bound import Bound
from ..cpu.llvm.target import switch
from ..cpu.plain import Segment
from ..cpu.threads.background import BACKGROUND
from ..errors import LoweringError
from ..fuse import fuse
from ..fuse.fused import Fused
from ..graph import Tensor
from ..program.device import Device
from ..program.options import PlanOptions
from ..program.program import Instr, Program
from ..shared import Bounded
from ..spec import TensorSpec, known_spec

Array = np.ndarray[Any, Any]
MAX_TAILS = 32
RUNS = 3
"""Runs after which kernels are compiled in the background: who runs a plan once or twice, as for a
look at another shape, would not see them any more."""
_MISSING = "no llvmlite that knows this machine: pip install 'gradwright[fast]'"
_log = logging.getLogger("gradwright")


class Part:
    """A segment, where it ends, and what follows for each set of shapes met there.

    ``updates`` are those that may be written in place; ``variables`` what the plan reads.
    """

    def __init__(
        self,
        program: Program,
        device: Device,
        options: PlanOptions,
        variables: Sequence[Tensor],
        updates: Mapping[Tensor, Tensor],
        commit_if: Tensor | None,
        end: int,
        dynamic: Sequence[Tensor],
        by_value: bool,
        known: dict[Tensor, TensorSpec],
        sizes: dict[str, int],
    ) -> None:
        self.plain = Segment(program, device)
        self.bound: Bound | None = None
        """The segment with its kernels, when there is one; it runs from then on."""
        self.coming: Bound | None = None
        """The same while its kernels are being compiled."""
        self.kernels = options.kernels if device.name == "cpu" and program.instrs else "off"
        self.why = "" if self.kernels != "off" else _why_off(options, device)
        """Why it stays in numpy; empty while kernels are expected, or in."""
        self._variables, self._updates = variables, updates
        self._tuning, self._commit_if = options.tuning, commit_if
        self._runs, self.is_asked = 0, False
        self.end, self.dynamic = end, list(dynamic)
        self.by_value = by_value
        """Whether it ends since values decide what follows, be they large or floating."""
        self.known, self.sizes = known, sizes
        self.tails = Bounded[Part](MAX_TAILS)
        results = (program.specs[program.numbers[t]] for t in program.outputs)
        constants = (a.nbytes for a in program.constants.values() if any(a.strides))
        self.kept = sum(constants) + sum(s.nbytes for s in results if s.is_concrete)
        """Bytes that stay from run to run beside the arena: constants, and results to reuse."""

    @property
    def segment(self) -> Segment | Bound:
        """What runs now."""
        return self.plain if self.bound is None else self.bound

    def choose(self) -> Segment | Bound:
        """Return what runs next; it is never changed within a run."""
        if self.bound is None and self.kernels != "off":
            self._runs += 1
            if self.kernels == "wait":
                self.bind()
            elif self._runs == RUNS:
                self.ask()
        if self.bound is not None:
            if self.plain.registers:
                self.plain.release()
            return self.bound
        return self.plain

    def ask(self) -> None:
        """Have kernels compiled in the background, unless that was asked for before."""
        if self.kernels == "wait":
            self.bind()
        elif self.kernels == "background" and not self.is_asked:
            from ..cpu.llvm import compiler  # noqa: F401 - before the thread, or a fork misses its locks

            self.is_asked = True
            BACKGROUND.add(functools.partial(_bind, weakref.ref(self)))

    def bind(self) -> None:
        """Make the segment with its kernels; those that cannot be compiled stay on numpy."""
        from ..cpu.llvm.compiler import available  # llvmlite, which no import of ours may load

        try:
            if available():
                self.bound = self._bound()
            else:
                is_off = switch("GRADWRIGHT_KERNELS") == "off"
                self.why = "GRADWRIGHT_KERNELS=off" if is_off else _MISSING
        except Exception as error:  # no kernel is worth a failed run: numpy computes it
            self.why = str(error)
            _log.info("a plan stays on numpy: %s", error, exc_info=not _is_expected(error))
        finally:
            self.coming = None
        self.kernels = "off"  # there is no more to come; after Ctrl-C there is

    def _bound(self) -> Bound:
        """Return the segment with its kernels; raises LoweringError if none can be compiled."""
        plain = self.plain
        known = {
            instr.outs: (instr.op, found)
            for instr, found in zip(plain.program.instrs, plain.found, strict=True)
        }
        refused: list[Instr] = []
        while True:
            fused = fuse(plain.program, refused)
            if refused and not any(isinstance(instr.op, Fused) for instr in fused.instrs):
                raise RefusedError(refused)
            coming = self.coming = Bound(
                fused, plain.device, self._variables, self._updates, known, self._tuning,
                self._commit_if,
            )  # fmt: skip
            try:
                coming.prepare()
                return coming
            except RefusedError as error:
                again = {instr.outs for instr in error.kernels} & {i.outs for i in refused}
                if again:
                    raise
                _log.info("numpy computes what these would: %s", error)
                refused += error.kernels

    def met(self, array: Array) -> TensorSpec:
        """Return the spec of an array that decides what follows."""
        if self.by_value:
            return TensorSpec(array.shape, array.dtype, array.copy())
        return known_spec(array)


def _why_off(options: PlanOptions, device: Device) -> str:
    if options.kernels == "off":
        return 'kernels="off"'
    return "" if device.name == "cpu" else f"the device is {device.name!r}"


def _is_expected(error: Exception) -> bool:
    return isinstance(error, LoweringError)


def _bind(waiting: weakref.ref[Part]) -> None:
    """Bind a part, if somebody still holds it."""
    if (part := waiting()) is not None:
        part.bind()
