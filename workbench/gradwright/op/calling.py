"""How an op is called: the function derived from it, its public name, the name probably meant."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import GraphError
from ..words.spelling import elsewhere, meant
from .declare import REQUIRED
from .op import Op
from .registry import OPS, finders


def called(name: str) -> str:
    """Return how the function is called that was probably meant by a name: ``gw.nn.relu``, or "".

    >>> from gradwright.op.calling import called
    >>> called("relu"), called("unsqueeze"), called("ctc_loss"), called("while")
    ('gw.nn.relu', 'gw.expand_dims', 'gw.loss.ctc', 'gw.while_loop')
    >>> called("backward"), called("nonsense")
    ('gw.gradients', '')
    """
    for find in finders:
        find("")
    public = {
        cls.name: cls
        for cls in list(OPS.values())
        if "/" not in cls.name and cls.namespace not in HIDDEN
    }
    theirs = elsewhere(name)
    if theirs and theirs.rpartition(".")[2] not in public:
        return theirs
    close = meant(name, public)
    return public_name(public[close]) if close else ""


HIDDEN = ("", "gradient", "inner")
"""Namespaces of ops that only the engine makes."""
TOP = ("base", "math", "linalg", "control")
"""Namespaces whose functions stand at the top level, ``gw.exp``."""
MAKERS = {"while": "while_loop", "call": "function"}
"""Ops of control flow whose function is called otherwise."""


def public_name(cls: type[Op]) -> str:
    """Return how the function of an op is called: ``gw.nn.relu``."""
    short = cls.name.rpartition("/")[2]
    short = MAKERS.get(short, short)
    return f"gw.{short}" if cls.namespace in TOP else f"gw.{cls.namespace}.{short}"


def public_outputs(cls: type[Op]) -> int | None:
    """Return how many outputs an op shows; None where its inputs or attributes decide."""
    names = public_returns(cls)
    return None if any(name.startswith("*") for name in names) else len(names)


def public_returns(cls: type[Op]) -> tuple[str, ...]:
    """Return the names of the outputs an op shows, ``*`` before one that is any number of them.

    >>> from gradwright.op import OPS
    >>> [public_returns(OPS[name]) for name in ("relu", "top_k", "split")]
    [('y',), ('values', 'indices'), ('*parts',)]
    """
    if cls.returns:
        return cls.returns
    annotated = str(inspect.signature(cls.infer).return_annotation)
    if cls.many or (cls.n_public is None and "..." in annotated):
        return ("*ys",)
    count = max(1, annotated.count("TensorSpec")) if cls.n_public is None else cls.n_public
    return ("y",) if count == 1 else tuple(f"y{i}" for i in range(count))


def function(cls: type[Op]) -> Callable[..., Any]:
    """Return the op as a function: inputs positional, attributes keyword, ``name`` last.

    Required attributes of an op that takes any number of inputs stand first: ``einsum("ij,jk", a,
    b)``. An optional input that is also an attribute, such as the shape of ``reshape``, is the
    attribute unless a tensor or an array is given. It is derived once, in 0.1 ms.
    """
    held: Callable[..., Any] | None = cls.__dict__.get("_function")
    if held is None:
        held = _derived(cls)
        cls._function = held  # type: ignore[attr-defined]
    return held


def _derived(cls: type[Op]) -> Callable[..., Any]:
    keyword = inspect.Parameter.KEYWORD_ONLY
    positional = inspect.Parameter.POSITIONAL_OR_KEYWORD
    input_names = [p.name for p in cls.inputs]
    variadic = any(p.kind is p.VAR_POSITIONAL for p in cls.inputs)
    n_needed = sum(p.default is not None for p in cls.inputs)
    both = cls.attrs.keys() & set(input_names)
    optional = any(p.default is None and p.name not in both for p in cls.inputs)
    attrs = [
        inspect.Parameter(
            k,
            # Python wants parameters with defaults last: attributes after them are keywords.
            keyword if (variadic and a.default is not REQUIRED) or optional else positional,
            default=inspect.Parameter.empty if a.default is REQUIRED else a.default,
            annotation=a.type,
        )
        for k, a in cls.attrs.items()
        if k not in both
    ]
    attrs.sort(key=lambda p: p.default is not inspect.Parameter.empty)
    names = [p.name for p in attrs]
    lead = [p for p in attrs if variadic and p.kind is positional]
    ins = [
        p.replace(
            annotation=f"Tensor | {cls.attrs[p.name].type}"
            if p.name in both
            else "Tensor | None"
            if p.default is None
            else "Tensor"
        )
        for p in cls.inputs
    ]
    label = inspect.Parameter("name", keyword, default=None, annotation="str | None")
    count = public_outputs(cls)
    returned = "Tensor, ..." if count is None else ", ".join(["Tensor"] * count)
    signature = inspect.Signature(
        [*lead, *ins, *attrs[len(lead) :], label],
        return_annotation="Tensor" if count == 1 else f"tuple[{returned}]",
    )

    bare = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    accepted = f"takes {inspect.Signature(bare)}"

    def apply(args: Any, name: str | None, kwargs: dict[str, Any]) -> Any:
        if variadic:
            first = dict(zip((p.name for p in lead if p.name not in kwargs), args, strict=False))
            xs, given = _spread(args[len(first) :], names[len(lead) :])
            return cls(**first, **given, **kwargs)(*xs, name=name)
        inputs = list(args[: len(input_names)])
        for p in cls.inputs[len(inputs) :]:
            if p.name not in kwargs and p.default is not None:
                raise TypeError(f"{cls.name} needs the input {p.name!r}; it {accepted}")
            inputs.append(kwargs.pop(p.name, None))
        for i, key in enumerate(input_names):
            if key in both and not (
                hasattr(inputs[i], "spec") or isinstance(inputs[i], np.ndarray)
            ):
                kwargs[key], inputs[i] = inputs[i], None
        while len(inputs) > n_needed and inputs[-1] is None:
            inputs.pop()
        extra = dict(zip(names, args[len(input_names) :], strict=False))
        if len(args) > len(input_names) + len(names):
            raise TypeError(f"{cls.name} {accepted}, got {len(args)} positional arguments")
        if doubled := extra.keys() & kwargs.keys():
            raise TypeError(f"{cls.name} got {doubled.pop()!r} twice; it {accepted}")
        return cls(**extra, **kwargs)(*inputs, name=name)

    def call(*args: Any, name: str | None = None, **kwargs: Any) -> Any:
        try:
            return apply(args, name, kwargs)
        except (GraphError, TypeError) as error:
            from ..words.advice import advice_on

            advised = advice_on(short)
            if advised is not None and isinstance(error, GraphError):
                error.hint = advised.hint
            elif advised is not None and str(advised) not in str(error):
                error.args = (f"{error}; {advised}",)
            raise

    short = cls.name.rpartition("/")[2]
    call.__name__ = call.__qualname__ = short
    call.__doc__ = inspect.cleandoc(cls.__doc__ or "") + "".join(
        ["\n\nAttributes:\n"] + [f"    {k}: {a.text}\n" for k, a in cls.attrs.items()]
        if cls.attrs
        else []
    )
    call.__module__ = f"gradwright.{cls.namespace}"
    call.__signature__ = signature  # type: ignore[attr-defined]
    call.op = cls  # type: ignore[attr-defined]
    return call


def _spread(args: tuple[Any, ...], names: Sequence[str]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return inputs and attributes: ``concat([a, b], 1)`` is ``concat(a, b, axis=1)``."""
    listed = bool(args) and isinstance(args[0], (list, tuple)) and len(args) <= len(names) + 1
    if listed and all(isinstance(a, int) for a in args[1:]):
        return tuple(args[0]), dict(zip(names, args[1:], strict=False))
    return args, {}
