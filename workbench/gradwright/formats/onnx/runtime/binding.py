"""Inputs and outputs bound once for many runs: their memory stays where it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ....errors import FeedError, GraphError
from ....spec import dtype_name
from .opening import message
from .ports import (
    ValueInfo,
    as_ortvalue,
    check,
    is_ortvalue,
    of_array,
    ortvalue_dtype,
    to_array,
)

if TYPE_CHECKING:
    from onnxruntime import OrtValue

    from .runner import Runner


class Binding:
    """A run whose inputs and outputs have their places; ``Runner.bind`` makes one.

    Inputs that were lent are read anew by each ``run``: write into them, and run again. Results of
    ``into`` are written in place, and are the very objects that were given.

    >>> import gradwright as gw, numpy as np
    >>> g = gw.Graph()
    >>> y = gw.exp(g.placeholder("x", ("B",)), name="y")
    >>> x, y = np.zeros(2, np.float32), np.empty(2, np.float32)
    >>> with gw.onnx.Runner(g) as runner:
    ...     binding = runner.bind({"x": x}, into={"y": y})
    ...     found = binding.run()["y"]
    ...     x[:] = 1.0
    ...     again = binding.run()["y"]
    >>> found is y, np.allclose(y, np.e)
    (True, True)
    """

    def __init__(
        self,
        runner: Runner,
        names: list[str],
        feeds: Mapping[str, Any],
        into: Mapping[str, Any],
    ) -> None:
        self.runner, self.names = runner, names
        self._given = dict(into)
        self._lent: dict[str, Any] = {}
        """What is bound, kept: ONNX Runtime writes where it lies."""
        self._bound = runner.session.io_binding()
        for name, value in feeds.items():
            self._lent[name] = as_ortvalue(runner.inputs[name], value)
            self._bound.bind_ortvalue_input(name, self._lent[name])
        for name in names:
            if name in into:
                self._lent[name] = writable(runner.outputs[name], into[name])
                self._bound.bind_ortvalue_output(name, self._lent[name])
            else:
                self._bound.bind_output(name, "cpu")

    def run_ortvalues(self) -> dict[str, OrtValue]:
        """Run, and return the outputs as ONNX Runtime's values."""
        session = self.runner.session
        try:
            session.run_with_iobinding(self._bound)
        except Exception as error:
            raise failed(error) from error
        return dict(zip(self.names, self._bound.get_outputs(), strict=True))

    def run(self) -> dict[str, Any]:
        """Run, and return the outputs by name: arrays, or what they were written into."""
        found = self.run_ortvalues()
        return {
            name: self._given[name] if name in self._given else to_array(value)
            for name, value in found.items()
        }


def writable(info: ValueInfo, place: Any) -> OrtValue:
    """Return the memory of ``place`` as the value that an output is written into.

    Raises FeedError where it cannot be: another dtype or size, strides, read-only.
    """
    from onnxruntime import OrtValue

    if is_ortvalue(place):
        value = place
    elif isinstance(place, np.ndarray):
        if not (place.flags.c_contiguous and place.flags.writeable):
            why = "read-only" if place.flags.c_contiguous else "not contiguous"
            raise FeedError(
                f"output {info.name!r} cannot be written into an array that is {why}",
                need="a writable array in C order",
                hint=f"np.empty({list(place.shape)}, {dtype_name(info.dtype)!r})",
            )
        check(info, place.shape, place.dtype, "output")
        return of_array(place)
    elif hasattr(place, "__dlpack__"):
        try:
            value = OrtValue.from_dlpack(place)
        except Exception as error:
            raise FeedError(
                f"output {info.name!r} cannot be written there: {message(error)}",
                need="contiguous memory that DLPack lends",
            ) from None
    else:
        raise FeedError(
            f"output {info.name!r} cannot be written into a {type(place).__name__}",
            need="an array, an OrtValue, or what has __dlpack__",
        )
    check(info, value.shape(), ortvalue_dtype(value), "output")
    return value


def failed(error: Exception) -> GraphError:
    """Return our error for a run that ONNX Runtime has given up."""
    text = message(error)
    if "pre-allocated output" in text:
        return FeedError(
            "an output has another shape than what it is to be written into",
            facts=[text.partition(" When calling Run()")[0]],
            hint="run(...) without into= tells the shapes",
        )
    return GraphError("ONNX Runtime does not run the model", facts=[text])
