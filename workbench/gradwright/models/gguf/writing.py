"""A model written as a GGUF file, and its tokenizer with it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ...errors import GraphError
from ...formats.gguf.kinds import BY_NAME
from ...formats.gguf.writing import write
from ...ops.quantised.blocks import WRITTEN
from ..completion import tokens_of
from ..decoder import Decoder, DecoderConfig
from ..decoder.packing import NF4, floats_of, is_packable
from ..decoder.pairs import by_halves, by_neighbours
from ..encoders.bert import Bert
from .architectures import FOLDED, Config, architecture_of, keys_of, stored_config
from .names import Place, places
from .tokenizers import NONE
from .vocabularies import tokenizer_keys

Array = np.ndarray[Any, Any]
FLOATS = ("f32", "f16", "bf16")


def save_gguf(
    model: Decoder | Bert,
    path: str | os.PathLike[str],
    *,
    kind: str = "f32",
    architecture: str | None = None,
    name: str | None = None,
) -> None:
    """Write a decoder or a BERT as a GGUF file, with its tokenizer, whole or not at all.

    Matrices are stored as ``kind``: ``"f32"``, ``"f16"``, ``"bf16"`` or a format of blocks, such as
    ``"q8_0"``; those whose rows are no whole blocks stay float32, and packed ones stay as they are,
    but NF4, which GGUF has not. Norms and biases are always float32. The architecture is the one of
    the config, if GGUF has it; llama.cpp looks at no window in files of ``"llama"`` and ``"phi3"``.

    Raises:
        GraphError: GGUF has no architecture that does what the config says, or no such kind.
        ArchiveError: a tensor cannot be stored.

    >>> import pathlib, tempfile, gradwright as gw
    >>> from gradwright.models import Decoder, DecoderConfig, save_gguf
    >>> model = Decoder(DecoderConfig(vocabulary=32, width=32, layers=1, heads=2, inner=64))
    >>> path = pathlib.Path(tempfile.mkdtemp(), "small.gguf")
    >>> save_gguf(model, path, kind="q4_0")
    >>> gw.inspect(path).parameters == model.n_weights
    True
    """
    if kind not in (*FLOATS, *WRITTEN):
        raise GraphError(f"no kind {kind!r}", need=", ".join((*FLOATS, *WRITTEN)))
    chosen = architecture or architecture_of(model.config)
    keys, factors = keys_of(model.config, chosen)
    keys["general.name"] = name or model.graph.name
    held = _Stored(model, chosen, factors)
    kinds = {tensor: held.kind(tensor, kind) for tensor in held}
    if not set(kinds.values()) <= set(FLOATS):
        keys["general.quantization_version"] = 2
    if model.tokenizer is None:
        keys["tokenizer.ggml.model"] = NONE[0]
    else:
        keys |= tokenizer_keys(model.tokenizer, model.config.vocabulary)
        keys |= _ends(model, keys) if isinstance(model, Decoder) else {}
    write(path, keys, held, kinds)


def _ends(model: Decoder, keys: Mapping[str, Any]) -> dict[str, Any]:
    eos = tokens_of(model.eos)
    known = {v for k, v in keys.items() if k.startswith("tokenizer.ggml.eo") and "token_id" in k}
    if not eos or set(eos) <= known:
        return {}
    return {"tokenizer.ggml.eos_token_id": int(eos[0])}


class _Stored(Mapping[str, Array]):
    """The tensors of a file, made when asked for: fused, in their order, norms with their 1."""

    def __init__(
        self, model: Decoder | Bert, architecture: str, factors: Mapping[str, Array]
    ) -> None:
        self._model, self._values, self._packed = model, model.graph.values, model.packed
        self._config: Any = model.config
        self._factors = factors
        self._adds_one = architecture in FOLDED and model.config.norm == "rms_plus_one"
        stored = stored_config(model.config, architecture)
        self._interleaves = _interleaved(stored) - _interleaved(model.config)
        self._places: dict[str, list[Place]] = {}
        for place in places(stored, architecture):
            self._places.setdefault(place.tensor, []).append(place)

    def kind(self, tensor: str, wanted: str) -> str:
        """Return what a tensor is stored as."""
        if tensor in self._factors:
            return "f32"
        parts = self._places[tensor]
        held = {self._packed.get(place.name) for place in parts}
        if len(held) == 1 and (one := held.pop()) is not None and one not in NF4:
            return one
        fits = parts[0].shape[-1] % BY_NAME[wanted].size == 0
        return wanted if fits and is_packable(parts[0].name, parts[0].shape) else "f32"

    def __getitem__(self, tensor: str) -> Array:
        if tensor in self._factors:
            return self._factors[tensor]
        parts = self._places[tensor]
        kinds = {self._packed.get(place.name) for place in parts}
        as_floats = len(kinds) > 1 or not kinds.isdisjoint(NF4)
        found = [self._part(place, as_floats) for place in parts]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def __iter__(self) -> Iterator[str]:
        yield from self._places
        yield from self._factors

    def __len__(self) -> int:
        return len(self._places) + len(self._factors)

    def _part(self, place: Place, as_floats: bool) -> Array:
        """Return a weight as the file has it; parts of several kinds become floats."""
        data = floats_of(self._model, place.name) if as_floats else self._values[place.name]
        label = place.name.rpartition("/")[2].removesuffix("_bias")
        if self._interleaves and label in ("q", "k"):
            order = by_neighbours if self._interleaves > 0 else by_halves
            data = order(data, self._config.heads if label == "q" else self._config.shared)
        if self._adds_one and label.endswith("norm"):
            data = data + np.float32(1)
        return data


def _interleaved(config: Config) -> bool:
    """Tell whether the pairs that turn lie side by side; a BERT has none."""
    return isinstance(config, DecoderConfig) and config.interleaved
