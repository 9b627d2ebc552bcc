"""CachedFeatures: what is frozen is computed once, and only the rest is trained."""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import TrainingError
from ...evaluation.predict import predict
from ...graph import Tensor, Variable, ancestors, clone
from ...graph.walk import placeholders
from ...session import Session
from .heads import tensor

Array = np.ndarray[Any, Any]


class CachedFeatures:
    """A second way to the same outputs that begins at features which are fed.

    The copy shares its variables with the graph, so what is trained on cached features is trained
    in the model. Features are computed in eval mode, once for all epochs: worthwhile where the
    frozen part costs most of a step, and wrong where it augments its input.

    Args:
        features: tensor or tensors that depend on frozen variables only.
        outputs: what is trained and measured on them, such as loss, logits and metrics.

    Raises TrainingError if a trainable variable would not be trained any more.

    >>> import gradwright as gw, numpy as np
    >>> g = gw.Graph()
    >>> x, t = g.placeholder("x", (None, 4)), g.placeholder("t", (None,), "int64")
    >>> features = gw.tanh(x @ g.variable("body", (4, 8), init=gw.init.he_normal(seed=0)))
    >>> logits = features @ g.variable("head", (8, 2))
    >>> loss = gw.loss.sparse_softmax_cross_entropy(t, logits)
    >>> frozen = gw.transfer.freeze_up_to(features)
    >>> cached = gw.transfer.CachedFeatures(features, [loss])
    >>> data = cached.compute({"x": np.eye(4, dtype="float32"), "t": [0, 1, 0, 1]})
    >>> {name: np.shape(array) for name, array in data.items()}
    {'cached/tanh': (4, 8), 't': (4,)}
    >>> trainer = gw.Trainer(g, cached.of(loss), optimizer=gw.optim.Adam(0.1))
    >>> history = trainer.fit(data, epochs=50, progress=False)
    >>> float(gw.Session(g).run(loss, {"x": np.eye(4), "t": [0, 1, 0, 1]})) < 0.05
    True
    """

    def __init__(self, features: Tensor | Sequence[Tensor], outputs: Sequence[Tensor]) -> None:
        several = list(features) if isinstance(features, list | tuple) else [features]
        self.features = [tensor(t, "CachedFeatures was given") for t in several]
        graph = self.features[0].graph
        self._graph = graph
        before = [n for n in ancestors(self.features) if isinstance(n.op, Variable)]
        trainable = [n.name for n in before if n.trainable]
        if trainable:
            raise TrainingError(
                "the features depend on trainable " + ", ".join(map(repr, trainable[:5])),
                need="frozen variables: features are computed once",
                hint="gw.transfer.freeze_up_to(features)",
            )
        self._frozen = [n.name for n in before]
        self._seen: dict[str, int] = {}
        """Checksum of each frozen variable when features were computed."""
        with graph.scope("cached"):
            fed = {
                t: graph.placeholder(t.node.name.rpartition("/")[2], t.shape, t.dtype)
                for t in self.features
            }
        self._fed = {t: p.name for t, p in fed.items()}
        copies = clone(list(outputs), fed, scope="cached")
        self._copies = dict(zip(outputs, copies, strict=True))
        self._needed = placeholders(copies)

    def of(self, output: Tensor) -> Tensor:
        """Return the copy of an output that reads cached features."""
        if output not in self._copies:
            raise TrainingError(
                f"{output.name!r} has no copy that reads cached features",
                facts=["those that have: " + ", ".join(t.name for t in self._copies)],
                hint="CachedFeatures(features, [loss, ...]) lists them",
            )
        copy: Tensor = self._copies[output]
        return copy

    def compute(
        self,
        data: Mapping[str, Any],
        *,
        session: Session | None = None,
        batch_size: int = 256,
        folder: str | os.PathLike[str] | None = None,
        progress: bool | str = "auto",
    ) -> dict[str, Any]:
        """Return data to train on: features of all examples, and what else the outputs need.

        With a ``folder`` the features are written there and come back as memory maps.
        """
        outputs = {name: t for t, name in self._fed.items()}
        session = Session(self._graph) if session is None else session
        found: dict[str, Any] = dict(
            predict(session, outputs, data, batch_size=batch_size, folder=folder, progress=progress)
        )
        rest = {t.name for t in self._needed} - found.keys()
        found.update((k, v) for k, v in data.items() if k in rest)
        self._seen = self._checksums()
        return found

    @property
    def is_stale(self) -> bool:
        """Tell whether a variable that the features depend on has changed since ``compute``."""
        return bool(self._seen) and self._seen != self._checksums()

    def _checksums(self) -> dict[str, int]:
        values = self._graph.values
        arrays = {name: np.ascontiguousarray(values.array(name)) for name in self._frozen}
        return {name: zlib.crc32(a.reshape(-1).view(np.uint8).data) for name, a in arrays.items()}

    def __repr__(self) -> str:
        names = ", ".join(t.name for t in self.features)
        return f"<CachedFeatures of {names} for {', '.join(t.name for t in self._copies)}>"
