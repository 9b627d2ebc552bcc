"""Products with packed rows, and rows of packed tables, bound to arrays."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ....program.declined import DeclinedError
from ...call import Call, Cut, numbered
from ..bind import bind_copy
from ..convolution.machine import numbers
from ..steps import LINE, Steps
from . import activations, panels, vectors
from .layouts import LAYOUTS, PART, digits, layout
from .machine import Machine, machine

Array = np.ndarray[Any, Any]
LOG = logging.getLogger("gradwright.cpu")
PER_NS = 25.0
"""Bytes of a weight that a core reads in a ns, about."""
HELD = 1 << 17
"""Numbers of a weight that are floats at a time for a gradient: 0.5 MB."""
GRAIN = 32
"""Rows of a weight at which a product is cut: those of whole panels."""
FEW = 8
"""Rows of x up to which, as floats, they meet the rows of a weight together; more take panels."""


def is_known(name: str) -> bool:
    """Tell whether machine code reads a format."""
    return name in LAYOUTS


def bind_product(
    name: str, x: Array, w: Array, y: Array, *, as_bytes: bool
) -> Sequence[Call] | None:
    """Return the calls of ``y[..., F] = x[..., K] @ Wᵀ`` for packed rows ``w[F, bytes]``.

    Operands are x, w and y in this order. None: numpy has to.

    >>> from gradwright.cpu.llvm.compiler import available
    >>> x, w, y = np.ones((1, 32), "f4"), np.zeros((3, 34), "u1"), np.empty((1, 3), "f4")
    >>> calls = bind_product("q8_0", x, w, y, as_bytes=False) if available() else None
    >>> calls is None or [operand for _, operand in calls[0].slots]
    [1, 0, 2, 0]
    """
    if not y.size or not x.size:
        return None
    dense = x if x.flags.c_contiguous else np.empty(x.shape, x.dtype)
    copied = [] if dense is x else bind_copy(x, dense)
    if copied is None:
        return None
    flat = dense.reshape(-1, x.shape[-1])
    try:
        calls = products(name, machine(), flat, w, y.reshape(len(flat), -1), as_bytes=as_bytes)
    except (RuntimeError, ValueError) as error:  # no kernel is worth a failed run
        LOG.info("products with %s stay on numpy: %s", name, error)
        return None
    if dense is x:
        return calls
    own = [replace(c, slots=[s for s in c.slots if s[1]], held=(c.held, dense)) for c in calls]
    return [*numbered(copied, (0,)), *own]  # type: ignore[misc]


def products(name: str, m: Machine, x: Array, w: Array, y: Array, *, as_bytes: bool) -> list[Call]:
    """Return the calls of a product for a machine: row by row of the weight, or by panels."""
    few = vectors.TOGETHER if as_bytes else FEW
    if len(x) > few and len(w) >= panels.panel(m, as_bytes=as_bytes):
        return by_panel(name, m, x, w, y, as_bytes=as_bytes)
    return _by_row(name, m, x, w, y, as_bytes=as_bytes)


def bind_grouped(
    name: str, x: Array, w: Array, sizes: Array, y: Array, *, as_bytes: bool
) -> Sequence[Call] | None:
    """Return the calls of ``y[M, F] = x[M, K] @ W[e]ᵀ`` for ``w[E, F, bytes]``; None: numpy has to.

    Rows of group 0 stand first. Operands are x, w, sizes and y. Sizes that are not of the rows of x
    set an alarm.
    """
    is_dense = x.flags.c_contiguous and sizes.flags.c_contiguous
    if not y.size or not is_dense or sizes.dtype != np.dtype("int64"):
        return None
    form, alarm = LAYOUTS[name], np.zeros(1, np.int64)
    try:
        calls, ready, row = _ready(name, machine(), x, as_bytes=as_bytes)
        address = _compiled("grouped", name, machine(), as_bytes)
    except (RuntimeError, ValueError) as error:
        LOG.info("products of groups with %s stay on numpy: %s", name, error)
        return None
    held = ready if calls else None
    block = numbers(
        vectors.GROUPED,
        w=w.ctypes.data, x=x.ctypes.data, y=y.ctypes.data, ready=ready.ctypes.data,
        sizes=sizes.ctypes.data, alarm=alarm.ctypes.data,
        n_rows=w.shape[1], w_row=w.strides[1], n_x=len(x), x_row=x.strides[0], ready_row=row,
        y_row=y.strides[0], blocks=x.shape[1] // form.size, groups=len(w), w_group=w.strides[0],
    )  # fmt: skip
    slots = [(0, 1), (1, 0), (2, 3), (4, 2), *([] if calls else [(3, 0)])]
    call = Call(address, block, slots, held, alarm=alarm)
    read = w[: len(x)].nbytes  # about: each row of x has a group of its own
    cut = Cut(6, w.shape[1], [(0, w.strides[1]), (2, 4)], GRAIN, GRAIN)
    return [*calls, replace(call, cut=cut, cost=read / PER_NS, label=f"packed groups {name}")]


def bind_rows(name: str, ids: Array, w: Array, y: Array) -> Sequence[Call] | None:
    """Return the call of ``y = W[ids]`` as floats, for packed rows; None: numpy has to.

    It sets an alarm where a number is no row's.
    """
    if ids.dtype != np.dtype("int64") or not ids.flags.c_contiguous or not y.size:
        return None
    form, alarm = LAYOUTS[name], np.zeros(1, np.int64)
    flat = y.reshape(-1, y.shape[-1])
    block = numbers(
        vectors.ROWS,
        w=w.ctypes.data, ids=ids.ctypes.data, y=y.ctypes.data, alarm=alarm.ctypes.data,
        n_ids=len(flat), w_row=w.strides[0], y_row=flat.strides[0],
        blocks=flat.shape[1] // form.size, n_rows=len(w),
    )  # fmt: skip
    try:
        address = _compiled("taken", name, machine(), False)
    except (RuntimeError, ValueError) as error:
        LOG.info("rows of %s stay on numpy: %s", name, error)
        return None
    return [Call(address, block, [(0, 1), (1, 0), (2, 2)], alarm=alarm)]


def bind_grad(name: str, g: Array, w: Array, y: Array) -> Sequence[Call] | None:
    """Return the calls of ``y[..., K] = g[..., F] @ W`` for packed rows; None: numpy has to.

    Some rows at a time are floats, in a scratch, and BLAS multiplies them. Operands are g, w and y.
    """
    if not y.size or not g.size:
        return None
    steps = Steps([g, w, y])
    flat, out = steps.dense(g).reshape(-1, g.shape[-1]), y.reshape(-1, y.shape[-1])
    step = max(1, HELD // out.shape[1])
    rows = steps.scratch((min(step, len(w)), out.shape[1]), y.dtype)
    ids = np.arange(len(rows))
    try:
        for start in range(0, len(w), step):
            part = w[start : start + step]
            taken = [ids[: len(part)], part, rows[: len(part)]]
            steps.add("rows", taken, functools.partial(_unchecked, name, *taken))
            here = flat[:, start : start + step]
            steps.product(here, taken[2], out, adds=start > 0)
    except DeclinedError:
        return None
    return steps.calls


def _unchecked(name: str, ids: Array, w: Array, y: Array) -> Sequence[Call] | None:
    """Return the call of rows that are there."""
    calls = bind_rows(name, ids, w, y)
    return calls and [replace(c, alarm=None, held=(c.held, c.alarm, ids)) for c in calls]


def _by_row(name: str, m: Machine, x: Array, w: Array, y: Array, *, as_bytes: bool) -> list[Call]:
    form, (n_x, k) = LAYOUTS[name], x.shape
    kind, tile = "vectors", 1
    if n_x <= vectors.TOGETHER and digits(form, m, as_bytes=as_bytes):
        tile = n_x
    elif 1 < n_x <= FEW and not as_bytes:
        kind, tile = "tile", n_x
    calls, ready, row = ([], x, 0) if kind == "tile" else _ready(name, m, x, as_bytes=as_bytes)
    held = ready if calls else None
    block = numbers(
        vectors.PRODUCT,
        w=w.ctypes.data, x=x.ctypes.data, y=y.ctypes.data, ready=ready.ctypes.data,
        n_rows=len(w), w_row=w.strides[0], n_x=n_x, x_row=x.strides[0], ready_row=row,
        y_row=y.strides[0], blocks=k // form.size,
    )  # fmt: skip
    slots = [(0, 1), (1, 0), (2, 2), *([] if held is not None else [(3, 0)])]
    address = _compiled(kind, name, m, as_bytes, tile)
    return [*calls, _cut(Call(address, block, slots, held), name, x, w)]


def _ready(name: str, m: Machine, x: Array, *, as_bytes: bool) -> tuple[list[Call], Array, int]:
    """Return what makes rows of x ready, where they are then, and the bytes of each."""
    form, (n_x, k) = LAYOUTS[name], x.shape
    row = activations.row_bytes(form, m, k, as_bytes=as_bytes)
    if not row:
        return [], x, row
    ready = _scratch(n_x * row)
    block = numbers(
        activations.ROWS,
        x=x.ctypes.data, y=ready.ctypes.data, rows=n_x, parts=k // PART,
        x_row=x.strides[0], y_row=row,
    )  # fmt: skip
    return [Call(_compiled("rows", name, m, as_bytes), block, [(0, 0)], ready)], ready, row


def by_panel(name: str, m: Machine, x: Array, w: Array, y: Array, *, as_bytes: bool) -> list[Call]:
    """Return the calls of a product of many rows; a weight of ``f32`` is floats."""
    form, calls, held = layout(name), [], None
    n_x, k = x.shape
    tiles = -(-n_x // panels.most(m))
    tile = -(-n_x // tiles)
    given = x
    if as_bytes:
        given = held = _scratch(tiles * (k // PART) * activations.record(form, tile))
        block = numbers(
            activations.TILES,
            x=x.ctypes.data, y=given.ctypes.data, tiles=tiles, rows=n_x, parts=k // PART,
            x_row=x.strides[0],
        )  # fmt: skip
        calls.append(Call(_compiled("tiles", name, m, as_bytes, tile), block, [(0, 0)], held))
    size = panels.scratch_bytes(form, m, as_bytes=as_bytes)
    scratch = _scratch(size)
    block = numbers(
        panels.PRODUCT,
        w=w.ctypes.data, x=given.ctypes.data, y=y.ctypes.data, scratch=scratch.ctypes.data,
        n_rows=len(w), w_row=w.strides[0], n_x=n_x, x_row=x.strides[0], y_row=y.strides[0],
        blocks=k // form.size, tiles=tiles,
    )  # fmt: skip
    slots = [(0, 1), (2, 2), *([] if as_bytes else [(1, 0)])]
    address = _compiled("panels", name, m, as_bytes, tile)
    call = Call(address, block, slots, (held, scratch), scratch=(3, size))
    return [*calls, _cut(call, name, x, w)]


def _cut(call: Call, name: str, x: Array, w: Array) -> Call:
    """Return a product that may be cut between rows of the weight: each has the same bits."""
    cut = Cut(4, len(w), [(0, w.strides[0]), (2, 4)], GRAIN, GRAIN)
    label = f"packed {name} {len(x).bit_length()} {w.nbytes.bit_length()}"
    return replace(call, cut=cut, cost=len(x) ** 0.5 * w.nbytes / PER_NS, label=label)


def _scratch(size: int) -> Array:
    raw = np.zeros(size + LINE, np.uint8)
    start = -raw.ctypes.data % LINE
    return raw[start : start + size]


@functools.cache
def _compiled(kind: str, name: str, m: Machine, as_bytes: bool, tile: int = 0) -> int:
    from ..compiler import compile_text  # llvmlite, which no import of ours may load

    form = layout(name)
    texts: dict[str, Callable[[], str]] = {
        "rows": lambda: activations.rows(form, m, as_bytes=as_bytes),
        "tiles": lambda: activations.tiles(form, m, tile),
        "vectors": lambda: vectors.product(form, m, tile, as_bytes=as_bytes),
        "grouped": lambda: vectors.grouped(form, m, as_bytes=as_bytes),
        "tile": lambda: vectors.tile(form, m, tile),
        "taken": lambda: vectors.taken(form, m),
        "panels": lambda: panels.product(form, m, tile, as_bytes=as_bytes),
    }
    return compile_text(texts[kind]())
