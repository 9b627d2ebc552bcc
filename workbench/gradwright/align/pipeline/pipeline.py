"""Pipeline: methods one after another, planned before, resumed where they stopped, then judged."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from ...data.batches import DEFAULT_BATCH
from ...errors import TrainingError
from ...files.lock import Lock
from ...train.checkpoints.callback import Checkpoints
from ...train.trainer import Trainer
from ...words.jsonable import to_json
from ..aligned import trainer
from ..evaluation.evaluating import evaluate
from ..evaluation.held_out import HeldOut
from ..methods.reward_model import RewardModel
from ..model import LanguageModel
from ..rewards.reward import Reward
from ..rollouts.rollout import Prompt
from ..scalar_head import reward_head
from .controls import controlled
from .place import Place, check, claim
from .plan import Plan, Planned, row_tokens, rows_of
from .report import Report, Trained
from .stage import Stage

Array = np.ndarray[Any, Any]
Maker = Callable[[], LanguageModel]
Models = Mapping[str, LanguageModel]
Given = Mapping[str, Any] | Callable[[Models], Mapping[str, Any]]


class Pipeline:
    """Stages that train models one after another, as one object.

    Each stage has a model of its own, which a function makes and the weights of the stage before
    are put into: so nothing of one method is left in the graph of the next, a reference is what the
    model was when its stage began, and a run that was killed goes on, in another process, to the
    same bits. Functions must make the same model each time, adapters included.

    Args:
        stages: in their order.
        models: what makes the model; or several by name, of which the first answers prompts.
        data: for each stage, by its name, in the columns of its method.
        given: what else methods are given, by stage: ``{"grpo": {"rewards": [rule]}}``; or a
            function of the models as stages before have left them, such as a reward model's.
        prompts: what judges, held out from all stages.
        verifier: the reward that says whether an answer to them is right.
        exam: settings of ``gw.align.evaluate``, such as ``{"samples": 4, "max_new_tokens": 8}``.

    Raises TrainingError for stages, data and models that do not go together.

    >>> import gradwright as gw, tempfile
    >>> from gradwright.models import CharTokenizer, Decoder, DecoderConfig
    >>> def make():
    ...     codec = CharTokenizer("ab.")
    ...     config = DecoderConfig(vocabulary=3, width=8, layers=1, heads=2)
    ...     return Decoder(config, tokenizer=codec, eos=2)
    >>> rows = [{"prompt": "a", "completion": "b"}, {"prompt": "b", "completion": "a"}]
    >>> stage = gw.align.Stage("tune", gw.align.SFT(), steps=2, batch_size=2)
    >>> pipeline = gw.align.Pipeline([stage], make, {"tune": rows})
    >>> [(p.stage, p.rows, p.steps) for p in pipeline.plan().trainings]
    [('tune', 2, 2)]
    >>> report = pipeline.run(tempfile.mkdtemp(), progress=False)
    >>> report.is_done, report.trained("tune").course.steps.rows
    (True, 2)
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        models: Maker | Mapping[str, Maker],
        data: Mapping[str, Any],
        *,
        given: Mapping[str, Given] | None = None,
        prompts: Sequence[Prompt] = (),
        verifier: Reward | None = None,
        exam: Mapping[str, Any] | None = None,
    ) -> None:
        self.stages, self.data = tuple(stages), dict(data)
        self.models = dict(models) if isinstance(models, Mapping) else {"policy": models}
        self.given, self.exam = dict(given or {}), dict(exam or {})
        self.prompts, self.verifier = list(prompts), verifier
        self.trainer: Trainer | None = None
        """What trains now, to be watched, paused or stopped."""
        self._check()

    def _check(self) -> None:
        names = [stage.name for stage in self.stages]
        if not names or len(set(names)) < len(names):
            raise TrainingError(f"stages are called {names}", need="one or more, each once")
        for what, keys in (("data", self.data), ("given", self.given)):
            if unknown := sorted(keys.keys() - set(names)):
                raise TrainingError(f"{what} of {unknown[0]!r}, which is no stage", need=str(names))
        for stage in self.stages:
            if stage.name not in self.data:
                raise TrainingError(f"the stage {stage.name!r} has no data", hint="data={...}")
            for model in filter(None, (stage.model, stage.start)):
                if model not in self.models:
                    raise TrainingError(
                        f"{stage.name!r} asks for a model {model!r}", need=", ".join(self.models)
                    )
        if bool(self.prompts) != (self.verifier is not None):
            raise TrainingError("answers are judged on prompts, by a verifier", need="both")

    def settings(self) -> dict[str, Any]:
        """Return the settings as JSON: what a folder is compared by when a run goes on."""
        return {
            "stages": to_json(self.stages, "stages"),
            "models": list(self.models),
            "exam": to_json(self.exam, "exam"),
            "prompts": [list(map(int, prompt.tokens)) for prompt in self.prompts],
        }

    # -- before ------------------------------------------------------------------------------------

    def plan(self, folder: str | PathLike[str] | None = None) -> Plan:
        """Return what ``run`` is going to do; with a folder, what of it is done there already.

        Models are made, and nothing else. Costs are rough: lengths are those of the first rows.
        """
        made = {name: make() for name, make in self.models.items()}
        sizes = {
            name: sum(math.prod(map(int, v.shape)) for v in model.graph.variables)
            for name, model in made.items()
        }
        planned = [
            self._planned(stage, control, made, sizes, Path(folder) if folder else None)
            for stage, control in self._trainings()
        ]
        return Plan(tuple(planned), tuple(self._arrows()), len(self.prompts))

    def _planned(
        self,
        stage: Stage,
        control: str,
        made: Models,
        sizes: Mapping[str, int],
        folder: Path | None,
    ) -> Planned:
        data, weights = self.data[stage.name], sizes[stage.model]
        rows, batch, steps = rows_of(data), stage.batch_size or DEFAULT_BATCH, stage.steps
        if steps is None and rows is not None:
            steps = -(-rows // batch) * (stage.epochs or 1)
        length, tokens, flops = row_tokens(data, made[stage.model].tokenizer), None, None
        if length is not None and steps is not None:
            drawn = getattr(stage.method, "max_completion_length", None) or 0
            tokens = int(steps * batch * (length + drawn))
            flops = (6.0 + 2.0 * bool(drawn)) * weights * tokens
        return Planned(
            *(stage.name, control, stage.kind, stage.model, weights, rows, steps),
            *(stage.batch_size, tokens, flops),
            is_done=folder is not None and self._place(folder, stage, control).is_done,
        )

    def _arrows(self) -> Iterator[tuple[str, str, str]]:
        """Yield what is handed on, from where to where."""
        for i, stage in enumerate(self.stages):
            yield f"data:{stage.name}", stage.name, "data"
            before = self._source(i, stage.model, stage.start)
            start = before.name if before else f"start:{stage.start or stage.model}"
            yield start, stage.name, "weights"

    # -- running -----------------------------------------------------------------------------------

    def run(
        self, folder: str | PathLike[str], *, until: str = "", progress: bool | str = "auto"
    ) -> Report:
        """Train all stages and controls that are not done in a folder yet, and return the report.

        ``until`` names the stage after which it ends, to be looked at; another call goes on.
        Where it was killed or stopped, it goes on: a stage that is done is not run again, one that
        was begun continues from its last checkpoint. Stopped by Ctrl-C or
        ``pipeline.trainer.stop()``, it ends with the step. One process at a time runs in a folder.

        Raises TrainingError where the folder holds a run of other settings, or no stage is called
        so.
        """
        root, names = Path(folder), [stage.name for stage in self.stages]
        if until and until not in names:
            raise TrainingError(f"no stage is called {until!r}", need=", ".join(names))
        claim(root, self.settings())
        with Lock(root / ".lock"):
            start = self._start(root)
            if start.answers() is None:
                answers = self._judged(self.models[self._answering]())
                if answers is not None:
                    start.keep(answers)
            for stage, control in self._trainings(until):
                place = self._place(root, stage, control)
                if not place.is_done and not self._train(root, place, stage, control, progress):
                    break
        return self.report(root)

    def _train(
        self, root: Path, place: Place, stage: Stage, control: str, progress: bool | str
    ) -> bool:
        """Train to the end, and return whether it was reached."""
        number = self.stages.index(stage)
        model = self._made(root, number, stage.model, stage.start)
        own = {v.name for v in model.graph.variables}
        given, training = self._given(root, number), dict(stage.training)
        if control:
            given, training = controlled(stage, control, given, training)
        checkpoints = Checkpoints(place.checkpoints, every_steps=stage.every_steps, keep_last=1)
        made = trainer(model, stage.method, **given, **training, callbacks=[checkpoints])
        checkpoints.restore(made, missing_ok=True)
        self.trainer = made
        try:
            if not self._fit(made, stage, progress):
                return False
        finally:
            self.trainer = None
        kept = [v.name for v in model.graph.variables if v.name in own or v.trainable]
        place.finish(
            {} if control else {name: np.asarray(model.graph.values[name]) for name in kept},
            made.history,
            self._judged(model) if stage.model == self._answering else None,
            made.steps_done,
        )
        return True

    def _fit(self, made: Trainer, stage: Stage, progress: bool | str) -> bool:
        """Go on until the end of a stage, and return whether it was reached."""
        data, rows = self.data[stage.name], stage.batch_size
        if stage.steps is not None:
            if left := stage.steps - made.steps_done:
                made.fit(data, steps=left, batch_size=rows, progress=progress)
            return made.steps_done >= stage.steps
        assert stage.epochs is not None
        if left := stage.epochs - made.epochs_done:
            made.fit(data, epochs=left, batch_size=rows, progress=progress)
        return made.epochs_done >= stage.epochs

    def _judged(self, model: LanguageModel) -> HeldOut | None:
        """Return answers to the held-out prompts, the same whenever they are asked for."""
        if self.verifier is None:
            return None
        return evaluate(model, self.prompts, self.verifier, **self.exam)

    # -- after -------------------------------------------------------------------------------------

    def report(self, folder: str | PathLike[str]) -> Report:
        """Return what a folder holds of this pipeline; raises TrainingError where it is another."""
        root = Path(folder)
        check(root, self.settings())
        start = self._start(root).answers()
        before, found = start, []
        for stage, control in self._trainings():
            place = self._place(root, stage, control)
            if not control and stage.model == self._answering:
                number = self.stages.index(stage)
                earlier = self._source(number, stage.model)
                before = start if earlier is None else self._place(root, earlier, "").answers()
            if place.is_done:
                found.append(Trained(stage.name, control, place.course(), before, place.answers()))
        return Report(tuple(found), len(list(self._trainings())), start)

    def model(
        self, folder: str | PathLike[str], name: str = "", *, after: str = ""
    ) -> LanguageModel:
        """Return a model with the weights that its last stage in a folder has left.

        ``after`` names a stage: the model is as it was then, before later ones trained it further.
        """
        root = Path(folder)
        done = [s for s in self.stages if self._place(root, s, "").is_done]
        names = [stage.name for stage in done]
        if after and after not in names:
            need = ", ".join(names) or "a stage that is done"
            raise TrainingError(f"no stage {after!r} is done in {str(root)!r}", need=need)
        n = names.index(after) + 1 if after else len(done)
        return self._made(root, n, name or self._answering, "")

    # -- where things are --------------------------------------------------------------------------

    @property
    def _answering(self) -> str:
        return next(iter(self.models))

    def _trainings(self, until: str = "") -> Iterator[tuple[Stage, str]]:
        for stage in self.stages:
            for control in ("", *stage.controls):
                yield stage, control
            if stage.name == until:
                return

    def _start(self, root: Path) -> Place:
        return Place(root / "0-start")

    def _place(self, root: Path, stage: Stage, control: str) -> Place:
        own = root / f"{self.stages.index(stage) + 1}-{stage.name}"
        return Place(own / control if control else own)

    def _source(self, number: int, *models: str) -> Stage | None:
        """Return the last stage before a number that has trained one of these, the first first."""
        for model in filter(None, models):
            for earlier in reversed(self.stages[:number]):
                if earlier.model == model:
                    return earlier
        return None

    def _given(self, root: Path, number: int) -> dict[str, Any]:
        given = self.given.get(self.stages[number].name, {})
        return dict(given(_AsLeft(self, root, number)) if callable(given) else given)

    def _made(self, root: Path, number: int, name: str, start: str) -> LanguageModel:
        """Return a new model with the weights that stages before a number have left."""
        model = self.models[name]()
        source = self._source(number, name, start)
        if source is not None:
            if isinstance(source.method, RewardModel):
                reward_head(model)  # whoever asks for it then finds the one that was trained
            weights = self._place(root, source, "").weights()
            put(model, weights, whole=source.model == name)
        elif start:
            first = self.models[start]().graph
            put(model, {v.name: np.asarray(first.values[v.name]) for v in first.variables})
        return model


class _AsLeft(Mapping[str, LanguageModel]):
    """The models as stages before a number have left them; made when they are asked for."""

    def __init__(self, pipeline: Pipeline, root: Path, number: int) -> None:
        self._pipeline, self._root, self._number = pipeline, root, number

    def __getitem__(self, name: str) -> LanguageModel:
        if name not in self._pipeline.models:
            raise TrainingError(f"there is no model {name!r}", need=", ".join(self))
        return self._pipeline._made(self._root, self._number, name, "")

    def __iter__(self) -> Iterator[str]:
        return iter(self._pipeline.models)

    def __len__(self) -> int:
        return len(self._pipeline.models)


def put(model: LanguageModel, weights: Mapping[str, Array], *, whole: bool = False) -> None:
    """Give a model weights by their names; ``whole`` refuses where some of its own are missing."""
    graph = model.graph
    own = {v.name: tuple(v.shape) for v in graph.variables}
    if whole and (missing := [name for name in own if name not in weights]):
        raise TrainingError(
            f"the model has {len(missing)} weights that its stage has not left, {missing[0]!r} "
            "among them",
            need="a function that makes the same model each time",
        )
    graph.values.restore(
        {n: w for n, w in weights.items() if n in own and tuple(w.shape) == own[n]}
    )
