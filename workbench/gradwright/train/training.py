"""Training: all that a callback sees of the training that calls it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from ..data.batches import Feeds
from ..graph import Graph, Tensor, Values
from ..session import Session
from .config import TrainingConfig
from .history import History
from .optim import Optimizer
from .position import FitProgress
from .precision.scaler import LossScaler

if TYPE_CHECKING:
    from .callbacks import Callback


class Training(Protocol):
    """What callbacks are given: they read it, set values, change settings, and have it stop.

    A ``Trainer`` is one; what else calls hooks gives them no more than this.
    """

    # -- what is trained, and how ----------------------------------------------------------------

    @property
    def graph(self) -> Graph:
        """What is trained."""

    @property
    def session(self) -> Session:
        """What runs the steps."""

    @property
    def values(self) -> Values:
        """The values that are trained."""

    @property
    def config(self) -> TrainingConfig:
        """All settings; another one counts from the next step on."""

    @config.setter
    def config(self, config: TrainingConfig) -> None: ...

    @property
    def optimizer(self) -> Optimizer:
        """How parameters move."""

    @optimizer.setter
    def optimizer(self, optimizer: Optimizer) -> None: ...

    @property
    def seed(self) -> int:
        """What decides the order of the data."""

    @property
    def loss(self) -> Tensor:
        """The loss that is trained; of several, their sum."""

    @property
    def parameters(self) -> list[Tensor]:
        """The variables that the next step trains."""

    @property
    def scaler(self) -> LossScaler | None:
        """The scale of the loss, where there is one."""

    # -- where it stands, and what it has measured -----------------------------------------------

    @property
    def steps_done(self) -> int:
        """Steps taken."""

    @property
    def epochs_done(self) -> int:
        """Epochs that are finished."""

    @property
    def batches_done(self) -> int:
        """Batches of the present epoch that are done."""

    @property
    def batches_taken(self) -> int:
        """Batches taken in all; the next one has this number in random keys."""

    @property
    def window(self) -> tuple[int, int]:
        """How many batches wait for their update, and how many an update takes."""

    @property
    def skipped(self) -> int:
        """Updates that were not committed, since loss or gradient was not finite."""

    @property
    def history(self) -> History:
        """What steps and epochs have measured."""

    @property
    def last_feeds(self) -> Feeds:
        """What the latest step was fed with, or the one that comes next."""

    @property
    def progress(self) -> FitProgress | None:
        """How far the present fit is, or how the last one ended."""

    @property
    def is_torn(self) -> bool:
        """Whether a second Ctrl-C has ended a step midway."""

    # -- what may be asked of it -----------------------------------------------------------------

    def stop(self) -> None:
        """Have ``fit`` return after the present step."""

    @property
    def callbacks(self) -> tuple[Callback, ...]:
        """The hooks that are called between steps."""

    def add_callback(self, callback: Callback) -> None:
        """Call the hooks of another one, too."""

    def remove_callback(self, callback: Callback) -> None:
        """Call the hooks of one no more."""

    @property
    def swapped(self) -> str:
        """The average that stands in for the weights, if one does."""

    def averaged(self, name: str = "ema") -> AbstractContextManager[None]:
        """Have the variables hold an average inside a ``with`` block."""

    def averaging(self) -> dict[str, Any]:
        """Return the state of the average that is evaluated; empty where there is none."""

    def restore_averaging(self, held: Mapping[str, Any]) -> None:
        """Go back to what ``averaging`` returned."""

    def in_its_precision(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Return what stands for tensors where the steps compute in fewer bits."""

    def state_dict(self) -> dict[str, Any]:
        """Return all that a continuation needs beside the graph and its values."""
