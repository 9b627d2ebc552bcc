"""What all widgets are made of: JavaScript, traits that last, background work, still copies."""

from __future__ import annotations

import base64
import contextlib
import functools
import html
import json
import secrets
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import anywidget
import traitlets
from IPython.display import publish_display_data

from gradwright import __version__
from gradwright.errors import GradwrightError
from gradwright.files.whole import write_text

from ..drawing.buffers import storable
from .cells import after_each_cell, close_predecessors, is_executed
from .outbox import Outbox
from .pace import MESSAGES_PER_SECOND, Pace
from .wire import Message
from .work import Work

STATIC = Path(__file__).parents[1] / "static"
ANYWIDGET = frozenset(anywidget.AnyWidget.class_trait_names())

CLOSING = 5.0
"""Seconds that closing waits for what runs in the background to come to its next stop."""


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


class _Holding(threading.local):
    """What ipywidgets notes while traits change, for each thread by itself."""

    def __init__(self) -> None:
        self.sync = False
        self.unsent: set[str] = set()
        self.given: dict[str, Any] = {}


class BaseWidget(anywidget.AnyWidget):
    """Base of the widgets: an anywidget, and so an ipywidgets ``DOMWidget``.

    A subclass names its JavaScript ``module`` and says what a page and a still copy of it show.
    """

    module: ClassVar[str]
    _works: Sequence[Work] = ()
    _paces: Sequence[Pace] = ()
    _has_own_layout = False
    _is_shown = _is_heard = False

    _view = traitlets.Unicode("", help="By what a still copy knows the live view.").tag(sync=True)
    _kept = traitlets.List(
        traitlets.Dict(), help="What a page would ask for, in a notebook that becomes a page."
    ).tag(sync=True)
    height = traitlets.Int(420, min=160, max=4000, help="Height in pixels.").tag(sync=True)
    message = traitlets.Unicode("", help="A line shown below, such as the last error.").tag(
        sync=True
    )

    def __init__(self, **traits: Any) -> None:
        self._esm = bundle(self.module)
        self._held, self._sending = _Holding(), threading.RLock()
        self._outbox = Outbox(super()._send)
        super().__init__(_view=secrets.token_hex(4), **traits)
        self._has_own_layout = "layout" not in traits
        close_predecessors(self)
        after_each_cell(self, BaseWidget._keep)

    def open(self) -> None:
        """Connect to the page, and let the page choose the thread that hears it.

        JupyterLab sends widget messages to a thread beside the main one, so that a box works while
        a cell trains. ipykernel 7.4 overrules that in favour of the thread that last sent something
        through this widget, which is the one that is busy. Other versions do not ask here.
        """
        super().open()
        if self.comm is not None:
            self.comm._reply_subshell_for = lambda data, chosen: chosen

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

    def _send(self, msg: Any, buffers: Any = None) -> None:
        """Send a message of whatever kind; a host that refuses it to this thread ends no work."""
        self._outbox.post(msg, buffers)

    _holding_sync = property(
        lambda self: self._held.sync, lambda self, on: setattr(self._held, "sync", on)
    )
    _states_to_send = property(lambda self: self._held.unsent)
    _property_lock = property(
        lambda self: self._held.given, lambda self, given: setattr(self._held, "given", given)
    )

    def guarded(self, action: Callable[[], object], *, clear: bool = True) -> bool:
        """Run what a user asked for, and tell whether it was done.

        An error of gradwright becomes the line below the panels.
        """
        if clear:
            self.message = ""
        try:
            action()
        except GradwrightError as error:
            self.fail(error)
            return False
        return True

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

    def close(self) -> None:
        """Take the widget off all pages, and end what it runs in the background.

        Its layout, a model of its own that ipywidgets would keep for good, goes with it unless it
        was given, and others may have it.
        """
        for work in self._works:
            work.stop()
        for pace in self._paces:
            pace.close()
        layout = self.layout if self._has_own_layout else None
        super().close()
        if layout is not None:
            layout.close()
        for work in self._works:
            work.join(CLOSING)

    def new_view_messages(self, *, whole: bool = False) -> list[Message]:
        """Return the messages that bring a new view up to date, beside the traits.

        ``whole`` adds what a page asks the kernel for, as one in a file cannot.
        """
        return []

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
        made = self._live(**kwargs)
        if made is None:
            return None
        data, metadata = made
        return {**self._still(), **data}, metadata

    def _live(self, **kwargs: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Return the live view as an output, which is a few words where none can be shown."""
        self._is_shown = True
        made = super()._repr_mimebundle_(**kwargs)
        if made is None:
            return None
        name, title = type(self).__name__, self._title()
        words = name if title == name else f"{name} of {title!r}"
        return {**made[0], "text/plain": words}, made[1]

    def _ipython_display_(self) -> None:
        """Show the live view, and a still copy that is hidden while the live one is there.

        They are two outputs: of one, a page takes the live view even where it cannot draw it, such
        as after the kernel has gone, or without a network. A page that does not trust the notebook,
        such as that of another who works on it, too, shows the words and the still.
        """
        made = self._live()
        if made is None:
            return
        still = self._still()
        page = still.get("text/html", "")
        still["text/html"] = _STILL.format(view=self._view, name=type(self).__name__, page=page)
        for data, metadata in (made, (still, {})):
            publish_display_data(data, metadata)  # type: ignore[no-untyped-call]

    def _keep(self) -> None:
        """Have the state hold what a page asks for, where none can: the notebook is executed."""
        if not self._is_shown or self._is_heard or not is_executed():
            return
        with contextlib.suppress(Exception):  # what cannot be drawn is missing on the page, too
            found = self.new_view_messages(whole=True)
            self._kept = [{"content": storable(c), "buffers": list(b)} for c, b in found]

    def to_html(self, path: str | Path | None = None) -> str:
        """Return a page that shows the widget without a kernel or a network; also write it to path.

        Everything is inside: the module, the state and the arrays. The drawing can be explored as
        in the notebook; what would change the graph is off.
        """
        traits = [k for k in self.keys if k not in ANYWIDGET and not k.startswith("_")]
        saved = {
            "state": {name: storable(getattr(self, name)) for name in traits},
            "messages": [
                {"content": content, "buffers": storable(buffers)}
                for content, buffers in self.new_view_messages(whole=True)
            ],
        }
        page = _PAGE.format(
            title=html.escape(self._title()),
            version=__version__,
            # "<" cannot end the script element early, in whatever name it may stand.
            saved=json.dumps(saved, ensure_ascii=True).replace("<", "\\u003c"),
            module=base64.b64encode(bundle(self.module).encode()).decode(),
        )
        if path is not None:
            write_text(path, page)
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


_STILL = """<div class="gw-still" id="gw-still-{view}">
<style>
#gw-still-{view} {{ animation: gw-still 1ms 2s backwards; }}
@keyframes gw-still {{ from {{ max-height: 0; overflow: hidden; visibility: hidden; }} }}
body:has(.gw[data-gw-view="{view}"]) :is(
  #gw-still-{view},
  .jp-OutputArea-child:has(#gw-still-{view})
) {{ display: none; }}
.jp-OutputArea-child:has(> :is([data-mime-type*="widget-view"], .jupyter-widgets)):not(
  :has(.gw)
):has(+ * #gw-still-{view}) {{ display: none; }}
#gw-still-{view} > img {{ max-width: 100%; }}
</style>
<p>A still picture of this {name}: run the cell to bring it to life,
or trust this notebook where its kernel runs.</p>
{page}
</div>"""

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="gradwright {version}">
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
