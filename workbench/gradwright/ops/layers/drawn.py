"""Layers that are more than their op: they draw from a stream of the graph, or make variables."""

from __future__ import annotations

from typing import TypeGuard

from ...errors import GraphError
from ...graph import Tensor
from ...op import find_op, maker
from ...spec import TensorSpec, at_least_float32, normalize_axis
from .nn import Dropout
from .norm import BatchNorm


@maker("nn")
def dropout(
    x: Tensor,
    p: float = 0.5,
    *,
    inverted: bool = True,
    training: bool | None = None,
    name: str | None = None,
) -> Tensor:
    """Zero each element with probability ``p`` in training; pass everything in eval.

    y = x·m, m = 0 with probability p, else 1/(1 − p) (Srivastava et al. 2014). With
    ``inverted=False`` the kept elements stay as they are and eval multiplies by 1 − p instead.
    ``training`` None follows the run. Raises GraphError unless 0 <= p <= 1.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.dropout(g.constant([1.0, 2.0, 3.0, 4.0]), p=0.5)
    >>> with gw.Session(g, seed=2) as session:
    ...     session.run(y, training=True).tolist(), session.run(y).tolist()
    ([2.0, 4.0, 0.0, 8.0], [1.0, 2.0, 3.0, 4.0])
    """
    op = Dropout(p=p, inverted=inverted, training=training, stream=x.graph.next_stream())
    y: Tensor = op(x.graph.rng, x, name=name)
    return y


@maker("nn")
def batch_norm(
    x: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    *,
    axis: int = 1,
    momentum: float = 0.1,
    eps: float = 1e-5,
    training: bool | None = None,
    name: str | None = None,
) -> Tensor:
    """Bring each channel to mean 0 and variance 1 over the batch (Ioffe and Szegedy 2015).

    y = (x − μ)/√(σ² + ε)·weight + bias, with the batch's μ and σ² in training and the running ones
    in eval. A training step sets running = (1 − momentum)·running + momentum·batch, as in torch
    (ONNX and Keras call 1 − momentum the momentum), with the unbiased variance, if its loss is made
    of y; calls that share running variables all count, each starting from what the one before it
    made. Channels lie along ``axis``; ``training`` None follows the run.

    Parameters that are not given are made: variables ``name/weight``, ``name/bias``,
    ``name/running_mean`` and ``name/running_var`` of one number per channel. torch has the running
    ones before weight and bias: GraphError is raised where weight and running_var begin as zeros.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", 3))
    >>> y = gw.nn.batch_norm(x, name="bn")
    >>> [t.name for t in g.trainable], [t.name for t in g.updates]
    (['bn/weight', 'bn/bias'], ['bn/running_mean', 'bn/running_var'])
    """
    op = BatchNorm(axis=axis, momentum=momentum, eps=eps, training=training)
    channels = x.shape[normalize_axis(axis, x.rank)]
    spec = TensorSpec((channels,), at_least_float32(x.dtype))
    given = {
        "weight": weight,
        "bias": bias,
        "running_mean": running_mean,
        "running_var": running_var,
    }
    op.infer(x.spec, *(spec if p is None else p.spec for p in given.values()))  # before any is made
    graph = x.graph
    if _is_zero(weight) and _is_zero(running_var):
        raise GraphError(
            f"weight {weight.name!r} and running_var {running_var.name!r} are all zeros",
            need="weight, bias, running_mean, running_var, in this order",
            hint="torch has the running ones first",
        )
    name = name or graph._free_name("batch_norm").rpartition("/")[2]
    with graph.scope(name):
        parameters = [
            graph.variable(
                label,
                spec.shape,  # type: ignore[arg-type]
                init=1.0 if label in ("weight", "running_var") else 0.0,
                dtype=spec.dtype,
                trainable=not label.startswith("running"),
            )
            if p is None
            else p
            for label, p in given.items()
        ]
    y: Tensor = op(x, *parameters, name=name)[0]
    return y


def _is_zero(parameter: Tensor | None) -> TypeGuard[Tensor]:
    if parameter is None or parameter.kind != "variable":
        return False
    return not parameter.graph.values.array(parameter.name).any()


@maker("nn")
def fused_bias_dropout_residual(
    x: Tensor,
    bias: Tensor,
    residual: Tensor,
    p: float = 0.5,
    *,
    training: bool | None = None,
    name: str | None = None,
) -> Tensor:
    """End of a transformer's sub-layer: bias, dropout, residual connection.

    y = dropout(x + bias) + residual, with x, residual: f32[…, D], bias: f32[D]. ``training`` None
    follows the run. Raises GraphError unless 0 <= p <= 1.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, b = g.constant([1.0, 2.0]), g.constant([10.0, 20.0])
    >>> y = gw.nn.fused_bias_dropout_residual(x, b, x, p=0.5, name="y")
    >>> g.output({}, y)["y"].tolist()
    [12.0, 24.0]
    """
    cls = find_op("fused_bias_dropout_residual")
    op = cls(p=p, training=training, stream=x.graph.next_stream())
    y: Tensor = op(x.graph.rng, x, bias, residual, name=name)
    return y
