"""Arguments of attention's kernels: arrays as they lie, settings of the op, sizes of tiles."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import triton.language as tl

from gradwright.ops.attention.tiled import LOW, Tiled, blind
from gradwright.ops.attention.weights import scale_of
from gradwright.spec import TensorSpec, kind

from ..launch import accumulator, fitted, index_type, named, reach

Tile = tuple[float, bool, int, int, int, int, int]
"""What a tile is for and what it is: heads of up to so many features; whether of masks, windows and
widths that are no power of two, too; then the features of a piece, queries, keys, warps, and loads
under way."""
TILES: dict[int, list[Tile]] = {
    2: [
        (64, False, 64, 128, 64, 8, 3),
        (64, True, 64, 64, 64, 4, 3),
        (128, False, 128, 128, 64, 8, 3),
        (128, True, 128, 64, 32, 8, 2),
        (math.inf, True, 32, 64, 32, 8, 1),
    ],
    4: [(math.inf, True, 64, 32, 32, 8, 1)],
    8: [(math.inf, True, 32, 16, 16, 8, 1)],
}
"""By bytes of an element; the first that fits is taken. No spills on sm_80 to sm_100."""
AXES = "batch", "head", "row", "col"


def is_taken(*specs: TensorSpec | None) -> bool:
    """Tell whether kernels take these dtypes: floats of 16 to 64 bits."""
    return accumulator(*specs) is not None


def settings(
    op: Tiled, xs: Sequence[Any], mask: Any, tiles: Mapping[int, list[Tile]] = TILES
) -> Any:
    """Return what all kernels take: sizes, positions, dtypes, tiles; and options of the compiler.

    ``xs`` are query, key and value as they lie, and others that offsets have to reach.
    """
    query, _, value = xs[:3]
    (_, heads, n_rows, width), (_, own, n_cols, of_value) = query.shape, value.shape
    same = len({x.dtype for x in xs[:3]}) == 1
    acc = accumulator(*(TensorSpec((), x.dtype) for x in xs[:3]))
    size = query.itemsize if same else acc.primitive_bitwidth // 8
    widest = max(width, of_value, 1)
    plain = mask is None and op.reach[0] < 0 and {width, of_value} <= {64, 128}
    fitting = (t for t in tiles[size] if widest <= t[0] and (plain or t[1]))
    _, _, piece, rows, cols, *options = next(fitting)
    wide = np.dtype(np.float64 if acc is tl.float64 else np.float32)
    (left, right), shuts = op.reach, mask is not None and kind(mask.dtype) == "b"
    found = {
        "n_rows": n_rows,
        "n_cols": n_cols,
        "n_heads": heads,
        "share": heads // own,
        "left": left,
        "right": right,
        "offset": int(op.starts(n_rows, n_cols)),
        "SCALE": float(scale_of(op.scale, width)),
        "WIDTH": width,
        "OF_VALUE": of_value,
        "PIECE": fitted(piece, width),
        "PIECE_OF_VALUE": fitted(piece, of_value),
        "ROWS": fitted(rows, n_rows),
        "COLS": fitted(cols, n_cols),
        "LOW": LOW if op.unseen == "average" else -math.inf,
        "BLIND": blind(wide) if op.may_be_blind(mask) else None,
        "SHUTS": shuts,
        "LEFT": left >= 0,
        "RIGHT": right >= 0,
        "OPERAND": named(query.dtype) if same else acc,
        "ACC": acc,
        "INDEX": index_type(max(reach(x) for x in (*xs, mask) if x is not None)),
    }
    return found, {"num_warps": options[0], "num_stages": options[1]}


def lying(name: str, x: Any, axes: Sequence[str] = AXES) -> dict[str, Any]:
    """Return the pointer of an array and its strides in elements, 0 along an axis of one."""
    found = {f"{name}_ptr": None if x is None else x.dtype}
    own = [0] * len(axes) if x is None else paces(x, len(axes))
    return found | {f"{name}_{axis}": step for axis, step in zip(axes, own, strict=True)}


def paces(x: Any, rank: int) -> list[int]:
    """Return the strides of an array that is broadcast to so many axes, in elements."""
    own = [0 if n == 1 else s // x.itemsize for n, s in zip(x.shape, x.strides, strict=True)]
    return [0] * (rank - x.ndim) + own
