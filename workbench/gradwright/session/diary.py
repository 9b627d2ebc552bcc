"""Diary: what a session tells ``logging`` of its plans: which was made, found or let go, and why.

Nothing is formatted, and no key looked at, unless ``logging.getLogger("gradwright")`` or a child is
at DEBUG; a run that goes on with the plan it had asks nobody.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from ..graph import Tensor
from ..plan import Plan
from ..program.row import names_of
from ..shared import Bounded

LOG = logging.getLogger("gradwright.session")
REWRITES = logging.getLogger("gradwright.rewrite")
PARTS = {
    2: "other updates",
    3: "another condition of the commit",
    5: "other options",
    6: "the graph was edited",
    7: "an op was defined anew",
    8: "a lowering was defined",
}
"""What differs in a key of a session's plans, by its place; 0 are the fetches, 1 the feeds."""


def is_on() -> bool:
    """Tell whether anybody wants to know."""
    return LOG.isEnabledFor(logging.DEBUG)


def why(key: Any, plan: Plan | None, cache: Bounded[Plan]) -> str:
    """Return why a plan is made, or that it was found; empty where nobody wants to know."""
    if not is_on():
        return ""
    if plan is not None:
        return "found, as it was asked for before"
    like = next((k for k in reversed(list(cache)) if _same(k[0], key[0])), None)
    if like is None:
        return "made, since none of these is kept"
    found = [text for place, text in PARTS.items() if not _same(key[place], like[place])]
    if key[4] != like[4]:
        found.append("it is for training" if key[4] else "it is for evaluation")
    before = {t: (shape, dtype) for t, shape, dtype in like[1]}
    for t, shape, dtype in key[1]:
        if t not in before:
            found.append(f"{t.name!r} is fed")
        elif before[t] != (shape, dtype):
            found.append(f"{t.name!r} is {list(shape)}, and was {list(before[t][0])}")
    found += [f"{t.name!r} is not fed" for t in before.keys() - {t for t, *_ in key[1]}]
    return "made, since " + ("; ".join(found) or "it was let go")


def tell(plan: Plan, feeds: Mapping[Tensor, Any], reason: str) -> None:
    """Tell of a plan, and when it was made, what rewrites and kernels came to."""
    names = names_of(plan.targets, 4)
    fed = ", ".join(f"{t.name}: {list(spec.shape)}" for t, spec in feeds.items())
    LOG.debug("plan of %s for %s: %s", names, fed or "no feeds", reason)
    if reason.startswith("made"):
        LOG.debug("plan of %s: %s", names, plan.kernels.said())
        REWRITES.debug("plan of %s: %s", names, str(plan.rewrites).partition("\n")[0])


def let_go(plan: Plan) -> None:
    """Tell that a plan is kept no more."""
    if is_on():
        LOG.debug("plan of %s: let go, used longest ago", names_of(plan.targets, 4))


def _same(one: Any, other: Any) -> bool:
    """Tell whether parts of keys are the same, as a dict does: ``==`` of tensors is a new node."""
    return one in {other}
