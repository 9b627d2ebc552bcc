"""Session: runs a graph on a device through cached plans, and commits its updates."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import FeedError, GraphError, MemoryLimitError
from ..graph import Graph, Tensor, Values
from ..op import redefinitions
from ..ops.draws.philox import is_word
from ..plan import Plan, exhausted
from ..program.device import open_device
from ..program.ledger import Manager
from ..program.lowering import lowering_revision
from ..program.options import Kernels
from ..spec import TensorSpec
from ..spec.buffer import There
from .feeds import example, keyed, named
from .given import fill, lend
from .listeners import Listener, RunEvent
from .plain import commit_plainly, replayed, run_plainly
from .planned import Planned
from .prepared import Prepared
from .request import UPDATES, Env, Request, signature
from .settings import Checkpoint, checked_listeners, checked_manager, is_count, plan_options

Array = np.ndarray[Any, Any]


class Session(Planned):
    """Runs a graph: prunes to what is fetched, compiles for the feeds' shapes, caches the plans.

    Args:
        graph: the graph to run.
        device: ``"cpu"``, ``"guard"`` (checks every write), or one that a package offers, such as
            ``"cuda"``, and ``"cuda-sim"``, a simulated GPU that looks at each access of a kernel.
        values: where variables live; default ``graph.values``, shared with other sessions.
        seed: first half of the random key; the second is the step, counted per run.
        deterministic: fix everything that could differ between two runs before the first one, so
            ``kernels="background"`` becomes ``"wait"``; what was fixed is recorded in ``tuning``.
            On one machine bits then depend neither on ``threads`` nor on where arrays lie: a
            product is cut only where its pieces have its bits, else one thread does it. Numpy alone
            (``kernels="off"``) adds in another order where a fed array is not aligned to its items,
            OpenBLAS's kernels for SSE3 where it is not to 16 bytes. ``checkpoint`` is part of what
            is computed: kernels that fuse other ops round at other places, in last bits.
        check: ``"replay"`` also runs node by node and names the first node that differs;
            ``"rewrites"`` tries each rewrite on random values when it is made, and names the rule.
        kernels: ``"background"`` begins with numpy and goes over to generated kernels, between two
            runs, when they are compiled; ``"wait"`` compiles them before the first run of a plan,
            and so does ``"background"`` where steps change more than 16 MB, which numpy would make
            anew; ``"later"`` compiles those of up to 256 steps before the 16th run of a plan;
            ``"off"`` stays with numpy. The environment has ``GRADWRIGHT_KERNELS=off`` for all
            sessions, and ``GRADWRIGHT_CPU`` (``native``, ``x86-64-v2``, ``-v3``, ``-v4``) for what
            processor kernels are made.
        threads: how many threads a run may use; None takes what OpenBLAS uses, and what a
            ``tuning`` says.
        tuning: the record of another session: calls that it names use as many threads again.
        checkpoint: which activations are computed again for the backward pass, to save memory:
            None keeps all, ``"sqrt"`` keeps √n of n layers, n every n-th, patterns those names.
        memory: where plans compute. ``"arena"`` keeps one block for all plans of the session;
            ``"caching"`` shares blocks with all sessions that cache, a run at a time, for about
            6 µs a run; ``"none"`` keeps nothing: what a run takes is freed when it ends. Numbers
            are the same, to the bit; ``session.memory`` tells what is held, what was freed and why.
        fallback: what computes an op that the device has no kernel for: None is an error when the
            plan is made, ``"cpu"`` the host, which ``plan.kernels`` tells of.
        results: where fetched arrays lie: None is the host, ``"device"`` leaves them on a GPU, from
            which they are copied when they are read, and which torch, JAX and CuPy take by DLPack.
        max_plans: how many plans are kept, least recently used first to go.
        cache_bytes: how many bytes they may hold together; None is a quarter of the machine's
            memory. The latest is kept whatever it takes.
        skip_rewrites: names of rewrites to leave out (see ``gradwright.rewrite.RULES``).
        listeners: hooks that see every run.

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
        kernels: Kernels = "background",
        threads: int | None = None,
        tuning: Mapping[str, Any] | None = None,
        checkpoint: Checkpoint = None,
        memory: Manager = "arena",
        fallback: str | None = None,
        results: str | None = None,
        max_plans: int = 256,
        cache_bytes: int | None = None,
        skip_rewrites: Collection[str] | str = (),
        listeners: Iterable[Listener] = (),
    ) -> None:
        if check not in (None, "replay", "rewrites"):
            raise GraphError(f"check={check!r} is not known", need="None, 'replay' or 'rewrites'")
        if fallback not in (None, "cpu"):
            raise GraphError(f"fallback={fallback!r} is not known", need="None or 'cpu'")
        if results not in (None, "device"):
            raise GraphError(f"results={results!r} is not known", need="None or 'device'")
        if not isinstance(graph, Graph):
            raise GraphError(f"{graph!r} is no graph", need="a gw.Graph")
        if not is_count(max_plans, 1) or not (cache_bytes is None or is_count(cache_bytes, 0)):
            raise GraphError(
                f"max_plans={max_plans!r}, cache_bytes={cache_bytes!r} make no sense",
                need="an int max_plans >= 1; an int cache_bytes >= 0, or None",
            )
        if not is_word(seed):
            raise GraphError(f"seed={seed!r} is no seed", need="an int, 0 <= seed < 2**64")
        if deterministic and kernels == "background":
            kernels = "wait"  # when a background compiler is ready, no clock and no seed decides
        options = plan_options(skip_rewrites, kernels, checkpoint, verify=check == "rewrites")
        values = graph.values if values is None else values
        super().__init__(graph, values, open_device(device), options, max_plans, cache_bytes)
        self.seed, self.step, self.check = seed, 0, check
        self.deterministic = deterministic
        manager = checked_manager(memory)
        stated = {"fallback": fallback, "results": results}  # not all devices know of them
        asked = {name: s for name, s in stated.items() if s is not None}
        self.device.configure(threads, tuning, deterministic=deterministic, memory=manager, **asked)
        self._running = self.device.running()
        self.listeners = checked_listeners(listeners)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "closed" if self._closed else f"{self.step} runs, {len(self.plan_cache)} plans"
        return f"<Session of graph {self.graph.name!r} on {self.device.name}: {state}>"

    def close(self) -> None:
        """Release plans and buffers; running afterwards is an error."""
        self._closed = True  # who waits for the lock sees it
        self.release_plans("the session was closed")

    # -- running ---------------------------------------------------------------------------------

    def run(
        self,
        fetches: Any,
        feeds: Mapping[Any, Any] | None = None,
        updates: Mapping[Tensor, Tensor] | None = None,
        *,
        training: bool = False,
        commit_if: Tensor | None = None,
        step: int | None = None,
        out: Mapping[Any, Array] | None = None,
        **misplaced: Any,
    ) -> Any:
        """Return the fetched arrays in the structure of ``fetches``.

        ``fetches`` is a tensor, a name, or lists, tuples and dicts of these.
        ``updates`` maps variables to their new values: all read the values of the start, and all
        commit together after the last op, or none if it fails or ``commit_if`` (bool[]) is False.
        ``step`` sets the random step; by default it counts the runs. Any tensor may be fed.
        Arrays of fetched variables are read-only. ``out`` gives arrays for some of the fetches, by
        tensor or name, which are written and come back in their places: of the dtype and shape of
        the result, writable, and apart from feeds and from each other. Kernels write large results
        there at once where they lie dense; what a run that fails has written is undefined.

        Raises FeedError, DTypeError or ShapeError for feeds that do not fit, naming them, and
        FeedError for ``out`` that does not, before anything runs.

        >>> import gradwright as gw, numpy as np
        >>> g = gw.Graph()
        >>> x = g.placeholder("x", (None,))
        >>> y, found = x * 2.0, np.empty(2, np.float32)
        >>> with gw.Session(g) as session:
        ...     session.run(y, {x: [1.0, 2.0]}, out={y: found}) is found
        True
        >>> found.tolist()
        [2.0, 4.0]
        """
        if misplaced:
            raise FeedError(
                f"run has no argument {next(iter(misplaced))!r}; feeds are one dict",
                hint=f"session.run(y, {example(self.graph, misplaced)})",
            )
        given = {} if feeds is None else keyed(self.graph, feeds)
        request = self._request(fetches, given, updates, training, commit_if)
        return self._execute(request, list(given.values()), step, out)

    def prepare(
        self,
        fetches: Any,
        feeds: Iterable[Tensor | str] | Tensor | str = (),
        updates: Mapping[Tensor, Tensor] | None = None,
        *,
        training: bool = False,
        commit_if: Tensor | None = None,
    ) -> Prepared:
        """Return a run as a function of arrays for ``feeds``: checked once, cheap to call often.

        Arguments are those of ``run``. Arrays of the stated dtype are taken without conversion.

        >>> import gradwright as gw, numpy as np
        >>> g = gw.Graph()
        >>> x, y = g.placeholder("x", (None,)), g.placeholder("y", ())
        >>> add = gw.Session(g).prepare(x + y, ["x", "y"])
        >>> add(np.zeros(2), 1.0).tolist()
        [1.0, 1.0]
        """
        feeds = [feeds] if isinstance(feeds, str | Tensor) else feeds
        given = dict.fromkeys(named(self.graph, t) for t in feeds)
        return Prepared(self, self._request(fetches, given, updates, training, commit_if))

    def ahead(self, batches: Iterable[Mapping[Any, Any]]) -> Iterator[Mapping[Any, Any]]:
        """Yield batches of feeds, each brought to the device while the one before is used.

        On a GPU their arrays are there already when a step asks for them; on the CPU nothing is to
        be done.

        >>> import gradwright as gw, numpy as np
        >>> g = gw.Graph()
        >>> x = g.placeholder("x", (2,))
        >>> with gw.Session(g) as session:
        ...     [session.run(x.sum(), b).item() for b in session.ahead([{"x": [1.0, 2.0]}])]
        [3.0]
        """
        yield from self.device.ahead(batches)

    def plan(
        self,
        fetches: Any,
        shapes: Mapping[Any, Sequence[int]] | None = None,
        updates: Mapping[Tensor, Tensor] | None = None,
        *,
        training: bool = False,
        commit_if: Tensor | None = None,
    ) -> Plan:
        """Return the plan for feeds of these shapes, without running it."""
        self._check_open()
        stated = keyed(self.graph, shapes or {})
        for t, shape in stated.items():
            if not isinstance(shape, tuple | list) or not all(is_count(n, 0) for n in shape):
                raise FeedError(
                    f"the shape of {t.name!r} is given as {type(shape).__name__}, {shape!r}",
                    need=f"sizes, for {t.spec}",
                    hint="a plan is for certain sizes: (32, 64), or array.shape",
                )
        specs = {t: TensorSpec(tuple(shape), t.dtype) for t, shape in stated.items()}
        with self._lock:
            self._check_open()
            request = self._request(fetches, specs, updates, training, commit_if)
            request.check(self.graph, -1)
            return self._plan(request, specs)[1]

    def _request(
        self,
        fetches: Any,
        feeds: Iterable[Tensor],
        updates: Mapping[Tensor, Tensor] | None,
        training: bool,
        commit_if: Tensor | None,
    ) -> Request:
        self.graph.settle()
        if updates is not None and not isinstance(updates, Mapping):
            raise GraphError(f"updates are a {type(updates).__name__}", need="a dict", hint=UPDATES)
        form, changes = signature(self.graph, fetches), tuple(updates.items()) if updates else ()
        key = form, tuple(feeds), changes, training, commit_if
        request = self._requests.get(key)
        if request is None:
            if len(self._requests) >= self.plan_cache.most:
                self._requests.clear()
            request = self._requests[key] = Request(form, key[1], changes, training, commit_if)
        return request

    def _execute(
        self, request: Request, arrays: list[Any], step: int | None, out: Any = None
    ) -> Any:
        with self._lock:
            if self._closed:
                self._check_open()
            graph, listeners = self.graph, self.listeners
            graph.settle()
            stamp = graph.revision + redefinitions() + lowering_revision()
            if request.stamp != stamp:  # the graph was edited, or ops or lowerings were defined
                request.check(graph, stamp)
            shapes = request.fit(arrays, self.device)
            number = self.step if step is None else step
            if step is not None and not is_word(step):
                raise GraphError(f"step={step!r} is no step", need="an int, 0 <= step < 2**64")
            env: Env = dict(zip(request.feeds, arrays))  # noqa: B905 - as many, by fit
            if listeners or self.check:  # who looks at numbers reads them on the host
                env = {t: a.copy() if isinstance(a, There) else a for t, a in env.items()}
            lender = None
            try:
                if out is not None:
                    lender = self._planned(request, shapes, env)
                    given = lend(graph, out, request, lender, env)
                if request.rng is not None:
                    env[request.rng] = np.array((self.seed, number), np.uint64)
                if listeners:
                    event = RunEvent(request.fetches, request.training, number, feeds=dict(env))
                    for listener in listeners:
                        listener.run_started(event)
                with graph.running(), self._running:
                    if listeners and any(listener.wants_nodes for listener in listeners):
                        committed = self._run_watched(request, env)
                    else:
                        committed = self._run_plan(request, shapes, env)
            finally:
                if lender is not None:
                    lender.lend({})
            found = request.results(env, self.values)
            if lender is not None:
                fill(given, request.fetches, found)
            if step is None:
                self.step += 1
            if listeners:
                self._tell(request, number, found, committed)
            return request.rebuilt(found)

    def _run_plan(self, request: Request, shapes: Any, env: Env, *, again: bool = False) -> bool:
        """Run the plan for these feeds into ``env``; return whether updates were committed."""
        plan = self._planned(request, shapes, env)
        began = time.perf_counter()
        try:
            if self.check == "replay":
                with np.errstate(all="ignore"):
                    observe = replayed(
                        request.targets(), env, self.values,
                        training=request.training, skip_rewrites=self.options.skip,
                    )  # fmt: skip
                    plan.run(env, self.values, observe)
                    committed = bool(request.updates) and plan.commit(env, self.values, observe)
            else:
                committed = plan.step(env, self.values)
            request.times.add(time.perf_counter() - began)
            if request.updates:
                return committed
            return request.commit_if is None or bool(env[request.commit_if])
        except MemoryLimitError:
            raise
        except MemoryError as error:
            if again:
                what = ", ".join(t.name for t in request.fetches) or "the updates"
                raise exhausted(plan.memory(), what) from error
        self.release("the machine had no more memory")
        return self._run_plan(request, shapes, env, again=True)

    # -- listeners and checks --------------------------------------------------------------------

    def _run_watched(self, request: Request, env: Env) -> bool:
        """Run node by node for listeners that want nodes; return whether updates were committed."""
        with np.errstate(all="ignore"):
            run_plainly(
                request.targets(), env, self.values, self.listeners,
                training=request.training, skip_rewrites=self.options.skip,
            )  # fmt: skip
        committed = request.commit_if is None or bool(env[request.commit_if])
        if committed and request.updates:
            commit_plainly(request.updates, env, self.values)
        return committed

    def _tell(self, request: Request, number: int, found: list[Any], committed: bool) -> None:
        event = RunEvent(request.fetches, request.training, number, found, committed)
        names = [v.name for v in request.updates] if committed else []
        for listener in self.listeners:
            listener.run_finished(event)
            if names:
                listener.values_changed({name: self.values.version(name) for name in names})
