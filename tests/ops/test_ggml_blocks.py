"""Blocks of ggml's formats beside the package ``gguf``: bits read, bytes written, losses."""

from __future__ import annotations

import numpy as np
import pytest

from gradwright.ops.quantised.blocks import FORMATS, WRITTEN, packed_ggml, unpacked

gguf = pytest.importorskip("gguf")
quants = pytest.importorskip("gguf.quants")

LOSS = {"q4_k": 0.0725, "q5_k": 0.0365, "q6_k": 0.0178}
"""Root of the mean square error of normal numbers at most; by the ranges of parts alone, q4_k has
0.0758 and q6_k 0.0185."""


def kind(name: str) -> int:
    return gguf.GGMLQuantizationType[name.upper()]


def awkward(rng: np.random.Generator, size: int) -> np.ndarray:
    """Rows with a zero, a constant, one number, tiny and large ones among normal ones."""
    x = rng.standard_normal((200, size)).astype("f4")
    x[0], x[1], x[2] = 0, 1, -3
    x[3, 1:] = 0
    for i, scale in enumerate([1e-35, 1e-20, 1e-7, 1e-4, 1e3], 4):
        x[i] *= np.float32(scale)
    x[9] = np.round(x[9] * 4) / 4  # ties
    x[10], x[11] = np.abs(x[10]), -np.abs(x[11])
    x[12, ::2] = -0.0
    return x


@pytest.mark.parametrize("name", FORMATS)
def test_blocks_of_any_bytes_are_read_as_the_package_reads_them(name, rng):
    form = FORMATS[name]
    assert gguf.GGML_QUANT_SIZES[kind(name)] == (form.size, form.n_bytes)
    raw = rng.integers(0, 256, (400, 2 * form.n_bytes), dtype=np.uint8)
    with np.errstate(all="ignore"):  # scales are any float16, NaN and infinite ones too
        ours, theirs = unpacked(raw, name), quants.dequantize(raw, kind(name))
    assert ours.shape == (400, 2 * form.size)
    np.testing.assert_array_equal(np.isnan(ours), np.isnan(theirs))
    held = ~np.isnan(ours)
    assert np.array_equal(ours[held].view("u4"), theirs[held].view("u4"))


@pytest.mark.parametrize("name", WRITTEN)
def test_numbers_too_small_for_a_scale_become_zeros(name, rng):
    x = rng.standard_normal((4, 256)).astype("f4") * np.float32(1e-40)
    assert not unpacked(packed_ggml(x, name), name).any()


@pytest.mark.parametrize("name", [n for n in WRITTEN if n not in LOSS])
def test_bytes_are_those_of_the_c_library(name, rng):
    """The package writes these formats byte for byte as ggml's C code does."""
    x = awkward(rng, 2 * FORMATS[name].size)
    assert np.array_equal(packed_ggml(x, name), quants.quantize(x, kind(name)))


@pytest.mark.parametrize(("name", "loss"), LOSS.items())
def test_formats_of_parts_search_for_scales(name, loss, rng):
    x = rng.standard_normal((1024, 256)).astype("f4")
    error = unpacked(packed_ggml(x, name), name) - x
    assert np.sqrt(np.mean(error**2)) < loss
    for row in awkward(rng, 256):
        back = unpacked(packed_ggml(row[None], name), name)[0]
        step = np.ptp(row) / (1 << int(name[1])) + np.abs(row).max() / 63
        if np.abs(row).max() > 1e-3:  # below, float16 has no scales
            assert np.abs(back - row).max() < step
        assert np.isfinite(back).all()
