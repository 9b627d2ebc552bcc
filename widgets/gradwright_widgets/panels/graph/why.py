"""Why a gradient is what it is: the path back from the loss, in words and lit in the drawing."""

from __future__ import annotations

import threading
from typing import Any

import traitlets

from gradwright import Tensor, explain_gradient
from gradwright.debug import Explanation
from gradwright.debug.address import Address
from gradwright.errors import GradwrightError

from ...host.desk import GraphDesk
from ...host.panel import Panel
from ...host.part import handles, shared

_OVERLAY = "norm of the gradient"


class WhyPanel(Panel):
    """The explanation of one gradient, beside the drawing."""

    name = "why"
    desk: GraphDesk

    why = shared(
        traitlets.Dict(
            help="Of a gradient: parameter, verdict, text, causes, and the nodes of its path from"
            " the loss; empty for none, and with `busy` while it is looked for."
        )
    )

    def __init__(self, desk: GraphDesk) -> None:
        super().__init__(desk)
        self._work = self.widget.background("the explanation of a gradient")
        self._found: Explanation | None = None

    @property
    def explanation(self) -> Explanation | None:
        """The explanation that is shown, or None."""
        return self._found

    def explain_gradient(
        self, parameter: Tensor | str, *, wait: bool = False
    ) -> Explanation | None:
        """Say why the gradient of a parameter or an activation is zero, small or large.

        Its path from the loss is lit in the drawing, coloured by the norm of the gradient there, on
        the example and the values of this moment. With ``wait`` the explanation is returned.

        Raises:
            GraphError: there is no such node, no loss or nothing to run on.
            GradwrightError: another one is looked for.
        """
        graph = self.desk.graph
        loss, feeds = self.desk.loss_tensor(), self.desk.example_feeds()
        chosen = graph[parameter] if isinstance(parameter, str) else parameter
        values = self.desk.values.snapshot()
        failure: list[Exception] = []

        def task(_: threading.Event) -> None:
            try:
                self._show(explain_gradient(graph, loss, chosen, feeds, values=values))
            except Exception as error:
                self.why = {}
                failure.append(error)
                raise

        self._work.join(0.1)  # a double click asks twice
        if self._work.busy:
            raise GradwrightError("another gradient is being explained", hint="ask again")
        self.clear_explanation()
        self.why = {"busy": chosen.name}
        self._work.start(task)
        if not wait:
            return None
        self._work.join()
        if failure:
            raise failure[0]
        return self._found

    def clear_explanation(self) -> None:
        """Take the path and its colours off the drawing."""
        self._found, self.why = None, {}
        self.desk.tell("overlay", title=_OVERLAY, values=None)

    def _show(self, found: Explanation) -> None:
        self._found = found
        norms: dict[str, float] = {found.parameter: found.norm}
        for step in found.steps:
            address = str(step.address.anywhere)
            norms[address] = max(step.norm_in, norms.get(address, 0.0))
        with self.widget.hold_sync():
            self.why = explained(found)
            self.desk.tell("overlay", title=_OVERLAY, values=norms, scale="log")

    @handles("ask")
    def _on_ask(self, content: dict[str, Any]) -> None:
        self.explain_gradient(str(content.get("name")))

    @handles("clear")
    def _on_clear(self, _: Any) -> None:
        self.clear_explanation()

    def refresh(self) -> None:
        """Forget an explanation of nodes that are gone."""
        if self._found is not None and self.desk.graph.get(self._found.parameter) is None:
            self.clear_explanation()

    def to_table(self) -> str:
        """Return the explanation as an HTML table."""
        return "" if self._found is None else self._found.table()._repr_html_()


def explained(found: Explanation) -> dict[str, Any]:
    """Return an explanation as a page takes it; bodies of loops are drawn once, for all turns."""

    def drawn(nodes: Any) -> list[str]:
        return list(dict.fromkeys(str(Address.parse(name).anywhere) for name in nodes))

    return {
        "parameter": found.parameter,
        "loss": found.loss,
        "verdict": found.verdict,
        "text": found.text.splitlines(),
        "causes": [
            {"kind": c.kind, "text": c.text, "nodes": drawn(c.nodes)} for c in found.causes
        ],
        "nodes": drawn(found.nodes),
        "culprits": drawn(found.culprits),
    }  # fmt: skip
