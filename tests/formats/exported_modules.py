"""Modules of torch of many kinds, with inputs of two sizes: what ``exported.py`` reads.

Each is small, and has an axis whose size the file does not fix. ``n`` is that size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

BOTH = ("dynamo", "script")
CAUSAL = {"script": "fails inside torch 2.13: a tensor where is_causal was expected"}
QUANTISED = {"dynamo": "torch.export has no fake_quantize"}
SCRIPTED = {"dynamo": "does not take scripts"}


@dataclass(frozen=True)
class Module:
    """A module: how it is made, its inputs by their free size, which axes are free.

    ``axes`` says for each input which axes have the free size. ``smooth`` is whether a gradient
    check makes sense: nothing there is rounded, sorted or counted. ``lacks`` says which exporter
    cannot write it, and why.
    """

    name: str
    make: Callable[[], nn.Module]
    inputs: Callable[[int], tuple[Any, ...]]
    axes: tuple[tuple[int, ...], ...] = ((0,),)
    smooth: bool = True
    lacks: Mapping[str, str] = field(default_factory=dict)
    sizes: tuple[int, int] = (2, 3)

    @property
    def writers(self) -> list[str]:
        """The exporters that can write it."""
        return [writer for writer in BOTH if writer not in self.lacks]


class Function(nn.Module):
    """A function of tensors as a module, with weights if it wants any."""

    def __init__(self, function: Callable[..., Any], **weights: tuple[int, ...]) -> None:
        super().__init__()
        self.function = function
        for name, shape in weights.items():
            self.register_parameter(name, nn.Parameter(torch.randn(shape)))
        self.names = tuple(weights)

    def forward(self, *xs: torch.Tensor) -> Any:
        return self.function(*xs, *(getattr(self, name) for name in self.names))


def normal(*shape: Any) -> Callable[[int], tuple[torch.Tensor]]:
    """Return what draws one tensor; ``"n"`` in the shape is the free size."""
    return lambda n: (torch.randn([n if s == "n" else s for s in shape]),)


def one(name: str, function: Callable[..., Any], *shape: Any, **others: Any) -> Module:
    """Return a function of one tensor."""
    weights = others.pop("weights", {})
    axes = tuple(i for i, s in enumerate(shape) if s == "n")
    return Module(name, lambda: Function(function, **weights), normal(*shape), (axes,), **others)


def layer(name: str, make: Callable[[], nn.Module], *shape: Any, **others: Any) -> Module:
    """Return a layer of one tensor."""
    axes = tuple(i for i, s in enumerate(shape) if s == "n")
    return Module(name, make, normal(*shape), (axes,), **others)


def modules() -> Iterator[Module]:
    """Yield all modules."""
    yield from convolutions()
    yield from norms_and_pools()
    yield from recurrent()
    yield from attention()
    yield from images()
    yield from indexing()
    yield from functions()
    yield from numbers_and_control()


def convolutions() -> Iterator[Module]:
    yield layer("Conv1d", lambda: nn.Conv1d(3, 4, 3, padding="same"), "n", 3, 7)
    yield layer(
        "Conv2d of groups, dilated", lambda: nn.Conv2d(4, 8, 3, groups=2, dilation=2), "n", 4, 7, 8
    )
    for mode in ("reflect", "replicate", "circular"):
        yield layer(
            f"Conv2d padded by {mode}",
            lambda mode=mode: nn.Conv2d(2, 3, 3, padding=1, padding_mode=mode),
            *("n", 2, 5, 6),
        )
    yield layer("Conv2d, free image", lambda: nn.Conv2d(2, 3, 3, stride=2), 1, 2, "n", "n",
                sizes=(6, 9))  # fmt: skip
    yield layer("Conv3d", lambda: nn.Conv3d(2, 3, (1, 2, 3), stride=(1, 2, 1)), "n", 2, 3, 4, 5)
    yield layer("ConvTranspose1d", lambda: nn.ConvTranspose1d(3, 2, 4, stride=2), "n", 3, 5)
    yield layer(
        "ConvTranspose2d",
        lambda: nn.ConvTranspose2d(4, 4, 3, stride=2, padding=1, output_padding=1, groups=2),
        *("n", 4, 3, 4),
    )
    yield one("unfold", lambda x: F.unfold(x, (2, 3), padding=1, stride=2), "n", 2, 4, 5)
    yield one("fold", lambda x: F.fold(x, (4, 5), (2, 2)), "n", 8, 12)


def norms_and_pools() -> Iterator[Module]:
    def trained(norm: nn.Module) -> nn.Module:
        with torch.no_grad():
            for value in [*norm.parameters(), *norm.buffers()]:
                if value.is_floating_point():
                    value.copy_(torch.rand(value.shape) + 0.5)
        return norm

    yield layer("BatchNorm1d", lambda: trained(nn.BatchNorm1d(3)), "n", 3)
    yield layer("BatchNorm2d", lambda: trained(nn.BatchNorm2d(3)), "n", 3, 4, 4)
    yield layer("GroupNorm", lambda: trained(nn.GroupNorm(2, 4)), "n", 4, 3, 3)
    yield layer("LayerNorm", lambda: trained(nn.LayerNorm((3, 4))), "n", 3, 4)
    yield layer("InstanceNorm2d", lambda: trained(nn.InstanceNorm2d(3, affine=True)), "n", 3, 4, 4)
    yield layer("RMSNorm", lambda: trained(nn.RMSNorm(5)), "n", 5,
                lacks={"script": "has no operator for it"})  # fmt: skip
    yield layer("LocalResponseNorm", lambda: nn.LocalResponseNorm(3), "n", 4, 3, 3)
    yield layer("MaxPool2d, rounded up", lambda: nn.MaxPool2d(3, 2, 1, ceil_mode=True),
                "n", 2, 6, 7)  # fmt: skip
    yield layer(
        "AvgPool2d, padding left out",
        lambda: nn.AvgPool2d(3, 2, padding=1, count_include_pad=False),
        *("n", 2, 6, 7),
    )
    yield layer("AdaptiveAvgPool2d", lambda: nn.AdaptiveAvgPool2d((2, 3)), "n", 2, 4, 6)
    yield layer("AdaptiveMaxPool1d", lambda: nn.AdaptiveMaxPool1d(2), "n", 2, 6)


def recurrent() -> Iterator[Module]:
    def first(layer: nn.Module) -> nn.Module:
        class Whole(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.layer = layer

            def forward(self, x: torch.Tensor) -> Any:
                y, state = self.layer(x)
                return (y, *state) if isinstance(state, tuple) else (y, state)

        return Whole()

    yield layer("LSTM of two directions, batch first",
                lambda: first(nn.LSTM(3, 4, 2, bidirectional=True, batch_first=True)),
                "n", 5, 3)  # fmt: skip
    yield layer("GRU, free length", lambda: first(nn.GRU(3, 4)), "n", 2, 3,
                lacks={"dynamo": "fixes the length"})  # fmt: skip
    yield layer("RNN of relu", lambda: first(nn.RNN(3, 4, 2, nonlinearity="relu")), 4, "n", 3)
    yield Module(
        "LSTMCell",
        lambda: nn.LSTMCell(3, 4),
        lambda n: (torch.randn(n, 3), (torch.randn(n, 4), torch.randn(n, 4))),
        ((0,), (0,), (0,)),
    )


def attention() -> Iterator[Module]:
    class Self(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, x: torch.Tensor) -> Any:
            return self.layer(x, x, x)

    yield layer("MultiheadAttention", Self, "n", 5, 8)
    yield Module(
        "MultiheadAttention with a mask of keys",
        lambda: nn.MultiheadAttention(8, 2, batch_first=True),
        lambda n: (torch.randn(n, 4, 8), torch.randn(n, 5, 8), torch.randn(n, 5, 8),
                   torch.arange(5).expand(n, 5) > 3),
        ((0,), (0,), (0,), (0,)),
    )  # fmt: skip
    yield layer(
        "TransformerEncoderLayer",
        lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        *("n", 5, 8),
        lacks=CAUSAL,
    )
    yield layer(
        "TransformerEncoder, gelu, norm first",
        lambda: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(
                8, 2, 16, activation="gelu", norm_first=True, batch_first=True
            ),
            num_layers=2,
            enable_nested_tensor=False,
        ),
        *(2, "n", 8),
        sizes=(4, 6),
        lacks={"script": "fixes the length"},
    )
    yield Module(
        "TransformerDecoderLayer",
        lambda: nn.TransformerDecoderLayer(8, 2, 16, batch_first=True),
        lambda n: (torch.randn(n, 3, 8), torch.randn(n, 5, 8)),
        ((0,), (0,)),
        lacks=CAUSAL,
    )
    yield Module(
        "scaled_dot_product_attention, causal",
        lambda: Function(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)),
        lambda n: tuple(torch.randn(n, 2, 4, 8) for _ in range(3)),
        ((0,), (0,), (0,)),
        lacks={"script": "divides by zero where it makes the scale"},
    )


def images() -> Iterator[Module]:
    yield layer("PixelShuffle", lambda: nn.PixelShuffle(2), "n", 8, 2, 3)
    yield layer("PixelUnshuffle", lambda: nn.PixelUnshuffle(2), "n", 2, 4, 6)
    for mode in ("nearest", "bilinear", "bicubic"):
        yield layer(
            f"Upsample {mode}",
            lambda mode=mode: nn.Upsample(scale_factor=2, mode=mode),
            *("n", 2, 3, 4),
        )
    yield one("interpolate, corners aligned",
              lambda x: F.interpolate(x, (5, 7), mode="bilinear", align_corners=True),
              "n", 2, 3, 4)  # fmt: skip
    yield Module(
        "interpolate to the size of another image",
        lambda: Function(lambda x, like: F.interpolate(x, like.shape[2:], mode="nearest")),
        lambda n: (torch.randn(1, 2, 3, 3), torch.randn(1, 1, n, n)),
        ((), (2, 3)),
        sizes=(5, 6),
    )
    yield Module(
        "grid_sample",
        lambda: Function(lambda x, grid: F.grid_sample(x, grid, align_corners=False)),
        lambda n: (torch.randn(n, 2, 4, 5), torch.rand(n, 3, 3, 2) * 1.6 - 0.8),
        ((0,), (0,)),
    )
    yield one("pads", lambda x: F.pad(F.pad(x, (1, 2), mode="reflect"), (0, 1, -1, 1), value=2.0),
              "n", 3, 4)  # fmt: skip


def indexing() -> Iterator[Module]:
    def words(n: int) -> tuple[torch.Tensor]:
        return (torch.arange(n * 4).reshape(n, 4) * 7 % 10,)

    yield Module("Embedding", lambda: nn.Embedding(10, 3, padding_idx=0), words)
    # with dynamo it is a loop that carries a sequence, through which no gradient flows
    yield Module("EmbeddingBag", lambda: nn.EmbeddingBag(10, 3, mode="mean"), words, smooth=False)
    yield one("topk", lambda x: torch.topk(x, 2, dim=1), "n", 5)
    yield one("sort, descending", lambda x: torch.sort(x, dim=1, descending=True), "n", 5)
    yield one("argmax and one_hot", lambda x: F.one_hot(x.argmax(1), 5), "n", 5, smooth=False)
    yield one("cumsum", lambda x: torch.cumsum(x, 1), "n", 5)
    yield one("slices", lambda x: x[:, 1::2, ..., :-1, None][:, :, -2:], "n", 6, 4, 3)
    yield one("flip and roll", lambda x: torch.roll(x.flip(1), 2, 1), "n", 5)
    yield Module(
        "index by tensors",
        lambda: Function(lambda x, i: x[:, i, 1:]),
        lambda n: (torch.randn(n, 4, 3), torch.tensor([2, 0, 3])),
        ((0,), ()),
    )
    yield Module(
        "gather and scatter_add",
        lambda: Function(
            lambda x, i: torch.zeros_like(x).scatter_add(1, i, torch.gather(x, 1, i) * 2.0)
        ),
        lambda n: (torch.randn(n, 4), torch.tensor([[1, 0, 1]]).expand(n, 3)),
        ((0,), (0,)),
    )
    yield Module(
        "where and masked_fill",
        lambda: Function(
            lambda x, m: torch.where(x > 0, x * 2, -x).masked_fill(m, -1e9).softmax(1)
        ),
        lambda n: (torch.randn(n, 4), torch.arange(4).expand(n, 4) == 2),
        ((0,), (0,)),
    )
    yield one("index_put", lambda x: x.index_put((torch.tensor([1, 3]),), torch.tensor(5.0)),
              5, "n")  # fmt: skip
    yield one("triu, tril, diagonal",
              lambda x: torch.triu(x) + torch.tril(x, -1) * 2 + torch.diagonal(x, 0, 1, 2).sum(),
              "n", 4, 4)  # fmt: skip


def functions() -> Iterator[Module]:
    yield one("einsum", lambda x, w: torch.einsum("bij,kj->bik", x, w), "n", 3, 4,
              weights={"w": (5, 4)})  # fmt: skip
    yield one("split and chunk", lambda x: (*x.split([1, 2, 3], 1), *x.chunk(2, 1)), "n", 6)
    yield one("stack, cat, unbind", lambda x: torch.cat([torch.stack(x.unbind(1)), x + 1.0]),
              3, 3, "n")  # fmt: skip
    yield one("activations", lambda x: F.elu(x) + F.selu(x) + F.hardswish(x) + F.mish(x)
              + F.softplus(x) + F.gelu(x) + F.gelu(x, approximate="tanh") + F.hardsigmoid(x)
              + F.leaky_relu(x, 0.2) + F.celu(x) + F.silu(x) + F.relu6(x) + F.softsign(x),
              "n", 4)  # fmt: skip
    yield layer(
        "PReLU, GLU, Softmax2d",
        lambda: nn.Sequential(nn.PReLU(4), nn.GLU(1), nn.Softmax2d()),
        "n",
        4,
        2,
        3,
    )
    yield one("reductions", lambda x: (x.mean((1, 2), keepdim=True), x.std(1), x.var(2),
              x.amax(1), x.norm(dim=2), x.prod(1), x.logsumexp(2), x.sum()), "n", 3, 4)  # fmt: skip
    yield one("views", lambda x: x.reshape(x.shape[0], -1).unflatten(1, (2, -1)).transpose(0, 1)
              .contiguous().view(-1, 3).t(), "n", 4, 3)  # fmt: skip
    yield one("expand and repeat",
              lambda x: x[:, None].expand(-1, 3, -1).repeat(1, 2, 1) + x[:, None],
              "n", 4)  # fmt: skip
    yield one("losses", lambda x: (F.mse_loss(x, x * 0.5), F.smooth_l1_loss(x, x * 0.5),
              F.log_softmax(x, 1).sum(), F.cosine_similarity(x, x.flip(1), dim=1)),
              "n", 4, lacks={"script": "has no operator for smooth_l1_loss"})  # fmt: skip
    yield layer("dropout in eval", lambda: nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5)), "n", 4)
    yield Module(
        "Bilinear",
        lambda: nn.Bilinear(3, 4, 2),
        lambda n: (torch.randn(n, 3), torch.randn(n, 4)),
        ((0,), (0,)),
        lacks={"script": "has no operator for it"},
    )
    yield one("cdist", lambda x, w: torch.cdist(x, w), "n", 4, weights={"w": (3, 4)},
              lacks={"dynamo": "has no operator for it"})  # fmt: skip


def numbers_and_control() -> Iterator[Module]:
    def whole(n: int) -> tuple[torch.Tensor]:
        return (torch.arange(n * 4).reshape(n, 4) - 5,)

    yield Module(
        "whole numbers",
        lambda: Function(
            lambda x: (x // 3, x % 3, x.abs() & 5, x << 1, x.clamp(-2, 4), x.float() / 3)
        ),
        whole,
        smooth=False,
        lacks={"script": "divides negative numbers towards zero"},
    )
    yield one("arange of a size",
              lambda x: x + torch.arange(x.shape[1], dtype=x.dtype)[None], 2, "n")  # fmt: skip
    yield one("rounding and comparing", lambda x: (x.round(), x.floor(), torch.isnan(x), x.sign(),
              (x > 0) & (x < 1), x.trunc()), "n", 4, smooth=False,
              lacks={"script": "has no operator for trunc"})  # fmt: skip
    yield Module("quantised and back", Quantised, normal("n", 4), smooth=False,
                 lacks=QUANTISED)  # fmt: skip
    yield one("fake_quantize", lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 255),
              "n", 4, smooth=False, lacks=QUANTISED)  # fmt: skip
    yield Module("torch.cond", Branch, normal("n", 4), lacks={"script": "runs one branch"})
    yield Module("a loop of a script", lambda: torch.jit.script(Loop()), lambda n: (
        torch.randn(n, 4), torch.tensor(3)), ((0,), ()), lacks=SCRIPTED)  # fmt: skip
    yield Module("a branch of a script", lambda: torch.jit.script(ScriptedBranch()), normal("n", 4),
                 lacks=SCRIPTED)  # fmt: skip
    yield one("float64 and float16", lambda x: (x.double() * 2).float() + x.half().float(), "n", 4,
              smooth=False)  # fmt: skip
    yield one(
        "fft", lambda x: torch.fft.rfft(x).abs(), "n", 8, lacks={"script": "has no operator for it"}
    )
    yield one("linalg", lambda x: (torch.linalg.det(x), x @ x.transpose(1, 2)), "n", 3, 3)


class Quantised(nn.Module):
    """A layer between a quantiser and what brings numbers back."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def around(v: torch.Tensor) -> torch.Tensor:
            return torch.fake_quantize_per_tensor_affine(v, 0.05, 0, -128, 127)

        return around(F.linear(around(x), around(self.layer.weight), self.layer.bias))


class Branch(nn.Module):
    """One of two functions, by a number that only a run knows."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, lambda x: x * 2.0, lambda x: torch.tanh(x) - 1.0, (x,))


class ScriptedBranch(nn.Module):
    """The same as a script has it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if bool(x.sum() > 0):
            return x * 2.0
        return torch.tanh(x) - 1.0


class Loop(nn.Module):
    """As many turns as are fed."""

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        y = x
        for i in range(int(n)):
            y = torch.tanh(y) * 0.5 + x * float(i)
        return y
