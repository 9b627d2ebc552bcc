"""What was typed stands in the call that a message names, or the message says it is left out."""

from __future__ import annotations

import contextlib
import subprocess
import sys

import numpy as np
import pytest

import gradwright as gw
from tests.words.test_words_of_others import advised, run

torch = pytest.importorskip("torch")
optax = pytest.importorskip("optax")
F = torch.nn.functional
RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 4)).astype(np.float32)
TABLE = RNG.standard_normal((5, 2)).astype(np.float32)
IDS, OFFSETS = np.array([1, 4, 0, 2, 2]), np.array([0, 2, 3])
GIVEN = {"x": X, "w": TABLE, "ids": IDS, "offsets": OFFSETS, "t": np.float32(0.5)}


def names_here():
    g = gw.Graph()
    names = {n: g.placeholder(f"in_{n}", v.shape, v.dtype) for n, v in GIVEN.items()}
    v = g.variable("v", init=np.ones(3, np.float32))
    return {
        **names,
        "g": g,
        "gw": gw,
        "np": np,
        "v": v,
        "options": {},
        "r": None,
        "loss": (v * v).sum(),
        "data": {"in_x": X},
    }


def message(typed, names=None):
    with pytest.raises((AttributeError, TypeError, gw.errors.GradwrightError)) as caught:
        run(typed, names or names_here())
    return str(caught.value)


