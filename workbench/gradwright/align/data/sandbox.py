"""Jinja's sandbox, metered: what a template may do, how long it may take, how much it may write.

Templates come with models that anybody has made. jinja2 keeps them from attributes and from
changing what they are given; the meter keeps them from taking for ever. Turns of loops, calls of
macros and all that is written are paid for. What makes much of little, such as repeating, joining
and filling up, is asked beforehand how much it would make.
"""

from __future__ import annotations

import functools
import json
import re
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from datetime import datetime
from typing import Any

from ...errors import FeedError

SPENT = 1 << 25
"""Characters and turns that a rendering may pay for."""
WEIGHT = 1 << 22
"""Characters and elements that one value may have."""
WIDEST = 10_000
"""The largest number that a method or filter is given, such as a width."""
SECONDS = 5.0
"""How long a rendering may take, of its thread's own time."""
READ = 1 << 12
"""After how much that is paid the clock is read, which takes as long as fifty turns."""
BEGUN, ENDED = "\ufdd0", "\ufdd1"
"""Marks around what ``{% generation %}`` holds: code points that no text has."""
BITS = 10_000
"""Bits that a whole number may have."""
LONG_NUMBER = re.compile(r"\d{5}|\*")
"""What makes a format as wide as it likes."""


class SpentError(Exception):
    """A template has used up what it may."""


class Meter:
    """What a rendering has left to spend."""

    def __init__(self) -> None:
        self.left, self._seen = SPENT, SPENT
        self._end = time.thread_time() + SECONDS

    def spend(self, amount: int) -> None:
        """Pay for something; raises SpentError when nothing is left."""
        self.left -= amount
        if self.left < 0:
            raise SpentError(f"it writes more than {SPENT:,} characters")
        if self._seen - self.left < READ:
            return
        self._seen = self.left
        if time.thread_time() > self._end:
            raise SpentError(f"it takes more than {SECONDS:g} seconds")


METER: ContextVar[Meter] = ContextVar("meter")


def weigh(*values: Any) -> int:
    """Return how many characters and elements plain values have; raises SpentError above WEIGHT.

    To walk through them is paid for.

    >>> weigh("abc", [1, "de"])
    7
    """
    total, walked, waiting = 0, 0, list(values)
    while waiting:
        value = waiting.pop()
        walked += 1
        if isinstance(value, str):
            total += len(value)
        elif isinstance(value, int):
            total += 1
            if value.bit_length() > BITS:
                raise SpentError(f"a number in it has more than {BITS:,} bits")
        else:
            total += 1
            if isinstance(value, dict):
                waiting += [*value, *value.values()]
            elif isinstance(value, list | tuple):
                waiting += value
        if total + len(waiting) > WEIGHT:
            raise SpentError(f"a value in it has more than {WEIGHT:,} characters")
    if (meter := METER.get(None)) is not None:
        meter.spend(walked)
    return total


def paid(made: Any) -> Any:
    """Return what an operation has made, and pay for its length."""
    METER.get().spend(len(made) if isinstance(made, str | list | tuple | dict) else 1)
    return made


