"""Eleven kinds of training that may be killed at any moment, and what each has come to, as bits."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import gradwright as gw
from gradwright.train.checkpoints import Checkpoints, resume

ROWS, BATCH = 100, 12  # 9 batches, the last of 4: 5 steps of two batches or one
WIDE = 200_000
"""Elements of the variable that makes writing take its time: 4 MB with state and averages."""
Place = tuple[int, int]
"""Steps and epochs that are done."""


class Kind:
    """A training that goes on from its folder, and tells where it is after each step.

    ``look`` is called between steps, with the place and a digest of everything but the clock.
    """

    def __init__(self, folder: Path, look: Callable[[Place, str], None]) -> None:
        self.folder, self._look = folder, look

    def run(self, epochs: int) -> None:
        """Resume, and train what is left of ``epochs``."""
        trainer = self.trainer(_Looks(self.look))
        resume(trainer, self.folder, missing_ok=True)
        self.look(trainer)
        self.fit(trainer, epochs - trainer.epochs_done)

    def trainer(self, looks: gw.Callback) -> gw.Trainer:
        """Return the trainer as it begins."""
        raise NotImplementedError

    def fit(self, trainer: gw.Trainer, epochs: int) -> None:
        """Train so many epochs."""
        held_out = rows(30, 1)
        trainer.fit(
            rows(ROWS, 0), epochs=epochs, batch_size=BATCH, validation=held_out, progress=False
        )

    def look(self, *trainers: gw.Trainer) -> None:
        """Tell where the training is."""
        if at := trainers[0].steps_done:
            self._look((at, trainers[0].epochs_done), bits(*trainers))


class _Looks(gw.Callback):
    def __init__(self, look: Callable[[gw.Trainer], None]) -> None:
        self._look = look

    def on_step_end(self, trainer: Any, record: Any) -> None:
        self._look(trainer)

    def on_epoch_end(self, trainer: Any, record: Any) -> None:
        self._look(trainer)


def rows(n: int, seed: int) -> dict[str, Any]:
    """Return data."""
    x = np.random.default_rng(seed).standard_normal((n, 8)).astype("float32")
    return {"x": x, "t": np.sin(x.sum(1)).astype("float32")}


def bits(*trainers: gw.Trainer) -> str:
    """Return a digest of everything that a step may change, but the clock."""
    found = hashlib.blake2b(digest_size=16)
    for trainer in trainers:
        state = {k: v for k, v in trainer.state_dict().items() if not k.endswith("/seconds")}
        values = {t.name: trainer.values[t.name] for t in trainer.graph.variables}
        for name, array in sorted({**state, **values}.items()):
            array = np.asarray(array)
            found.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return found.hexdigest()


def network(rate: float = 0.3, wide: int = 0) -> tuple[gw.Graph, Any, Any]:
    """Return a graph with dropout and running means, its loss, and its error."""
    g = gw.Graph("killed")
    x, t = g.placeholder("x", (None, 8)), g.placeholder("t", (None,))
    hidden = gw.nn.dropout(gw.tanh(x @ g.variable("w", (8, 16))), rate)
    mean = g.variable("mean", (16,), trainable=False)
    g.update(mean, mean * 0.9 + gw.mean(hidden, axis=0) * 0.1)
    y = (hidden - mean) @ g.variable("v", (16,), init=gw.init.normal(seed=4))
    loss = gw.mean((y - t) ** 2.0)
    if wide:
        held = g.variable("wide", (wide,), init=np.linspace(-1, 1, wide))
        loss = loss + gw.mean(held * held)
    return g, loss, gw.mean(gw.abs(y - t))


def trained(
    net: tuple[gw.Graph, Any, Any],
    optimizer: gw.optim.Optimizer,
    *callbacks: gw.Callback,
    **more: Any,
) -> gw.Trainer:
    """Return a trainer in a deterministic session."""
    g, loss, error = net
    session = gw.Session(g, deterministic=True, seed=3)
    metrics = {"error": error}
    return gw.Trainer(
        g, loss, optimizer, metrics=metrics, seed=3, session=session, callbacks=callbacks, **more
    )


class Everything(Kind):
    """Accumulation, a schedule, averaged weights that are validated, the best of all kept."""

    def trainer(self, looks: gw.Callback) -> gw.Trainer:
        """Return a trainer with all that a resume could get wrong."""
        return trained(
            network(wide=WIDE),
            gw.optim.Adam(gw.schedules.Cosine(0.01, 400)),
            Checkpoints(self.folder, every_steps=1, keep_last=3, keep_best=1),
            gw.EarlyStopping("val_loss", patience=1000),
            looks,
            clip_norm=1.0,
            accumulation=2,
            ema=gw.EMA(0.9),
            validate_with="ema",
        )


class Tokens(Kind):
    """Windows of batches that weigh by their tokens, with SWA, groups and a frozen variable."""

    def trainer(self, looks: gw.Callback) -> gw.Trainer:
        """Return a trainer whose checkpoints lie in the midst of windows."""
        net = network()
        net[0]["v"].trainable = False
        tokens = gw.sum(gw.ones_like(net[0]["t"]), name="tokens")
        return trained(
            net,
            gw.optim.SGD(gw.schedules.Exponential(0.05, 0.99), momentum=0.9, nesterov=True),
            Checkpoints(self.folder, every_steps=1, keep_last=2),
            looks,
            accumulation=gw.train.Accumulation(4, by="token", tokens=tokens),
            swa=gw.SWA(start=3),
            groups=[gw.Group("w", l2=0.01)],
        )


class Half(Kind):
    """Products in float16, a loss scale that moves, steps that are skipped."""

    def trainer(self, looks: gw.Callback) -> gw.Trainer:
        """Return a trainer whose scale falls and grows."""
        return trained(
            network(),
            gw.optim.AdamW(gw.schedules.Linear(0.01, 300)),
            Checkpoints(self.folder, every_steps=1, keep_last=2),
            looks,
            precision="float16",
            loss_scale=gw.LossScale("dynamic", 2.0**20, interval=5),
        )


class Buckets(Kind):
    """Sequences in buckets, padded, and read ahead by a thread."""

    def trainer(self, looks: gw.Callback) -> gw.Trainer:
        """Return a trainer of sums of sequences."""
        g = gw.Graph("killed")
        ids, mask = (
            g.placeholder("ids", (None, None), "int64"),
            g.placeholder("mask", (None, None), "bool"),
        )
        table = g.variable("table", (20, 4), init=gw.init.normal(seed=5))
        y = gw.sum(gw.gather(table, ids).sum(axis=2) * gw.cast(mask, "float32"), axis=1)
        loss = gw.mean((gw.tanh(y) - 0.5) ** 2.0)
        return trained(
            (g, loss, gw.mean(y)),
            gw.optim.Adam(0.02),
            Checkpoints(self.folder, every_steps=1, keep_last=2),
            looks,
        )

    def fit(self, trainer: gw.Trainer, epochs: int) -> None:
        """Train on sequences."""
        rng = np.random.default_rng(6)
        ids = [rng.integers(0, 20, n).tolist() for n in rng.integers(1, 12, 60)]
        data = gw.data.buckets({"ids": ids}, n=3, batch_size=8, masks={"ids": "mask"}, seed=2)
        trainer.fit(data.prefetch(2), epochs=epochs, progress=False)


class Unrolled(Kind):
    """Four steps as one, which are saved where they have led to."""

    def trainer(self, looks: gw.Callback) -> gw.Trainer:
        """Return a trainer whose steps can be unrolled."""
        return trained(
            network(),
            gw.optim.Adam(gw.schedules.Cosine(0.01, 200, warmup=20)),
            Checkpoints(self.folder, every_steps=2, keep_last=2),
            looks,
            ema=gw.EMA(0.9),
        )

    def fit(self, trainer: gw.Trainer, epochs: int) -> None:
        """Train in groups."""
        data, size = rows(96, 0), BATCH
        trainer.fit(data, epochs=epochs, batch_size=size, unroll=4, progress=False)


class Watched(Kind):
    """Many callbacks with state, and a run beside the checkpoints."""

    def trainer(self, looks: gw.Callback) -> gw.Trainer:
        """Return a trainer with a history of its own in many places."""
        return trained(
            network(),
            gw.optim.Lion(0.003),
            gw.Run(self.folder.with_name(self.folder.name + "-run"), store=None),
            gw.EarlyStopping("val_error", patience=1000, restore_best=True),
            gw.train.UpdateRatio(),
            gw.train.Divergence(),
            Checkpoints(self.folder, every_steps=2, keep_last=1, keep_best=2, monitor="val_error"),
            looks,
        )


class Preempted(Everything):
    """SIGTERM comes first, and SIGKILL while its checkpoint is written."""


class Maml(Kind):
    """Inner steps of three tasks in the graph, and second-order gradients through them."""

    def trainer(self, looks: gw.Callback) -> gw.Trainer:
        """Return a trainer of first weights."""
        g = gw.Graph("killed")
        x, t = g.placeholder("x", (None, 8)), g.placeholder("t", (None,))
        w = g.variable("w", (8,), init=gw.init.normal(std=0.3, seed=7))

        def loss(weights: Any, scale: float) -> Any:
            return gw.mean((gw.tanh(x @ weights) * scale - t) ** 2.0)

        adapted = []
        for scale in (0.5, 1.0, 2.0):
            (slope,) = gw.gradients(loss(w, scale), [w])
            adapted.append(loss(w - slope * 0.1, scale))
        total = adapted[0] + adapted[1] + adapted[2]
        checkpoints = Checkpoints(self.folder, every_steps=1, keep_last=2)
        return trained((g, total, adapted[0]), gw.optim.Adam(0.02), checkpoints, looks)


class OwnLoop(Kind):
    """A loop of steps of the user's own, and batches by the number of the step."""

    def run(self, epochs: int) -> None:
        """Resume, and take eight steps an epoch."""
        trainer = trained(
            network(),
            gw.optim.RMSProp(0.01),
            Checkpoints(self.folder, every_steps=1, keep_last=2),
        )
        resume(trainer, self.folder, missing_ok=True)
        self.look(trainer)
        for number in range(trainer.steps_done, epochs * 8):
            trainer.step(rows(BATCH, number))
            self.look(trainer)


