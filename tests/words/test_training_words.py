"""Words of training: optimizers, schedules, initializers, layers and files as others name them."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import gradwright as gw
from tests.words.test_words_of_others import advised, run

torch = pytest.importorskip("torch")
lr_scheduler = torch.optim.lr_scheduler
START = np.array([1.0, -8.0, 0.5], np.float32)
STEPS = 12


def named(typed, **names):
    """Return what the call gives that the message of a typed one names, and the call."""
    names = {"gw": gw, "np": np, **names}
    with pytest.raises((AttributeError, TypeError, gw.errors.GradwrightError)) as caught:
        run(typed, names)
    call = advised(str(caught.value))
    with names["g"] if "g" in names else contextlib.nullcontext():
        return run(call, names), call


OPTIMIZERS = {
    "gw.optim.Adadelta(lr=0.5)": lambda p: torch.optim.Adadelta(p, lr=0.5),
    "gw.optim.Adadelta(w, lr=0.5)": lambda p: torch.optim.Adadelta(p, lr=0.5),
    "gw.optim.Adagrad(lr=0.5)": lambda p: torch.optim.Adagrad(p, lr=0.5),
    "gw.optim.Adagrad(w, 0.5)": lambda p: torch.optim.Adagrad(p, 0.5),
    "gw.optim.Adam(lr=0.1)": lambda p: torch.optim.Adam(p, lr=0.1),
    "gw.optim.Adam(lr=0.1, betas=(0.8, 0.99))": lambda p: torch.optim.Adam(
        p, lr=0.1, betas=(0.8, 0.99)
    ),
    "gw.optim.Adam(0.1, beta_1=0.8)": lambda p: torch.optim.Adam(p, 0.1, betas=(0.8, 0.999)),
    "gw.optim.Adam(0.1, epsilon=0.5)": lambda p: torch.optim.Adam(p, 0.1, eps=0.5),
    "gw.optim.Adamax(lr=0.1)": lambda p: torch.optim.Adamax(p, lr=0.1),
    "gw.optim.AdamW(lr=0.1, weight_decay=0.1)": lambda p: torch.optim.AdamW(
        p, lr=0.1, weight_decay=0.1
    ),
    "gw.optim.NAdam(lr=0.1)": lambda p: torch.optim.NAdam(p, lr=0.1),
    "gw.optim.NAdam()": lambda p: torch.optim.NAdam(p),
    "gw.optim.RMSProp(0.1, alpha=0.9)": lambda p: torch.optim.RMSprop(p, 0.1, alpha=0.9),
    "gw.optim.RMSprop()": lambda p: torch.optim.RMSprop(p),
    "gw.optim.RMSprop(w, lr=0.1, momentum=0.9)": lambda p: torch.optim.RMSprop(
        p, lr=0.1, momentum=0.9
    ),
    "gw.optim.SGD(lr=0.1, momentum=0.9)": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
}


def trained(theirs, decay=0.0):
    w = torch.nn.Parameter(torch.tensor(START))
    optimizer = theirs([w])
    for _ in range(STEPS):
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()
    return w.detach().numpy()


@pytest.mark.parametrize("typed", OPTIMIZERS)
def test_the_optimizer_that_is_named_takes_the_steps_of_torch(typed):
    g = gw.Graph()
    w = g.variable("w", init=START)
    optimizer, _ = named(typed, w=[w])
    trainer = gw.Trainer(g, (w * w).sum(), optimizer=optimizer)
    for _ in range(STEPS):
        trainer.step({})
    np.testing.assert_allclose(g.values["w"], trained(OPTIMIZERS[typed]), rtol=2e-5, atol=1e-6)


TRAINERS = {
    "gw.optim.Adam(0.1, weight_decay=0.2)": (
        "gw.Trainer(g, loss, optimizer=gw.optim.Adam(0.1), l2=0.2)",
        lambda p: torch.optim.Adam(p, 0.1, weight_decay=0.2),
    ),
    "gw.nn.utils.clip_grad_norm_(parameters, 1.0)": ("gw.Trainer(g, loss, clip_norm=1.0)", None),
    "gw.optim.ASGD(lr=0.5)": (
        "gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.5), swa=gw.SWA())",
        None,
    ),
    "gw.Trainer(g, loss, max_grad_norm=1.0)": ("gw.Trainer(g, loss, clip_norm=1.0)", None),
    "gw.optim.Adam([w], lr=0.1, betas=(0.9, 0.99), weight_decay=0.2)": (
        "gw.Trainer(g, loss, optimizer=gw.optim.Adam(learning_rate=0.1, beta1=0.9, beta2=0.99),"
        " l2=0.2)",
        lambda p: torch.optim.Adam(p, lr=0.1, betas=(0.9, 0.99), weight_decay=0.2),
    ),
    "gw.Trainer(g, loss, lr=0.1)": (
        "gw.Trainer(g, loss, optimizer=gw.optim.Adam(0.1))",
        lambda p: torch.optim.Adam(p, 0.1),
    ),
    "g.compile(optimizer=gw.optim.SGD(0.1), loss=loss)": (
        "gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.1))",
        lambda p: torch.optim.SGD(p, 0.1),
    ),
}


@pytest.mark.parametrize("typed", TRAINERS)
def test_what_a_trainer_does_is_said_so_and_works(typed):
    g = gw.Graph()
    w = g.variable("w", init=START)
    ours, theirs = TRAINERS[typed]
    trainer, call = named(typed, g=g, w=w, loss=(w * w).sum(), parameters=[w])
    assert call == ours
    for _ in range(STEPS):
        trainer.step({})
    if theirs is not None:
        np.testing.assert_allclose(g.values["w"], trained(theirs), rtol=2e-5, atol=1e-6)


SCHEDULES = {
    "gw.schedules.StepLR(0.1, 3)": lambda o: lr_scheduler.StepLR(o, 3),
    "gw.schedules.StepLR(optimizer, step_size=3, gamma=0.5)": lambda o: lr_scheduler.StepLR(
        o, 3, 0.5
    ),
    "gw.optim.lr_scheduler.StepLR(0.1, 3)": lambda o: lr_scheduler.StepLR(o, 3),
    "gw.schedules.Step(0.1, step_size=3, gamma=0.5)": lambda o: lr_scheduler.StepLR(o, 3, 0.5),
    "gw.schedules.MultiStepLR(0.1, [2, 5])": lambda o: lr_scheduler.MultiStepLR(o, [2, 5]),
    "gw.schedules.ExponentialLR(0.1, 0.9)": lambda o: lr_scheduler.ExponentialLR(o, 0.9),
    "gw.schedules.CosineAnnealingLR(0.1, 12, eta_min=0.01)": (
        lambda o: lr_scheduler.CosineAnnealingLR(o, 12, eta_min=0.01)
    ),
    "gw.schedules.Cosine(0.1, T_max=12)": lambda o: lr_scheduler.CosineAnnealingLR(o, 12),
    "gw.schedules.CosineAnnealingWarmRestarts(0.1, 4, 2)": (
        lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 4, 2)
    ),
    "gw.schedules.LinearLR(0.1, 0.5, total_iters=4)": lambda o: lr_scheduler.LinearLR(
        o, 0.5, total_iters=4
    ),
    "gw.schedules.ConstantLR(0.1)": lambda o: lr_scheduler.ConstantLR(o),
    "gw.schedules.PolynomialLR(0.1, 10, 2.0)": lambda o: lr_scheduler.PolynomialLR(o, 10, 2.0),
    "gw.schedules.OneCycleLR(optimizer, 0.1, 12)": lambda o: lr_scheduler.OneCycleLR(o, 0.1, 12),
    "gw.schedules.LambdaLR(0.1, lambda s: 0.9**s)": lambda o: lr_scheduler.LambdaLR(
        o, lambda s: 0.9**s
    ),
}


@pytest.mark.parametrize("typed", SCHEDULES)
def test_the_schedule_that_is_named_has_the_rates_of_torch(typed):
    schedule, _ = named(typed, learning_rate=0.1, optimizer=None)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.1)
    theirs = SCHEDULES[typed](optimizer)
    for step in range(STEPS):
        assert schedule(step) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-6), step
        optimizer.step()
        if step < STEPS - 1:
            theirs.step()


INITS = {
    "gw.init.xavier_uniform_(w)": torch.nn.init.xavier_uniform_,
    "gw.init.xavier_normal_(w)": torch.nn.init.xavier_normal_,
    "gw.init.kaiming_uniform_(w)": torch.nn.init.kaiming_uniform_,
    "gw.init.kaiming_normal_(w)": torch.nn.init.kaiming_normal_,
    "gw.init.normal_(w, std=0.02)": lambda w: torch.nn.init.normal_(w, std=0.02),
    "gw.init.uniform_(w, -0.5, 0.5)": lambda w: torch.nn.init.uniform_(w, -0.5, 0.5),
    "gw.init.zeros_(w)": torch.nn.init.zeros_,
    "gw.nn.init.ones_(w)": torch.nn.init.ones_,
    "gw.init.constant_(w, 0.3)": lambda w: torch.nn.init.constant_(w, 0.3),
    "gw.init.orthogonal_(w)": torch.nn.init.orthogonal_,
    "gw.init.trunc_normal_(w, std=0.5)": lambda w: torch.nn.init.trunc_normal_(w, std=0.5),
}


@pytest.mark.parametrize("typed", INITS)
def test_the_initializer_that_is_named_has_the_moments_of_torch(typed, monkeypatch):
    monkeypatch.setattr("gradwright.init.base.os.urandom", bytes)  # no seed is named: 0
    made, _ = named(typed, w=None)
    torch.manual_seed(0)
    theirs = INITS[typed](torch.empty(300, 300)).numpy()  # square: they count fans as [out, in]
    ours = made((300, 300), np.dtype("float32"))
    assert ours.mean() == pytest.approx(theirs.mean(), abs=0.01)
    assert ours.std() == pytest.approx(theirs.std(), rel=0.02)
    assert abs(ours).max() == pytest.approx(abs(theirs).max(), rel=0.2)


F = torch.nn.functional
LAYERS = {
    "gw.nn.Linear(4, 3)(x)": lambda x, v: F.linear(x, v["w"].T, v["b"]),
    "gw.nn.Dense(3)(x)": lambda x, v: F.linear(x, v["w"].T, v["b"]),
    "gw.nn.Conv2d(4, 2, 3, padding=1)(image)": lambda x, v: F.conv2d(x, v["w"], v["b"], padding=1),
    "gw.nn.LayerNorm(4)(x)": lambda x, v: F.layer_norm(x, (4,), v["gain"], v["bias"]),
    "gw.nn.Embedding(5, 3)(ids)": lambda x, v: F.embedding(x, v["table"]),
    "gw.nn.BatchNorm2d(4)(image)": lambda x, v: F.batch_norm(
        x, *(v[f"batch_norm/{n}"] for n in ("running_mean", "running_var", "weight", "bias"))
    ),
    "gw.nn.Dropout(0.5)(x)": lambda x, v: x,
}


@pytest.mark.parametrize("typed", LAYERS)
def test_a_layer_is_a_function_of_parameters_that_are_yours(typed):
    rng = np.random.default_rng(0)
    feeds = {
        "x": rng.standard_normal((5, 4)).astype(np.float32),
        "image": rng.standard_normal((2, 4, 5, 5)).astype(np.float32),
        "ids": np.array([1, 4, 0]),
    }
    g = gw.Graph()
    given = {n: g.placeholder(n, v.shape, v.dtype) for n, v in feeds.items()}
    y, _ = named(typed, g=g, **given)
    values = {v.name: torch.from_numpy(g.values[v.name].copy()) for v in g.variables}
    of = torch.from_numpy(feeds[typed.rpartition("(")[2].rstrip(")")])
    wanted = LAYERS[typed](of, values).numpy()
    np.testing.assert_allclose(g.output(feeds, y)[y.name], wanted, rtol=2e-5, atol=1e-5)


def test_what_is_given_to_fit_is_said_of_the_whole_call():
    g = gw.Graph()
    w = g.variable("w", init=START)
    names = {"g": g, "loss": (w * w).sum(), "data": [{}, {}]}
    history, call = named("gw.Trainer(g, loss, epochs=3, clipnorm=1.0)", **names)
    assert call == "gw.Trainer(g, loss, clip_tensor_norm=1.0).fit(data, epochs=3)"
    assert history.epochs.rows == 3


def test_models_and_optimizers_say_who_does_what():
    g = gw.Graph()
    x, w = g.placeholder("x", (None,)), g.variable("w", (), init=2.0)
    y, v = x * w, g.variable("v", (), init=3.0, trainable=False)
    loss = gw.mean(y * y)
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.1))
    names = {"g": g, "x": x, "y": y, "loss": loss, "trainer": trainer, "feeds": {"x": [1.0]}}
    assert named("g.parameters()", **names)[0] == [w]
    assert named("g.named_parameters()", **names)[0] == {"w": w}
    assert named("g.state_dict()", **names)[0] == {"w": 2.0, "v": 3.0}
    assert named("g.forward(feeds)", **names)[0]["mul"].tolist() == [2.0]
    assert named("g.predict({'x': [3.0]})", **names)[0]["mul"].tolist() == [6.0]
    assert isinstance(named("g.train()", **names)[0], gw.Trainer)
    assert named("trainer.optimizer.step()", **names)[1] == "trainer.step(feeds)"
    assert g.values["w"] == pytest.approx(2.0 - 0.1 * 4.0)
    named("g.load_state_dict({'w': np.float32(5.0)})", **names)
    assert g.values["w"] == 5.0
    named("v.assign(v * 0.5)", v=v, **names)
    trainer.step({"x": [0.0]})
    assert g.values["v"] == pytest.approx(1.5)


def test_a_model_is_exported_by_save(tmp_path):
    pytest.importorskip("onnx")
    g = gw.Graph()
    gw.nn.relu(g.placeholder("x", ("B",)), name="y")
    f = tmp_path / "m.onnx"
    for typed in ("gw.onnx.export(g, f)", "gw.onnx.export(g, args, f, input_names=['x'])"):
        f.unlink(missing_ok=True)
        named(typed, g=g, f=f, args=None)
        assert gw.onnx.load(f).output({"x": [-1.0, 2.0]}, "y")["y"].tolist() == [0.0, 2.0]


def test_an_open_size_is_none():
    g = gw.Graph()
    x, call = named('g.placeholder("x", (-1, 784))', g=g)
    assert call == "g.placeholder('x', (None, 784))" and str(x.spec) == "f32[x_0, 784]"


def test_without_source_parameters_stand_for_arguments():
    scope = {"x": gw.Graph().placeholder("x", (2, 3))}
    with pytest.raises(AttributeError, match=r"did you mean gw.take_along_axis\(x, index, axis=d"):
        exec("x.gather(1, x)", scope)


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ("gw.optim.Adam(betas=(0.9,))", "beta2=(0.9,)[1]"),
        ("gw.optim.Adam(betas=b)", "beta1=b[0], beta2=b[1]"),
        ("gw.optim.Adam(**{'lr': 0.1})", "did you mean learning_rate=lr?"),
        ("x.gather(*args)", "gw.take_along_axis(x, index, axis=dim)"),
        ("x.gather(1, x, 3, 4)", "gw.take_along_axis(x, x, axis=1)? (left out: 3, 4;"),
        ("x.sum(**{'dim': 0})", "did you mean axis=dim?"),
        ("[v.unsqueeze(0) for v in [x]]", "did you mean v.expand_dims(0)?"),
        ("(x + 1).view(\n  2,\n  -1)", "did you mean (x + 1).reshape(2, -1)?"),
        ("gw.pad(x, (1, 2, 3))", "does not fit rank 2"),
        ("getattr(x, 'unsqueeze')", "did you mean x.expand_dims(dim)?"),
        ("gw.nn.relu(x, inplace=True)", "did you mean gw.nn.relu(x)? (leave it out)"),
        ("relu(x, inplace=True)", "did you mean relu(x)? (leave it out)"),
    ],
)
def test_however_a_call_is_written_the_message_is_one(typed, message):
    names = {"gw": gw, "x": gw.Graph().placeholder("x", (2, 3)), "args": (1,), "b": (0.9, 0.99)}
    with pytest.raises((AttributeError, TypeError, gw.errors.GradwrightError)) as caught:
        run(typed, {**names, "relu": gw.nn.relu})
    assert message in str(caught.value)


def test_looking_whether_a_name_is_there_says_no():
    x = gw.Graph().placeholder("x", (2, 3))
    assert not hasattr(x, "detach") and not hasattr(gw.nn, "ReLU") and not hasattr(x.graph, "train")
    assert not hasattr(gw.optim.SGD(), "zero_grad") and not hasattr(gw.schedules, "StepLR")