def careful(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Check what a filter or method is given; raises SpentError where it would make too much."""
    given = [*args, *kwargs.values()]
    size = weigh(*given)
    numbers = (abs(v) for v in [*args[1:], *kwargs.values()] if isinstance(v, int))
    widest = max(numbers, default=0)
    if widest > WIDEST or widest * size > WEIGHT:
        raise SpentError(f"{name} is given the number {widest}")
    texts = [v for v in given if isinstance(v, str)]
    if name in ("format", "format_map") and texts and LONG_NUMBER.search(texts[0]):
        raise SpentError("a format in it is too wide")
    if name == "replace" and len(texts) > 2:
        weigh_product(len(texts[2]), texts[0].count(texts[1]))
    if name == "join" and len(given) > 1:
        by, items = (given[0], given[1]) if isinstance(given[0], str) else (given[1], given[0])
        if hasattr(items, "__len__"):
            weigh_product(weigh(by), len(items))


def weigh_product(size: int, times: int) -> None:
    """Raise SpentError where something of a size would be made too many times."""
    if size * max(0, times) > WEIGHT:
        raise SpentError(f"it makes a value of more than {WEIGHT:,} characters")


@functools.cache
def environment() -> Any:
    """Return the environment that templates are compiled in, with transformers' conventions."""
    try:
        import jinja2
        import jinja2.ext
        from jinja2 import nodes
        from jinja2.sandbox import ImmutableSandboxedEnvironment
        from jinja2.visitor import NodeTransformer
    except ImportError:
        raise FeedError(
            "the library jinja2 is not installed, which chat templates are written for",
            hint="pip install jinja2; or give texts instead of messages",
        ) from None

    class Metered(NodeTransformer):
        """Lets turns be paid for, and calls functions for ``~`` and slices."""

        def _paid(self, node: Any) -> Any:
            self.generic_visit(node)
            cost = sum(len(data.data) for data in node.find_all(nodes.TemplateData)) + 1
            node.body.insert(0, nodes.ExprStmt(_call(nodes, "spend", nodes.Const(cost))))
            return node

        visit_For = visit_Macro = visit_CallBlock = visit_FilterBlock = _paid  # noqa: N815

        def visit_Concat(self, node: Any) -> Any:
            self.generic_visit(node)
            return _call(nodes, "joined", *node.nodes)

        def visit_Getitem(self, node: Any) -> Any:
            self.generic_visit(node)
            if not isinstance(node.arg, nodes.Slice):
                return node
            ends = (node.arg.start, node.arg.stop, node.arg.step)
            return _call(nodes, "sliced", node.node, *(e or nodes.Const(None) for e in ends))

    class Environment(ImmutableSandboxedEnvironment):
        intercepted_binops = frozenset(["+", "*", "**", "%"])

        def _parse(self, *source: Any) -> Any:
            return Metered().visit(super()._parse(*source)).set_environment(self)

        def spend(self, amount: int) -> str:
            METER.get().spend(amount)
            return ""

        def joined(self, *values: Any) -> str:
            weigh(*values)
            return paid("".join(map(str, values)))

        def sliced(self, value: Any, *ends: Any) -> Any:
            return paid(value[slice(*ends)])

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            weigh(left, right)
            if operator == "*":
                number, other = (left, right) if isinstance(left, int) else (right, left)
                if isinstance(number, int) and not isinstance(other, int | float):
                    weigh_product(weigh(other), number)
            if operator == "**" and isinstance(left, int) and isinstance(right, int):
                weigh_product(left.bit_length() * WEIGHT // BITS, right)
            if operator == "%" and isinstance(left, str) and LONG_NUMBER.search(left):
                raise SpentError("a format in it is too wide")
            return paid(super().call_binop(context, operator, left, right))

        def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
            of = getattr(__obj, "__wrapped__", __obj)
            owner = getattr(of, "__self__", None)
            if not isinstance(owner, str | int | list | dict):
                return super().call(__context, __obj, *args, **kwargs)
            careful(of.__name__, (owner, *args), kwargs)
            return paid(super().call(__context, __obj, *args, **kwargs))

    class Generation(jinja2.ext.Extension):
        """``{% generation %}``: what the assistant says."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return nodes.CallBlock(self.call_method("_marked"), [], [], body).set_lineno(line)

        def _marked(self, caller: Callable[[], str]) -> str:
            return f"{BEGUN}{caller()}{ENDED}"

    made = Environment(
        trim_blocks=True,
        lstrip_blocks=True,
        optimized=False,
        finalize=_written,
        extensions=[Generation, jinja2.ext.loopcontrols],
    )
    made.filters = {name: _careful(name, of) for name, of in made.filters.items()}
    made.filters["tojson"] = _careful("tojson", _tojson)
    made.globals = {"range": made.globals["range"], "dict": _dict, "namespace": _namespace(jinja2)}
    made.globals |= {"raise_exception": _refuse, "strftime_now": _now}
    return made


def _call(nodes: Any, name: str, *args: Any) -> Any:
    return nodes.Call(nodes.EnvironmentAttribute(name), list(args), [], None, None)


def _written(value: Any) -> Any:
    METER.get().spend(weigh(value))
    return value


def _careful(name: str, of: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(of)
    def checked(*args: Any, **kwargs: Any) -> Any:
        args = tuple(list(a) if isinstance(a, Iterator) else a for a in args)
        careful(name, args, kwargs)
        return paid(of(*args, **kwargs))

    return checked


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def _refuse(message: Any) -> None:
    raise RefusedError(str(message)[:200])


class RefusedError(Exception):
    """A template has said that it does not take the messages."""


def _now(form: str) -> str:
    careful("format", (form,), {})
    return datetime.now().strftime(form)


def _dict(*args: Any, **kwargs: Any) -> dict[Any, Any]:
    return dict(*args, **kwargs)


def _namespace(jinja2: Any) -> type[Any]:
    class Namespace(jinja2.utils.Namespace):  # type: ignore[misc]
        """A namespace that keeps no names which Python means something by."""

        def __init__(self, **values: Any) -> None:
            for name in values:
                _check_name(name)
            super().__init__(values)

        def __setitem__(self, name: str, value: Any) -> None:
            _check_name(name)
            super().__setitem__(name, value)

    return Namespace


def _check_name(name: str) -> None:
    if name.startswith("_"):
        raise RefusedError(f"namespace.{name} is no name of its own")
