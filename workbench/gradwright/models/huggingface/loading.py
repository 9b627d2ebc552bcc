"""Weights of a model of transformers that are at hand already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import GraphError
from ...spec import spec_of
from ..decoder import Decoder
from .config import fitting
from .families import FAMILIES
from .weights import found_weights


def load_state_dict(model: Decoder, state: Mapping[str, Any], family: str | None = None) -> None:
    """Take over the weights of a model of transformers, ``theirs.state_dict()``, all or none.

    ``family`` is the kind of model whose names they have, by default the first whose models are
    such decoders. Raises ArchiveError for weights that are missing, left over, or of another shape.

    >>> import numpy as np
    >>> from gradwright.models import Decoder, DecoderConfig, load_state_dict
    >>> model = Decoder(DecoderConfig(vocabulary=20, width=16, layers=1, heads=2))
    >>> load_state_dict(model, {"lm_head.weight": np.zeros((20, 16), "float32")})
    Traceback (most recent call last):
        ...
    gradwright.errors.ArchiveError: the tensors are not those of a model of the kind 'llama'
      missing: model.embed_tokens.weight, model.layers.0.input_layernorm.weight, ...
    """
    if family is not None and family not in FAMILIES:
        raise GraphError(f"no family {family!r}", need=", ".join(FAMILIES))
    known = fitting(model.config) if family is None else FAMILIES[family]
    arrays = {name: np.asarray(value) for name, value in state.items()}
    specs = {name: spec_of(array) for name, array in arrays.items()}
    found = found_weights(known, model.config, specs, arrays.__getitem__)
    model.graph.values.commit({name: weight.host().copy() for name, weight in found.items()})
