"""The kinds of tensors and of values, by the numbers that files have for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ops.quantised.blocks import FORMATS
from ...spec import dtype as as_dtype

_ORDER = """
    f32 f16 q4_0 q4_1 - - q5_0 q5_1 q8_0 q8_1 q2_k q3_k q4_k q5_k q6_k q8_k iq2_xxs iq2_xs iq3_xxs
    iq1_s iq4_nl iq3_s iq2_s iq4_xs i8 i16 i32 i64 f64 iq1_m bf16 - - - tq1_0 tq2_0 - - - mxfp4
    nvfp4 q1_0
"""  # there are no kinds of the other numbers any more
NUMBERS = {name: i for i, name in enumerate(_ORDER.split()) if name != "-"}
"""Kind of a tensor -> its number."""
_DTYPES = {"bf16": "bfloat16", **{f"f{n}": f"float{n}" for n in (16, 32, 64)}}
_DTYPES |= {f"i{n}": f"int{n}" for n in (8, 16, 32, 64)}
_UNREAD = {"q8_1": (32, 40), "q8_k": (256, 292), "q1_0": (128, 18)}
"""Kinds that are told of and not read: ggml keeps activations in the first two."""


@dataclass(frozen=True)
class Kind:
    """How elements of a tensor are stored: ``size`` of them in ``n_bytes``.

    ``dtype`` is that of elements, None where they lie in blocks; ``is_read`` says whether these are
    turned into numbers here.
    """

    name: str
    size: int
    n_bytes: int
    dtype: np.dtype[Any] | None
    is_read: bool


def _kind(name: str) -> Kind:
    if name in _DTYPES:
        dtype = as_dtype(_DTYPES[name])
        return Kind(name, 1, dtype.itemsize, dtype, True)
    if name in FORMATS:
        return Kind(name, FORMATS[name].size, FORMATS[name].n_bytes, None, True)
    return Kind(name, *_UNREAD[name], None, False)


KINDS = {number: _kind(name) for name, number in NUMBERS.items()}
"""Number of a kind -> the kind."""
BY_NAME = {kind.name: kind for kind in KINDS.values()}

FLOAT, BOOL, STRING, ARRAY = 6, 7, 8, 9
SCALARS = {
    number: np.dtype(code)
    for number, code in {
        **{0: "u1", 1: "i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", BOOL: "?"},
        **{10: "<u8", 11: "<i8", 12: "<f8"},
    }.items()
}
"""Number of a type of values -> its dtype; texts and arrays stand beside them."""
