"""The parts of a trainer: an objective of one's own, callbacks that see no more than a training."""

from __future__ import annotations

import re
import weakref
from pathlib import Path

import numpy as np
import pytest

import gradwright as gw
from gradwright.data import batches
from gradwright.errors import FeedError, TrainingError
from gradwright.train import objective as objectives
from gradwright.train import parts
from gradwright.train.config import Setup
from gradwright.train.control import Control, Hooks
from gradwright.train.loop import Loop
from gradwright.train.objective import Objective, Supervised
from gradwright.train.position import Position
from gradwright.train.stateful import Stateful, saved
from gradwright.train.step.taker import Taker
from gradwright.train.training import Training
from gradwright.train.validation import Validation, Weights

WORDS, LENGTH = 5, 4
PROMPTS = np.arange(40) % WORDS

# -- an objective that makes its feeds by what it trains -------------------------------------------


class Sampled:
    """Batches of prompts, each with a completion that is sampled when the batch is taken."""

    def __init__(self, prompts, complete):
        self._prompts, self._complete = prompts, complete

    def epoch(self, number, skip=0):
        for feeds, rows in self._prompts.epoch(number, skip):
            yield self._complete(feeds), rows

    def __getattr__(self, name):
        return getattr(self._prompts, name)


class Rollouts:
    """REINFORCE: prompts -> sampled words -> what they are worth, less the mean of the batch.

    loss = -mean(advantage * log p(words | prompt)); a word is worth 1 if it follows the one before.
    """

    def __init__(self, seed=0):
        self.graph = g = gw.Graph("policy")
        self.prompt = g.placeholder("prompt", ("B",), "int64")
        self.words = g.placeholder("words", ("B", LENGTH), "int64")
        self.reward = g.placeholder("reward", ("B",))
        self.advantage = g.placeholder("advantage", ("B",))
        table = g.variable("table", (WORDS, WORDS), init=0.0)
        before = gw.concat([gw.reshape(self.prompt, (-1, 1)), self.words[:, :-1]], axis=1)
        self.last = g.placeholder("last", ("B",), "int64")
        self.logits = gw.gather(table, self.last)
        chosen = gw.nn.log_softmax(gw.gather(table, before), axis=-1)
        picked = gw.sum(chosen * gw.one_hot(self.words, WORDS), axis=(1, 2))
        loss = gw.neg(gw.mean(self.advantage * picked), name="loss")
        self.losses = {"policy": loss}
        self.metrics = {"reward": gw.mean(self.reward)}
        self.sampler = gw.Session(g, deterministic=True)
        self.seed, self.drawn = seed, 0

    def batches(self, data, at, *, batch_size=None, shuffle=False, drop_last=False):
        how = {"shuffle": shuffle, "seed": self.seed, "drop_last": drop_last}
        prompts = batches(self.graph, {"prompt": data}, [self.prompt], batch_size, **how)
        return Sampled(prompts, lambda feeds: self.feeds(feeds[self.prompt]))

    def feeds(self, batch):
        """Sample words by the policy as it stands."""
        prompt = last = np.asarray(batch)
        rng = np.random.default_rng((self.seed, self.drawn))
        self.drawn += 1
        words, worth = [], np.zeros(len(prompt), np.float32)
        for _ in range(LENGTH):
            logits = self.sampler.run(self.logits, {"last": last})
            drawn = (logits + rng.gumbel(size=logits.shape)).argmax(-1)
            worth += drawn == (last + 1) % WORDS
            words.append(drawn)
            last = drawn
        return {
            self.prompt: prompt,
            self.words: np.stack(words, axis=1),
            self.reward: worth,
            self.advantage: worth - worth.mean(),
        }

    def state_dict(self):
        return {"drawn": np.array(self.drawn)}

    def load_state_dict(self, state):
        self.drawn = int(state["drawn"])


def policy(**options):
    made = Rollouts()
    trainer = gw.Trainer(
        made.graph, made, gw.optim.Adam(0.2), deterministic=True, callbacks=(), **options
    )
    return trainer, made


def fit(trainer, epochs=6, **options):
    return trainer.fit(PROMPTS, epochs=epochs, batch_size=8, progress=False, **options)


def whole(trainer):
    state = {k: v for k, v in trainer.state_dict().items() if not k.endswith("seconds")}
    values = {t.name: trainer.values[t.name] for t in trainer.graph.variables}
    return {k: np.asarray(v).tobytes() for k, v in {**state, **values}.items()}


