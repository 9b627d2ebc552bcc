"""What an op declares: samples, documentation, ONNX rule, errors."""

from __future__ import annotations

import re

from ..errors import GradwrightError
from ..graph import Graph
from ..graph.expand import stand_in
from ..op import Op
from .common import need, samples


def check_documented(cls: type[Op]) -> None:
    """The docstring is a sentence with a full stop, then a formula; attributes are documented."""
    lines = (cls.__dict__.get("__doc__") or "").strip().splitlines()
    need(bool(lines), "write a docstring: what it computes, then its formula")
    first, _, rest = "\n".join(lines).partition("\n\n")
    need(
        first.rstrip().endswith("."),
        f"the docstring must begin with a sentence and a full stop: {first!r}",
    )
    need(bool(rest.strip()), "add the formula to the docstring, after an empty line")
    for name, declared in cls.attrs.items():
        need(bool(declared.doc.strip()), f"document the attribute {name}")
        need(bool(declared.type), f"annotate the attribute {name} with its type")


def check_onnx(cls: type[Op]) -> None:
    """The ONNX rule names an operator, a real opset, and attributes that exist."""
    rule = cls.onnx
    if rule is None:
        return
    need(
        re.fullmatch(r"[A-Z][A-Za-z0-9]*", rule.op_type) is not None,
        f"onnx: {rule.op_type!r} is not an ONNX operator name",
    )
    need(1 <= rule.since <= 28, f"onnx: opset {rule.since} does not exist")
    unknown = sorted({*rule.rename, *rule.inputs} - set(cls.attrs))
    need(not unknown, f"onnx: the rule speaks of unknown attributes {unknown}")


def check_errors(cls: type[Op]) -> None:
    """What must be refused is refused, with a message that says what was promised."""
    for number, bad in enumerate(cls.error_samples()):
        graph = Graph(cls.name, scratch=True)
        ins = [None if s is None else stand_in(graph, f"x{i}", s) for i, s in enumerate(bad.inputs)]
        try:
            with graph:
                cls(**bad.attrs)(*ins)
        except GradwrightError as error:
            need(
                bad.match in str(error),
                f"error sample {number}: the message lacks {bad.match!r}: {error}",
            )
        else:
            need(False, f"error sample {number} is not refused: raise in infer")


def check_sampled(cls: type[Op]) -> None:
    """There are samples, and each names an op that equals itself made again."""
    found = samples(cls)
    need(bool(found), "yield at least one sample")
    for number, sample in enumerate(found):
        op, again = cls(**sample.attrs), cls(**sample.attrs)
        need(op == again and hash(op) == hash(again), f"sample {number}: equal attrs, unequal op")
