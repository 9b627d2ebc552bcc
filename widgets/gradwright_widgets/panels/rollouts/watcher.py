"""Who hears of rollouts for a panel, in the thread of the training."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gradwright.align import Experience

    from .panel import RolloutsPanel


class Watcher:
    """Hears of rollouts as long as its panel lives: an objective keeps no panel alive.

    What goes wrong in a panel is shown there: it ends no training.
    """

    def __init__(self, panel: RolloutsPanel) -> None:
        self._panel = weakref.ref(panel)

    def __call__(self, seen: Experience) -> None:
        """Tell the panel of a rollout, if it is there."""
        panel = self._panel()
        if panel is not None:
            try:
                panel.heard(seen)
            except Exception as error:
                panel.widget.fail(error)
