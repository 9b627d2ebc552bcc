"""What all widgets share: JavaScript, checked keywords, messages by kind, views that last."""

from __future__ import annotations

import base64
import contextlib
import difflib
import functools
import html
import inspect
import itertools
import json
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import anywidget
import numpy as np
import traitlets

from gradwright.errors import GradwrightError
from gradwright.train import Record

from .cells import close_predecessors
from .follow import Follow
from .pace import MESSAGES_PER_SECOND, Pace
from .work import Work

STATIC = Path(__file__).parents[1] / "static"
_EITHER = inspect.Parameter.POSITIONAL_OR_KEYWORD
_BINARY = (bytes, bytearray, memoryview)
_HOST_TRAITS = frozenset(anywidget.AnyWidget.class_trait_names())

CLOSING = 5.0
"""Seconds that closing waits for what runs in the background to come to its next stop."""

Buffers = Sequence[Any]
Message = tuple[dict[str, Any], list[Any]]
Handler = TypeVar("Handler", bound=Callable[..., None])


@functools.cache
def bundle(module: str) -> str:
    """Return the source of a widget's JavaScript module, read once.

    It is passed to anywidget as text and not as a path: a path would be watched for changes, and
    the watcher would keep every instance alive.
    """
    path = STATIC / f"{module}.js"
    if not path.is_file():
        raise FileNotFoundError(
            f"gradwright_widgets was installed without {path.name}\n"
            "  try:  pip install --force-reinstall gradwright, "
            "or npm ci && npm run build in widgets/frontend of a checkout"
        )
    return path.read_text("utf-8")


def handles(kind: str) -> Callable[[Handler], Handler]:
    """Mark a method as the handler of messages ``{"kind": kind, ...}`` from the browser."""

    def mark(method: Handler) -> Handler:
        method.message_kind = kind  # type: ignore[attr-defined]
        return method

    return mark


def int32(values: Any) -> memoryview:
    """Return integers as the buffer of an ``i32[n]`` array."""
    return memoryview(np.ascontiguousarray(values, "<i4").tobytes())


def float64(values: Any) -> memoryview:
    """Return numbers as the buffer of an ``f64[n]`` array."""
    return memoryview(np.ascontiguousarray(values, "<f8").tobytes())


class Finite(traitlets.Float[float, Any]):
    """A number that is neither NaN nor infinite, for which JSON has no word."""

    def validate(self, obj: Any, value: Any) -> float:
        """Return the number; raises TraitError for another."""
        number = super().validate(obj, value)
        if not math.isfinite(number):
            raise traitlets.TraitError(f"{self.name or 'a number'} cannot be {number}")
        return number


class _Holding(threading.local):
    """What ipywidgets notes while traits change, for each thread by itself."""

    def __init__(self) -> None:
        self.sync = False
        self.unsent: set[str] = set()
        self.given: dict[str, Any] = {}


