"""The sign of 0 through rectifiers and clip: of x and a bound that are equal, x, as in torch."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import gradwright as gw

FORMS = {
    "relu": gw.nn.relu,
    "relu6": gw.nn.relu6,
    "leaky_relu": gw.nn.leaky_relu,
    "prelu": lambda x: gw.nn.prelu(x, 0.25),
    "elu": gw.nn.elu,
    "celu": gw.nn.celu,
    "selu": gw.nn.selu,
    "hard_tanh": gw.nn.hard_tanh,
    "hard_tanh_from_0": lambda x: gw.nn.hard_tanh(x, min=0.0),
    "hard_tanh_to_0": lambda x: gw.nn.hard_tanh(x, max=0.0),
    "clip_from_0": lambda x: gw.clip(x, min=0.0),
    "clip_to_0": lambda x: gw.clip(x, max=0.0),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_zeros_keep_their_sign_and_nan_goes_through(dtype):
    g = gw.Graph()
    x = g.placeholder("x", (None,), dtype)
    ys = [form(x) for form in FORMS.values()]
    array = np.array([-0.0, 0.0, np.nan] * 20)
    array = array.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    for kernels in ("off", "wait"):
        with gw.Session(g, kernels=kernels) as s:
            found = s.run(ys, {x: array})
        for name, y in zip(FORMS, found, strict=True):
            wide = y.astype(np.float64)
            signs = np.signbit(wide).reshape(20, 3)[:, :2]
            assert np.all(wide.reshape(20, 3)[:, :2] == 0), (name, kernels)
            assert np.all(signs == [True, False]), (name, kernels)
            assert np.all(np.isnan(wide[2::3])), (name, kernels)


WIDER = [("float16", "float32"), ("float16", "float64"), ("bfloat16", "float64"),
         ("float32", "float64")]  # fmt: skip


@pytest.mark.parametrize(("narrow", "wide"), WIDER)
@pytest.mark.parametrize("bound", ["min", "max"])
def test_zeros_that_were_widened_keep_their_sign_beside_other_uses(narrow, wide, bound):
    g = gw.Graph()
    x = gw.cast(g.placeholder("x", (None,), narrow), wide)
    y = gw.nn.hard_tanh(x, **{bound: 0.0})
    fetches = [y, gw.cast(y, narrow), gw.nn.prelu(x, 0.25), x < 0]
    array = np.array([-0.0, 0.0] * 40).astype(gw.spec.dtype(narrow))
    for kernels in ("off", "wait"):
        with gw.Session(g, kernels=kernels) as s:
            found = s.run(fetches, {g["x"]: array})
        for z in found[:3]:
            assert np.array_equal(np.signbit(z.astype(np.float64)), [True, False] * 40), kernels


def test_bounds_that_are_nan_give_nan():
    g = gw.Graph()
    x, low = g.placeholder("x", (None,)), g.placeholder("low", (None,))
    y = gw.clip(x, min=low)
    for kernels in ("off", "wait"):
        with gw.Session(g, kernels=kernels) as s:
            found = s.run(y, {x: [1.0, -2.0, -0.0], low: [np.nan, -1.0, 0.0]})
        np.testing.assert_array_equal(found, [np.nan, -1.0, 0.0])
