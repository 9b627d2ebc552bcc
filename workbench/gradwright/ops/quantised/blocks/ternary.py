"""Blocks of 256 numbers of three values, −d, 0 and d; d is a float16 at the end.

    tq1_0   54 bytes: 48 + 4 bytes of five (the last four) digits of base 3, and d    x = (q − 1)·d
    tq2_0   66 bytes: 64 bytes of four fields of 2 bits, and d                        x = (q − 1)·d

The digits of a byte are those of the fraction byte/256 to base 3, the first the most significant.
"""

from __future__ import annotations

import numpy as np

from .block import Array, Format, fields, floats


def _digits(raw: Array, run: int, count: int) -> Array:
    """Return digits of base 3: of ``run`` bytes all first ones, then all second ones."""
    powers = np.array([1, 3, 9, 27, 81], np.uint8)[:count, None]
    shifted = raw.reshape(len(raw), -1, 1, run) * powers  # modulo 256: the fraction that is left
    found: Array = (shifted.astype(np.uint16) * 3 >> 8).reshape(len(raw), -1)
    return found


def _unpack_tq1_0(raw: Array) -> Array:
    parts = _digits(raw[:, :32], 32, 5), _digits(raw[:, 32:48], 16, 5), _digits(raw[:, 48:52], 4, 4)
    return floats(raw[:, 52:]) * (np.concatenate(parts, axis=1).astype(np.float32) - 1)


def _unpack_tq2_0(raw: Array) -> Array:
    return floats(raw[:, 64:]) * (fields(raw[:, :64], 2, 32).astype(np.float32) - 1)


TERNARY = {"tq1_0": Format(256, 54, _unpack_tq1_0), "tq2_0": Format(256, 66, _unpack_tq2_0)}
