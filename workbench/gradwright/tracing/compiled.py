"""``@gw.compile``: a numpy function that is traced once per signature and then replayed."""

from __future__ import annotations

import collections
import functools
import inspect
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..errors import GradientError, GradwrightError, TraceError
from ..graph import Graph
from ..session import Session
from ..spec import AnyDim
from ..words.spelling import meant
from .arguments import current
from .nested import replaced
from .patterns import fits, generalised, stated, without_sizes
from .replay import Pattern, Traced
from .signature import Leaf, Signature

Array = np.ndarray[Any, Any]


class CacheInfo(NamedTuple):
    """How often a compiled function was called, and how often it was traced."""

    hits: int
    traces: int
    size: int
    eager: int


class Compiled:
    """A function of numpy arrays that runs as a graph; see :func:`compile`."""

    def __init__(
        self,
        fn: Callable[..., Any],
        *,
        static_argnames: str | Collection[str] = (),
        dynamic_argnames: str | Collection[str] = (),
        dynamic_shapes: bool | Mapping[str, Sequence[str | None]] = False,
        fallback: str | None = None,
        max_traces: int = 64,
        **session: Any,
    ) -> None:
        if not callable(fn):
            raise TraceError(f"{fn!r} cannot be compiled", need="a function of numpy arrays")
        if fallback not in (None, "eager"):
            raise TraceError(f"fallback={fallback!r} is not known", need="None or 'eager'")
        functools.update_wrapper(self, fn)
        self._fn = fn
        self._signature = Signature(fn, _names(static_argnames), _names(dynamic_argnames))
        self._shapes, self._fallback = dynamic_shapes, fallback
        self._options, self._max = session, max_traces
        self._traces: collections.OrderedDict[Any, Traced | None] = collections.OrderedDict()
        self._alike: dict[Any, list[tuple[Traced, list[tuple[int, ...]]]]] = {}
        self._lock = threading.RLock()
        self._hits = self._traced = self._eager = 0
        self._latest: Traced | None = None
        self._closed = False
        self.fallback_reason = ""
        """Why a call ran as plain numpy, with ``fallback="eager"``; "" if none did."""
        self.static_reason = ""
        """Why each size has a trace of its own, with ``dynamic_shapes=True``; "" if none has."""

    def __repr__(self) -> str:
        state = f"{len(self._traces)} traces, {self._hits} replays"
        return f"<compiled {self._name}: {'closed' if self._closed else state}>"

    @property
    def _name(self) -> str:
        return getattr(self._fn, "__name__", repr(self._fn))

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function on arrays, traced first if its signature is new."""
        if current.get() is not None:
            return self._fn(*args, **kwargs)  # part of the trace around it
        with self._lock:
            traced, leaves = self._find(args, kwargs)
        if traced is None:
            self._eager += 1
            return self._fn(*args, **kwargs)
        return traced(leaves)

    # -- finding the trace -----------------------------------------------------------------------

    def _find(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Traced | None, list[Leaf]]:
        if self._closed:
            raise TraceError(f"{self._name} is closed", hint="gw.compile(fn) makes another")
        key, leaves = self._signature.flatten(args, kwargs)
        held = self._traces.get(key, _NEW)
        if held is None:
            return None, leaves
        if isinstance(held, Traced) and not held.stale():
            self._hits += 1
            self._traces.move_to_end(key)
            return held, leaves
        try:
            traced = self._pattern_of(args, kwargs, key, leaves)
        except TraceError as error:
            if self._fallback is None:
                raise
            self.fallback_reason = str(error)
            traced = None
        self._traces[key] = traced
        if len(self._traces) > self._max:
            self._traces.popitem(last=False)
        return traced, leaves

    def _pattern_of(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], key: Any, leaves: list[Leaf]
    ) -> Traced:
        """Return the trace for these shapes: one that serves them, or a new one."""
        shapes = [np.shape(leaf.value) for leaf in leaves]
        seen = self._alike.setdefault(without_sizes(key), []) if self._shapes else []
        for traced, _ in seen:
            if fits(traced.pattern, shapes) and not traced.stale():
                self._hits += 1
                return traced
        pattern: list[tuple[AnyDim, ...]] = list(shapes)
        if isinstance(self._shapes, Mapping):
            pattern = stated(self._shapes, leaves, shapes)
        elif seen and not self.static_reason:
            pattern = generalised([*(s for _, s in seen), shapes])
        try:
            traced = self._trace(args, kwargs, leaves, pattern)
        except (GradwrightError, TypeError) as error:
            if self._shapes is not True or pattern == shapes:
                raise
            self.static_reason = str(error)
            traced = self._trace(args, kwargs, leaves, shapes)
        seen.append((traced, shapes))
        del seen[: -self._max]
        self._traced += 1
        self._latest = traced
        return traced

    def _trace(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], leaves: list[Leaf], pattern: Pattern
    ) -> Traced:
        return Traced(self._fn, args, kwargs, self._signature, leaves, pattern, self._options)

    # -- what there is to look at ----------------------------------------------------------------

    def lower(self, *args: Any, **kwargs: Any) -> Traced:
        """Return the trace for these arguments without running it: its graph, inputs, plan."""
        with self._lock:
            traced, _ = self._find(args, kwargs)
        if traced is None:
            raise TraceError("the function runs as plain numpy", facts=[self.fallback_reason])
        return traced

    @property
    def graph(self) -> Graph:
        """The graph of the latest trace."""
        return self._last().graph

    @property
    def plan(self) -> Any:
        """The plan of the latest trace."""
        return self._last().plan

    def _last(self) -> Traced:
        if self._latest is None:
            raise TraceError("the function has not been traced yet", hint="fn.lower(*args)")
        return self._latest

    def cache_info(self) -> CacheInfo:
        """Return how often calls were replayed, traced, and run as plain numpy."""
        return CacheInfo(self._hits, self._traced, len(self._traces), self._eager)

    def cache_clear(self) -> None:
        """Forget all traces; the next call makes one anew."""
        with self._lock:
            self._traces.clear()
            self._alike.clear()
            self._latest = None

    def close(self) -> None:
        """Free the graphs, plans and buffers of all traces; calling afterwards is an error.

        >>> import gradwright as gw, numpy as np
        >>> with gw.compile(lambda x: x * 2.0) as double:
        ...     double(np.ones(2)).tolist()
        [2.0, 2.0]
        >>> double
        <compiled <lambda>: closed>
        """
        with self._lock:
            self._closed = True
            shared = (traced for alike in self._alike.values() for traced, _ in alike)
            for traced in (*self._traces.values(), *shared):
                if traced is not None:
                    traced.session.close()
            self.cache_clear()

    def __enter__(self) -> Compiled:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- gradients -------------------------------------------------------------------------------

    def value_and_grad(self, argnums: int | Sequence[int] = 0) -> Callable[..., tuple[Any, Any]]:
        """Return a function that gives the result and its gradient by positional arguments.

        The function must return one float, or a tuple that begins with it. Gradients have the
        structure of the arguments; what is not floating in there has None.

        >>> import gradwright as gw, numpy as np
        >>> @gw.compile
        ... def loss(w, x):
        ...     return ((x @ w) ** 2).mean()
        >>> value, g = loss.value_and_grad()(np.array([1.0, 2.0]), np.eye(2))
        >>> float(value), g.tolist()
        (2.5, [1.0, 2.0])
        """
        several = not isinstance(argnums, int)
        places: list[int] = list(argnums) if not isinstance(argnums, int) else [argnums]

        def call(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
            if any(not 0 <= p < len(args) for p in places):
                raise GradientError(
                    f"argnums={argnums!r} with {len(args)} positional arguments",
                    need="places of positional arguments",
                )
            with self._lock:
                traced, leaves = self._find(args, kwargs)
            if traced is None:
                raise GradientError("plain numpy has no gradient", facts=[self.fallback_reason])
            found, grads = traced.with_gradients(leaves, self._wanted(places, args, leaves))
            parts = iter(grads)
            made = [self._gradient(args[p], parts) for p in places]
            return found, tuple(made) if several else made[0]

        return call

    def gradient(self, argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
        """Return a function that gives the gradient alone."""
        both = self.value_and_grad(argnums)
        return lambda *args, **kwargs: both(*args, **kwargs)[1]

    def _wanted(self, places: list[int], args: tuple[Any, ...], leaves: list[Leaf]) -> list[int]:
        """Return the numbers of the floating leaves of some arguments, in their order."""
        starts = [0]
        for i in range(len(args)):
            _, own = self._signature.flatten((*[None] * i, args[i]), {})
            starts.append(starts[-1] + len(own))
        return [
            n for p in places for n in range(starts[p], starts[p + 1]) if _has_gradient(leaves[n])
        ]

    def _gradient(self, value: Any, parts: Any) -> Any:
        kinds = (np.ndarray, np.generic, float, complex)

        def leaf(v: Any) -> Any:
            if np.asarray(v).dtype.kind not in "fcV":
                return None
            g = next(parts)
            return (
                g.item() if isinstance(v, (float, complex)) and not isinstance(v, np.generic) else g
            )

        return replaced(
            value, leaf, lambda v: isinstance(v, kinds) or not isinstance(v, (list, tuple, dict))
        )


def compile(
    fn: Callable[..., Any] | None = None,
    *,
    static_argnames: str | Collection[str] = (),
    dynamic_argnames: str | Collection[str] = (),
    dynamic_shapes: bool | Mapping[str, Sequence[str | None]] = False,
    fallback: str | None = None,
    max_traces: int = 64,
    **session: Any,
) -> Any:
    """Make a function of numpy arrays run as a graph: traced once per signature, then replayed.

    The first call with new dtypes, shapes or static values runs the function on lazy arrays, which
    builds its graph; calls like it run the graph. Results have numpy's values, dtypes and
    structure; arrays that the function writes in place are written.

    Args:
        fn: the function; without it a decorator is returned.
        static_argnames: arguments that are values of the trace; ints, bools, strings and all that
            is no array are static anyway, floats are not (a learning rate changes).
        dynamic_argnames: ints that are traced as well, such as a step number.
        dynamic_shapes: True lets one trace serve all sizes: the second call with other sizes makes
            a trace in which what differed is symbolic. Code that needs a number, such as ``len(x)``
            for a loop, goes on with a trace per size, and ``fn.static_reason`` says why. Or
            names: ``{"x": ("B", None)}``.
        fallback: ``"eager"`` runs the function as plain numpy where it cannot be traced; then
            ``fn.fallback_reason`` says why. By default that is a TraceError.
        max_traces: how many traces are kept, least recently used first to go.
        **session: what else is given goes to the :class:`~gradwright.Session`.

    Arrays in globals, closures, defaults and the objects that these hold are read anew at each
    call; other objects under those names make a new trace. What Python does beside, such as
    ``print``, happens when traced only; changes to lists and dicts outside are refused.

    >>> import gradwright as gw, numpy as np
    >>> @gw.compile
    ... def softmax(x, axis=-1):
    ...     e = np.exp(x - x.max(axis=axis, keepdims=True))
    ...     e /= e.sum(axis=axis, keepdims=True)
    ...     return e
    >>> softmax(np.zeros(2)).tolist(), softmax(np.ones(2)).tolist()
    ([0.5, 0.5], [0.5, 0.5])
    >>> softmax.cache_info().traces
    1
    """
    _check_settings(session)
    made: Any = functools.partial(
        Compiled,
        static_argnames=static_argnames,
        dynamic_argnames=dynamic_argnames,
        dynamic_shapes=dynamic_shapes,
        fallback=fallback,
        max_traces=max_traces,
        **session,
    )
    return made if fn is None else made(fn)


def _check_settings(given: Collection[str]) -> None:
    """Raise TypeError for settings that are neither of ``compile`` nor of sessions."""
    own = {*inspect.signature(compile).parameters} - {"fn", "session"}
    known = own | {*inspect.signature(Session).parameters} - {"graph"}
    for name in given:
        if name not in known:
            close = sorted(k for k in known if name in k) or [meant(name, known)]
            hint = f"; did you mean {' or '.join(map(repr, close))}?" if any(close) else ""
            raise TypeError(f"gw.compile has no {name!r}; it has {', '.join(sorted(known))}{hint}")


_NEW = object()


def _names(names: str | Collection[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _has_gradient(leaf: Leaf) -> bool:
    return np.asarray(leaf.value).dtype.kind in "fcV"
