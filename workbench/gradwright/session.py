"""Session: runs a graph on a device through cached plans, and commits its updates."""

from __future__ import annotations

import collections
import os
import platform
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .containers import ContainerSpec, contents, to_python
from .device import open_device
from .errors import DTypeError, FeedError, GradwrightError, GraphError, LoweringError, ShapeError
from .graph import Constant, Graph, Rng, Tensor, Values, Variable, ancestors, check_update, coerce
from .graph import read_only as as_read_only
from .graph.expand import bind_dims, run_node
from .listeners import Listener, NodeEvent, RunEvent
from .lowering import lowering_revision
from .op import registry_revision
from .plan import Plan
from .plan.options import PlanOptions
from .rewrite import Program
from .spec import BOXED, Dim, TensorSpec, spec_of

Array = np.ndarray[Any, Any]


class Session:
    """Runs a graph: prunes to what is fetched, compiles for the feeds' shapes, caches the plans.

    Args:
        graph: the graph to run.
        device: ``"cpu"``, ``"guard"`` (checks every write), or one that a package offers.
        values: where variables live; default ``graph.values``, shared with other sessions.
        seed: first half of the random key; the second is the step, counted per run.
        deterministic: fix everything that could differ between two runs; recorded in ``tuning``.
        check: ``"replay"`` also runs node by node and names the first node that differs.
        max_plans: how many plans are kept, least recently used first to go.
        skip_rewrites: names of rewrites to leave out (see ``gradwright.rewrite.RULES``).

    Runs of one session are serialised by a lock; for parallel work use one session per thread.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.placeholder("x", (None,)), g.variable("w", (), init=2.0)
    >>> with gw.Session(g) as session:
    ...     y = session.run(x * w, {"x": [1.0, 2.0]}, updates={w: w + 1.0})
    >>> y.tolist(), float(g.values["w"])
    ([2.0, 4.0], 3.0)
    """

    def __init__(
        self,
        graph: Graph,
        device: str = "cpu",
        *,
        values: Values | None = None,
        seed: int = 0,
        deterministic: bool = False,
        check: str | None = None,
        max_plans: int = 64,
        skip_rewrites: Collection[str] = (),
        listeners: Iterable[Listener] = (),
    ) -> None:
        if check not in (None, "replay"):
            raise GraphError(f"check={check!r} is not known", need="None or 'replay'")
        self.graph, self.device = graph, open_device(device)
        self.values = graph.values if values is None else values
        self.seed, self.step, self.check = seed, 0, check
        self.deterministic = deterministic
        self.listeners = list(listeners)
        self.plan_cache: collections.OrderedDict[Any, Plan] = collections.OrderedDict()
        self._max_plans = max_plans
        self._options = PlanOptions(skip=tuple(sorted(skip_rewrites)))
        self._checked: set[Any] = set()
        self._lock = threading.RLock()
        self._closed = False
        self.tuning = _tuning() if deterministic else {}

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{self.step} runs, {len(self.plan_cache)} plans"
        return f"<Session of graph {self.graph.name!r} on {self.device.name}: {state}>"

    def close(self) -> None:
        """Release plans and buffers; running afterwards is an error."""
        self._closed = True
        self.plan_cache.clear()

    def run(
        self,
        fetches: Any,
        feeds: Mapping[Any, Any] | None = None,
        updates: Mapping[Tensor, Tensor] | None = None,
        *,
        training: bool = False,
        commit_if: Tensor | None = None,
        step: int | None = None,
    ) -> Any:
        """Return the fetched arrays in the structure of ``fetches``.

        ``fetches`` is a tensor, a name, or lists, tuples and dicts of these.
        ``updates`` maps variables to their new values: all read the values of the start, and all
        commit together after the last op, or none if it fails or ``commit_if`` (bool[]) is False.
        ``step`` sets the random step; by default it counts the runs. Any tensor may be fed.
        Arrays of fetched variables are read-only.

        Raises FeedError, DTypeError or ShapeError for feeds that do not fit, naming them.
        """
        if self._closed:
            raise GraphError("this session is closed", hint="with gw.Session(g) as session: ...")
        with self._lock:
            self.graph.settle()
            wanted: list[Tensor] = []
            rebuild = self._flatten(fetches, wanted)
            changes = dict(updates or {})
            targets = [*wanted, *changes.values(), *([] if commit_if is None else [commit_if])]
            self._check_request(targets, changes, commit_if)
            arrays = self._feeds(feeds or {})
            number = self.step if step is None else step
            event = RunEvent(wanted, training, number)
            for listener in self.listeners:
                listener.run_started(event)
            # A NaN or Inf is a value here, for listeners, checks and steppers to find.
            with self.graph.running(), np.errstate(all="ignore"):
                env = self._compute(targets, arrays, training, number)
                commit = commit_if is None or bool(env[commit_if])
                if commit and changes:
                    self._commit(changes, env, {*wanted, *arrays})
            results = [self._result(t, env, arrays) for t in wanted]
            if step is None:
                self.step += 1
            for listener in self.listeners:
                listener.run_finished(RunEvent(wanted, training, number, results, commit))
                if commit and changes:
                    listener.values_changed({v.name: self.values.version(v.name) for v in changes})
            return rebuild(iter(results))

    def plan(
        self,
        fetches: Any,
        shapes: Mapping[Any, Sequence[int]] | None = None,
        *,
        training: bool = False,
    ) -> Plan:
        """Return the plan for feeds of these shapes, without running it."""
        wanted: list[Tensor] = []
        self._flatten(fetches, wanted)
        self._check_request(wanted, {}, None)
        feeds = {}
        for key, shape in (shapes or {}).items():
            t = self._named(key)
            feeds[t] = TensorSpec(shape, t.dtype)
        self._add_rng(wanted, feeds)
        return self._plan(tuple(wanted), feeds, training)

    # -- fetches and feeds -----------------------------------------------------------------------

    def _check_request(
        self,
        targets: Sequence[Tensor],
        changes: Mapping[Tensor, Tensor],
        commit_if: Tensor | None,
    ) -> None:
        """Refuse tensors that are not of this graph and updates that do not fit, once a request."""
        request = self.graph.revision, tuple(targets), tuple(changes), commit_if
        if request in self._checked:
            return
        for t in (*targets, *changes):
            self.graph.check_member(t)
        for variable, value in changes.items():
            check_update(variable, value)
        if commit_if is not None and (commit_if.rank or commit_if.dtype != np.dtype(bool)):
            raise DTypeError(f"commit_if is {commit_if.spec}", need="bool[]")
        if len(self._checked) >= self._max_plans:
            self._checked.clear()
        self._checked.add(request)

    def _flatten(self, fetches: Any, found: list[Tensor]) -> Callable[[Any], Any]:
        """Collect the tensors of a structure, and return what rebuilds it from arrays."""
        if isinstance(fetches, (str, Tensor)):
            found.append(fetches if isinstance(fetches, Tensor) else self._named(fetches))
            return next
        if isinstance(fetches, Mapping):
            parts = {k: self._flatten(v, found) for k, v in fetches.items()}
            return lambda arrays: {k: part(arrays) for k, part in parts.items()}
        if isinstance(fetches, (list, tuple)):
            inner = [self._flatten(f, found) for f in fetches]
            make: Any = getattr(fetches, "_make", type(fetches))  # of a named tuple, else the type
            return lambda arrays: make([part(arrays) for part in inner])
        raise FeedError(
            f"{fetches!r} cannot be fetched", need="a tensor, a name, or lists of these"
        )

    def _named(self, key: Any) -> Tensor:
        if isinstance(key, Tensor):
            return self.graph.check_member(key)
        if isinstance(key, str) and key in self.graph:
            return self.graph[key]
        names = ", ".join(repr(t.name) for t in self.graph.placeholders) or "none"
        raise FeedError(
            f"graph {self.graph.name!r} has no tensor {key!r}", facts=[f"placeholders: {names}"]
        )

    def _feeds(self, feeds: Mapping[Any, Any]) -> dict[Tensor, Array]:
        arrays: dict[Tensor, Array] = {}
        for key, value in feeds.items():
            t = self._named(key)
            arrays[t] = as_feed(t, value)
        return arrays

    @staticmethod
    def _add_rng(targets: Sequence[Tensor], feeds: dict[Tensor, TensorSpec]) -> None:
        if targets and "rng" in targets[0].graph:
            feeds.setdefault(targets[0].graph.rng, TensorSpec((2,), "uint64"))

    # -- running ---------------------------------------------------------------------------------

    def _plan(
        self, targets: tuple[Tensor, ...], specs: Mapping[Tensor, TensorSpec], training: bool
    ) -> Plan:
        key = (
            targets,
            tuple((t, s.shape, s if s.by_reference else s.dtype) for t, s in specs.items()),
            training,
            self.graph.revision,
            registry_revision(),
            lowering_revision(),
        )
        plan = self.plan_cache.get(key)
        if plan is None:
            plan = Plan(targets, specs, self.device, training=training, options=self._options)
            self.plan_cache[key] = plan
            if len(self.plan_cache) > self._max_plans:
                self.plan_cache.popitem(last=False)
        else:
            self.plan_cache.move_to_end(key)
        return plan

    def _compute(
        self, targets: Sequence[Tensor], feeds: Mapping[Tensor, Array], training: bool, step: int
    ) -> dict[Tensor, Array]:
        env = dict(feeds)
        if "rng" in self.graph:
            env.setdefault(self.graph.rng, np.array([self.seed, step], np.uint64))
        if any(listener.wants_nodes for listener in self.listeners):
            return self._run_nodes(targets, env, training)
        plan = self._plan(tuple(targets), {t: spec_of(a) for t, a in env.items()}, training)
        with self.values.lock:  # another session may commit: all from before it or all from after
            for t in plan.variables:
                if t not in env:
                    env[t] = self.values.array(t.node.name)
        if self.check == "replay":
            reference = self._run_nodes(targets, dict(env), training, notify=False)
            plan.run(env, lambda program: _compare(program, reference))
        else:
            plan.run(env)
        return env

    def _run_nodes(
        self,
        targets: Sequence[Tensor],
        env: dict[Tensor, Array],
        training: bool,
        notify: bool = True,
    ) -> dict[Tensor, Array]:
        """Run node by node with ``op.forward``: what listeners see and replay compares with."""
        order = ancestors(targets, stop=env)
        sizes = bind_dims({t: a.shape for t, a in env.items()})
        with self.values.lock:
            for node in order:
                if node.kind in ("variable", "constant"):
                    env.setdefault(node.outputs[0], self.values.array(node.name))
        for index, node in enumerate(order):
            if any(t not in env for t in node.outputs):
                if node.kind == "placeholder":
                    raise FeedError(
                        f"placeholder {node.name!r} is not fed", need=str(node.outputs[0].spec)
                    )
                op = node.op.for_mode(training).bind(sizes)
                xs = [None if x is None else env[x] for x in node.inputs]
                ys = run_node(node, op, xs, training=training)
                for t, y in zip(node.outputs, ys, strict=True):
                    sizes.update(bind_dims({t: env.setdefault(t, y).shape}))
            if notify:
                event = NodeEvent(
                    node,
                    [None if x is None else env[x] for x in node.inputs],
                    [env[y] for y in node.outputs],
                    index,
                    len(order),
                )
                for listener in self.listeners:
                    if listener.wants_nodes:
                        listener.node_ran(event)
        env.update({t: env[t].copy() for t in targets})  # nobody's feed, view or stored value
        return env

    def _commit(
        self,
        changes: Mapping[Tensor, Tensor],
        env: Mapping[Tensor, Array],
        handed_out: Collection[Tensor],
    ) -> None:
        new: dict[str, Array] = {}
        for variable, value in changes.items():
            array = env[value]
            if value in handed_out or array.base is not None or not array.flags.c_contiguous:
                array = array.copy()  # what is kept is nobody else's and no part of a larger buffer
            if array.shape != variable.shape:
                raise ShapeError(
                    f"the update of {variable.name!r} has shape {array.shape}",
                    need=str(variable.spec),
                )
            array.flags.writeable = False
            new[variable.name] = array
        self.values.commit(new)

    def _result(self, t: Tensor, env: Mapping[Tensor, Array], feeds: Mapping[Tensor, Array]) -> Any:
        if isinstance(t.op, (Variable, Constant)) and t not in feeds:
            held = env.get(t)
            return as_read_only(self.values.array(t.name) if held is None else held)
        if isinstance(t.spec, ContainerSpec):
            return to_python(env[t])
        return env[t].copy() if t in feeds or isinstance(t.op, Rng) else env[t]


