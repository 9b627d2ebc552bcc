"""Ten updates of each kind, beside torch.optim or beside the formulas of the papers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradwright as gw

STEPS = 10
SHAPES = ((3, 4), (5,), ())


def gradient(step: int, shape: tuple[int, ...], dtype: str) -> Any:
    rng = np.random.default_rng(step)
    return (rng.standard_normal(shape) * (1 + step % 3)).astype(dtype)


def ours(
    name: str, n_state: int, scalars: tuple[float, ...], dtype: str, *, counts: bool = False,
    shape: tuple[int, ...] = (3, 4), **attrs: Any,
) -> list[Any]:  # fmt: skip
    """Return the parameter after each of ten updates from states of zero."""
    g = gw.Graph()
    tensors = [g.placeholder(f"x{i}", shape, dtype) for i in range(2 + n_state)]
    t = [g.placeholder("t", (), "int64")] if counts else []
    numbers = [g.constant(np.asarray(s, np.float64)) for s in scalars]
    moved = getattr(gw.training, name)(*tensors, *t, *numbers, **attrs)
    param = np.random.default_rng(99).standard_normal(shape).astype(dtype)
    state, found = [param, *(np.zeros(shape, dtype) for _ in range(n_state))], []
    with gw.Session(g) as session:
        for step in range(STEPS):
            given = [state[0], gradient(step, shape, dtype), *state[1:]]
            feeds = dict(zip(tensors, given, strict=True)) | dict.fromkeys(t, np.int64(step + 1))
            state = session.run(list(moved), feeds)
            found.append(state[0])
    return found


# name: how ours is called, torch's optimizer and its options
TORCH: dict[str, Any] = {
    "nesterov_update": ((1, (0.1, 0.8, 0.05)), {}, "SGD",
                        {"lr": 0.1, "momentum": 0.8, "nesterov": True, "weight_decay": 0.05}),
    "adagrad_update": ((1, (0.1, 1e-6, 0.05)), {}, "Adagrad",
                       {"lr": 0.1, "eps": 1e-6, "weight_decay": 0.05}),
    "adadelta_update": ((2, (0.7, 0.9, 1e-6, 0.05)), {}, "Adadelta",
                        {"lr": 0.7, "rho": 0.9, "eps": 1e-6, "weight_decay": 0.05}),
    "rmsprop_update": ((1, (0.1, 0.9, 1e-6, 0.05)), {}, "RMSprop",
                       {"lr": 0.1, "alpha": 0.9, "eps": 1e-6, "weight_decay": 0.05}),
    "adamax_update": ((2, (0.1, 0.8, 0.99, 1e-8, 0.05)), {"counts": True}, "Adamax",
                      {"lr": 0.1, "betas": (0.8, 0.99), "eps": 1e-8, "weight_decay": 0.05}),
    "amsgrad_update": ((3, (0.1, 0.8, 0.99, 1e-8, 0.05)), {"counts": True}, "AdamW",
                       {"lr": 0.1, "betas": (0.8, 0.99), "eps": 1e-8, "weight_decay": 0.05,
                        "amsgrad": True}),
    "adam_update": ((2, (0.1, 0.8, 0.99, 1e-8, 0.05)), {"counts": True}, "AdamW",
                    {"lr": 0.1, "betas": (0.8, 0.99), "eps": 1e-8, "weight_decay": 0.05}),
    "radam_update": ((2, (0.1, 0.8, 0.99, 1e-8, 0.05)), {"counts": True}, "RAdam",
                     {"lr": 0.1, "betas": (0.8, 0.99), "eps": 1e-8, "weight_decay": 0.05}),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", TORCH)
def test_updates_step_as_torch_does(name: str, dtype: str, torch: Any) -> None:
    (n_state, scalars), options, theirs, settings = TORCH[name]
    for shape in SHAPES:
        found = ours(name, n_state, scalars, dtype, shape=shape, **options)
        start = np.random.default_rng(99).standard_normal(shape).astype(dtype)
        p = torch.nn.Parameter(torch.tensor(start))
        optimizer = getattr(torch.optim, theirs)([p], **settings)
        tolerance = 1e-5 if dtype == "float32" else 1e-10
        for step, mine in enumerate(found):
            p.grad = torch.tensor(gradient(step, shape, dtype))
            optimizer.step()
            np.testing.assert_allclose(mine, p.detach().numpy(), tolerance, tolerance)


def by_hand(rule: Any) -> list[Any]:
    p = np.random.default_rng(99).standard_normal((3, 4))
    state, found = None, []
    for step in range(STEPS):
        p, state = rule(p, gradient(step, (3, 4), "float64"), step + 1, state)
        found.append(p)
    return found


def lion(p: Any, g: Any, t: int, m: Any) -> Any:
    m = np.zeros_like(p) if m is None else m
    p = p - 0.1 * (np.sign(0.9 * m + 0.1 * g) + 0.05 * p)
    return p, 0.99 * m + 0.01 * g


def nadam(p: Any, g: Any, t: int, state: Any) -> Any:
    m, v = state or (0 * p, 0 * p)
    m, v = 0.8 * m + 0.2 * g, 0.99 * v + 0.01 * g**2
    ahead = 0.8 * m / (1 - 0.8 ** (t + 1)) + 0.2 * g / (1 - 0.8**t)
    return p - 0.1 * (ahead / (np.sqrt(v / (1 - 0.99**t)) + 1e-8) + 0.05 * p), (m, v)


def adabelief(p: Any, g: Any, t: int, state: Any) -> Any:
    m, s = state or (0 * p, 0 * p)
    m = 0.8 * m + 0.2 * g
    s = 0.99 * s + 0.01 * (g - m) ** 2 + 1e-8
    m_hat, s_hat = m / (1 - 0.8**t), s / (1 - 0.99**t)
    return p - 0.1 * (m_hat / (np.sqrt(s_hat) + 1e-8) + 0.05 * p), (m, s)


def lamb(p: Any, g: Any, t: int, state: Any) -> Any:
    m, v = state or (0 * p, 0 * p)
    m, v = 0.8 * m + 0.2 * g, 0.99 * v + 0.01 * g**2
    r = m / (1 - 0.8**t) / (np.sqrt(v / (1 - 0.99**t)) + 1e-8) + 0.05 * p
    return p - 0.1 * np.linalg.norm(p) / np.linalg.norm(r) * r, (m, v)


ADAM = (0.1, 0.8, 0.99, 1e-8, 0.05)


@pytest.mark.parametrize(
    ("name", "rule", "n_state", "scalars", "counts"),
    [
        ("lion_update", lion, 1, (0.1, 0.9, 0.99, 0.05), False),
        ("nadam_update", nadam, 2, ADAM, True),
        ("adabelief_update", adabelief, 2, ADAM, True),
        ("lamb_update", lamb, 2, ADAM, True),
    ],
)
def test_updates_are_the_papers_formulas(
    name: str, rule: Any, n_state: int, scalars: Any, counts: bool
) -> None:
    found = ours(name, n_state, scalars, "float64", counts=counts)
    np.testing.assert_allclose(found, by_hand(rule), 1e-10)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_updated_in_float32_and_rounded_once(dtype: str) -> None:
    half = gw.spec.dtype(dtype)
    p, g = (np.array([v, -v]).astype(half) for v in (1.5, 0.3))
    h = np.array([0.25, 0.5], np.float32)
    graph = gw.Graph()
    with graph, gw.Session(graph) as session:
        moved = gw.training.adagrad_update(p, g, h, *(graph.constant(v) for v in (0.1, 1e-6, 0.0)))
        new, state = session.run(list(moved))
    wide = g.astype(np.float32)
    expected = p.astype(np.float32) - 0.1 * wide / (np.sqrt(h + wide**2) + 1e-6)
    assert new.dtype == half and state.dtype == np.float32
    np.testing.assert_array_equal(new, expected.astype(half))


# -- ONNX's joint updates ----------------------------------------------------------------------


def onnx_adagrad(r: float, t: int, x: Any, g: Any, h: Any) -> Any:
    g = 0.01 * x + g
    h = h + g * g
    return x - r / (1 + t * 0.1) * g / (np.sqrt(h) + 1e-6), h


def onnx_adam(r: float, t: int, x: Any, g: Any, v: Any, h: Any) -> Any:
    g = 0.01 * x + g
    v, h = 0.9 * v + 0.1 * g, 0.999 * h + 0.001 * g * g
    r = r * np.sqrt(1 - 0.999**t) / (1 - 0.9**t) if t > 0 else r
    return 0.98 * (x - r * v / (np.sqrt(h) + 1e-6)), v, h


def onnx_momentum(r: float, t: int, x: Any, g: Any, v: Any) -> Any:
    g = 0.01 * x + g
    v = 0.9 * v + (0.5 if t > 0 else 1) * g
    return x - r * (g + 0.9 * v), v


@pytest.mark.parametrize("t", [0, 3])
@pytest.mark.parametrize(
    ("name", "rule", "n_kinds", "attrs"),
    [
        ("adagrad_step", onnx_adagrad, 3, {"norm_coefficient": 0.01, "decay_factor": 0.1}),
        ("adam_step", onnx_adam, 4, {"norm_coefficient": 0.01, "norm_coefficient_post": 0.02}),
        ("momentum_step", onnx_momentum, 3,
         {"norm_coefficient": 0.01, "beta": 0.5, "mode": "nesterov"}),
    ],
)  # fmt: skip
def test_joint_updates_are_onnx_s_pseudo_code(
    name: str, rule: Any, n_kinds: int, attrs: Any, t: int, rng: Any
) -> None:
    sets = [[rng.uniform(0.1, 1, s) for _ in range(n_kinds)] for s in ((2, 3), (4,))]
    graph = gw.Graph()
    with graph, gw.Session(graph) as session:
        tensors = [graph.constant(x) for group in zip(*sets, strict=True) for x in group]
        moved = getattr(gw.training, name)(
            graph.constant(np.float64(0.1)), graph.constant(np.int64(t)), *tensors, **attrs
        )
        found = session.run(list(moved))
    wanted = [x for group in zip(*(rule(0.1, t, *s) for s in sets), strict=True) for x in group]
    for mine, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, 1e-12)


# -- around an update --------------------------------------------------------------------------


def test_the_loss_scale_moves_as_torch_s_grad_scaler(torch: Any) -> None:
    finite = [True, True, True, False, True, True, True, True, False, False] * 2
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=3)
    p = torch.nn.Parameter(torch.zeros(()))
    optimizer = torch.optim.SGD([p], lr=0.0)
    wanted = []
    for ok in finite:
        p.grad = scaler.scale(torch.tensor(1.0 if ok else float("inf")))
        scaler.step(optimizer)
        scaler.update()
        wanted.append(scaler.get_scale())
    g = gw.Graph()
    scale, good = g.variable("scale", (), init=64.0), g.variable("good", init=np.int64(0))
    ok = g.placeholder("ok", (), "bool")
    new = gw.training.update_loss_scale(scale, good, ok, interval=3)
    found = []
    with gw.Session(g) as session:
        for value in finite:
            session.run([], {"ok": value}, updates={scale: new[0], good: new[1]})
            found.append(float(g.values["scale"]))
    assert found == wanted


def test_a_loss_scale_stays_in_its_range() -> None:
    g = gw.Graph()
    with g, gw.Session(g) as session:
        for start, ok, expected in ((2.0, False, 2.0), (64.0, True, 64.0)):
            scale, _ = gw.training.update_loss_scale(
                g.constant(start), g.constant(0), g.constant(ok), interval=1,
                smallest=2.0, largest=64.0,
            )  # fmt: skip
            assert session.run(scale) == expected


def test_accumulated_steps_are_one_large_step(rng: Any) -> None:
    """Four micro-batches, one update: the parameter moves once, by the mean gradient."""
    g = gw.Graph()
    w, total = g.variable("w", init=np.array([1.0, -2.0])), g.variable("total", init=np.zeros(2))
    x, step = g.placeholder("x", (2,), "float64"), g.placeholder("step", (), "int64")
    (dw,) = gw.gradients((w * w * x).sum(), [w])
    new_total, mean, ready = gw.training.accumulate_gradient(total, dw, step, g.constant(4))
    moved = gw.where(ready, w - mean * 0.1, w)
    xs = rng.standard_normal((8, 2))
    with gw.Session(g) as session:
        for i, row in enumerate(xs):
            session.run([], {"x": row, "step": i + 1}, updates={w: moved, total: new_total})
            if i == 2:
                np.testing.assert_array_equal(g.values["w"], [1.0, -2.0])
    expected = np.array([1.0, -2.0])
    for part in (xs[:4], xs[4:]):
        expected = expected - 0.1 * (2 * expected * part).mean(0)
    np.testing.assert_allclose(g.values["w"], expected, 1e-12)


def test_unscaled_gradients_say_whether_they_are_finite() -> None:
    g = gw.Graph()
    with g, gw.Session(g) as session:
        for last, ok in ((3.0, True), (np.inf, False), (np.nan, False)):
            finite, a, b = gw.training.unscale_gradients(
                g.constant(4.0), g.constant([8.0, 4.0]), g.constant([last])
            )
            said, found, _ = session.run([finite, a, b])
            assert said == ok
            assert found.tolist() == [2.0, 1.0]


@pytest.mark.parametrize(("step", "beta"), [(0, 0.9), (3, 1.5)])
def test_adam_of_senseless_numbers_is_not_finite(step: int, beta: float) -> None:
    """Step 0 divides by zero and a decay above 1 has no root, as in the op's own formula."""
    g = gw.Graph()
    one, x = g.constant(np.ones(3)), g.placeholder("x", (3,), "float64")
    numbers = [g.constant(np.asarray(n, np.float64)) for n in (0.1, beta, beta, 1e-8, 0.0)]
    moved = gw.training.adam_update(x, one, one, one, g.constant(step), *numbers)
    with gw.Session(g, kernels="off") as session:
        assert not np.isfinite(session.run(moved[0], {"x": np.ones(3)})).any()
