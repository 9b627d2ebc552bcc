"""P-tuning: a prompt that a small network makes of learned vectors (Liu et al. 2021)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ... import nn, rnn
from ...errors import GraphError
from ...graph import Tensor
from ...init import normal, uniform
from ...ops.core.index import Gather
from ...ops.core.joining import Concat, Stack
from ...words.jsonable import jsonable
from ..adapter import Leaf, Leaves
from ..settings import check_count, check_share
from ..site import Place, Site
from .prompt import Prompt

WAYS = ("", "_reverse")
BLOCKS = (0, 3, 1, 2)
"""Where the blocks of ours, i o f g, stand among torch's, i f g o."""


@jsonable
@dataclass(frozen=True)
class PTuning(Prompt):
    """A prompt that a network makes of vectors, f32[P, D], and that is trained with them.

    "mlp": prompt = relu(relu(e·W₀ᵀ + b₀)·W₂ᵀ + b₂)·W₄ᵀ + b₄,
    "lstm": prompt = relu(h·W₀ᵀ + b₀)·W₂ᵀ + b₂, h the states of an LSTM that reads e both ways

    (Liu et al. 2021, "GPT Understands, Too"). All else is as in ``Prompt``; files hold what comes
    out, ``prompt_embeddings``, which ``vectors`` gives.

    Args:
        encoder: ``"mlp"`` or ``"lstm"``.
        hidden: its width; that of the model if it is None.
        layers: of the LSTM.
        dropout: between these.

    >>> import gradwright as gw
    >>> from gradwright.models import Decoder, DecoderConfig
    >>> model = Decoder(DecoderConfig(vocabulary=50, width=16, layers=1, heads=2))
    >>> adapted = gw.adapters.add(model, gw.adapters.PTuning(tokens=3, hidden=8))
    >>> list(adapted.variables["embed"])[:3]
    ['embedding.weight', 'mlp_head.0.weight', 'mlp_head.0.bias']
    """

    reads_weights: ClassVar[bool] = False

    encoder: str = "mlp"
    hidden: int | None = None
    layers: int = 2
    dropout: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.init != "random":
            raise GraphError(f"init={self.init!r} would begin as no prompt", need="'random'")
        if self.encoder not in ("mlp", "lstm"):
            raise GraphError(f"encoder={self.encoder!r} is not known", need="'mlp' or 'lstm'")
        if self.hidden is not None:
            check_count("hidden", self.hidden)
        check_count("layers", self.layers)
        check_share("dropout", self.dropout)

    def variables(self, place: Place) -> Mapping[str, Leaf]:
        if not isinstance(place, Site):
            return {}
        d = place.n_out
        n = self.hidden or d
        leaves = {"embedding.weight": Leaf((self.tokens, d), normal())}
        sizes = [(n, d), (n, n), (d, n)]
        if self.encoder == "lstm":
            sizes = [(2 * n, 2 * n), (d, 2 * n)]
            first = uniform(low=-(n**-0.5), high=n**-0.5)
            for i in range(self.layers):
                for way in WAYS:
                    for leaf, shape in (
                        ("weight_ih", (4 * n, 2 * n if i else d)),
                        ("weight_hh", (4 * n, n)),
                        ("bias_ih", (4 * n,)),
                        ("bias_hh", (4 * n,)),
                    ):
                        leaves[f"lstm_head.{leaf}_l{i}{way}"] = Leaf(shape, first)
        for i, shape in enumerate(sizes):
            first = uniform(low=-(shape[1] ** -0.5), high=shape[1] ** -0.5)
            leaves[f"mlp_head.{2 * i}.weight"] = Leaf(shape, first)
            leaves[f"mlp_head.{2 * i}.bias"] = Leaf(shape[:1], first)
        return leaves

    def vectors(self, place: Site, p: Leaves) -> Tensor:
        h = p["embedding.weight"]
        if self.encoder == "lstm":
            for i in range(self.layers):
                h = self._read(nn.dropout(h, p=self.dropout) if self.dropout and i else h, i, p)
        n = 2 if self.encoder == "lstm" else 3
        for i in range(n):
            h = h @ p[f"mlp_head.{2 * i}.weight"].mT + p[f"mlp_head.{2 * i}.bias"]
            h = nn.relu(h) if i < n - 1 else h
        return h

    def _read(self, h: Tensor, i: int, p: Leaves) -> Tensor:
        """Return the states of a layer of the LSTM, f32[P, 2·hidden]."""

        def both(leaf: str) -> list[Any]:
            return [_in_order(p[f"lstm_head.{leaf}_l{i}{way}"]) for way in WAYS]

        w, r = (Stack(axis=0)(*both(leaf)) for leaf in ("weight_ih", "weight_hh"))
        pairs = zip(both("bias_ih"), both("bias_hh"), strict=True)
        b = Stack(axis=0)(*(Concat(axis=0)(*pair) for pair in pairs))
        y, _, _ = rnn.lstm(h[:, None], w, r, b, direction="bidirectional")
        states: Tensor = y.reshape(self.tokens, -1)
        return states


def _in_order(t: Tensor) -> Tensor:
    """Return the blocks of gates in our order."""
    rest = t.shape[1:]
    blocks = Gather(axis=0)(t.reshape(4, -1, *rest), list(BLOCKS))
    made: Tensor = blocks.reshape(-1, *rest)
    return made
