"""Fourier transforms and mel filters."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....spec import TensorSpec
from ...foreign import Value, attribute
from ..node import OnnxNode, maps, one, op, open_dims, reads

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


@reads("STFT", since=17, values=(1, 3), outputs=_frames, attributes={"onesided": True})
def stft(node: OnnxNode, signal: Any, step: Any, window: Any = None, length: Any = None) -> Any:
    """Transform frames; a real signal may come without its last axis of 1, as torch writes it."""
    if signal.rank == 2:
        signal = op("expand_dims", axis=2)(signal)
    n = None if length is None else int(one(length))
    made = op("stft", frame_step=int(one(step)), frame_length=n, onesided=bool(node["onesided"]))
    return made(signal, window)


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
