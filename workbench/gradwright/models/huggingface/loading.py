"""Weights of a model of transformers that are at hand already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ...errors import GraphError
from ...spec import spec_of
from ..decoder.packing import floats_of
from ..decoder.pairs import by_halves, by_neighbours
from .kinds import kind_for
from .weights import found_weights, written_weights

Array = np.ndarray[Any, Any]


def load_state_dict(model: Any, state: Mapping[str, Any], family: str | None = None) -> None:
    """Take over the weights of a model of transformers, ``theirs.state_dict()``, all or none.

    ``family`` is the kind of model whose names they have, by default the first whose models are
    such decoders. Raises ArchiveError for weights that are missing, left over, or of another shape,
    and GraphError for a model whose weights lie in blocks.

    >>> from gradwright.models import Decoder, DecoderConfig, load_state_dict, state_dict
    >>> config = DecoderConfig(vocabulary=20, width=16, layers=1, heads=2)
    >>> one, other = Decoder(config, seed=1), Decoder(config, seed=2)
    >>> load_state_dict(other, state_dict(one))
    >>> bool((one.graph.values["layer0/q"] == other.graph.values["layer0/q"]).all())
    True
    """
    if getattr(model, "packed", None):
        raise GraphError(f"{next(iter(model.packed))!r} lies in blocks", hint="a model of floats")
    known = kind_for(model, family).family
    arrays = {name: np.asarray(value) for name, value in state.items()}
    specs = {name: spec_of(array) for name, array in arrays.items()}
    found = found_weights(known, model.config, specs, arrays.__getitem__)
    values = {name: weight.host() for name, weight in found.items()}
    for name, array in values.items():
        heads = _turned_heads(model.config, name)
        values[name] = array.copy() if heads is None else by_neighbours(array, heads)
    model.graph.values.commit(values)


def state_dict(model: Any, family: str | None = None) -> dict[str, Array]:
    """Return the weights by the names that they have in files of transformers.

    ``family`` as for ``load_state_dict``. A tied head is not among them; weights in blocks are
    unpacked. Raises GraphError where no family has such decoders.

    >>> from gradwright.models import Decoder, DecoderConfig, state_dict
    >>> model = Decoder(DecoderConfig(vocabulary=20, width=16, layers=1, heads=2))
    >>> state_dict(model)["model.layers.0.mlp.down_proj.weight"].shape
    (16, 64)
    """
    config = _plain(model.config)
    values = {name: _read(model, name) for name, _ in config.weights()}
    return written_weights(kind_for(model, family).family, config, values)


def _plain(config: Any) -> Any:
    """Return a config whose pairs of rotary features lie as they do in these files."""
    return replace(config, interleaved=False) if getattr(config, "interleaved", False) else config


def _read(model: Any, name: str) -> Array:
    """Return a weight as these files have it: float32, rows of queries and keys by halves."""
    array = floats_of(model, name)
    heads = _turned_heads(model.config, name)
    return array if heads is None else by_halves(array, heads)


def _turned_heads(config: Any, name: str) -> int | None:
    """Return how many heads the rows of a weight are, whose order is another here; None if not."""
    label = name.rpartition("/")[2].removesuffix("_bias")
    if label not in ("q", "k") or not getattr(config, "interleaved", False):
        return None
    heads: int = config.heads if label == "q" else config.shared
    return heads
