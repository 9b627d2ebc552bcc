"""Settings of ``config.json`` as fields of a config, by the table of a family, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from ...errors import ArchiveError
from .family import ACTIVATIONS, NEEDED, Family
from .fields import flag, number, whole

_THEIRS = {ours: name for name, ours in reversed(ACTIVATIONS.items())}


def read_settings(family: Family, data: Mapping[str, Any], config: type[Any]) -> dict[str, Any]:
    """Return the fields of a config that the rows of a family tell.

    Raises ArchiveError for settings that are read with other values alone, for those that are
    missing, and for values of another kind.
    """
    for key, allowed in family.only.items():
        if data.get(key) not in allowed:
            raise ArchiveError(
                f"{key} is {str(data[key])[:40]}, which is not known here", need=str(allowed[-1])
            )
    kinds = {f.name: str(f.type) for f in fields(config)}
    found = dict(family.fixed)
    for key, (names, default) in family.keys.items():
        value = data.get(key, default)
        if value is NEEDED:
            raise ArchiveError(f"config.json has no {key!r}", where=family.name)
        for name in names.split():
            found[name] = _read(name, kinds[name], value, key)
    return found


def _read(name: str, kind: str, value: Any, key: str) -> Any:
    """Return what a field becomes of a value."""
    if name == "activation":
        if not isinstance(value, str) or value not in ACTIVATIONS:
            raise ArchiveError(
                f"the activation {str(value)[:40]!r} is not known here", need=", ".join(ACTIVATIONS)
            )
        return ACTIVATIONS[value]
    if value is None and "None" in kind:
        return None
    if kind.startswith("bool"):
        return flag(value, key)
    return whole(value, key) if kind.startswith("int") else number(value, key)


def written_settings(family: Family, config: Any) -> dict[str, Any]:
    """Return the rows of a family for a config."""
    found: dict[str, Any] = {
        "architectures": [family.architecture],
        "model_type": family.name,
    }
    for key, (names, _) in family.keys.items():
        value = getattr(config, names.split()[0])
        if names == "activation":
            value = _THEIRS[value]
            if key == "activation_function" and value == "gelu_pytorch_tanh":
                value = "gelu_new"  # gpt2's own name of it
        found[key] = value
    return found
