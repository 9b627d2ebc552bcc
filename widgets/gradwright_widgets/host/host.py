"""The host of panels: one widget, and so one model in the page, for all of them."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

from gradwright.train import Record

from .base import ANYWIDGET, BaseWidget
from .desk import Desk, GraphDesk, follow_cells
from .follow import Follow
from .panel import Panel
from .part import Part, member_of, options_of
from .wire import Buffers, Message

P = TypeVar("P", bound=Part)


class Host(BaseWidget):
    """A widget that is made of panels: it has their traits and public members, too.

    A subclass names its ``panels`` and the JavaScript ``module`` that shows them. Positional
    arguments are those of the desk; keywords go to the desk, to panels, and else are traits.

    Raises:
        TypeError: there is no such keyword; the message names the one that was probably meant.
    """

    panels: ClassVar[tuple[type[Panel], ...]] = ()
    desk_type: ClassVar[type[Desk]] = GraphDesk
    _parts: Mapping[type[Part], Part] = {}
    _panels: tuple[Panel, ...] = ()
    _follow: tuple[Any, Follow] | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "panels" not in vars(cls):
            return
        owners: dict[str, type[Part]] = {}
        for part in (cls.desk_type, *cls.panels):
            for name in (*part.traits, *part.public):
                if owners.setdefault(name, part) is not part:
                    raise TypeError(f"{name!r} is of {part.__name__} and {owners[name].__name__}")
            for name in part.traits.keys() - vars(cls).keys():
                trait = part.traits[name].of_widget(part)
                setattr(cls, name, trait)
                trait.class_init(cls, name)
            for name in part.public:
                if name not in vars(cls):
                    setattr(cls, name, member_of(part, name))

    def __init__(self, *about: Any, **options: Any) -> None:
        def taken(part: type[Part]) -> dict[str, Any]:
            return {name: options[name] for name in options_of(part) & options.keys()}

        traits = {name: options[name] for name in options.keys() - self._part_options()}
        self._check_options(traits)
        self.desk = self.desk_type(self, *about, **taken(self.desk_type))
        self._panels = tuple(panel(self.desk, **taken(panel)) for panel in self.panels)
        self._parts = {type(part): part for part in (self.desk, *self._panels)}
        self._connect()
        for part in self._parts.values():
            traits = {**part.initial(), **traits}
        super().__init__(**traits)
        self.on_msg(self._receive)
        if isinstance(self.desk, GraphDesk):
            follow_cells(self)
        if self.desk.trainer is not None:
            self.attend(self.desk.trainer)
        for panel in self._panels:
            panel.begin()

    @classmethod
    def _part_options(cls) -> set[str]:
        return {name for part in (cls.desk_type, *cls.panels) for name in options_of(part)}

    def _check_options(self, traits: dict[str, Any]) -> None:
        known = {name for name in self.class_trait_names() if not name.startswith("_")}
        for name in traits:
            if name not in known:
                own = sorted((known - ANYWIDGET) | self._part_options() | _arguments(type(self)))
                close = difflib.get_close_matches(name, own, 1)
                hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(own)}"
                raise TypeError(f"{type(self).__name__} has no option {name!r}; {hint}")

    def _connect(self) -> None:
        """Connect the methods of the parts to messages and traits."""
        self._handlers: dict[str, tuple[Part, Callable[[Any], object]]] = {}
        for part in self._parts.values():
            for (verb,), method in part.marked("handles"):
                self._handlers[f"{part.name}.{verb}"] = part, method
            for traits, method in part.marked("checks"):
                self._register_validator(_checking(method), traits)
            for traits, method in part.marked("watches"):
                self.observe(_calling(method), list(traits))

    def part(self, kind: type[P]) -> P:
        """Return a panel, or the desk, with all that it has put off done."""
        found: P = self._parts[kind]  # type: ignore[assignment]  # they are kept by their types
        found.catch_up()
        return found

    def shows(self, part: Part) -> bool:
        """Tell whether a part is in sight; what is not puts off what it would compute."""
        return True

    # -- messages --------------------------------------------------------------------------------

    def _receive(self, _: Any, content: Any, buffers: Buffers) -> None:
        """Answer a message: what has an ``id`` is told when it was heard, and how it ended."""
        if not self._is_heard:
            self._is_heard, self._kept = True, []
        kind = content.get("kind") if isinstance(content, dict) else None
        if not isinstance(kind, str):
            return
        asked = "id" in content
        if asked:  # the page says so when a busy kernel does not answer
            self.send({"kind": "heard", "id": content["id"]})
        done = False
        if kind in self._handlers:
            part, handler = self._handlers[kind]
            try:
                part.catch_up()
                done = self.guarded(lambda: handler(content), clear=asked)
            except Exception as error:  # there is no cell below which it could stand
                self.fail(error)
        if asked:  # after what the handler has left to do between two steps
            answer = {"kind": "done" if done else "refused", "id": content["id"]}
            self.desk.commands.submit(lambda: self.send(answer))

    def new_view_messages(self, *, whole: bool = False) -> list[Message]:
        """Return the messages that bring a new view up to date, beside the traits."""
        found: list[Message] = []
        for panel in self._panels:
            panel.catch_up()
            found += panel.new_view_messages(whole=whole)
        return found

    # -- what a trainer tells --------------------------------------------------------------------

    def attend(self, trainer: Any) -> None:
        """Hear from a trainer what it does, until the widget is closed."""
        self._follow = trainer, Follow(self)
        trainer.add_callback(self._follow[1])

    def training_began(self) -> None:
        """Called before the first step of a fit; from now on commands wait for step boundaries."""
        self.desk.commands.begin()
        for panel in self._panels:
            panel.training_began()

    def step_ended(self, record: Record) -> None:
        """Called between two steps, in the training thread; commands run now."""
        self.desk.commands.drain()
        for panel in self._panels:
            panel.step_ended(record)

    def epoch_ended(self, record: Record) -> None:
        """Called after the validation of an epoch."""
        for panel in self._panels:
            panel.epoch_ended(record)

    def training_paused(self) -> None:
        """Called when a fit has been paused; what came between the last step and that runs now."""
        self.desk.commands.drain()
        for panel in self._panels:
            panel.training_paused()

    def training_resumed(self) -> None:
        """Called before a paused fit goes on; a command that runs ends before the next step."""
        self.desk.commands.settle()
        for panel in self._panels:
            panel.training_resumed()

    def training_ended(self) -> None:
        """Called when a fit has ended, however it ended; commands run at once again."""
        self.desk.commands.end()
        for panel in self._panels:
            panel.training_ended()

    def close(self) -> None:
        """Take the widget off all pages, and end what it runs in the background."""
        for panel in self._panels:
            panel.close()
        super().close()
        if self._follow is not None:
            trainer, follow = self._follow
            follow.leave(trainer)

    # -- views that last -------------------------------------------------------------------------

    def to_svg(self) -> str:
        """Return a still picture as SVG text, that of the first panel that has one."""
        pictures = (self.part(panel).to_svg() for panel in self.panels)
        return next(filter(None, pictures), "")

    def to_table(self) -> str:
        """Return the panels as HTML tables without script, "" where there is nothing to show."""
        return "".join(self.part(panel).to_table() for panel in self.panels)

    def _title(self) -> str:
        return self.desk.title or super()._title()


def _checking(method: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda widget, proposal: method(proposal.value)


def _calling(method: Callable[[], object]) -> Callable[[Any], None]:
    def changed(change: Any) -> None:
        method()

    return changed


def _arguments(cls: type) -> set[str]:
    """Return what the constructor of a widget takes by name, beside traits."""
    own = inspect.signature(cls).parameters.values()
    return {p.name for p in own if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}
