"""Report: what a pipeline has come to, stage by stage, with the controls that must not improve."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import TrainingError
from ...train.history import History
from ...words.jsonable import to_json
from ...words.tables import Table, Tabular
from ..evaluation.comparing import Comparison, compare
from ..evaluation.held_out import HeldOut

if TYPE_CHECKING:
    import plotly.graph_objects as go

SLACK = 0.03
"""What a control may gain before it counts as a fault."""
CURVES = ("loss", "reward", "accuracy", "rewards/accuracies", "kl", "objective/kl", "entropy")
"""What is drawn of a training where it was measured."""


@dataclass(frozen=True)
class Trained:
    """What came of a stage, or of a control beside it."""

    stage: str
    control: str
    """Empty for the stage itself."""
    course: History
    before: HeldOut | None
    after: HeldOut | None

    @property
    def comparison(self) -> Comparison | None:
        """What has changed, where the model answers prompts."""
        if self.before is None or self.after is None:
            return None
        return compare(self.before, self.after)

    @property
    def is_fault(self) -> bool:
        """Whether it is a control that has improved, in each way that answers were drawn.

        Noise alone moves which answer is likeliest: where that was nearly always wrong, greedy
        answers can only gain by it. Answers that are drawn do not.
        """
        change = self.comparison
        return bool(self.control) and change is not None and has_improved(change)

    @property
    def title(self) -> str:
        """Return what it is called in tables."""
        return f"{self.stage}, {self.control}" if self.control else self.stage


def has_improved(change: Comparison) -> bool:
    """Tell whether right answers are more by 3 points, in each way that they were drawn."""
    gains = [change.after.rate(way) - change.before.rate(way) for way in change.ways]
    return min(gains) > SLACK


@dataclass(frozen=True)
class Report(Tabular):
    """What a pipeline has come to; printed, tables of each stage, of what was lost, of controls.

    Stages that are not done yet are missing. Names and answers of models are text, never HTML.

    >>> import gradwright as gw
    >>> from gradwright.align.pipeline.report import Report, Trained
    >>> history = gw.History()
    >>> history.add_step(gw.train.Record(1, 1, {"loss": 0.5}, 0.1))
    >>> print(Report((Trained("rank", "", history, None, None),), 2, None).table())
    report
    stage  steps  loss  answers  before  after  gained  lost  z  p
    rank   1      0.5
    1 of 2 trainings are done
    """

    trainings: tuple[Trained, ...]
    total: int
    """How many trainings the pipeline has."""
    start: HeldOut | None

    @property
    def is_done(self) -> bool:
        """Whether all stages and controls are."""
        return len(self.trainings) == self.total

    @property
    def faults(self) -> list[str]:
        """Return the controls that have improved, which they must not."""
        return [t.title for t in self.trainings if t.is_fault]

    def trained(self, stage: str, control: str = "") -> Trained:
        """Return what came of a stage, or of a control of it."""
        for t in self.trainings:
            if (t.stage, t.control) == (stage, control):
                return t
        need = ", ".join(t.title for t in self.trainings) or "a stage that is done"
        raise TrainingError(f"nothing is known of {stage!r} {control}".rstrip(), need=need)

    def comparison(self, stage: str = "", control: str = "") -> Comparison:
        """Return what a stage has changed; without one, what all have, from first to last."""
        if stage:
            found = self.trained(stage, control).comparison
        else:
            last = [t.after for t in self.trainings if not t.control and t.after is not None]
            found = compare(self.start, last[-1]) if self.start is not None and last else None
        if found is None:
            raise TrainingError(
                f"{stage or 'the pipeline'} has no answers to compare",
                need="held-out prompts, a verifier, and a stage that is done",
            )
        return found

    def table(self) -> Table:
        """Return a row for each training and way to draw."""
        rows = []
        for t in self.trainings:
            change, steps = t.comparison, t.course.steps.last()
            told = [t.title, str(int(steps.get("step", 0))), f"{steps.get('loss', 0.0):.4g}"]
            if change is None:
                rows.append([*told, *[""] * 7])
                continue
            for way in change.ways:
                test = change.mcnemar(way)
                rates = [f"{x.rate(way):.3f}" for x in (change.before, change.after)]
                sure = [str(test.gained), str(test.lost), f"{test.z:.1f}", f"{test.p:.2g}"]
                rows.append([*told, way, *rates, *sure])
        columns = ["stage", "steps", "loss", "answers", "before", "after", "gained", "lost"]
        notes = [f"{name} has improved, which it must not" for name in self.faults]
        if not self.is_done:
            notes.append(f"{len(self.trainings)} of {self.total} trainings are done")
        return Table([*columns, "z", "p"], rows, title="report", notes=notes)

    def tables(self) -> list[Table]:
        """Return all tables: the stages, then slices and cases of the whole, where it is told."""
        found = [self.table()]
        if self.start is not None and any(t.after and not t.control for t in self.trainings):
            whole = self.comparison()
            found += [whole.table(), *(whole.cases(way) for way in whole.ways)]
        return found

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.tables()))

    def _repr_html_(self) -> str:
        return "".join(table._repr_html_() for table in self.tables())

    def plot(self) -> go.Figure:
        """Return a figure of what each training has measured, step by step."""
        from plotly.subplots import make_subplots

        names = [n for n in CURVES if any(n in t.course.steps for t in self.trainings)]
        figure = make_subplots(rows=max(1, len(names)), cols=1, vertical_spacing=0.06)
        for row, name in enumerate(names, 1):
            for t in self.trainings:
                if name in t.course.steps:
                    seen = t.course.steps.snapshot("step", name)
                    figure.add_scatter(
                        x=seen["step"],
                        y=seen[name],
                        name=html.escape(t.title, quote=False),
                        legendgroup=t.title,
                        showlegend=row == 1,
                        row=row,
                        col=1,
                    )
            figure.update_yaxes(title_text=name, row=row, col=1)
        figure.update_xaxes(title_text="step", row=max(1, len(names)), col=1)
        figure.update_layout(template="plotly_white", height=120 + 220 * max(1, len(names)))
        return figure

    def to_json(self) -> dict[str, Any]:
        """Return the report as what ``json.dumps`` takes: answers, and columns of measurements."""
        told = [
            {
                "stage": t.stage,
                "control": t.control,
                "course": t.course.to_dict(),
                "after": to_json(t.after),
            }
            for t in self.trainings
        ]
        return {"start": to_json(self.start), "trainings": told, "faults": self.faults}
