"""The table of rewrites: each rule is one declaration, can be left out by name, and is verified.

Rules look at one instruction and what makes its inputs. The driver takes the program in order; what
a rule makes, and all that reads it, is looked at again, until nothing fires or the bound on changes
is reached. A dictionary from the kind of an instruction and of its inputs' makers to the rules that
may fire keeps that cheap: most instructions are asked nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import GradwrightError, GraphError
from ..op import Op
from ..program.log import lines
from ..program.program import Instr, Program
from ..spec import is_half
from ..words.spelling import meant
from .editor import Editor
from .terms import INNER, Binds, Call, Term
from .verify import Verifier

Array = np.ndarray[Any, Any]
Apply = Callable[[Editor, Instr], "int | Sequence[int] | None"]
"""Returns the values that replace the instruction's results, or None where a rule does not fit."""
Kind = tuple[type[Op], tuple[str, ...]]
"""Op of an instruction, and names of the ops that make its inputs."""
CHANGES = 8
"""Bound on the changes to a program, per instruction it had at first."""
RULES: dict[str, Rule] = {}
"""All rules by name, in the order in which they are tried."""


@dataclass(frozen=True)
class Rule:
    """One rewrite.

    ``doc`` says in a sentence what it does and why that is right; ``before`` and ``after`` are the
    formula. ``exact`` rules give the same bits, NaN, infinities and the sign of zero included;
    others a result that is as accurate or better, and differs by rounding, up to 2 units in the
    last place of the largest number met, or where the plain formula overflows or cancels; they
    leave halves alone, whose units are coarse.
    ``example(**inputs)`` builds the tensor on which it fires. ``lowers`` names composites that the
    device must run whole for the rule to fire.

    >>> from gradwright.rewrite import RULES
    >>> print(RULES["mul_one"])
    mul_one: x·1 → x. A product with 1 changes nothing.
    """

    name: str
    doc: str
    before: str
    after: str
    on: tuple[str, ...] | Callable[[type[Op]], bool]
    """Ops that it looks at, by name or by what their class declares."""
    apply: Apply
    example: Callable[..., Any]
    inputs: tuple[str, ...] = ()
    """Names of the inputs of the example."""
    needs: tuple[frozenset[str], ...] = ()
    """For each: one of the inputs' makers is among these (``"constant"`` for constants)."""
    exact: bool = True
    lowers: tuple[str, ...] = ()
    of_constants: bool = False
    """Whether it looks only at instructions whose inputs are all constants."""
    changes: bool = field(default=False, repr=False)
    """Whether it makes its changes itself, and returns () when it did."""

    def __str__(self) -> str:
        return f"{self.name}: {self.before} → {self.after}. {self.doc}"


def register(rule: Rule) -> Rule:
    """Add a rule to the table."""
    if rule.name in RULES:
        raise GraphError(f"there is a rewrite {rule.name!r} already")
    RULES[rule.name] = rule
    refresh()
    return rule


def formula(
    name: str,
    before: Term,
    after: Term,
    doc: str,
    *,
    when: Callable[[Editor, Binds], bool] | None = None,
    alone: bool = False,
    exact: bool = True,
    lowers: tuple[str, ...] = (),
    given: dict[str, Any] | None = None,
) -> Rule:
    """Declare a rule by the formulas themselves.

    ``when`` looks at what was matched; ``alone`` asks that nothing else needs the inner values;
    ``given`` names the inputs of the example (see ``rewrite.examples``), by default like theirs.
    """
    assert isinstance(before, Call)

    def apply(at: Editor, instr: Instr) -> int | None:
        for binds in before.match_instr(at, instr, {}):
            if (when is None or when(at, binds)) and (not alone or _is_closed(at, binds[INNER])):
                return after.build(at, binds)
        return None

    needs = tuple(k for a in before.args if (k := a.kinds()))
    stand_for = {name: (given or {}).get(name, name) for name in before.names()}

    def example(**inputs: Any) -> Any:
        return before.tensor({name: inputs[held] for name, held in stand_for.items()})

    on, inputs = (before.name,), tuple(stand_for.values())
    texts = str(before), str(after)
    return register(Rule(name, doc, *texts, on, apply, example, inputs, needs, exact, lowers))


def rule(
    name: str,
    on: str | Callable[[type[Op]], bool],
    before: str,
    after: str,
    *,
    example: Callable[..., Any],
    needs: Iterable[str] = (),
    exact: bool = True,
    lowers: tuple[str, ...] = (),
    of_constants: bool = False,
    changes: bool = False,
) -> Callable[[Apply], Apply]:
    """Declare a rule by a function on the editor and an instruction; its docstring is the rule's.

    ``on`` lists ops, or tells whether it looks at ops of a class; ``needs`` are makers of which at
    least one must make an input.
    """

    def declare(apply: Apply) -> Apply:
        doc = " ".join((apply.__doc__ or "").split())
        asked = (frozenset(needs),) if needs else ()
        names = tuple(on.split()) if isinstance(on, str) else on
        inputs = tuple(inspect.signature(example).parameters)
        rest = example, inputs, asked, exact, lowers, of_constants, changes
        register(Rule(name, doc, before, after, names, apply, *rest))
        return apply

    return declare


