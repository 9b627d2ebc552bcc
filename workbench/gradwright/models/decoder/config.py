"""What a decoder is: sizes, and what the families of models do differently, each told once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ...errors import GraphError
from ...words.jsonable import jsonable

Shapes = Iterator[tuple[str, tuple[int, ...]]]
"""Names and shapes of weights."""
CHOICES = {
    "norm": ("rms", "rms_plus_one", "layer"),
    "activation": ("silu", "gelu", "gelu_tanh", "relu"),
    "positions": ("rotary", "learned"),
}
SCALINGS = ("linear", "dynamic", "yarn", "llama3", "longrope")


@jsonable
@dataclass(frozen=True)
class RopeScaling:
    """How rotary positions reach contexts longer than those of pre-training.

    Args:
        kind: ``"linear"`` (Chen et al. 2023), all pairs slow by the factor; ``"dynamic"``, the base
            grows with the row where that is longer than ``original_length``; ``"yarn"`` (Peng et
            al. 2023) and ``"llama3"`` (2024), slow pairs slow by the factor; ``"longrope"`` (Ding
            et al. 2024), each pair by a factor of its own, by others in rows longer than
            ``original_length``.
        factor: how many times longer the context is.
        original_length: length in pre-training.
        attention_factor: factor of cosines and sines; None is 0.1·ln factor + 1 for yarn,
            √(1 + ln factor / ln original_length) for longrope, else 1.
        beta_fast: yarn: pairs that turn more often over the original length keep their speed.
        beta_slow: yarn: pairs that turn less often slow by the factor.
        low_freq_factor: llama3: likewise, turns at which all slow.
        high_freq_factor: llama3: likewise, turns at which none slow.
        short_factor: longrope: what pairs are slowed by in short rows.
        long_factor: longrope: and in long ones.

    Raises GraphError for numbers that make no angles.

    >>> from gradwright.models import RopeScaling
    >>> RopeScaling("linear", factor=4.0).factor
    4.0
    """

    kind: str
    factor: float = 1.0
    original_length: int = 8192
    attention_factor: float | None = None
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    short_factor: tuple[float, ...] = ()
    long_factor: tuple[float, ...] = ()

    @property
    def is_twofold(self) -> bool:
        """Whether rows longer than ``original_length`` turn by other factors from the begin on."""
        return self.kind == "longrope" and self.short_factor != self.long_factor

    def __post_init__(self) -> None:
        if self.kind not in SCALINGS:
            raise GraphError(
                f"no scaling of rotary positions {self.kind!r}", need=_either(SCALINGS)
            )
        if not (self.factor > 0 and self.original_length > 1):
            raise GraphError(f"{self} makes no angles", need="factor > 0, original_length > 1")
        slowed = self.short_factor, self.long_factor
        if self.kind == "longrope" and not all(f and min(f) > 0 for f in slowed):
            raise GraphError("longrope needs factors", need="short_factor, long_factor: floats > 0")
        if self.kind == "yarn" and not self.beta_fast > self.beta_slow > 0:
            raise GraphError(f"{self} makes no angles", need="beta_fast > beta_slow > 0")
        if self.kind == "llama3" and not self.high_freq_factor > self.low_freq_factor:
            raise GraphError(f"{self} makes no angles", need="high_freq_factor > low_freq_factor")


@jsonable
@dataclass(frozen=True)
class DecoderConfig:
    """The sizes of a decoder, and what its family does otherwise than Llama.

    Args:
        vocabulary: how many tokens there are.
        width: features of a position.
        layers: how many layers stand on each other.
        heads: heads of queries.
        kv_heads: heads of keys and values; None is as many as of queries.
        inner: width between the matrices of a layer's network; None is 8/3·width, rounded up to a
            multiple of 32.
        context: the longest row of tokens.
        rope_base: the slowest pair of features turns once in 2π·rope_base positions.
        eps: what norms add to the mean square.
        dropout: share of what each layer adds that training drops.
        tied: whether the head is the embedding.
        head_size: features of a head; None is width/heads.
        qkv_bias: whether queries, keys and values have biases.
        out_bias: whether the output of attention has one.
        mlp_bias: whether the network's matrices have.
        qk_norm: whether queries and keys are normed head by head, before they turn.
        norm: ``"rms"``; ``"rms_plus_one"``, whose factor is 1 + weight; ``"layer"``, with biases.
        post_norms: whether what a branch adds is normed, too.
        activation: of the network: ``"silu"``, ``"gelu"``, ``"gelu_tanh"`` or ``"relu"``.
        gated: whether it is multiplied by a second product.
        positions: ``"rotary"``, or ``"learned"`` vectors that are added to the embedding.
        rotary_size: how many features of a head turn, the first ones; None is all.
        rope_scaling: how rotary positions reach longer contexts.
        window: how many keys a query sees, its own position among them; None is all.
        full_layers: numbers of layers whose queries see all keys even so.
        attention_cap: c in c·tanh(scores/c), before any mask.
        logit_cap: likewise of the logits.
        attention_scale: factor of the scores; None is 1/√head_size.
        embedding_scale: factor of the embedding.
        experts: how many networks a layer has to choose from; 0 is one that all tokens take.
        experts_per_token: how many of them a token takes.
        renormalize: whether the weights of those sum to 1.
        interleaved: whether features that turn together lie side by side, as in GGUF's Llama,
            instead of half a head apart.

    Raises GraphError for sizes that do not go together, and for choices that are none.

    >>> from gradwright.models import DecoderConfig
    >>> DecoderConfig(vocabulary=96, width=64, heads=4).features
    16
    """

    vocabulary: int
    width: int = 256
    layers: int = 4
    heads: int = 4
    kv_heads: int | None = None
    inner: int | None = None
    context: int = 1024
    rope_base: float = 10_000.0
    eps: float = 1e-6
    dropout: float = 0.0
    tied: bool = False
    head_size: int | None = None
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False
    norm: str = "rms"
    post_norms: bool = False
    activation: str = "silu"
    gated: bool = True
    positions: str = "rotary"
    rotary_size: int | None = None
    rope_scaling: RopeScaling | None = None
    window: int | None = None
    full_layers: tuple[int, ...] = field(default=())
    attention_cap: float | None = None
    logit_cap: float | None = None
    attention_scale: float | None = None
    embedding_scale: float = 1.0
    experts: int = 0
    experts_per_token: int = 2
    renormalize: bool = True
    interleaved: bool = False

    def __post_init__(self) -> None:
        self._check_sizes("vocabulary", "width", "layers", "heads", "context")
        self._check_sizes(kv_heads=self.shared, inner=self.hidden, head_size=self.features)
        for name, words in CHOICES.items():
            if getattr(self, name) not in words:
                raise GraphError(f"no {name} {getattr(self, name)!r}", need=_either(words))
        if self.head_size is None:
            check_heads(self.width, self.heads)
        if self.heads % self.shared:
            raise GraphError(
                f"{self.heads} heads of queries cannot share {self.shared} of keys and values",
                need="heads a multiple of kv_heads",
            )
        check_numbers(self)
        if self.positions == "rotary":
            self._check_rotary()
        self._check_layers()

    def _check_sizes(self, *names: str, **told: Any) -> None:
        """Refuse sizes that are none; ``told`` are those that others stand for."""
        for name, size in {**{n: getattr(self, n) for n in names}, **told}.items():
            if not _is_size(size):
                raise GraphError(f"{name}={size} is no size of a decoder", need="an int >= 1")

    def _check_rotary(self) -> None:
        turned = self.turned
        if not _is_size(turned) or turned % 2 or turned > self.features or self.rope_base <= 1:
            raise GraphError(
                f"{turned} of {self.features} features of a head cannot turn in pairs",
                need="an even number of them, and rope_base > 1",
            )
        scaling = self.rope_scaling
        if scaling is None or scaling.kind != "longrope":
            return
        if {len(scaling.short_factor), len(scaling.long_factor)} != {turned // 2}:
            raise GraphError(
                "longrope's factors do not fit", need=f"{turned // 2}, one of each pair"
            )

    def _check_layers(self) -> None:
        for name in ("attention_cap", "logit_cap", "attention_scale", "embedding_scale"):
            size = getattr(self, name)
            if size is not None and not size > 0:
                raise GraphError(f"{name}={size} is none", need="a number above 0")
        if self.window is not None and not _is_size(self.window):
            raise GraphError(f"a window of {self.window} keys shows nothing", need="an int >= 1")
        if not all(0 <= i < self.layers for i in self.full_layers):
            raise GraphError(
                f"full_layers={self.full_layers} are no layers", need=f"0 to {self.layers - 1}"
            )
        if self.experts and not 1 <= self.experts_per_token <= self.experts:
            raise GraphError(
                f"{self.experts_per_token} of {self.experts} experts cannot be chosen",
                need="1 <= experts_per_token <= experts",
            )
        if self.experts and not (self.gated and not self.mlp_bias):
            raise GraphError("experts are gated, and have no biases", need="gated=True")
        if self.experts and self.activation == "gelu_tanh":
            raise GraphError("experts take no gelu_tanh", need="silu, gelu or relu")

    @property
    def features(self) -> int:
        """Features of a head."""
        return self.width // self.heads if self.head_size is None else self.head_size

    @property
    def shared(self) -> int:
        """Heads of keys and values."""
        return self.heads if self.kv_heads is None else self.kv_heads

    @property
    def hidden(self) -> int:
        """Width between the matrices of a layer's network."""
        return -(-self.width // 12) * 32 if self.inner is None else self.inner

    @property
    def turned(self) -> int:
        """Features of a head that turn with its position."""
        return self.features if self.rotary_size is None else self.rotary_size

    def reach(self, layer: int) -> int | None:
        """Return how many keys a query of a layer sees; None is all.

        >>> from gradwright.models import DecoderConfig
        >>> config = DecoderConfig(vocabulary=9, layers=2, window=512, full_layers=(1,))
        >>> config.reach(0), config.reach(1)
        (512, None)
        """
        return None if layer in self.full_layers else self.window

    def weights(self) -> Shapes:
        """Yield name and shape of each weight. Matrices are ``[out, in]``, as they lie in files.

        >>> from gradwright.models import DecoderConfig
        >>> dict(DecoderConfig(vocabulary=9, width=8, layers=1, heads=2).weights())["layer0/up"]
        (32, 8)
        """
        d, e = self.width, self.features
        yield "embed", (self.vocabulary, d)
        if self.positions == "learned":
            yield "positions", (self.context, d)
        for i in range(self.layers):
            at = f"layer{i}"
            yield from self._norm(f"{at}/attention_norm")
            q, kv = self.heads * e, self.shared * e
            for name, rows in (("q", q), ("k", kv), ("v", kv)):
                yield from matrix(f"{at}/{name}", rows, d, self.qkv_bias)
            if self.qk_norm:
                yield f"{at}/q_norm", (e,)
                yield f"{at}/k_norm", (e,)
            yield from matrix(f"{at}/o", d, q, self.out_bias)
            if self.post_norms:
                yield from self._norm(f"{at}/attention_post_norm")
            yield from self._norm(f"{at}/mlp_norm")
            yield from self._network(at)
            if self.post_norms:
                yield from self._norm(f"{at}/mlp_post_norm")
        yield from self._norm("norm")
        if not self.tied:
            yield "head", (self.vocabulary, d)

    def _norm(self, name: str) -> Shapes:
        yield name, (self.width,)
        if self.norm == "layer":
            yield f"{name}_bias", (self.width,)

    def _network(self, at: str) -> Shapes:
        d, f, bias = self.width, self.hidden, self.mlp_bias
        rows = [("gate", f, d)] * self.gated + [("up", f, d), ("down", d, f)]
        if self.experts:
            yield f"{at}/router", (self.experts, d)
        for name, n_out, n_in in rows:
            if self.experts:
                yield f"{at}/{name}", (self.experts, n_out, n_in)
            else:
                yield from matrix(f"{at}/{name}", n_out, n_in, bias)


def matrix(name: str, n_out: int, n_in: int, bias: bool = True) -> Shapes:
    """Yield a matrix [out, in] and its bias."""
    yield name, (n_out, n_in)
    if bias:
        yield f"{name}_bias", (n_out,)


def check_heads(width: int, heads: int) -> None:
    """Refuse a width that is no whole number of features for each head."""
    if width % heads:
        raise GraphError(f"a width of {width} is not {heads} heads", need=f"a multiple of {heads}")


def check_counts(config: Any, *names: str) -> None:
    """Refuse sizes that are none."""
    for name in names:
        if not _is_size(size := getattr(config, name)):
            raise GraphError(f"{name} is {size!r}", need="an int >= 1")


def check_numbers(config: Any) -> None:
    """Refuse an ε below 0, and a share to drop that is none."""
    if not config.eps >= 0:
        raise GraphError(f"eps={config.eps} divides by nothing", need="eps >= 0")
    if not 0 <= config.dropout < 1:
        raise GraphError(f"dropout={config.dropout} is no share", need="0 <= dropout < 1")


def _is_size(n: Any) -> bool:
    return isinstance(n, int) and not isinstance(n, bool) and n >= 1


def _either(words: tuple[str, ...]) -> str:
    return ", ".join(words[:-1]) + " or " + words[-1]
