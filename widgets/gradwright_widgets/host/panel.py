"""The contract of a panel."""

from __future__ import annotations

from gradwright.train import Record

from .desk import Desk
from .part import Part
from .wire import Message


class Panel(Part):
    """A part of a widget that shows something; it meets the others at the desk alone.

    Its constructor takes the desk, and by name what the widget's constructor takes for it. It runs
    before the widget has traits, so that they are checked from the first on; ``begin`` comes after.
    A subclass overrides what it has something to say to.
    """

    def __init__(self, desk: Desk) -> None:
        super().__init__(desk.widget)
        self.desk = desk
        desk.on("refreshed", self.refresh)

    def begin(self) -> None:
        """Called when the widget has its traits, and the page can be told."""

    def refresh(self) -> None:
        """Show the graph as it is now."""

    def close(self) -> None:
        """Called before the widget is closed."""

    # -- what a trainer tells --------------------------------------------------------------------

    def training_began(self) -> None:
        """Called before the first step of a fit."""

    def step_ended(self, record: Record) -> None:
        """Called between two steps, in the training thread."""

    def epoch_ended(self, record: Record) -> None:
        """Called after the validation of an epoch."""

    def training_paused(self) -> None:
        """Called when a fit has been paused, in the training thread."""

    def training_resumed(self) -> None:
        """Called before a paused fit takes its next step, or ends."""

    def training_ended(self) -> None:
        """Called when a fit has ended, however it ended."""

    # -- views -----------------------------------------------------------------------------------

    def new_view_messages(self, *, whole: bool = False) -> list[Message]:
        """Return the messages that bring a new view up to date, beside the traits.

        ``whole`` adds what a page asks the kernel for, as one in a file cannot.
        """
        return []

    def to_svg(self) -> str:
        """Return a still picture as SVG text, "" where there is none."""
        return ""

    def to_table(self) -> str:
        """Return the content as an HTML table without script, "" where there is none."""
        return ""
