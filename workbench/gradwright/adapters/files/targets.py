"""Which modules peft's options mean, and the options that mean certain modules."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ...errors import ArchiveError
from .modules import Parts


def targeted(settings: Mapping[str, Any], found: Parts) -> Iterator[str]:
    """Yield the modules of a model that ``target_modules`` and its companions mean.

    A list means names and last parts of names, text is a regular expression of a whole name. What
    is meant in a way that a file need not tell, such as ``"all-linear"``, means none here.
    """
    targets = settings.get("target_modules")
    if targets in (None, "all-linear"):
        return
    for path in found:
        if means(targets, path) and not _excluded(settings, path) and _in_layer(settings, path):
            yield path


def means(targets: Any, path: str) -> bool:
    """Tell whether names, or a pattern, mean a module; raises ArchiveError for what is neither.

    >>> means(["q", "up"], "layers.0.q"), means(".*k", "layers.0.q")
    (True, False)
    """
    if isinstance(targets, str):
        return _compiled(targets).fullmatch(path) is not None
    if not isinstance(targets, list):
        raise ArchiveError(f"target_modules is {str(targets)[:60]!r}", need="names, or a pattern")
    return any(path == name or path.endswith(f".{name}") for name in targets)


def _excluded(settings: Mapping[str, Any], path: str) -> bool:
    out, saved = settings.get("exclude_modules"), settings.get("modules_to_save")
    if out and means(out, path):
        return True
    return isinstance(saved, list) and any(f".{name}." in f".{path}." for name in saved)


def _in_layer(settings: Mapping[str, Any], path: str) -> bool:
    """Tell whether a module is in a layer that is meant; a pattern means whole names alone."""
    layers = settings.get("layers_to_transform")
    if layers in (None, []) or isinstance(settings.get("target_modules"), str):
        return True
    patterns = settings.get("layers_pattern") or [r"[^.]*"]
    for pattern in [patterns] if isinstance(patterns, str) else patterns:
        found = _compiled(rf"(?:^|.*?\.){pattern}\.(\d+)\.", pattern).match(path)
        if found:
            return int(found[1]) in ([layers] if isinstance(layers, int) else layers)
    return False


def naming(paths: Collection[str], among: Collection[str]) -> list[str]:
    """Return ``target_modules`` that means some modules among others, and no more.

    >>> naming(["layers.0.q", "layers.1.q"], ["layers.0.q", "layers.1.q", "layers.0.k"])
    ['q']
    >>> naming(["layers.0.q"], ["layers.0.q", "layers.1.q"])
    ['layers.0.q']
    """
    last = sorted({path.rpartition(".")[2] for path in paths})
    meant = {path for path in among if path.rpartition(".")[2] in last}
    return last if meant == {*paths} else sorted(paths)


def of_modules(patterns: Mapping[str, Any], path: str, otherwise: Any = None) -> Any:
    """Return what a table of patterns says of a module, as peft reads it: the first that fits.

    >>> of_modules({"q_proj": 4, "layers.1.v": 2}, "model.layers.1.v", 8)
    2
    """
    for pattern, value in patterns.items():
        if _compiled(rf"(.*\.)?({pattern})$", pattern).match(path):
            return value
    return otherwise


def _compiled(pattern: str, told: str = "") -> re.Pattern[str]:
    """Return a regular expression; ``told`` is what a file has of it."""
    try:
        return re.compile(pattern)
    except re.error as error:
        text = f"{(told or pattern)[:60]!r} is no regular expression: {error}"
        raise ArchiveError(text) from None
