"""Groups of a rollout: what each was worth, in which order they are shown, and which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradwright.align.objectives.drawing import equal_groups

if TYPE_CHECKING:
    from gradwright.align import Experience

Array = np.ndarray[Any, Any]
SORTS = ("drawn", "best", "worst", "spread", "longest")
SHOWN = ("all", "mixed", "alike", "cut", "failed")


def totals(seen: Experience) -> Array:
    """Return the reward of each row by groups: f64[groups, rows of a group]."""
    return np.asarray(seen.scores.total, np.float64).reshape(-1, seen.rollout.group)


def _of_known(reduce: Any, rows: Array) -> Array:
    """Reduce each row over what is a number; NaN where nothing is."""
    known = np.isfinite(rows)
    found = np.full(len(rows), np.nan)
    for at in np.flatnonzero(known.any(axis=1)):
        found[at] = reduce(rows[at][known[at]])
    return found


def group_means(seen: Experience) -> Array:
    """Return the mean reward of each group, NaN where no row has one."""
    return _of_known(np.mean, totals(seen))


def group_spreads(seen: Experience) -> Array:
    """Return the standard deviation of the rewards of each group."""
    return _of_known(np.std, totals(seen))


def alike(seen: Experience) -> Array:
    """Tell of each group whether all its rewards are the same: bool[groups]."""
    found = equal_groups(np.asarray(seen.scores.total), seen.rollout.group)
    return np.asarray(found & np.isfinite(group_means(seen)) & (seen.rollout.group > 1))


def groups_shown(seen: Experience, sort: str, show: str) -> list[int]:
    """Return the groups to show, in their order.

    >>> import numpy as np
    >>> from types import SimpleNamespace as Made
    >>> drawn = Made(group=2, prompts=[0, 1], lengths=np.array([3, 1, 2, 2]))
    >>> seen = Made(rollout=drawn, scores=Made(total=np.array([0.0, 1.0, 1.0, 1.0])))
    >>> groups_shown(seen, "best", "all"), groups_shown(seen, "drawn", "alike")
    ([1, 0], [1])
    """
    rollout = seen.rollout
    group = rollout.group
    keep: Array = np.ones(len(rollout.prompts), bool)
    if show == "alike":
        keep = alike(seen)
    elif show == "mixed":
        keep = ~alike(seen)
    elif show == "cut":
        keep = np.asarray((~rollout.ended).reshape(-1, group).any(axis=1))
    elif show == "failed":
        keep[:] = False
        keep[[failure.row // group for failure in seen.scores.failures]] = True
    lengths = rollout.lengths.reshape(-1, group).max(axis=1)
    key = {
        "drawn": np.arange(len(keep)),
        "best": -_of_known(np.max, totals(seen)),
        "worst": _of_known(np.min, totals(seen)),
        "spread": -group_spreads(seen),
        "longest": -lengths,
    }[sort]
    level = np.nan_to_num(group_means(seen)) * {"best": -1, "worst": 1}.get(sort, 0)
    order = np.lexsort((level, key))  # NaN comes last
    return [int(at) for at in order if keep[at]]


def rows_of(seen: Experience, at: int, sort: str) -> list[int]:
    """Return the rows of a group; where rewards or lengths order the groups, those order them."""
    rows = np.arange(at * seen.rollout.group, (at + 1) * seen.rollout.group)
    total = np.asarray(seen.scores.total, np.float64)[rows]
    key = {"best": -total, "worst": total, "longest": -seen.rollout.lengths[rows]}.get(sort)
    return [int(row) for row in (rows if key is None else rows[np.argsort(key, kind="stable")])]
