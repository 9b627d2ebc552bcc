"""First values of adapters against those of peft 0.21. Directions have no sign: products count."""

from __future__ import annotations

import inspect
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gradwright.adapters.initial.eva import Explained, IncrementalPca
from gradwright.adapters.initial.first import First, leading
from gradwright.adapters.initial.loftq import loftq, made_up, rounded
from gradwright.adapters.initial.olora import olora
from gradwright.adapters.initial.orthogonal import orthogonal
from gradwright.adapters.initial.pissa import pissa
from gradwright.errors import FeedError, GraphError, ShapeError

torch = pytest.importorskip("torch")
peft = pytest.importorskip("peft")


def weight(out: int = 24, in_: int = 40, seed: int = 0) -> Any:
    """Return a weight whose directions matter less and less."""
    rng = np.random.default_rng(seed)
    u, v = (np.linalg.qr(rng.standard_normal((n, n)))[0][:, : min(out, in_)] for n in (out, in_))
    return ((u * 4 * 0.85 ** np.arange(min(out, in_))) @ v.T).astype("f4")


def normal(out: int, in_: int) -> Any:
    return np.random.default_rng(0).standard_normal((out, in_)).astype("f4")


def theirs(w: Any, init: Any, r: int = 6, alpha: int = 9) -> tuple[Any, Any, Any]:
    """Return A, B and the base of a layer of peft that has begun as ``init``."""
    layer = torch.nn.Sequential(torch.nn.Linear(w.shape[1], w.shape[0], bias=False))
    layer[0].weight.data = torch.from_numpy(w.copy())
    config = peft.LoraConfig(r=r, lora_alpha=alpha, target_modules=["0"], init_lora_weights=init)
    torch.manual_seed(0)
    made = peft.get_peft_model(layer, config).base_model.model[0]
    held = made.lora_A["default"].weight, made.lora_B["default"].weight, made.base_layer.weight
    a, b, base = (p.detach().numpy() for p in held)
    return a, b, base


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("pissa", lambda w: pissa(w, 6, 1.5)),
        ("olora", lambda w: olora(w, 6, 1.5)),
        ("pissa_niter_16", lambda w: pissa(w, 6, 1.5, n_iter=16)),
    ],
)
@pytest.mark.parametrize("shape", [(24, 40), (40, 24)])
def test_products_and_bases_are_those_of_peft(name: str, ours: Any, shape: Any) -> None:
    w = weight(*shape)
    a, b, base = ours(w)
    their_a, their_b, their_base = theirs(w, name)
    assert a.shape == their_a.shape and b.shape == their_b.shape and a.dtype == np.float32
    atol = 5e-3 if "niter" in name else 1e-5  # both begin at random
    np.testing.assert_allclose(b @ a, their_b @ their_a, atol=atol)
    np.testing.assert_allclose(base, their_base, atol=atol)
    np.testing.assert_allclose(base + np.float32(1.5) * b @ a, w, atol=2e-6)
    # each factor for itself, but for the sign of a direction
    np.testing.assert_allclose(np.abs(a), np.abs(their_a), atol=4 * atol)


def test_factors_of_pissa_share_the_singular_values() -> None:
    w = weight()
    a, b, _ = pissa(w, 6, 0.5)
    s = np.linalg.svd(w, compute_uv=False)[:6] / 0.5
    np.testing.assert_allclose(np.linalg.norm(a, axis=1) ** 2, s, rtol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(b, axis=0) ** 2, s, rtol=1e-5)


def test_orthogonal_factors_multiply_to_nothing_and_are_as_large_as_those_of_peft() -> None:
    a, b, base = orthogonal(200, 300, 8, seed=3)
    assert base is None and np.abs(b @ a).max() < 1e-12
    their_a, their_b, _ = theirs(weight(200, 300), "orthogonal", r=8)
    assert np.std(a) == pytest.approx(np.std(their_a), rel=0.1)
    assert np.std(b) == pytest.approx(np.std(their_b), rel=0.1)
    again = orthogonal(200, 300, 8, seed=3)
    assert np.array_equal(a, again.a) and not np.array_equal(a, orthogonal(200, 300, 8, seed=4).a)


