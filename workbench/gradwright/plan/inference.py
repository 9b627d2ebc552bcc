"""Inference: what the outputs of a node are in a plan, for inputs of known specs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import DTypeError, GradwrightError, ShapeError
from ..graph import Node
from ..graph.build import located
from ..op import Op, infer_specs
from ..spec import Dim, TensorSpec
from ..spec.one_of import OneOf


def specs_of(
    node: Node, op: Op, specs: Sequence[TensorSpec | None], sizes: dict[str, int]
) -> tuple[TensorSpec, ...]:
    """Return the specs of a node's outputs; ``sizes`` learns what they tell of its symbols."""
    return _stated(node, op, specs) or _inferred(node, op, specs, sizes)


def _stated(
    node: Node, op: Op, specs: Sequence[TensorSpec | None]
) -> tuple[TensorSpec, ...] | None:
    """Return the specs that the graph has already inferred from these very inputs."""
    if op is not node.op or any(
        t is not None and s is not t.spec for t, s in zip(node.inputs, specs, strict=True)
    ):
        return None
    outs = tuple([t.spec for t in node.outputs])
    return outs if all(s.is_concrete for s in outs) else None


def _inferred(
    node: Node, op: Op, specs: Sequence[TensorSpec | None], sizes: dict[str, int]
) -> tuple[TensorSpec, ...]:
    try:
        outs = infer_specs(op, specs)
    except GradwrightError as error:
        raise located(error, node) from None
    for t, spec in zip(node.outputs, outs, strict=True):
        if isinstance(spec, OneOf):
            continue
        known = t.spec.of_rank(spec.rank)
        if spec.dtype != known.dtype or spec.rank != known.rank:
            wrong: GradwrightError = DTypeError(
                f"{t.name!r} is {spec}, not {t.spec}",
                need="what the graph was built for",
                hint=f"{op.name} is defined otherwise now: build the graph again"
                if type(op) is not type(node.op)
                else "state the axes, or sizes in the place of symbols, that the rank depends on",
            )
            raise wrong.of(node).met_at(node.op.name, node.name, node.where or "no line")
        for axis, (stated, size) in enumerate(zip(known.shape, spec.shape, strict=True)):
            expected = stated.substitute(sizes) if isinstance(stated, Dim) else stated
            if stated == 1 and size == 0:  # the first element of an axis that has none
                continue
            if isinstance(size, int) and isinstance(expected, int) and size != expected:
                wrong = ShapeError(
                    f"{t.name!r} has size {size} on axis {axis}, not {stated} = {expected}",
                    facts=[
                        f"{i.name!r} : {s}"
                        for i, s in zip(node.inputs, specs, strict=True)
                        if i is not None
                    ],
                    need="the sizes that the graph was built for",
                )
                raise wrong.of(node).met_at(node.op.name, node.name, node.where or "no line")
            if isinstance(size, int) and isinstance(expected, Dim):
                sizes.update(expected.solve(size))
    return outs


def lacks_value(spec: TensorSpec | None) -> bool:
    """Tell whether elements of a tensor that decide a shape are not known yet."""
    return spec is not None and (
        spec.value is None or any(isinstance(d, Dim) for d in np.ravel(spec.value))
    )