def test_an_objective_that_samples_its_batches_trains_as_any_other():
    trainer, made = policy()
    assert isinstance(made, Objective) and trainer.parts.objective is made
    history = fit(trainer, validation=PROMPTS[:8])
    assert list(history.epochs) == [
        *("step", "epoch", "loss", "reward", "val_loss", "val_reward", "seconds")
    ]
    reward = history.epochs["reward"]
    assert reward[0] < 2 and reward[-1] > 3.5, "of 4 words"
    table = trainer.values["table"]
    assert (table.argmax(1) == (np.arange(WORDS) + 1) % WORDS).all()
    assert trainer.config.losses == ("loss",) and trainer.steps_done == 30
    with pytest.raises(TrainingError, match="an objective has metrics of its own"):
        gw.Trainer(made.graph, made, metrics={"reward": made.reward})


def test_what_an_objective_has_drawn_is_saved_with_the_training(tmp_path):
    undisturbed, _ = policy()
    fit(undisturbed, 3)
    first, _ = policy()
    first.add_callback(gw.Checkpoints(tmp_path))
    fit(first, 3, steps=7)
    second, made = policy()
    gw.resume(second, tmp_path)
    assert made.drawn == 7 and second.batches_done == 2
    fit(second, 2)
    assert whole(second) == whole(undisturbed)


def test_a_step_and_a_window_of_sampled_batches():
    trainer, _ = policy(accumulation=2)
    assert trainer.step(PROMPTS[:8]) is None and trainer.window == (1, 2)
    assert trainer.step(PROMPTS[8:16]).metrics["reward"] >= 0
    assert trainer.steps_done == 1 and trainer.batches_taken == 2


# -- parts without a trainer -----------------------------------------------------------------------


def line():
    g = gw.Graph("line")
    x, t = g.placeholder("x", (None,)), g.placeholder("t", (None,))
    w, b = g.variable("w", (), init=0.5), g.variable("b", ())
    return g, gw.mean((x * w + b - t) ** 2.0, name="loss")


XS = np.linspace(-1, 1, 24).astype("float32")
DATA = {"x": XS, "t": 3 * XS + 1}


def test_parts_that_are_put_together_by_hand_train_as_a_trainer_does():
    g, loss = line()
    adam = gw.optim.Adam(0.1)
    trainer = gw.Trainer(g, loss, adam, deterministic=True)
    expected = trainer.fit(DATA, epochs=3, batch_size=8, validation=DATA, progress=False)
    g, loss = line()
    setup = Setup(gw.Session(g, deterministic=True), gw.TrainingConfig(adam, losses=loss))
    told, position, control = [], Position(), Control()

    class Tells(gw.Callback):
        def on_epoch_end(self, training, record):
            told.append((training, record.epoch))

    objective = Supervised(g, {"loss": loss}, {}, setup)
    taker = Taker(setup, objective, position, control)
    validation = Validation(setup, taker, position, Weights(setup, taker, control))
    loop = Loop(taker, control, position, Hooks(objective, [Tells()], control), validation)
    with control:
        source = objective.batches(DATA, position, batch_size=8, shuffle=True)
        held_out = objective.batches(DATA, None, batch_size=8)
        loop.run(source, epochs=3, held_out=held_out)
    assert told == [(objective, 1), (objective, 2), (objective, 3)]
    assert (position.steps, position.epochs, loop.progress.outcome) == (9, 3, "finished")
    for name in ("w", "b"):
        assert g.values[name].tobytes() == trainer.values[name].tobytes()
    for name in ("loss", "val_loss"):
        assert (taker.history.epochs[name] == expected.epochs[name]).all()


def test_names_of_feeds_are_looked_up_once(monkeypatch):
    g, loss = line()
    trainer = gw.Trainer(g, loss, gw.optim.SGD(0.1))
    asked = []
    look = objectives.named
    monkeypatch.setattr(objectives, "named", lambda *a: asked.append(1) or look(*a))
    for _ in range(3):
        trainer.step(DATA)
    assert len(asked) == 1
    trainer.step({g["t"]: DATA["t"], "x": DATA["x"]})
    assert len(asked) == 2, "other keys"
    g.placeholder("late", ())
    trainer.step(DATA)
    trainer.step({**DATA, "late": 1.0})
    assert len(asked) == 3
    with pytest.raises(FeedError, match="no placeholder 'z'"):
        trainer.step({**DATA, "z": 1.0})
    with pytest.raises(FeedError, match="'t' is not fed"):
        trainer.step({"x": XS})
    assert trainer.steps_done == 6