TO_OPTIMIZERS = {
    "gw.optim.RMSprop(learning_rate=0.5)": (
        "gw.optim.RMSProp(0.5, rho=0.9, eps=1e-07, eps_inside=True)"
    ),
    "gw.optim.RMSprop(learning_rate=0.01, rho=0.8, momentum=0.9, epsilon=1e-3)": (
        "gw.optim.RMSProp(0.01, rho=0.8, eps=0.001, momentum=0.9, eps_inside=True)"
    ),
    "gw.optim.RMSprop(0.01, alpha=0.9, momentum=0.9)": (
        "gw.optim.RMSProp(0.01, rho=0.9, momentum=0.9)"
    ),
    "gw.optim.RMSProp(1e-3, epsilon=1e-7)": "gw.optim.RMSProp(0.001, eps=1e-07, eps_inside=True)",
    "gw.optim.Adagrad([v], lr=0.5, lr_decay=0.01, initial_accumulator_value=0.1)": (
        "gw.optim.AdaGrad(gw.schedules.Inverse(0.5, 0.01), eps=1e-10, initial=0.1)"
    ),
    "gw.optim.Adagrad(0.5)": "gw.optim.AdaGrad(0.5, eps=1e-07, initial=0.1)",
    "gw.optim.Adagrad(0.5, lr_decay=0.01)": (
        "gw.optim.AdaGrad(gw.schedules.Inverse(0.5, 0.01), eps=1e-10)"
    ),
    "gw.optim.AdaGrad(0.5, lr_decay=0.01)": "gw.optim.AdaGrad(gw.schedules.Inverse(0.5, 0.01))",
    "gw.optim.AdaGrad([v], lr=0.5, lr_decay=0.01, initial_accumulator_value=0.2)": (
        "gw.optim.AdaGrad(gw.schedules.Inverse(0.5, 0.01), initial=0.2)"
    ),
    "gw.optim.Adam(0.1, amsgrad=True)": "gw.optim.AMSGrad(learning_rate=0.1)",
    "gw.optim.Adam([v], lr=0.1, amsgrad=True, weight_decay=0.3)": (
        "gw.Trainer(g, loss, optimizer=gw.optim.AMSGrad(learning_rate=0.1), l2=0.3)"
    ),
    "gw.optim.AdamW(0.1, amsgrad=True, weight_decay=0.3)": (
        "gw.optim.AMSGrad(learning_rate=0.1, weight_decay=0.3)"
    ),
    "gw.optim.Adam(0.1, amsgrad=False)": "gw.optim.Adam(learning_rate=0.1)",
    "gw.optim.Adam(0.1, b1=0.8, b2=0.99)": "gw.optim.Adam(0.1, beta1=0.8, beta2=0.99)",
    "gw.optim.adam(0.1)": "gw.optim.Adam(0.1)",
    "gw.optimizers.Adam(0.1, beta_1=0.8)": "gw.optim.Adam(learning_rate=0.1, beta1=0.8)",
    "gw.optim.NAdam(learning_rate=0.1)": "gw.optim.Nadam(0.1, momentum_decay=0.004)",
    "gw.optim.Adamax(learning_rate=0.1)": "gw.optim.AdaMax(0.1, eps=1e-07)",
    "gw.optim.Adadelta(0.3)": "gw.optim.AdaDelta(0.3, rho=0.95, eps=1e-07)",
    "gw.optim.Adam(0.1, clipnorm=2.0)": (
        "gw.Trainer(g, loss, optimizer=gw.optim.Adam(0.1), clip_tensor_norm=2.0)"
    ),
    "gw.optim.Adam(0.1, global_clipnorm=2.0, weight_decay=0.1)": (
        "gw.Trainer(g, loss, optimizer=gw.optim.Adam(0.1), clip_norm=2.0, l2=0.1)"
    ),
    "gw.Trainer(g, loss, clipnorm=2.0)": "gw.Trainer(g, loss, clip_tensor_norm=2.0)",
    "gw.Trainer(g, loss, global_clipnorm=2.0)": "gw.Trainer(g, loss, clip_norm=2.0)",
    "gw.Trainer(g, loss, epochs=1, batch_size=3, clipvalue=2.0)": (
        "gw.Trainer(g, loss, clip_value=2.0).fit(data, epochs=1, batch_size=3)"
    ),
    "gw.nn.batch_norm(x, axis=-1, momentum=0.75, epsilon=1e-3)": (
        "gw.nn.batch_norm(x, axis=-1, momentum=1 - 0.75, eps=0.001)"
    ),
    "gw.nn.BatchNormalization(axis=-1, momentum=0.75, epsilon=1e-5)(x)": (
        "gw.nn.batch_norm(x, axis=-1, momentum=1 - 0.75, eps=1e-05)"
    ),
    "gw.nn.BatchNorm1d(4, eps=1e-3, momentum=0.01)(x)": (
        "gw.nn.batch_norm(x, momentum=0.01, eps=0.001)"
    ),
    "gw.layers.Embedding(input_dim=10, output_dim=4)(ids)": (
        "gw.nn.embedding(ids, "
        "g.variable('table', (10, 4), init=gw.init.uniform(low=-0.05, high=0.05)))"
    ),
    "gw.Trainer(g, loss, lr_scheduler=gw.schedules.Step(0.1, 2))": (
        "gw.Trainer(g, loss, optimizer=gw.optim.Adam(gw.schedules.Step(0.1, 2)))"
    ),
    'g.variable("n", (3,), "float64", init=np.ones(3))': (
        "g.variable('n', (3,), init=np.ones(3), dtype='float64')"
    ),
}


@pytest.mark.parametrize("typed", TO_OPTIMIZERS)
def test_all_that_was_typed_stands_in_the_call_that_is_named_and_runs(typed):
    names = names_here()
    call = advised(message(typed, names))
    assert call == TO_OPTIMIZERS[typed]
    with names["g"] if typed.startswith(("gw.nn", "gw.layers")) else contextlib.nullcontext():
        run(call, names)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("gw.optim.RMSprop([v], lr=0.1, foreach=True)", "(left out: foreach=True; parameters are"),
        ("gw.optim.Adagrad([v], 0.1)", "(parameters are left out: a trainer moves all"),
        ("gw.optim.SGD([{'params': [v], 'lr': 0.2}], lr=0.1)", "gw.Group sets some apart"),
        ("gw.layers.Dense(3, kernel_regularizer=r)(x)", "left out: kernel_regularizer=r; layers"),
        ("gw.optim.RMSprop([v], lr=0.1, **options)", "(left out: **options; parameters are"),
        ("gw.optim.Adam(lr=0.1, **{'foo': 1})", "gw.optim.Adam(learning_rate=0.1, **{'foo': 1})"),
        ("gw.nn.BatchNorm1d(16, affine=False)(x)", "left out: affine=False"),
        ("gw.nn.MaxPool2d(2, ceil_mode=True)(x)", "left out: ceil_mode=True"),
        ("gw.optim.Adam(1e-3, epsilon=1e-7)", "eps=lambda s: 1e-7 / (1 - 0.999 ** (s + 1)) ** 0.5"),
        ("gw.max(x, 1, keepdim=True)", "values alone, so no [0] behind it"),
        ("gw.layers.Embedding(10, 4)(ids)", "in Keras with gw.init.uniform(low=-0.05, high=0.05)"),
    ],
)
def test_what_has_no_place_or_means_something_else_is_said(typed, said):
    assert said in message(typed)


