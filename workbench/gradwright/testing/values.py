"""What an op computes: infer against forward, strides, precision, expansion."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..debug.float64 import known_specs
from ..gradient import gradients
from ..graph import ancestors
from ..graph.expand import expansion, run_nodes
from ..op import Op, Sample, infer_specs, run_forward
from ..op.applying import run_forward_into, writes_outputs
from ..spec import spec_of
from .common import Array, cases, cast, close, draw_seeds, fits, need, place, same, wanted


def check_infer(cls: type[Op], sample: Sample) -> None:
    """``infer`` says what ``forward`` returns, for float64, float32 and half inputs."""
    for op, xs in cases(cls, sample):
        for arrays in (xs, *(cast(op, xs, n) for n in ("float32", "bfloat16", "float16"))):
            if arrays is None:
                continue
            stated = infer_specs(op, known_specs(op, arrays))
            ys = run_forward(op, arrays)
            need(
                len(stated) == len(ys),
                f"infer states {len(stated)} outputs, forward returns {len(ys)}",
            )
            for i, (spec, y) in enumerate(zip(stated, ys, strict=True)):
                need(
                    fits(spec, y),
                    f"infer says {spec} for output {i} of {_show(arrays)}, forward returns "
                    f"{spec_of(y)}: mend whichever is wrong",
                )


def check_forward(cls: type[Op], sample: Sample) -> None:
    """``forward`` leaves its inputs alone, takes any strides, and keeps its declared traits."""
    for op, xs in cases(cls, sample):
        held = [None if x is None else x.copy() for x in xs]
        with np.errstate(all="ignore"):
            found = op.forward(*held)  # run_forward's inputs could not be written
        ys = [np.asarray(y) for y in (found if isinstance(found, tuple) else (found,))]
        for i, (x, h) in enumerate(zip(xs, held, strict=True)):
            need(same(x, h), f"forward changes its input {i}: work on a copy")
        for i, (x, y) in ((i, (x, y)) for i, x in enumerate(held) for y in ys if x is not None):
            need(
                not np.may_share_memory(x, y) or (op.views and i == 0),
                f"forward returns a view of input {i}: return a copy"
                + ("" if i else ", or say views = True"),
            )
        strided = [None if x is None else _strided(x) for x in xs]
        for y, again in zip(ys, run_forward(op, strided), strict=True):
            need(close(y, again, 1e-12), "forward differs for inputs that are not contiguous")
        if op.shape_only:
            blank = [
                np.full_like(x, 77) if i in op.shape_only and x is not None else x
                for i, x in enumerate(xs)
            ]
            for y, again in zip(ys, run_forward(op, blank), strict=True):
                need(same(y, again), f"forward reads the values of shape_only {op.shape_only}")
        if op.value_rule and all(x is not None and x.dtype.kind == "i" for x in xs):
            dims = [None if x is None else x.astype(object) for x in xs]
            for y, again in zip(ys, run_forward(op, dims), strict=True):
                need(same(y, again.astype(y.dtype)), "forward does not work on dims: value_rule")
        if writes_outputs(op):
            _check_into(op, xs, ys)


def _check_into(op: Op, xs: Sequence[Array | None], expected: Sequence[Array]) -> None:
    """``forward_into`` writes what ``forward`` returns, also over the inputs that it may have."""
    for over in (None, *op.overwrites):
        held = [None if x is None else x.copy() for x in xs]
        ys = [np.full_like(y, 77) for y in expected]
        if over is not None:
            x = held[over[1]] if over[1] < len(held) else None
            if x is None or spec_of(x) != spec_of(ys[over[0]]):
                continue
            ys[over[0]] = x
        run_forward_into(op, held, ys)
        for i, (own, h) in enumerate(zip(xs, held, strict=True)):
            written = over is not None and over[1] == i
            need(written or same(own, h), f"forward_into changes its input {i}")
        for y, e in zip(ys, expected, strict=True):
            where = f"over input {over[1]}" if over else "apart"
            need(same(y, e), f"forward_into, written {where}, differs from forward")


def check_precision(cls: type[Op], sample: Sample) -> None:
    """``forward`` in float32 and halves is as near to float64 as the dtype allows."""
    for op, xs in cases(cls, sample):
        for name, tolerance in (("float32", 2e-5), ("bfloat16", 3e-2), ("float16", 4e-3)):
            arrays = cast(op, xs, name)
            wide = None if arrays is None else cast(op, arrays, "float64")
            if arrays is None or wide is None or "dtype" in op.attrs:
                continue
            ys, reference = run_forward(op, arrays), run_forward(op, wide)
            for i, (y, r) in enumerate(zip(ys, reference, strict=True)):
                need(
                    r.dtype.kind not in "fc" or close(y, r, tolerance),
                    f"output {i} in {name} is far from float64: accumulate in float32",
                )


def check_expansion(cls: type[Op], sample: Sample) -> None:
    """A composite's own infer, forward and vjp agree with its expansion."""
    if not cls.is_composite():
        return
    for op, xs in cases(cls, sample):
        specs = known_specs(op, xs)
        inner = expansion(op, specs)
        given = dict(zip(inner.inputs, (x for x in xs if x is not None), strict=True))
        ys = run_nodes(inner.nodes, given, inner.outputs)
        for i, (spec, y) in enumerate(zip(infer_specs(op, specs), ys, strict=True)):
            need(fits(spec, y), f"infer says {spec} for output {i}, expand gives {y.shape}")
        for i, (own, y) in enumerate(zip(run_forward(op, xs), ys, strict=True)):
            need(close(own, y, 1e-9), f"forward and expand differ in output {i}")
        if not cls.has_vjp():
            continue
        rng = np.random.default_rng(4)
        graph, ins, node, held = place(op, xs)
        wrt, seeded = wanted(op, xs, sample, ins), draw_seeds(graph, node, rng)
        if not wrt or not seeded:
            continue
        with graph:
            opened = op.expand(*ins)
        opened = opened if isinstance(opened, tuple) else (opened,)
        held = {**held, **dict(seeded.values())}
        seeds = [s for s, _ in seeded.values()]
        mirrored = [opened[y.index] for y in seeded]
        stated = gradients(list(seeded), wrt, seeds, unreachable="zero")
        derived = gradients(mirrored, wrt, seeds, unreachable="zero")
        found = run_nodes(ancestors([*stated, *derived], stop=set(held)), held, [*stated, *derived])
        for i in range(len(wrt)):
            need(
                close(found[i], found[len(wrt) + i], 1e-8),
                f"vjp and the gradient of expand differ for {wrt[i].name}",
            )


def _strided(x: Array) -> Array:
    """Return the same values in memory of another layout."""
    if not x.ndim:
        return x
    room = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    room[..., ::2] = x
    return room[..., ::2]


def _show(xs: Sequence[Array | None]) -> str:
    return ", ".join("None" if x is None else str(spec_of(x)) for x in xs)