def test_a_window_that_counts_tokens_asks_for_them():
    g, loss = line()
    mask = g.placeholder("mask", (None,))
    trainer = gw.Trainer(g, loss, gw.optim.SGD(0.1))
    trainer.step(DATA)
    trainer.config = trainer.config.but(accumulation=gw.Accumulation(2, by="token", tokens=mask))
    with pytest.raises(FeedError, match="'mask' is not fed"):
        trainer.step(DATA)
    assert trainer.step({**DATA, "mask": XS > 0}) is None
    assert trainer.evaluate(DATA)["loss"] > 0, "they do not count here"


# -- what a callback sees --------------------------------------------------------------------------

SEEN = frozenset(name for name in vars(Training) if not name.startswith("_"))
"""What the protocol names."""
SET = ("config", "optimizer")


class Narrow:
    """A training as the protocol has it, and nothing else of the trainer that it is."""

    def __init__(self, trainer):
        vars(self)["_trainer"] = trainer

    def __getattr__(self, name):
        assert name in SEEN, f"a callback asks for {name!r}, which is not part of Training"
        return getattr(vars(self)["_trainer"], name)

    def __setattr__(self, name, value):
        assert name in SET, f"a callback sets {name!r}"
        setattr(vars(self)["_trainer"], name, value)


CALLBACKS = {
    "checkpoints": lambda path: gw.Checkpoints(path, every_steps=2),
    "run": lambda path: gw.Run(path, store=None),
    "early stopping": lambda path: gw.EarlyStopping("loss", patience=1, min_delta=9.0),
    "steps": lambda path: gw.train.MaxSteps(4),
    "time": lambda path: gw.train.TimeLimit(60.0),
    "score": lambda path: gw.train.Score(1, to=lambda line: None),
    "score reached": lambda path: gw.train.ScoreReached("loss", 0.5),
    "divergence": lambda path: gw.train.Divergence(),
    "ratio": lambda path: gw.train.UpdateRatio(every=1, high=9.0),
    "statistics": lambda path: gw.ParameterStatistics(every=1),
    "profiler": lambda path: gw.train.Profiler(path / "trace.json", warmup=0, steps=1),
    "activations": lambda path: gw.train.SaveActivations(path, gradients=True),
    "reproduce": lambda path: gw.train.Reproduce(path, node="loss"),
    "plain": lambda path: gw.train.on_step(lambda training, record: training.stop()),
    "unfreezing": lambda path: gw.transfer.GradualUnfreezing(gw.transfer.FineTuning(("b", "w"))),
}


@pytest.mark.parametrize("name", CALLBACKS)
def test_callbacks_see_a_training_and_no_more(name, tmp_path, monkeypatch):
    narrowed = []

    def hooks(training, *rest):
        narrowed.append(Narrow(training))
        return Hooks(narrowed[0], *rest)

    monkeypatch.setattr(parts, "Hooks", hooks)
    g, loss = line()
    settings = {"ema": gw.EMA(0.9), "validate_with": "ema", "seed": 3}
    callback = CALLBACKS[name](tmp_path)
    trainer = gw.Trainer(g, loss, gw.optim.Adam(0.1), callbacks=[callback], **settings)
    trainer.fit(DATA, epochs=3, batch_size=8, validation=DATA, progress=True)
    assert trainer.steps_done and trainer.progress.outcome in ("finished", "stopped")
    assert set(dir(trainer)) >= SEEN


def test_a_trainer_goes_when_nobody_holds_it():
    g, loss = line()
    for options in ({}, {"callbacks": [gw.EarlyStopping("loss")]}):
        trainer = gw.Trainer(g, loss, gw.optim.Adam(0.1), **options)
        trainer.fit(DATA, epochs=2, batch_size=8, progress=False)
        scopes = {n.name.partition("/")[0] for n in g.derived if n.name.startswith("optimizer")}
        assert scopes == {"optimizer"}, "that of a trainer which is gone is free"
        held = weakref.ref(trainer)
        del trainer
        assert held() is None


def test_nobody_reads_behind_a_trainer():
    private = re.compile(r"\b(trainer|training|parts(\.\w+)?)\._[a-z]")
    root = Path(__file__).parents[2]
    wrong = [
        f"{path.relative_to(root)}:{n}: {line.strip()}"
        for package in ("workbench/gradwright", "widgets/gradwright_widgets")
        for path in sorted((root / package).rglob("*.py"))
        for n, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if private.search(line)
    ]
    assert not wrong, "parts have a public face:\n" + "\n".join(wrong)


# -- state -----------------------------------------------------------------------------------------


