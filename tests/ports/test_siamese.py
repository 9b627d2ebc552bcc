"""A Siamese network with shared batch norm (Hadsell et al. 2006) trains as torch's does."""

from __future__ import annotations

import numpy as np
import pytest

import gradwright as gw

FEATURES, HIDDEN, EMBEDDING, BATCH, STEPS = 6, 12, 3, 12, 20
RATE, DECAY, MARGIN = 0.02, 0.1, 2.0

rng = np.random.default_rng(0)
CLASSES = rng.integers(0, 3, (2, STEPS, BATCH))
CENTRES = rng.standard_normal((3, FEATURES)) * 2
ONES, TWOS = (CENTRES[CLASSES] + rng.standard_normal((2, STEPS, BATCH, FEATURES))).astype("float32")
DIFFERENT = (CLASSES[0] != CLASSES[1]).astype("float32")  # 1 where a pair is of two classes


def published():
    """Return the network as a torch module, and its loss."""
    torch = pytest.importorskip("torch", reason="pip install -e '.[oracle]'")
    from torch import nn
    from torch.nn import functional

    class Siamese(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1 = nn.Linear(FEATURES, HIDDEN, bias=False)
            self.bn1 = nn.BatchNorm1d(HIDDEN)
            self.fc2 = nn.Linear(HIDDEN, HIDDEN, bias=False)
            self.bn2 = nn.BatchNorm1d(HIDDEN)
            self.fc3 = nn.Linear(HIDDEN, EMBEDDING)

        def forward_once(self, x):
            x = functional.relu(self.bn1(self.fc1(x)))
            x = functional.relu(self.bn2(self.fc2(x)))
            return self.fc3(x)

        def forward(self, one, two):
            return self.forward_once(one), self.forward_once(two)

    def contrastive(one, two, label):
        distance = functional.pairwise_distance(one, two)
        apart = torch.clamp(MARGIN - distance, min=0.0)
        return torch.mean((1 - label) * torch.pow(distance, 2) + label * torch.pow(apart, 2))

    torch.manual_seed(0)
    return Siamese(), contrastive, torch


def ported() -> tuple[gw.Graph, gw.Tensor, gw.Tensor]:
    g = gw.Graph("siamese")
    one, two = (g.placeholder(name, (None, FEATURES)) for name in ("one", "two"))
    label = g.placeholder("label", (None,))
    start = gw.init.fan_in_uniform(seed=0)
    layers = {
        "fc1": [g.variable("fc1/weight", (FEATURES, HIDDEN), init=start)],
        "fc2": [g.variable("fc2/weight", (HIDDEN, HIDDEN), init=start)],
        "fc3": [g.variable("fc3/weight", (HIDDEN, EMBEDDING), init=start)],
    }
    layers["fc3"].append(g.variable("fc3/bias", (EMBEDDING,)))
    for name in ("bn1", "bn2"):
        start = {"weight": 1.0, "bias": 0.0, "running_mean": 0.0, "running_var": 1.0}
        layers[name] = [g.variable(f"{name}/{k}", (HIDDEN,), init=v) for k, v in start.items()]

    def once(x: gw.Tensor) -> gw.Tensor:
        x = gw.nn.relu(gw.nn.batch_norm(gw.nn.linear(x, *layers["fc1"]), *layers["bn1"]))
        x = gw.nn.relu(gw.nn.batch_norm(gw.nn.linear(x, *layers["fc2"]), *layers["bn2"]))
        return gw.nn.linear(x, *layers["fc3"])

    distance = gw.norm(once(one) - once(two) + 1e-6, axis=-1, name="distance")
    apart = gw.clip(MARGIN - distance, min=0.0)
    loss = gw.mean((1 - label) * distance**2 + label * apart**2, name="loss")
    return g, loss, distance


def test_adamw_with_two_groups_and_shared_running_statistics_goes_the_same_way() -> None:
    theirs, contrastive, torch = published()
    g, loss, distance = ported()
    named = {n.replace(".", "/"): p for n, p in theirs.state_dict().items() if "num_" not in n}
    for name, p in named.items():
        g.values[name] = p.numpy().T.copy()
    whole = [p for p in theirs.parameters() if p.ndim == 2]
    rest = [p for p in theirs.parameters() if p.ndim == 1]
    groups = [{"params": whole, "weight_decay": DECAY}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=RATE)
    vectors = [v.name for v in g.trainable if len(v.shape) == 1]
    trainer = gw.Trainer(
        g,
        loss,
        gw.optim.AdamW(RATE, weight_decay=DECAY),
        groups=[gw.Group(vectors, weight_decay=0.0)],
    )
    wanted, found = [], []
    for one, two, label in zip(ONES, TWOS, DIFFERENT, strict=True):
        optimizer.zero_grad()
        value = contrastive(*theirs(torch.tensor(one), torch.tensor(two)), torch.tensor(label))
        value.backward()
        optimizer.step()
        wanted.append(value.item())
        found.append(trainer.step({"one": one, "two": two, "label": label}).metrics["loss"])
    np.testing.assert_allclose(found, wanted, 1e-4)
    assert found[-1] < 0.5 * found[0]
    for name, p in theirs.state_dict().items():
        if "num_" not in name:
            mine = g.values[name.replace(".", "/")].T
            np.testing.assert_allclose(mine, p.numpy(), 1e-3, 1e-4, err_msg=name)
    theirs.eval()
    pair = [torch.tensor(a[0]) for a in (ONES, TWOS)]
    apart = torch.nn.functional.pairwise_distance(*theirs(*pair)).detach().numpy()
    mine = g.output({"one": ONES[0], "two": TWOS[0]}, distance)["distance"]
    np.testing.assert_allclose(mine, apart, 1e-3)
