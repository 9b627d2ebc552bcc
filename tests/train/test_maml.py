"""MAML (Finn et al. 2017): inner steps in a map over tasks, trained from outside, beside torch."""

from __future__ import annotations

from typing import Any

import numpy as np

import gradwright as gw

TASKS, ROWS, INNER, RATE, STEPS = 4, 6, 2, 0.1, 5
RNG = np.random.default_rng(0)
W, V = RNG.standard_normal((3, 8)) / 2, RNG.standard_normal(8) / 2


def batch(step: int) -> dict[str, Any]:
    """Return a batch of tasks: rows to adapt to, and rows to be right on."""
    rng = np.random.default_rng(step)
    shapes = {"x": (3,), "y": (), "x2": (3,), "y2": ()}
    return {n: rng.standard_normal((TASKS, ROWS, *s)) for n, s in shapes.items()}


def maml() -> tuple[gw.Graph, gw.Tensor]:
    """Return the loss after inner steps, over all tasks; its variables stand outside of the map."""
    g = gw.Graph()
    given = [g.placeholder(n, a.shape, "float64") for n, a in batch(0).items()]
    w, v = g.variable("w", init=W), g.variable("v", init=V)

    def loss(w: gw.Tensor, v: gw.Tensor, x: gw.Tensor, y: gw.Tensor) -> gw.Tensor:
        return ((gw.tanh(x @ w) @ v - y) ** 2.0).mean()

    def task(rows: Any) -> gw.Tensor:
        x, y, x2, y2 = rows
        a, b = w, v
        for _ in range(INNER):
            da, db = gw.gradients(loss(a, b, x, y), [a, b])
            a, b = a - RATE * da, b - RATE * db
        return loss(a, b, x2, y2)

    return g, gw.map_fn(task, tuple(given)).mean()


def test_maml_trains_as_in_torch(torch: Any) -> None:
    g, loss = maml()
    trainer = gw.Trainer(g, loss, gw.optim.Adam(0.05))
    params = [torch.nn.Parameter(torch.tensor(a)) for a in (W, V)]
    optimizer = torch.optim.Adam(params, lr=0.05)

    def theirs(w: Any, v: Any, x: Any, y: Any) -> Any:
        return ((torch.tanh(x @ w) @ v - y) ** 2).mean()

    for step in range(STEPS):
        record = trainer.step(batch(step))
        optimizer.zero_grad()
        total: Any = 0.0
        for x, y, x2, y2 in zip(*(torch.tensor(a) for a in batch(step).values()), strict=True):
            a, b = params
            for _ in range(INNER):
                da, db = torch.autograd.grad(theirs(a, b, x, y), [a, b], create_graph=True)
                a, b = a - RATE * da, b - RATE * db
            total = total + theirs(a, b, x2, y2) / TASKS
        total.backward()
        optimizer.step()
        assert record is not None
        np.testing.assert_allclose(record.metrics["loss"], total.item(), 1e-10)
    for name, p in zip("wv", params, strict=True):
        np.testing.assert_allclose(trainer.values[name], p.detach().numpy(), 1e-9)
