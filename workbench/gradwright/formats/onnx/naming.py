"""What a model calls tensors and sizes, and what a graph calls them: clean names, no two alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from ...spec import Dim
from ...spec.dims import reserve_symbols


def clean_name(name: str) -> str:
    """Return a name that a graph takes: printable, without ``:`` and empty parts.

    >>> from gradwright.formats.onnx.naming import clean_name
    >>> clean_name("/encoder/layer.0//MatMul:0")
    'encoder/layer.0/MatMul_0'
    """
    text = "".join(c if c.isprintable() else "_" for c in name.replace(":", "_"))
    text = "/".join(part for part in text.split("/") if part) or "value"
    return "rng_" if text == "rng" else text


def clean_symbol(name: str) -> str:
    """Return a name that a dimension takes: letters, digits and ``_``."""
    text = re.sub(r"\W", "_", name)
    return text if text.isidentifier() else f"_{text}"


def distinct(names: Iterable[str], clean: Callable[[str], str]) -> dict[str, str]:
    """Return a clean name for each name, no two alike; what is clean stays as it is.

    >>> from gradwright.formats.onnx.naming import clean_name, distinct
    >>> distinct(["/y", "y", "a:0", "a_0"], clean_name)
    {'/y': 'y_1', 'y': 'y', 'a:0': 'a_0_1', 'a_0': 'a_0'}
    """
    found = {name: clean(name) for name in names}
    taken = {name for name, ours in found.items() if name == ours}
    for name, base in found.items():
        if name == base:
            continue
        n = 0
        while found[name] in taken:
            n += 1
            found[name] = f"{base}_{n}"
        taken.add(found[name])
    return found


class Sizes:
    """Dimensions for the sizes that a model names; one without a name is a dimension of its own.

    >>> from gradwright.formats.onnx.naming import Sizes
    >>> sizes = Sizes(["h-in", "h_in", "?"])
    >>> sizes.named("h-in", "x", 0), sizes.named("h_in", "x", 1), sizes.named("?", "x", 2)
    (h_in_1, h_in, x_2)
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._symbols = distinct(filter(_is_name, names), clean_symbol)
        self._taken = set(self._symbols.values())
        reserve_symbols(self._taken)

    def named(self, name: str, tensor: str, axis: int) -> Dim:
        """Return the dimension that a name stands for; ``?`` and the like are no names."""
        if name in self._symbols:
            return Dim.symbol(self._symbols[name])
        return self.unknown(tensor, axis)

    def unknown(self, tensor: str, axis: int) -> Dim:
        """Return a dimension that is called by its place."""
        symbol = clean_symbol(f"{tensor}_{axis}")
        while symbol in self._taken:
            symbol += "_"
        self._taken.add(symbol)
        return Dim.symbol(symbol)


def _is_name(text: str) -> bool:
    return re.search(r"[^\W_]", text) is not None
