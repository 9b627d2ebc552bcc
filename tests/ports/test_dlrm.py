"""DLRM (Naumov et al. 2019, arXiv:1906.00091) against facebookresearch/dlrm, as torch modules."""

import itertools

import numpy as np
import pytest

import gradwright as gw

torch = pytest.importorskip("torch")

B, DENSE, DIM, STEPS = 8, 5, 4, 20
ROWS, HOT = (11, 7, 13), (3, 1, 4)  # sizes of the tables, most ids in a bag
BOTTOM, TOP = (DENSE, 8, DIM), (DIM + 6, 8, 1)


def tower(sizes: tuple[int, ...], last: torch.nn.Module) -> torch.nn.Sequential:
    layers: list[torch.nn.Module] = []
    for n, m in itertools.pairwise(sizes):
        layers += [torch.nn.Linear(n, m), torch.nn.ReLU()]
        torch.nn.init.normal_(layers[-2].weight, 0.0, (2 / (m + n)) ** 0.5)
        torch.nn.init.normal_(layers[-2].bias, 0.0, (1 / m) ** 0.5)
    return torch.nn.Sequential(*layers[:-1], last)


class DLRM(torch.nn.Module):
    """Bags of embeddings and a bottom tower, all dot products between them, a top tower."""

    def __init__(self) -> None:
        super().__init__()
        self.bot_l, self.top_l = tower(BOTTOM, torch.nn.ReLU()), tower(TOP, torch.nn.Sigmoid())
        self.emb_l = torch.nn.ModuleList(torch.nn.EmbeddingBag(n, DIM, mode="sum") for n in ROWS)
        for n, table in zip(ROWS, self.emb_l, strict=True):
            torch.nn.init.uniform_(table.weight, -((1 / n) ** 0.5), (1 / n) ** 0.5)

    def forward(self, dense: torch.Tensor, bags: list[list[np.ndarray]]) -> torch.Tensor:
        x = self.bot_l(dense)
        parts = [x]
        for table, bag in zip(self.emb_l, bags, strict=True):
            offsets = np.cumsum([0] + [len(ids) for ids in bag[:-1]])
            parts.append(table(torch.tensor(np.concatenate(bag)), torch.tensor(offsets)))
        t = torch.stack(parts, 1)
        z = torch.bmm(t, t.transpose(1, 2))
        i, j = torch.tril_indices(len(parts), len(parts), offset=-1)
        return self.top_l(torch.cat([x, z[:, i, j]], 1))


def port() -> tuple[gw.Graph, gw.Tensor]:
    g = gw.Graph("dlrm")
    dense, t = g.placeholder("dense", (None, DENSE)), g.placeholder("t", (None, 1))

    def mlp(name: str, x: gw.Tensor, sizes: tuple[int, ...]) -> gw.Tensor:
        for k, (n, m) in enumerate(itertools.pairwise(sizes)):
            x = gw.nn.relu(x) if k else x
            w = g.variable(f"{name}.{2 * k}.weight", (n, m))
            x = gw.nn.linear(x, w, g.variable(f"{name}.{2 * k}.bias", (m,)))
        return x

    x = gw.nn.relu(mlp("bot_l", dense, BOTTOM))
    parts = [x]
    for k, (n, hot) in enumerate(zip(ROWS, HOT, strict=True)):
        ids = g.placeholder(f"ids{k}", (None, hot), dtype="int64")
        table = g.variable(f"emb_l.{k}.weight", (n, DIM))
        counts = g.placeholder(f"counts{k}", (None, hot))  # 0 where a bag is filled up
        parts.append(gw.nn.embedding_bag(ids, table, counts))
    features = gw.stack(parts, axis=1)
    z = gw.matmul(features, features.swapaxes(1, 2))
    i, j = np.tril_indices(len(parts), -1)
    p = gw.nn.sigmoid(mlp("top_l", gw.concat(x, z[:, i, j], axis=1), TOP))
    return g, gw.loss.log_loss(t, p)


def as_ours(name: str, value: torch.Tensor) -> torch.Tensor:
    """Turn the weight of a linear layer from [out, in] to [in, out]."""
    return value.mT if "_l." in name and value.ndim == 2 and name[:3] != "emb" else value


def test_twenty_steps_of_nesterov_are_those_of_torch() -> None:
    rng, _ = np.random.default_rng(0), torch.manual_seed(0)
    g, loss = port()
    theirs = DLRM()
    for name, value in theirs.state_dict().items():
        g.values[name] = as_ours(name, value)
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.1, momentum=0.9, nesterov=True))
    optimizer = torch.optim.SGD(theirs.parameters(), 0.1, momentum=0.9, nesterov=True)
    for step in range(STEPS):
        dense = rng.normal(size=(B, DENSE)).astype("float32")
        t = rng.integers(0, 2, (B, 1)).astype("float32")
        bags = [
            [rng.integers(0, n, rng.integers(0, hot + 1)) for _ in range(B)]
            for n, hot in zip(ROWS, HOT, strict=True)
        ]
        batch = {"dense": dense, "t": t}
        for k, hot in enumerate(HOT):
            batch[f"ids{k}"] = np.stack([np.resize(np.append(b, 0), hot) for b in bags[k]])
            batch[f"counts{k}"] = np.stack([np.arange(hot) < len(b) for b in bags[k]])
        ours = trainer.step(batch).metrics["loss"]
        p = theirs(torch.tensor(dense), bags)
        wanted = torch.nn.functional.binary_cross_entropy(p, torch.tensor(t))
        optimizer.zero_grad()
        wanted.backward()
        optimizer.step()
        np.testing.assert_allclose(ours, wanted.item(), rtol=2e-5, err_msg=f"step {step}")
    for name, value in theirs.state_dict().items():
        np.testing.assert_allclose(g.values[name], as_ours(name, value), 1e-4, 2e-5, err_msg=name)
