"""A CRNN (Shi et al. 2015) as in Keras's captcha example, its layers in torch."""

from collections.abc import Iterator

import numpy as np
import pytest

import gradwright as gw

torch = pytest.importorskip("torch")

B, WIDE, HIGH, FILTERS, DENSE, UNITS, SYMBOLS, LABELS, STEPS = 4, 20, 8, (3, 4), 8, 5, 6, 2, 20
RNG = np.random.default_rng(0)


def glorot(*shape: int) -> np.ndarray:
    fan = shape[-1] + shape[-2]
    return RNG.uniform(-1, 1, shape) * (6 / (fan * np.prod(shape[:-2]))) ** 0.5


def start() -> Iterator[tuple[str, np.ndarray]]:
    """The layers' weights as Keras makes and shapes them; gates in the order i, f, c, o."""
    for name, (n, m) in {"conv1": (1, FILTERS[0]), "conv2": FILTERS}.items():
        yield f"{name}/kernel", RNG.normal(0, (2 / (9 * n)) ** 0.5, (3, 3, n, m))
        yield f"{name}/bias", np.zeros(m)
    wide = HIGH // 4 * FILTERS[1]
    for name, n, m in (("dense1", wide, DENSE), ("dense2", 2 * UNITS, SYMBOLS + 1)):
        yield f"{name}/kernel", glorot(n, m)
        yield f"{name}/bias", np.zeros(m)
    for way in ("forward", "backward"):
        yield f"{way}/kernel", glorot(DENSE, 4 * UNITS)
        yield f"{way}/recurrent_kernel", np.linalg.qr(RNG.normal(size=(4 * UNITS, UNITS)))[0].T
        yield f"{way}/bias", np.repeat([0.0, 1.0, 0.0, 0.0], UNITS)  # unit_forget_bias


START = dict(start())
IMAGES = RNG.uniform(size=(B, WIDE, HIGH, 1))
TEXTS, LENGTHS = RNG.integers(0, SYMBOLS, (B, LABELS)), np.array([2, 1, 2, 2])


def reference(p: dict[str, torch.Tensor]) -> torch.Tensor:
    nn = torch.nn.functional

    def lstm(x: torch.Tensor, way: str) -> torch.Tensor:
        h = c = x.new_zeros(B, UNITS)
        found = []
        for step in x.unbind(1):
            z = step @ p[f"{way}/kernel"] + h @ p[f"{way}/recurrent_kernel"] + p[f"{way}/bias"]
            i, f, new, o = z.chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(new)
            h = torch.sigmoid(o) * torch.tanh(c)
            found.append(h)
        return torch.stack(found, 1)

    x = torch.tensor(IMAGES).permute(0, 3, 1, 2)
    for name in ("conv1", "conv2"):
        w = p[f"{name}/kernel"].permute(3, 2, 0, 1)
        x = nn.max_pool2d(torch.relu(nn.conv2d(x, w, p[f"{name}/bias"], padding="same")), 2)
    x = x.permute(0, 2, 3, 1).reshape(B, WIDE // 4, -1)
    x = torch.relu(x @ p["dense1/kernel"] + p["dense1/bias"])
    x = torch.cat([lstm(x, "forward"), lstm(x.flip(1), "backward").flip(1)], 2)
    y = torch.softmax(x @ p["dense2/kernel"] + p["dense2/bias"], 2)
    logs = torch.log_softmax(torch.log(y + 1e-7), 2).swapaxes(0, 1)  # ctc_batch_cost
    times = torch.full((B,), WIDE // 4)
    texts, lengths = torch.tensor(TEXTS), torch.tensor(LENGTHS)
    return nn.ctc_loss(logs, texts, times, lengths, blank=SYMBOLS, reduction="none").mean()


def port() -> tuple[gw.Graph, gw.Tensor]:
    g = gw.Graph("crnn")
    p = {name: g.variable(name, init=value) for name, value in START.items()}
    x = g.placeholder("image", (None, WIDE, HIGH, 1), dtype="float64")
    texts = g.placeholder("text", (None, LABELS), dtype="int64")
    lengths = g.placeholder("length", (None,), dtype="int64")

    x = x.transpose(0, 3, 1, 2)
    for name in ("conv1", "conv2"):
        w = p[f"{name}/kernel"].transpose(3, 2, 0, 1)
        x = gw.nn.relu(gw.cnn.conv2d(x, w, p[f"{name}/bias"], padding="same"))
        x = gw.cnn.max_pool2d(x, 2)
    x = x.transpose(0, 2, 3, 1).reshape(-1, WIDE // 4, HIGH // 4 * FILTERS[1])
    x = gw.nn.relu(x @ p["dense1/kernel"] + p["dense1/bias"])

    def gates(name: str) -> gw.Tensor:
        """Both ways' weights, [.., 4 units] of i, f, c, o, as [2, 4 units, ..] of i, o, f, c."""
        both = gw.stack([p["forward/" + name], p["backward/" + name]])
        i, f, c, o = gw.split(both, 4, axis=-1)
        found = gw.concat(i, o, f, c, axis=-1)
        return found.swapaxes(1, 2) if found.rank == 3 else found

    bias = gates("bias")
    bias = gw.concat(bias, gw.zeros_like(bias), axis=1)  # Keras has one, this lstm the sum of two
    w, r = gates("kernel"), gates("recurrent_kernel")
    x, _, _ = gw.rnn.lstm(x, w, r, bias, direction="bidirectional", layout=1)
    y = gw.nn.softmax(x.reshape(-1, WIDE // 4, 2 * UNITS) @ p["dense2/kernel"] + p["dense2/bias"])
    loss = gw.loss.ctc(texts, gw.log(y + 1e-7), label_lengths=lengths, blank=SYMBOLS)
    return g, loss


def test_twenty_steps_of_rmsprop_are_those_of_keras() -> None:
    g, loss = port()
    trainer = gw.Trainer(
        g, loss, optimizer=gw.optim.RMSProp(1e-3, rho=0.9, momentum=0.9, eps=1e-7, eps_inside=True)
    )
    p = {k: torch.tensor(v, requires_grad=True) for k, v in START.items()}
    square, speed = ({k: torch.zeros_like(v) for k, v in p.items()} for _ in range(2))
    for step in range(STEPS):
        ours = trainer.step({"image": IMAGES, "text": TEXTS, "length": LENGTHS}).metrics["loss"]
        wanted = reference(p)
        grads = torch.autograd.grad(wanted, list(p.values()))
        with torch.no_grad():
            for (name, w), grad in zip(p.items(), grads, strict=True):
                square[name] = 0.9 * square[name] + 0.1 * grad**2
                speed[name] = 0.9 * speed[name] + 1e-3 * grad / torch.sqrt(square[name] + 1e-7)
                w -= speed[name]
        np.testing.assert_allclose(ours, wanted.item(), rtol=1e-10, err_msg=f"step {step}")
    for name, w in p.items():
        np.testing.assert_allclose(g.values[name], w.detach(), 1e-8, 1e-10, err_msg=name)
