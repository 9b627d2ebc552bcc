"""An MLP-Mixer (Tolstikhin et al. 2021) trains as one of Flax's layers, written in JAX, does."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import gradwright as gw

SIDE, PATCH, WIDTH, TOKENS_MLP, CHANNELS_MLP, BLOCKS, CLASSES = 8, 4, 8, 6, 12, 1, 3
TOKENS = (SIDE // PATCH) ** 2
BATCH, STEPS, WARMUP, PEAK, FLOOR, DECAY, CLIP, EPS = 8, 20, 4, 0.02, 0.001, 0.1, 1.0, 1e-6

rng = np.random.default_rng(0)
LABELS = rng.integers(0, CLASSES, (STEPS, BATCH))
IMAGES = rng.standard_normal((STEPS, BATCH, SIDE, SIDE, 3))
IMAGES[:, :, :PATCH] += LABELS[:, :, None, None, None] - 1


def published(jax, w, images, labels):
    """Return the loss; names are those of Flax's parameters, joined by slashes."""
    jnp = jax.numpy

    def dense(name, x):
        return x @ w[f"{name}/kernel"] + w[f"{name}/bias"]

    def mlp(name, x):
        return dense(f"{name}/Dense_1", jax.nn.gelu(dense(f"{name}/Dense_0", x)))

    def norm(name, x):
        centred = x - x.mean(-1, keepdims=True)
        scale = jax.lax.rsqrt((centred**2).mean(-1, keepdims=True) + EPS)
        return centred * scale * w[f"{name}/scale"] + w[f"{name}/bias"]

    x = jax.lax.conv_general_dilated(
        images,
        w["stem/kernel"],
        (PATCH, PATCH),
        "VALID",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    x = (x + w["stem/bias"]).reshape(len(images), TOKENS, WIDTH)
    for i in range(BLOCKS):
        block = f"MixerBlock_{i}"
        y = jnp.swapaxes(norm(f"{block}/LayerNorm_0", x), 1, 2)
        x = x + jnp.swapaxes(mlp(f"{block}/token_mixing", y), 1, 2)
        x = x + mlp(f"{block}/channel_mixing", norm(f"{block}/LayerNorm_1", x))
    logits = dense("head", norm("pre_head_layer_norm", x).mean(1))
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1).mean()


def ported() -> tuple[gw.Graph, gw.Tensor]:
    g = gw.Graph("mixer")

    def variable(name, shape, init=0.0):
        return g.variable(name, shape, init=init, dtype="float64")

    def dense(name, x, units, init=None):
        init = gw.init.lecun_normal(seed=len(g.nodes)) if init is None else init
        kernel = variable(f"{name}/kernel", (x.shape[-1], units), init)
        return gw.nn.linear(x, kernel, variable(f"{name}/bias", (units,)))

    def mlp(name, x, inner):
        y = gw.nn.gelu(dense(f"{name}/Dense_0", x, inner), approximate="tanh")
        return dense(f"{name}/Dense_1", y, x.shape[-1])

    def norm(name, x):
        scale = variable(f"{name}/scale", (WIDTH,), 1.0)
        return gw.nn.layer_norm(x, scale, variable(f"{name}/bias", (WIDTH,)), eps=EPS)

    x = g.placeholder("x", (None, SIDE, SIDE, 3), dtype="float64").transpose(0, 3, 1, 2)
    labels = g.placeholder("labels", (None,), dtype="int64")
    kernel = variable("stem/kernel", (WIDTH, 3, PATCH, PATCH), gw.init.lecun_normal(seed=0))
    x = gw.cnn.conv2d(x, kernel, variable("stem/bias", (WIDTH,)), stride=PATCH)
    x = x.reshape(-1, WIDTH, TOKENS).swapaxes(1, 2)
    for i in range(BLOCKS):
        with g.scope(f"MixerBlock_{i}"):
            y = norm("LayerNorm_0", x).swapaxes(1, 2)
            x = x + mlp("token_mixing", y, TOKENS_MLP).swapaxes(1, 2)
            x = x + mlp("channel_mixing", norm("LayerNorm_1", x), CHANNELS_MLP)
    logits = dense("head", norm("pre_head_layer_norm", x).mean(axis=1), CLASSES, init=0.0)
    return g, gw.loss.sparse_softmax_cross_entropy(labels, logits, name="loss")


def flax(g: gw.Graph) -> dict[str, np.ndarray]:
    """Return the parameters as Flax has them: kernels of convolutions are HWIO."""
    held = {v.name: g.values[v.name] for v in g.trainable}
    return {n: np.array(a.transpose(2, 3, 1, 0) if a.ndim == 4 else a) for n, a in held.items()}


def test_nadamw_with_warmup_clipping_and_masked_decay_goes_the_same_way() -> None:
    jax = pytest.importorskip("jax", reason="pip install -e '.[oracle]'")
    optax = pytest.importorskip("optax", reason="pip install -e '.[oracle]'")
    g, loss = ported()
    w = flax(g)
    kernels = {name: name.endswith("kernel") for name in w}
    schedule = optax.warmup_cosine_decay_schedule(0.0, PEAK, WARMUP, STEPS, FLOOR)

    def rate(step):
        """Return the rate in float64: of an integer step optax's is in float32."""
        return schedule(jax.numpy.asarray(step, "float64"))

    nadamw = optax.nadamw(rate, weight_decay=DECAY, mask=kernels)
    optimizer = optax.chain(optax.clip_by_global_norm(CLIP), nadamw)
    trainer = gw.Trainer(
        g,
        loss,
        gw.optim.Nadam(rate, weight_decay=DECAY),
        groups=[gw.Group([name for name in w if not kernels[name]], weight_decay=0.0)],
        clip_norm=CLIP,
    )

    @functools.partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})
    def step(w, state, images, labels):
        value, grads = jax.value_and_grad(lambda w: published(jax, w, images, labels))(w)
        updates, state = optimizer.update(grads, state, w)
        return optax.apply_updates(w, updates), state, value, optax.tree.norm(grads)

    wanted, norms, found = [], [], []
    with jax.enable_x64(True):
        w = jax.tree.map(jax.numpy.asarray, w)
        state = jax.jit(optimizer.init)(w)
        for images, labels in zip(IMAGES, LABELS, strict=True):
            w, state, value, norm = step(w, state, images, labels)
            wanted.append(value.item())
            norms.append(norm.item())
            found.append(trainer.step({"x": images, "labels": labels}).metrics["loss"])
    assert min(norms) < CLIP < max(norms)  # some steps are clipped, and some are not
    np.testing.assert_allclose(found, wanted, 1e-9)
    assert found[-1] < 0.7 * found[0]
    after = flax(g)
    for name, a in w.items():
        np.testing.assert_allclose(after[name], a, 1e-6, 1e-8, err_msg=name)
