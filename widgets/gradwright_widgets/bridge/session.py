"""Session: a kernel as the pages see it, live: what is alive, what goes on, views, the last error.

A thread looks a few times a second while a page listens, and sends what has changed. Trainings are
only read, between any two instructions of theirs, so nothing of this can stop or fail one; and what
is sent goes out while a cell runs. What pages ask for comes by the thread that the kernel chooses;
what needs modules that are not there yet waits for them: see ``between``.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from gradwright.errors import GradwrightError

from ..host.cells import notebook_shell
from .between import between_cells
from .facts import Facts, check_rows, curve, run_rows, stepper_rows
from .living import Living, hosts, living
from .places import nodes_of_cell, place_of

if TYPE_CHECKING:
    from .views import Pin

BUSY, IDLE = 0.2, 1.0
"""Seconds between two looks while something trains, and else."""
_VIEWING = ("explain", "open", "pin")
"""What needs the modules of views."""


class Session:
    """What one kernel tells all pages; they are ``comm`` objects with ``send``.

    Args:
        namespace: returns what the user has named.
    """

    def __init__(self, namespace: Callable[[], Mapping[str, Any]]) -> None:
        self._namespace = namespace
        self._comms: dict[str, Any] = {}
        self._told: dict[str, Any] = {}
        self._curves: dict[str, tuple[weakref.ref[Any], int]] = {}
        self._facts, self._found = Facts(), Living()
        self._pins: dict[str, Pin] = {}
        self._failure: dict[str, Any] | None = None
        self._can_view = False
        self._lock, self._wake = threading.RLock(), threading.Event()
        self._thread: threading.Thread | None = None

    @classmethod
    @functools.cache
    def of_kernel(cls) -> Session:
        """Return the session of this process."""
        return cls(lambda: getattr(notebook_shell(), "user_ns", {}))

    # -- pages -----------------------------------------------------------------------------------

    def join(self, comm: Any) -> None:
        """Have a page hear of everything from now on."""
        comm._reply_subshell_for = lambda data, chosen: chosen  # as of widgets: see BaseWidget.open
        comm.on_msg(lambda message: self.receive(comm, message["content"]["data"]))
        comm.on_close(lambda message: self._leave(comm))
        with self._lock:
            self._comms[comm.comm_id] = comm
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="gradwright side panel")
                self._thread.daemon = True
                self._thread.start()
        between_cells(self._load)

    def _load(self) -> None:
        """Import what views are made of; between cells, and before anybody asks for one."""
        from . import failure, views  # noqa: F401

        self._can_view = True

    def _leave(self, comm: Any) -> None:
        with self._lock:
            self._comms = {page: held for page, held in self._comms.items() if held is not comm}
        self._wake.set()

    def _watch(self) -> None:
        while True:
            with self._lock:
                if not self._comms:
                    self._thread, self._found = None, Living()  # nothing is held for nobody
                    return
            self._wake.wait(BUSY if self._is_busy() else IDLE)
            self._wake.clear()

    def _is_busy(self) -> bool:
        """Look, and tell whether something trains."""
        self._try_to_look()
        with contextlib.suppress(Exception):
            statuses = {t.status for t in self._found.trainers.values()}
            return bool({"running", "paused"} & statuses)
        return False

    def _try_to_look(self) -> None:
        """Look; what the user's objects answer is theirs, and ends nothing of ours."""
        with contextlib.suppress(Exception):
            self.look()

    def _send(self, message: dict[str, Any], to: Any = None) -> None:
        for page, comm in list(self._comms.items()):
            if to is None or comm is to:
                try:
                    comm.send(message)
                except Exception:  # a page that is gone takes nobody along
                    self._comms.pop(page, None)

    # -- what is told ----------------------------------------------------------------------------

    def look(self) -> None:
        """Send what has changed."""
        with self._lock:
            found = self._found = living(self._namespace())
            graphs, cells = self._facts.graphs(found)
            now = {
                "graphs": graphs,
                "cells": cells,
                "trainings": self._facts.trainings(found),
                "steppers": stepper_rows(found),
                "runs": run_rows(found),
                "checks": check_rows(found),
            }
            changed = {name: rows for name, rows in now.items() if self._told.get(name) != rows}
            self._told = now
            if changed:
                self._send({"kind": "state", **changed})
            for key, trainer in found.trainers.items():
                self._send_curve(key, trainer)

    def _send_curve(self, key: str, trainer: Any, to: Any = None) -> None:
        """Send the points that are new; all of them of another trainer, or to a new page."""
        made, start = self._curves.get(key, (None, 0))
        is_same = made is not None and made() is trainer
        rows = trainer.history.steps.rows
        if to is not None or not is_same or rows < start:
            start = 0
        if rows == start and is_same:
            return
        end, steps, losses = curve(trainer, start)
        if to is None:
            self._curves[key] = weakref.ref(trainer), end
        self._send(
            {"kind": "curve", "key": key, "anew": start == 0, "steps": steps, "losses": losses}, to
        )

    def _tell_all(self, comm: Any) -> None:
        """Tell a page everything."""
        self._try_to_look()
        self._send({"kind": "state", **self._told}, comm)
        for key, trainer in self._found.trainers.items():
            self._send_curve(key, trainer, comm)
        self._send({"kind": "failure", "facts": self._failure}, comm)
        for number in self._pins:
            self._send(self._view(number), comm)

    def cell_ended(self, error: BaseException | None) -> None:
        """Look when a cell has ended; its error, if there is one of a graph, is shown."""
        if not self._comms:
            return
        cell = _running_cell()
        failure = None if error is None else _failure(error)
        with self._lock:
            if failure is not None:
                self._failure = {**failure.facts(), "cell": cell}
                self._send({"kind": "failure", "facts": self._failure})
            elif error is None and self._failure is not None and self._failure["cell"] == cell:
                self._failure = None
                self._send({"kind": "failure", "facts": None})
            self._try_to_look()
            own = {p.widget.model_id for p in self._pins.values() if p.subject is not None}
            for number, pin in self._pins.items():
                with contextlib.suppress(Exception):  # one that cannot be made anew stays as it was
                    if pin.renew(self._found, own):
                        self._send(self._view(number))

    # -- what is asked ---------------------------------------------------------------------------

    def receive(self, comm: Any, message: Any) -> None:
        """Do what a page asks for; what has an ``id`` is answered."""
        if not isinstance(message, dict):
            return
        answer = getattr(self, f"_on_{message.get('kind')}", None)
        if answer is None:
            return
        if message["kind"] in _VIEWING and not self._can_view:
            between_cells(lambda: self._answer(comm, message, answer))
        else:
            self._answer(comm, message, answer)

    def _answer(self, comm: Any, message: dict[str, Any], answer: Callable[..., Any]) -> None:
        facts: dict[str, Any]
        try:
            with self._lock:
                facts = answer(comm, message) or {}
        except Exception as error:  # there is no cell below which it could stand
            plain = isinstance(error, GradwrightError)
            facts = {"error": str(error) if plain else f"{type(error).__name__}: {error}"}
        if "id" in message:
            self._send({**facts, "kind": "answer", "id": message["id"]}, comm)
        self._wake.set()

    def _on_hello(self, comm: Any, message: dict[str, Any]) -> None:
        """Tell a page everything; one that was loaded anew takes its own place."""
        page = str(message.get("page") or comm.comm_id)
        self._comms = {p: held for p, held in self._comms.items() if held is not comm}
        self._comms[page] = comm
        self._tell_all(comm)

    def _on_pause(self, comm: Any, message: dict[str, Any]) -> None:
        self._trainer(message).pause()

    def _on_resume(self, comm: Any, message: dict[str, Any]) -> None:
        self._trainer(message).resume()

    def _on_stop(self, comm: Any, message: dict[str, Any]) -> None:
        self._trainer(message).stop()

    def _trainer(self, message: dict[str, Any]) -> Any:
        key = message.get("key")
        if key not in self._found.trainers:
            raise GradwrightError(f"there is no trainer {key!r} any more")
        return self._found.trainers[key]

    def _on_open(self, comm: Any, message: dict[str, Any]) -> dict[str, Any]:
        from .views import show

        self._try_to_look()
        return self._pinned(show(self._found, str(message.get("view")), str(message.get("key"))))

    def _on_pin(self, comm: Any, message: dict[str, Any]) -> dict[str, Any]:
        from .views import pinned

        return self._pinned(pinned(str(message.get("model"))))

    def _pinned(self, pin: Pin) -> dict[str, Any]:
        number = f"{max((int(n) for n in self._pins), default=0) + 1}"
        self._pins[number] = pin
        return self._view(number)

    def _view(self, number: str) -> dict[str, Any]:
        pin = self._pins[number]
        facts = {"pin": number, "view": pin.view, "key": pin.key, "title": pin.title}
        return {"kind": "view", **facts, "model": pin.widget.model_id}

    def _on_unpin(self, comm: Any, message: dict[str, Any]) -> None:
        pin = self._pins.pop(str(message.get("pin")), None)
        if pin is not None and pin.subject is not None:
            pin.widget.close()

    def _on_where(self, comm: Any, message: dict[str, Any]) -> dict[str, Any]:
        """Tell where a node was written: ``graph`` is its name, ``node`` a name or an address."""
        name = str(message.get("node")).partition(":")[0]
        for graph in self._graphs_called(str(message.get("graph"))):
            held = graph.get(name)
            if held is not None:
                return place_of(held.node)
        raise GradwrightError(f"no graph {message.get('graph')!r} has a node {name!r}")

    def _graphs_called(self, name: str) -> list[Any]:
        graphs = [self._found.graphs[name]] if name in self._found.graphs else []
        return graphs + [g for g in self._found.graphs.values() if g.name == name]

    def _on_select(self, comm: Any, message: dict[str, Any]) -> dict[str, Any]:
        """Light the nodes that a cell has built in every open view of their graph."""
        found: list[str] = []
        for key, graph in self._found.graphs.items():
            names = nodes_of_cell(graph, str(message.get("cell")))
            if not names or message.get("graph") not in (None, key):
                continue
            found += names
            for host in hosts():
                if getattr(host.desk, "graph", None) is graph:
                    host.guarded(functools.partial(_light, host, names))
        return {"nodes": found}

    def _on_explain(self, comm: Any, message: dict[str, Any]) -> dict[str, Any]:
        """Tell the last error of a graph, also one from before the page was there."""
        if self._failure is None:
            failure = _failure(getattr(sys, "last_value", None))
            self._failure = None if failure is None else {**failure.facts(), "cell": ""}
        return {"facts": self._failure}


def _failure(error: BaseException | None) -> Any:
    """Return an error of a graph as what can be drawn of it; called by the main thread."""
    from .failure import Failure

    return Failure.of(error)


def _light(host: Any, names: list[str]) -> None:
    host.desk.tell("overlay", title="this cell", values=dict.fromkeys(names, 1.0))
    host.selected = names[-1]


def _running_cell() -> str:
    """Return the front end's name of the cell that runs or has just run."""
    shell = notebook_shell()
    parent: dict[str, Any] = getattr(shell, "get_parent", dict)() or {}
    return str(parent.get("metadata", {}).get("cellId", ""))
