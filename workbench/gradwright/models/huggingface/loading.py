"""Weights of a model of transformers that are at hand already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...errors import GraphError
from ...spec import spec_of
from .kinds import kind_for
from .weights import found_weights, written_weights

Array = np.ndarray[Any, Any]


def load_state_dict(model: Any, state: Mapping[str, Any], family: str | None = None) -> None:
    """Take over the weights of a model of transformers, ``theirs.state_dict()``, all or none.

    ``family`` is the kind of model whose names they have, by default the first whose models are
    such decoders. Raises ArchiveError for weights that are missing, left over, or of another shape.

    >>> from gradwright.models import Decoder, DecoderConfig, load_state_dict, state_dict
    >>> config = DecoderConfig(vocabulary=20, width=16, layers=1, heads=2)
    >>> one, other = Decoder(config, seed=1), Decoder(config, seed=2)
    >>> load_state_dict(other, state_dict(one))
    >>> bool((one.graph.values["layer0/q"] == other.graph.values["layer0/q"]).all())
    True
    """
    known = kind_for(model, family).family
    arrays = {name: np.asarray(value) for name, value in state.items()}
    specs = {name: spec_of(array) for name, array in arrays.items()}
    found = found_weights(known, model.config, specs, arrays.__getitem__)
    model.graph.values.commit({name: weight.host().copy() for name, weight in found.items()})


def state_dict(model: Any, family: str | None = None) -> dict[str, Array]:
    """Return the weights by the names that they have in files of transformers.

    ``family`` as for ``load_state_dict``. A tied head is not among them. Raises GraphError where no
    family has such decoders.

    >>> from gradwright.models import Decoder, DecoderConfig, state_dict
    >>> model = Decoder(DecoderConfig(vocabulary=20, width=16, layers=1, heads=2))
    >>> state_dict(model)["model.layers.0.mlp.down_proj.weight"].shape
    (16, 64)
    """
    if getattr(model, "packed", None):
        raise GraphError(
            f"{next(iter(model.packed))!r} lies in blocks, which transformers does not read so"
        )
    return written_weights(kind_for(model, family).family, model.config, model.graph.values)
