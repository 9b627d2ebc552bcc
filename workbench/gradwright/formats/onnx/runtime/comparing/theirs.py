"""The values of another runtime: of all nodes of a model, not of its outputs alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .....errors import GradwrightError, GraphError
from .....graph import coerce
from .....spec import BOXED, TensorSpec
from .....spec import dtype as as_dtype
from .....spec.containers import SequenceSpec, box_sequence, to_python
from ..opening import need_onnxruntime
from ..runner import Runner

if TYPE_CHECKING:
    from onnx import ModelProto

Array = np.ndarray[Any, Any]
By = Literal["onnxruntime", "reference"]
_FOLDER = "session.model_external_initializers_file_folder_path"


class Theirs:
    """A model on another runtime, of which values between are seen; of bodies nothing.

    Nothing is fused or rewritten. Raises what :class:`Runner` does.

    Args:
        model: the model.
        names: what is seen.
        by: whose runtime.
        providers: of ONNX Runtime.
        folder: where external data of the model is.
    """

    def __init__(
        self,
        model: ModelProto,
        names: Collection[str],
        by: By,
        providers: Any = None,
        folder: Path | None = None,
    ) -> None:
        self._model, self._runner = model, None
        made = dict.fromkeys(n for node in model.graph.node for n in node.output if n)
        self._names = [name for name in made if name in names]
        if by == "reference":
            return
        shown = type(model)()
        shown.CopyFrom(model)
        stated = {info.name for info in shown.graph.output}
        for name in self._names:
            if name not in stated:
                shown.graph.output.add(name=name)
        options = need_onnxruntime().SessionOptions()
        options.log_severity_level = 4
        if folder is not None:
            options.add_session_config_entry(_FOLDER, str(folder.resolve()))
        self._runner = Runner(shown, providers=providers, optimize="off", options=options)

    def values(self, feeds: Mapping[str, Array]) -> dict[str, Array]:
        """Return what all nodes make, by name; raises GraphError for a run that fails."""
        given = {name: to_python(x) if x.dtype == BOXED else x for name, x in feeds.items()}
        if self._runner is None:
            return _as_ours(self._by_reference(given))
        asked = [name for name in self._runner.names if name in set(self._names)]
        if not asked:
            return {}
        return _as_ours(dict(zip(asked, self._runner.run(asked, given), strict=True)))

    def _by_reference(self, feeds: Mapping[str, Any]) -> dict[str, Any]:
        from onnx.reference import ReferenceEvaluator

        made = {k: v.astype(object) if _is_text(v) else v for k, v in feeds.items()}
        try:
            found: Any = ReferenceEvaluator(self._model).run(None, made, intermediate=True)
        except Exception as error:  # whatever numpy says
            what = f"onnx.reference does not run the model: {type(error).__name__}"
            raise GraphError(what, facts=[str(error)[:400]]) from error
        return {name: found[name] for name in self._names if name in found}


def _is_text(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "TU"


def _as_ours(found: Mapping[str, Any]) -> dict[str, Array]:
    """Return values as ours; what is none, such as a map, is left out."""
    made = {}
    for name, value in found.items():
        try:
            made[name] = as_ours(value)
        except (GradwrightError, TypeError, ValueError):
            continue
    return made


def as_ours(value: Any) -> Array:
    """Return a value of another runtime as one of ours.

    >>> as_ours([np.float32([1.0]), np.float32([2.0, 3.0])]).dtype == BOXED
    True
    """
    if isinstance(value, list | tuple):
        items = [as_ours(v) for v in value]
        return box_sequence(items, SequenceSpec(None, np.float32))  # of an empty one
    array = np.asarray(value)
    if array.dtype.kind in "OU":
        return coerce(array, TensorSpec(array.shape, as_dtype("str")), "text")
    as_dtype(array.dtype)
    return array
