"""Request: one combination of fetches, feeds and updates, checked once for a state of a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import DTypeError, FeedError, GraphError
from ..graph import Constant, Graph, Rng, Tensor, Values, Variable, ancestors, check_update
from ..graph import read_only as as_read_only
from ..plan import Plan
from ..program.device import Device
from ..spec import TensorSpec, spec_of
from ..spec.buffer import There
from ..spec.containers import ContainerSpec, to_python
from .feeds import as_feed, named
from .timing import Times

Array = np.ndarray[Any, Any]
Env = dict[Tensor, Array]
UPDATES = "updates={w: w - 0.1 * grad}"
"""How updates are given, as errors show it."""


def signature(graph: Graph, fetches: Any) -> Any:
    """Return a structure of fetches as nested tuples of tensors, by which a request is found."""
    if isinstance(fetches, Tensor):
        return fetches
    if isinstance(fetches, str):
        return named(graph, fetches)
    if isinstance(fetches, Mapping):
        return dict, tuple(fetches), *[signature(graph, v) for v in fetches.values()]
    if isinstance(fetches, (list, tuple)):
        return type(fetches), None, *[signature(graph, f) for f in fetches]
    raise FeedError(f"{fetches!r} cannot be fetched", need="a tensor, a name, or lists of these")


def _flatten(form: Any, found: list[Tensor]) -> Callable[[Iterator[Any]], Any]:
    """Collect the tensors of a signature, and return what rebuilds the structure from arrays."""
    if isinstance(form, Tensor):
        found.append(form)
        return next
    kind, keys, *inner = form
    parts = [_flatten(f, found) for f in inner]
    if keys is not None:
        return lambda arrays: {k: part(arrays) for k, part in zip(keys, parts, strict=True)}
    make: Any = getattr(kind, "_make", kind)  # of a named tuple, else the type
    return lambda arrays: make([part(arrays) for part in parts])


class Request:
    """What a run asks for: it knows how feeds are fitted and results handed out, and its last plan.

    It holds neither session nor plan: a session that is dropped takes its buffers along.
    """

    def __init__(
        self,
        form: Any,
        feeds: Sequence[Tensor],
        updates: Sequence[tuple[Tensor, Tensor]],
        training: bool,
        commit_if: Tensor | None,
    ) -> None:
        self.fetches: list[Tensor] = []
        self._rebuild = _flatten(form, self.fetches)
        self._alone = isinstance(form, Tensor)
        is_list = not self._alone and form[0] is list
        self._listed = is_list and all(isinstance(f, Tensor) for f in form[2:])
        self.feeds, self.updates = tuple(feeds), dict(updates)
        self.training, self.commit_if = training, commit_if
        self.rng: Tensor | None = None
        """The random key, if the run needs it and nobody feeds it."""
        self.stamp = -1
        """For which state of graph and ops it has been checked; -1: none."""
        self.shapes: Any = None
        """What the latest plan was for."""
        self.key: Any = None
        self.plan: Callable[[], Plan | None] = _nothing
        self.places: tuple[Any, dict[Tensor, TensorSpec]] = None, {}
        """What results are that were written into given arrays, and of which plan."""
        self.times = Times("", "")
        """Where its runs are noted, once it has a plan."""
        self._dtypes = [None if t.spec.by_reference else t.dtype for t in feeds]
        fed = set(feeds)
        self._outcomes = [(t, _outcome(t, t in fed)) for t in self.fetches]
        self._plain = all(how is _as_it_is for _, how in self._outcomes)

    def targets(self) -> list[Tensor]:
        """Return all tensors that it has computed."""
        decided = [] if self.commit_if is None else [self.commit_if]
        return [*self.fetches, *self.updates.values(), *decided]

    def check(self, graph: Graph, stamp: int) -> None:
        """Refuse tensors that are not of the graph as it is now, and updates that do not fit."""
        self.shapes = self.key = None
        self.plan = _nothing
        for pair in self.updates.items():
            for t in pair:
                if not isinstance(t, Tensor):
                    raise GraphError(
                        f"updates say {pair[0]!r}: {pair[1]!r}", need="tensors", hint=UPDATES
                    )
        targets = self.targets()
        for t in (*targets, *self.updates, *self.feeds):
            graph.check_member(t)
        for variable, value in self.updates.items():
            check_update(variable, value)
        decided = self.commit_if
        if decided is not None and (decided.rank or decided.dtype != np.dtype(bool)):
            raise DTypeError(f"commit_if is {decided.spec}", need="bool[]")
        reached = ancestors(targets, stop=set(self.feeds)) if "rng" in graph else []
        self.rng = next((n.outputs[0] for n in reached if isinstance(n.op, Rng)), None)
        self.stamp = stamp

    def fit(self, arrays: list[Any], device: Device) -> tuple[Any, ...]:
        """Make arrays of what is fed, in place, and return what plans depend on of them.

        What lies on the device stays there.
        """
        shapes = tuple(
            [
                a.shape if type(a) is np.ndarray and a.dtype is dtype else None
                for a, dtype in zip(arrays, self._dtypes)  # noqa: B905 - as many, by all callers
            ]
        )
        if shapes == self.shapes:  # what has been planned before has been checked before
            return shapes
        found: list[Any] = []
        for i, (t, dtype) in enumerate(zip(self.feeds, self._dtypes, strict=True)):
            a = arrays[i]
            if type(a) is not np.ndarray or a.dtype is not dtype:
                there = device.takes(a)
                held = a if there is None else there
                if isinstance(held, There) and (there is None or held.dtype != dtype):
                    held = held.copy()  # what lies elsewhere, or is converted, goes by the host
                a = arrays[i] = as_feed(t, held)
            found.append(a.shape if dtype is not None else spec_of(a))
        shapes = tuple(found)
        if shapes != self.shapes:  # what has been planned before has been checked before
            for t, a in zip(self.feeds, arrays, strict=True):
                as_feed(t, a)
        return shapes

    def results(self, env: Env, values: Values) -> list[Any]:
        """Return what was fetched."""
        if self._plain:
            return [env[t] for t in self.fetches]
        return [how(t, env, values) for t, how in self._outcomes]

    def rebuilt(self, found: list[Any]) -> Any:
        """Return results in the structure that was asked for."""
        if self._alone:
            return found[0]
        return found if self._listed else self._rebuild(iter(found))


def _nothing() -> None:
    return None


def _as_it_is(t: Tensor, env: Env, values: Values) -> Any:
    return env[t]


def _copied(t: Tensor, env: Env, values: Values) -> Any:
    return env[t].copy()


def _converted(t: Tensor, env: Env, values: Values) -> Any:
    return to_python(env[t])


def _stored(t: Tensor, env: Env, values: Values) -> Any:
    held = env.get(t)
    return as_read_only(values.array(t.name) if held is None else held)


def _outcome(t: Tensor, fed: bool) -> Callable[[Tensor, Env, Values], Any]:
    """Return how a fetched tensor is handed out."""
    if isinstance(t.op, (Variable, Constant)) and not fed:
        return _stored
    if isinstance(t.spec, ContainerSpec):
        return _converted
    return _copied if fed or isinstance(t.op, Rng) else _as_it_is