def as_feed(t: Tensor, value: Any) -> Array:
    """Return a fed value as an array of the tensor's dtype, checked against its shape."""
    label = f"{t.kind} {t.name!r}"
    if isinstance(t.spec, ContainerSpec):
        try:
            return coerce(value, t.spec, label)
        except GradwrightError as error:
            raise FeedError(
                error.problem, need=error.need, facts=error.facts, hint=error.hint
            ) from None
    try:
        array = np.asarray(value)
    except ValueError as error:  # rows of different lengths
        raise FeedError(f"{label} is fed with no array: {error}", need=str(t.spec)) from None
    if array.ndim != t.rank:
        raise FeedError(
            f"{label} is fed with rank {array.ndim}",
            need=f"rank {t.rank}, {t.spec}",
            facts=[f"got {array.dtype}{list(array.shape)}"],
        )
    sized = TensorSpec(array.shape, t.dtype)
    for axis, (stated, size) in enumerate(zip(t.shape, array.shape, strict=True)):
        if not isinstance(stated, Dim) and stated != size:
            raise FeedError(
                f"{label} is fed with size {size} on axis {axis}",
                need=str(t.spec),
                facts=[f"got {array.dtype}{list(array.shape)}"],
            )
    try:
        return coerce(array, sized, label)
    except DTypeError as error:
        raise FeedError(error.problem, need=error.need, hint=error.hint) from None


