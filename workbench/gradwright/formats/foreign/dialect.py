"""A world that is read and written: what is known of its operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ...errors import GraphError, user_site
from ...shared import first_use
from .attributes import Attributes, described
from .known import Known
from .node import Foreign, Outputs, Reader, Readers
from .rules import Chosen, Conditions, Rule, Source

Read = TypeVar("Read", bound=Callable[..., Any])
Write = TypeVar("Write", bound=Callable[..., Any])


class Dialect:
    """What is known of a world: readers of its operators, writers of our ops.

    A user's reader goes before all others; then come functions, then what ops declare.

    >>> dialect = Dialect()
    >>> @dialect.reads("Twice", since=2)
    ... def twice(node, x):
    ...     return x + x
    >>> reader = dialect.find(Foreign("Twice", version=3))
    >>> reader.read(None, 4), dialect.find(Foreign("Twice", version=1))
    (8, None)
    """

    def __init__(self) -> None:
        self.added: dict[tuple[str, str], list[Reader]] = {}
        """Readers that users have entered."""
        self.readers: dict[tuple[str, str], list[Reader]] = {}
        self.writers: dict[str, Callable[..., Any]] = {}
        self.openers: list[Callable[[], None]] = []
        """What enters readers, called before the first is looked for: there are many."""
        self._is_open = False
        self.declared: list[Callable[[], Readers]] = []
        """What returns further readers, first come first: a function goes before them."""

    # -- entering --------------------------------------------------------------------------------

    def reads(
        self,
        *op_types: str,
        domain: str = "",
        since: int = 1,
        values: Sequence[int] = (),
        outputs: Outputs | None = None,
        takes_dims: bool = False,
        waits: Callable[..., bool] | None = None,
        attributes: Attributes | None = None,
        by_user: bool = False,
    ) -> Callable[[Read], Read]:
        """Enter a function ``(node, *inputs) -> tensor or tensors`` as reader of operators.

        It takes the place of one of the same version. ``outputs(node, *specs)`` returns the output
        specs as far as they are known without the values; by default like the first input, with
        sizes that are not known. With ``takes_dims`` the values may hold symbolic sizes. Where
        ``waits(node, *specs)`` holds, the node waits for a run to tell sizes. ``attributes`` are
        checked before the function is called, and no others are taken.
        """
        if by_user:
            _check_operator(op_types, domain, since)
            _check_kinds({"attributes": attributes}, {"values": values}, {"outputs": outputs})
        declared = None if attributes is None else described(attributes)

        def enter(read: Read) -> Read:
            if not callable(read):
                raise TypeError(f"a reader is a function (node, *inputs), got {read!r}")
            code = getattr(read, "__code__", None)
            site = (code, code.co_firstlineno) if code is not None else user_site()
            made = Reader(
                read, since, tuple(values), outputs, takes_dims, declared,
                site=site if by_user else None, waits=waits,
            )  # fmt: skip
            self._enter(op_types, domain, made, by_user)
            return read

        return enter

    def maps(
        self,
        op_type: str,
        op: str | Chosen,
        *,
        domain: str = "",
        since: int = 1,
        attributes: Attributes | None = None,
        takes: Mapping[str, Source] | None = None,
        inputs: Sequence[int | str | None] | None = None,
        leaves: Sequence[str] = (),
        needs: Conditions | None = None,
        gives: Conditions | None = None,
        outputs: Outputs | None = None,
        takes_dims: bool = False,
        by_user: bool = False,
    ) -> Rule:
        """Enter a rule as reader of an operator; see :class:`Rule` for what it says.

        Raises GraphError where it does not fit its op; ours are looked at by a test.
        """
        if by_user:
            _check_operator((op_type,), domain, since)
            held = {"attributes": attributes, "takes": takes, "needs": needs, "gives": gives}
            _check_kinds(held, {"inputs": inputs, "leaves": leaves}, {"outputs": outputs})
            if not isinstance(op, str | Chosen):
                raise TypeError(f"op={op!r} is neither the name of an op nor Chosen")
        declared = described(attributes or {})
        rule = Rule(op, declared, takes or {}, inputs, leaves, needs or {}, gives or {})
        if by_user:
            rule.check()
        site = user_site() if by_user else None
        made = Reader(rule, since, rule.values, outputs, takes_dims, declared, "rule", site)
        self._enter((op_type,), domain, made, by_user)
        return rule

    def _enter(self, op_types: Sequence[str], domain: str, made: Reader, by_user: bool) -> None:
        held = self.added if by_user else self.readers
        for op_type in op_types:
            others = [r for r in held.get((domain, op_type), ()) if r.since != made.since]
            held[domain, op_type] = sorted([*others, made], key=lambda r: r.since)

    def forget(self, *op_types: str, domain: str = "") -> None:
        """Take back what users have entered for operators; what stood there before is back.

        Raises GraphError, and takes nothing back, where nothing has been entered for one.
        """
        _check_operator(op_types, domain)
        for op_type in op_types:
            if (domain, op_type) not in self.added:
                names = [f"{d}:{name}" if d else name for d, name in sorted(self.added)]
                raise GraphError(
                    f"nothing has been entered for {op_type!r} of the domain {domain!r}",
                    facts=[f"entered: {', '.join(names) or 'nothing'}"],
                )
        for op_type in op_types:
            self.added.pop((domain, op_type), None)

    def writes(self, *ops: str) -> Callable[[Write], Write]:
        """Enter a function as what writes some ops."""

        def enter(write: Write) -> Write:
            self.writers.update(dict.fromkeys(ops, write))
            return write

        return enter

    # -- finding ---------------------------------------------------------------------------------

    def open(self) -> None:
        """Have all readers entered."""
        if not self._is_open:
            with first_use:
                for enter in self.openers:
                    enter()
            self._is_open = True

    def known(self) -> Known:
        """Return all readers, for each operator those that go first."""
        self.open()
        found: dict[tuple[str, str], Sequence[Reader]] = {}
        for declared in reversed(self.declared):
            found |= declared()
        return Known(found | self.readers | self.added)

    def find(self, node: Foreign) -> Reader | None:
        """Return the newest reader of an operator that is not newer than the node's version."""
        self.open()
        for held in (self.added, self.readers, *(declared() for declared in self.declared)):
            if found := _newest(held, node):
                return found
        return None

    def find_added(self, node: Foreign) -> Reader | None:
        """Return the reader that a user has entered for an operator."""
        return _newest(self.added, node)


