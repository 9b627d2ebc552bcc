"""Report: what went wrong, for who has to mend it: graph, versions, plans and log, and no data."""

from __future__ import annotations

import contextlib
import io
import itertools
import logging
import os
import platform
import re
import sys
import traceback
import zipfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import GradwrightError, GraphError
from ..files.whole import replacing
from ..graph import Graph, Node, Tensor
from ..plan import Plan
from ..session import Session
from ..train.trainer import Trainer
from .about import versions

_OURS = ("gradwright", "gradwright_widgets", "gradwright_kernels")
LINES = 5000
"""How many lines of the log are kept, the latest."""
README = """\
A report of gradwright, made by gw.report, to be attached to a description of what went wrong.

  versions.txt  Python, gradwright, its libraries, kind of machine
  graph.txt     each node: op, attributes, inputs, dtypes and shapes
  plans.txt     what sessions compiled it to: shapes, rewrites, kernels, memory
  error.txt     what was raised, and the lines of gradwright it came through
  log.txt       what gradwright told logging at DEBUG, where that was listened to

There are no values of variables, constants or feeds in it, and no path of this machine.
{names}
"""
NAMED = "Names of nodes, your lines in error.txt and texts among attributes are in it (names=True)."
UNNAMED = "Names are numbered, and texts among attributes and messages left out (names=False)."


def report(
    path: str | os.PathLike[str],
    *about: Graph | Session | Trainer | Plan,
    error: BaseException | None = None,
    names: bool = False,
) -> Path:
    """Write a zip of texts that says what went wrong and holds no data; return where it is.

    ``README.txt`` in it says what it has: graph, versions, plans, the error, and the log of a block
    of ``gw.reporting``. No value of a variable, constant or feed is in it, and no path.

    Args:
        path: a file to write, such as ``"report.zip"``.
        *about: graphs, sessions, trainers, plans.
        error: what was raised; default the one that is being handled, or was last shown.
        names: keep names of nodes, texts among attributes, your lines and whole messages. Without,
            names are numbered and what stands in quotes is left out.

    Raises GraphError for what is none of these, OSError where the file cannot be written.

    >>> import gradwright as gw, tempfile, pathlib, zipfile
    >>> g = gw.Graph("secret")
    >>> y = g.placeholder("patients", (None, 3)) * 2.0
    >>> path = gw.report(pathlib.Path(tempfile.mkdtemp(), "report.zip"), g)
    >>> with zipfile.ZipFile(path) as held:
    ...     print(held.read("graph.txt").decode())
    graph 1: 2 nodes
    n1: f32[s1, 3] = placeholder
    n2: f32[s1, 3] = mul(n1, c1)
    """
    return _write(Path(path), about, error, names, ())


@contextlib.contextmanager
def reporting(
    path: str | os.PathLike[str], *about: Graph | Session | Trainer | Plan, names: bool = False
) -> Iterator[None]:
    """Write a report, as ``gw.report`` does, if the block fails, with the log of the block.

    What it raises is raised; where the report itself cannot be written, a note is added to it.

    >>> import gradwright as gw, tempfile, pathlib, zipfile
    >>> g = gw.Graph()
    >>> y = g.placeholder("x", (3,)) * 2.0
    >>> path = pathlib.Path(tempfile.mkdtemp(), "report.zip")
    >>> with gw.reporting(path, g):
    ...     gw.Session(g).run(y, {"x": [1.0]})
    ... # doctest: +ELLIPSIS
    Traceback (most recent call last):
    gradwright.errors.FeedError: placeholder 'x' is fed with size 1 on axis 0...
    >>> zipfile.ZipFile(path).namelist()
    ['README.txt', 'versions.txt', 'graph.txt', 'plans.txt', 'error.txt', 'log.txt']
    """
    kept, logger = _Kept(), logging.getLogger("gradwright")
    level = logger.level
    logger.addHandler(kept)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    except Exception as error:
        try:
            _write(Path(path), about, error, names, kept.lines)
        except Exception as failed:
            error.add_note(f"no report was written: {failed}")
        raise
    finally:
        logger.removeHandler(kept)
        logger.setLevel(level)