class Gan(Kind):
    """Two trainers of one graph, in turns, each with a folder of its own."""

    def run(self, epochs: int) -> None:
        """Resume both at the last step that both have written, and take eight steps an epoch."""
        g = gw.Graph("killed")
        z, x = g.placeholder("z", (None, 2)), g.placeholder("x", (None, 2))
        with g.scope("generator"):
            w = g.variable("w", (2, 2), init=gw.init.normal(seed=1))
            made = gw.tanh(z @ w)
        with g.scope("critic"):
            v = g.variable("v", (2,), init=gw.init.normal(seed=2))
            real, fake = gw.nn.dropout(x, 0.2) @ v, made @ v
        critic = gw.mean(gw.nn.softplus(-real)) + gw.mean(gw.nn.softplus(fake))
        generator = gw.mean(gw.nn.softplus(-fake))
        folders = [self.folder / "critic", self.folder / "generator"]
        both = []
        for folder, loss, of in zip(
            folders, (critic, generator), ("critic/*", "generator/*"), strict=True
        ):
            both.append(
                gw.Trainer(
                    g,
                    loss,
                    gw.optim.Adam(0.01),
                    parameters=of,
                    session=gw.Session(g, deterministic=True, seed=3),
                    callbacks=[Checkpoints(folder, every_steps=1, keep_last=3)],
                )
            )
        written = [{c.step for c in Checkpoints(folder).list()} for folder in folders]
        last = max(written[0] & written[1], default=0)
        for trainer, folder in zip(both, folders, strict=True):
            if last:  # the generator's is the later one, and has the values of both
                resume(trainer, folder, last)
            else:
                shutil.rmtree(folder, ignore_errors=True)
        self.look(*both)
        for number in range(last, epochs * 8):
            rng = np.random.default_rng(number)
            batch = {"z": rng.standard_normal((6, 2)), "x": rng.standard_normal((6, 2)) + 1}
            both[0].step({k: a.astype("float32") for k, a in batch.items()})
            both[1].step({"z": batch["z"].astype("float32")})
            self.look(*both)


