"""Any tensor as a picture: slices of any rank, statistics, a histogram, what is not finite."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from typing import Any

import numpy as np
import traitlets

from gradwright import Graph, Tensor
from gradwright.errors import GraphError
from gradwright.train import Record

from ...host.desk import GraphDesk
from ...host.host import Host
from ...host.panel import Panel
from ...host.part import checks, handles, shared, watches
from ...host.typed import whole_numbers
from ...host.wire import Finite, Message
from ...still.tables import html_table
from .keeping import kept_messages
from .picture import Picture, memory_of
from .sheet import as_array, index_text
from .slicing import Index, SliceError, default_index, read_index
from .still import statistics
from .words import code_of, how_to_get

Array = np.ndarray[Any, Any]

REFRESH = 0.25  # seconds between two pictures while a training runs
SHARE = 0.03  # of the time may be spent on them, so pictures of large tensors come more rarely
_NAMELESS = "array"


class TensorPanel(Panel):
    """The tensor view.

    It shows the tensor of the selected node unless another one was chosen with ``show_tensor``.
    Variables and constants are shown as they are, everything else as the stepper knows it.
    """

    name = "tensor"
    desk: GraphDesk

    tensor = shared(traitlets.Unicode("", help="Name of the tensor that is shown."), late=True)
    tensor_follows = shared(traitlets.Bool(True, help="Show the tensor of whatever is selected."))
    tensor_index = shared(
        traitlets.Unicode(
            "", help='A slice such as "[0, :, ::2]"; "" is the last two axes, at 0 of all others.'
        ),
        late=True,
    )
    tensor_plane = shared(
        traitlets.List(
            traitlets.Int(),
            maxlen=2,
            help="The axes of the slice drawn down and across, [] for its last two; others tile.",
        )
    )
    tensor_cursor = shared(
        traitlets.List(
            traitlets.Int(), help="Index in the whole tensor of the element in focus, [] for none."
        ),
        late=True,
    )
    tensor_part = shared(
        traitlets.Enum(
            ("real", "imag", "abs", "angle"), "real", help="What is drawn of complex numbers."
        )
    )
    tensor_scope = shared(
        traitlets.Enum(
            ("tensor", "slice"), "tensor", help="What statistics, histogram and colours are about."
        )
    )
    tensor_exact = shared(
        traitlets.Bool(False, help="Read every value of tensors above 10,000,000 elements, too.")
    )
    tensor_cells = shared(
        traitlets.Enum(
            ("largest", "mean"), "largest", help="What a cell that stands for many values shows."
        )
    )
    tensor_colors = shared(
        traitlets.Enum(
            ("auto", "diverging", "sequential", "gray"), "auto", help="The colours of the values."
        )
    )
    tensor_range = shared(
        traitlets.Enum(
            ("full", "symmetric", "robust", "fixed"),
            "full",
            help="Where colours end: min and max, the same on both sides of 0, 1 to 99 %, by hand.",
        )
    )
    tensor_limits = shared(
        traitlets.List(Finite(), [0.0, 1.0], minlen=2, maxlen=2, help="Ends of the fixed range.")
    )
    tensor_log = shared(traitlets.Bool(False, help="Colour by the logarithm of the magnitude."))
    tensor_log_counts = shared(traitlets.Bool(False, help="A logarithmic axis of the histogram."))
    tensor_numbers = shared(traitlets.Bool(False, help="Numbers in a table instead of colours."))

    def __init__(self, desk: GraphDesk) -> None:
        super().__init__(desk)
        self._tensor_lock = threading.RLock()
        self._tensor_array: Array | None = None  # an array that is no tensor of the graph
        self._tensor_picture: Picture | None = None  # the last one
        self._tensor_sent: Array | None = None
        self._tensor_views: set[str] = set()
        self._tensor_serial = itertools.count()
        self._tensor_due, self._tensor_ready = 0.0, False
        desk.on("tensor", self._on_wish)
        desk.on("edited", self.refresh_tensor)
        desk.on("stepped", lambda: self.when_shown(self._on_stepper_moved))

    def begin(self) -> None:
        """Show the tensor of what is selected, unless another one was chosen."""
        self._tensor_ready = True
        self.desk.on("selected", lambda name: self.when_shown(self._on_selected_tensor))
        if self.desk.selected and not self.tensor:
            self._on_selected_tensor()

    def in_sight(self) -> bool:
        """Tell whether somebody looks; views say so, too."""
        return bool(self._tensor_views) or super().in_sight()

    # -- what is shown ---------------------------------------------------------------------------

    def show_tensor(self, value: Any, index: str = "", *, name: str = "") -> None:
        """Show a tensor of the graph, by itself or by name, or any array, called ``name``.

        The next node that is selected takes its place, unless ``tensor_follows`` is off.

        Raises:
            GraphError: the graph has no such tensor, or the slice does not fit.
            DTypeError: the array does not hold numbers.
        """
        array, shown = None, value
        if isinstance(value, Tensor):
            self.desk.graph.check_member(value)
            shown = value.name
        elif not isinstance(value, str):
            array, shown = as_array(value), name or _NAMELESS
        if array is None:
            shown = self.desk.graph[shown].name
        shape = array.shape if array is not None else self._tensor_shape(shown)
        if index and shape is not None:
            index = str(read_index(index, shape))
        with self._tensor_lock:
            self._tensor_ready, ready = False, self._tensor_ready
            self._tensor_array, self._tensor_picture = array, None
            self.tensor_cursor, self.tensor_index = [], ""
            self.tensor = shown
            self.tensor_index = index
            self._tensor_ready = ready
        self.refresh_tensor()

    def point_at(self, *position: int) -> None:
        """Put the cursor on an element of the tensor, in the slice that holds it.

        Raises:
            GraphError: the tensor has no such element, or no value yet.
        """
        array = self._known_tensor()
        size = array.shape
        if len(position) != len(size) or not all(
            0 <= k < n for k, n in zip(position, size, strict=True)
        ):
            raise GraphError(
                f"{self.tensor!r} has no element {index_text(position)}", need=f"shape {size}"
            )
        self.tensor_index = self._index(size).holding(position)
        self.tensor_cursor = list(position)

    def refresh_tensor(self) -> None:
        """Show the value as it is now, if anybody looks."""
        if self._tensor_ready and self._tensor_views:
            self.widget.send(*self._tensor_message())

    def refresh(self) -> None:
        """Show the graph, and the value, as they are now."""
        self.when_shown(self._look_again)

    def _look_again(self) -> None:
        if self._tensor_array is None and self.tensor and self.desk.graph.get(self.tensor) is None:
            self.tensor = ""  # an edit of the graph has removed it
        self.refresh_tensor()

    def tensor_value(self) -> Array | None:
        """Return the value that is shown, or None if it is not known."""
        return self._find_tensor()[0]

    def _find_tensor(self) -> tuple[Array | None, str]:
        name = self.tensor
        if self._tensor_array is not None:
            return self._tensor_array, "array"
        if not name:
            return None, ""
        stored = name in self.desk.values
        # Of variables the stepper has a snapshot, which counts while somebody stands in it.
        if not stored or (self.desk.ask("standing") and not self.desk.commands.busy):
            found = self.desk.ask("value", name=name)
            if found is not None:
                return as_array(found), "stepper"
        return (self.desk.values[name], "values") if stored else (None, "")

    def _known_tensor(self) -> Array:
        array = self.tensor_value()
        if array is None:
            raise GraphError(
                f"the value of {self.tensor!r} is not known here" if self.tensor else "no tensor",
                hint="step to it, or run the stepper",
            )
        return array

    def _tensor_shape(self, name: str) -> tuple[int, ...] | None:
        sizes = [n for n in self.desk.graph[name].spec.shape if isinstance(n, int)]
        return tuple(sizes) if len(sizes) == len(self.desk.graph[name].spec.shape) else None

    def _index(self, shape: tuple[int, ...]) -> Index:
        if self.tensor_index:
            with contextlib.suppress(SliceError):  # a value of another shape may have come since
                return read_index(self.tensor_index, shape)
        return default_index(shape)

    @checks("tensor")
    def _check_tensor(self, name: str) -> str:
        if name and self._tensor_array is None:
            return self.desk.graph[name].name
        return name

    @checks("tensor_index")
    def _check_tensor_index(self, text: str) -> str:
        array = self.tensor_value() if self._tensor_ready else None
        return str(read_index(text, array.shape)) if text.strip() and array is not None else text

    @checks("tensor_plane")
    def _check_tensor_plane(self, axes: list[int]) -> list[int]:
        if len(axes) == 1:
            raise GraphError("a plane has two axes", need="[rows, columns], or [] for the last two")
        return list(axes)

    @watches("tensor")
    def _on_tensor(self) -> None:
        if not self._tensor_ready:
            return
        self._tensor_ready = False
        self._tensor_array = self._tensor_picture = None
        self.tensor_cursor, self.tensor_index = [], ""
        self._tensor_ready = True
        self.refresh_tensor()

    @watches("tensor_index", "tensor_plane", "tensor_part", "tensor_scope", "tensor_exact")
    def _on_tensor_choice(self) -> None:
        self.refresh_tensor()

    def _on_wish(self, value: Any, name: str) -> None:
        self.catch_up()
        self.show_tensor(value, name=name)

    def _on_selected_tensor(self) -> None:
        chosen = self.desk.graph.get(self.desk.selected)
        if not self.tensor_follows or chosen is None:
            return
        shown = None if self._tensor_array is not None else self.desk.graph.get(self.tensor)
        if shown is not None and shown.node is chosen.node:
            return  # it or another output of it
        if self.tensor == self.desk.selected:  # an array is called like it
            self._on_tensor()
        self.tensor = self.desk.selected

    def _on_stepper_moved(self) -> None:
        # Most steps change no value but that of one node; a picture takes up to 50 ms.
        now, sent = self.tensor_value(), self._tensor_sent
        same = now is sent if now is None or sent is None else memory_of(now) == memory_of(sent)
        if not same:
            self.refresh_tensor()

    @watches("tensor_follows")
    def _on_tensor_follows(self) -> None:
        if self._tensor_ready:
            self._on_selected_tensor()

    # -- while a training runs -------------------------------------------------------------------

    def step_ended(self, record: Record) -> None:
        """Show a variable anew, at most 4 times a second and only while somebody looks."""
        now = time.monotonic()
        if self._tensor_views and now >= self._tensor_due and self.tensor in self.desk.values:
            self.refresh_tensor()
            cost = time.monotonic() - now
            self._tensor_due = now + max(REFRESH, cost / SHARE)

    def training_ended(self) -> None:
        """Show the last value."""
        self.refresh_tensor()

    # -- messages --------------------------------------------------------------------------------

    def _tensor_message(self, *, complete: bool = False) -> Message:
        with self._tensor_lock:
            array, origin = self._find_tensor()
            self._tensor_sent = array
            facts: dict[str, Any] = {
                "kind": "tensor.picture",
                "serial": next(self._tensor_serial),
                "name": self.tensor,
                "origin": origin,
                "outputs": self._outputs(),
            }
            if array is None:
                return {**facts, "note": how_to_get(self.desk, self.tensor)}, []
            picture = self._picture(array)
            shown, buffers = picture.message(complete=complete)
            return {
                **facts,
                **shown,
                "code": code_of(self.tensor, origin, picture.sheet.index),
            }, buffers

    def _picture(self, array: Array) -> Picture:
        made = Picture(
            array,
            self._index(array.shape),
            self.tensor_plane,
            part=self.tensor_part,
            scope=self.tensor_scope,
            exact=self.tensor_exact,
        )
        if self._tensor_array is None:  # values of a graph are never written in place
            made.take_over(self._tensor_picture)
        self._tensor_picture = made
        return made

    def _outputs(self) -> list[str]:
        found = self.desk.graph.get(self.tensor) if self._tensor_array is None else None
        names = [t.name for t in found.node.public] if found is not None else []
        return names if len(names) > 1 else []

    @handles("sync")
    def _on_tensor_sync(self, _: Any) -> None:
        # Views that vanished with their page cannot say so; those that are left answer.
        self._tensor_views.clear()
        self.widget.send({"kind": "tensor.who"})
        self.widget.send(*self._tensor_message())

    @handles("look")
    def _on_tensor_look(self, content: dict[str, Any]) -> None:
        view = str(content.get("view"))
        if content.get("shown"):
            self._tensor_views.add(view)
            if content.get("fresh"):
                self.refresh_tensor()
        else:
            self._tensor_views.discard(view)

    @handles("index")
    def _on_tensor_index(self, content: dict[str, Any]) -> None:
        try:
            self.tensor_index = str(content.get("text", ""))
            self.widget.send({"kind": "tensor.fits"})
        except SliceError as error:
            hint = f"; {error.hint}" if error.hint else ""
            self.widget.send(
                {
                    "kind": "tensor.problem",
                    "text": f"{error.problem}{hint}",
                    "at": error.at,
                    "length": error.length,
                }
            )

    @handles("jump")
    def _on_tensor_jump(self, content: dict[str, Any]) -> None:
        self.point_at(*whole_numbers(content.get("at")))

    @handles("window")
    def _on_tensor_window(self, content: dict[str, Any]) -> None:
        with self._tensor_lock:
            picture = self._picture(self._known_tensor())
            window = picture.sheet.window(whole_numbers(content.get("window")))
            facts, cells = picture.sheet.cells(window, picture.real, exact=self.tensor_exact)
        answer = {"kind": "tensor.window", "view": content.get("view"), "part": facts}
        self.widget.send({**answer, "serial": content.get("serial")}, [memoryview(cells.tobytes())])

    @handles("value")
    def _on_tensor_value(self, content: dict[str, Any]) -> None:
        with self._tensor_lock:
            picture = self._picture(self._known_tensor())
        sheet, at = picture.sheet, whole_numbers(content.get("at"))
        tile, bounds = (at or (0,))[0], at[1:]
        row, column = divmod(tile, sheet.grid[1])
        window = sheet.window((row, row + 1, column, column + 1, *bounds))
        where, text = sheet.describe(tile, window, picture.real)
        view = content.get("view")
        self.widget.send({"kind": "tensor.value", "view": view, "at": list(at), "where": where,
                   "text": text})  # fmt: skip

    # -- views that last -------------------------------------------------------------------------

    def new_view_messages(self, *, whole: bool = False) -> list[Message]:
        """Return the picture, with each value of a slice below 1 MB.

        A page without a kernel gets those of other tensors, too, to be selected there.
        """
        kept = kept_messages(self.desk) if whole and self._tensor_array is None else []
        return [*kept, self._tensor_message(complete=True)]

    def to_svg(self) -> str:
        """Return the picture and the histogram as a still, "" without a value."""
        array = self.tensor_value()
        return "" if array is None else self._picture(array).still(self.tensor)

    def to_table(self) -> str:
        """Return the statistics as an HTML table, "" without a value."""
        array = self.tensor_value()
        if array is None:
            return ""
        rows = statistics(array, self._picture(array).measured()[0])
        return html_table(["tensor", self.tensor], rows)


class TensorView(Host):
    """A picture of an array or tensor of any rank, with statistics and a histogram.

    ``value`` is anything that numpy reads as numbers, or a tensor of a graph; of a variable the
    current value is shown, and followed while ``trainer`` runs. ``index`` is a slice, ``name``
    what the array is called.

    >>> import numpy as np
    >>> view = TensorView(np.arange(24.0).reshape(2, 3, 4), "[1, :, ::2]", name="x")
    >>> view.point_at(1, 2, 0)
    >>> view.tensor_index = "[7]"
    Traceback (most recent call last):
    ...
    gradwright_widgets.panels.tensor.slicing.SliceError: 7 is outside of axis 0
      slice: [»7«]
      try:  axis 0 has -2 to 1
    """

    module = "tensor_view"
    panels = (TensorPanel,)

    def __init__(
        self, value: Any, index: str = "", *, name: str = "", trainer: Any = None, **options: Any
    ) -> None:
        graph = value.graph if isinstance(value, Tensor) else Graph(name or _NAMELESS)
        super().__init__(graph, trainer, **options)
        try:
            self.show_tensor(value, index, name=name)
        except Exception:  # or the page would keep a widget that nobody has
            self.close()
            raise

    def _title(self) -> str:
        return str(self.tensor)
