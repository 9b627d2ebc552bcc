"""Expressions over values, for watches and conditions: arithmetic and numpy reductions, no eval.

``t["hidden/w"]`` is the value of a tensor and ``value`` that of the node that has just run::

    abs(value).max() > 10        norm(t["hidden/w"])        mean(t["x"][:, 0]) - 1
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ...errors import GradwrightError, GraphError
from ...spec import TensorSpec
from ..arguments import TEXT

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": np.abs, "all": np.all, "any": np.any, "argmax": np.argmax, "argmin": np.argmin,
    "exp": np.exp, "isfinite": np.isfinite, "isinf": np.isinf, "isnan": np.isnan, "log": np.log,
    "max": np.max, "mean": np.mean, "median": np.median, "min": np.min,
    "norm": lambda x: float(np.sqrt(np.sum(np.square(np.abs(x))))),
    "sqrt": np.sqrt, "std": np.std, "sum": np.sum, "var": np.var, "round": np.round,
}  # fmt: skip
METHODS = {"all", "any", "argmax", "argmin", "max", "mean", "min", "std", "sum", "var", "round"}
PROPERTIES = {"T", "dtype", "ndim", "shape", "size"}
NAMES = {"t", "value", "nan", "inf", *FUNCTIONS}
_BINARY: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Pow: lambda a, b: (float(a) if isinstance(a, int) else a) ** b,  # 9**9**9 would never end
    ast.MatMult: operator.matmul, ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
_UNARY: dict[type[ast.AST], Callable[[Any], Any]] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_, ast.Invert: np.invert,
}  # fmt: skip

_LARGE = 1 << 20  # elements: what an expression makes of them has memory
_FAILURES = (
    ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError
)  # fmt: skip


class Expression:
    """A parsed expression, ready to be evaluated on values.

    >>> from gradwright.debug import Expression
    >>> Expression('abs(t["w"]).max() > 2').evaluate({"w": np.array([1.0, -3.0])})
    True
    """

    def __init__(self, text: str) -> None:
        TEXT.check(expression=text)
        self.text = text
        try:
            self._tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise GraphError(f"cannot read the expression {text[:80]!r}: {error}") from None
        self.tensors = sorted(self._names(self._tree))
        """Names of the tensors that it reads."""
        self.reads_value = any(isinstance(n, ast.Name) and n.id == "value" for n in self._nodes)
        """Whether it speaks of the node that has just run, as conditions do."""

    @property
    def _nodes(self) -> Iterator[ast.AST]:
        return ast.walk(self._tree)

    def _names(self, tree: ast.AST) -> set[str]:
        found = set()
        for node in ast.walk(tree):
            match node:
                case ast.Subscript(value=ast.Name(id="t"), slice=ast.Constant(value=str(name))):
                    found.add(name)
                case ast.Name(id=name) if name not in NAMES:
                    raise _unfit(node)
        return found

    def tried(self, tensors: Mapping[str, TensorSpec], value: TensorSpec | None = None) -> None:
        """Raise GraphError where it cannot be computed on values of these specs.

        >>> from gradwright import TensorSpec
        >>> Expression('t["w"][2]').tried({"w": TensorSpec((2,))})
        Traceback (most recent call last):
        gradwright.errors.GraphError: 't["w"][2]' cannot be computed: index 2 is out of bounds for \
