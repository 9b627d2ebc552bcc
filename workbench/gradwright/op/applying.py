"""An op applied: specs of its outputs, with what is known of their values, and the outputs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..errors import DTypeError, GradwrightError, GraphError, ShapeError, raised_at
from ..spec import TensorSpec, kind
from ..spec import dtype as as_dtype
from ..spec.one_of import OneOf, one_of, options
from . import seams
from .op import Op

Array = np.ndarray[Any, Any]


def infer_specs(op: Op, specs: Sequence[TensorSpec | None]) -> tuple[TensorSpec, ...]:
    """Run ``op.infer`` and carry known integer values through it."""
    if any(isinstance(s, OneOf) for s in specs) and not op.takes_ranks:
        return _of_each_rank(op, specs)
    if any(s is not None and s.by_reference for s in specs) and not op.is_composite():
        _refuse(op, specs)
    found = _inferred(op, specs)
    if op.is_composite() and type(op).infer is not Op.infer and _is_mixed(specs):
        seams.builder.check_expansion(op, specs)
    out = found
    if any(s is not None and s.value is not None for s in specs):  # an input's value is its own
        given = {id(s) for s in specs}
        out = tuple(s.with_shape(s.shape) if id(s) in given else s for s in out)
    if op.value_rule and all(s is None or s.value is not None for s in specs):
        try:
            values = op.forward(*(None if s is None else s.value for s in specs))
        except (ShapeError, TypeError):  # dims cannot be compared, nor divided by all others
            return out
        for spec, value in zip(
            out, values if isinstance(values, tuple) else (values,), strict=True
        ):
            spec.value = np.asarray(value)
    return out


MAX_RANKS = 256
"""Combinations of ranks for which an op is inferred; of more, those where open ranks are equal."""


def _of_each_rank(op: Op, specs: Sequence[TensorSpec | None]) -> tuple[TensorSpec, ...]:
    """Return what an op makes of tensors whose ranks are not known: of all that it takes."""
    each: list[Sequence[TensorSpec | None]] = [[None] if s is None else options(s) for s in specs]
    combined: Iterable[Sequence[TensorSpec | None]] = itertools.product(*each)
    if math.prod(map(len, each)) > MAX_RANKS:
        ranks = sorted({s.rank for s in itertools.chain(*each) if s is not None})
        combined = [[s and s.of_rank(r) for s in specs] for r in ranks]
    found: list[tuple[TensorSpec, ...]] = []
    refused: GradwrightError | None = None
    for given in combined:
        try:
            found.append(infer_specs(op, given))
        except GradwrightError as error:
            refused = refused or error
    if refused is not None and not found:
        raise refused
    return tuple(map(one_of, zip(*found, strict=True)))


def _inferred(op: Op, specs: Sequence[TensorSpec | None]) -> tuple[TensorSpec, ...]:
    """Return what ``op.infer`` says; GraphError where it fails in an op of the user, or says none.

    What fails in our own is no matter of theirs, and goes through as it is.
    """
    try:
        found = op.infer(*specs)
    except GradwrightError:
        raise
    except Exception as error:
        if "/" not in op.name:
            raise
        rule = "infer" if type(op).infer is not Op.infer else "expand"
        line = raised_at(error)
        raise GraphError(
            f"{rule} of {op.name} failed: {type(error).__name__}: {error}",
            facts=[f"raised at {line}"] if line else [],
        ) from error
    out = found if isinstance(found, tuple) else (found,)
    if not all(isinstance(s, TensorSpec) for s in out):
        raise GraphError(
            f"infer of {op.name} returned {found!r}",
            need="a TensorSpec, or a tuple",
            hint="x.with_shape(...), where x is the spec of an input",
        )
    return out


def _is_mixed(specs: Sequence[TensorSpec | None]) -> bool:
    """Tell whether floats come with ints or bools, of which inner ops may take only the former."""
    kinds = {kind(s.dtype) for s in specs if s is not None}
    return not kinds.isdisjoint("fc") and not kinds.isdisjoint("iub")


def _refuse(op: Op, specs: Sequence[TensorSpec | None]) -> None:
    """Say that an op takes no text, no sequence or no optional, where one comes in."""
    for spec in specs:
        if spec is not None and spec.by_reference and kind(spec.dtype) not in op.by_reference:
            text = kind(spec.dtype) == "s"
            raise DTypeError(
                f"{op.name} takes {'no text' if text else 'a tensor'}, got {spec}",
                need="numbers" if text else "one item of it",
                hint="gw.strings has what works on text" if text else "gw.sequence.at(items, i)",
            )


def run_forward(op: Op, xs: Sequence[Array | None], *, training: bool = False) -> tuple[Array, ...]:
    """Run ``op.forward`` and return its outputs as a tuple of arrays.

    A composite without a ``forward`` of its own runs its expansion, in the given mode. A forward
    sees its inputs read-only, for they may be a variable's value; views hand theirs on as they are.
    """
    if type(op).forward is Op.forward:
        ys = seams.builder.interpret(op, xs, training)
    else:
        ys = op.forward(*(xs if op.views else map(_locked, xs)))
    return tuple(map(_array, ys)) if isinstance(ys, tuple) else (_array(ys),)


def writes_outputs(op: Op) -> bool:
    """Tell whether an op can write its outputs into arrays that it is given."""
    return type(op).forward_into is not Op.forward_into


def run_forward_into(op: Op, xs: Sequence[Array | None], ys: Sequence[Array]) -> None:
    """Run ``op.forward_into``, whose inputs are read-only even where an output lies over one."""
    op.forward_into([_locked(x) for x in xs], ys)


def _array(y: Any) -> Array:
    """Return an output as an array; of text, numpy gives one element as Python's str."""
    return np.asarray(y, as_dtype("str")) if isinstance(y, str) else np.asarray(y)


def _locked(x: Array | None) -> Array | None:
    if x is None:
        return None
    view = np.asarray(x).view()
    view.flags.writeable = False
    return view