class _Kept(logging.Handler):
    """Keeps the latest lines."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: deque[str] = deque(maxlen=LINES)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line."""
        self.lines.append(f"{record.relativeCreated:10.0f} {record.name}: {record.getMessage()}")


def _write(
    path: Path, about: Sequence[Any], error: BaseException | None, names: bool, log: Sequence[str]
) -> Path:
    graphs, plans = _parts(about)
    if error is None:
        error = sys.exception() or getattr(sys, "last_value", None)
    told = _Told(graphs, names)
    texts = {
        "README.txt": README.format(names=NAMED if names else UNNAMED),
        "versions.txt": _versions(),
        "graph.txt": "\n".join(_graph(g, n, told) for n, g in enumerate(graphs, 1)),
        "plans.txt": "\n\n".join(_plan(plan, told) for plan in plans) or "no plan",
        "error.txt": "none" if error is None else _error(error, told),
        "log.txt": "\n".join(map(told.text, log)),
    }
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as held:
        for name, text in texts.items():
            held.writestr(zipfile.ZipInfo(name), text)  # without the time
    with replacing(path) as target:
        target.write(file.getvalue())
    return path


def _parts(about: Sequence[Any]) -> tuple[list[Graph], list[Plan]]:
    """Return the graphs and plans of what was given, each once."""
    graphs: dict[Graph, None] = {}
    plans: dict[Plan, None] = {}
    for item in about:
        match item:
            case Graph():
                graphs[item] = None
            case Session():
                graphs[item.graph] = None
                plans |= dict.fromkeys(item.plans)
            case Trainer():
                graphs[item.graph] = None
                plans |= dict.fromkeys(item.session.plans)
            case Plan():
                graphs |= dict.fromkeys(t.graph for t in item.targets)
                plans[item] = None
            case _:
                raise GraphError(
                    f"a {type(item).__name__} cannot be reported",
                    need="graphs, sessions, trainers or plans",
                )
    return list(graphs), list(plans)


def _versions() -> str:
    cpus = f"{os.cpu_count()} processors"
    held = {"python": platform.python_version(), **versions()}
    machine = f"machine: {platform.system()} {platform.machine()}, {cpus}"
    return "\n".join([*(f"{name}: {version}" for name, version in held.items()), machine])


class _Told:
    """What names are told as: as they are, or by numbers."""

    def __init__(self, graphs: Sequence[Graph], named: bool) -> None:
        self.named = named
        self._numbers: dict[str, str] = {}
        if named:
            return
        constants, others, sizes = (itertools.count(1) for _ in range(3))
        for graph in graphs:
            self._numbers[graph.name] = f"graph {len(self._numbers) + 1}"
            for node in graph.all_nodes:
                count, letter = (constants, "c") if node.kind == "constant" else (others, "n")
                for t in node.outputs:
                    self._numbers.setdefault(t.name, f"{letter}{next(count)}")
                    for word in re.findall(r"[^\W\d]\w*", ",".join(map(str, t.spec.shape or ()))):
                        self._numbers.setdefault(word, f"s{next(sizes)}")
                self._numbers.setdefault(node.name, self._numbers[node.outputs[0].name])
        found = sorted(map(re.escape, filter(None, self._numbers)), key=len, reverse=True)
        self._known = re.compile(rf"(?<![\w/])({'|'.join(found) or '(?!)'})(?![\w/])")

    def tensor(self, t: Tensor | None) -> str:
        """Return what a tensor is called."""
        return "-" if t is None else self.name(t.name)

    def name(self, name: str) -> str:
        """Return what a name is told as."""
        return name if self.named else self._numbers.get(name, "?")

    def spec(self, t: Tensor) -> str:
        """Return dtype and shape, whose sizes may have names, too."""
        return str(t.spec) if self.named else self._known.sub(self._number, str(t.spec))

    def text(self, text: str) -> str:
        """Return a message: what is in quotes and no name of the graph is left out."""
        if self.named:
            return text
        text = self._known.sub(self._number, text)
        return re.sub(r"'(?![ncs]\d+')[^']*'|\"[^\"]*\"", "'...'", text)

    def _number(self, found: re.Match[str]) -> str:
        return self._numbers[found[0]]

    def value(self, value: Any) -> str:
        """Return an attribute: numbers and dtypes are told, arrays and texts only with names."""
        match value:
            case bool() | int() | float() | None | np.dtype() | type():
                return repr(value)
            case str():
                return repr(value) if self.named else "text"
            case tuple() | list():
                return f"[{', '.join(map(self.value, value))}]"
            case _ if isinstance(value, np.ndarray):
                return f"{value.dtype}{list(value.shape)}"
            case Mapping():
                return f"{len(value)} entries"
        return type(value).__name__


