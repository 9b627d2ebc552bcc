"""Folders of bottleneck adapters, as the library adapters has them, with arrays as safetensors.

``adapter_config.json`` has the settings of a network under ``config``; a key of
``adapter.safetensors`` is ``<path of a layer>.<branch>.adapters.<name>.<leaf>``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import ArchiveError, GraphError
from ...formats.checked import expect
from ...formats.safetensors import format as single
from ...formats.source import at, naming
from ...models.decoder import Decoder
from ...models.huggingface.writing import kind_of_model
from ..adapted import Adapted
from ..methods.bottleneck import ATTENTION, MLP, Bottleneck
from ..targeting import layer
from .networks import check_config, written_config
from .options import CONFIG
from .reading import check_dtypes, rounded, settings_in, write_files
from .saved import SavedAdapter

Array = np.ndarray[Any, Any]
WEIGHTS, PICKLE = "adapter.safetensors", "pytorch_adapter.bin"
LIBRARY = "adapters.1.3.0"
"""What wrote a file whose settings are as these."""
BRANCHES = {ATTENTION: "attention_adapters", MLP: "output_adapters"}
"""Our word for a branch -> what it is called in paths."""
_KEY = re.compile(
    r"(?P<path>.+)\.adapters\.(?P<name>[^.]+)\.(?P<leaf>adapter_(?:down\.0|up)\.(?:weight|bias))"
)


def read_bottleneck(path: Path) -> SavedAdapter:
    """Return the adapter of a folder; its arrays are mapped.

    Raises ArchiveError for a folder that is damaged, or holds a pickle.
    """
    with naming(str(path)):
        settings = settings_in(at(path))
        config = expect(settings.get("config"), dict, "config", CONFIG)
        check_config(config)
        if not (path / WEIGHTS).is_file():
            pickled = (path / PICKLE).is_file()
            raise ArchiveError(
                f"its arrays are a pickle, {PICKLE}, and opening one runs what it names"
                if pickled
                else f"the folder has no {WEIGHTS}",
                need=WEIGHTS,
                hint="model.save_adapter(path, name, use_safetensors=True) there" * pickled,
            )
        tensors = single.opened(path / WEIGHTS)
        check_dtypes(tensors.specs)
        arrays: dict[str, dict[str, Array]] = {}
        for key, (module, leaf) in by_branch(tensors.specs).items():
            arrays.setdefault(module, {})[leaf] = tensors[key]
        return SavedAdapter(path, settings, arrays, "adapters")


def by_branch(specs: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return key -> path and leaf; raises ArchiveError for keys of anything else."""
    found = {}
    for key in specs:
        one = _KEY.fullmatch(key)
        if one is None:
            raise ArchiveError(
                f"{key[:120]!r} is none of a bottleneck adapter",
                where=WEIGHTS,
                need="<path>.adapters.<name>.adapter_down.0.weight, ...",
            )
        found[key] = one["path"], one["leaf"]
    if len({key.rpartition(".adapters.")[2].partition(".")[0] for key in specs}) > 1:
        raise ArchiveError("it has several adapters", where=WEIGHTS, need="one")
    return found


def branches_of(model: Any, family: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path of each branch of a decoder, and its name here; of another model nothing."""
    if isinstance(model, Decoder):
        names = kind_of_model(model, family or None).family.names
        at = names["attention_norm"].rpartition(".")[0]
        for i in range(model.config.layers):
            for branch, theirs in BRANCHES.items():
                yield f"{at.format(i=i)}.{theirs}", f"layer{i}/{branch}"


def collected(adapted: Adapted, model: Any, family: str) -> dict[str, Array]:
    """Return the arrays of a file, by key; raises GraphError for a place that no file has."""
    at_place = {place: path for path, place in branches_of(model, family)}
    values, name = adapted.graph.values, _written_name(adapted)
    found: dict[str, Array] = {}
    for place, leaves in adapted.variables.items():
        if at_place and place not in at_place:
            raise GraphError(
                f"the adapter stands at {place!r}, for which files have no module",
                need=", ".join(at_place),
            )
        path = f"{at_place.get(place, place)}.adapters.{name}"
        found |= {f"{path}.{leaf}": values[t.name] for leaf, t in leaves.items()}
    return found


def write_bottleneck(
    folder: Path,
    adapted: Adapted,
    model: Any,
    *,
    family: str,
    origin: Mapping[str, Any],
    base: str | None,
    dtype: str | None,
) -> None:
    """Write a folder that the library adapters loads."""
    method = adapted.adapter
    assert isinstance(method, Bottleneck)
    arrays = collected(adapted, model, family)
    config = {**origin.get("config", {}), **written_config(method)}
    told: dict[str, Any] = dict.fromkeys(("hidden_size", "model_type", "model_class"))
    if isinstance(model, Decoder):
        kind = kind_of_model(model, family or None).family
        told["hidden_size"] = model.config.width
        told |= {"model_type": kind.name, "model_class": kind.architecture}
        there = {layer(place) for place in adapted.variables}
        config["leave_out"] = [i for i in range(model.config.layers) if i not in there]
    settings = {"version": LIBRARY, **told, **origin, "config": config, "model_name": base or None}
    settings["name"] = _written_name(adapted)
    write_files(folder, settings, rounded(arrays, dtype), WEIGHTS)


def _written_name(adapted: Adapted) -> str:
    """Return what an adapter is called in files, whose keys have points between their parts."""
    return adapted.name.replace(".", "_")