def their_loftq(w: Any, r: int, n_iter: int, bits: int = 4) -> tuple[Any, Any, Any]:
    """Run peft's own loop, which asks for a GPU and for bitsandbytes, on what stands for these."""
    from peft.utils import loftq_utils as module

    kind = "nf4" if bits == 4 else "int8"

    class Blocks:
        def __init__(self, data: Any, **_: Any) -> None:
            self.data, self.quant_state, self.SCB = data, None, None

        def to(self, _: Any) -> Blocks:
            return self

    class Functional:
        @staticmethod
        def dequantize_4bit(data: Any, _: Any) -> Any:
            return torch.from_numpy(rounded(data.numpy(), kind))

        int8_vectorwise_dequant = dequantize_4bit

    bnb = SimpleNamespace(
        nn=SimpleNamespace(Params4bit=Blocks, Int8Params=Blocks), functional=Functional
    )

    source = inspect.getsource(module.loftq_init).replace('"cuda"', '"cpu"')
    source = source.replace("import bitsandbytes as bnb", "pass")
    scope = {**vars(module), "bnb": bnb, "is_bnb_available": lambda: True}
    scope |= {"is_bnb_4bit_available": lambda: True, "clear_device_cache": lambda: None}
    exec(source, scope)
    return tuple(  # type: ignore[return-value]
        t.detach().numpy() for t in scope["loftq_init"](torch.from_numpy(w), bits, r, n_iter)
    )


@pytest.mark.parametrize(("n", "bits"), [(1, 4), (2, 4), (5, 4), (2, 8)])
def test_loftq_is_that_of_peft(n: int, bits: int) -> None:
    w = normal(96, 64) * np.float32(0.05)
    kind = "nf4" if bits == 4 else "int8"
    a, b, base = loftq(w, 8, 1.0, kind=kind, iterations=n)
    their_base, their_a, their_b = their_loftq(w, 8, n, bits)
    assert base is not None
    off = np.abs(base - their_base) > 1e-6
    assert off.mean() < 2e-3  # a number between two codes may fall to either
    np.testing.assert_allclose(b @ a, their_b @ their_a, atol=1e-3 if off.any() else 1e-6)
    assert bits == 8 or np.array_equal(rounded(base, kind), base)
    scaled = loftq(w, 8, 2.0, kind=kind, iterations=n)
    np.testing.assert_allclose(scaled.base, base, atol=1e-6)
    np.testing.assert_allclose(2 * scaled.b @ scaled.a, b @ a, atol=1e-6)


def test_loftq_comes_closer_with_each_iteration() -> None:
    w = normal(96, 64) * np.float32(0.05)
    lost = [np.linalg.norm(w - rounded(w, "nf4"))]
    for n in (1, 2, 5):
        a, b, base = loftq(w, 8, 1.0, iterations=n)
        assert base is not None
        lost.append(np.linalg.norm(w - base - b @ a))
    assert lost == sorted(lost, reverse=True) and lost[-1] < 0.75 * lost[0]
    a, b, base = made_up(w - rounded(w, "q4_0"), 8, 0.5)
    assert base is None
    found = loftq(w, 8, 0.5, kind="q4_0")
    np.testing.assert_allclose(b @ a, found.b @ found.a, atol=1e-6)


# -- EVA -------------------------------------------------------------------------------------------


def batches(n: int, rows: int, in_: int, seed: int = 0) -> list[Any]:
    """Return inputs that vary most in some directions, and are not 0 on average."""
    rng = np.random.default_rng(seed)
    turn = np.linalg.qr(rng.standard_normal((in_, in_)))[0]
    size = 0.7 ** np.arange(in_)
    return [((rng.standard_normal((rows, in_)) * size) @ turn + 0.3).astype("f4") for _ in range(n)]


def test_components_are_those_of_peft_and_of_all_rows_at_once() -> None:
    from peft.utils.incremental_pca import IncrementalPCA

    data = batches(6, 50, 20)
    ours, theirs_ = IncrementalPca(5), IncrementalPCA(n_components=5)
    for x in data:
        ours.take(x)
        theirs_.partial_fit(torch.from_numpy(x))
    assert ours.components is not None
    np.testing.assert_allclose(ours.components, theirs_.components_.numpy(), atol=1e-3)
    np.testing.assert_allclose(ours.sizes, theirs_.singular_values_.numpy(), rtol=1e-4)
    np.testing.assert_allclose(ours.ratios, theirs_.explained_variance_ratio_.numpy(), rtol=1e-4)
    rows = np.concatenate(data)
    s = np.linalg.svd(rows - rows.mean(0), compute_uv=False)
    np.testing.assert_allclose(ours.sizes, s[:5], rtol=2e-2)  # what was dropped on the way is lost


