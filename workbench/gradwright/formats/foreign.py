"""Other worlds: their nodes, and the tables of functions that make them ops, and ops them.

A world such as ONNX declares one :class:`Dialect`; a reader or a writer is a function under its
decorator, in a file of its family. What no function knows, ops may declare by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..errors import ArchiveError
from ..shared import first_use
from ..spec import TensorSpec

Outputs = Callable[..., Sequence[TensorSpec]]
Read = TypeVar("Read", bound=Callable[..., Any])
Write = TypeVar("Write", bound=Callable[..., Any])


@dataclass(frozen=True)
class Foreign:
    """One use of an operator of another world.

    ``attributes`` are plain values: tensors as arrays, strings as text. ``wanted`` says which
    outputs somebody reads.
    """

    op_type: str
    version: int
    attributes: Mapping[str, Any] = field(default_factory=dict)
    wanted: tuple[bool, ...] = (True,)
    domain: str = ""
    name: str = ""

    def __getitem__(self, key: str) -> Any:
        if key not in self.attributes:
            raise ArchiveError(f"{self.op_type} lacks its attribute {key!r}")
        return self.attributes[key]

    def get(self, key: str, default: Any = None) -> Any:
        """Return an attribute, or the default that the operator's specification states."""
        return self.attributes.get(key, default)

    def flag(self, key: str, default: bool = False) -> bool:
        """Return an attribute that is 0 or 1."""
        return bool(self.attributes.get(key, default))


@dataclass(frozen=True)
class Reader:
    """How an operator becomes ops from a version of its domain on.

    ``values`` are inputs that ``read`` is given as arrays, for they are attributes of our ops;
    where they are known only when run, ``outputs`` says what can be said before. So it does where
    sizes are open that decide a rank, which ``waits(node, *specs)`` tells.
    """

    read: Callable[..., Any]
    since: int
    values: tuple[int, ...] = ()
    outputs: Outputs | None = None
    takes_dims: bool = False
    waits: Callable[..., bool] | None = None


Readers = Mapping[tuple[str, str], Sequence[Reader]]
"""(domain, operator) -> readers, oldest version first."""


class Dialect:
    """What is known of a world: readers of its operators, writers of our ops.

    >>> dialect = Dialect()
    >>> @dialect.reads("Twice", since=2)
    ... def twice(node, x):
    ...     return x + x
    >>> reader = dialect.find(Foreign("Twice", version=3))
    >>> reader.read(None, 4), dialect.find(Foreign("Twice", version=1))
    (8, None)
    """

    def __init__(self) -> None:
        self.readers: dict[tuple[str, str], list[Reader]] = {}
        self.writers: dict[str, Callable[..., Any]] = {}
        self.openers: list[Callable[[], None]] = []
        """What enters readers, called before the first is looked for: there are many."""
        self._is_open = False
        self.declared: list[Callable[[], Readers]] = []
        """What returns readers that ops declare; a function goes before them."""

    def reads(
        self,
        *op_types: str,
        domain: str = "",
        since: int = 1,
        values: Sequence[int] = (),
        outputs: Outputs | None = None,
        takes_dims: bool = False,
        waits: Callable[..., bool] | None = None,
    ) -> Callable[[Read], Read]:
        """Enter a function ``(node, *inputs) -> tensor or tensors`` as reader of operators.

        It takes the place of one of the same version. ``outputs(node, *specs)`` returns the output
        specs as far as they are known without the values; by default like the first input, with
        sizes that are not known. With ``takes_dims`` the values may hold symbolic sizes. Where
        ``waits(node, *specs)`` holds, the node waits for a run to tell sizes.
        """

        def enter(read: Read) -> Read:
            made = Reader(read, since, tuple(values), outputs, takes_dims, waits)
            for op_type in op_types:
                others = [r for r in self.readers.get((domain, op_type), ()) if r.since != since]
                self.readers[domain, op_type] = sorted([*others, made], key=lambda r: r.since)
            return read

        return enter

    def writes(self, *ops: str) -> Callable[[Write], Write]:
        """Enter a function as what writes some ops."""

        def enter(write: Write) -> Write:
            self.writers.update(dict.fromkeys(ops, write))
            return write

        return enter

    def open(self) -> None:
        """Have all readers entered."""
        if not self._is_open:
            with first_use:
                for enter in self.openers:
                    enter()
            self._is_open = True

    def known(self) -> Readers:
        """Return all readers."""
        self.open()
        found: dict[tuple[str, str], Sequence[Reader]] = {}
        for declared in self.declared:
            found |= declared()
        return found | self.readers

    def find(self, node: Foreign) -> Reader | None:
        """Return the newest reader of an operator that is not newer than the node's version."""
        self.open()
        key = node.domain, node.op_type
        for held in (self.readers, *(declared() for declared in self.declared)):
            fitting = [reader for reader in held.get(key, ()) if reader.since <= node.version]
            if fitting:
                return fitting[-1]
        return None