def _compare(program: Program, reference: Mapping[Tensor, Array]) -> Callable[[int, Array], None]:
    """Return an observer that raises at the first value that differs from the plain run."""
    named: dict[int, Tensor] = {}
    for t, number in program.numbers.items():
        named.setdefault(number, t)

    def observe(number: int, array: Array) -> None:
        t = named.get(number)
        if t is None or t not in reference:
            return
        expected = reference[t]
        if not _is_close(array, expected):
            raise LoweringError(
                f"plan and plain run differ at {t.node.op.name} {t.name!r}",
                facts=[f"made at {t.node.where or 'no line'}", _difference(array, expected)],
                hint="the op's lowering, or a rewrite: Session(skip_rewrites=[...])",
            )

    return observe


def _is_close(array: Array, expected: Array) -> bool:
    """Tell whether a plan's value is the reference's, up to the rounding of its dtype."""
    if array.shape != expected.shape or array.dtype != expected.dtype:
        return False
    if array.dtype == BOXED:
        mine, theirs = contents(array).items, contents(expected).items
        return len(mine) == len(theirs) and all(map(_is_close, mine, theirs))
    if array.dtype.kind not in "fcV":
        return bool(np.array_equal(array, expected))
    wide = np.complex128 if array.dtype.kind == "c" else np.float64
    a, b = array.astype(wide), expected.astype(wide)
    own = array.dtype.isbuiltin == 1  # bfloat16 and narrower are of ml_dtypes
    tolerance = 200 * float(np.finfo(array.dtype).eps) if own else 0.05
    scale = np.abs(b[np.isfinite(b)]).max(initial=0.0)
    return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance * scale, equal_nan=True))


def _difference(a: Array, b: Array) -> str:
    if BOXED in (a.dtype, b.dtype):
        return f"{a} against {b}"
    if a.shape != b.shape or a.dtype != b.dtype or a.dtype.kind == "T":
        return f"{a.dtype}{list(a.shape)} against {b.dtype}{list(b.shape)}"
    apart = np.abs(a.astype(np.complex128) - b.astype(np.complex128))
    where = np.unravel_index(int(np.nanargmax(apart)) if apart.size else 0, apart.shape)
    index = [int(i) for i in where]
    return f"largest difference at {index}: {a[where]} against {b[where]}"


def _tuning() -> dict[str, Any]:
    """Return what fixes the numbers on this machine: library versions and thread counts."""
    threads = {
        k: os.environ.get(k, "")
        for k in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    }
    return {
        "numpy": np.__version__,
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        **threads,
    }
