"""Rows of the panel in words that JSON has: adapters, what they train place by place, and files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

from gradwright.errors import GradwrightError

MOST_FILES = 200


def adapter_row(name: str, adapted: Any) -> dict[str, Any]:
    """Return what an adapter is, how it is set, and how much it trains."""
    trained = adapted.trainable
    own = [row for row in trained.rows if is_own(row.place, adapted)]
    return {
        "name": name,
        "method": type(adapted.adapter).__name__,
        "settings": settings(adapted.adapter),
        "on": adapted.is_enabled,
        "merged": adapted.is_merged,
        "weight": adapted.weight,
        "places": len(adapted.places),
        "trained": sum(row.n_trained for row in own),
        "bytes": sum(row.nbytes for row in own),
        "all": trained.n_all,
    }


def settings(adapter: Any) -> str:
    """Return the settings that are not a method's usual ones.

    >>> import gradwright as gw
    >>> settings(gw.adapters.LoRA(r=4, dropout=0.1)), settings(gw.adapters.LoRA())
    ('r=4, dropout=0.1', 'r=8')
    """
    shown = []
    for f in fields(adapter):
        value = getattr(adapter, f.name)
        usual = f.default if f.default_factory is MISSING else f.default_factory()
        if value != usual or f.name == "r":
            shown.append(f"{f.name}={value!r}")
    return ", ".join(shown)[:200]


def is_own(place: str, adapted: Any) -> bool:
    """Tell whether a row of what is trained is of an adapter's own variables."""
    return place in adapted.variables or (place == "all places" and bool(adapted.shared))


def trained_rows(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what each adapter trains place by place; "" stands for the model's own variables."""
    taken = {t.name for adapted in found.values() for t in adapted.owned}
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for name, adapted in found.items():
        for row in adapted.trainable.rows:
            if is_own(row.place, adapted):
                rows[name, row.place] = _row(name, row)
            elif row.place not in taken:
                rows["", row.place] = _row("", row)
    return list(rows.values())


def _row(adapter: str, row: Any) -> dict[str, Any]:
    shapes = (f"{leaf} {'×'.join(map(str, shape))}".strip() for leaf, shape in row.leaves.items())
    return {
        "adapter": adapter,
        "place": row.place,
        "leaves": ", ".join(shapes),
        "trained": row.n_trained,
        "bytes": row.nbytes,
        "percent": row.percent if row.n_weight else None,
    }


def file_rows(folder: Path) -> list[dict[str, Any]]:
    """Return the adapters of a folder, and of those in it, read by their headers alone."""
    found = []
    for path in _candidates(folder):
        try:
            info = _info(path)
        except (GradwrightError, OSError) as error:
            if (path / "adapter_config.json").exists():
                text = str(error).splitlines()[0][:200]
                found.append({"name": path.name, "method": "", "about": text, "bytes": 0})
            continue
        if info is not None:
            told = (f"{key} {text}" for key, text in info.metadata.items() if key != "base")
            row = {"name": path.name, "method": info.architecture, "about": ", ".join(told)[:200]}
            found.append({**row, "bytes": info.nbytes})
    return found


def _info(path: Path) -> Any:
    """Return what a folder or file says of itself; None where it is no adapter."""
    from gradwright import inspect

    info = inspect(path)
    return info if "adapter" in info.format else None


def _candidates(folder: Path) -> Iterator[Path]:
    if (folder / "adapter_config.json").exists():
        yield folder
    inside = sorted(folder.iterdir()) if folder.is_dir() else []
    for path in inside[:MOST_FILES]:
        if path.suffix == ".gguf" or (path / "adapter_config.json").exists():
            yield path
