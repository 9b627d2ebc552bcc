"""Adapters of files, put into a graph: all of an adapter or nothing."""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...errors import ArchiveError, GraphError
from ...formats.opening import open as open_file
from ...models.decoder import Decoder
from ...models.gguf.architectures import architecture_of, keys_of
from ...models.huggingface.writing import config_before
from ..adapted import Adapted
from ..adding import add
from .placing import placed
from .saved import SavedAdapter

ORIGINS: weakref.WeakKeyDictionary[Adapted, Mapping[str, Any]] = weakref.WeakKeyDictionary()
"""The settings of the files that adapters came from, for what is said there and means nothing here.
"""


def load(
    model: Any,
    source: str | os.PathLike[str] | SavedAdapter,
    *,
    name: str = "default",
    family: str = "",
    strict: bool = True,
    dtype: Any = None,
) -> Adapted:
    """Put the adapter of a file or folder into a model, and return its handle.

    A folder of peft, a folder of adapters (bottlenecks), or a GGUF file. Biases, whole modules and
    rows of tokens that were trained with it take the place of the model's own values, until it is
    removed.

    Args:
        model: a model that folders and GGUF files know, or a graph, whose weights are then called
            as they are.
        source: a path, or what ``gw.open`` returned for one.
        name: of the adapter in the graph.
        family: the kind of model whose names the file has, if the model's own is another one.
        strict: refuse a file that says it is for another model, has options that are not computed
            here, or lacks arrays or has more of them than the model has places. Otherwise what fits
            is taken. Arrays of other shapes are refused in any case.
        dtype: of its variables, as for ``gw.adapters.add``.

    Raises:
        ArchiveError: the file is damaged, or does not fit, with the list of what differs.
        GraphError: the graph has an adapter of this name.
        OSError: nothing is there.

    >>> import gradwright as gw, pathlib, tempfile
    >>> config = gw.models.DecoderConfig(vocabulary=9, width=8, layers=1, heads=2)
    >>> one, other = (gw.models.Decoder(config, seed=1) for _ in range(2))
    >>> trained = gw.adapters.add(one, gw.adapters.LoRA(r=2, init=False), where="q|v")
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> gw.adapters.save(trained, folder)
    >>> [place.name for place in gw.adapters.load(other, folder).places]
    ['layer0/q', 'layer0/v']
    """
    saved = source if isinstance(source, SavedAdapter) else _opened(source)
    if strict:
        _check_base(model, saved, family)
    found = placed(model, saved, family=family, strict=strict)
    names = {place.name for place in found.places}
    adapted = add(
        model,
        found.method,
        lambda place: place.name in names,
        name=name,
        dtype=dtype,
        keep=[re.escape(weight) for weight in found.trained],
    )
    try:
        adapted.replace({**found.trained, **found.tokens})
        adapted.load_state({**adapted.state(), **found.state})
    except BaseException:
        adapted.remove()
        raise
    ORIGINS[adapted] = saved.settings
    return adapted


def _opened(path: str | os.PathLike[str]) -> SavedAdapter:
    """Return the adapter at a path; raises ArchiveError where something else is."""
    found = open_file(path)
    if not isinstance(found, SavedAdapter):
        raise ArchiveError(
            f"this is no adapter, but {found!r:.80}",
            where=str(path),
            need="a folder with adapter_config.json, or a GGUF file of an adapter",
        )
    return found


def _check_base(model: Any, saved: SavedAdapter, family: str) -> None:
    """Raise ArchiveError where model and file both say what they are, and it is not the same.

    A folder may be called as the model is, or lie below one that is, as in a cache of the hub.
    """
    if saved.names == "gguf" and not family and isinstance(model, Decoder):
        _check_architecture(model, saved)
    source: Path | None = getattr(model, "source", None)
    asked = _last(saved.base)
    if source is None or not asked or saved.names != "huggingface":
        return
    config = config_before(model)
    if not config:
        return
    told = config.get("_name_or_path")
    known = {_last(part) for part in source.absolute().parts}
    known |= {_last(part) for part in source.resolve().parts}
    known |= {_last(told)} if isinstance(told, str) else set()
    if asked not in known:
        raise ArchiveError(
            f"the adapter is for the model {saved.base!r}, and this is {source.name!r}",
            where=str(saved.path),
            hint="strict=False, if it is the same model by another name",
        )


def _check_architecture(model: Decoder, saved: SavedAdapter) -> None:
    """Raise ArchiveError for a model that no GGUF file of the adapter's architecture can hold."""
    own = architecture_of(model.config)
    if own == saved.architecture:
        return
    try:
        keys_of(model.config, saved.architecture)
    except (GraphError, ArchiveError) as error:
        raise ArchiveError(
            f"the adapter is for a model of {saved.architecture}, and this is one of {own}",
            where=str(saved.path),
            facts=[error.problem],
            hint="strict=False, if its weights have these names all the same",
        ) from error


def _last(name: str) -> str:
    """Return the last part of a name: of a path, or of ``models--owner--name`` in a cache."""
    return re.split(r"[/\\]|--", name.rstrip("/\\"))[-1].casefold()
