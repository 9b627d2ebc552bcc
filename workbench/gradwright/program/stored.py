"""Stored: programs as bytes, and back, beside the graph that they are of.

Nothing of the graph is written: a tensor and a node are their numbers in it, and so is an op that a
node holds. What rewrites have made is written out, ops by name and attributes. A program that came
of another one, as kernels come of instructions, is written as what it has beyond that one.

    length of the text, text (JSON), and the elements of constants, each from a multiple of 64
"""

from __future__ import annotations

import enum
import json
import math
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ..graph import Node, Tensor
from ..op import OPS, Op
from ..op.registry import find_op
from ..spec import TensorSpec, dtype, dtype_name
from .memory import ALIGN
from .program import Instr, Program

Array = np.ndarray[Any, Any]
MOST = 8 << 20
"""Bytes of constants up to which a program is written: to read more takes longer than to fold."""
_LENGTH = struct.Struct("<Q")


class NotStorableError(Exception):
    """A program holds what cannot be written; the text says what."""


class Parts:
    """How an op that is not in the registry is written and read: its name there, and two functions.

    ``write(op, to)`` returns tuples of what JSON takes, ``read(data, at)`` the op of lists.
    """

    by_type: ClassVar[dict[type[Op], tuple[str, Callable[[Any, Writer], Any]]]] = {}
    by_name: ClassVar[dict[str, Callable[[Any, Reader], Op]]] = {}

    @classmethod
    def add(
        cls,
        kind: type[Op],
        write: Callable[[Any, Writer], Any],
        read: Callable[[Any, Reader], Op],
    ) -> None:
        """Have ops of a class written and read by these."""
        cls.by_type[kind] = kind.__name__, write
        cls.by_name[kind.__name__] = read


class Places:
    """Tensors and nodes of a request by number: what is fed first, then node by node."""

    def __init__(
        self,
        feeds: Sequence[Tensor],
        order: Sequence[Node],
        training: bool,
        sizes: Mapping[str, int],
    ) -> None:
        self.tensors = [*feeds, *(t for node in order for t in node.outputs)]
        self.nodes = [*order, *(t.node for t in feeds)]
        self._training, self._sizes = training, sizes

    def op(self, number: int) -> Op:
        """Return the op of a node as plans have it."""
        return self.nodes[number].op.for_mode(self._training).bind(self._sizes)


