"""An ONNX graph in the making: nodes, stored tensors and names."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ...op import Op
from ...spec import AnyDim, Dim, TensorSpec, kind, promote_all
from ...spec.containers import ANY, ContainerSpec, OptionalSpec, SequenceSpec
from ...spec.one_of import OneOf
from ...spec.rounding import rounded
from .dtypes import element_type
from .model import names_read
from .versions import CannotExport, spelled_in

if TYPE_CHECKING:
    from onnx import GraphProto, NodeProto, TensorProto, TypeProto, ValueInfoProto

Array = np.ndarray[Any, Any]


class Output:
    """Collects what becomes a graph; sub-graphs share names and stored tensors with outer ones."""

    def __init__(self, opset: int, outer: Output | None = None) -> None:
        self.opset, self.outer = opset, outer
        self.nodes: list[NodeProto] = []
        self.root: Output = self if outer is None else outer.root
        self.homes: dict[str, str] = {}
        """Node -> the scope, or the call, that it stands in."""
        self.scope = ""
        self.domains: set[str] = set()
        self.stored: dict[str, Array] = {}
        self.missing: collections.Counter[str] = collections.Counter()
        self.opened: set[str] = set()
        """Names of nodes that are written as what they are made of."""
        self._opening: list[str] = []
        self.symbols: dict[str, tuple[str, int]] = {} if outer is None else dict(outer.symbols)
        """Symbol -> a tensor and its axis that have this size."""
        self._taken: set[str] = set()
        self._constants: dict[Any, str] = {}
        self._numbers: dict[str, Iterator[int]] = {}

    @contextlib.contextmanager
    def within(self, scope: str) -> Iterator[None]:
        """Let nodes stand in a scope that are written in the block."""
        held, self.scope = self.scope, scope
        try:
            yield
        finally:
            self.scope = held

    @contextlib.contextmanager
    def opens(self, op: str, name: str) -> Iterator[None]:
        """Write an op as what it is made of in the block; CannotExport where that is itself."""
        stack = self.root._opening
        if stack.count(op) > 2:  # one that is made of itself in another form or dtype is not
            raise CannotExport
        self.root.opened.add(name)
        stack.append(op)
        try:
            yield
        finally:
            stack.pop()

    def fresh(self, base: str) -> str:
        """Return ``base``, or ``base_1`` and so on: the first name that is free."""
        root = self.root
        if base not in root._taken:
            root._taken.add(base)
            return base
        numbers = root._numbers.setdefault(base, itertools.count(1))
        name = next(n for i in numbers if (n := f"{base}_{i}") not in root._taken)
        root._taken.add(name)
        return name

    def store(self, array: Array, base: str) -> str:
        """Store a tensor under a free name."""
        name = self.fresh(base)
        if array.dtype.kind == "c":
            array = np.stack([array.real, array.imag], -1)
        self.root.stored[name] = array
        return name

    def constant(self, value: Any, dtype: Any = None) -> str:
        """Return the name of a small constant; equal ones are stored once."""
        array = np.asarray(value, dtype)
        key = str(array.dtype), array.shape, array.tobytes()
        held = self.root._constants.get(key)
        if held is None:
            held = self.root._constants[key] = self.store(array, "constant")
        return held

    def ints(self, values: Sequence[int]) -> str:
        """Return the name of a vector of int64."""
        return self.constant(np.array(values, np.int64).reshape(-1))

    def add(
        self,
        op_type: str,
        xs: Sequence[str],
        n: int = 1,
        base: str = "",
        domain: str = "",
        **attrs: Any,
    ) -> list[str]:
        """Add a node and return the names of its outputs."""
        from onnx import helper

        base = base or op_type.lower()
        xs, attrs = spelled_in(self.opset, domain, op_type, xs, attrs, self.root.stored.get)
        outs = [self.fresh(base if i == 0 else f"{base}:{i}") for i in range(n)]
        inputs = list(xs)
        while inputs and not inputs[-1]:
            inputs.pop()
        kept = {k: v for k, v in attrs.items() if v is not None}
        node = helper.make_node(
            op_type, inputs, outs, name=outs[0] if outs else base, domain=domain, **kept
        )
        self.nodes.append(node)
        self.homes[node.name] = self.scope
        self.root.domains.add(domain)
        return outs

    def see(self, name: str, spec: TensorSpec) -> None:
        """Remember which tensors have sizes that are symbols."""
        if isinstance(spec, OneOf):
            return
        for axis, d in enumerate(spec.shape):
            if isinstance(d, Dim) and str(d).isidentifier():
                self.symbols.setdefault(str(d), (name, axis))

    # -- shapes ----------------------------------------------------------------------------------

    def shape(self, dims: Sequence[AnyDim]) -> str:
        """Return the name of a shape, computed where sizes are symbols."""
        if all(isinstance(d, int) for d in dims):
            return self.ints([int(d) for d in dims])
        return self.add("Concat", [self.dim(d) for d in dims], base="shape", axis=0)[0]

    def dim(self, d: AnyDim) -> str:
        """Return the name of a vector of one size."""
        if not isinstance(d, Dim):
            return self.ints([int(d)])
        total = ""
        for monomial, coefficient in d.terms:
            term = self.ints([coefficient]) if coefficient != 1 or not monomial else ""
            for atom, power in monomial:
                for _ in range(power):
                    size = self._atom(atom)
                    term = size if not term else self.add("Mul", [term, size], base="size")[0]
            total = term if not total else self.add("Add", [total, term], base="size")[0]
        return total

    def _atom(self, atom: Any) -> str:
        if isinstance(atom, str):
            if atom not in self.symbols:
                raise CannotExport(f"no tensor has the size {atom}")
            name, axis = self.symbols[atom]
            if self.opset >= 15:
                return self.add("Shape", [name], base="size", start=axis, end=axis + 1)[0]
            shape = self.add("Shape", [name], base="size")
            return self.add("Gather", [*shape, self.ints([axis])], base="size")[0]
        function, *parts = atom
        sizes = [self.dim(d) for d in parts]
        if function == "//":
            return self.add("Div", sizes, base="size")[0]
        if function == "max":
            return self.add("Max", [*sizes, self.ints([0])], base="size")[0]
        found = sizes[0]
        for size in sizes[1:]:
            one = self.add("Equal", [found, self.ints([1])], base="is_one")[0]
            found = self.add("Where", [one, size, found], base="size")[0]
        return found

    # -- the whole -------------------------------------------------------------------------------

    @property
    def constants(self) -> dict[str, Array]:
        """Small arrays that nodes share, by name."""
        return {name: self.root.stored[name] for name in self.root._constants.values()}

    def live(self, outputs: Iterable[str]) -> tuple[list[NodeProto], set[str]]:
        """Return the nodes that outputs depend on, and all names that are read."""
        read, nodes = set(outputs), []
        for node in reversed(self.nodes):
            if not read.isdisjoint(node.output):
                read.update(names_read(node))
                nodes.append(node)
        return nodes[::-1], read

    def graph(
        self,
        name: str,
        inputs: Sequence[tuple[str, TensorSpec]],
        outputs: Sequence[tuple[str, TensorSpec]],
        stored: Sequence[TensorProto] = (),
    ) -> GraphProto:
        """Return the graph of what its outputs need; ``stored`` are the tensors that it holds."""
        from onnx import helper

        return helper.make_graph(
            self.live(name for name, _ in outputs)[0],
            name,
            [value_info(*i) for i in inputs],
            [value_info(*o) for o in outputs],
            stored,
        )


@dataclass
class Call:
    """One op to be written: its inputs by name and spec, and the specs of what it gives."""

    out: Output
    op: Op
    xs: list[str]
    specs: list[TensorSpec | None]
    results: list[TensorSpec]
    name: str
    wanted: list[bool]
    """Which results something reads."""

    def __getattr__(self, key: str) -> Any:
        """Return an attribute of the op."""
        return getattr(self.op, key)

    @property
    def x(self) -> TensorSpec:
        """Spec of the first input."""
        assert self.specs[0] is not None
        return self.specs[0]

    @property
    def y(self) -> TensorSpec:
        """Spec of the first output."""
        return self.results[0]

    def on(self, specs: list[TensorSpec | None], results: list[TensorSpec]) -> Call:
        """Return the call with inputs and outputs of other specs."""
        return dataclasses.replace(self, specs=specs, results=results)

    def with_op(self, op: Op) -> Call:
        """Return the call with another op in place of its own."""
        return dataclasses.replace(self, op=op)

    def add(self, op_type: str, *xs: str, **attrs: Any) -> str:
        """Add a node of one output and return its name."""
        return self.out.add(op_type, xs, base=f"{self.name}/{op_type.lower()}", **attrs)[0]

    def cast(self, x: str, source: np.dtype[Any], target: np.dtype[Any]) -> str:
        """Return ``x`` in another dtype."""
        return x if source == target else self.add("Cast", x, to=element_type(target))

    def joined(self, first: int = 0, until: int | None = None) -> list[str]:
        """Return some of the inputs in their common dtype, in which ONNX wants them."""
        some = slice(first, until)
        joint = promote_all(*(s for s in self.specs[some] if s is not None))
        return [
            self.cast(x, s.dtype, joint) if s is not None else x
            for x, s in zip(self.xs[some], self.specs[some], strict=True)
        ]

    def number(self, value: Any) -> str:
        """Return a 0-d constant of the first input's dtype."""
        return self.out.constant(rounded(value, self.x.dtype))


