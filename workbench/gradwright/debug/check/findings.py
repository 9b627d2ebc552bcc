"""What a gradient check found, in words: mistakes, kinks, noise, or that all agrees."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .blame import NodeCheck

if TYPE_CHECKING:
    from .report import Report

_MOST = 3  # names in a sentence


@dataclass(frozen=True)
class Finding:
    """One sentence about a check.

    ``verdict`` is ``fail``, ``kink``, ``unclear``, ``surrogate``, ``stopped`` or ``ok``, and
    ``nodes`` are the addresses of what the sentence is about.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", init=[-1.0, 0.0, 2.0])
    >>> loss = gw.nn.relu(w).sum(name="loss")
    >>> for finding in gw.gradient_check(g, loss).findings:
    ...     print(finding.verdict, "-", finding.text)
    kink - 1 element sits on a kink (relu 'relu'): any value between the two slopes is right
    ok - All else agrees with finite differences; checked were 3 elements of 1 parameter, 2 ops
    """

    verdict: str
    text: str
    nodes: tuple[str, ...] = ()


def findings(report: Report) -> list[Finding]:
    """Return what a report says, the worst first."""
    found = [*_mistakes(report), *_kinks(report), *_unclear(report), *_surrogates(report)]
    if report.stopped:
        found.append(Finding("stopped", f"Stopped early, after {_extent(report)}"))
    elif report.outcome == "unclear":
        found.append(Finding("unclear", f"This proves nothing: {_some(report.doubts)}"))
    elif not any(f.verdict == "fail" for f in found):
        text = (
            f"All else agrees with finite differences; checked were {_extent(report)}"
            if found
            else f"All gradients agree with finite differences: {_extent(report)}"
        )
        found.append(Finding("ok", text + _still(report)))
    return found


def _still(report: Report) -> str:
    """Return whose gradient is right and 0: dead, or detached, and so nothing to train with."""
    names = [p.name for p in report.parameters.values() if p.checked and not p.analytic.any()]
    if not names:
        return ""
    return f"; the gradient of {_names(names)} is 0, and gw.explain_gradient says why"


def _mistakes(report: Report) -> Iterator[Finding]:
    for node in report.faults:
        yield Finding("fail", blamed(node), (str(node.address),))
    wrong = [p for p in report.parameters.values() if p.verdict == "fail"]
    failed = [p.name for p in wrong]
    if not failed:
        return
    if report.blame:
        verb = "inherits" if len(failed) == 1 else "inherit"
        text = f"{amount(len(failed), 'parameter')} {verb} the error: {_names(failed)}"
    elif any(np.isnan(p.analytic).any() for p in wrong):
        text = (
            f"The gradient of {_names(failed)} is not a number though every op's own vjp is right: "
            "an infinite slope meets a 0"
        )
    else:
        text = (
            f"The gradient of {_names(failed)} is wrong though every op's own vjp is right: "
            "the error is in how they are joined"
        )
    yield Finding("fail", text, tuple(failed))


def blamed(node: NodeCheck) -> str:
    """Return one sentence about a node at fault."""
    turns = f" {node.turns}" if node.turns else ""
    return f"{_named(node)} is wrong{turns}: {_why(node)}"


def _why(node: NodeCheck) -> str:
    """Say what is wrong with a vjp: the cause where it is known, else how far it is off."""
    parts = []
    for check in node.inputs:
        c = check.comparison
        if c.verdict == "fail":
            off = f"{c.analytic:.4g} instead of {c.numeric:.4g} along a random direction"
            parts.append(f"its vjp for {check.name} is {check.cause or off}")
    return " and ".join(parts)


def _kinks(report: Report) -> Iterator[Finding]:
    count = sum(p.count("kink") for p in report.parameters.values())
    ops = {n.name: n.op for n in report.nodes}
    at_kink = [n for n in report.nodes if n.verdict == "kink"]
    if count:
        troubles = (e for p in report.parameters.values() for e in p.troubles)
        names = dict.fromkeys(k for e in troubles if e.verdict == "kink" for k in e.kinks)
        known = list(names) or [n.name for n in at_kink]
        where = f" ({_names(known, ops)})" if known else ""
        verb = "sits" if count == 1 else "sit"
        text = (
            f"{amount(count, 'element')} {verb} on a kink{where}: "
            "any value between the two slopes is right"
        )
        yield Finding("kink", text, tuple(known))
    elif at_kink:
        names = dict.fromkeys(n.name for n in at_kink)
        verb = "is" if len(names) == 1 else "are"
        text = f"{_names(names, ops)} {verb} at a kink here; its vjp is one of the slopes"
        yield Finding("kink", text, tuple(names))


def _unclear(report: Report) -> Iterator[Finding]:
    """Yield what cannot be told: noise, lost digits, or an op with a value on one side only."""
    noisy: list[str] = []
    edge: list[str] = []
    excused: dict[str, list[str]] = {"cancelled": [], "veiled": []}
    for p in report.parameters.values():
        unclear = p.verdicts == _UNCLEAR
        open_ = int((unclear & np.isnan(p.numeric)).sum())
        for excuse, names in excused.items():
            names += [p.name] * sum(e.excuse == excuse for e in p.troubles)
        some = sum(bool(e.excuse) for e in p.troubles)
        edge += [p.name] * open_
        noisy += [p.name] * max(int(unclear.sum()) - open_ - some, 0)
    ops: tuple[dict[str, str], dict[str, str]] = ({}, {})
    for node in report.nodes:
        if node.verdict == "unclear":
            ops[_at_edge(node)][node.name] = node.op
    total = sum(p.checked for p in report.parameters.values())
    for elements, known, why in (
        (noisy, ops[0], "too noisy to tell"),
        (edge, ops[1], "at the edge of a domain, with a value on one side only"),
        (
            excused["cancelled"],
            {},
            "lost to cancellation: rounding alone moves the gradient as far as it is off",
        ),
        (
            excused["veiled"],
            {},
            "behind a declared gradient in a loop: differences of the loss say nothing of it",
        ),
    ):
        if elements or known:
            owners = list(dict.fromkeys(elements))
            many = f"{len(elements):,} of {amount(total, 'element')}" if total > 9 else ""
            counted = many or amount(len(elements), "element")
            parts = [f"{counted} of {_names(owners)}"] if owners else []
            parts += [_names(known, known)] if known else []
            verb = "is" if len(elements) + len(known) == 1 else "are"
            yield Finding("unclear", f"{' and '.join(parts)} {verb} {why}", (*owners, *known))


def _surrogates(report: Report) -> Iterator[Finding]:
    """Yield what has a declared gradient, and who gets a gradient through it."""
    ops = {n.name: n.op for n in report.nodes if n.verdict == "surrogate"}
    behind = [p.name for p in report.parameters.values() if p.surrogates]
    if not ops and not behind:
        return
    names = list(ops) or list(
        dict.fromkeys(n for p in report.parameters.values() for n in p.surrogates)
    )
    has, held = ("has", "is") if len(names) == 1 else ("have", "are")
    text = f"{_names(names, ops)} {has} a declared gradient instead of the derivative"
    text += f", and {held} held to it"
    if behind:
        text += f"; so {'is' if len(behind) == 1 else 'are'} {_names(behind)} behind"
    yield Finding("surrogate", text, (*names, *behind))


def _at_edge(node: NodeCheck) -> bool:
    return any(np.isnan(i.comparison.numeric) for i in node.inputs)


_UNCLEAR = 3  # its number in VERDICTS


def _extent(report: Report) -> str:
    checked = sum(p.checked for p in report.parameters.values())
    parts = [amount(len(report.nodes), "op")]
    if checked or not report.nodes:
        parameters = amount(len(report.parameters), "parameter")
        parts.insert(0, f"{amount(checked, 'element')} of {parameters}")
    return ", ".join(parts)


def _some(texts: Sequence[str]) -> str:
    more = len(texts) - _MOST
    return "; ".join(texts[:_MOST]) + (f"; and {more:,} more" if more > 0 else "")


def _named(node: NodeCheck) -> str:
    where = f" ({node.where})" if node.where else ""
    return f"{node.op} {str(node.address)!r}{where}"


def _names(names: Iterable[str], ops: dict[str, str] | None = None) -> str:
    listed: Sequence[str] = list(names)
    known = ops or {}
    shown = [f"{known[n]} {n!r}" if n in known else repr(n) for n in listed[:_MOST]]
    more = len(listed) - _MOST
    return ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")


def amount(n: int, noun: str) -> str:
    """Return a number of things in words: ``1 op``, ``2,000 ops``."""
    return f"{n:,} {noun}" + ("" if n == 1 else "s")
