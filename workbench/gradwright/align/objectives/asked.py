"""Asked: what a loss may ask of a batch, in the graph of its model."""

from __future__ import annotations

import functools

from ...graph import Tensor
from ..logps import TokenLogProbs, model_log_probs
from ..losses.loss import counted, still, token_mean
from ..model import LanguageModel
from ..reference import reference_log_probs


class Asked:
    """What a method's loss is made of; placeholders are made when they are asked for.

    Rows of a batch of n examples lie in parts below each other: f32[parts·n, T − 1].
    """

    def __init__(self, model: LanguageModel, *, precomputed: bool = False) -> None:
        self.model, self._precomputed = model, precomputed
        self.fed: dict[str, Tensor] = {}
        """Placeholders beside ids and labels, by what they are fed with."""
        self.heard: list[TokenLogProbs] = []
        """What the model says, as far as a loss has asked."""
        self.reference: Tensor | None = None
        """Log-probabilities of the reference, likewise."""

    @functools.cached_property
    def said(self) -> TokenLogProbs:
        """What the model says of tokens that have labels."""
        self.heard.append(model_log_probs(self.model))
        return self.heard[-1]

    @functools.cached_property
    def whole(self) -> TokenLogProbs:
        """What the model says of all tokens, prompts included."""
        tokens = self._placeholder("tokens", ("B", "T"), "bool")
        self.heard.append(model_log_probs(self.model, tokens))
        return self.heard[-1]

    @property
    def referred(self) -> Tensor:
        """What the reference says: computed with each batch, or fed."""
        if self.reference is None:
            self.reference = reference_log_probs(self.model, renew=True)
        return self._placeholder("reference", ("B", None)) if self._precomputed else self.reference

    @property
    def margin(self) -> Tensor:
        """By how much pairs should differ, f32[n]; 0 where the data does not say."""
        return self._placeholder("margin", (None,))

    @property
    def desirable(self) -> Tensor:
        """Which completions are good, bool[n]."""
        return self._placeholder("desirable", (None,), "bool")

    def _placeholder(
        self, name: str, shape: tuple[str | None, ...], dtype: str = "float32"
    ) -> Tensor:
        if name not in self.fed:
            self.fed[name] = self.model.graph.placeholder(name, shape, dtype)
        return self.fed[name]


def of_tokens(said: TokenLogProbs) -> dict[str, Tensor]:
    """Return what is watched of pairs, token by token: entropy, logits, accuracy of the chosen."""
    pairs = (2, -1, said.mask.shape[1])
    counts = counted(said.mask, said.log_probs)
    top = counted(said.is_top, said.log_probs).reshape(pairs)[0]
    logits, of = still(said.mean_logit).reshape(pairs), counts.reshape(pairs)
    return {
        "entropy": still(token_mean(said.entropy, said.mask)),
        "mean_token_accuracy": token_mean(top, of[0]),
        "logits/chosen": token_mean(logits[0], of[0]),
        "logits/rejected": token_mean(logits[1], of[1]),
    }
