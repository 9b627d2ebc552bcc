"""Fourier transforms and mel filters."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....spec import TensorSpec
from ...foreign import Value, attribute
from ..node import OnnxNode, maps, open_dims

_FLAGS: dict[str, Any] = {"inverse": False, "onesided": False}

maps(
    "DFT", "dft", since=17, attributes={**_FLAGS, "axis": 1}, takes={"dft_length": Value(1)},
)  # fmt: skip
maps(
    "DFT", "dft", since=20, attributes=_FLAGS,
    takes={"dft_length": Value(1), "axis": Value(2, default=-2)},
)  # fmt: skip


def _frames(node: OnnxNode, signal: TensorSpec, *rest: Any) -> list[TensorSpec]:
    return [open_dims(4, signal.dtype)]


maps(
    "STFT", "stft", since=17, inputs=(0, 2), attributes={"onesided": True},
    takes={"frame_step": Value(1), "frame_length": Value(3)}, outputs=_frames,
)  # fmt: skip


def _bands(node: OnnxNode, *xs: TensorSpec) -> list[TensorSpec]:
    return [open_dims(2, node["output_datatype"])]


maps(
    "MelWeightMatrix", "mel_weight_matrix", since=17, outputs=_bands,
    attributes={"output_datatype": attribute(np.dtype, np.dtype(np.float32))},
    takes={
        "num_mel_bins": Value(0), "dft_length": Value(1), "sample_rate": Value(2),
        "lower_edge_hertz": Value(3), "upper_edge_hertz": Value(4), "dtype": "output_datatype",
    },
)  # fmt: skip
