"""Rewritten: the instructions that two shapes were both rewritten to, for further shapes."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ..op import Op, infer_specs
from ..program.program import Program
from ..spec import Dim, content_of, known_spec
from .flat import Sized, UnfitError, sized

Array = np.ndarray[Any, Any]


class Rewritten:
    """The instructions that two shapes were both rewritten to."""

    def __init__(self, at: Sized, now: Program, earlier: Sized, before: Program) -> None:
        flat = at.flat
        self._flat, self._program = flat, now
        same = (
            len(now.instrs) == len(before.instrs)
            and now.numbers == before.numbers
            and now.sources == before.sources
            and set(now.constants) == set(before.constants)
            and len(now.specs) == len(before.specs)
        )
        if not same:
            raise UnfitError
        self._pinned = {s: n for s, n in at.sizes.items() if earlier.sizes.get(s) == n}
        self._equal: dict[tuple[int, int], None] = {}
        """Values that must have one spec, for a rewrite took one for the other."""
        self._sized: list[tuple[int, Op]] = []
        """Instructions with sizes among their attributes, and these as symbols."""
        self._inferred: list[int] = []
        """Instructions that a rewrite made."""
        for place, (a, b) in enumerate(zip(now.instrs, before.instrs, strict=True)):
            if a.ins != b.ins or a.outs != b.outs or a.path != b.path:
                raise UnfitError
            n = flat.maker.get(a.outs[0])
            if n is not None and a.op == at.op(n) and b.op == earlier.op(n):
                given = flat.symbolic.instrs[n]
                if not flat.settled[n]:
                    self._sized.append((place, given.op))
                for old, new in zip((*given.ins, *given.outs), (*a.ins, *a.outs), strict=False):
                    self._must_equal(old, new)
            else:
                self._inferred.append(place)
                if a.op != b.op:
                    self._sized.append((place, fitted(a.op, b.op, at, earlier)))
        for t in now.outputs:
            self._must_equal(flat.symbolic.numbers[t], now.numbers[t])
        self._recipes = now.recipes
        self._computed: list[int] = []
        for number, array in now.constants.items():
            if number in flat.symbolic.constants:
                continue
            if number >= len(flat.kinds) and number not in now.recipes:
                self._must_be(array, before.constants[number])
            else:
                self._computed.append(number)
                self._must_be(at.constant(number, now.recipes), array)
                self._must_be(earlier.constant(number, now.recipes), before.constants[number])

    @staticmethod
    def _must_be(array: Array, other: Array) -> None:
        same = array.dtype == other.dtype and array.shape == other.shape
        if not same or content_of(array) != content_of(other):
            raise UnfitError

    def _must_equal(self, old: int | None, new: int | None) -> None:
        if old is None or new is None:
            if old is not new:
                raise UnfitError
        elif old != new:
            kinds = self._flat.kinds
            if new >= len(kinds) or kinds[old] != kinds[new]:
                self._equal[old, new] = None

    def at(self, sized: Sized) -> Program | None:
        """Return the program at other sizes, or None if these are not what it was learned for."""
        if any(sized.sizes.get(s) != n for s, n in self._pinned.items()):
            return None
        held = self._program
        specs = [*sized.specs, *held.specs[len(sized.specs) :]]
        constants = dict(held.constants)
        for number in self._computed:
            constants[number] = sized.constant(number, self._recipes)
            specs[number] = known_spec(constants[number])
        instrs = list(held.instrs)
        for place, op in self._sized:
            instrs[place] = held.instrs[place].changed(op=sized.bound(op))
        for place in self._inferred:
            i = instrs[place]
            found = infer_specs(i.op, [None if x is None else specs[x] for x in i.ins])
            for o, spec in zip(i.outs, found, strict=False):
                if o < len(sized.specs) and spec != specs[o]:
                    return None
                specs[o] = spec
        if any(specs[old] != specs[new] for old, new in self._equal):
            return None
        return dataclasses.replace(
            held,
            specs=specs,
            instrs=instrs,
            constants=constants,
            sources=dict(held.sources),
            numbers=dict(held.numbers),
            outputs=list(held.outputs),
        )


def fitted(now: Op, before: Op, at: Sized, earlier: Sized) -> Op:
    """Return the op whose attributes are these at two shapes: sizes, or products of neighbours."""
    meanings: dict[tuple[Any, Any], set[int | Dim]] = {}
    for shape, *_ in at.flat.distinct:
        for start in range(len(shape)):
            product: int | Dim = 1
            for d in shape[start:]:
                product = product * d
                if isinstance(product, Dim):
                    pair = sized(product, at.sizes), sized(product, earlier.sizes)
                    meanings.setdefault(pair, set()).add(product)

    def meant(a: Any, b: Any) -> Any:
        if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
            return tuple(map(meant, a, b))
        if a == b:
            return a
        found = meanings.get((a, b), set())
        if len(found) != 1:
            raise UnfitError
        return found.pop()

    if type(now) is not type(before):
        raise UnfitError
    other = before.attributes()
    return now.replace(**{k: meant(v, other[k]) for k, v in now.attributes().items()})
