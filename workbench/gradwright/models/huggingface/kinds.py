"""All kinds of models that folders of Hugging Face are read as, and how one is made of a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...errors import ArchiveError, GraphError
from ...spec import TensorSpec
from ..decoder import Decoder
from ..encoders import Bert, Vit
from ..whisper import Whisper
from .config import fitting, read_config, tells, written_config
from .encoders import BERT, VIT, read_bert, read_vit, written_bert, written_vit
from .families import FAMILIES
from .family import Family
from .whisper import WHISPER, read_whisper, written_whisper

Read = Callable[[Mapping[str, Any], Mapping[str, TensorSpec]], Any]


@dataclass(frozen=True)
class Kind:
    """A kind of model: its family, how its config is read and written, and its class here."""

    family: Family
    read: Read
    written: Callable[[Any], dict[str, Any]]
    model: type[Any]


def _decoder(data: Mapping[str, Any], specs: Mapping[str, TensorSpec]) -> Any:
    return read_config(data)


KINDS = {
    **{
        name: Kind(family, _decoder, partial(written_config, family=family), Decoder)
        for name, family in FAMILIES.items()
    },
    "bert": Kind(BERT, read_bert, written_bert, Bert),
    "vit": Kind(VIT, read_vit, written_vit, Vit),
    "whisper": Kind(WHISPER, read_whisper, written_whisper, Whisper),
}
"""``model_type`` -> kind."""


def kind_of(data: Mapping[str, Any]) -> Kind:
    """Return the kind of a config; raises ArchiveError for one that is not known, by its name."""
    name = data.get("model_type")
    found = KINDS.get(name) if isinstance(name, str) else None
    if found is None:
        raise ArchiveError(
            f"a model of the kind {str(name)[:60]!r} is not read here",
            need=", ".join(KINDS),
            facts=["the folder brings code of its own, which is never run"] * ("auto_map" in data),
        )
    quantised = data.get("quantization_config")
    if quantised is not None:
        method = quantised.get("quant_method") if isinstance(quantised, Mapping) else quantised
        raise ArchiveError(
            f"its weights are quantised by {str(method)[:40]!r}, which is not read here",
            hint="the model before it was quantised, or a GGUF file of it",
        )
    return found


def config_of(kind: Kind, data: Mapping[str, Any], specs: Mapping[str, TensorSpec]) -> Any:
    """Return the config of a model; raises ArchiveError for settings that are none."""
    try:
        return kind.read(data, specs)
    except GraphError as error:
        raise ArchiveError(f"config.json tells of no model: {error}") from error


def kind_for(model: Any, family: str | None = None, was: str = "") -> Kind:
    """Return the kind that a model is written as.

    ``family`` is its name, by default ``was`` if that has such models, else the first that has.
    Raises GraphError where none has, or this one has not.
    """
    if family is not None and family not in KINDS:
        raise GraphError(f"no family {family!r}", need=", ".join(KINDS))
    if not isinstance(model, Decoder):
        own = next((k for k in KINDS.values() if k.model is type(model)), None)
        if own is None or family not in (None, own.family.name):
            raise GraphError(f"{model!r} is no model of Hugging Face", need=", ".join(KINDS))
        return own
    if family is None:
        known = FAMILIES.get(was)
        fits = known is not None and tells(model.config, known)
        return KINDS[was if fits else fitting(model.config).name]
    if family not in FAMILIES or not tells(model.config, FAMILIES[family]):
        able = [name for name, known in FAMILIES.items() if tells(model.config, known)]
        raise GraphError(
            f"a model of the kind {family!r} cannot be such a decoder: {model.config}",
            need=", ".join(able) or "a decoder of a known family",
        )
    return KINDS[family]
