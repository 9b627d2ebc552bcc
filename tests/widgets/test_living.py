"""What a page costs a kernel, and what is found in a namespace of all sorts of things."""

from __future__ import annotations

import gc
import subprocess
import sys
from typing import Any
from unittest.mock import Mock

import pytest

import gradwright as gw
import gradwright_widgets as gww
from gradwright_widgets.bridge.living import living, shown


class NoWords:
    def __repr__(self) -> str:
        pytest.fail("code of the user's was run")


class Pretending:
    @property
    def __class__(self) -> type:
        pytest.fail("code of the user's was run")


class Computed:
    @property
    def __dict__(self) -> Any:
        raise RuntimeError("it is computed")


class Unhashable(type):
    def __eq__(cls, other: object) -> bool:
        return False

    __hash__ = None


WAITS = """
import sys, time
from gradwright_widgets.bridge import hook

class Comm:
    comm_id, sent = "one", []
    def on_msg(self, heard): self.heard = heard
    def on_close(self, closed): self.closed = closed
    def send(self, message): self.sent.append(message["kind"])

def opened():
    comm = Comm()
    comm.sent = []
    hook._opened(comm, {})
    comm.heard({"content": {"data": {"kind": "hello", "page": str(id(comm))}}})
    return comm

gone, comm = opened(), opened()
gone.closed({})
time.sleep(3 * hook.Waiting.EVERY)
assert "gradwright" not in sys.modules and not comm.sent
if sys.argv[1] == "imports":
    import gradwright
else:
    comm.heard({"content": {"data": {"kind": "explain", "id": 1}}})
    assert "answer" in comm.sent
while "failure" not in comm.sent:
    time.sleep(0.05)
assert not gone.sent
"""


@pytest.mark.parametrize("how", ["imports", "asks"])
def test_a_kernel_loads_nothing_for_a_page_before_gradwright_is_at_work(how):
    subprocess.run([sys.executable, "-c", WAITS, how], check=True, timeout=60)


def test_whatever_else_is_in_a_namespace_hides_nothing():
    graph = gw.Graph("parabola")
    trainer = gw.Trainer(graph, gw.square(graph.variable("w", ())))
    odd = {
        "by_key": {NoWords(): graph, (16, "relu"): trainer},
        "proxy": Pretending(),
        "mock": Mock(spec=gw.Graph),
        "another_mock": Mock(spec=gw.Trainer),
        "computed": Computed(),
        "unhashable": Unhashable("Unhashable", (), {})(),
        3: graph,
    }
    found = living({**odd, "g": graph})
    assert next(iter(found.graphs)) == "g" and "mock" not in found.graphs
    assert "by_key[(16, 'relu')]" in found.trainers and "another_mock" not in found.trainers


def test_what_is_alive_keeps_its_name_when_something_else_dies():
    def trainer() -> gw.Trainer:
        graph = gw.Graph("alone")
        return gw.Trainer(graph, gw.square(graph.variable("w", ())))

    def names(of: dict[str, Any], things: list[Any]) -> list[str]:
        return [next(name for name, value in of.items() if value is thing) for thing in things]

    kept = [trainer() for _ in range(3)]
    first, *others = names(living({}).trainers, kept)
    del kept[0]
    gc.collect()
    assert names(living({}).trainers, kept) == others and first not in living({}).trainers

    views = [gww.GraphView(gw.Graph("shown")) for _ in range(3)]
    before = names(shown(), views)
    views.pop(0).close()
    assert names(shown(), views) == before[1:] and before[0] not in shown()
    views.append(gww.GraphView(gw.Graph("later")))
    assert names(shown(), views) == [*before[1:], before[0]]
    for view in views:
        view.close()
