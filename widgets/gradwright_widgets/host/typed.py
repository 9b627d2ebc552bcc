"""Numbers, lists and indices that somebody typed or pasted: read, never evaluated."""

from __future__ import annotations

import ast
from typing import Any

from gradwright.errors import GraphError

_MOST_TEXT = 100_000  # characters of a pasted literal


def parse_value(text: str) -> Any:
    """Return a number or nested list that was typed; ``nan``, ``inf`` and ``array(...)`` are known.

    >>> parse_value("[1, -inf]"), parse_value("np.array([[2.5]], dtype=np.float32)")
    ([1, -inf], [[2.5]])
    """
    try:
        if len(text) > _MOST_TEXT:
            raise ValueError
        tree = _Numbers().visit(ast.parse(text.strip(), mode="eval"))
        return ast.literal_eval(tree)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        raise GraphError(
            f"cannot read {text[:60]!r} as numbers",
            need=f"a number, or a list such as [[1, 2], [3, nan]], below {_MOST_TEXT:,} letters",
        ) from None


def parse_number(value: Any) -> float:
    """Return a value that was parsed if it is one number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise GraphError(f"{value!r} is not a number", need="one number, such as 0.5")
    return value


def whole_number(value: Any) -> int:
    """Return a whole number that a page has sent.

    >>> whole_number(2)
    2
    """
    if type(value) is not int:
        raise GraphError(f"{value!r:.60} is no whole number")
    return value


def whole_numbers(value: Any) -> tuple[int, ...]:
    """Return a list of whole numbers that a page has sent.

    >>> whole_numbers([2, 0])
    (2, 0)
    """
    if not isinstance(value, list) or not all(type(number) is int for number in value):
        raise GraphError(f"{value!r:.60} is no list of whole numbers")
    return tuple(value)


class _Numbers(ast.NodeTransformer):
    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.Constant(float(node.id)) if node.id in ("nan", "inf") else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        return self.visit(node.args[0]) if name == "array" and node.args else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        return ast.Constant(float(node.attr)) if node.attr in ("nan", "inf") else node


def parse_index(text: str) -> tuple[Any, ...]:
    """Return an index that was typed as in numpy.

    >>> parse_index("0, 1:3, ...")
    (0, slice(1, 3, None), Ellipsis)
    """

    def part(word: str) -> Any:
        word = word.strip()
        if word == "...":
            return ...
        ends = [int(end) if end.strip() else None for end in word.split(":")]
        return ends[0] if len(ends) == 1 and ends[0] is not None else slice(*ends)

    inner = text.strip().removeprefix("[").removesuffix("]").rstrip(",")
    try:
        return tuple(part(word) for word in inner.split(",")) if inner.strip() else ()
    except (ValueError, TypeError):
        raise GraphError(
            f"cannot read the index {text[:60]!r}", need="such as 0, 3 or :, -1"
        ) from None
