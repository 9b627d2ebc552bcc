"""Preference pairs side by side: what the policy makes of either completion, token by token."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import traitlets

from gradwright.errors import GraphError

from ...host.desk import Desk
from ...host.host import Host
from ...host.panel import Panel
from ...host.part import handles, shared, watches
from ...host.typed import whole_number
from ...host.wire import Message, finite
from ...still.tables import html_table
from .history import histogram
from .measures import limit_of
from .rows import AT_ONCE, MOST_TOKENS, check_token
from .words import pieces

if TYPE_CHECKING:
    from gradwright.align import PairView

MOST_STILL = 200
"""Pairs of a still table."""
SORTS = ("given", "wrong", "right", "close")


class PairsPanel(Panel):
    """Pairs of a chosen and a rejected completion.

    Args:
        desk: of the widget.
        pairs: what is shown, or a function that measures it anew.
    """

    name = "pairs"

    pairs = shared(traitlets.Dict(help="How many pairs there are, and how many are in order."))
    pairs_sort = shared(
        traitlets.Enum(SORTS, SORTS[0], help="By their margins: least, largest or closest first.")
    )
    pairs_first = shared(traitlets.Int(0, min=0, help="Which pair is the first on the page."))
    pairs_token = shared(
        traitlets.List(traitlets.Int(), help="Row and place of the token that is looked at.")
    )

    def __init__(
        self, desk: Desk, *, pairs: PairView | Callable[[], PairView] | None = None
    ) -> None:
        super().__init__(desk)
        self._measure = pairs if callable(pairs) else None
        self._view: PairView | None = None if callable(pairs) else pairs
        self._told: Message | None = None
        self._lock = threading.RLock()

    def initial(self) -> dict[str, Any]:
        """Return what there is."""
        if self._measure is not None and self._view is None:
            self._view = self._measure()
        return {"pairs": self._facts()}

    def show_pairs(self, pairs: PairView) -> None:
        """Show other pairs, or the same ones measured anew."""
        with self._lock:
            self._view, self._told = pairs, None
        self.pairs_token = []
        self._send_pairs()

    def measure_pairs(self) -> PairView:
        """Measure the pairs anew, between two steps if a training runs, and return what is shown.

        Raises GraphError where the panel was given numbers and no function that measures them.
        """
        measure = self._measure
        if measure is None:
            raise GraphError(
                "these pairs are numbers that were measured once",
                hint="PreferencePanel(lambda: gw.align.pairs_of(...))",
            )
        self.desk.commands.submit(lambda: self.show_pairs(measure()))
        return self._shown()

    def look_at_pair(self, row: int, place: int) -> dict[str, float | None]:
        """Return, and show, all that is known of a token; raises GraphError if there is none."""
        view = self._shown()
        check_token(view.mask, row, place)
        held = {"log π": view.log_probs, "log π of the reference": view.ref_log_probs}
        held["log-ratio"] = view.log_ratios
        facts = {n: finite(float(a[row, place])) for n, a in held.items() if a is not None}
        words, at = self._words(view, row), place - _start(view, row)
        content = {
            "kind": "pairs.token", "row": row, "place": place, "at": at,
            "text": words[at] if at < len(words) else "", "id": int(view.ids[row, place + 1]),
            "facts": [[name, value] for name, value in facts.items()],
        }  # fmt: skip
        with self._lock:
            self._told = content, []
        self.pairs_token = [row, place]
        self.widget.send(content, [])
        return facts

    def _shown(self) -> PairView:
        if self._view is None:
            raise GraphError("there are no pairs here", hint="PreferencePanel(pairs)")
        return self._view

    def _facts(self) -> dict[str, Any]:
        view = self._view
        if view is None:
            return {}
        return {
            "n": len(view), "accuracy": finite(view.accuracy),
            "measures": self._measure is not None,
            "mean": finite(float(np.mean(view.margins))) if len(view) else None,
            "reference": view.ref_log_probs is not None, "pages": AT_ONCE,
            "histogram": histogram(view.margins),
        }  # fmt: skip

    def _order(self, view: PairView) -> list[int]:
        margins = view.margins
        key = {
            "given": np.arange(len(view)), "wrong": margins, "right": -margins,
            "close": np.abs(margins),
        }[self.pairs_sort]  # fmt: skip
        return [int(at) for at in np.argsort(key, kind="stable")]

    def _words(self, view: PairView, row: int) -> list[str]:
        places, start = np.flatnonzero(view.mask[row]), _start(view, row)
        n = int(places[-1]) + 1 - start if len(places) else 0
        tokens = view.ids[row, : start + 1 + min(n, MOST_TOKENS)].tolist()
        return pieces(tokens, start + 1, view.tokenizer)

    def _prompt(self, view: PairView, row: int) -> str:
        tokens = view.ids[row, : _start(view, row) + 1].tolist()
        return "".join(pieces(tokens, 0, view.tokenizer))

    def _page(self, view: PairView) -> Message:
        order, ratios, sums = self._order(view), view.log_ratios, view.sums
        first = min(self.pairs_first, max(0, len(order) - 1) // AT_ONCE * AT_ONCE)
        values: list[Any] = [np.empty(0, np.float32)]
        groups: list[dict[str, Any]] = []
        for at in order[first : first + AT_ONCE]:
            rows = []
            for row in (at, at + len(view)):
                start, words = _start(view, row), self._words(view, row)
                values.append(ratios[row, start : start + len(words)])
                rows.append({
                    "row": row, "start": start, "tokens": words,
                    "length": int(view.mask[row].sum()), "reward": finite(float(sums[row])),
                })  # fmt: skip
            groups.append({
                "at": at, "prompt": self._prompt(view, at), "rows": rows,
                "mean": finite(float(view.margins[at])),
            })  # fmt: skip
        content = {
            "kind": "pairs.page", "first": first, "found": len(order), "groups": groups,
            "limit": limit_of(ratios[view.mask]),
        }  # fmt: skip
        return content, [np.ascontiguousarray(np.concatenate(values), "<f4").tobytes()]

    # -- what the page asks for ------------------------------------------------------------------

    @watches("pairs_sort", "pairs_first")
    def _send_pairs(self) -> None:
        with self._lock:
            self.pairs = self._facts()
            for message in self.new_view_messages():
                self.widget.send(*message)

    @handles("sync")
    def _on_pairs_sync(self, _: Any) -> None:
        self._send_pairs()

    @handles("measure")
    def _on_measure(self, _: Any) -> None:
        self.measure_pairs()

    @handles("look")
    def _on_look(self, content: dict[str, Any]) -> None:
        self.look_at_pair(whole_number(content.get("row")), whole_number(content.get("place")))

    def new_view_messages(self, *, whole: bool = False) -> list[Message]:
        """Return the pairs of the page, and the token that is looked at."""
        with self._lock:
            told = [] if self._told is None else [self._told]
            return [] if self._view is None else [self._page(self._view), *told]

    def to_table(self) -> str:
        """Return the pairs with their margins as an HTML table."""
        view, rows = self._view, []
        if view is None:
            return ""
        for at in self._order(view)[:MOST_STILL]:
            told = ["".join(self._words(view, row)) for row in (at, at + len(view))]
            rows.append([self._prompt(view, at), *told, f"{view.margins[at]:.4g}"])
        if len(view) > len(rows):
            rows.append([f"{len(view) - len(rows):,} more", "", "", ""])
        return html_table(["prompt", "chosen", "rejected", "margin"], rows)


def _start(view: PairView, row: int) -> int:
    """Return the place of the first token of a completion."""
    return int(np.argmax(view.mask[row]))


class PreferencePanel(Host):
    """Preference pairs side by side, each token by what the policy says more than the reference.

    Tokens that the policy has made likelier than the reference has them are blue, less likely ones
    orange; beside each pair stands its margin, and pairs are sorted by it.

    Args:
        pairs: a ``PairView``, or a function that measures one anew.
        trainer: between whose steps it is measured.
        options: traits, such as ``pairs_sort="wrong"``.

    >>> import gradwright as gw, numpy as np
    >>> ids, labels = np.array([[1, 2], [1, 3]]), np.array([[-100, 2], [-100, 3]])
    >>> said, reference = np.array([[-1.0], [-3.0]]), np.array([[-2.0], [-2.0]])
    >>> view = gw.align.PairView(ids, labels, said, reference)
    >>> panel = PreferencePanel(view)
    >>> panel.pairs["accuracy"], panel.look_at_pair(0, 0)["log-ratio"]
    (1.0, 1.0)
    """

    module = "preference_panel"
    desk_type = Desk
    panels = (PairsPanel,)
    height = traitlets.Int(560, min=240, max=4000, help="Height in pixels.").tag(sync=True)

    def __init__(self, pairs: Any = None, trainer: Any = None, **options: Any) -> None:
        super().__init__(trainer, pairs=pairs, **options)