class BaseWidget(anywidget.AnyWidget):
    """Base of the widgets: an anywidget, and so an ipywidgets ``DOMWidget``.

    A subclass names its JavaScript ``module``, declares traits, marks message handlers with
    ``@handles(kind)`` and may say in ``new_view_messages`` what a new view needs beside the traits.

    Raises:
        TypeError: a keyword is not a trait; the message names the one that was probably meant.
    """

    module: ClassVar[str]
    _handlers: ClassVar[Mapping[str, str]] = {}
    _follow: tuple[Any, Follow] | None = None
    _works: Sequence[Work] = ()
    _paces: Sequence[Pace] = ()

    height = traitlets.Int(420, min=160, max=4000, help="Height in pixels.").tag(sync=True)
    message = traitlets.Unicode("", help="A line shown below, such as the last error.").tag(
        sync=True
    )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        found = {}
        for base in reversed(cls.__mro__):
            for name, value in vars(base).items():
                kind = getattr(value, "message_kind", None)
                if kind is not None:
                    found[kind] = name
        cls._handlers = found

    def __init__(self, **kwargs: Any) -> None:
        known = {n for n in type(self).class_trait_names() if not n.startswith("_")}
        for name in kwargs:
            if name not in known:
                own = sorted((known - _HOST_TRAITS) | _keywords(type(self)))
                close = difflib.get_close_matches(name, own, 1)
                hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(own)}"
                raise TypeError(f"{type(self).__name__} has no option {name!r}; {hint}")
        self._esm = bundle(self.module)
        self._held, self._sending = _Holding(), threading.RLock()
        super().__init__(**kwargs)
        self.on_msg(self._receive)
        close_predecessors(self)

    def open(self) -> None:
        """Connect to the page, and let the page choose the thread that hears it.

        JupyterLab sends widget messages to a thread beside the main one, so that a box works while
        a cell trains. ipykernel 7.4 overrules that in favour of the thread that last sent something
        through this widget, which is the one that is busy. Other versions do not ask here.
        """
        super().open()
        if self.comm is not None:
            self.comm._reply_subshell_for = lambda data, chosen: chosen

    def _receive(self, _: Any, content: Any, buffers: Buffers) -> None:
        kind = content.get("kind") if isinstance(content, dict) else None
        if not isinstance(kind, str):
            return
        asked = "id" in content
        if asked:  # the page says so when a busy kernel does not answer
            self.send({"kind": "heard", "id": content["id"]})
        if (method := self._handlers.get(kind)) is not None:
            try:
                self.guarded(lambda: getattr(self, method)(content), clear=asked)
            except Exception as error:  # there is no cell below which it could stand
                self.fail(error)

    # -- traits that a page, cells and background work set at the same time ----------------------

    def set_state(self, sync_data: Mapping[str, Any]) -> None:
        """Take traits that a page has set; there, too, a refused one goes back to what it was."""
        for name, value in sync_data.items():
            try:
                super().set_state({name: value})
            except Exception as error:
                self.fail(error)
                self.send_state(name)

    @contextlib.contextmanager
    def hold_trait_notifications(self) -> Iterator[None]:
        """Hold them while the widget is made; later every trait is checked before it changes.

        traitlets holds them for all threads at once, and keeps a value if a check of it raises
        another error than its own.
        """
        with super().hold_trait_notifications() if self.comm is None else contextlib.nullcontext():
            yield

    def send_state(self, key: Any = None) -> None:
        """Send traits; of two threads none sends what is older after what is newer."""
        with self._sending:
            super().send_state(key)

    _holding_sync = property(
        lambda self: self._held.sync, lambda self, on: setattr(self._held, "sync", on)
    )
    _states_to_send = property(lambda self: self._held.unsent)
    _property_lock = property(
        lambda self: self._held.given, lambda self, given: setattr(self._held, "given", given)
    )

    def guarded(self, action: Callable[[], object], *, clear: bool = True) -> None:
        """Run what a user asked for; an error of gradwright becomes the line below the panels."""
        if clear:
            self.message = ""
        try:
            action()
        except GradwrightError as error:
            self.fail(error)

    def background(self, name: str) -> Work:
        """Return what runs tasks beside the cells; closing the widget stops them.

        An error of a task becomes the line below the panels.
        """
        made = Work(name, lambda error: self.fail(error))
        self._works = (*self._works, made)
        return made

    def paced(self, send: Callable[[], None], per_second: float = MESSAGES_PER_SECOND) -> Pace:
        """Return what calls ``send`` no oftener than that; closing the widget ends it."""
        made = Pace(send, per_second)
        self._paces = (*self._paces, made)
        return made

    def fail(self, error: Exception) -> None:
        """Show an error as the line below the panels."""
        plain = isinstance(error, GradwrightError)
        self.message = str(error) if plain else f"{type(error).__name__}: {error}"

    def attend(self, trainer: Any) -> None:
        """Hear from a trainer what it does, until the widget is closed."""
        self._follow = trainer, Follow(self)
        trainer.add_callback(self._follow[1])

    def close(self) -> None:
        """Take the widget off all pages, and end what it runs in the background."""
        for work in self._works:
            work.stop()
        for pace in self._paces:
            pace.close()
        super().close()
        for work in self._works:
            work.join(CLOSING)
        if self._follow is not None:
            trainer, follow = self._follow
            follow.leave(trainer)

    def new_view_messages(self) -> list[Message]:
        """Return the messages that bring a new view up to date, beside the traits."""
        return []

    # -- what a trainer tells its widgets; panels override what they show ------------------------

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

    # -- views that last -------------------------------------------------------------------------

    def to_svg(self) -> str:
        """Return a still picture as SVG text, "" if this widget has none."""
        return ""

    def to_table(self) -> str:
        """Return the content as an HTML table without script, "" if this widget has none."""
        return ""

    def static(self) -> Static:
        """Return a still copy for nbconvert and GitHub, which cannot run widgets."""
        return Static(self._still())

    def _still(self) -> dict[str, str]:
        out = {}
        svg, table = self.to_svg(), self.to_table()
        picture = ""
        if svg:
            out["image/svg+xml"] = svg
            data = base64.b64encode(svg.encode()).decode()
            picture = f'<img alt="{type(self).__name__}" src="data:image/svg+xml;base64,{data}">'
        if picture or table:
            out["text/html"] = picture + table
        return out

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        made = super()._repr_mimebundle_(**kwargs)
        if made is None:
            return None
        data, metadata = made
        return {**self._still(), **data}, metadata

    def to_html(self, path: str | Path | None = None) -> str:
        """Return a page that shows the widget without a kernel or a network; also write it to path.

        Everything is inside: the module, the state and the arrays. The drawing can be explored as
        in the notebook; what would change the graph is off.
        """
        traits = [k for k in self.keys if k not in _HOST_TRAITS and not k.startswith("_")]
        saved = {
            "state": {name: _storable(getattr(self, name)) for name in traits},
            "messages": [
                {"content": content, "buffers": _storable(buffers)}
                for content, buffers in self.new_view_messages()
            ],
        }
        page = _PAGE.format(
            title=html.escape(self._title()),
            # "<" cannot end the script element early, in whatever name it may stand.
            saved=json.dumps(saved, ensure_ascii=True).replace("<", "\\u003c"),
            module=base64.b64encode(bundle(self.module).encode()).decode(),
        )
        if path is not None:
            Path(path).write_text(page, "utf-8")
        return page

    def _title(self) -> str:
        return type(self).__name__