class Sampled(Kind):
    """GRPO: it may end in a rollout, while a reward runs, or between the steps on it."""

    def trainer(self, looks: gw.Callback) -> gw.Trainer:
        """Return a trainer of a policy that is paid for ends, by a reward that takes its time."""

        def ends(completion_ids: Any) -> list[float]:
            time.sleep(0.004)
            return [float(row[-1] == 0) for row in completion_ids]

        config = gw.models.DecoderConfig(vocabulary=6, width=8, layers=1, heads=2)
        how = {"max_completion_length": 4, "num_iterations": 2, "steps_per_generation": 2}
        return gw.align.trainer(
            gw.models.Decoder(config, name="killed", eos=0, seed=3),
            gw.align.GRPO(num_generations=4, beta=0.1, **how),
            rewards=ends,
            optimizer=gw.optim.Adam(gw.schedules.Cosine(0.01, 200)),
            callbacks=[Checkpoints(self.folder, every_steps=1, keep_last=2), looks],
            deterministic=True,
        )

    def fit(self, trainer: gw.Trainer, epochs: int) -> None:
        """Train on prompts."""
        prompts = [gw.align.Prompt([1 + i % 5, 1 + i // 5]) for i in range(8)]
        trainer.fit(prompts, epochs=epochs, batch_size=8, progress=False)


KINDS: Mapping[str, type[Kind]] = {
    "everything": Everything,
    "tokens": Tokens,
    "half": Half,
    "buckets": Buckets,
    "unrolled": Unrolled,
    "watched": Watched,
    "preempted": Preempted,
    "maml": Maml,
    "own-loop": OwnLoop,
    "gan": Gan,
    "sampled": Sampled,
}


def half_written(folder: Path) -> set[Path]:
    """Return what writes have begun, and not ended."""
    return set(folder.rglob(".checkpoint-*.tmp"))