class Layers(torch.nn.Module):  # type: ignore[name-defined,misc]
    """Three layers, two of which share their inputs."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.a, self.b, self.c = (torch.nn.Linear(20, 20, bias=False) for _ in range(3))

    def forward(self, x: Any) -> Any:
        h = torch.tanh(self.a(x) + self.b(x))
        return self.c(h)


@pytest.mark.parametrize("rho", [1.0, 1.5, 2.0])
def test_ranks_and_directions_are_those_of_peft(rho: float) -> None:
    from peft import EvaConfig, LoraConfig, get_peft_model, initialize_lora_eva_weights

    data = batches(12, 200, 20)
    model = Layers()
    config = LoraConfig(
        r=4, lora_alpha=8, target_modules=["a", "b", "c"], init_lora_weights="eva",
        eva_config=EvaConfig(rho=rho),
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = get_peft_model(model, config)
        initialize_lora_eva_weights(
            made,
            [{"x": torch.from_numpy(x)} for x in data],
            prepare_model_inputs_fn=None,
            prepare_layer_inputs_fn=None,
            show_progress_bar=False,
        )
    plain = Layers()
    plain.load_state_dict(_base_of(made))
    found = Explained({"a": 4, "b": 4, "c": 4}, {"b": "a"}, rho=rho)
    steps = 0
    while not found.is_done:
        x = torch.from_numpy(data[steps % len(data)])
        with torch.no_grad():
            h = torch.tanh(plain.a(x) + plain.b(x))
        found.take({"a": x.numpy(), "c": h.numpy()})
        steps += 1
    assert sum(found.ranks.values()) == 12
    for name in "abc":
        layer = getattr(made.base_model.model, name)
        a = layer.lora_A["default"].weight.detach().numpy()
        ours = found.directions(name)
        assert len(ours) == len(a) == found.ranks[name]
        np.testing.assert_allclose(ours @ ours.T, np.eye(len(a)), atol=1e-5)
        np.testing.assert_allclose(ours, a, atol=0.02)
    whitened = found.directions("c", whiten=True)
    assert np.linalg.norm(whitened[0]) < np.linalg.norm(whitened[-1])


def _base_of(made: Any) -> dict[str, Any]:
    layers = made.base_model.model
    return {f"{n}.weight": getattr(layers, n).base_layer.weight for n in "abc"}


def test_leading_directions_are_those_of_the_whole_decomposition() -> None:
    w = np.vstack([np.eye(30) * 0.5 ** np.arange(30), np.zeros((5, 30))])
    for x in (w, w.T):
        u, s, vt = leading(x, 4, 4, np.random.default_rng(0))
        np.testing.assert_allclose(s, 0.5 ** np.arange(4), rtol=1e-5)
        np.testing.assert_allclose((u * s) @ vt, _cut(x, 4), atol=1e-4)


def _cut(x: Any, r: int) -> Any:
    u, s, vt = np.linalg.svd(x, full_matrices=False)
    return (u[:, :r] * s[:r]) @ vt[:r]


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: pissa(weight(4, 9), 5, 1.0), ShapeError, "no 5 leading directions"),
        (lambda: olora(weight(4, 9)[0], 1, 1.0), ShapeError, "a matrix"),
        (lambda: orthogonal(4, 4, 3), ShapeError, "3 has no two halves"),
        (lambda: loftq(weight(), 4, 1.0, kind="q9"), GraphError, "no format 'q9'"),
        (lambda: loftq(weight(), 4, 1.0, kind="q4_0"), ShapeError, "rows of 40 are no blocks"),
        (lambda: loftq(weight(), 4, 1.0, iterations=0), GraphError, "LoftQ of 0 iterations"),
        (lambda: Explained({"a": 2}, rho=0.5), GraphError, "rho=0.5"),
        (lambda: Explained({"a": 2}).directions("a"), FeedError, "no batch was large enough"),
        (
            lambda: Explained({"a": 2}).take({"a": np.full((9, 4), np.nan)}),
            FeedError,
            "inputs of a are not finite",
        ),
    ],
)
def test_what_cannot_be_is_refused(make: Any, error: Any, match: str) -> None:
    with pytest.raises(error, match=match):
        make()


def test_halves_stay_halves() -> None:
    w = weight().astype(np.float16)
    for found in (pissa(w, 4, 1.0), olora(w, 4, 1.0), loftq(w, 4, 1.0)):
        assert isinstance(found, First) and found.base is not None
        assert found.base.dtype == np.float16 and found.a.dtype == np.float32
