"""The adapters of a model: switched, weighed, merged, loaded, and how far training moves them."""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import traitlets

from gradwright import Graph
from gradwright.errors import GradwrightError, GraphError
from gradwright.train import Record

from ...drawing.adapters import adapters_of
from ...host.adapters import adapter_called, check_idle, switch
from ...host.desk import GraphDesk
from ...host.facts import ends
from ...host.host import Host
from ...host.panel import Panel
from ...host.part import handles, shared
from ...host.typed import whole_number
from ...host.wire import Message
from ...still.tables import html_table
from .history import DeltaHistory, Snapshot
from .rows import adapter_row, file_rows, trained_rows


class AdaptersPanel(Panel):
    """The adapters of a graph.

    Args:
        desk: of the graph.
        base: the model that adapters are loaded into; default that of the first one there is.
        folder: with adapters on disk.
    """

    name = "adapters"
    desk: GraphDesk

    adapters = shared(
        traitlets.List(traitlets.Dict(), help="Name, method, state and size of each adapter."),
        late=True,
    )
    adapter_rows = shared(
        traitlets.List(traitlets.Dict(), help="What is trained, place by place."), late=True
    )
    adapter_place = shared(
        traitlets.List(
            traitlets.Unicode(), help="Adapter and place whose singular values are shown."
        )
    )
    adapter_drift = shared(
        traitlets.Dict(help="By adapter, how far a merge has moved the output that was compared.")
    )
    adapter_files = shared(traitlets.List(traitlets.Dict(), help="The adapters of the folder."))
    adapter_folder = shared(traitlets.Unicode("", help="Folder with adapters on disk."))

    def __init__(
        self, desk: GraphDesk, *, base: Any = None, folder: str | Path | None = None
    ) -> None:
        super().__init__(desk)
        self._base, self._folder = base, folder
        self._history = DeltaHistory()
        self._deltas_pace = self.widget.paced(self._send_deltas, per_second=4)
        self._deltas_work = self.widget.background("the spectra of adapters")
        self._any = self._looked_at = False

    def initial(self) -> dict[str, Any]:
        """Return what there is."""
        folder = self._folder
        found = {} if folder is None else {"adapter_folder": str(folder)}
        return {**found, **self._described()}

    def begin(self) -> None:
        """List what is on disk."""
        if self.adapter_folder:
            self.widget.guarded(self.list_adapters, clear=False)

    # -- what there is ---------------------------------------------------------------------------

    def _described(self) -> dict[str, Any]:
        found = adapters_of(self.desk.graph)
        self._any = bool(found)
        rows = [adapter_row(name, adapted) for name, adapted in found.items()]
        return {"adapters": rows, "adapter_rows": trained_rows(found)}

    def refresh(self) -> None:
        """Show the adapters as they are now; where the first comes or the last goes, at once."""
        if bool(adapters_of(self.desk.graph)) != self._any:
            self._describe()
        else:
            self.when_shown(self._describe)

    def _describe(self) -> None:
        with self.widget.hold_sync():
            for name, value in self._described().items():
                if getattr(self, name) != value:
                    setattr(self, name, value)
            names = {row["name"] for row in self.adapters}
            self.adapter_drift = {n: d for n, d in self.adapter_drift.items() if n in names}
        if self._looked_at:
            self._measure_soon()

    # -- what is done with them ------------------------------------------------------------------

    def switch_adapter(self, name: str, on: bool) -> None:
        """Compute the model with an adapter, or without; raises TrainingError while it trains."""
        switch(self.desk, name, on)

    def weigh_adapter(self, name: str, weight: float) -> None:
        """Have an adapter count so much; between two steps if training runs."""
        if not math.isfinite(weight):
            raise GraphError(f"a weight of {weight} makes no sense", need="a finite number")
        _weigh(self.desk, name, weight)

    def merge_adapter(self, name: str) -> Any:
        """Write an adapter into the weights, and return what `gw.adapters.merge` tells.

        Drift is measured on the example that is stepped through, if there is one. Raises
        GraphError for weights that are packed, and methods that are no part of a weight.
        """
        return self._merged(name, keep=True)

    def unmerge_adapter(self, name: str) -> None:
        """Give the weights back to the bit."""
        from gradwright.adapters import unmerge

        check_idle(self.desk, name)
        unmerge(adapter_called(self.desk, name))
        self.desk.refresh()

    def measure_drift(self, name: str) -> Any:
        """Return how far a merge would move the output, on the example; the weights stay.

        Packed weights are packed again for it. Raises GraphError if no example is known.
        """
        return self._merged(name, keep=False)

    def _merged(self, name: str, *, keep: bool) -> Any:
        from gradwright.adapters import merge, unmerge

        check_idle(self.desk, name)
        adapted = adapter_called(self.desk, name)
        if not keep and adapted.is_merged:
            raise GraphError(f"{name!r} is merged already", hint="unmerge it first")
        try:
            feeds = self.desk.example_feeds()
        except GraphError:
            if not keep:
                raise
            feeds = None
        output = None if feeds is None else self._compared(adapted)
        found = merge(adapted, requantize=not keep, feeds=feeds, output=output)
        if not keep:
            unmerge(adapted)
        if found.drift is not None and output is not None:
            d = found.drift
            told = {
                "output": d.output, "relative": d.relative, "largest": d.largest,
                "same": d.same if output.rank else None, "packed": len(found.requantized),
            }  # fmt: skip
            self.adapter_drift = {**self.adapter_drift, name: told}
        self.desk.refresh()
        return found

    def _compared(self, adapted: Any) -> Any:
        """Return the output that is compared: logits, else the last one that is not a number."""
        logits = getattr(adapted.model, "logits", None)
        if logits is not None:
            return logits
        outputs = ends(self.desk.graph)
        return next((t for t in reversed(outputs) if t.rank), outputs[-1])

    # -- on disk ---------------------------------------------------------------------------------

    def list_adapters(self, folder: str | Path | None = None) -> None:
        """List the adapters of a folder, and show which there are."""
        if folder is not None:
            self.adapter_folder = str(folder)
        self.adapter_files = file_rows(Path(self.adapter_folder)) if self.adapter_folder else []

    def load_adapter(self, path: str | Path, name: str = "") -> Any:
        """Put an adapter of a file or folder into the model, and return its handle.

        ``name`` is by default that of the folder. Raises ArchiveError for what does not fit.
        """
        from gradwright.adapters import load

        found = adapters_of(self.desk.graph)
        model = self._base or next((a.model for a in found.values()), self.desk.graph)
        check_idle(self.desk, name or Path(path).name)
        free = called = name or Path(path).name.removesuffix(".gguf").replace(":", "_") or "adapter"
        n = 1
        while free in found and not name:
            n += 1
            free = f"{called}_{n}"
        adapted = load(model, path, name=free)
        self.desk.refresh()
        return adapted

    # -- how far they have moved -----------------------------------------------------------------

    def measure_deltas(self) -> dict[tuple[str, str], tuple[float, Any]]:
        """Return, and show, norm and largest singular values of what each adapter adds, by place.

        ``("default", "layer0/q"): (1.25, array([1.1, 0.5, ...]))``.
        """
        self._history.measure(self._snapshot())
        self._deltas_pace.request()
        return self._history.now()

    def _snapshot(self) -> Snapshot:
        """Return copies of the variables of all adapters, which are small."""
        trainer, held = self.desk.trainer, {}
        values = self.desk.values
        with values.lock:
            for name, adapted in adapters_of(self.desk.graph).items():
                adapter, shared = adapted.adapter, adapted.adapter.shared(adapted.places)
                for place in adapted.places:
                    leaves = {**adapted.variables[place.name], **adapted.shared}
                    kinds = {**adapter.variables(place), **shared}
                    arrays = {leaf: values.array(t.name) for leaf, t in leaves.items()}
                    p = {leaf: a.copy() for leaf, a in arrays.items() if not kinds[leaf].is_state}
                    rank = int(np.count_nonzero(arrays["kept"])) if "kept" in arrays else None
                    held[name, place.name] = (adapter, place, p, rank)
        return Snapshot(0 if trainer is None else trainer.steps_done, held)

    def _measure_soon(self, *, wait: bool = False) -> None:
        if self._deltas_work.busy and not wait:
            return
        self._deltas_work.join()
        taken = self._snapshot()

        def work(stop: threading.Event) -> None:
            self._history.measure(taken)
            self._deltas_pace.request()

        if taken.held:
            self._deltas_work.start(work)

    def training_began(self) -> None:
        """Measure what it begins with."""
        self.when_shown(self._measure_soon)

    def step_ended(self, record: Record) -> None:
        """Take a sample, as often as costs little."""
        if self._looked_at and self._history.is_due and self.in_sight():
            self._measure_soon()

    def training_ended(self) -> None:
        """Measure what it has come to."""
        self.when_shown(functools.partial(self._measure_soon, wait=True))

    def new_view_messages(self, *, whole: bool = False) -> list[Message]:
        """Return all samples, as one message."""
        if not self._history.steps and self.adapters:
            self._history.measure(self._snapshot())
        return [self._history.message(everything=True)]

    def _send_deltas(self) -> None:
        with self._history.lock:
            self.widget.send(*self._history.message(everything=False))

    # -- what the page asks for ------------------------------------------------------------------

    @handles("sync")
    def _on_deltas_sync(self, _: Any) -> None:
        self._looked_at = True
        self._measure_soon()
        with self._history.lock:
            self.widget.send(*self._history.message(everything=True))

    @handles("switch")
    def _on_switch(self, content: dict[str, Any]) -> None:
        switch(self.desk, str(content.get("name")), bool(content.get("on")), note=True)

    @handles("weigh")
    def _on_weigh(self, content: dict[str, Any]) -> None:
        name, weight = str(content.get("name")), content.get("weight")
        if isinstance(weight, bool) or not isinstance(weight, int | float):
            raise GraphError(f"{weight!r:.60} is no number")
        was = adapter_called(self.desk, name).weight
        self.weigh_adapter(name, weight)
        undo: Callable[[GraphDesk], None] = functools.partial(_weigh, name=name, weight=was)
        what = f"weight of {name}"
        self.desk.changes.note(what, what, f"{was:g}", f"{weight:g}", undo)

    @handles("merge")
    def _on_merge(self, content: dict[str, Any]) -> None:
        self._act(lambda name: self.merge_adapter(name), content)

    @handles("unmerge")
    def _on_unmerge(self, content: dict[str, Any]) -> None:
        self._act(self.unmerge_adapter, content)

    @handles("drift")
    def _on_drift(self, content: dict[str, Any]) -> None:
        self._act(lambda name: self.measure_drift(name), content)

    def _act(self, deed: Callable[[str], object], content: dict[str, Any]) -> None:
        name = str(content.get("name"))
        adapter_called(self.desk, name)
        check_idle(self.desk, name)
        deed(name)

    @handles("look")
    def _on_look(self, _: Any) -> None:
        self.list_adapters()

    @handles("load")
    def _on_load(self, content: dict[str, Any]) -> None:
        known, at = self.adapter_files, whole_number(content.get("at"))
        if not 0 <= at < len(known):
            raise GradwrightError(f"there is no adapter {at}", hint="list the folder again")
        path = Path(self.adapter_folder)
        self.load_adapter(path if known[at]["name"] == path.name else path / known[at]["name"])

    # -- views that last -------------------------------------------------------------------------

    def to_table(self) -> str:
        """Return what is trained as an HTML table, with what each adapter adds."""
        if not self.adapters:
            return ""
        now = self._history.now() or self.measure_deltas()
        rows = []
        for row in self.adapter_rows:
            norm, values = now.get((row["adapter"], row["place"]), (math.nan, np.empty(0)))
            rows.append([
                row["adapter"], row["place"], row["leaves"], f"{row['trained']:,}",
                f"{row['bytes']:,}", "" if row["percent"] is None else f"{row['percent']:.2f}%",
                "" if math.isnan(norm) else f"{norm:.4g}",
                ", ".join(f"{value:.3g}" for value in values[:4]),
            ])  # fmt: skip
        head = ["adapter", "place", "variables", "trained", "bytes", "of its weight"]
        return html_table([*head, "norm", "singular values"], rows)


