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
from typing import TYPE_CHECKING, Any, Literal

from ...graph import Graph, Tensor
from ...ops import missing
from ...rewrite.recognition import kinds
from ..foreign import Chosen, Fixed, Item, Value, attribute
from . import table  # noqa: F401 - enters what ops declare
from .late import OnnxOp
from .model import need_onnx
from .node import ONNX
from .runtime.comparing.compare import compare
from .runtime.runner import Runner

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from onnx import ModelProto

    from ..foreign import Attributes, Outputs
    from ..foreign.known import Known
    from ..foreign.rules import Conditions, Rule, Source

__all__ = [
    "Chosen",
    "Fixed",
    "Item",
    "OnnxOp",
    "Runner",
    "Value",
    "attribute",
    "compare",
    "forget",
    "load",
    "maps",
    "operators",
    "reads",
    "save",
    "to_model",
]


def _enter_readers() -> None:
    from . import readers  # noqa: F401


ONNX.openers.append(_enter_readers)


def load(
    model: str | os.PathLike[str] | bytes | ModelProto,
    *,
    trainable: bool = False,
    shapes: Mapping[str, Sequence[int | str | None]] | None = None,
    recognize: bool | Collection[str] = False,
) -> Graph:
    """Return an ONNX model as a graph; inputs and outputs keep their names.

    ``model`` is a path, the bytes of a file, or a ``ModelProto``. Initializers become constants;
    with ``trainable=True`` the floating ones of rank 1 and more become variables to be trained.
    ``shapes={"x": ("B", 3, None)}`` states shapes of inputs, where the model leaves sizes or a
    rank open: sizes, symbols, or None for any size. ``g[...]`` and feeds know each tensor of the
    model's graph by the model's name too, such as ``/encoder/Add_output_0``.
    With ``recognize=True`` attention, norms, rotary embeddings and activations that the exporter
    wrote out are one op each, or those of some kinds, ``{"attention", "gelu"}``, and what no output
    needs is left out: :func:`gradwright.recognize`, which called by itself also tells what it did.

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
    from .importer import import_model

    wanted = kinds() if recognize is True else recognize or ()
    return import_model(model, trainable, wanted, shapes)


def to_model(
    graph: Graph,
    outputs: Sequence[Tensor | str] | None = None,
    *,
    opset: int | Literal["lowest"] = 23,
    functions: bool = False,
) -> ModelProto:
    """Return the inference graph as a ``ModelProto`` that the ONNX checker accepts.

    ``outputs`` are tensors or names, by default all that nothing uses; of a model that was read,
    its own, while there are no new ones. Ops run in eval mode; an op that ONNX has as an operator,
    or as a few, is written whole, any other opened: written as what it expands to. Complex tensors
    are written as real ones with a last axis of pairs.

    ``opset`` is 7 to 28. ``"lowest"`` takes the first in which no op is opened that 28, the newest,
    has whole: for programs that read old opsets only. Runtimes lag behind: ONNX Runtime 1.32 runs
    26.

    With ``functions=True`` scopes and calls (``gw.function``) become functions of the model, one
    for all that are alike; of a model that was read, those scopes that were functions, under the
    names that they had. A scope that cannot run in one go, between others, stays open.

    Raises:
        GraphError: nothing to write, or no such opset.
        UnsupportedOpError: ops that ONNX, or the opset, cannot express, all at once.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = g.placeholder("x", (2,)) * 2.0
    >>> [node.op_type for node in gw.onnx.to_model(g).graph.node]
    ['Mul']
    >>> gw.onnx.to_model(g, opset="lowest").opset_import[0].version
    7
    """
    need_onnx()
    return _exported(graph, outputs, opset, functions=functions)


def _exported(*what: Any, functions: bool) -> ModelProto:
    from . import writers  # noqa: F401 - enters them
    from .exporter import export_graph

    return export_graph(*what, functions=functions)


def save(
    graph: Graph,
    path: str | os.PathLike[str],
    outputs: Sequence[Tensor | str] | None = None,
    *,
    opset: int | Literal["lowest"] = 23,
    functions: bool = False,
    external: bool | None = None,
    threshold: int = 1024,
) -> None:
    """Write the inference graph as an ONNX file, as a whole or not at all; see :func:`to_model`.

    With ``external=True`` tensors of ``threshold`` bytes and more lie in a file beside it, called
    ``model.onnx.data`` where ``path`` ends with ``model.onnx``; unless told, they do if they have
    more than 2 GB together, which no ONNX file holds by itself.

    Raises:
        GraphError: the tensors that the file itself would hold are too large.
        OSError: the files cannot be written; those that were there before are as they were.

    >>> import gradwright as gw, tempfile, pathlib
    >>> g = gw.Graph()
    >>> y = gw.nn.relu(g.placeholder("x", ("B",)), name="y")
    >>> path = pathlib.Path(tempfile.mkdtemp(), "relu.onnx")
    >>> gw.onnx.save(g, path)
    >>> gw.onnx.load(path).output({"x": [-1.0, 2.0]}, "y")["y"].tolist()
    [0.0, 2.0]
    """
    need_onnx()
    from .external.saving import Outside, write_model

    outside = Outside(external, threshold)
    model = _exported(graph, outputs, opset, outside.tensors, functions=functions)
    write_model(path, model, outside)


def operators() -> Known:
    """Return what is read: (domain, operator) -> how, without those known by function body alone.

    It prints as a table, which says for each operator who reads it, and has ``to_json()``.

    >>> import gradwright as gw
    >>> ("", "Conv") in gw.onnx.operators()
    True
    >>> print(gw.onnx.operators().table().rows[0])
    ['', 'Abs', '6', 'op abs', '']
    """
    return ONNX.known()


def reads(
    *op_types: str,
    domain: str = "",
    since: int = 1,
    attributes: Attributes | None = None,
    values: Sequence[int] = (),
    outputs: Outputs | None = None,
    takes_dims: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Have a function read operators of ONNX, or of a domain of your own.

    The function is given the node, whose attributes are ``node["name"]`` and
    ``node.get("name", default)``, and its inputs as tensors, None for one that is left out; it
    returns a tensor, or one per output, of which ``node.wanted`` says what is read. A sub-graph is
    ``node.graph("body")``, a function of tensors.

    It serves models whose opset of the domain is ``since`` or newer, and goes before all else that
    knows the operator: ours, ONNX's function bodies, and functions of the model. It is kept as long
    as the process runs, or until :func:`forget`; entered again, as by a cell that runs again, it
    takes its own place.

    ``attributes`` describes them, by :func:`attribute` or by their defaults alone: they are checked
    before the function is called. ``values`` are numbers of inputs that the function is given as
    arrays, for they say what is done; where they are computed, the node waits for the run, and
    ``outputs(node, *specs)`` says what is known before.

    >>> import gradwright as gw
    >>> from onnx import helper
    >>> @gw.onnx.reads("Scale", domain="mine", attributes={"factor": 1.0})
    ... def scale(node, x):
    ...     return x * node["factor"]
    >>> x, y = (helper.make_tensor_value_info(name, 1, ["B"]) for name in "xy")
    >>> node = helper.make_node("Scale", ["x"], ["y"], domain="mine", factor=2.0)
    >>> opsets = [helper.make_opsetid("", 20), helper.make_opsetid("mine", 1)]
    >>> model = helper.make_model(helper.make_graph([node], "g", [x], [y]), opset_imports=opsets)
    >>> gw.onnx.load(model).output({"x": [1.0, 3.0]}, "y")["y"].tolist()
    [2.0, 6.0]
    >>> gw.onnx.forget("Scale", domain="mine")
    """
    return ONNX.reads(
        *op_types, domain=domain, since=since, attributes=attributes, values=values,
        outputs=outputs, takes_dims=takes_dims, by_user=True,
    )  # fmt: skip


