"""Ours and theirs node by node, bodies included: which is the first that differs?"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import numpy as np

from .....debug.address import BRANCHES, parts, specs_of
from .....errors import FeedError, GradwrightError, GraphError
from .....graph import Graph, Node, Tensor
from .....ops.control.branch import Cond
from .....ops.control.call import Call
from .....ops.control.loop_op import LoopOp
from .....session.feeds import as_feed
from .....spec import spec_of
from ...model import read_model
from ..opening import need_onnxruntime
from .bodies import Turn, alone, called, lifted, turns_of
from .frames import Frame, Unit
from .report import Comparison, NodeComparison
from .rounding import Judgement, Rounding, relative
from .theirs import By, Theirs

if TYPE_CHECKING:
    from onnx import ModelProto

Array = np.ndarray[Any, Any]
NAMES = {"onnxruntime": "ONNX Runtime", "reference": "onnx.reference"}
RANDOM = frozenset(
    {
        *("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike"),
        *("Bernoulli", "Multinomial"),
    }
)
HOLDERS = (Cond, LoopOp, Call)
"""Ops of ours that enclose others, as bodies."""
DEEPEST = 16
"""Bodies in bodies that are looked into."""


def compare(
    model: Graph | str | os.PathLike[str] | bytes | ModelProto,
    feeds: Mapping[Any, Any] | None = None,
    *,
    outputs: Sequence[Tensor | str] | None = None,
    opset: int = 23,
    by: By = "onnxruntime",
    providers: Any = None,
    turns: int = 16,
    progress: Callable[[int, int, str], object] | None = None,
    should_stop: Event | None = None,
) -> Comparison:
    """Run a model here and on ONNX Runtime, and return which node is the first that differs.

    Each node is computed here on the inputs that it has there, so a wrong one is told from those
    that inherit its error. What rounding explains is measured: by how much results move where
    inputs are off by a rounding. What is drawn at random is not compared. Bodies of branches,
    loops and functions are looked into; of a body the operators are those that it has in the
    model. Nodes are computed one by one: what a compiled plan makes of them is beside it held by
    ``gw.Session(g, check="replay")``.

    Args:
        model: a graph, which is written as ONNX for it, or a path, bytes, or a ``ModelProto``.
        feeds: input -> value, by name or placeholder.
        outputs: of a graph: which tensors it is about, as for ``to_model``.
        opset: of a graph: the opset that it is written in.
        by: beside whom: "onnxruntime", or "reference", the evaluator of the onnx package, which is
            slow, and knows every opset.
        providers: of ONNX Runtime, as for ``Runner``.
        turns: of each loop that are looked into; of one that differs all until a node is found.
        progress: called with nodes done, nodes in all, and the name of the next.
        should_stop: set from another thread, it ends the comparison with what it has by then.

    Raises:
        FeedError: an input is missing or unknown, or does not fit.
        ArchiveError, UnsupportedOpError: the model cannot be read here, or opened there.
        GraphError: it does not run there, or a package is missing.

    >>> import gradwright as gw
    >>> g = gw.Graph("net")
    >>> y = gw.nn.gelu(g.placeholder("x", ("B", 2)) * 2.0, name="y")
    >>> found = gw.onnx.compare(g, {"x": [[1.0, -3.0]]})
    >>> found
    <'net' beside ONNX Runtime: 2 nodes agree>
    >>> found["y"].verdict, found.first
    ('ok', None)
    """
    if not isinstance(by, str) or by not in NAMES:
        raise GraphError(f"by={by!r} is not known", need=" or ".join(map(repr, NAMES)))
    if by == "onnxruntime":
        need_onnxruntime()
    if type(turns) is not int or turns < 0:
        raise GraphError(f"turns={turns!r} is no number of turns", need="0 or more")
    folder = None
    if isinstance(model, Graph):
        frame = _of_graph(model, outputs, opset)
    elif outputs is not None:
        raise GraphError("outputs are chosen where a graph is given")
    else:
        proto, beside = read_model(model)
        frame = Frame.of_model(proto, model, beside)
        folder = Path(model).parent if isinstance(model, str | os.PathLike) else None
    walk = _Walk(by, providers, turns)
    given = _fed(frame, {} if feeds is None else feeds)
    found = Theirs(frame.model, frame.used, by, providers, folder).values(given)
    frame.take({**given, **found})
    units, rows = list(frame.units()), list[NodeComparison]()
    for done, unit in enumerate(units):
        if should_stop is not None and should_stop.is_set():
            break
        if progress is not None:
            progress(done, len(units), unit.name)
        rows += walk.of_unit(frame, unit, 0)
    else:
        done = len(units)
    return Comparison(frame.graph, rows, NAMES[by], stopped=done < len(units))


def _of_graph(graph: Graph, outputs: Sequence[Tensor | str] | None, opset: int) -> Frame:
    from ... import writers  # noqa: F401 - enters them
    from ...exporter import export_graph

    called: dict[Tensor, str] = {}
    proto = export_graph(graph, outputs, opset, names_of=called)
    tensors = {name: t for t, name in reversed(called.items())}
    return Frame(graph, proto, tensors, own=True)


def _fed(frame: Frame, feeds: Mapping[Any, Any]) -> dict[str, Array]:
    """Return what is fed by the names of the model; raises FeedError where it does not fit."""
    if not isinstance(feeds, Mapping):
        raise FeedError(f"the feeds are a {type(feeds).__name__}", need="a dict by input")
    stored = {t.name for t in frame.model.graph.initializer}
    names = [i.name for i in frame.model.graph.input if i.name not in stored]
    known = {key: n for n in names for key in (frame.tensors[n].name, n)}
    given = {str(getattr(key, "name", key)): value for key, value in feeds.items()}
    spare = {t.name for t in frame.graph.placeholders} if frame.own else set()
    given = {key: x for key, x in given.items() if key in known or key not in spare}
    unknown = [key for key in given if key not in known]
    if unknown:
        raise FeedError(
            f"the model has no input {unknown[0]!r}", facts=[f"inputs: {', '.join(names)}"]
        )
    found = {known[key]: as_feed(frame.tensors[known[key]], x) for key, x in given.items()}
    missing = [name for name in names if name not in found]
    if missing:
        needed = [f"missing: {n!r}, {frame.tensors[n].spec}" for n in missing]
        raise FeedError(f"input {missing[0]!r} is not fed", facts=needed)
    return {name: found[name] for name in names}


@dataclass(frozen=True)
class _Walk:
    """The way through a model and its bodies."""

    by: By
    providers: Any
    turns: int

    def of_unit(self, frame: Frame, unit: Unit, depth: int) -> list[NodeComparison]:
        """Return what a node is beside its own, and before it what it encloses."""
        random = frame.draws(unit) or bool(RANDOM.intersection(unit.operators))
        frame.go_on(unit, random=random)
        row = self._row(frame, unit, random)
        if depth == DEEPEST or row.verdict in ("random", "unknown"):
            return [row]
        inside = self._inside(frame, unit, row, depth)
        wrong = [inner for inner in inside if inner.differs]
        if row.differs and wrong:
            row = replace(row, verdict="inside", reason=f"of {wrong[0].name!r}", second="")
        return [*inside, row]

    def _row(self, frame: Frame, unit: Unit, random: bool) -> NodeComparison:
        node, t = unit.main, unit.outputs[0][1]
        told = NodeComparison(
            unit.name, unit.ops, f"{' + '.join(unit.operators)} {unit.outputs[0][0]!r}",
            str(spec_of(frame.given[t]) if t in frame.given else t.spec), math.nan, math.nan, 0.0,
            "unknown", f"{NAMES[self.by]} gives no tensor", where=node.where if frame.own else "",
            drawn=tuple(n.name for n in unit.computing) or (node.name,),
        )  # fmt: skip
        if random:
            return replace(told, verdict="random", reason="its numbers are drawn")
        try:
            rounds = frame.rounding(unit)
        except KeyError:
            return told
        except GradwrightError as error:
            return replace(told, verdict="fails", reason=str(error))
        theirs = {k: frame.theirs.get(name) for k, (name, _) in enumerate(unit.outputs)}
        judged = {k: rounds.judge(k, y) for k, y in theirs.items() if y is not None}
        if not judged:
            return told
        worst = max(judged, key=lambda k: judged[k].ratio)
        found = judged[worst]
        return replace(
            told, error=_throughout(frame, unit), own=found.error, ratio=found.ratio,
            verdict="differs" if found.differs else "ok",
            reason=_of_output(unit, worst, found),
            second=self._second(frame, unit, rounds, worst) if found.differs else "",
        )  # fmt: skip

    def _second(self, frame: Frame, unit: Unit, rounds: Rounding, k: int) -> str:
        """Return with whom onnx.reference agrees; "" where it does not know."""
        if self.by == "reference":
            return ""
        name = unit.outputs[k][0]
        try:
            found = Theirs(alone(frame, unit.protos, [name]), [name], "reference").values({})[name]
        except (GradwrightError, LookupError, TypeError, ValueError):
            return ""
        mine = not rounds.judge(k, found).differs
        other = not rounds.judge(k, found, frame.theirs[name]).differs
        agrees = {(True, False): "gradwright", (False, True): NAMES[self.by], (True, True): "both"}
        return f"onnx.reference agrees with {agrees.get((mine, other), 'neither')}"

    # -- bodies ----------------------------------------------------------------------------------

    def _inside(
        self, frame: Frame, unit: Unit, row: NodeComparison, depth: int
    ) -> list[NodeComparison]:
        """Return what a node encloses; of a loop the first turn that differs, or the worst."""
        held: dict[Any, tuple[Frame, Theirs]] = {}
        found: dict[Any, NodeComparison] = {}
        for turns in (called(unit), *(turns_of(frame, proto) for proto in unit.protos)):
            for turn in turns:
                late = isinstance(turn.part, int) and turn.part >= self.turns
                if late and (not row.differs or any(r.differs for r in found.values())):
                    break
                try:
                    body = turn.ran = self._body(frame, turn, held)
                except GradwrightError:  # what does not run alone is told as a whole
                    break
                inner_rows = (self.of_unit(body, inner, depth + 1) for inner in body.units())
                for inner in itertools.chain.from_iterable(inner_rows):
                    if frame.own and inner.op == "identity" and not inner.differs:
                        continue  # it was written for ONNX, whose bodies give nothing of others
                    here = placed(frame, unit, turn.part, inner)
                    before = found.get(key := (here.drawn, here.onnx))
                    if before is None or (not before.differs and here.ratio > before.ratio):
                        found[key] = here
        return list(found.values())

    def _body(self, frame: Frame, turn: Turn, held: dict[Any, tuple[Frame, Theirs]]) -> Frame:
        """Return a body with the values of a turn; for the same shapes it is built once."""
        model, feeds = lifted(frame, turn)
        key = turn.part in BRANCHES, tuple((n, str(spec_of(x))) for n, x in feeds.items())
        if key not in held:
            body = Frame.of_model(model, model)
            held[key] = body, Theirs(model, body.used, self.by, self.providers)
        body, theirs = held[key]
        body.take({**feeds, **theirs.values(feeds)})
        return body


def placed(frame: Frame, unit: Unit, part: int | str | None, row: NodeComparison) -> NodeComparison:
    """Return what was found in a body with its place in the graph that holds it.

    A body was built apart from it, so nodes are known by their names; where none is called so, what
    is lit is the node that encloses it.
    """
    holder = next((n for n in reversed(unit.nodes) if isinstance(n.op, HOLDERS)), None)
    turn = "" if part is None else f"{part}"
    drawn = turn if part in BRANCHES else ""
    if holder is None:  # a function, or a branch that is built in place of the node
        inside, prefix, lit = unit.computing, "", ""
    else:
        held = parts(holder.op, specs_of(holder))
        inside = list(held[drawn if isinstance(holder.op, Cond) else ""].nodes)
        prefix, lit = f"{holder.name}:{turn}:", f"{holder.name}:{drawn}:"

    def find(name: str, op: str = "") -> Node | None:
        """Return the node inside that is called so, but for scopes around it."""
        head = name.partition(":")[0].rstrip("/")
        fits = [n for n in inside if head == n.name or _ends(head, n.name) or _ends(n.name, head)]
        if not fits:  # alone in its scope there, not here
            kept = [n for n in inside if n.scope == head]
            fits = [n for n in kept if n.op.name == op or isinstance(n.op, HOLDERS)]
        return max(fits, key=lambda n: (n.name == head, len(n.name)), default=None)

    def rest(name: str) -> str:
        return name[len(name.partition(":")[0]) :]

    node = find(row.name, row.op)
    outer = unit.main.name if holder is None else holder.name
    name = f"{outer}:{turn}:{row.name}" if node is None else prefix + node.name + rest(row.name)
    places = ((find(d, row.op), d) for d in row.drawn)
    shown = [lit + n.name + rest(d) for n, d in places if n is not None]
    where = node.where if node is not None and frame.own else ""
    return replace(row, name=name, drawn=tuple(dict.fromkeys(shown)) or (outer,), where=where)


def _ends(name: str, tail: str) -> bool:
    return name.endswith(f"/{tail}")


def _throughout(frame: Frame, unit: Unit) -> float:
    """Return how far off a node is where both have run from what is fed; NaN if ours has not."""
    pairs = [(frame.ours.get(t), frame.theirs.get(n)) for n, t in unit.outputs]
    return max(
        (relative(a, b) for a, b in pairs if a is not None and b is not None), default=math.nan
    )


def _of_output(unit: Unit, k: int, found: Judgement) -> str:
    """Return the reason, with the result that it is of where there are several."""
    if len(unit.outputs) < 2 or not found.reason:
        return found.reason
    return f"{unit.outputs[k][0]!r}: {found.reason}"
