"""``gw.onnx``: models of the Open Neural Network Exchange, read into graphs and written from them.

The ``onnx`` package is needed, and imported when a model is read or written. A model is data: no
code comes with it, external data is read from its own folder only, and what is wrong with it is
told before there is a graph.

Reading knows each operator as a rule of an op (``OnnxRule``), as a reader function
(``readers/``, or under ``gw.onnx.reads``), or through the function body of its ONNX schema;
writing knows rules and writer functions (``writers/``), and opens composite ops that have neither.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ...errors import GraphError
from ...files.whole import replacing
from ...graph import Graph, Tensor
from ...ops import missing
from . import table  # noqa: F401 - enters what ops declare
from .late import OnnxOp
from .node import ONNX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from onnx import ModelProto

__all__ = ["OnnxOp", "load", "operators", "reads", "save", "to_model"]


def _enter_readers() -> None:
    from . import readers  # noqa: F401


ONNX.openers.append(_enter_readers)


def _need_onnx() -> None:
    try:
        import onnx  # noqa: F401
    except ImportError:
        raise GraphError(
            "the onnx package is not installed", hint="pip install 'gradwright[onnx]'"
        ) from None


def load(
    model: str | os.PathLike[str] | bytes | ModelProto,
    *,
    trainable: bool = False,
    shapes: Mapping[str, Sequence[int | str | None]] | None = None,
) -> Graph:
    """Return an ONNX model as a graph; inputs and outputs keep their names.

    ``model`` is a path, the bytes of a file, or a ``ModelProto``. Initializers become constants;
    with ``trainable=True`` the floating ones of rank 1 and more become variables to be trained.
    ``shapes={"x": ("B", 3, None)}`` states shapes of inputs, where the model leaves sizes or a
    rank open: sizes, symbols, or None for any size. ``g[...]`` and feeds know each tensor of the
    model's graph by the model's name too, such as ``/encoder/Add_output_0``.

    Raises:
        ArchiveError: the model is damaged, unsafe, or not valid; says which node and why.
        GraphError: ``shapes`` name what is no input, or contradict the model.
        UnsupportedOpError: operators that are not known, all at once, with how often each occurs.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.softmax(g.placeholder("x", ("B", 3)), name="y")
    >>> g2 = gw.onnx.load(gw.onnx.to_model(g))
    >>> g2["x"].shape, g2["y"].op.name
    ((B, 3), 'softmax')
    """
    _need_onnx()
    from .importer import import_model

    return import_model(model, trainable, shapes)


def to_model(
    graph: Graph, outputs: Sequence[Tensor | str] | None = None, *, opset: int = 23
) -> ModelProto:
    """Return the inference graph as a ``ModelProto`` that the ONNX checker accepts.

    ``outputs`` are tensors or names, by default all that nothing uses. Ops run in eval mode; a
    composite op without a rule is written as what it expands to.

    Raises:
        UnsupportedOpError: ops that ONNX cannot express, all at once.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = g.placeholder("x", (2,)) * 2.0
    >>> [node.op_type for node in gw.onnx.to_model(g).graph.node]
    ['Mul']
    """
    _need_onnx()
    from . import writers  # noqa: F401 - enters them
    from .exporter import export_graph

    return export_graph(graph, outputs, opset)


def save(
    graph: Graph,
    path: str | os.PathLike[str],
    outputs: Sequence[Tensor | str] | None = None,
    *,
    opset: int = 23,
) -> None:
    """Write the inference graph as an ONNX file, as a whole or not at all; see :func:`to_model`.

    >>> import gradwright as gw, tempfile, pathlib
    >>> g = gw.Graph()
    >>> y = gw.nn.relu(g.placeholder("x", ("B",)), name="y")
    >>> path = pathlib.Path(tempfile.mkdtemp(), "relu.onnx")
    >>> gw.onnx.save(g, path)
    >>> gw.onnx.load(path).output({"x": [-1.0, 2.0]}, "y")["y"].tolist()
    [0.0, 2.0]
    """
    data = to_model(graph, outputs, opset=opset).SerializeToString(deterministic=True)
    with replacing(path) as file:
        file.write(data)


def operators() -> Mapping[tuple[str, str], Any]:
    """Return what is read: (domain, operator) -> how, without those known by function body alone.

    >>> import gradwright as gw
    >>> ("", "Conv") in gw.onnx.operators()
    True
    """
    return ONNX.known()


def reads(
    *op_types: str, domain: str = "", since: int = 1
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Have a function read operators of ONNX, or of a domain of your own.

    The function is given the node, whose attributes are ``node["name"]`` and
    ``node.get("name", default)``, and its inputs as tensors, None for one that is left out; it
    returns a tensor, or one per output. It serves models whose opset of the domain is ``since`` or
    newer, and takes the place of a reader that is there. It is kept as long as the process runs.

    >>> import gradwright as gw
    >>> from onnx import helper
    >>> @gw.onnx.reads("Scale", domain="mine")
    ... def scale(node, x):
    ...     return x * node.get("factor", 1.0)
    >>> x, y = (helper.make_tensor_value_info(name, 1, ["B"]) for name in "xy")
    >>> node = helper.make_node("Scale", ["x"], ["y"], domain="mine", factor=2.0)
    >>> opsets = [helper.make_opsetid("", 20), helper.make_opsetid("mine", 1)]
    >>> model = helper.make_model(helper.make_graph([node], "g", [x], [y]), opset_imports=opsets)
    >>> gw.onnx.load(model).output({"x": [1.0, 3.0]}, "y")["y"].tolist()
    [2.0, 6.0]
    """
    ONNX.open()  # those that come with gradwright are there first
    return ONNX.reads(*op_types, domain=domain, since=since)


def __getattr__(name: str) -> Any:
    """Say what is meant by a name that is not here."""
    raise missing(__name__, name, __all__)