VALUES = {
    "gw.concatenate([x, x], axis=1)": lambda: np.concatenate([X, X], axis=1),
    "gw.layers.Concatenate()([x, x])": lambda: np.concatenate([X, X], axis=-1),
    "gw.vmap(lambda a, b: a * b)(x, x)": lambda: X * X,
    "gw.vmap(lambda a: a.sum())(x)": lambda: X.sum(1),
    "gw.map_fn(lambda a, b: a * b, x, x)": lambda: X * X,
    "gw.fori_loop(0, 3, lambda i, y: y * 2.0 + i, t)": lambda: ((0.5 * 2) * 2 + 1) * 2 + 2,
    "gw.grad(lambda a: (a * a).sum())(x)": lambda: 2 * X,
    "gw.full_like(x, t)": lambda: np.full_like(X, 0.5),
    "gw.full((2, 3), 1j, dtype='complex128')": lambda: np.full((2, 3), 1j),
    "gw.matmul(x, x, transpose_b=True)": lambda: X @ X.T,
    "gw.matmul(x, x, transpose_a=True)": lambda: X.T @ X,
    "gw.nn.embedding_bag(ids, w, offsets=offsets)": lambda: F.embedding_bag(
        *map(torch.from_numpy, (IDS, TABLE, OFFSETS))
    ),
    "gw.nn.embedding_bag(ids, w, offsets=offsets, mode='sum')": lambda: F.embedding_bag(
        *map(torch.from_numpy, (IDS, TABLE, OFFSETS)), mode="sum"
    ),
    "gw.nn.pairwise_distance(x, x, keepdim=True)": lambda: F.pairwise_distance(
        torch.from_numpy(X), torch.from_numpy(X), keepdim=True
    ),
    "gw.loss.softmax_cross_entropy_with_integer_labels(x, ids[:3] % 4)": lambda: (
        optax.softmax_cross_entropy_with_integer_labels(X, IDS[:3] % 4)
    ),
    "gw.loss.sigmoid_binary_cross_entropy(x, x > 0)": lambda: optax.sigmoid_binary_cross_entropy(
        X, X > 0
    ),
}


@pytest.mark.parametrize("typed", VALUES)
def test_the_call_that_is_named_gives_their_numbers(typed):
    names = names_here()
    call = advised(message(typed, names))
    with names["g"]:
        y = run(call, names)
    feeds = {f"in_{n}": v for n, v in GIVEN.items()}
    wanted = np.asarray(VALUES[typed]())
    (ours,) = names["g"].output(feeds, y).values()
    assert ours.shape == wanted.shape
    np.testing.assert_allclose(ours, wanted, rtol=2e-5, atol=1e-6)


def test_the_activation_of_a_dense_layer_is_kept():
    names = names_here()
    call = advised(message('gw.layers.Dense(3, activation="relu")(x)', names))
    y = run(call, names)
    values = names["g"].values
    wanted = np.maximum(X @ values["w"] + values["b"], 0)
    np.testing.assert_allclose(names["g"].output({"in_x": X}, y)[y.name], wanted, rtol=1e-5)