axis 0 with size 2
        """
        stand_ins = {name: _stand_in(spec) for name, spec in tensors.items()}
        stood = None if value is None else _stand_in(value)
        if all(a is not None for a in stand_ins.values()) and (value is None) == (stood is None):
            self.evaluate(stand_ins, stood)

    def evaluate(self, tensors: Mapping[str, Any], value: Any = None) -> Any:
        """Return the expression's value; ``tensors`` are looked up by name when used.

        Raises GraphError for what cannot be computed on these values.
        """
        try:
            with np.errstate(all="ignore"):
                result = self._walk(self._tree, tensors, value)
        except GradwrightError:
            raise
        except _FAILURES as error:
            raise GraphError(f"{self.text[:80]!r} cannot be computed: {error}") from None
        return result.item() if isinstance(result, np.generic) else result

    def _walk(self, node: ast.AST, t: Mapping[str, Any], value: Any) -> Any:
        def walk(inner: ast.AST) -> Any:
            return self._walk(inner, t, value)

        match node:
            case ast.Constant(value=bool() | int() | float() as constant):
                return constant
            case ast.Name(id="value") if value is not None:
                return value
            case ast.Name(id="nan" | "inf" as name):
                return float(name)
            case ast.Subscript(value=ast.Name(id="t"), slice=ast.Constant(value=str(name))):
                return t[name]
            case ast.Subscript(value=inner, slice=index):
                return walk(inner)[self._index(index, walk)]
            case ast.BinOp(left=a, op=op, right=b) if type(op) in _BINARY:
                return _BINARY[type(op)](_number(walk(a)), _number(walk(b)))
            case ast.UnaryOp(op=op, operand=a) if type(op) in _UNARY:
                return _UNARY[type(op)](walk(a))
            case ast.Compare(left=a, ops=[op], comparators=[b]) if type(op) in _BINARY:
                return _BINARY[type(op)](walk(a), walk(b))
            case ast.BoolOp(op=op, values=parts):
                results = (bool(np.all(walk(p))) for p in parts)
                return all(results) if isinstance(op, ast.And) else any(results)
            # One argument at most: numpy's further ones name an array to write into.
            case ast.Call(func=ast.Name(id=name), args=[a], keywords=keywords) if name in FUNCTIONS:
                return FUNCTIONS[name](walk(a), **self._axis(keywords, walk))
            case ast.Call(
                func=ast.Attribute(value=a, attr=name), args=[] | [_] as args, keywords=keywords
            ) if name in METHODS:
                return getattr(walk(a), name)(*map(walk, args), **self._axis(keywords, walk))
            case ast.Attribute(value=a, attr=name) if name in PROPERTIES:
                return getattr(walk(a), name)
            case ast.Tuple(elts=parts):
                return tuple(map(walk, parts))
        raise _unfit(node)

    @staticmethod
    def _axis(keywords: list[ast.keyword], walk: Callable[[ast.AST], Any]) -> dict[str, Any]:
        allowed = {str(k.arg): walk(k.value) for k in keywords if k.arg in ("axis", "keepdims")}
        if len(allowed) != len(keywords):
            raise GraphError("only axis and keepdims are keywords of an expression")
        return allowed

    def _index(self, node: ast.AST, walk: Callable[[ast.AST], Any]) -> Any:
        match node:
            case ast.Slice(lower=a, upper=b, step=c):
                return slice(*(None if p is None else walk(p) for p in (a, b, c)))
            case ast.Tuple(elts=parts):
                return tuple(self._index(p, walk) for p in parts)
            case ast.Constant(value=ellipsis) if ellipsis is ...:
                return ...
        return walk(node)

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"


def _stand_in(spec: TensorSpec) -> Any:
    """Return a small value of a spec, without memory of its own; None where it has none."""
    sizes = [d for d in spec.shape if isinstance(d, int)]
    if len(sizes) < len(spec.shape) or spec.by_reference or math.prod(sizes) > _LARGE:
        return None
    return np.broadcast_to(np.zeros((), spec.dtype), sizes)


def _unfit(node: ast.AST) -> GraphError:
    return GraphError(
        f"{ast.unparse(node)!r} cannot be used in an expression",
        need=f'numbers, operators, value, t["name"], {", ".join(sorted(FUNCTIONS))}',
        hint=f't["{node.id}"]' if isinstance(node, ast.Name) else "",
    )


def _number(value: Any) -> Any:
    """Return an operand; a shape is an array here, for ``(0,) * n`` fills the memory."""
    return np.asarray(value) if isinstance(value, tuple) else value