def to_tensor(array: Array, name: str) -> TensorProto:
    """Return an array as a stored tensor."""
    from onnx import numpy_helper

    if array.dtype.kind in "TOU":
        return numpy_helper.from_array(array.astype(object), name)
    return numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)


def to_tensors(stored: Mapping[str, Array]) -> list[TensorProto]:
    """Return arrays by name as stored tensors."""
    return [to_tensor(array, name) for name, array in stored.items()]


def as_pairs(spec: TensorSpec) -> TensorSpec:
    """Return the spec of the real tensor that a complex one is written as."""
    if isinstance(spec, ContainerSpec) or kind(spec.dtype) != "c":
        return spec
    return TensorSpec((*spec.shape, 2), f"float{spec.dtype.itemsize * 4}")


def value_info(name: str, spec: TensorSpec) -> ValueInfoProto:
    """Return the declaration of an input or output."""
    from onnx import helper

    pairs = as_pairs(spec)
    doc = "" if pairs is spec else f"{spec.dtype}, as pairs of numbers on the last axis"
    return helper.make_value_info(name, type_of(pairs), doc)


def type_of(spec: TensorSpec) -> TypeProto:
    """Return the type of a tensor, a sequence or an optional."""
    from onnx import helper

    if isinstance(spec, OptionalSpec):
        return helper.make_optional_type_proto(type_of(spec.element))
    if isinstance(spec, SequenceSpec):
        dims = None if spec.item_shape is None else [_size(d) for d in spec.item_shape]
        item = helper.make_tensor_type_proto(element_type(spec.item_dtype), dims)
        return helper.make_sequence_type_proto(item)
    if isinstance(spec, OneOf):
        return helper.make_tensor_type_proto(element_type(spec.dtype), None)
    dims = [_size(d) for d in spec.shape]
    return helper.make_tensor_type_proto(element_type(spec.dtype), dims)


def _size(d: AnyDim) -> int | str | None:
    """Return a size, what it is in symbols, or None where it differs between items."""
    return d if isinstance(d, int) else None if d == ANY else re.sub(r"\s", "", str(d))
