"""Rollouts of a training: what was drawn, what it was worth, and each token in its colour."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import traitlets

from gradwright import Stepper
from gradwright.align.alarm import alarms
from gradwright.errors import GraphError
from gradwright.train import Record, Trainer

from ...host.base import bundle
from ...host.desk import GraphDesk
from ...host.host import Host
from ...host.panel import Panel
from ...host.part import handles, shared, watches
from ...host.typed import whole_number
from ...host.wire import Message
from ..stepper.panel import StepPanel
from .facts import facts, history_of, told
from .history import figures
from .made import log_probs_node, row_feeds
from .measures import MEASURES, measured
from .order import SHOWN, SORTS, groups_shown
from .rewards import RewardDesk, drawing_of
from .rows import AT_ONCE, check_token, page_of, token_of
from .still import still_curves, still_rows
from .watcher import Watcher

if TYPE_CHECKING:
    from gradwright.align import Experience

Array = np.ndarray[Any, Any]
PER_SECOND = 4
SHARE = 0.05
"""Of the time of a training that ratios may take while they colour what is shown."""


class RolloutsPanel(Panel):
    """What a policy has drawn.

    Args:
        desk: of the trainer whose objective draws rollouts.
    """

    name = "rollouts"
    public = (
        *("look_at_token", "step_to_token", "show_measure"),
        *("rewards", "weigh_reward", "switch_reward"),
    )
    desk: GraphDesk

    rollout = shared(traitlets.Dict(help="Number, size and speed of the rollout that is shown."))
    rollout_alarms = shared(
        traitlets.List(traitlets.Dict(), help="Name and sentence of what goes wrong.")
    )
    rollout_rewards = shared(
        traitlets.List(traitlets.Dict(), help="Name and weight of each reward, and if it counts.")
    )
    rollout_measure = shared(traitlets.Enum(MEASURES, MEASURES[0], help="What colours tokens."))
    rollout_sort = shared(traitlets.Enum(SORTS, SORTS[0], help="In which order groups stand."))
    rollout_show = shared(
        traitlets.Enum(SHOWN, SHOWN[0], help="Which: of mixed rewards, alike, cut, failed ones.")
    )
    rollout_first = shared(traitlets.Int(0, min=0, help="Which of them is the first on the page."))
    rollout_live = shared(traitlets.Bool(True, help="Whether the page goes on with each rollout."))
    rollout_token = shared(
        traitlets.List(traitlets.Int(), help="Row and place of the token that is looked at.")
    )

    def __init__(self, desk: GraphDesk) -> None:
        super().__init__(desk)
        self._lock = threading.RLock()
        self._seen: Experience | None = None
        self._ratios: Array | None = None
        self._ratios_due = 0.0
        self._pace = self.widget.paced(self._send_rollout, PER_SECOND)
        self._settings = RewardDesk(desk, lambda: self.objective, self.refresh)
        self._watcher = Watcher(self)
        self._watched: Any = None
        self._told: Message | None = None

    @property
    def objective(self) -> Any:
        """The objective that draws rollouts, None where none does."""
        return drawing_of(self.desk.trainer)

    def initial(self) -> dict[str, Any]:
        """Return the rewards, and the rollout that there is."""
        self._follow()
        return {"rollout_rewards": self._settings.rows(), **self._described()}

    def _follow(self) -> None:
        """Hear of each rollout of the objective."""
        objective = self.objective
        if objective is self._watched:
            return
        self.close()
        self._watched = objective
        if objective is not None:
            objective.watchers.append(self._watcher)
            if objective.experience is not None:
                self._seen = objective.experience

    def close(self) -> None:
        """Hear of no more rollouts."""
        if self._watched is not None and self._watcher in self._watched.watchers:
            self._watched.watchers.remove(self._watcher)

    def refresh(self) -> None:
        """Show rewards and rollout as they are now."""
        self._follow()
        self.rollout_rewards = self._settings.rows()
        self.when_shown(self._pace.request)

    # -- what is drawn ---------------------------------------------------------------------------

    def heard(self, seen: Experience) -> None:
        """Take in a new rollout, in the thread of the training."""
        with self._lock:
            if self.rollout_live or self._seen is None:
                self._seen, self._ratios, self._told = seen, None, None
        self.when_shown(self._pace.request)

    def step_ended(self, record: Record) -> None:
        """Have ratios follow the steps on a rollout, where they are looked at."""
        looked_at = self.rollout_measure == "ratio" and self.in_sight()
        if looked_at and time.monotonic() >= self._ratios_due:
            self._measure_ratios()

    def training_ended(self) -> None:
        """Say what the training does now; ratios are those of now."""
        if self.rollout_measure == "ratio":
            self._measure_ratios()
        self.when_shown(self._send_rollout)

    training_began = training_paused = training_resumed = training_ended

    def _measure_ratios(self) -> None:
        """Compute ratios of the rollout that steps are taken on, between two of them."""
        objective = self.objective
        began = time.monotonic()
        with self._lock:
            seen = self._seen
        if seen is None or objective is None or objective.experience is not seen:
            return
        found = np.asarray(objective.ratios())
        with self._lock:
            if self._seen is seen:
                self._ratios = found
        now = time.monotonic()
        self._ratios_due = now + (now - began) / SHARE
        self.when_shown(self._pace.request)

    @watches("rollout_measure", "rollout_sort", "rollout_show", "rollout_first", "rollout_live")
    def _on_view(self) -> None:
        with self._lock:
            objective = self.objective
            newer = None if objective is None else objective.experience
            if self.rollout_live and newer is not None and newer is not self._seen:
                self._seen, self._ratios, self._told = newer, None, None
        if self.rollout_measure == "ratio" and self._ratios is None:
            self.desk.commands.submit(lambda: self.widget.guarded(self._measure_ratios))
        self.when_shown(self._send_rollout)

    # -- what is looked at -----------------------------------------------------------------------

    def look_at_token(self, row: int, place: int) -> dict[str, Any]:
        """Return, and show, all that is known of a token: place t of a row is about token t + 1.

        The node that computes its log-probability is selected, and the page stays at this rollout.
        Raises GraphError if there is no such token.
        """
        seen = self._token(row, place)
        with self._lock:
            content, buffers = token_of(seen, row, place, self._ratios, self._tokenizer())
            self._told = content, buffers
        node = log_probs_node(self.desk.graph, self.desk.trainer)
        with self.widget.hold_sync():
            self.rollout_live, self.rollout_token = False, [row, place]
            if node is not None:
                self.desk.selected = node.name
        self.widget.send(content, buffers)
        return dict(content["facts"])

    def step_to_token(self, row: int, place: int) -> Stepper:
        """Step through the graph as it computes the log-probabilities of the token's row.

        The stepper stands behind the node that has them. Raises GraphError if there is no such
        token, or if the objective has no model whose placeholders are known.
        """
        seen = self._token(row, place)
        node = log_probs_node(self.desk.graph, self.desk.trainer)
        feeds = row_feeds(seen, row, getattr(self.objective, "model", None))
        if node is None or feeds is None:
            raise GraphError(
                "the graph has no node of log-probabilities of tokens",
                need="an objective of gw.align, whose model has ids and labels",
            )
        stepper = self.widget.part(StepPanel).step_through(feeds, node.outputs[0], training=False)
        stepper.run_to(node.name)
        stepper.step()
        self.rollout_token = [row, place]
        self.desk.tell("steps")
        return stepper

    def show_measure(self) -> Array:
        """Return the numbers that colour the tokens, f32[rows, T - 1], and show them as a tensor.

        Raises GraphError where they are not known.
        """
        with self._lock:
            seen = self._shown()
            found = measured(self.rollout_measure, seen, self._ratios)
        if found is None:
            raise GraphError(f"nothing is known of {self.rollout_measure!r} in this rollout")
        name = f"{self.rollout_measure} of rollout {seen.number}"
        self.desk.tell("tensor", value=found.values, name=name)
        return found.values

    def _shown(self) -> Experience:
        if self._seen is None:
            raise GraphError("no rollout has been drawn yet", hint="trainer.fit(prompts)")
        return self._seen

    def _token(self, row: int, place: int) -> Experience:
        seen = self._shown()
        check_token(seen.mask, row, place)
        return seen

    def _tokenizer(self) -> Any:
        objective = self.objective
        own = getattr(objective, "tokenizer", None)
        return own or getattr(getattr(objective, "model", None), "tokenizer", None)

    # -- rewards ---------------------------------------------------------------------------------

    @property
    def rewards(self) -> Any:
        """What judges the next rollout; other rewards may take their place between two steps.

        Raises FeedError for what is no reward.
        """
        objective = self.objective
        return None if objective is None else objective.rewards

    @rewards.setter
    def rewards(self, rewards: Any) -> None:
        self._settings.replace(rewards)

    def weigh_reward(self, name: str, weight: float) -> None:
        """Have a reward count so much from the next rollout on; raises GraphError without it."""
        self._settings.weigh(name, weight)

    def switch_reward(self, name: str, on: bool) -> None:
        """Have a reward count, or be judged alone, from the next rollout on."""
        self._settings.switch(name, on)

    # -- what the page asks for ------------------------------------------------------------------

    @handles("sync")
    def _on_rollouts_sync(self, content: dict[str, Any]) -> None:
        if content.get("module") is True:
            self.widget.send(*module_message())
        self._send_rollout()

    @handles("look")
    def _on_look(self, content: dict[str, Any]) -> None:
        self.look_at_token(*_place(content))

    @handles("step")
    def _on_step(self, content: dict[str, Any]) -> None:
        self.step_to_token(*_place(content))

    @handles("tensor")
    def _on_tensor(self, _: Any) -> None:
        self.show_measure()

    @handles("pause")
    def _on_pause(self, _: Any) -> None:
        self.desk.controlled().pause()

    @handles("resume")
    def _on_resume(self, _: Any) -> None:
        self.desk.controlled().resume()

    @handles("weigh")
    def _on_weigh(self, content: dict[str, Any]) -> None:
        name, weight = str(content.get("name")), content.get("weight")
        if isinstance(weight, bool) or not isinstance(weight, int | float):
            raise GraphError(f"{weight!r:.60} is no number")
        self._settings.weigh(name, weight, note=True)

    @handles("switch")
    def _on_switch(self, content: dict[str, Any]) -> None:
        self._settings.switch(str(content.get("name")), bool(content.get("on")), note=True)

    def new_view_messages(self, *, whole: bool = False) -> list[Message]:
        """Return what is on the page, figures and the token that is looked at."""
        with self._lock:
            seen = self._seen
            if seen is None:
                return []
            groups = groups_shown(seen, self.rollout_sort, self.rollout_show)
            first = min(self.rollout_first, max(0, len(groups) - 1) // AT_ONCE * AT_ONCE)
            found = measured(self.rollout_measure, seen, self._ratios)
            shown = self.rollout_measure, found
            page = page_of(seen, groups, first, self.rollout_sort, shown, self._tokenizer())
            told = [] if self._told is None else [self._told]
            return [page, figures(history_of(self.objective), seen, self._ratios), *told]

    def _send_rollout(self) -> None:
        with self._lock:
            described = self._described()
            with self.widget.hold_sync():
                for name, value in described.items():
                    if getattr(self, name) != value:
                        setattr(self, name, value)
            for message in self.new_view_messages():
                self.widget.send(*message)

    def _described(self) -> dict[str, Any]:
        found = facts(self.objective, self._seen, self.desk.trainer)
        found["tensor"] = self.desk.hears("tensor")
        wrong = [] if self._seen is None else alarms(*told(self.objective, self.desk.trainer))
        return {"rollout": found, "rollout_alarms": [alarm._asdict() for alarm in wrong]}

    # -- views that last -------------------------------------------------------------------------

    def to_svg(self) -> str:
        """Return the curves of rewards over rollouts, "" before the second."""
        return still_curves(history_of(self.objective))

    def to_table(self) -> str:
        """Return the rows of the rollout as an HTML table."""
        if self._seen is None:
            return ""
        order = groups_shown(self._seen, self.rollout_sort, self.rollout_show)
        return still_rows(self._seen, order, self._tokenizer())


def module_message() -> Message:
    """Return the code of the panel, for a widget whose module is without it."""
    return {"kind": "rollouts.module"}, [bundle("rollouts_part").encode()]


def _place(content: dict[str, Any]) -> tuple[int, int]:
    return whole_number(content.get("row")), whole_number(content.get("place"))


class RolloutPanel(Host):
    """Rollouts of a training by rewards: prompts, groups, and samples with each token in colour.

    Tokens are coloured by advantage, ratio, divergence from the reference, entropy or reward. One
    that is clicked shows all its numbers, selects the node that computes its log-probability, and
    can be stepped to. Beside the samples stand histograms, curves by reward, and alarms. A training
    that is paused goes on with other weights, or with other rewards: ``panel.rewards = [f, g]``.

    Args:
        trainer: whose objective draws rollouts, as ``gw.align.trainer(model, gw.align.GRPO())``.
        options: traits, such as ``rollout_measure="kl"`` and ``rollout_sort="best"``.

    >>> import gradwright as gw
    >>> from gradwright.models import Decoder, DecoderConfig
    >>> model = Decoder(DecoderConfig(vocabulary=5, width=8, layers=1, heads=2), eos=0)
    >>> def short(completion_ids): return [-len(row) for row in completion_ids]
    >>> method = gw.align.GRPO(num_generations=4, max_completion_length=3)
    >>> trainer = gw.align.trainer(model, method, rewards=short)
    >>> panel = RolloutPanel(trainer)
    >>> history = trainer.fit([gw.align.Prompt([1, 2])], batch_size=4, progress=False)
    >>> panel.rollout_measure = "ratio"
    >>> panel.rollout["rows"], round(panel.look_at_token(0, 1)["ratio"], 3)
    (4, 1.0)
    >>> panel.weigh_reward("short", 0.5); panel.rollout_rewards
    [{'name': 'short', 'weight': 0.5, 'on': True}]
    """

    module = "rollout_panel"
    panels = (RolloutsPanel, StepPanel)
    height = traitlets.Int(640, min=240, max=4000, help="Height in pixels.").tag(sync=True)
    rollout_page = traitlets.Enum(
        ("rollouts", "step"), "rollouts", help="Whether rollouts or stepper is in front."
    ).tag(sync=True)

    def __init__(self, trainer: Trainer, **options: Any) -> None:
        if not isinstance(trainer, Trainer):
            raise TypeError(f"RolloutPanel shows what a gradwright.Trainer draws, got {trainer!r}")
        super().__init__(trainer.graph, trainer, **options)
        self.desk.on("steps", lambda: setattr(self, "rollout_page", "step"))