def _newest(held: Readers, node: Foreign) -> Reader | None:
    readers = held.get((node.domain, node.op_type), ())
    fitting = [reader for reader in readers if reader.since <= node.version]
    return fitting[-1] if fitting else None


def _check_operator(op_types: Sequence[str], domain: str, since: int = 1) -> None:
    """Refuse what names no operator."""
    are_texts = all(isinstance(name, str) for name in (*op_types, domain))
    if not op_types or not are_texts or not all(op_types):
        raise TypeError(f"operators and domains are named by text, got {op_types}, {domain!r}")
    if type(since) is not int or since < 1:
        raise TypeError(f"since is {since!r}; the first version of a domain is 1")


def _check_kinds(
    mappings: Mapping[str, Any], lists: Mapping[str, Any], functions: Mapping[str, Any]
) -> None:
    """Refuse arguments that are given, and not of the kind that they have to be."""
    for name, value in mappings.items():
        named = isinstance(value, Mapping) and all(isinstance(key, str) for key in value)
        if value is not None and not named:
            raise TypeError(f"{name} is a dict by name, got {value!r}")
    for name, value in lists.items():
        if not isinstance(value, list | tuple) and (value is not None or name != "inputs"):
            raise TypeError(f"{name} is a list, got {value!r}")
    for name, value in functions.items():
        if value is not None and not callable(value):
            raise TypeError(f"{name} is a function (node, *specs), got {value!r}")
