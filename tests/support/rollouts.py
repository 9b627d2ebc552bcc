"""A training by rewards that is small enough to watch: sums of digits, and what panels ask of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

import gradwright as gw
from gradwright.align import Experience, Prompt, Rollout, Scores
from gradwright.models import CharTokenizer, Decoder, DecoderConfig, Temperature
from tests.support.panels import EVIL

GROUP, WIDTH = 4, 12
TOKENIZER = CharTokenizer(" +0123456789=<>")
EOS = TOKENIZER.encode(" ")[0]


def sums(n: int = 6) -> list[Prompt]:
    """Return prompts such as ``3+4=``, with their answers."""
    rows = [(k % 5 + 1, k * 3 % 7) for k in range(n)]
    return [
        Prompt(TOKENIZER.encode(f"{a}+{b}="), f"{a}+{b}=", {"answer": str(a + b)}) for a, b in rows
    ]


def exact(prompts: Any, completions: Any, *, answer: Any, **_: Any) -> list[float]:
    """Return 1 where a completion is the answer."""
    return [float(text.strip() == right) for text, right in zip(completions, answer, strict=True)]


def digits(prompts: Any, completions: Any, **_: Any) -> list[float]:
    """Return the share of digits."""
    return [sum(c.isdigit() for c in text) / max(len(text), 1) for text in completions]


class Drawing:
    """An objective as panels know it: it draws every other step, and is trained on what it drew."""

    def __init__(self, model: Decoder | None = None, prompts: list[Prompt] | None = None) -> None:
        config = DecoderConfig(
            vocabulary=len(TOKENIZER), width=16, layers=1, heads=2, context=WIDTH + 8
        )
        self.model = model or Decoder(config, name="sums", tokenizer=TOKENIZER, eos=EOS, seed=3)
        self.prompts = prompts or sums()
        self.rewards: list[Any] = [exact, digits]
        self.weights = [1.0, 0.5]
        self.watchers: list[Any] = []
        self.experience: Experience | None = None
        self.graph = g = self.model.graph
        head = self.model.head
        with g, g.scope("grpo"):
            self.advantages = g.placeholder("advantages", ("B",))
            self.old = g.placeholder("old", ("B", "L"))
            said = gw.align.token_log_probs(
                head.states, head.weight, self.model.ids, self.model.labels != -100
            )
            mask = gw.cast(said.mask, "float32")
            loss = gw.align.grpo(said.log_probs, mask, self.advantages, self.old, loss_type="bnpo")
            self.losses = {"loss": gw.identity(loss.value, name="policy_loss")}
        self.said, self.metrics = said, loss.metrics
        self.session = gw.Session(g, deterministic=True)
        self.drawn = 0

    def draw(self, step: int = 0) -> Experience:
        """Draw a rollout by the policy as it stands, judge it, and tell the watchers."""
        columns = [p.tokens for p in self.prompts for _ in range(GROUP)]
        rows = self.model.generate(columns, WIDTH - 4, sampling=Temperature(1.5), seed=self.drawn)
        rollout = Rollout(
            self.prompts, GROUP, [row.tokens for row in rows], [row.text for row in rows],
            [row.reason for row in rows], list(range(len(rows))), 0.02,
        )  # fmt: skip
        told = [p.text for p in self.prompts for _ in range(GROUP)]
        each = [reward(told, rollout.texts, **rollout.columns()) for reward in self.rewards]
        table = np.array(each, np.float64).T
        names = tuple(getattr(reward, "__name__", "reward") for reward in self.rewards)
        scores = Scores(names, table, table @ np.array(self.weights))
        groups = scores.total.reshape(-1, GROUP)
        centred = groups - groups.mean(axis=1, keepdims=True)
        advantage = centred / (groups.std(axis=1, keepdims=True) + 1e-4)
        fed = rollout.arrays()
        log_probs, entropy = self.session.run(
            [self.said.log_probs, self.said.entropy], {self.model.ids: fed["ids"],
             self.model.labels: fed["labels"]},
        )  # fmt: skip
        noise = np.random.default_rng(self.drawn).normal(0, 0.3, log_probs.shape)
        self.experience = Experience(
            self.drawn, step, rollout, scores, fed["ids"], fed["labels"],
            advantage.ravel().astype("f"), log_probs, entropy,
            (log_probs + noise * (log_probs != 0)).astype("f"),
        )  # fmt: skip
        self.drawn += 1
        for watcher in list(self.watchers):
            watcher(self.experience)
        return self.experience

    def ratios(self) -> Any:
        """Return exp(log π now − log π as it drew)."""
        seen = self.experience
        fed = {self.model.ids: seen.ids, self.model.labels: seen.labels}
        return np.exp(self.session.run(self.said.log_probs, fed) - seen.log_probs)

    def alarms(self) -> list[Any]:
        """Say what goes wrong, in words that could be HTML."""
        return [
            SimpleNamespace(name="alike", text=f"{EVIL}: rewards of half of the groups are alike.")
        ]

    def batches(self, data: Any, at: Any, **_: Any) -> Any:
        """Return as many batches as asked for, each made when its turn comes."""
        return _Turns(self, int(data))

    def feeds(self, batch: Any) -> dict[Any, Any]:
        """Return what a step is fed with."""
        if batch % 2 == 0 or self.experience is None:
            self.draw(batch)
        seen = self.experience
        return {
            self.model.ids: seen.ids, self.model.labels: seen.labels,
            self.advantages: seen.advantages, self.old: seen.log_probs,
        }  # fmt: skip


class _Turns:
    seconds = 0.0

    def __init__(self, drawing: Drawing, n: int) -> None:
        self._drawing, self.n_batches = drawing, n

    def epoch(self, number: int, skip: int = 0) -> Any:
        for k in range(skip, self.n_batches):
            yield self._drawing.feeds(k), GROUP

    def signature(self) -> list[int]:
        return [self.n_batches]

    def origin(self, epoch: int, batch: int, row: int) -> str:
        return f"row {row}"

    def row_numbers(self, epoch: int) -> None:
        return None
