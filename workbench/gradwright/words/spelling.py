"""What was probably meant by a name that does not exist: another library's spelling, or a slip."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping

from . import TENSOR


def spellings(name: str) -> list[str]:
    """Return what other libraries call an op of ours, small and without underscores.

    >>> spellings("boolean_mask")
    ['maskedselect']
    """
    return [theirs for theirs, ours in _ours().items() if ours == name and theirs != plain(name)]


def plain(name: str) -> str:
    """Return a name in small letters and without underscores.

    >>> plain("Masked_fill_")
    'maskedfill'
    """
    return name.lower().replace("_", "")


@functools.cache
def _functions() -> Mapping[str, str]:
    """Return what is called here, ``x.expand_dims``, by their plain name, tensors' first."""
    from .rows import rows  # 3 ms, and only errors need it

    found: dict[str, str] = {}
    for (_, name), held in sorted(rows().items(), key=lambda item: item[0][0] != TENSOR):
        found.setdefault(plain(name), held[0].function)
    return found


@functools.cache
def _ours() -> Mapping[str, str]:
    return {theirs: ours.rpartition(".")[2] for theirs, ours in _functions().items() if ours}


def elsewhere(name: str) -> str:
    """Return what is called here for what bears a name elsewhere, or "".

    >>> elsewhere("backward"), elsewhere("unsqueeze")
    ('gw.gradients', 'x.expand_dims')
    """
    return _functions().get(plain(name), "")


def meant(name: str, known: Iterable[str]) -> str:
    """Return which of the known names was probably meant, "" if none is like it.

    >>> meant("sofmax", ["softmax"]), meant("ReLU", ["relu"])
    ('softmax', 'relu')
    >>> meant("BCEWithLogitsLoss", ["log_loss", "sigmoid_cross_entropy"])
    'sigmoid_cross_entropy'
    >>> meant("frobnicate", ["axis"]), meant("Ftrl", ["tril"])  # a slip spares the first letter
    ('', '')
    """
    import difflib  # 1 ms, and only errors need it

    known_by = {plain(k): k for k in known}
    wanted = plain(name)
    for spelling in (wanted, wanted.removesuffix("loss")):
        ours = plain(_ours().get(spelling, spelling))
        if ours in known_by:
            return known_by[ours]
    far = 1 if len(wanted) < 8 else 2
    like = [k for k in known_by if k[:1] == wanted[:1] and abs(len(k) - len(wanted)) <= far]
    close = difflib.get_close_matches(wanted, like, 1, cutoff=0.75)
    return known_by[close[0]] if close else ""