def maps(
    op_type: str,
    op: str | Chosen,
    *,
    domain: str = "",
    since: int = 1,
    attributes: Attributes | None = None,
    takes: Mapping[str, Source] | None = None,
    inputs: Sequence[int | str | None] | None = None,
    leaves: Sequence[str] = (),
    needs: Conditions | None = None,
    gives: Conditions | None = None,
    outputs: Outputs | None = None,
    takes_dims: bool = False,
) -> Rule:
    """Have an operator read as an op of ours, by a rule instead of a function.

    ``attributes`` describes those of the operator, as in :func:`reads`. Each becomes the op's of
    the same name; ``takes`` says where others of the op come from: ``"theirs"`` by another name,
    ``Value(1)`` from an input, ``Chosen("mode", {"avg": "mean"})`` by what a value stands for,
    ``Item("pads", 0)``, ``Fixed(3)``, or a tuple of these. ``inputs`` are the op's inputs in order,
    numbers of theirs, names of attributes that are inputs here, None for none; ``leaves`` are
    attributes without a meaning for the op. ``needs`` holds of each node, ``gives`` of what it
    becomes: ``{"a batch": lambda node, x: x.rank == 4}``.

    It goes before all else, as a reader does, and is taken back by :func:`forget`.

    Raises:
        GraphError: the rule does not fit the op: it says which attribute.

    >>> import gradwright as gw
    >>> rule = gw.onnx.maps(
    ...     "Ramp", "leaky_relu", domain="mine",
    ...     attributes={"steep": gw.onnx.attribute(float, 0.1, least=0.0)},
    ...     takes={"negative_slope": "steep"},
    ... )
    >>> rule.as_dict()
    {'op': 'leaky_relu', 'takes': {'negative_slope': 'steep'}}
    >>> gw.onnx.forget("Ramp", domain="mine")
    """
    return ONNX.maps(
        op_type, op, domain=domain, since=since, attributes=attributes, takes=takes,
        inputs=inputs, leaves=leaves, needs=needs, gives=gives, outputs=outputs,
        takes_dims=takes_dims, by_user=True,
    )  # fmt: skip


def forget(*op_types: str, domain: str = "") -> None:
    """Take back what :func:`reads` and :func:`maps` have entered; what stood there before is back.

    Raises GraphError where nothing has been entered for one of the operators.

    >>> import gradwright as gw
    >>> @gw.onnx.reads("Relu")
    ... def relu(node, x):
    ...     return gw.nn.elu(x)
    >>> gw.onnx.forget("Relu")
    >>> gw.onnx.operators()["", "Relu"][0].says
    'op relu'
    """
    ONNX.forget(*op_types, domain=domain)


def __getattr__(name: str) -> Any:
    """Say what is meant by a name that is not here."""
    raise missing(__name__, name, __all__)