def rewrite(
    program: Program, skip: Collection[str] = (), verifier: Verifier | None = None
) -> Program:
    """Apply all rules but those skipped, in place; dead code goes in any case.

    With a verifier every change is checked against the plain instructions: a LoweringError names
    the rule that gives another spec or value.
    """
    global _index
    check_names(skip)
    index = _index
    if index is None:
        index = _index = _Index()
    log = program.log
    log.before = lines(program.instrs, program.specs)
    at = Editor(program)
    if "cse" not in skip:
        _share_constants(at)
    left = CHANGES * len(log.before) + 100
    while left and (instr := at.next()) is not None:
        found = _look(index, at, instr, skip)
        if found is None:
            continue
        left -= 1
        if verifier is not None and log.entries[-1].becomes:
            verifier.check(found, at, log.entries[-1])
    at.finish()
    if verifier is not None:
        verifier.check_outputs(program)
    log.after = lines(program.instrs, program.specs)
    return program


def verify_rewrites(
    program: Program, feeds: Mapping[int, Array] | None = None, skip: Collection[str] = ()
) -> Program:
    """Rewrite a program, checking every change on feeds (by number of value) or random ones.

    Raises LoweringError that names the rule whose result has another spec or other values.
    """
    return rewrite(program, skip, Verifier(program, feeds))


def check_names(skip: Collection[str]) -> None:
    """Refuse names that no rule has."""
    for name in skip:
        if name not in RULES:
            close = meant(name, RULES)
            raise GraphError(
                f"there is no rewrite {name!r}",
                need="names of gradwright.rewrite.RULES",
                hint=f"did you mean {close!r}?" if close else "",
            )


class _Index:
    """The rules by what they look at; made as a whole, so that no thread sees a part of it."""

    def __init__(self) -> None:
        rules = list(RULES.values())
        self._by_class = [r for r in rules if callable(r.on)]
        self._by_op: dict[str, list[Rule]] = {}
        for r in rules:
            for name in r.on if isinstance(r.on, tuple) else ():
                self._by_op.setdefault(name, []).append(r)
        self._by_kind: dict[Kind, list[Rule]] = {}

    def rules(self, kind: Kind) -> list[Rule]:
        """Return the rules that may fire on an instruction of some op and makers of inputs."""
        found = self._by_kind.get(kind)
        if found is None:
            if len(self._by_kind) > 4096:
                self._by_kind.clear()
            found = self._by_kind[kind] = self._fitting(*kind)
        return found

    def _fitting(self, op: type[Op], makers: tuple[str, ...]) -> list[Rule]:
        """Return them, those that look at no formula first."""
        made_by = frozenset(makers)
        found = [r for r in self._by_class if callable(r.on) and r.on(op)]
        return [
            r
            for r in found + self._by_op.get(op.name, [])
            if all(not made_by.isdisjoint(asked) for asked in r.needs)
            and (made_by <= {"constant"} or not r.of_constants)
        ]


_index: _Index | None = None


def refresh() -> None:
    """Have the table looked through again."""
    global _index
    _index = None


def _look(index: _Index, at: Editor, instr: Instr, skip: Collection[str]) -> Rule | None:
    """Apply the first rule that fits an instruction; returns it."""
    producers, constants = at.producers, at.constants
    made: Any
    makers = [
        made.op.name
        if (made := producers.get(i)) is not None
        else "constant"
        if i in constants
        else ""
        for i in instr.ins
        if i is not None
    ]
    at.begin(instr)
    # Each step in halves is rounded, and meant to be: another formula of it is another number.
    is_narrow = any(is_half(at.specs[o].dtype) for o in instr.outs)
    kind = type(instr.op), tuple(makers if len(makers) < 4 else sorted(set(makers)))
    for rule in index.rules(kind):
        if skip and rule.name in skip:
            continue
        if is_narrow and not rule.exact:
            continue
        if at.pending:  # made by a rule that did not fit after all
            at.begin(instr)
        try:
            values = rule.apply(at, instr)
        except GradwrightError:  # what it would make is refused, so it does not fit
            continue
        if values is None:
            continue
        if rule.changes or at.replace(rule.name, (values,) if isinstance(values, int) else values):
            return rule
    return None


def _is_closed(at: Editor, matched: Sequence[Instr]) -> bool:
    """Tell whether nothing outside needs what the instructions but the first make."""
    inside = set(matched)
    return all(
        o not in at.leaving and at.users[o].keys() <= inside
        for instr in inside
        if instr is not matched[0]
        for o in instr.outs
    )


def _share_constants(at: Editor) -> None:
    """Let equal constants be one value: small ones, and stand-ins of any size."""
    for number, array in list(at.constants.items()):
        if at.specs[number].by_reference:
            continue  # their bytes say where they lie
        is_uniform = not any(array.strides)  # one element in memory
        if array.nbytes > 64 and not is_uniform:
            continue
        content = array.flat[:1].tobytes() if is_uniform else array.tobytes()
        other = at.by_content.setdefault((array.dtype, array.shape, content), number)
        if other != number:
            at.merge_constant(number, other)
