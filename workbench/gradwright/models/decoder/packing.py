"""How a weight of a decoder lies in few bits: the variables that hold it, and the numbers it is.

Blocks of a ggml format lie in one variable, u8[out, bytes of a row]. NF4 (Dettmers et al. 2023) has
scales of its own, one of each 64 numbers in the order of rows:

    q            u8[out, in/2]     two codes per byte
    q_absmax     f32[blocks]       "nf4": 4.5 bits a number
    q_absmax     u8[blocks]        "nf4_double": 4.127 bits; absmax = code·nested + offset,
    q_nested     f32[blocks/256]   with the code's number in the signed dynamic map
    q_offset     f32[]
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ... import nn, quant
from ...errors import GraphError, ShapeError
from ...graph import Tensor
from ...ops.quantised.blocks import FORMATS, packed_ggml, unpacked
from ...ops.quantised.nf4 import nested, packed_nf4, unnested, unpacked_nf4

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]
NF4 = ("nf4", "nf4_double")
UNPACKED = ("positions", "router", "segments")
"""Ends of names of matrices whose rows no product reads from blocks."""
BLOCK = 64
"""Numbers that share a scale of NF4."""
NESTED = 256
"""Scales that share one in turn."""
PIECE = 1 << 22
"""Numbers that are packed at a time; whole blocks, and whole blocks of scales."""


def is_packable(name: str, shape: tuple[int, ...], kind: str = "") -> bool:
    """Tell whether products read a weight from blocks: a matrix, or those of experts.

    NF4 holds matrices alone, and no table of an embedding, whose rows are read one by one.

    >>> is_packable("layer0/up", (8, 96, 64)), is_packable("positions", (32, 64))
    (True, False)
    >>> is_packable("layer0/up", (8, 96, 64), "nf4"), is_packable("embed", (32, 64), "nf4")
    (False, False)
    """
    if kind in NF4 and (len(shape) == 3 or name == "embed"):
        return False
    return len(shape) in (2, 3) and not name.endswith(UNPACKED)


def packed_shape(shape: tuple[int, ...], kind: str) -> tuple[int, ...]:
    """Return the shape of a matrix in blocks; raises ShapeError for rows that are not whole ones.

    >>> packed_shape((8, 64), "q8_0"), packed_shape((8, 64), "nf4")
    ((8, 68), (8, 32))
    """
    if kind in NF4:
        if shape[-1] % 2:
            raise ShapeError(f"rows of {shape[-1]} are no bytes of {kind}", need="n·2")
        return (*shape[:-1], shape[-1] // 2)
    form = FORMATS.get(kind)
    if form is None:
        raise GraphError(f"no blocks of {kind!r}", need=", ".join((*FORMATS, *NF4)))
    if shape[-1] % form.size:
        raise ShapeError(f"rows of {shape[-1]} are no blocks of {kind}", need=f"n·{form.size}")
    return (*shape[:-1], shape[-1] // form.size * form.n_bytes)


def lies_in(name: str, shape: tuple[int, ...], kind: str) -> dict[str, tuple[Sizes, str]]:
    """Return shape and dtype of the variables that hold a weight, the one of its own name first.

    >>> lies_in("q", (64, 512), "nf4")
    {'q': ((64, 256), 'uint8'), 'q_absmax': ((512,), 'float32')}
    """
    found: dict[str, tuple[Sizes, str]] = {name: (packed_shape(shape, kind), "uint8")}
    if kind not in NF4:
        return found
    n = -(-math.prod(shape) // BLOCK)
    if kind == "nf4":
        return {**found, f"{name}_absmax": ((n,), "float32")}
    found[f"{name}_absmax"] = (n,), "uint8"
    found[f"{name}_nested"] = (-(-n // NESTED),), "float32"
    found[f"{name}_offset"] = (), "float32"
    return found


def product(y: Tensor, held: Mapping[str, Tensor], n_out: int, kind: str, how: str) -> Tensor:
    """Return y @ weightᵀ; ``held`` is what the weight lies in, as of `lies_in`.

    ``how`` is what y is multiplied as, where the format leaves a choice.
    """
    weight, *scales = held.values()
    if kind not in NF4:
        return nn.ggml_matmul(y, weight, format=kind, activations=how)
    absmax = scales[0]
    if kind == "nf4_double":
        absmax = quant.dequantize_blockwise(absmax, scales[1], block_size=NESTED) + scales[2]
    return nn.nf4_matmul(y, weight, absmax, out_features=n_out, block_size=BLOCK)


def packed(name: str, x: Array, kind: str) -> dict[str, Array]:
    """Return the values of what a weight lies in.

    >>> {k: v.shape for k, v in packed("q", np.ones((4, 64), "f4"), "nf4").items()}
    {'q': (4, 32), 'q_absmax': (4,)}
    """
    shape = packed_shape(x.shape, kind)
    if kind not in NF4:
        return {name: packed_ggml(x, kind)}
    flat = x.reshape(-1)
    parts = [packed_nf4(flat[i : i + PIECE], BLOCK) for i in range(0, flat.size, PIECE)]
    codes, absmax = (np.concatenate(each) for each in zip(*parts, strict=True))
    found = {name: codes.reshape(shape), f"{name}_absmax": absmax}
    if kind == "nf4_double":
        names = f"{name}_absmax", f"{name}_nested", f"{name}_offset"
        found |= dict(zip(names, nested(absmax, NESTED), strict=True))
    return found


def pieces(
    held: Mapping[str, Array], shape: tuple[int, ...], kind: str
) -> Iterator[tuple[slice, Array]]:
    """Yield some rows after the others of a weight or of experts, and their numbers as float32.

    ``held`` are the values of what it lies in, as of `lies_in`.
    """
    weight, *scales = held.values()
    n, rows = shape[-1], math.prod(shape[:-1])
    by_rows = weight.reshape(rows, -1)
    if kind in NF4:
        absmax = scales[0] if kind == "nf4" else unnested(scales[0], scales[1], scales[2], NESTED)
    step = max(1, PIECE // n)
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        if kind in NF4:
            flat = unpacked_nf4(weight, absmax, start * n, stop * n, BLOCK)
            yield slice(start, stop), flat.reshape(-1, n)
        else:
            yield slice(start, stop), unpacked(by_rows[start:stop], kind)


def floats(held: Mapping[str, Array], shape: tuple[int, ...], kind: str) -> Array:
    """Return a whole weight as float32.

    >>> w = np.array([[1.0, -1.0, 0.0, 0.5]], "f4")
    >>> floats(packed("q", w, "nf4"), (1, 4), "nf4")[0, :3].tolist()
    [1.0, -1.0, 0.0]
    """
    found = np.empty((math.prod(shape[:-1]), shape[-1]), np.float32)
    for rows, part in pieces(held, shape, kind):
        found[rows] = part
    return found.reshape(shape)


def floats_of(model: Any, name: str) -> Array:
    """Return a weight of a model as float32, whatever it lies in."""
    held, kind = model.graph.values, getattr(model, "packed", {}).get(name)
    if kind is None:
        return np.asarray(held[name])
    shape = dict(model.config.weights())[name]
    return floats({part: held[part] for part in lies_in(name, shape, kind)}, shape, kind)
