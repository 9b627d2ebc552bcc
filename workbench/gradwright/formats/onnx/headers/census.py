"""Looking through an ONNX model as it lies: its operators, its ends, and what to beware of."""

from __future__ import annotations

import collections
import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field

from ....errors import ArchiveError
from ....spec import TensorSpec
from ...report import Finding
from ..dtypes import ELEMENT_TYPES, from_element_type
from ..model import MAX_DEPTH, is_known, label, normal_domain
from .wire import Field

NODE, INPUT, OUTPUT = 1, 11, 12  # of GraphProto
FUNCTION_NAME, FUNCTION_NODE, FUNCTION_OPSET, FUNCTION_DOMAIN = 1, 7, 9, 10  # of FunctionProto
NODE_OUTPUT, NODE_NAME, OP_TYPE, ATTRIBUTE, DOMAIN = 2, 3, 4, 5, 7  # of NodeProto
SUBGRAPH, SUBGRAPHS = 6, 11  # of AttributeProto
TENSOR_TYPE, SEQUENCE_TYPE, MAP_TYPE, OPTIONAL_TYPE = 1, 4, 5, 9  # of TypeProto
DOMAINS = ("", "ai.onnx.ml", "ai.onnx.preview", "ai.onnx.preview.training", "com.microsoft")
"""Domains that are ONNX's own, or ONNX Runtime's."""
HUGE = 1 << 31
"""A size that no array of a model has in earnest."""
MAX_NAMES = 1000
"""Nodes of an unknown operator that are named at most."""

Key = tuple[str, str, int]
"""Domain, operator and version."""


