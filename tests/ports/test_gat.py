"""A graph attention network (Veličković et al. 2018), as in pyGAT, trains as torch's does."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw

NODES, FEATURES, HIDDEN, HEADS, CLASSES, SLOPE = 12, 6, 4, 3, 3, 0.2
RATE, DECAY, STEPS = 0.1, 5e-4, 20

rng = np.random.default_rng(0)
NEAR = np.eye(NODES) + (rng.random((NODES, NODES)) < 0.25)
ADJACENCY = ((NEAR + NEAR.T) > 0).astype("float32")
INPUTS = rng.standard_normal((NODES, FEATURES)).astype("float32")
LABELS = rng.integers(0, CLASSES, NODES)
TRAINED = np.array([0, 2, 3, 5, 8, 9])  # transductive: the loss sees these nodes alone


def published():
    """Return the model as a torch module."""
    torch = pytest.importorskip("torch", reason="pip install -e '.[oracle]'")
    from torch import nn
    from torch.nn import functional

    class Attention(nn.Module):
        def __init__(self, inputs: int, outputs: int) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.empty(inputs, outputs))
            self.a = nn.Parameter(torch.empty(2 * outputs, 1))
            nn.init.xavier_uniform_(self.w, gain=1.414)
            nn.init.xavier_uniform_(self.a, gain=1.414)

        def forward(self, h, adjacency):
            wh = torch.mm(h, self.w)
            half = self.w.shape[1]
            e = torch.matmul(wh, self.a[:half, :]) + torch.matmul(wh, self.a[half:, :]).T
            e = functional.leaky_relu(e, SLOPE)
            masked = torch.where(adjacency > 0, e, -9e15 * torch.ones_like(e))
            return torch.matmul(functional.softmax(masked, dim=1), wh)

    class GAT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.heads = nn.ModuleList(Attention(FEATURES, HIDDEN) for _ in range(HEADS))
            self.out = Attention(HIDDEN * HEADS, CLASSES)

        def forward(self, x, adjacency):
            x = torch.cat([functional.elu(head(x, adjacency)) for head in self.heads], dim=1)
            return functional.log_softmax(functional.elu(self.out(x, adjacency)), dim=1)

    torch.manual_seed(0)
    return GAT(), torch


def attention(g: gw.Graph, name: str, h: gw.Tensor, adjacency: gw.Tensor, outputs: int):
    """Return what the nodes of a graph say to their neighbours, by one head."""
    start = gw.init.xavier_uniform(gain=1.414, seed=0)
    with g.scope(name):
        w = g.variable("w", (h.shape[1], outputs), init=start)
        a = g.variable("a", (2 * outputs, 1), init=start)
        wh = h @ w
        e = gw.nn.leaky_relu(wh @ a[:outputs, :] + (wh @ a[outputs:, :]).T, SLOPE)
        return gw.nn.softmax(gw.where(adjacency > 0, e, -9e15), axis=1) @ wh


def ported() -> tuple[gw.Graph, gw.Tensor]:
    g = gw.Graph("gat")
    x = g.placeholder("x", (NODES, FEATURES))
    adjacency = g.placeholder("adjacency", (NODES, NODES))
    labels = g.placeholder("labels", (NODES,), "int64")
    trained = g.placeholder("trained", (None,), "int64")
    heads = [attention(g, f"heads/{i}", x, adjacency, HIDDEN) for i in range(HEADS)]
    joined = gw.concat([gw.nn.elu(head) for head in heads], axis=1)
    out = gw.nn.elu(attention(g, "out", joined, adjacency, CLASSES))
    log_p = gw.nn.log_softmax(out, axis=1, name="log_p")
    loss = gw.loss.nll(gw.gather(labels, trained), gw.gather(log_p, trained), name="loss")
    return g, loss


def test_adam_with_an_l2_penalty_goes_the_same_way() -> None:
    theirs, torch = published()
    g, loss = ported()
    for name, p in theirs.named_parameters():
        g.values[name.replace(".", "/")] = p.detach().numpy().copy()
    optimizer = torch.optim.Adam(theirs.parameters(), lr=RATE, weight_decay=DECAY)
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.Adam(RATE), l2=DECAY)
    batch = {"x": INPUTS, "adjacency": ADJACENCY, "labels": LABELS, "trained": TRAINED}
    wanted, found = [], []
    for _ in range(STEPS):
        optimizer.zero_grad()
        log_p = theirs(torch.tensor(INPUTS), torch.tensor(ADJACENCY))
        nll = torch.nn.functional.nll_loss(log_p[TRAINED], torch.tensor(LABELS)[TRAINED])
        nll.backward()
        optimizer.step()
        wanted.append(nll.item())
        found.append(trainer.step(batch).metrics["loss"])
    np.testing.assert_allclose(found, wanted, 2e-5)
    assert found[-1] < 0.7 * found[0]
    for name, p in theirs.named_parameters():
        np.testing.assert_allclose(
            g.values[name.replace(".", "/")], p.detach().numpy(), 1e-3, 2e-5, err_msg=name
        )