@pytest.mark.parametrize("padding", ["same", "valid"])
def test_a_convolution_of_keras_has_its_channels_last(padding):
    names = names_here()
    image = RNG.standard_normal((2, 6, 6, 3)).astype(np.float32)
    names["x"] = names["g"].placeholder("image", image.shape)
    y = run(advised(message(f"gw.layers.Conv2D(4, 3, padding={padding!r})(x)", names)), names)
    kernel = torch.from_numpy(names["g"].values["w"].copy())
    wanted = F.conv2d(torch.from_numpy(image).permute(0, 3, 1, 2), kernel, padding=padding)
    ours = names["g"].output({"image": image}, y)[y.name]
    np.testing.assert_allclose(ours, wanted.permute(0, 2, 3, 1), rtol=2e-5, atol=1e-5)


def keras_exponential(step, rate, every, factor, *, staircase=False):
    times = step // every if staircase else step / every
    return rate * factor**times


SCHEDULES = {
    "gw.schedules.cosine_decay_schedule(0.1, 8, alpha=0.2)": (
        optax.cosine_decay_schedule(0.1, 8, alpha=0.2)
    ),
    "gw.schedules.CosineDecay(0.1, 8, 0.2)": optax.cosine_decay_schedule(0.1, 8, alpha=0.2),
    "gw.schedules.linear_schedule(0.1, 0.01, 5)": optax.linear_schedule(0.1, 0.01, 5),
    "gw.schedules.exponential_decay(0.1, 3, 0.5)": optax.exponential_decay(0.1, 3, 0.5),
    "gw.schedules.warmup_cosine_decay_schedule(0.02, 0.1, 3, 10, 0.01)": (
        optax.warmup_cosine_decay_schedule(0.02, 0.1, 3, 10, 0.01)
    ),
    "gw.schedules.ExponentialDecay(0.1, 3, 0.5)": lambda s: keras_exponential(s, 0.1, 3, 0.5),
    "gw.schedules.ExponentialDecay(0.1, 3, 0.5, staircase=True)": (
        lambda s: keras_exponential(s, 0.1, 3, 0.5, staircase=True)
    ),
    "gw.schedules.PiecewiseConstantDecay([2, 5], [0.3, 0.2, 0.1])": (
        lambda s: 0.3 if s <= 2 else 0.2 if s <= 5 else 0.1
    ),
    "gw.schedules.InverseTimeDecay(0.1, 4, 0.5)": lambda s: 0.1 / (1 + 0.5 * s / 4),
}


@pytest.mark.parametrize("typed", SCHEDULES)
def test_schedules_of_keras_and_optax(typed):
    schedule = run(advised(message(typed)), {"gw": gw})
    for step in range(12):
        assert schedule(step) == pytest.approx(float(SCHEDULES[typed](step)), rel=1e-5), step


def test_offsets_are_no_weights():
    said = message("gw.nn.embedding_bag(ids.reshape(1, 5), w, ids.reshape(1, 5))")
    assert "does not take int64 as per_sample_weights" in said
    assert "gw.unsorted_segment_sum(gw.nn.embedding(ids, weight), bag_of_id, n_bags)" in said
    assert "padding_idx >= 0" in message("gw.nn.embedding_bag(ids, w, padding_idx=-1)")


def test_gelu_of_flax_names_its_word():
    assert "try:  approximate='tanh'" in message("gw.nn.gelu(x, approximate=True)")


@pytest.mark.parametrize("name", ["glorot_uniform", "he_normal", "lecun_normal", "orthogonal"])
def test_an_initializer_by_name_is_the_one_proposed(name):
    said = message(f'g.variable("n", (3, 4), init="{name}")')
    assert f"try:  init=gw.init.{name}()" in said and callable(getattr(gw.init, name)())


def test_gradients_of_a_dict_name_its_values():
    assert "list(wrt.values())" in message('gw.gradients(loss, {"v": v})')


@pytest.mark.parametrize("typed", ["gw.keras", "gw.rearrange(x)", "gw.optim.Fterl(0.1)"])
def test_what_is_merely_alike_is_not_proposed(typed):
    assert "did you mean" not in message(typed)


def test_python_adds_no_guess_of_its_own_to_an_advice():
    code = "import gradwright as gw\ngw.optim.Adagrad"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert found.stderr.lower().count("did you mean") == 1
