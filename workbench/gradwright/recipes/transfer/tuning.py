"""Fine-tuning: slower rates for what lies deeper, and layers that join one after the other."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import TrainingError
from ...graph import Graph, Tensor
from ...spec import is_floating
from ...train.callbacks import Callback
from ...train.history import Record
from ...train.training import Training
from ...words.jsonable import jsonable


@jsonable
@dataclass(frozen=True)
class FineTuning:
    """How the layers of a pretrained model are trained (Howard and Ruder 2018, "ULMFiT").

    rate of the k-th layer from the top = learning rate · decayᵏ

    Args:
        layers: name patterns, from the input to the output; a layer may be several patterns
            joined by spaces.
        decay: factor on the learning rate from one layer to the one below it; ULMFiT: 1/2.6.
        unfreeze_every: epochs after which the next lower layer joins, the top one begins alone;
            0 trains all from the start.
        frozen: how many of the lowest layers are never trained.

    >>> import gradwright as gw
    >>> plan = gw.transfer.FineTuning(("stem/*", "body/*", "head/*"), decay=0.5, frozen=1)
    >>> plan.lr_multipliers
    {'body/*': 0.5, 'head/*': 1.0}
    >>> gw.TrainingConfig(lr_multipliers=plan.lr_multipliers).lr_multipliers["body/*"]
    0.5
    """

    layers: tuple[str, ...]
    decay: float = 1.0
    unfreeze_every: int = 0
    frozen: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.layers, str) or not self.layers:
            raise TrainingError(f"layers={self.layers!r}", need='patterns, ("stem/*", "head/*")')
        if not 0 < self.decay <= 1 or self.unfreeze_every < 0:
            raise TrainingError(
                f"decay={self.decay}, unfreeze_every={self.unfreeze_every} make no sense",
                need="0 < decay <= 1, unfreeze_every >= 0",
            )
        if not 0 <= self.frozen < len(self.layers):
            raise TrainingError(
                f"frozen={self.frozen} of {len(self.layers)} layers", need="at least one is trained"
            )

    @property
    def lr_multipliers(self) -> dict[str, float]:
        """Factors on the learning rate by pattern, for ``Trainer(lr_multipliers=...)``."""
        top = len(self.layers) - 1
        trained = list(enumerate(self.layers))[self.frozen :]
        return {p: self.decay ** (top - i) for i, layer in trained for p in layer.split()}

    def of_layer(self, graph: Graph, i: int) -> list[Tensor]:
        """Return the variables of a layer; raises TrainingError for patterns that fit none."""
        found: dict[Tensor, None] = {}
        for pattern in self.layers[i].split():
            fitting = [t for t in graph.find(pattern) if t.kind == "variable"]
            if not fitting:
                raise TrainingError(f"no variable fits {pattern!r}", hint="g.summary()")
            found.update(dict.fromkeys(fitting))
        return list(found)

    def n_trained(self, epoch: int) -> int:
        """Return how many layers, counted from the top, are trained in an epoch from 0."""
        most = len(self.layers) - self.frozen
        return min(most, 1 + epoch // self.unfreeze_every) if self.unfreeze_every else most

    def apply(self, graph: Graph, epoch: int = 0) -> list[str]:
        """Freeze and unfreeze as an epoch asks for; return the names of what is trained."""
        first = len(self.layers) - self.n_trained(epoch)
        trained: list[str] = []
        for i in range(len(self.layers)):
            for t in self.of_layer(graph, i):
                if not is_floating(t.dtype):
                    continue
                if i >= first:
                    trained += graph.unfreeze(t)
                else:
                    graph.freeze(t)
        return trained


class GradualUnfreezing(Callback):
    """Lets the layers of a ``FineTuning`` join the training, epoch by epoch.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> a, b = (g.variable(n, (), init=1.0) for n in "ab")
    >>> plan = gw.transfer.FineTuning(("a", "b"), unfreeze_every=1)
    >>> unfreezing = gw.transfer.GradualUnfreezing(plan)
    >>> trainer = gw.Trainer(g, (a * b) ** 2.0, gw.optim.SGD(0.1), callbacks=[unfreezing])
    >>> history = trainer.fit([{}], epochs=1, progress=False)
    >>> float(g.values["a"]), [t.name for t in trainer.parameters]
    (1.0, ['a', 'b'])
    """

    def __init__(self, plan: FineTuning) -> None:
        self.plan = plan

    def on_fit_start(self, trainer: Training) -> None:
        """Freeze what has not joined yet; after a resume, what had not joined then."""
        self.plan.apply(trainer.graph, trainer.epochs_done)

    def on_epoch_end(self, trainer: Training, record: Record) -> None:
        """Let the next layer join."""
        self.plan.apply(trainer.graph, trainer.epochs_done)