class Static:
    """A still picture or table of a widget, for readers without JavaScript.

    >>> Static({"text/html": "<b>3</b>"})._repr_mimebundle_()
    {'text/html': '<b>3</b>'}
    """

    def __init__(self, data: Mapping[str, str]) -> None:
        self._data = dict(data)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        return self._data


def _keywords(cls: type) -> set[str]:
    """Return what the constructors of a widget and its mixins take by name, beside traits."""
    made = (vars(base)["__init__"] for base in cls.__mro__ if "__init__" in vars(base))
    found = (inspect.signature(init).parameters.values() for init in made)
    named = {p.name for p in itertools.chain(*found) if p.kind in (p.KEYWORD_ONLY, _EITHER)}
    return named - {"self"}


def _storable(value: Any) -> Any:
    """Return a copy for JSON, with buffers as ``{"$bytes": base64}``."""
    if isinstance(value, _BINARY):
        return {"$bytes": base64.b64encode(bytes(value)).decode()}
    if isinstance(value, Mapping):
        return {key: _storable(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_storable(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None  # JSON has no word for it
    return value


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
body {{ margin: 24px; }}
@media (prefers-color-scheme: dark) {{ body {{ background: #101216; }} }}
</style>
</head>
<body>
<main id="view"></main>
<script type="application/json" id="saved">{saved}</script>
<script type="module">
const {{ open }} = await import("data:text/javascript;base64,{module}");
open(document.getElementById("view"), JSON.parse(document.getElementById("saved").textContent));
</script>
</body>
</html>
"""
