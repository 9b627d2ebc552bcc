"""The policy objective: prompts become completions, their worth, and steps on these."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...data.batches import Feeds
from ...errors import TrainingError
from ...evaluation.metrics import Metric
from ...graph import Tensor
from ...session import Session
from ...train.callbacks.base import Callback
from ...train.objective import InterruptedBatchError
from ...train.position import Position
from ...train.stateful import beneath
from ...words.jsonable import json_array, to_json
from ..data.examples import prompts
from ..experience import Experience
from ..logps import check_said, model_log_probs
from ..losses.loss import chosen_from
from ..model import LanguageModel, fed_beside
from ..reference import Copies, SyncReference, check_still, reference_log_probs
from ..rewards.judge import Rewards
from ..rollouts.rollout import Prompt, Sampler
from ..rollouts.sampler import GenerationSampler, Progress
from .critic import critic_values
from .distinct import Distinct
from .drawing import Drawing, fed, looked_at
from .facts import Fact, facts, names
from .kept import arrays_of, check_method, experience_of
from .minibatches import HeldOut, Minibatches
from .terms import Step

if TYPE_CHECKING:
    from ..methods.sampled import Sampled

Array = np.ndarray[Any, Any]
SPACING = 1 << 20
"""Seeds between two calls of a sampler: more than a call has rows."""
HELD_OUT = 1 << 62
"""Where the seeds of held-out prompts begin."""
COUNTS = ("drawn", "calls", "extra", "num_tokens", "epoch", "part", "seed")


class PolicyObjective:
    """What a method that samples makes small: it draws, judges and weighs, step by step.

    Data are prompts. A rollout is drawn when its first batch is asked for, with the weights as they
    are then; all that is known of it is measured once and stays, until the next one. Drawn is what
    follows from weights, prompts, seed and count, so that a training which is killed goes on to the
    bit. Made by ``method.objective(model, rewards=…)``.

    Args:
        model: the policy.
        method: settings, such as ``GRPO()``.
        rewards: what completions are worth, as `judge` takes them.
        sampler: what draws; by default the model's own generation, by the method's settings.
        tokenizer: for prompts that are text; by default that of the model.
        seed: decides what is drawn, and the order of prompts.
        deterministic: whether what is measured and drawn repeats to the bit.
        reward_seconds: how long a reward may take for a rollout; None is as long as it takes.
        on_reward_error: ``"raise"``, or ``"skip"`` rows that a reward cannot judge; both are
            explained at `judge`, and stay attributes of ``drawing`` that may be changed.

    >>> import gradwright as gw
    >>> from gradwright.models import Decoder, DecoderConfig
    >>> model = Decoder(DecoderConfig(vocabulary=5, width=8, layers=1, heads=2), eos=0)
    >>> def short(completion_ids): return [-len(row) for row in completion_ids]
    >>> method = gw.align.GRPO(num_generations=4, max_completion_length=3)
    >>> trainer = gw.align.trainer(model, method, rewards=short)
    >>> prompts = [gw.align.Prompt([1, 2]), gw.align.Prompt([3])]
    >>> history = trainer.fit(prompts, batch_size=8, progress=False)
    >>> trainer.objective.experience.advantages.shape, trainer.objective.drawn
    ((8,), 1)
    """

    def __init__(
        self,
        model: LanguageModel,
        method: Sampled,
        rewards: Rewards,
        *,
        sampler: Sampler | None = None,
        tokenizer: Any = None,
        seed: int = 0,
        deterministic: bool = True,
        reward_seconds: float | None = 60.0,
        on_reward_error: str = "raise",
    ) -> None:
        chosen_from("on_reward_error", on_reward_error, ("raise", "skip"))
        self.model, self.method, self.graph = model, method, model.graph
        self.rewards = rewards
        """What completions are worth; others count from the next rollout on."""
        self.watchers: list[Callable[[Experience], None]] = []
        """Called with each rollout of the training that has been drawn."""
        self.experience: Experience | None = None
        """What steps are taken on now."""
        self.history: dict[str, list[float]] = {}
        """The facts of each rollout of the training, by name."""
        self.seed, self.drawn, self.num_tokens = seed, 0, 0
        self.is_wanted: Callable[[], bool] = lambda: False
        """Whether somebody waits for the training to pause or to stop; its trainer says so."""
        self._calls = self._extra = 0
        self._place = (-1, -1)
        self.tokenizer = model.tokenizer if tokenizer is None else tokenizer
        """For prompts that are text."""
        self._session = Session(self.graph, deterministic=deterministic)
        if sampler is None:
            sampler = GenerationSampler(
                model,
                max_new_tokens=method.max_completion_length,
                temperature=method.temperature,
                top_k=method.top_k,
                top_p=method.top_p,
                min_p=method.min_p or 0.0,
                repetition_penalty=method.repetition_penalty,
                said_at=method.temperature,
                session={"deterministic": deterministic},
            )
        self.in_its_precision: Callable[[Sequence[Tensor]], Sequence[Tensor]] = list
        """What stands for tensors in a step, which may compute in fewer bits: its trainer says."""
        self.callbacks: list[Callback] = []
        """What a trainer calls between steps."""
        if isinstance(sampler, GenerationSampler):
            sampler.watchers.append(self._attend)
        self.entropy_control = method.entropy_control()
        """What moves the weight of an entropy bonus, where the method asks for that."""
        self._build(sampler)
        self.drawing.reward_seconds = reward_seconds
        self.drawing.on_reward_error = on_reward_error

    def _build(self, sampler: Sampler) -> None:
        """Make the loss, under a scope of its own, and what is fed to it."""
        graph, method = self.graph, self.method
        said = model_log_probs(self.model, temperature=method.temperature)
        told = {"log_probs": said.log_probs, "entropy": said.entropy}
        if method.needs_reference:
            ref = reference_log_probs(self.model, temperature=method.temperature, renew=True)
            told["ref_log_probs"] = ref
            if method.sync_ref_model:
                alpha, every = method.ref_model_mixup_alpha, method.ref_model_sync_steps
                self.callbacks.append(SyncReference(ref, alpha, every))
        values = None
        if method.critic:
            values = told["values"] = critic_values(self.model, said.mask, method.critic)
        places, told_names = said.log_probs.shape, names(method, self.rewards)
        shapes: dict[str, Any] = {
            "advantages": places if method.by_token else places[:1],
            "old_log_probs": places,
            "num_items": (),
            "facts": (len(told_names),),
            **({"ref_log_probs": places} if method.needs_reference else {}),
            **({"old_values": places, "returns": places} if method.critic else {}),
            **({} if self.entropy_control is None else {"entropy_coef": ()}),
        }
        with graph._at_top(), graph.scope(graph._free_scope(type(method).__name__.lower())):
            self._fed = {name: graph.placeholder(name, shape) for name, shape in shapes.items()}
            given = {name: t for name, t in self._fed.items() if name != "facts"}
            shares = method.in_groups and not method.critic
            self._distinct = Distinct(self.model) if shares else None
            self.stand_ins = None if self._distinct is None else self._distinct.stand_ins
            step = Step(said.log_probs, said.entropy, said.mask, values=values, **given)
            loss, watched = method.loss(step), dict[str, Metric]()
            if (control := self.entropy_control) is not None:
                watched = control.watched(step, method.acting(step))
                self.callbacks.append(control)
        self.losses: Mapping[str, Tensor] = {"loss": loss.value}
        self.curves = told_names
        """Names of the facts that are recorded with the steps."""
        seen = {name: Fact(self._fed["facts"], i) for i, name in enumerate(told_names)}
        self.metrics: Mapping[str, Tensor | Metric | str] = {**loss.metrics, **watched, **seen}
        self.drawing = Drawing(self.model, method, sampler, self._session, told, self._lowered)
        """What makes experience of prompts."""
        self._log_probs = said.log_probs
        self._copies = Copies(graph, told.get("ref_log_probs"))

    # -- data ------------------------------------------------------------------------------------

    def batches(
        self,
        data: Any,
        at: Position | None,
        *,
        batch_size: int | None = None,
        shuffle: bool = False,
        drop_last: bool = False,
    ) -> Minibatches | HeldOut:
        """Return prompts as batches of completions, ``batch_size`` of them in each."""
        rows = self.prompts(data)
        check_said(self.model, self._log_probs)
        if (reference := self.drawing.told.get("ref_log_probs")) is not None:
            check_still(reference)
        if at is None:
            return HeldOut(self, rows, batch_size)
        shuffle = shuffle and self.method.shuffle_dataset
        return Minibatches(self, rows, at, batch_size, shuffle=shuffle)

    def prompts(self, data: Any) -> list[Prompt]:
        """Return data as prompts: a list of them, or what `gw.align.prompts` reads."""
        if isinstance(data, Sequence) and all(isinstance(row, Prompt) for row in data):
            return list(data)
        return prompts(data, self.tokenizer, feeds=[*fed_beside(self.model)])

    def feeds(self, batch: Any) -> Feeds:
        """Draw completions of a batch of prompts, and return what they feed, as one batch."""
        self.drawing.rows_at_once = None
        self._take(self.prompts(batch), (-1, -1), -1, None)
        feeds = self.feeds_of(self._drawn(), slice(None), 1)
        self.check_ratio(feeds)
        return feeds

    # -- drawing ---------------------------------------------------------------------------------

    def collect(
        self,
        prompts: Sequence[Prompt],
        place: tuple[int, int],
        step: int,
        size: int,
        further: Callable[[int, int], Sequence[Prompt]],
        *,
        first: int = 0,
    ) -> None:
        """Draw the rollout of a place in the data, unless it is there already.

        One whose first batch is still to come must be of the weights as they are. Interrupted, it
        is drawn again, and the same.
        """
        held = self.experience
        if held is not None and self._place == place and (first or held.step == step):
            return
        self.drawing.rows_at_once = size
        self._take(prompts, place, step, further)

    def _attend(self, progress: Progress) -> None:
        """End a rollout of a fit, after the token it is at, for what waits for the loop."""
        if self.is_wanted():
            raise InterruptedBatchError

    def _take(
        self,
        prompts: Sequence[Prompt],
        place: tuple[int, int],
        step: int,
        further: Callable[[int, int], Sequence[Prompt]] | None,
    ) -> None:
        """Draw a rollout, and then count it: what is interrupted has changed nothing."""
        n, drawing, at = len(prompts), self.drawing, self.seed * (1 << 40)
        calls = itertools.count(self._calls)
        rollout, scores, refills = drawing.drawn(
            prompts,
            self.rewards,
            ((at + call * SPACING) % HELD_OUT for call in calls),
            further=None if further is None else lambda k: further(self._extra + k * n, n),
        )
        made = drawing.experience(rollout, scores, number=self.drawn, step=step)
        prompted = sum(len(p.tokens) for p in rollout.prompts) * rollout.group
        self.num_tokens += prompted + int(rollout.lengths.sum())
        self._calls += 1 + refills.times
        self._extra += refills.times * n
        self._place, self.experience = place, made
        self.drawn += 1
        found = facts(self.method, made, refills, self.num_tokens)
        for name in {*self.history, *found}:
            column = self.history.setdefault(name, [float("nan")] * (self.drawn - 1))
            column.append(found.get(name, float("nan")))
        for watch in list(self.watchers):
            watch(made)

    def measured(self, prompts: Sequence[Prompt], number: int) -> Feeds:
        """Return the feeds of held-out prompts, which leave no trace."""
        seeds = itertools.count(HELD_OUT + number * SPACING)
        rollout, scores, refills = self.drawing.drawn(prompts, self.rewards, seeds)
        made = self.drawing.experience(rollout, scores, number=number, step=-1)
        found = facts(self.method, made, refills, self.num_tokens)
        return self.feeds_of(made, slice(None), 1, found)

    def _drawn(self) -> Experience:
        if self.experience is None:
            raise TrainingError("nothing has been drawn yet", hint="trainer.fit(prompts)")
        return self.experience

    # -- steps -----------------------------------------------------------------------------------

    def rows_of(self, iteration: int, part: int) -> Array:
        """Return the rows of a batch of the present rollout, which are shuffled each time."""
        made, parts = self._drawn(), self.method.steps_per_generation
        n = len(made.rollout)
        if parts == 1:
            return np.arange(n)
        order = np.random.default_rng((self.seed, 2, made.number, iteration)).permutation(n)
        size = n // parts
        return np.asarray(order[part * size : (part + 1) * size])

    def minibatch(self, iteration: int, part: int) -> Feeds:
        """Return what a batch of the present rollout feeds."""
        parts = self.method.steps_per_generation
        return self.feeds_of(self._drawn(), self.rows_of(iteration, part), parts)

    def feeds_of(
        self, made: Experience, rows: Any, parts: int, found: Mapping[str, float] | None = None
    ) -> Feeds:
        """Return what rows of a rollout feed, which makes so many batches."""
        if found is None:
            found = {name: column[-1] for name, column in self.history.items()}
        told = np.array([found.get(name, np.nan) for name in self.curves], np.float32)
        feeds: Feeds = {self.model.ids: made.ids[rows], self.model.labels: made.labels[rows]}
        given = {**vars(made), "old_log_probs": made.log_probs, "old_values": made.values}
        whole: dict[str, Any] = {"facts": told, "num_items": np.float32(made.mask.sum() / parts)}
        if self.entropy_control is not None:
            whole["entropy_coef"] = np.float32(self.entropy_control.weight)
        for name, t in self._fed.items():
            feeds[t] = whole[name] if name in whole else given[name][rows]
        for t, array in fed(self.graph, made.rollout).items():
            feeds[t] = array[rows]
        if self._distinct is not None:
            feeds |= self._distinct.feeds(made, np.arange(len(made.rollout))[rows])
        return feeds

    def check_ratio(self, feeds: Feeds) -> None:
        """Raise TrainingError where policy and sampler are not the same before the first step.

        It looks at two to eight rows of the batch, by the tensor that the loss is made of, in
        training: what differs there is no ratio but an error. Where the rollout was held against
        the same rows, by the same weights, and training computes the same, that look is the one.
        """
        most = self.method.ratio_tolerance
        if most is None:
            return
        few, own = looked_at(len(feeds[self.model.ids])), set(self._fed.values())
        old = feeds[self._fed["old_log_probs"]][few]
        of_rows = {t: a[few] for t, a in feeds.items() if t not in own}
        now = self.drawing.looks.at(self._said(), of_rows, training=True)
        off = np.abs(now - old)
        worst = float(off.max(initial=0.0))
        if worst <= most:
            return
        row, place = np.unravel_index(off.argmax(), off.shape)
        raise TrainingError(
            f"the ratio is not 1 before the first step on a rollout: |log ratio| is {worst:.3g}",
            facts=[
                f"at row {row}, token {place + 1}: log-probability {old[row, place]:.6g} when it "
                f"was drawn, {now[row, place]:.6g} now",
                "dropout, another temperature, another mask or weights that have moved do that",
            ],
            need=f"|log ratio| <= {most:g}",
            hint="a model without dropout; ratio_tolerance=None does not look",
        )

    def _lowered(self, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
        return self.in_its_precision(tensors)

    def _said(self) -> Tensor:
        """Return the log-probabilities that a step's loss is made of."""
        return self.in_its_precision([self._log_probs])[0]

    def ratios(self) -> Array:
        """Return exp(log π now − log π old) of the present rollout, f32[rows, T − 1]."""
        made = self._drawn()
        feeds = {self.model.ids: made.ids, self.model.labels: made.labels}
        now = self._session.run(self._said(), {**feeds, **fed(self.graph, made.rollout)})
        return np.asarray(np.exp(now - made.log_probs))

    # -- state -----------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the method, what is counted, the facts of all rollouts, and the present one."""
        counts = (self.drawn, self._calls, self._extra, self.num_tokens, *self._place, self.seed)
        made = {} if self.experience is None else arrays_of(self.experience)
        return {
            "method": json_array(to_json(self.method)),
            "counts": np.array(counts),
            **{f"history/{name}": np.array(column) for name, column in self.history.items()},
            **{f"rollout/{name}": array for name, array in made.items()},
            **self._copies.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what ``state_dict`` returned; raises TrainingError for another method's."""
        check_method(self.method, state)
        counts = [int(n) for n in np.asarray(state["counts"]).reshape(-1)]
        if len(counts) != len(COUNTS) or min(counts[:4]) < 0:
            raise TrainingError("this is no state of a policy objective: it has other counts")
        held = beneath("rollout/", state)
        made = experience_of(held) if held else None
        history = {
            name: [float(x) for x in np.asarray(column)]
            for name, column in beneath("history/", state).items()
        }
        self._copies.load_state_dict(state)
        self.drawn, self._calls, self._extra, self.num_tokens, *place, self.seed = counts
        self._place = (place[0], place[1])
        self.experience, self.history = made, history
