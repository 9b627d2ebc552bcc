"""Fourier transforms and mel filters."""

from __future__ import annotations

from typing import Any

from ....spec import TensorSpec
from ..dtypes import from_element_type
from ..node import OnnxNode, one, op, open_dims, reads


@reads("DFT", since=17, values=(1,))
def dft_along_attribute(node: OnnxNode, x: Any, length: Any = None) -> Any:
    return _dft(node, x, length, node.get("axis", 1))


@reads("DFT", since=20, values=(1, 2))
def dft(node: OnnxNode, x: Any, length: Any = None, axis: Any = None) -> Any:
    return _dft(node, x, length, -2 if axis is None else int(one(axis)))


def _dft(node: OnnxNode, x: Any, length: Any, axis: int) -> Any:
    n = None if length is None else int(one(length))
    flags = {"inverse": node.flag("inverse"), "onesided": node.flag("onesided")}
    return op("dft", dft_length=n, axis=axis, **flags)(x)


def _frames(node: OnnxNode, signal: TensorSpec, *rest: Any) -> list[TensorSpec]:
    return [open_dims(4, signal.dtype)]


@reads("STFT", since=17, values=(1, 3), outputs=_frames)
def stft(node: OnnxNode, signal: Any, step: Any, window: Any = None, length: Any = None) -> Any:
    n = None if length is None else int(one(length))
    made = op(
        "stft", frame_step=int(one(step)), frame_length=n, onesided=node.flag("onesided", True)
    )
    return made(signal, window)


def _bands(node: OnnxNode, *xs: TensorSpec) -> list[TensorSpec]:
    return [open_dims(2, from_element_type(node.get("output_datatype", 1)))]


@reads("MelWeightMatrix", since=17, values=range(5), outputs=_bands)
def mel_weight_matrix(node: OnnxNode, *sizes: Any) -> Any:
    bins, length, rate, low, high = map(one, sizes)
    return op(
        "mel_weight_matrix", num_mel_bins=bins, dft_length=length, sample_rate=rate,
        lower_edge_hertz=float(low), upper_edge_hertz=float(high),
        dtype=from_element_type(node.get("output_datatype", 1)),
    )()  # fmt: skip
