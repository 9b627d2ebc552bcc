"""A look into the kernels of a GPU: a step of the plan, its programs, and one of them line by line.

All of it runs on a simulated GPU, in the background, on the numbers of a real step.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable
from typing import Any

import traitlets

from gradwright import Graph
from gradwright.errors import GraphError
from gradwright.program.insight import insight

from ...host.base import bundle
from ...host.desk import GraphDesk
from ...host.host import Host
from ...host.panel import Panel
from ...host.part import handles, shared
from ...host.typed import whole_number
from ...host.wire import Message
from ...still.tables import html_table
from .facts import cost_message, launch_message, program_message, steps_message, value_message

DEVICE = "cuda-sim"
CAPABILITIES = "80", "90", "100"
INSTALL = "Kernels of a GPU need Triton: pip install 'gradwright[gpu]', on Linux"


class KernelsPanel(Panel):
    """The kernels that a graph runs on a GPU.

    Args:
        desk: where graph, trainer and example are found.
        seen: launches that were looked at already, as those of a ``KernelCheck``.
    """

    name = "kernels"
    public = ("look_into", "look_at_program", "kernel_launches", "kernel_cost", "wait_for_kernels")
    desk: GraphDesk

    kernel_devices = shared(
        traitlets.List(traitlets.Dict(), help="Devices whose kernels can be seen here.")
    )
    kernel_hint = shared(traitlets.Unicode("", help="What is missing for a look into kernels."))
    kernel_state = shared(
        traitlets.Enum(("", "running", "done", "failed"), "", help="How far a look is.")
    )
    kernel_step = shared(traitlets.Int(-1, min=-1, help="Step of the plan that is looked into."))
    kernel_launch = shared(traitlets.Int(0, min=0, help="Which of its launches is shown."))
    kernel_program = shared(traitlets.Int(0, min=0, help="Which of its programs is shown."))
    kernel_line = shared(traitlets.Int(0, min=0, help="At which of its lines it stands."))
    kernel_chip = shared(
        traitlets.Enum(CAPABILITIES, "90", help="Compute capability of the GPU it is compiled for.")
    )

    def __init__(self, desk: GraphDesk, *, seen: Any = None) -> None:
        super().__init__(desk)
        self._lock = threading.RLock()
        self._work = self.widget.background("the look into a kernel")
        self._launches: list[Any] = [] if seen is None else list(seen.launches)
        self._steps: Any = None
        self._walk: Any = None
        self._told: dict[str, Message] = {}

    def initial(self) -> dict[str, Any]:
        """Say whether there is something to look into."""
        if self._launches:
            return {"kernel_devices": [{"name": DEVICE}], "kernel_state": "done"}
        there = all(importlib.util.find_spec(name) for name in ("triton", "gradwright_kernels"))
        return {
            "kernel_devices": [{"name": DEVICE}] if there else [],
            "kernel_hint": "" if there else INSTALL,
        }

    def begin(self) -> None:
        """Show what was given."""
        if self._launches:
            self._show(-1, 0, 0)

    # -- looking ---------------------------------------------------------------------------------

    def look_into(self, node: str | int = "", *, launch: int = 0, wait: bool = True) -> None:
        """Run the kernel that computes a node on a simulated GPU, and show it.

        Args:
            node: its name, or a scope's with a slash behind it, or the number of a step; default
                what is selected, else the first step that is a kernel.
            launch: which of the step's launches.
            wait: return when it is shown, and raise what went wrong; False: at once.

        Raises GraphError where no kernel computes it, LoweringError without Triton.
        """

        def look() -> None:
            steps = self._planned()
            number = node if isinstance(node, int) else self._step_of(steps, node)
            seen = steps.see(number)
            with self._lock:
                self._launches = seen.launches
            self._show(number, launch, 0)

        self._run(look, wait)

    def look_at_program(self, program: int, *, wait: bool = True) -> None:
        """Show what a program of the launch does; raises GraphError for one not looked at."""
        self._run(lambda: self._show(self.kernel_step, self.kernel_launch, program), wait)

    def kernel_launches(self) -> list[Any]:
        """Return the launches of the step that is shown."""
        with self._lock:
            return list(self._launches)

    def kernel_cost(self, capability: int | None = None) -> Any:
        """Return, and show, what the launch takes on a GPU of a compute capability."""
        chip = int(self.kernel_chip) if capability is None else capability
        if str(chip) not in CAPABILITIES:
            raise GraphError(f"no figures for compute capability {chip}", need="80, 90 or 100")
        launch = self._launch(self.kernel_launch)
        flops = None if self._steps is None else self._steps.flops(self.kernel_step)
        found = insight(DEVICE).cost(launch, chip, flops)
        self.kernel_chip = str(chip)
        self._tell(cost_message(found))
        return found

    def wait_for_kernels(self) -> None:
        """Return when what runs in the background is shown."""
        self._work.join()

    def _planned(self) -> Any:
        """Return the steps of a plan of the graph as it is now, and show them."""
        desk, trainer = self.desk, self.desk.trainer
        feeds = desk.example_feeds()
        made = insight(DEVICE).steps(desk.loss_tensor() if trainer is None else trainer, feeds)
        with self._lock:
            self._steps = made
        self._tell(steps_message(made.rows))
        return made

    def _step_of(self, steps: Any, node: str) -> int:
        wanted = node or self.desk.selected
        found = steps.at(wanted) if wanted else None
        if found is not None and steps.rows[found].what in ("kernel", "product"):
            return int(found)
        if node:
            raise GraphError(
                f"no kernel computes {node!r}",
                facts=[] if found is None else [f"step {found} is a {steps.rows[found].what}"],
                hint="kernels compute several nodes at once; see the list of steps",
            )
        kernels = [row.number for row in steps.rows if row.what in ("kernel", "product")]
        if not kernels:
            raise GraphError("nothing of this graph runs as a kernel")
        return int(kernels[0])

    def _launch(self, number: int) -> Any:
        with self._lock:
            if not 0 <= number < len(self._launches):
                n = len(self._launches)
                raise GraphError(f"there is no launch {number}", need=f"one of {n}")
            return self._launches[number]

    def _show(self, step: int, number: int, program: int) -> None:
        launch = self._launch(number)
        walk = launch.walk(program)
        with self._lock:
            self._walk = walk
            self._told.pop("kernels.cost", None)
            count = len(self._launches)
        first = next(
            (k for k, line in enumerate(walk.lines) if line.accesses[0] < line.accesses[1]), 0
        )
        with self.widget.hold_sync():
            self.kernel_step, self.kernel_launch = step, number
            self.kernel_program, self.kernel_line = program, first
        self._tell(launch_message(launch, step, number, count))
        self._tell(program_message(launch, program, walk))

    def _run(self, look: Callable[[], None], wait: bool) -> None:
        failed: list[Exception] = []

        def work(stop: threading.Event) -> None:
            self.kernel_state = "running"
            try:
                look()
                self.kernel_state = "done"
            except Exception as error:
                self.kernel_state = "failed"
                failed.append(error)
                if not wait:
                    raise

        if wait:
            self._work.join()
        self._work.start(work)
        if wait:
            self._work.join()
            if failed:
                raise failed[0]

    def _tell(self, message: Message) -> None:
        with self._lock:
            self._told[message[0]["kind"]] = message
        self.widget.send(*message)

    # -- what the page asks for ------------------------------------------------------------------

    @handles("sync")
    def _on_kernels_sync(self, content: dict[str, Any]) -> None:
        if content.get("module") is True:
            self.widget.send(*kernels_module())
        for message in self.new_view_messages():
            self.widget.send(*message)

    @handles("look")
    def _on_look(self, content: dict[str, Any]) -> None:
        step, launch = content.get("step"), whole_number(content.get("launch", 0))
        if step is None:
            self.look_into(str(content.get("node") or ""), launch=launch, wait=False)
        elif whole_number(step) == self.kernel_step:
            self._run(lambda: self._show(self.kernel_step, launch, 0), False)
        else:
            self.look_into(self._numbered(whole_number(step)), launch=launch, wait=False)

    def _numbered(self, step: int) -> int:
        rows = [] if self._steps is None else self._steps.rows
        if not 0 <= step < len(rows):
            raise GraphError(f"there is no step {step}", need=f"one of {len(rows)}")
        return step

    @handles("program")
    def _on_program(self, content: dict[str, Any]) -> None:
        program = whole_number(content.get("program"))
        self._launch(self.kernel_launch).of(program)
        self.look_at_program(program, wait=False)

    @handles("users")
    def _on_users(self, content: dict[str, Any]) -> None:
        argument, element = (whole_number(content.get(key)) for key in ("argument", "element"))
        launch = self._launch(self.kernel_launch)
        operands = launch.operands
        if not 0 <= argument < len(operands) or not 0 <= element < operands[argument].elements.size:
            raise GraphError("there is no such element")
        place = int(operands[argument].elements.reshape(-1)[element])
        reads, writes = launch.at(argument, place)
        content = {
            "kind": "kernels.users", "argument": argument, "element": element,
            "reads": reads, "writes": writes,
        }  # fmt: skip
        self._tell((content, []))

    @handles("value")
    def _on_value(self, content: dict[str, Any]) -> None:
        line, name = whole_number(content.get("line")), str(content.get("name"))
        with self._lock:
            lines = [] if self._walk is None else self._walk.lines[: line + 1]
        found = [v for each in lines for v in each.changed if v.name == name] if line >= 0 else []
        if not found:
            raise GraphError(f"{name:.60} is not set by then")
        self._tell(value_message(line, found[-1]))

    @handles("cost")
    def _on_cost(self, content: dict[str, Any]) -> None:
        chip = whole_number(content.get("chip"))
        self._launch(self.kernel_launch)
        self._run(lambda: self.kernel_cost(chip) and None, False)

    def new_view_messages(self, *, whole: bool = False) -> list[Message]:
        """Return what was told last of each kind, what belongs together in its order."""
        with self._lock:
            return [self._told[kind] for kind in _ORDER if kind in self._told]

    # -- views that last -------------------------------------------------------------------------

    def to_table(self) -> str:
        """Return what each line of the launch does as an HTML table."""
        launches = self.kernel_launches()
        if not launches:
            return ""
        launch = launches[min(self.kernel_launch, len(launches) - 1)]
        rows = [
            [str(t.place[1]), launch.operands[t.argument].parameter, t.how, str(t.accesses),
             f"{t.masked:.0%}", f"{t.distinct:,}", f"{t.sectors:.1f}"]
            for t in launch.touches() if t.argument >= 0
        ]  # fmt: skip
        columns = ["line", "array", "", "accesses", "masked off", "bytes", "sectors × least"]
        return html_table(columns, rows)


_ORDER = tuple(
    f"kernels.{kind}" for kind in ("steps", "launch", "program", "cost", "users", "value")
)


def kernels_module() -> Message:
    """Return the code of the panel, for a widget whose module is without it."""
    return {"kind": "kernels.module"}, [bundle("kernels_part").encode()]


class KernelView(Host):
    """A look into the kernels that a graph runs on a GPU, on a machine that need not have one.

    From a node to its kernel: the text, which program reads and writes which elements, the values
    inside of a program, line by line, and what it takes on a GPU.

    Args:
        graph: the graph.
        trainer: whose update is looked into; without one it is what computes ``loss``.
        seen: launches to show, as what ``check_kernel`` of ``gradwright_kernels`` has found.
        options: traits, and ``loss`` and ``feeds`` as those of :class:`Workbench`.

    >>> import gradwright as gw, numpy as np
    >>> g = gw.Graph("net")
    >>> y = gw.nn.gelu(g.placeholder("x", (3, 5)) * 2.0, name="y")
    >>> view = KernelView(g, loss=y, feeds={"x": np.ones((3, 5), "f4")})
    >>> view.look_into("y")
    >>> [launch] = view.kernel_launches()
    >>> view.kernel_state, launch.n_programs, launch.findings
    ('done', 1, [])
    """

    module = "kernel_view"
    panels = (KernelsPanel,)
    height = traitlets.Int(640, min=320, max=4000, help="Height in pixels.").tag(sync=True)

    def __init__(self, graph: Graph, trainer: Any = None, **options: Any) -> None:
        super().__init__(graph, trainer, **options)
