"""A reward model: a decoder with one number at the end of each row."""

from __future__ import annotations

from .. import init
from ..graph import Tensor
from ..models.decoder.rows import IGNORED
from ..ops.core.like import IotaLike
from ..ops.core.movement import Cast
from .model import LanguageModel
from .once import once


def reward_head(model: LanguageModel, *, name: str = "score", seed: int = 0) -> Tensor:
    """Return what a model gives each row: f32[B], read off the last token that has a label.

    r = states[b, t]·w,  t the last place with ``labels != -100``, w the variable ``score/weight``

    It is made once, and is called ``score``: ``gw.load(path)["score"]`` finds it in an archive.
    Rows are fed as ``model.examples`` has them. Its first weights are normals of deviation
    1/√(D + 1), as in InstructGPT's code (Stiennon et al. 2020, arXiv:2009.01325).

    >>> import gradwright as gw
    >>> from gradwright.models import Decoder, DecoderConfig
    >>> model = Decoder(DecoderConfig(vocabulary=9, width=8, layers=1, heads=2))
    >>> score = gw.align.reward_head(model)
    >>> short, long = [3, 4], [5, 6, 7]
    >>> both = model.graph.output(model.examples([short, long]), score)["score"]
    >>> alone = model.graph.output(model.examples([short]), score)["score"]
    >>> abs(float(both[0] - alone[0])) < 1e-6
    True
    """
    return once(model.graph, f"reward head {name}", lambda: [_made(model, name, seed)])[0]


def _made(model: LanguageModel, name: str, seed: int) -> Tensor:
    graph, states = model.graph, model.head.states
    width = int(states.shape[-1])
    with graph._at_top():
        with graph.scope(name):
            start = init.normal(std=(width + 1) ** -0.5, seed=seed)
            weight = graph.variable("weight", (width,), init=start)
            counts = Cast(dtype="int64")(model.labels != IGNORED)
            places = IotaLike()(model.labels[0])
            last = (counts * places).max(-1, keepdims=True)
            is_last = Cast(dtype=states.dtype)(places == last)
            each = (states * weight).sum(-1)
        found: Tensor = (each * is_last).sum(-1, name=name)
    return found
