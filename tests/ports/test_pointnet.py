"""PointNet with T-Nets and their regulariser (Qi et al. 2017) trains as torch's does."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw

POINTS, WIDE, CLASSES, BATCH, STEPS = 10, 6, 3, 8, 20
RATE, BETAS, PULL = 5e-3, (0.85, 0.98), 0.05

rng = np.random.default_rng(0)
LABELS = rng.integers(0, CLASSES, (STEPS, BATCH))
STRETCH = np.array([[1.0, 1, 1], [3, 1, 0.3], [0.3, 2, 2]])[LABELS][..., None]
CLOUDS = (rng.standard_normal((STEPS, BATCH, 3, POINTS)) * STRETCH).astype("float32")


def published():
    """Return the network as a torch module, and its regulariser."""
    torch = pytest.importorskip("torch", reason="pip install -e '.[oracle]'")
    from torch import nn
    from torch.nn import functional

    class TNet(nn.Module):
        def __init__(self, k: int) -> None:
            super().__init__()
            self.k = k
            self.conv1, self.conv2 = nn.Conv1d(k, 8, 1), nn.Conv1d(8, 16, 1)
            self.fc1, self.fc2 = nn.Linear(16, 8), nn.Linear(8, k * k)

        def forward(self, x):
            x = functional.relu(self.conv2(functional.relu(self.conv1(x))))
            x = torch.max(x, 2, keepdim=True)[0].view(-1, 16)
            x = self.fc2(functional.relu(self.fc1(x)))
            identity = torch.eye(self.k).view(1, self.k * self.k).repeat(x.shape[0], 1)
            return (x + identity).view(-1, self.k, self.k)

    class PointNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stn, self.fstn = TNet(3), TNet(WIDE)
            self.conv1, self.conv2 = nn.Conv1d(3, WIDE, 1), nn.Conv1d(WIDE, 16, 1, bias=False)
            self.bn = nn.BatchNorm1d(16)
            self.fc = nn.Linear(16, CLASSES)

        def forward(self, x):
            x = torch.bmm(x.transpose(2, 1), self.stn(x)).transpose(2, 1)
            x = functional.relu(self.conv1(x))
            trans = self.fstn(x)
            x = torch.bmm(x.transpose(2, 1), trans).transpose(2, 1)
            x = torch.max(self.bn(self.conv2(x)), 2, keepdim=True)[0].view(-1, 16)
            return functional.log_softmax(self.fc(x), dim=1), trans

    def regularizer(trans):
        identity = torch.eye(trans.shape[1])[None, :, :]
        product = torch.bmm(trans, trans.transpose(2, 1))
        return torch.mean(torch.norm(product - identity, dim=(1, 2)))

    torch.manual_seed(0)
    return PointNet(), regularizer, torch


def ported() -> tuple[gw.Graph, gw.Tensor]:
    g = gw.Graph("pointnet")

    def layer(name, x, outputs, conv=False, bias=True):
        inputs = x.shape[1]
        shape = (outputs, inputs, 1) if conv else (inputs, outputs)
        w = g.variable(f"{name}/weight", shape, init=gw.init.fan_in_uniform(seed=0))
        b = g.variable(f"{name}/bias", (outputs,)) if bias else None
        return gw.cnn.conv1d(x, w, b) if conv else gw.nn.linear(x, w, b)

    def tnet(name, x):
        k = x.shape[1]
        with g.scope(name):
            x = gw.nn.relu(layer("conv1", x, 8, conv=True))
            x = gw.max(gw.nn.relu(layer("conv2", x, 16, conv=True)), axis=2)
            x = layer("fc2", gw.nn.relu(layer("fc1", x, 8)), k * k)
            return (x + np.eye(k, dtype="float32").reshape(1, k * k)).reshape(-1, k, k)

    x = g.placeholder("x", (None, 3, POINTS))
    labels = g.placeholder("labels", (None,), "int64")
    x = gw.matmul(x.swapaxes(2, 1), tnet("stn", x)).swapaxes(2, 1)
    x = gw.nn.relu(layer("conv1", x, WIDE, conv=True))
    trans = tnet("fstn", x)
    x = gw.matmul(x.swapaxes(2, 1), trans).swapaxes(2, 1)
    x = gw.nn.batch_norm(layer("conv2", x, 16, conv=True, bias=False), name="bn")
    logits = layer("fc", gw.max(x, axis=2), CLASSES)
    off = gw.matmul(trans, trans.swapaxes(2, 1)) - np.eye(WIDE, dtype="float32")
    off = gw.mean(gw.norm(off, axis=(1, 2)))
    nll = gw.loss.nll(labels, gw.nn.log_softmax(logits, axis=1))
    return g, gw.identity(nll + PULL * off, name="loss")


def test_adamax_goes_the_same_way() -> None:
    theirs, regularizer, torch = published()
    g, loss = ported()
    for name, p in theirs.named_parameters():
        a = p.detach().numpy()
        g.values[name.replace(".", "/")] = np.array(a.T if a.ndim == 2 else a)
    optimizer = torch.optim.Adamax(theirs.parameters(), lr=RATE, betas=BETAS)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS, RATE / 10)
    rate = gw.schedules.Cosine(RATE, STEPS, floor=RATE / 10)
    trainer = gw.Trainer(g, loss, gw.optim.AdaMax(rate, beta1=BETAS[0], beta2=BETAS[1]))
    wanted, found = [], []
    for x, labels in zip(CLOUDS, LABELS, strict=True):
        optimizer.zero_grad()
        log_p, trans = theirs(torch.tensor(x))
        value = torch.nn.functional.nll_loss(log_p, torch.tensor(labels))
        value = value + PULL * regularizer(trans)
        value.backward()
        optimizer.step()
        schedule.step()
        wanted.append(value.item())
        found.append(trainer.step({"x": x, "labels": labels}).metrics["loss"])
    np.testing.assert_allclose(found, wanted, 1e-4)
    assert found[-1] < 0.8 * found[0]
    for name, p in theirs.state_dict().items():
        if "num_" not in name:
            mine = g.values[name.replace(".", "/")]
            mine = mine.T if mine.ndim == 2 else mine
            np.testing.assert_allclose(mine, p.numpy(), 1e-3, 1e-4, err_msg=name)