class Part:
    """A part that holds a number, and refuses those below 0."""

    def __init__(self, held):
        self.held = held

    def state_dict(self):
        return {"held": self.held}

    def load_state_dict(self, state):
        if state["held"] < 0:
            raise TrainingError("below 0")
        self.held = state["held"]


def test_state_is_saved_under_the_prefix_of_its_part():
    held = {"a/": Part(1), "b/": Part(2)}
    assert all(isinstance(part, Stateful) for part in held.values())
    assert saved(held) == {"a/held": 1, "b/held": 2}


def test_callbacks_go_back_to_the_very_objects_they_held():
    class Keeps(gw.Callback):
        """Refuses late, when it has written into what it holds."""

        def __init__(self):
            self.seen, self.notes = 3, ["mine"]

        def state_dict(self):
            return {"seen": self.seen}

        def load_state_dict(self, state):
            self.seen, self.notes = int(state["seen"]), []
            if self.seen < 0:
                raise ValueError("below 0")

    g = gw.Graph()
    w = g.variable("w", (), init=2.0)
    first, second = Keeps(), Keeps()
    trainer = gw.Trainer(g, w * w, callbacks=[first, second])
    history = trainer.fit([{}], epochs=2, progress=False)
    state, notes = trainer.state_dict(), first.notes
    with pytest.raises(ValueError, match="below 0"):
        trainer.load_state_dict(state | {"callbacks/Keeps_0/seen": 9, "callbacks/Keeps_1/seen": -1})
    assert (first.seen, second.seen) == (3, 3) and first.notes is notes == ["mine"]
    assert trainer.history is history and trainer.progress.outcome == "finished"
    with pytest.raises(TrainingError, match="has no place here"):  # the last part to be asked
        trainer.load_state_dict(state | {"callbacks/Keeps_0/seen": 9, "state/more/m": 1.0})
    assert first.seen == 3 and first.notes is notes and trainer.history is history


def test_saved_state_has_the_names_that_it_always_had():
    g, loss = line()
    stop = gw.EarlyStopping("loss")
    how = {"ema": gw.EMA(), "validate_with": "ema", "accumulation": 2, "precision": "float16"}
    trainer = gw.Trainer(g, loss, gw.optim.Adam(0.1), callbacks=[stop], **how)
    trainer.fit(DATA, batch_size=8, progress=False)
    trainer.step(DATA)
    columns = ("step", "epoch", "loss", "grad_norm", "learning_rate", "loss_scale", "seconds")
    assert set(trainer.state_dict()) == {
        *("optimizer", "counters", "seeds", "data", "window/loss"),
        *("scaler/scale", "scaler/good_steps", "callbacks/EarlyStopping_0/best"),
        *(f"callbacks/EarlyStopping_0/value/{name}" for name in "wb"),
        *(f"callbacks/EarlyStopping_0/average/averaging/ema/{n}" for n in ("seen", "counted")),
        *(f"callbacks/EarlyStopping_0/average/averaged/ema/{name}" for name in "wb"),
        *(f"history/steps/{name}" for name in columns),
        *(f"history/epochs/{name}" for name in ("step", "epoch", "loss", "seconds")),
        *(f"state/{name}/{slot}" for name in "wb" for slot in ("m", "v", "step")),
        *(f"state/{kind}/{name}" for kind in ("accumulated", "averaged/ema") for name in "wb"),
        *("state/accumulation/weight", "state/averaging/ema/seen", "state/averaging/ema/counted"),
    }


def test_a_state_that_is_refused_leaves_the_history_in_the_user_s_hands():
    g, loss = line()
    trainer = gw.Trainer(g, loss, gw.optim.Adam(0.1))
    history = trainer.fit(DATA, batch_size=8, progress=False)
    state, before = trainer.state_dict(), whole(trainer)
    for change in (
        {"counters": np.arange(5)},
        {"counters": np.array([1, 1, 0, 0, 1, 3])},
        {"totals/f1": np.zeros(2)},
        {"scaler/scale": np.array(2.0)},
        {"history/steps/loss": np.zeros(1)},
        {"state/w/m": np.zeros(3, "float32")},
    ):
        with pytest.raises(TrainingError):
            trainer.load_state_dict(state | change)
        assert whole(trainer) == before and trainer.history is history
    trainer.fit(DATA, batch_size=8, progress=False)
    trainer.load_state_dict(state)
    assert whole(trainer)["counters"] == before["counters"]
    assert history.epochs.rows == 2 and trainer.history.epochs.rows == 1