@dataclass
class Census:
    """How often each operator occurs and where, which of them the model defines, and its ends."""

    counts: collections.Counter[Key] = field(default_factory=collections.Counter)
    nodes: dict[Key, list[str]] = field(default_factory=dict)
    opsets: dict[str, int] = field(default_factory=dict)
    functions: dict[tuple[str, str], set[tuple[str, str]]] = field(default_factory=dict)
    """Function of the model -> what it calls."""
    inputs: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    findings: dict[Finding, None] = field(default_factory=dict)

    def ops(self) -> dict[str, int]:
        """Return how often each operator occurs, the most frequent first."""
        total: collections.Counter[str] = collections.Counter()
        for (domain, op_type, _), n in self.counts.items():
            total[called(domain, op_type)] += n
        return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))

    def find(self, what: str, where: str = "", grave: bool = True) -> None:
        """Note what whoever opens the model should know."""
        self.findings[Finding(what, where, grave)] = None

    def text(self, proto: Field) -> str:
        """Return a name; one that is no text is noted."""
        try:
            return proto.text()
        except ArchiveError as error:
            self.find(error.problem)
            return ascii(proto.pages.take(proto.start, min(proto.size, 40)))

    # -- graphs ----------------------------------------------------------------------------------

    def graph(self, proto: Field, stored: Set[str]) -> None:
        """Look through the graph of the model, whose stored tensors have these names."""
        made: collections.Counter[str] = collections.Counter()
        for f in proto.fields():
            if f.number == INPUT:
                name, spec = self._end(f)
                made[name] += 1
                if name not in stored:  # before IR version 4, these are inputs, too
                    self.inputs[name] = spec
            elif f.number == OUTPUT:
                name, spec = self._end(f)
                self.outputs[name] = spec
        outputs: list[str] = []
        self._nodes(proto, NODE, self.opsets, "", 0, outputs, set())
        made.update(outputs)
        made.update(stored & set(outputs))
        for name, n in made.items():
            if n > 1:
                self.find(f"it is the name of {n} tensors", repr(name))

    def _nodes(
        self,
        proto: Field,
        number: int,
        versions: Mapping[str, int],
        inside: str,
        depth: int,
        made: list[str],
        calls: set[tuple[str, str]],
    ) -> None:
        """Count the nodes of a graph or function, and of the graphs inside."""
        if depth > MAX_DEPTH:
            raise ArchiveError(f"sub-graphs nest deeper than {MAX_DEPTH}")
        for node in proto.fields():
            if node.number != number:
                continue
            op_type = domain = name = ""
            outputs: list[str] = []
            graphs: list[Field] = []
            for f in node.fields():
                if f.number == OP_TYPE:
                    op_type = self.text(f)
                elif f.number == DOMAIN:
                    domain = normal_domain(self.text(f))
                elif f.number == NODE_NAME:
                    name = self.text(f)
                elif f.number == NODE_OUTPUT:
                    outputs.append(self.text(f))
                elif f.number == ATTRIBUTE:
                    graphs += [g for g in f.fields() if g.number in (SUBGRAPH, SUBGRAPHS)]
            made += filter(None, outputs)
            here = inside + label(name, op_type, outputs)
            key = domain, op_type, versions.get(domain, 0)
            self.counts[key] += 1
            if len(names := self.nodes.setdefault(key, [])) < MAX_NAMES:
                names.append(here)
            calls.add((domain, op_type))
            for graph in graphs:
                self._nodes(graph, NODE, versions, f"{here}/", depth + 1, [], calls)

    def _end(self, proto: Field) -> tuple[str, str]:
        """Return the name of an input or output, and its type as text."""
        name, spec = "", "?"
        for f in proto.fields():
            if f.number == 1:
                name = self.text(f)
            elif f.number == 2:
                spec = self._type(f, 0)
        if any(part.isdecimal() and int(part) >= HUGE for part in re.findall(r"\w+", spec)):
            self.find(f"its type is {spec}", repr(name))
        return name, spec

    def _type(self, proto: Field, depth: int) -> str:
        """Return a type as text: ``f32[batch, 3]``, ``seq(i64[])``, ``map(str, f32[])``."""
        if depth > MAX_DEPTH:
            raise ArchiveError(f"types nest deeper than {MAX_DEPTH}")
        for f in proto.fields():
            if f.number == TENSOR_TYPE:
                return self._tensor_type(f)
            if f.number in (SEQUENCE_TYPE, OPTIONAL_TYPE):
                outer = "seq" if f.number == SEQUENCE_TYPE else "opt"
                inner = [self._type(part, depth + 1) for part in f.fields() if part.number == 1]
                return f"{outer}({inner[0] if inner else '?'})"
            if f.number == MAP_TYPE:
                parts = list(f.fields())
                keys = [ELEMENT_TYPES.get(p.value, "?") for p in parts if p.number == 1]
                values = [self._type(p, depth + 1) for p in parts if p.number == 2]
                return f"map({', '.join(keys + values)})"
        return "?"

    def _tensor_type(self, proto: Field) -> str:
        number, dims = 0, None
        for f in proto.fields():
            if f.number == 1:
                number = f.value
            elif f.number == 2:
                dims = [self._dim(d) for d in f.fields() if d.number == 1]
        if number not in ELEMENT_TYPES:
            self.find(f"element type {number} is not known")
            return "?"
        short = str(TensorSpec((), from_element_type(number))).partition("[")[0]
        return f"{short}[{'...' if dims is None else ', '.join(dims)}]"

    def _dim(self, proto: Field) -> str:
        for f in proto.fields():
            if f.number == 1:
                size = next(f.ints(), 0)
                return str(size) if size >= 0 else "?"
            if f.number == 2:
                return self.text(f) or "?"
        return "?"

    # -- functions -------------------------------------------------------------------------------

    def define(self, proto: Field) -> None:
        """Look through a function of the model."""
        name = domain = ""
        versions: dict[str, int] = {}
        for f in proto.fields():
            if f.number == FUNCTION_NAME:
                name = self.text(f)
            elif f.number == FUNCTION_DOMAIN:
                domain = normal_domain(self.text(f))
            elif f.number == FUNCTION_OPSET:
                self.state(f, versions)
        calls = self.functions.setdefault((domain, name), set())
        self._nodes(proto, FUNCTION_NODE, versions or self.opsets, f"{name}/", 0, [], calls)

    def state(self, proto: Field, versions: dict[str, int] | None = None) -> None:
        """Take the version of a domain that the model or a function states."""
        domain, version = "", 0
        for f in proto.fields():
            if f.number == 1:
                domain = normal_domain(self.text(f))
            elif f.number == 2:
                version = f.value
        (self.opsets if versions is None else versions).setdefault(domain, version)

    def circles(self) -> Iterator[str]:
        """Yield functions that call themselves, over others or at once."""
        for start in self.functions:
            seen: set[tuple[str, str]] = set()
            stack = list(self.functions[start])
            while stack:
                called = stack.pop()
                if called == start:
                    yield start[1]
                    break
                if called in self.functions and called not in seen:
                    seen.add(called)
                    stack += self.functions[called]

    # -- what cannot run -------------------------------------------------------------------------

    def unknown(self) -> Iterator[tuple[Key, str]]:
        """Yield operators that nothing knows, and why."""
        for key in self.counts:
            domain, op_type, version = key
            if (domain, op_type) in self.functions:
                continue
            try:
                held = is_known(domain, op_type, version)
            except (ImportError, TypeError):  # no onnx package, or a version beyond 32 bits
                held = False
            if not held:
                yield key, f"of opset {version or 'not stated'} is not known"

    def conclude(self) -> None:
        """Note what the whole of it tells."""
        for name in self.circles():
            self.find("it calls itself", f"the function {name!r}")
        for domain in {key[0] for key in self.counts} - set(DOMAINS):
            own = sum(n for key, n in self.counts.items() if key[0] == domain)
            defined = [name for of, name in self.functions if of == domain]
            self.find(
                f"{own:,} nodes of a domain of its own"
                + (f", {len(defined)} functions of it in the model" if defined else ""),
                repr(domain),
                grave=False,
            )


def called(domain: str, op_type: str) -> str:
    """Return an operator with its domain."""
    return f"{domain}:{op_type}" if domain else op_type
