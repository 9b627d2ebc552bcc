"""A model on ONNX Runtime, with the face of a session."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from ....errors import FeedError, GraphError
from ....graph import Graph, Tensor
from ....spec import Dim
from .batches import batch_axis, batches, joined, rows_of
from .binding import Binding, failed
from .opening import Optimize, Provider, checked_providers, open_session, session_options
from .ports import ValueInfo, as_ortvalue, as_plain, to_array, to_plain, value_info

if TYPE_CHECKING:
    import os

    from onnx import ModelProto
    from onnxruntime import InferenceSession, OrtValue, SessionOptions

BATCH = 64
"""Rows of a batch where the model leaves them open."""


class Runner:
    """A model on ONNX Runtime, which ``pip install 'gradwright[onnxruntime]'`` brings.

    Args:
        model: a path (its external data is found beside it), the bytes of a file, a ``ModelProto``,
            or a graph, which is written for it.
        providers: what runs it, in order of preference: ``"cpu"``, ``"cuda"``, their full names, or
            ``(name, options)``.
        outputs: of a graph: which tensors are its outputs, as for ``to_model``.
        opset: of a graph: the opset that it is written in.
        threads: how many threads a run may use; None leaves it to ONNX Runtime.
        optimize: how far it rewrites the model: "off", "basic", "extended" or "all".
        profile: prefix of a file that every run is written to; ``end_profile`` returns its path.
        options: ``onnxruntime.SessionOptions`` to begin with, for all else.

    Raises:
        GraphError: the package is missing, or there is no such provider.
        ArchiveError: there is no valid model.
        UnsupportedOpError: the model is newer than this ONNX Runtime, or it lacks a kernel.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.relu(g.placeholder("x", ("B", 2)), name="y")
    >>> with gw.onnx.Runner(g) as runner:
    ...     runner.inputs["x"], runner.run("y", {"x": [[-1.0, 2.0]]}).tolist()
    (<'x': f32[B, 2]>, [[0.0, 2.0]])
    """

    def __init__(
        self,
        model: Graph | str | os.PathLike[str] | bytes | ModelProto,
        *,
        providers: Provider | Sequence[Provider] | None = None,
        outputs: Sequence[Tensor | str] | None = None,
        opset: int = 23,
        threads: int | None = None,
        optimize: Optimize = "all",
        profile: str | os.PathLike[str] | None = None,
        options: SessionOptions | None = None,
    ) -> None:
        chosen = checked_providers(providers)
        settings = session_options(threads, optimize, profile, options)
        self._session: InferenceSession | None = open_session(
            model, settings, chosen, outputs, opset
        )
        session = self._session
        needed = [value_info(a) for a in session.get_inputs()]
        own = [value_info(a, is_optional=True) for a in session.get_overridable_initializers()]
        self.inputs: Mapping[str, ValueInfo] = {i.name: i for i in (*needed, *own)}
        """What is fed, by name; those that the model has values for are optional."""
        self.outputs: Mapping[str, ValueInfo] = {
            i.name: i for i in map(value_info, session.get_outputs())
        }
        self.providers: list[str] = session.get_providers()
        """What runs it, in order of preference."""
        self._profiles = profile is not None

    # -- life ------------------------------------------------------------------------------------

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._session is None:
            return "<Runner: closed>"
        ins, outs = (", ".join(map(repr, d.values())) for d in (self.inputs, self.outputs))
        return f"<Runner on {self.providers[0]}: {ins} -> {outs}>"

    def close(self) -> None:
        """Free the model and what it computes in; arrays that it has returned stay."""
        self._session = None

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._session is None

    @property
    def session(self) -> InferenceSession:
        """The session of ONNX Runtime; raises GraphError if this one is closed."""
        if self._session is None:
            raise GraphError(
                "this Runner is closed", hint="with gw.onnx.Runner(model) as runner: ..."
            )
        return self._session

    @property
    def names(self) -> list[str]:
        """The names of the outputs, in their order."""
        return list(self.outputs)

    def end_profile(self) -> Path:
        """End the profile and return its file, JSON that ``chrome://tracing`` shows."""
        if not self._profiles:
            raise GraphError("nothing is profiled", hint='gw.onnx.Runner(model, profile="prefix")')
        return Path(self.session.end_profiling())

    # -- running ---------------------------------------------------------------------------------

    @overload
    def run(self, outputs: str, feeds: Mapping[str, Any], *, into: None = None) -> Any: ...

    @overload
    def run(
        self,
        outputs: Sequence[str] | None,
        feeds: Mapping[str, Any],
        *,
        into: Mapping[str, Any] | None = None,
    ) -> list[Any]: ...

    def run(
        self,
        outputs: str | Sequence[str] | None,
        feeds: Mapping[str, Any],
        *,
        into: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return outputs as ``Session.run`` does: one for a name, a list for several, or for None.

        Tensors come as arrays, sequences as lists, maps as dicts. What is fed may also be an
        ``OrtValue`` or have ``__dlpack__``, as tensors of torch do; it is not copied, nor is a
        contiguous array of the input's dtype.

        Args:
            outputs: a name, several, or None for all.
            feeds: input -> value.
            into: output -> an array, ``OrtValue`` or what has ``__dlpack__``, written in place.

        Raises:
            FeedError: an input is missing or unknown, or dtype or shape do not fit.
            GraphError: the run failed, or this is closed.
        """
        names = self._chosen(outputs)
        if into:
            found = self.bind(feeds, names, into=into).run()
            results = [found[name] for name in names]
        elif self._is_plain(names, feeds):
            given = {n: as_plain(self.inputs[n], v) for n, v in self._checked(feeds).items()}
            try:
                made = self.session.run(names, given)
            except Exception as error:
                raise failed(error) from error
            results = [to_plain(self.outputs[n], y) for n, y in zip(names, made, strict=True)]
        else:
            results = list(map(to_array, self.run_ortvalues(names, feeds)))
        return results[0] if isinstance(outputs, str) else results

    def run_ortvalues(
        self, outputs: str | Sequence[str] | None, feeds: Mapping[str, Any]
    ) -> list[OrtValue]:
        """Return outputs as ONNX Runtime's values, which stay where they were computed.

        ``numpy.from_dlpack`` and ``torch.from_dlpack`` take them without a copy.

        >>> import gradwright as gw, numpy as np
        >>> g = gw.Graph()
        >>> y = gw.exp(g.placeholder("x", ("B",)), name="y")
        >>> runner = gw.onnx.Runner(g)
        >>> (value,) = runner.run_ortvalues("y", {"x": [0.0]})
        >>> found = np.from_dlpack(value)
        >>> found.tolist(), found.ctypes.data == value.data_ptr()
        ([1.0], True)
        """
        names, session = self._chosen(outputs), self.session
        given = {n: as_ortvalue(self.inputs[n], v) for n, v in self._checked(feeds).items()}
        try:
            return session.run_with_ort_values(names, given)  # type: ignore[no-any-return]
        except Exception as error:
            raise failed(error) from error

    def bind(
        self,
        feeds: Mapping[str, Any],
        outputs: str | Sequence[str] | None = None,
        *,
        into: Mapping[str, Any] | None = None,
    ) -> Binding:
        """Return a run whose inputs and outputs have their places, for many runs on this memory."""
        into = {} if into is None else into
        if not isinstance(into, Mapping):
            raise FeedError(f"into is a {type(into).__name__}", need="a dict by output")
        for name in into:
            if name not in self.outputs:
                raise self._unknown("output", name, self.outputs)
        return Binding(self, self._chosen(outputs), self._checked(feeds), into)

    def predict(
        self,
        feeds: Mapping[str, Any],
        outputs: str | Sequence[str] | None = None,
        *,
        batch_size: int | None = None,
        shared: Collection[str] = (),
    ) -> Any:
        """Return the outputs for any number of rows, run in batches and put together.

        The batch is the first axis of the first input and of all that have the same size there;
        ``shared`` names inputs that every batch gets whole. Where the model fixes its size, the
        last batch is filled up with its last row, and what comes of that is cut off.

        Args:
            feeds: input -> rows.
            outputs: a name, several, or None for all, as for ``run``.
            batch_size: rows at a time, 64 by default; the model's own where it states one.
            shared: names of inputs that are no rows.

        Raises:
            FeedError: numbers of rows differ, or an output has none.

        >>> import gradwright as gw
        >>> g = gw.Graph()
        >>> y = gw.square(g.placeholder("x", (2,)), name="y")  # always two
        >>> gw.onnx.Runner(g).predict({"x": [1.0, 2.0, 3.0]}, "y").tolist()
        [1.0, 4.0, 9.0]
        """
        if isinstance(shared, str | bytes) or not isinstance(shared, Collection):
            raise FeedError(f"shared={shared!r} makes no sense", need="a list of inputs")
        batch, batched = batch_axis(self.inputs, shared)
        fixed = not isinstance(batch, Dim)
        if batch_size is not None and (type(batch_size) is not int or batch_size < 1):
            raise FeedError(f"batch_size={batch_size!r} is no number of rows", need="1 or more")
        if fixed and batch_size not in (None, batch):
            raise FeedError(
                f"the model takes {batch} rows at a time", need=f"batch_size={batch}, or none"
            )
        size = int(batch) if fixed else batch_size or BATCH
        rows, given = rows_of(self._checked(feeds), batched)
        if not rows:
            raise FeedError("there are no rows", need="one row at least")
        names = self._chosen(outputs)
        parts = batches(given, batched, rows, size, fixed=fixed)
        made = [(n, self.run(names, part)) for n, part in parts]
        counts = [n for n, _ in made]
        found = [
            joined(self.outputs[name], [ys[i] for _, ys in made], counts, batch)
            for i, name in enumerate(names)
        ]
        return found[0] if isinstance(outputs, str) else found

    # -- checks ----------------------------------------------------------------------------------

    def _chosen(self, outputs: str | Sequence[str] | None) -> list[str]:
        names = (
            [outputs] if isinstance(outputs, str) else self.names if outputs is None else outputs
        )
        if not isinstance(names, Iterable):
            raise FeedError(f"outputs={names!r} makes no sense", need="a name, a list, or None")
        for name in (names := list(names)):
            if name not in self.outputs:
                raise self._unknown("output", name, self.outputs)
        return names

    def _checked(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        """Return feeds by name; raises FeedError for what is missing or unknown."""
        if not isinstance(feeds, Mapping):
            raise FeedError(f"the feeds are a {type(feeds).__name__}", need="a dict by input")
        found = {str(getattr(key, "name", key)): value for key, value in feeds.items()}
        for name in found:
            if name not in self.inputs:
                raise self._unknown("input", name, self.inputs)
        missing = [i for i in self.inputs.values() if i.name not in found and not i.is_optional]
        if missing:
            raise FeedError(
                f"input {missing[0].name!r} is not fed",
                facts=[f"missing: {info!r}" for info in missing],
            )
        return found

    def _unknown(self, what: str, name: object, known: Mapping[str, ValueInfo]) -> FeedError:
        return FeedError(
            f"the model has no {what} {name!r}", facts=[f"{what}s: {', '.join(known)}"]
        )

    def _is_plain(self, names: Sequence[str], feeds: Mapping[str, Any]) -> bool:
        """Tell whether text, lists or dicts go in or out, which are no values of one tensor."""
        if not isinstance(feeds, Mapping):
            return False
        keys = {str(getattr(key, "name", key)) for key in feeds}
        infos = [*(self.inputs[n] for n in keys if n in self.inputs)]
        infos += [self.outputs[n] for n in names]
        return any(i.kind != "tensor" or i.dtype.kind in "TOU" for i in infos)