def _graph(graph: Graph, n: int, told: _Told) -> str:
    head = f"graph {graph.name!r}" if told.named else f"graph {n}"
    nodes = [node for node in graph.all_nodes if node.kind != "constant"]
    lines = [_node(node, told) for node in nodes]
    lines += [f"update {told.tensor(v)} = {told.tensor(t)}" for v, t in graph.updates.items()]
    return "\n".join([f"{head}: {len(nodes)} nodes", *lines])


def _node(node: Node, told: _Told) -> str:
    outs = ", ".join(f"{told.tensor(t)}: {told.spec(t)}" for t in node.outputs)
    op = node.op.name if told.named or not node.op.name.startswith("local/") else "local op"
    if node.kind != "array":
        still = ", frozen" if node.kind == "variable" and not node.trainable else ""
        return f"{outs} = {node.kind}{still}"
    given = [told.tensor(t) for t in node.inputs]
    given += [f"{k}={told.value(v)}" for k, v in node.op.attributes().items()]
    derived = "  (derived)" if node.derived else ""
    return f"{outs} = {op}({', '.join(given)}){derived}"


def _plan(plan: Plan, told: _Told) -> str:
    feeds = ", ".join(told.tensor(t) for t in plan.feeds)
    targets = ", ".join(map(told.tensor, plan.targets)) or "updates"
    mode = "training" if plan.training else "evaluation"
    memory = plan.memory()
    rows = [
        f"plan of {targets} for {feeds or 'no feeds'}, {mode}",
        f"rewrites: {str(plan.rewrites).partition(chr(10))[0]}",
        f"kernels: {plan.kernels.said()}",
        f"memory: {memory.arena:,} bytes of arena",
    ]
    rows += [
        f"  {i}: {instr.op.name} -> " + ", ".join(str(plan.program.specs[o]) for o in instr.outs)
        for i, instr in enumerate(plan.program.instrs)
        if told.named or not instr.op.name.startswith("local/")
    ]
    return "\n".join(rows)


def _error(error: BaseException, told: _Told) -> str:
    """Return what was raised and where; of the user's own files, lines only with names."""
    rows = []
    tb = error.__traceback__
    for frame, (running, _) in zip(traceback.extract_tb(tb), traceback.walk_tb(tb), strict=False):
        module = running.f_globals.get("__name__", "")
        if module.partition(".")[0] in _OURS:  # a folder may be called so, too
            path = Path(frame.filename)
            depth = 1 + module.count(".") + (path.stem == "__init__")
            rows.append(f"  {'/'.join(path.parts[-depth:])}:{frame.lineno} in {frame.name}")
        elif told.named:
            rows.append(
                f"  {Path(frame.filename).name}:{frame.lineno} in {frame.name}: {frame.line}"
            )
        else:
            rows.append("  a line of yours")
    own = isinstance(error, GradwrightError) or told.named
    message = told.text(str(error)) if own else "its message is left out"
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    before = "" if cause is None else f"{_error(cause, told)}\n\nand then\n\n"
    return f"{before}{type(error).__name__}: {message}\n" + "\n".join(rows)