def _weigh(desk: GraphDesk, name: str, weight: float) -> None:
    """Give an adapter a weight; the one that has its name when the command's turn comes."""
    adapter_called(desk, name)

    def command() -> None:
        desk.widget.guarded(lambda: setattr(adapter_called(desk, name), "weight", weight))
        desk.refresh()

    desk.commands.submit(command)


class AdapterPanel(Host):
    """The adapters of a model: what each trains, how far it has moved, what a merge would cost.

    A click switches an adapter off and on, merges it and takes it back, measures the drift of a
    merge on the example, and loads one from disk. While a training runs, the norm and the singular
    values of what each adds to its weights are sampled, and of AdaLoRA the ranks.

    Args:
        model: a graph, or a model that has one, such as a ``Decoder``.
        trainer: who trains the adapters.
        folder: with adapters on disk, which can be loaded.
        feeds: the example on which drift is measured; default what the trainer's last step was fed.
        options: traits.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = g.placeholder("x", (None, 3)) @ g.variable("w", (3, 2))
    >>> adapted = gw.adapters.add(g, gw.adapters.LoRA(r=1), where="w")
    >>> panel = AdapterPanel(g)
    >>> [(row["name"], row["trained"], row["bytes"]) for row in panel.adapters]
    [('default', 5, 20)]
    >>> panel.switch_adapter("default", False); adapted.is_enabled
    False
    >>> panel.measure_deltas()["default", "w"]
    (0.0, array([0.]))
    """

    module = "adapter_panel"
    panels = (AdaptersPanel,)

    def __init__(self, model: Any, trainer: Any = None, **options: Any) -> None:
        graph = model if isinstance(model, Graph) else getattr(model, "graph", model)
        super().__init__(graph, trainer, base=model, **options)
