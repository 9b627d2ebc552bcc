"""Skip-gram with negative sampling (Mikolov et al. 2013), two tables, against torch."""

import numpy as np
import pytest

import gradwright as gw

torch = pytest.importorskip("torch")

WORDS, DIM, B, NEGATIVES, STEPS = 15, 8, 16, 4, 20
RNG = np.random.default_rng(0)
CENTRE, CONTEXT = RNG.integers(0, WORDS, (2, STEPS, B))
NOISE = RNG.integers(0, WORDS, (STEPS, B, NEGATIVES))


class SkipGram(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.u = torch.nn.Embedding(WORDS, DIM)
        self.v = torch.nn.Embedding(WORDS, DIM)
        torch.nn.init.uniform_(self.u.weight, -0.5 / DIM, 0.5 / DIM)
        torch.nn.init.zeros_(self.v.weight)

    def forward(self, centre: torch.Tensor, context: torch.Tensor, noise: torch.Tensor):
        u, v, n = self.u(centre), self.v(context), self.v(noise)
        score = torch.nn.functional.logsigmoid((u * v).sum(1))
        against = torch.nn.functional.logsigmoid(-torch.bmm(n, u.unsqueeze(2)).squeeze(2))
        return -(score + against.sum(1)).mean()


def port(u: np.ndarray, v: np.ndarray) -> tuple[gw.Graph, gw.Tensor]:
    g = gw.Graph("skip_gram")
    centre = g.placeholder("centre", (None,), dtype="int64")
    context = g.placeholder("context", (centre.shape[0],), dtype="int64")
    noise = g.placeholder("noise", (centre.shape[0], NEGATIVES), dtype="int64")
    tables = g.variable("u.weight", init=u), g.variable("v.weight", init=v)
    u, v = gw.nn.embedding(centre, tables[0]), gw.nn.embedding(context, tables[1])
    n = gw.nn.embedding(noise, tables[1])
    score = gw.nn.log_sigmoid((u * v).sum(1))
    against = gw.nn.log_sigmoid(-gw.matmul(n, u.expand_dims(2)).squeeze(2))
    return g, -(score + against.sum(1)).mean()


def test_twenty_steps_of_adagrad_with_a_falling_rate_are_those_of_torch() -> None:
    torch.manual_seed(0)
    theirs = SkipGram()
    g, loss = port(*(w.detach().numpy() for w in theirs.parameters()))
    rate = gw.schedules.Inverse(0.5, 0.05)
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.AdaGrad(rate, eps=1e-10, initial=0.1))
    optimizer = torch.optim.Adagrad(
        theirs.parameters(), lr=0.5, lr_decay=0.05, initial_accumulator_value=0.1
    )
    for step in range(STEPS):
        batch = {"centre": CENTRE[step], "context": CONTEXT[step], "noise": NOISE[step]}
        ours = trainer.step(batch).metrics["loss"]
        wanted = theirs(*map(torch.tensor, batch.values()))
        optimizer.zero_grad()
        wanted.backward()
        optimizer.step()
        np.testing.assert_allclose(ours, wanted.item(), rtol=5e-6, err_msg=f"step {step}")
    for name, value in theirs.state_dict().items():
        np.testing.assert_allclose(g.values[name], value, 1e-5, 2e-6, err_msg=name)
