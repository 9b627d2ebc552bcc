"""Jinja's sandbox with transformers' conventions, in which chat templates run, metered.

Templates come with models that anybody has made. jinja2 keeps them from attributes and from
changing what they are given; the meter keeps them from taking for ever. Turns of loops, calls of
macros and all that is written are paid for, and what goes into an operation is weighed before.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from importlib.metadata import version
from typing import Any

from ...errors import FeedError
from .metering import check_format, check_given, check_operands, paid, spend, weigh

BEGUN, ENDED = "\ufdd0", "\ufdd1"
"""Marks around what ``{% generation %}`` holds: code points that no text has."""
UNUSED = ("pprint", "random", "urlize", "wordwrap", "xmlattr")
"""Filters that no chat template needs: slow ones, and one that gives other tokens each time."""
OLDEST = (3, 1, 6)
"""The first jinja2 out of whose sandbox no way is known."""


class RefusedError(Exception):
    """A template has said that it does not take the messages."""


@functools.cache
def environment() -> Any:
    """Return the environment that templates are compiled in.

    Raises FeedError where jinja2 is missing, or so old that its sandbox is known to leak.
    """
    jinja2 = _library()
    made = _environment_class(jinja2)(
        trim_blocks=True,
        lstrip_blocks=True,
        optimized=False,  # nothing is computed before it is metered
        finalize=_written,
        extensions=[_generation(jinja2), jinja2.ext.loopcontrols],
    )
    filters = {name: of for name, of in made.filters.items() if name not in UNUSED}
    filters["tojson"] = _tojson
    made.filters = {name: _careful(name, of) for name, of in filters.items()}
    made.tests = {name: _careful(name, of) for name, of in made.tests.items()}
    made.globals = {"range": made.globals["range"], "dict": _dict, "namespace": _namespace(jinja2)}
    made.globals |= {"raise_exception": _refuse, "strftime_now": _now}
    return made


def _library() -> Any:
    try:
        import jinja2
        import jinja2.ext
        import jinja2.sandbox
        import jinja2.visitor
    except ImportError:
        raise FeedError(
            "the library jinja2 is not installed, which chat templates are written for",
            hint="pip install jinja2; or give texts instead of messages",
        ) from None
    held = version("jinja2")
    if tuple(map(int, re.findall(r"\d+", held)[:3])) < OLDEST:
        raise FeedError(
            f"the sandbox of jinja2 {held} is known to leak",
            need="jinja2 " + ".".join(map(str, OLDEST)),
            hint="pip install --upgrade jinja2",
        )
    return jinja2


def _environment_class(jinja2: Any) -> type[Any]:
    metered = _metered(jinja2)

    class Environment(jinja2.sandbox.ImmutableSandboxedEnvironment):  # type: ignore[misc]
        intercepted_binops = frozenset(["+", "*", "**", "%"])

        def _parse(self, *source: Any) -> Any:
            return metered.visit(super()._parse(*source)).set_environment(self)

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            check_operands(operator, left, right)
            return paid(super().call_binop(context, operator, left, right))

        def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
            of = getattr(__obj, "__wrapped__", __obj)
            owner = getattr(of, "__self__", None)
            if not isinstance(owner, str | int | list | dict):
                weigh(*args, *kwargs.values())
                return super().call(__context, __obj, *args, **kwargs)
            check_given(of.__name__, (owner, *args), kwargs)
            return paid(super().call(__context, __obj, *args, **kwargs))

        # what `_metered` puts into templates

        def turn(self, cost: int) -> None:
            spend(cost)

        def weighed(self, value: Any) -> Any:
            weigh(value)
            return value

        def joined(self, *values: Any) -> Any:
            return paid("".join(map(str, values)))

        def sliced(self, value: Any, *ends: Any) -> Any:
            return paid(value[slice(*ends)])

    return Environment


def _metered(jinja2: Any) -> Any:
    """Return what changes a parsed template so that it pays and weighs."""
    nodes = jinja2.nodes

    def call(name: str, *args: Any) -> Any:
        return nodes.Call(nodes.EnvironmentAttribute(name), list(args), [], None, None)

    def weighed(value: Any) -> Any:
        return value if isinstance(value, nodes.Const) else call("weighed", value)

    class Metered(jinja2.visitor.NodeTransformer):  # type: ignore[misc]
        def _paid(self, node: Any) -> Any:
            self.generic_visit(node)
            cost = sum(len(data.data) for data in node.find_all(nodes.TemplateData)) + 1
            node.body.insert(0, nodes.ExprStmt(call("turn", nodes.Const(cost))))
            return node

        visit_For = visit_Macro = visit_Block = visit_CallBlock = _paid  # noqa: N815

        def visit_Concat(self, node: Any) -> Any:
            self.generic_visit(node)
            return call("joined", *node.nodes)

        def visit_Getitem(self, node: Any) -> Any:
            self.generic_visit(node)
            if not isinstance(node.arg, nodes.Slice):
                node.arg = weighed(node.arg)
                return node
            ends = (node.arg.start, node.arg.stop, node.arg.step)
            return call("sliced", node.node, *(end or nodes.Const(None) for end in ends))

        def visit_Compare(self, node: Any) -> Any:
            self.generic_visit(node)
            if not any(isinstance(of, nodes.Const) for of in [node.expr, *node.ops]):
                node.expr = weighed(node.expr)
                for operand in node.ops:
                    operand.expr = weighed(operand.expr)
            return node

        def visit_Pair(self, node: Any) -> Any:
            self.generic_visit(node)
            node.key = weighed(node.key)
            return node

    return Metered()


def _generation(jinja2: Any) -> type[Any]:
    class Generation(jinja2.ext.Extension):  # type: ignore[misc]
        """``{% generation %}``: what the assistant says."""

        tags = frozenset(["generation"])

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            marked = self.call_method("_marked")
            return jinja2.nodes.CallBlock(marked, [], [], body).set_lineno(line)

        def _marked(self, caller: Callable[[], str]) -> str:
            return f"{BEGUN}{caller()}{ENDED}"

    return Generation


def _namespace(jinja2: Any) -> type[Any]:
    class Namespace(jinja2.utils.Namespace):  # type: ignore[misc]
        """A namespace that keeps no names which Python means something by."""

        def __init__(self, *args: Any, **values: Any) -> None:
            held = _dict(*args, **values)
            for name in held:
                _check_name(name)
            super().__init__(held)

        def __setitem__(self, name: str, value: Any) -> None:
            _check_name(name)
            super().__setitem__(name, value)

    return Namespace


def _check_name(name: Any) -> None:
    if str(name).startswith("_"):
        raise RefusedError(f"namespace.{name} is no name of its own")


def _careful(name: str, of: Callable[..., Any]) -> Callable[..., Any]:
    """Return a filter or test that weighs what it is given, and pays for what it makes."""
    first = int(hasattr(of, "jinja_pass_arg"))  # filters that are given a context before all

    @functools.wraps(of)
    def checked(*args: Any, **kwargs: Any) -> Any:
        args = tuple(list(a) if isinstance(a, Iterator) else a for a in args)
        check_given(name, args[first:], kwargs)
        return paid(of(*args, **kwargs))

    return checked


def _written(value: Any) -> Any:
    spend(weigh(value))
    return value


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Return JSON, paid for piece by piece; jinja's own filter writes it for HTML."""
    if isinstance(indent, str):
        raise RefusedError("tojson has an indent that is no number")
    encoder = json.JSONEncoder(
        ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    return "".join(map(paid, encoder.iterencode(value)))


def _dict(*args: Any, **kwargs: Any) -> dict[Any, Any]:
    return dict(*args, **kwargs)


def _refuse(message: Any) -> None:
    raise RefusedError(str(message)[:200])


def _now(form: str) -> str:
    check_format(form)
    return datetime.now().strftime(form)
