"""Small networks of torch that peft adapts, and the same ones here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw

torch: Any = pytest.importorskip("torch")
Array = np.ndarray[Any, Any]


class Net(torch.nn.Module):  # type: ignore[misc]
    """What peft adapts: a table, two products."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(7, 6)
        self.up = torch.nn.Linear(6, 5)
        self.down = torch.nn.Linear(5, 4, bias=False)

    def forward(self, ids: Any) -> Any:
        return self.down(torch.tanh(self.up(self.table(ids))))


class Images(torch.nn.Module):  # type: ignore[misc]
    """Convolutions: strided and padded, of groups, with a bias and without."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = torch.nn.Conv2d(4, 6, 3, stride=2, padding=1)
        self.split = torch.nn.Conv2d(6, 4, (1, 3), groups=2, bias=False)

    def forward(self, x: Any) -> Any:
        return self.split(torch.tanh(self.wide(x)))


def parameters(model: Any) -> dict[str, Array]:
    return {name: p.detach().numpy().copy() for name, p in model.named_parameters()}


def net(model: Any, dtype: str = "float32") -> tuple[gw.Graph, gw.Tensor, gw.Tensor]:
    """Return the same network here, one product written each way, and its loss."""
    g, w = gw.Graph(), parameters(model)
    ids, t = g.placeholder("ids", ("B", 3), "int64"), g.placeholder("t", ("B", 3, 4), dtype)
    h = gw.nn.embedding(ids, g.variable("table.weight", init=w["table.weight"], dtype=dtype))
    up = g.variable("up.weight", init=w["up.weight"].T, dtype=dtype)
    h = gw.tanh(gw.nn.linear(h, up, g.variable("up.bias", init=w["up.bias"], dtype=dtype)))
    y = h @ g.variable("down.weight", init=w["down.weight"], dtype=dtype).mT
    return g, y, gw.mean((y - t) ** 2.0, name="loss")


def images(model: Any) -> tuple[gw.Graph, gw.Tensor, gw.Tensor]:
    g, w = gw.Graph(), parameters(model)
    x = g.placeholder("x", ("B", 4, 6, 6))
    v = {n: g.variable(n, init=a) for n, a in w.items()}
    h = gw.tanh(gw.cnn.conv2d(x, v["wide.weight"], v["wide.bias"], stride=2, padding=1))
    y = gw.cnn.conv2d(h, v["split.weight"], groups=2)
    return g, y, gw.mean((y - g.placeholder("t", y.shape)) ** 2.0, name="loss")


def feeds_of(module: type) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    if module is Net:
        return {"ids": rng.integers(0, 7, (2, 3)), "t": rng.standard_normal((2, 3, 4), "f")}
    x = rng.standard_normal((2, 4, 6, 6)).astype("f")
    return {"x": x, "t": rng.standard_normal((2, 4, 3, 1)).astype("f")}
