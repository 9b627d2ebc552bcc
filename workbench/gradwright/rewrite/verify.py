"""Verification: each change to a program is run on random inputs beside what it replaces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import LoweringError
from ..op import run_forward
from ..program.log import Entry
from ..program.program import Instr, Program
from ..spec import TensorSpec, kind

if TYPE_CHECKING:
    from .editor import Editor
    from .table import Rule

Array = np.ndarray[Any, Any]


class Verifier:
    """Holds all values of a program on random feeds, and compares what rules put in their place.

    What the plain instructions refuse on such feeds (an index that is no row), and loops, are not
    compared, and what follows from them neither.
    """

    def __init__(self, program: Program, feeds: Mapping[int, Array] | None = None) -> None:
        rng = np.random.default_rng(0)
        self.training = program.training
        self.values: dict[int, Array] = dict(program.constants)
        for number in program.sources:
            given = None if feeds is None else feeds.get(number)
            self.values[number] = draw(program.specs[number], rng) if given is None else given
        self.outputs = [program.numbers[t] for t in program.outputs]
        self.exact = True
        """Whether all rules so far were: after one that rounds, equal ops have equal values only
        up to that."""
        self._run(program.instrs)
        self.expected = [self.values.get(i) for i in self.outputs]

    def _run(self, instrs: Sequence[Instr]) -> None:
        with np.errstate(all="ignore"):
            for instr in instrs:
                if instr.op.namespace == "control":  # a loop may not end on such values
                    continue
                if any(i is not None and i not in self.values for i in instr.ins):
                    continue
                xs = [None if i is None else self.values[i] for i in instr.ins]
                try:
                    ys = run_forward(instr.op, xs, training=self.training)
                except Exception:  # such feeds do not fit it
                    continue
                self.values.update(zip(instr.outs, ys, strict=False))

    def check(self, rule: Rule, at: Editor, entry: Entry) -> None:
        """Compare what a rule made with what it replaced."""
        self.exact = self.exact and rule.exact
        self.values.update((k, a) for k, a in at.constants.items() if k not in self.values)
        self._run(at.pending)
        made = {o for instr in at.pending for o in instr.outs}
        for old, new in zip(entry.before[0].outs, entry.becomes, strict=False):
            plain, found = self.values.get(old), self.values.get(new)
            if plain is None or found is None:
                continue
            if at.specs[old] != at.specs[new] and at.specs[old].is_concrete:
                raise LoweringError(
                    f"rewrite {rule.name!r} changes {at.specs[old]} into {at.specs[new]}",
                    facts=[str(entry)],
                )
            if problem := difference(plain, found, exact=self.exact):
                raise LoweringError(
                    f"rewrite {rule.name!r} changes values",
                    facts=[str(entry), problem],
                    hint=f"Session(skip_rewrites=[{rule.name!r}])",
                )
            if new in made:  # what follows is compared on the plain values again
                self.values[new] = plain

    def check_outputs(self, program: Program) -> None:
        """Run the whole program as it is now, and compare its outputs."""
        sources = {k: a for k, a in self.values.items() if k in program.sources}
        self.values = {**program.constants, **sources}
        self._run(program.instrs)
        for t, plain in zip(program.outputs, self.expected, strict=True):
            number = program.numbers[t]
            found = self.values.get(number)
            if plain is None or found is None:
                continue
            if problem := difference(plain, found, exact=self.exact):
                raise LoweringError(f"rewrites change {t.name!r}", facts=[problem])


def draw(spec: TensorSpec, rng: np.random.Generator) -> Array:
    """Return random values: small integers, bools, or standard normal numbers."""
    shape: Any = spec.shape
    match kind(spec.dtype):
        case "b":
            drawn: Any = rng.random(shape) < 0.5
        case "i" | "u":
            drawn = rng.integers(0, 2, shape)
        case "c":
            drawn = rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
        case "f":
            drawn = rng.standard_normal(shape)
        case _:
            drawn = np.full(shape, "")
    return np.asarray(drawn).astype(spec.dtype)


def difference(plain: Array, found: Array, *, exact: bool) -> str:
    """Return what differs: any bit but of NaN, or more than rounding where the plain is finite."""
    if plain.shape != found.shape or plain.dtype != found.dtype:
        return f"{plain.dtype}{list(plain.shape)} became {found.dtype}{list(found.shape)}"
    if plain.dtype.kind not in "fcV":
        same: Any = plain == found
        return "" if plain.dtype.kind == "O" or np.all(same) else _first(plain, found, ~same)
    wide = np.complex128 if plain.dtype.kind == "c" else np.float64
    a, b = plain.astype(wide), found.astype(wide)
    if exact:
        signs = np.signbit(a.real) == np.signbit(b.real)
        same = (np.isnan(a) & np.isnan(b)) | ((a == b) & signs)
    else:
        own = plain.dtype.isbuiltin == 1  # bfloat16 and narrower are of ml_dtypes
        tolerance = 200 * float(np.finfo(plain.dtype).eps) if own else 0.05
        scale = np.abs(a[np.isfinite(a)]).max(initial=0.0)
        close = np.isclose(b, a, rtol=tolerance, atol=tolerance * scale)
        same = ~np.isfinite(a) | close
    return "" if np.all(same) else _first(plain, found, ~same)


def _first(plain: Array, found: Array, wrong: Array) -> str:
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"{plain[at]} became {found[at]} at {list(at)}"