class Writer:
    """Writes one program; ``base`` is one that it came of, and that is there when it is read."""

    def __init__(self, places: Places, program: Program, base: Program | None = None) -> None:
        self._places, self._program, self._base = places, program, base
        self._tensors = {t: n for n, t in enumerate(places.tensors)}
        self._nodes = {node: n for n, node in enumerate(places.nodes)}
        self._held: list[Array] = []
        self._alive: list[Any] = []
        self._size = 0
        self._lists: dict[str, list[Any]] = {"ops": [], "specs": [], "shared": [], "paths": []}
        self._found: dict[Any, int] = {}
        self._node: list[Node] = []

    def bytes(self, extra: Any = None) -> bytes:
        """Return the program, and ``extra``, which is JSON; raises NotStorableError."""
        program, base = self._program, self._base
        same = {} if base is None else {id(i): n for n, i in enumerate(base.instrs)}
        first = 0 if base is None else len(base.specs)
        known = {} if base is None else base.constants
        text = {
            "instrs": [
                n if (n := same.get(id(i))) is not None else self._instr(i) for i in program.instrs
            ],
            "of": [self.spec(s) for s in program.specs[first:]],
            "constants": [
                [number, self._constant(a)]
                for number, a in program.constants.items()
                if known.get(number) is not a
            ],
            "sources": [[n, self._tensor(t)] for n, t in program.sources.items()],
            "numbers": [[self._tensor(t), n] for t, n in program.numbers.items()],
            "outputs": [self._tensor(t) for t in program.outputs],
            "body": program.n_body,
            "cuts": program.cuts,
            "extra": extra,
            **self._lists,
        }
        head = json.dumps(text, separators=(",", ":")).encode()
        start = _LENGTH.size + len(head)
        parts = [_LENGTH.pack(len(head)), head, bytes(-start % ALIGN)]
        for array in self._held:
            data = array.tobytes()
            parts += [data, bytes(-len(data) % ALIGN)]
        return b"".join(parts)

    def once(self, part: Any, write: Callable[[Any], Any]) -> int:
        """Return the number of a part that several ops share, which is written once."""
        key = "object", id(part)  # to hash a kernel takes as long as to write it
        if key not in self._found:
            self._alive.append(part)
            self._found[key] = self._entry("shared", part, lambda: write(part))
        return self._found[key]

    def spec(self, spec: TensorSpec) -> int:
        """Return the number of a spec."""
        value = None
        if spec.value is not None:
            held = np.asarray(spec.value)
            value = held.dtype.str, *held.ravel().tolist()
        return self._entry("specs", (spec.shape, spec.dtype, value), lambda: _of_spec(spec, value))

    def op(self, op: Op) -> int:
        """Return the number of an op."""
        part = Parts.by_type.get(type(op))
        if part is None:
            return self._entry("ops", op, lambda: self._op(op))
        name, write = part
        data = write(op, self)
        return self._entry("ops", (name, data), lambda: [name, data, "part"])

    def _entry(self, kind: str, what: Any, write: Callable[[], Any]) -> int:
        key = kind, what
        number = self._found.get(key)
        if number is None:
            data = write()
            number = self._found[key] = len(self._lists[kind])
            self._lists[kind].append(data)
        return number

    def _op(self, op: Op) -> Any:
        cls = type(op)
        if OPS.get(cls.name) is not cls or not is_ours(cls):
            raise NotStorableError(f"the op {cls.name!r} is not one of gradwright's own")
        try:
            return [cls.name, {k: _attribute(v, self) for k, v in op.attributes().items()}]
        except NotStorableError:
            for node in self._node:
                number = self._nodes.get(node)
                if number is not None and self._places.op(number) == op:
                    return number
            raise

    def _instr(self, instr: Instr) -> Any:
        self._node = list(instr.origins)
        try:
            origins = [self._nodes[node] for node in instr.origins]
        except KeyError as error:
            raise NotStorableError("a step serves a node that the request does not have") from error
        name, path = instr.origin.name, instr.path
        inner = path[len(name) :] if path.startswith(name) else None
        where = self._entry("paths", (inner, path if inner is None else ""), lambda: [inner, path])
        made = [self.op(instr.op), instr.ins, instr.outs, where, origins]
        return [*made, instr.recompute] if instr.recompute else made

    def _tensor(self, t: Tensor) -> int:
        number = self._tensors.get(t)
        if number is None:
            raise NotStorableError(f"{t.name!r} is not of the request")
        return number

    def _constant(self, array: Array) -> Any:
        """Return where the elements of a constant are, or that they are a node's."""
        if array.dtype.hasobject or array.dtype.kind == "T":
            raise NotStorableError("a constant holds text or other objects")
        shown = array[tuple([slice(0, 1) if not step else slice(None) for step in array.strides])]
        if sum(_span(shown.shape, shown.strides, shown.itemsize)) > MOST:
            raise NotStorableError(f"a constant takes more than {MOST >> 20} MB")
        key = "constant", id(array)
        at = self._found.get(key)
        if at is None:
            at = self._found[key] = self._size
            self._held.append(shown)
            self._size += -(-shown.nbytes // ALIGN) * ALIGN
        if self._size > MOST:
            raise NotStorableError(f"its constants take more than {MOST >> 20} MB")
        return [dtype_name(array.dtype), array.shape, shown.shape, shown.strides, at]


class Reader:
    """Reads a program for a request whose content is the same as of the one it was written for."""

    def __init__(self, places: Places, data: bytes) -> None:
        self._places = places
        (length,) = _LENGTH.unpack_from(data)
        start = _LENGTH.size + length
        self._text = json.loads(data[_LENGTH.size : start])
        self._data = memoryview(data)[start + -start % ALIGN :]
        self._shared: dict[int, Any] = {}
        self.extra = self._text["extra"]
        """What was written beside the program."""

    def program(self, empty: Program, base: Program | None = None) -> Program:
        """Return the program; ``empty`` has what is not written, ``base`` is as in `Writer`."""
        text, tensors = self._text, self._places.tensors
        program, nodes, places = empty, self._places.nodes, text["paths"]
        self.specs = list(map(_spec, text["specs"]))
        specs = self.specs
        before: list[Instr] = [] if base is None else base.instrs
        program.specs = [*([] if base is None else base.specs), *(specs[n] for n in text["of"])]
        ops = self._ops = list[Op]()
        for data in text["ops"]:
            ops.append(self._op(data))
        program.instrs = instrs = []
        for row in text["instrs"]:
            if type(row) is int:
                instrs.append(before[row])
                continue
            op, ins, outs, where, served, *recompute = row
            origins = tuple([nodes[n] for n in served])
            inner, path = places[where]
            instrs.append(
                Instr(
                    ops[op], tuple(ins), tuple(outs), origins[0],
                    path if inner is None else origins[0].name + inner,
                    origins=origins, recompute=recompute[0] if recompute else 0,
                )
            )  # fmt: skip
        made: dict[Any, Array] = {}
        program.constants = {} if base is None else dict(base.constants)
        for number, data in text["constants"]:
            program.constants[number] = self._constant(data, made)
        program.sources = {n: tensors[t] for n, t in text["sources"]}
        program.numbers = {tensors[t]: n for t, n in text["numbers"]}
        program.outputs = [tensors[t] for t in text["outputs"]]
        program.n_body, program.cuts = text["body"], text["cuts"]
        return program

    def shared(self, number: int, read: Callable[[Any], Any]) -> Any:
        """Return a part that several ops share."""
        if number not in self._shared:
            self._shared[number] = read(self._text["shared"][number])
        return self._shared[number]

    def attributes(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the attributes of an op."""
        return {k: _restored(v, self) for k, v in data.items()}

    def op(self, number: int) -> Op:
        """Return an op that another one has as an attribute."""
        return self._ops[number]

    def _op(self, data: Any) -> Op:
        if type(data) is int:
            return self._places.op(data)
        name, attributes, *special = data
        if special:
            return Parts.by_name[name](attributes, self)
        return find_op(name)(**self.attributes(attributes))

    def _constant(self, data: Any, made: dict[Any, Array]) -> Array:
        name, shape, shown, strides, at = data
        key = at, tuple(shape), name
        if key not in made:
            kind = dtype(name)
            raw = np.frombuffer(self._data, np.uint8, math.prod(shown) * kind.itemsize, at)
            before, after = _span(shown, strides, kind.itemsize)
            # How elements lie decides which loops run over them, and so the last bits.
            array = np.ndarray(shown, kind, np.zeros(before + after, np.uint8), before, strides)
            array[...] = raw.view(kind).reshape(shown)
            made[key] = array if shown == shape else np.broadcast_to(array, shape)
        return made[key]


def _span(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> tuple[int, int]:
    """Return how many bytes of an array lie before its first element, and from there on."""
    if not math.prod(shape):
        return 0, itemsize
    ways = [step * (n - 1) for n, step in zip(shape, strides, strict=True)]
    return -sum(way for way in ways if way < 0), sum(way for way in ways if way > 0) + itemsize


def is_ours(cls: type[Op]) -> bool:
    """Tell whether the class of an op comes with gradwright."""
    return cls.__module__.partition(".")[0] == "gradwright"


def _of_spec(spec: TensorSpec, value: Any) -> Any:
    if type(spec) is not TensorSpec or not spec.is_concrete or spec.by_reference:
        raise NotStorableError(f"a step makes {spec}")
    if value is not None and not all(type(n) in (int, float, bool) for n in value[1:]):
        raise NotStorableError(f"the value of {spec} has more in it than numbers")
    return [dtype_name(spec.dtype), spec.shape, value]


def _spec(data: Any) -> TensorSpec:
    name, shape, value = data
    known = None if value is None else np.array(value[1:], value[0]).reshape(shape)
    return TensorSpec(shape, dtype(name), known)


def _attribute(value: Any, to: Writer) -> Any:
    """Return an attribute as JSON: lists are tuples, and what is no number or text has a tag."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is tuple:
        return [_attribute(v, to) for v in value]
    if isinstance(value, np.dtype):
        return {"dtype": dtype_name(value)}
    if isinstance(value, Op):
        return {"op": to.op(value)}
    what = value.name if isinstance(value, enum.Enum) else type(value).__name__
    raise NotStorableError(f"an op holds a {what}")


def _restored(data: Any, at: Reader) -> Any:
    if type(data) is list:
        return tuple([_restored(v, at) for v in data])
    if type(data) is dict:
        return dtype(data["dtype"]) if "dtype" in data else at.op(data["op"])
    return data
