"""Checkpoints: the backward pass computes activations again instead of keeping all of them.

Chen et al., Training deep nets with sublinear memory cost (arXiv 1604.06174), on programs: of the
forward pass some values are kept, and what else the backward pass reads is made again from them,
by copies of the same instructions right before the first use. Equal ops on equal inputs, with the
same random streams, give equal bits.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from ..errors import GraphError
from ..graph import Node, Source
from ..ops.updates.boundary import Boundary
from ..program.program import Instr, Program

Policy = str | int | tuple[str, ...] | None
TINY = 256
"""A value this many times smaller than the largest activation is kept whatever the policy."""
BUDGETS = 24
"""How many sizes of a segment are tried for ``"sqrt"``, each 1.25 times the one before."""


def checkpoint(program: Program, policy: Policy) -> int:
    """Let a program that holds a gradient keep few activations; returns how many ops run again.

    ``"sqrt"`` cuts the forward pass where the kept values and one segment's activations are
    together smallest: for n equal layers at about every √n-th, with 2·√n instead of n alive.
    An int n keeps what flows on after every n-th layer. Names are patterns of nodes, or of scopes
    whose results are kept. The segment before the loss is not computed again: it is still there.

    Raises GraphError for another policy, and for patterns that no forward node fits.
    """
    if policy is None:
        return 0
    forward = _Forward(program)
    if not forward.saved:
        return 0
    if policy == "sqrt":
        cuts = forward.smallest()
    elif isinstance(policy, int) and not isinstance(policy, bool) and policy > 0:
        cuts = forward.layers()[policy - 1 :: policy]
    elif isinstance(policy, tuple) and policy and all(isinstance(p, str) for p in policy):
        return _recompute(program, forward, forward.named(policy), [])
    else:
        raise GraphError(
            f"checkpoint={policy!r} is not known",
            need='"sqrt", a number of layers, or patterns of names',
            hint='checkpoint=("block_*",)',
        )
    kept = {v for cut in cuts for v in forward.crossing(cut)}
    last = cuts[-1] if cuts else -1
    kept.update(v for v, n in forward.maker.items() if n > last)
    return _recompute(program, forward, kept, cuts)


class _Forward:
    """The forward part of a program: its instructions, and what the backward pass reads of it.

    A cut ``n`` lies behind the n-th forward instruction. Views count as the buffer they lie in.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.instrs = [i for i in program.instrs if is_forward(i)]
        self.all = set(self.instrs)
        self.maker = {o: n for n, instr in enumerate(self.instrs) for o in instr.outs}
        self.roots = list(range(len(program.specs)))
        for instr in self.instrs:
            if instr.op.views and instr.ins[0] is not None:
                for o in instr.outs:
                    self.roots[o] = self.roots[instr.ins[0]]
        read = {
            self.roots[i]
            for instr in program.instrs
            if instr not in self.all
            for i in instr.ins
            if i in self.maker and self.roots[i] in self.maker
        }
        leaving = {self.roots[program.numbers[t]] for t in program.outputs}
        self.fixed = {v for v in self.maker if v in leaving or not program.specs[v].is_concrete}
        """What is kept in any case: results, and sizes that only a run tells."""
        sizes = {v: program.specs[v].nbytes for v in read - self.fixed}
        least = max(sizes.values(), default=0) // TINY
        self.fixed |= {v for v, size in sizes.items() if size <= least}
        self.saved = {v: size for v, size in sizes.items() if size > least}
        """Bytes of the activations that the backward pass reads."""
        self.last = dict(self.maker)
        for n, instr in enumerate(self.instrs):
            for i in instr.ins:
                if i is not None and self.roots[i] in self.maker:
                    self.last[self.roots[i]] = n

    def crossing(self, cut: int) -> list[int]:
        """Return the values that what comes behind a cut reads from before it."""
        return [
            v
            for v, n in self.maker.items()
            if n <= cut < self.last[v] and self.roots[v] == v and v not in self.fixed
        ]

    def _widths(self) -> tuple[list[int], list[int]]:
        """Return for each cut how many values cross it, and their bytes."""
        count, size = [0] * (len(self.instrs) + 1), [0] * (len(self.instrs) + 1)
        for v, n in self.maker.items():
            if self.roots[v] == v and v not in self.fixed:
                nbytes = self.program.specs[v].nbytes
                for sums, change in ((count, 1), (size, nbytes)):
                    sums[n] += change
                    sums[self.last[v]] -= change
        for sums in (count, size):
            for n in range(1, len(sums)):
                sums[n] += sums[n - 1]
        return count[: len(self.instrs)], size[: len(self.instrs)]

    def smallest(self) -> list[int]:
        """Return the cuts for which kept values and one segment's activations are smallest."""
        _, widths = self._widths()
        made = [0] * len(self.instrs)
        for v, size in self.saved.items():
            made[self.maker[v]] += size
        total = sum(made)
        best: tuple[int, list[int]] = total, []
        budget = float(total)
        for _ in range(BUDGETS):
            budget /= 1.25
            cuts = _cuts(made, widths, budget)
            kept = sum(widths[c] for c in cuts)
            most = max(sum(made[a + 1 : b + 1]) for a, b in pairwise([-1, *cuts, len(made)]))
            best = min(best, (kept + most, cuts), key=lambda found: found[0])
        return best[1]

    def layers(self) -> list[int]:
        """Return the cuts between layers: where fewest values cross, with weights in between."""
        counts, _ = self._widths()
        middle = counts[len(counts) // 4 : len(counts) - len(counts) // 4] or counts
        narrow = [n for n, width in enumerate(counts) if 0 < width <= min(middle)]
        weights = {
            v for v, t in self.program.sources.items() if t.kind == "variable" and t.rank > 1
        }
        heavy = [any(i in weights for i in instr.ins) for instr in self.instrs]
        if not any(heavy):
            return narrow
        cuts: list[int] = []
        start = 0
        for n in narrow:  # a cut moves on until the next weight comes
            has = any(heavy[start : n + 1])
            if has or not cuts:
                start = n + 1
                if has:
                    cuts.append(n)
            else:
                cuts[-1] = n
                start = n + 1
        return cuts

    def named(self, patterns: Sequence[str]) -> set[int]:
        """Return what the nodes and scopes give that the patterns name."""
        kept: set[int] = set()
        inside: dict[str, set[int]] = {}
        for instr in self.instrs:
            name = _matching(instr.path, patterns)
            if name is not None:
                inside.setdefault(name, set()).update(instr.outs)
        if not inside:
            names = {p for instr in self.instrs for p in _prefixes(instr.path)}
            import difflib

            close = difflib.get_close_matches(patterns[0], names, 3)
            raise GraphError(
                f"checkpoint={tuple(patterns)!r} names no forward node of this plan",
                need="patterns of nodes or scopes",
                facts=[f"such as {', '.join(map(repr, close or sorted(names)[:3]))}"],
            )
        for name, values in inside.items():
            for instr in self.instrs:
                if _matching(instr.path, patterns) != name:
                    kept.update(i for i in instr.ins if i in values)
                elif name == instr.path:
                    kept.update(instr.outs)
        return {self.roots[v] for v in kept}


def is_forward(instr: Instr) -> bool:
    """Tell whether an instruction serves the user's part of the graph, not only a gradient."""
    return any(not node.derived or _is_copy(node) for node in instr.origins)


def _is_copy(node: Node) -> bool:
    """Tell whether a derived node does what a user's node does, on the values of another step."""
    origin = node.origin
    if origin is None or node.op is not origin.op or origin.derived:
        return False
    return all(
        a is None
        or b is None
        or a is b
        or a.node.origin is b.node
        or (isinstance(b.op, Source) and (isinstance(a.op, Source | Boundary)))
        for a, b in zip(node.inputs, origin.inputs, strict=True)
    )


def _cuts(made: Sequence[int], widths: Sequence[int], budget: float) -> list[int]:
    """Return cuts such that at most ``budget`` bytes lie between two, each at a narrow place."""
    cuts: list[int] = []
    since, best = 0, -1  # bytes since the last cut, and the narrowest place in their second half
    at = {-1: 0}
    for n, size in enumerate(made):
        if best >= 0 and since + size > budget:
            cuts.append(best)
            since, best = since - at[best], -1
            at = {-1: 0}
        since += size
        at[n] = since
        if since >= budget / 2 and (best < 0 or widths[n] <= widths[best]):
            best = n
    return cuts


def _prefixes(path: str) -> Iterator[str]:
    """Yield the scopes of a node and what it is inside of, outermost first, and its name."""
    for boundary in re.finditer("/|::|$", path):
        yield path[: boundary.start()]


def _matching(path: str, patterns: Sequence[str]) -> str | None:
    """Return the outermost scope of a node that a pattern fits, or its name."""
    for name in _prefixes(path):
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
            return name
    return None


def _recompute(program: Program, forward: _Forward, kept: set[int], cuts: Sequence[int]) -> int:
    """Make what the backward pass reads and nobody keeps again, right before it is read."""
    roots, maker = forward.roots, forward.maker
    copies: dict[int, int] = {}
    order: list[Instr] = []
    count = 0

    def is_there(value: int) -> bool:
        root = roots[value]
        return root not in maker or root in kept or root in forward.fixed or value in copies

    def replaced(instr: Instr, outs: tuple[int, ...], recompute: int) -> Instr:
        """Return the instruction on the values made again; those of other shapes share it."""
        ins = tuple(None if i is None else copies.get(i, i) for i in instr.ins)
        origins = instr.origins
        return Instr(
            instr.op, ins, outs, instr.origin, instr.path, origins=origins, recompute=recompute
        )

    def again(n: int) -> Instr:
        instr = forward.instrs[n]
        outs = tuple(program.new_value(program.specs[o]) for o in instr.outs)
        made = replaced(instr, outs, 1 + sum(cut < n for cut in cuts))
        copies.update(zip(instr.outs, outs, strict=True))
        return made

    for instr in program.instrs:
        if instr not in forward.all:
            needed = {maker[i] for i in instr.ins if i in maker and not is_there(i)}
            open_ = list(needed)
            while open_:
                for i in forward.instrs[open_.pop()].ins:
                    if i in maker and not is_there(i) and maker[i] not in needed:
                        needed.add(maker[i])
                        open_.append(maker[i])
            order += [again(n) for n in sorted(needed)]
            count += len(needed)
            if any(i in copies for i in instr.ins):
                instr = replaced(instr, instr.outs, instr.recompute)
        order.append(instr)
    program.instrs = order
    return count
