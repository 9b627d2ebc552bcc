"""The networks of the gallery, small and whole."""

from __future__ import annotations

import tempfile
from pathlib import Path

import gradwright as gw


def dense(g, x, size, name, act=None):
    """Return an affine map of the last axis, with its weights, under a name."""
    with g.scope(name):
        w = g.variable("w", (x.shape[-1], size), init=gw.init.he_normal(seed=size))
        y = x @ w + g.variable("b", (size,))
        return y if act is None else act(y)


def conv(g, x, channels, name, act=gw.nn.relu):
    """Return a 3x3 convolution, with its weights, under a name."""
    with g.scope(name):
        shape = (channels, x.shape[1], 3, 3)
        w = g.variable("w", shape, init=gw.init.he_normal(seed=channels))
        y = gw.cnn.conv2d(x, w, g.variable("b", (channels,)), padding="same")
        return y if act is None else act(y)


def perceptron():
    """A perceptron with one hidden layer.

    The first network of most books: two affine maps, a relu between them, a loss.
    """
    g = gw.Graph("perceptron")
    x, t = g.placeholder("x", ("B", 784)), g.placeholder("t", ("B",), dtype="int64")
    h = dense(g, x, 128, "hidden", gw.nn.relu)
    logits = dense(g, h, 10, "head")
    gw.loss.sparse_softmax_cross_entropy(t, logits, name="loss")
    return g


def convolutional():
    """A convolutional network.

    Convolutions and poolings in turn, then an affine map: LeCun et al. 1989.
    """
    g = gw.Graph("convolutional")
    h, t = g.placeholder("image", ("B", 3, 32, 32)), g.placeholder("t", ("B",), dtype="int64")
    for number, channels in enumerate((16, 32, 64)):
        with g.scope(f"features{number}"):
            h = gw.cnn.max_pool2d(conv(g, h, channels, "conv"), 2)
    logits = dense(g, h.reshape(-1, 64 * 4 * 4), 10, "head")
    gw.loss.sparse_softmax_cross_entropy(t, logits, name="loss")
    return g


def residual():
    """Residual blocks.

    Each block adds to what comes in, so that the gradient has a straight way back: He et al. 2015.
    """
    g = gw.Graph("residual")
    h = conv(g, g.placeholder("image", ("B", 3, 32, 32)), 16, "stem")
    for number in range(3):
        with g.scope(f"block{number}"):
            inner = conv(g, conv(g, h, 16, "first"), 16, "second", act=None)
            h = gw.nn.relu(gw.nn.batch_norm(inner, axis=1, name="norm") + h)
    dense(g, h.mean(axis=(2, 3)), 10, "head", gw.nn.softmax)
    return g


def u_net():
    """A U-Net.

    Down to a coarse picture of the whole and up again, with what was seen on the way down beside
    it: Ronneberger et al. 2015.
    """
    g = gw.Graph("u_net")
    h = g.placeholder("image", ("B", 1, 64, 64))
    seen = []
    for number, channels in enumerate((8, 16)):
        with g.scope(f"down{number}"):
            h = conv(g, conv(g, h, channels, "first"), channels, "second")
            seen.append(h)
            h = gw.cnn.max_pool2d(h, 2)
    with g.scope("bottom"):
        h = conv(g, conv(g, h, 32, "first"), 32, "second")
    for number, channels in ((1, 16), (0, 8)):
        with g.scope(f"up{number}"):
            h = gw.concat([gw.cnn.upsampling2d(h, 2), seen[number]], axis=1)
            h = conv(g, conv(g, h, channels, "first"), channels, "second")
    conv(g, h, 1, "mask", act=gw.nn.sigmoid)
    return g


def lstm():
    """An LSTM, written out.

    Four gates and a cell that remembers, as the body of a loop: Hochreiter and Schmidhuber 1997.
    ``gw.rnn.lstm`` is the same as one op.
    """
    g = gw.Graph("lstm")
    tokens = g.placeholder("tokens", ("B", "T", 16))
    w = g.variable("w", (16, 128), init=gw.init.xavier_uniform(seed=0))
    u = g.variable("u", (32, 128), init=gw.init.orthogonal(seed=1))
    b = g.variable("b", (128,))

    def step(state, x):
        h, c = state
        i, f, o, new = gw.split(x @ w + h @ u + b, 4, axis=1)
        c = gw.nn.sigmoid(f) * c + gw.nn.sigmoid(i) * gw.tanh(new)
        h = gw.nn.sigmoid(o) * gw.tanh(c)
        return (h, c), h

    start = gw.zeros_like(tokens[:, 0, :1] * u[:, 0])
    (h, _), _ = gw.scan(step, (start, start), tokens, axis=1, name="read")
    dense(g, h, 2, "head", gw.nn.softmax)
    return g


def attention():
    """Attention with four heads.

    Each word asks all words, and takes a mixture of what they say: Vaswani et al. 2017.
    """
    g = gw.Graph("attention")
    x = g.placeholder("x", ("B", "T", 64))
    batch, time, _ = x.shape

    def heads(name):
        return dense(g, x, 64, name).reshape(batch, time, 4, 16).transpose(0, 2, 1, 3)

    q, k, v = heads("query"), heads("key"), heads("value")
    weights = gw.nn.softmax(q @ k.mT / 4.0, name="weights")
    mixed = (weights @ v).transpose(0, 2, 1, 3).reshape(batch, time, 64)
    dense(g, mixed, 64, "out")
    return g


def transformer():
    """A decoder of three layers.

    Embedding, then attention and a small perceptron in turn, each added to what goes by; a matrix
    says how likely each next word is.
    """
    g = gw.Graph("transformer")
    ids = g.placeholder("ids", ("B", "T"), dtype="int64")
    table = g.variable("embedding", (256, 64), init=gw.init.normal(std=0.02, seed=0))
    h = gw.gather(table, ids, axis=0)
    for number in range(3):
        with g.scope(f"layer{number}"):
            with g.scope("attention"):
                n = gw.nn.rms_norm(h)
                q, k, v = (
                    dense(g, n, 64, name).reshape(*h.shape[:2], 4, 16).transpose(0, 2, 1, 3)
                    for name in ("query", "key", "value")
                )
                mixed, *_ = gw.nn.attention(q, k, v, is_causal=True)
                mixed = mixed.transpose(0, 2, 1, 3).reshape(*h.shape[:2], 64)
                h = h + dense(g, mixed, 64, "out")
            with g.scope("mlp"):
                h = h + dense(g, dense(g, gw.nn.rms_norm(h), 256, "up", gw.nn.gelu), 64, "down")
    dense(g, gw.nn.rms_norm(h), 256, "head")
    return g


def autoencoder():
    """A variational autoencoder.

    A picture becomes the mean and width of a few numbers; one draw of them becomes a picture
    again: Kingma and Welling 2013.
    """
    g = gw.Graph("autoencoder")
    x = g.placeholder("x", ("B", 784))
    with g.scope("encoder"):
        h = dense(g, x, 128, "hidden", gw.nn.relu)
        mean, log_width = dense(g, h, 8, "mean"), dense(g, h, 8, "log_width")
    with g:
        noise = gw.random.normal(shape=mean.shape, name="noise")
    z = mean + gw.exp(log_width) * noise
    with g.scope("decoder"):
        y = dense(g, dense(g, z, 128, "hidden", gw.nn.relu), 784, "pixels", gw.nn.sigmoid)
    error = gw.square(y - x).sum(axis=1)
    apart = 0.5 * (gw.square(mean) + gw.exp(2.0 * log_width) - 2.0 * log_width - 1.0).sum(axis=1)
    gw.mean(error + apart, name="loss")
    return g


def adversarial():
    """A generator and its critic.

    One network makes pictures of noise, the other tells them from real ones, and both learn:
    Goodfellow et al. 2014. The critic is a function, called twice.
    """
    g = gw.Graph("adversarial")
    z, real = g.placeholder("noise", ("B", 32)), g.placeholder("real", ("B", 784))
    with g.scope("generator"):
        fake = dense(g, dense(g, z, 128, "hidden", gw.nn.relu), 784, "pixels", gw.nn.sigmoid)
    w = g.variable("critic/w", (784, 64), init=gw.init.he_normal(seed=1))
    v = g.variable("critic/v", (64,), init=gw.init.normal(std=0.1, seed=2))
    critic = gw.function("critic")(lambda x, w, v: gw.nn.leaky_relu(x @ w) @ v)
    of_real, of_fake = critic(real, w, v), critic(fake, w, v)
    gw.mean(gw.nn.softplus(-of_real) + gw.nn.softplus(of_fake), name="critic_loss")
    gw.mean(gw.nn.softplus(-of_fake), name="generator_loss")
    return g


def maml():
    """Learning to learn: MAML, unrolled.

    Two steps of gradient descent on one task, and the loss on what the task held back. The gradient
    of that goes through both steps: Finn et al. 2017.
    """
    g = gw.Graph("maml")
    x, t = g.placeholder("x", ("N", 1)), g.placeholder("t", ("N", 1))
    held_x, held_t = g.placeholder("held_x", ("M", 1)), g.placeholder("held_t", ("M", 1))
    w = g.variable("w", (1, 16), init=gw.init.he_normal(seed=0))
    v = g.variable("v", (16, 1), init=gw.init.he_normal(seed=1))

    def loss(x, t, w, v, name):
        return gw.mean(gw.square(gw.tanh(x @ w) @ v - t), name=name)

    fast = (w, v)
    for number in range(2):
        with g.scope(f"step{number}"):
            slopes = gw.gradients(loss(x, t, *fast, "inner"), list(fast))
            fast = tuple(p - 0.1 * slope for p, slope in zip(fast, slopes, strict=True))
    loss(held_x, held_t, *fast, "loss")
    return g


def mixture_of_experts():
    """A mixture of experts.

    A gate sends each row to the best of four networks: Shazeer et al. 2017.
    """
    g = gw.Graph("mixture")
    x = g.placeholder("x", ("B", 32))
    gate = gw.nn.softmax(dense(g, x, 4, "gate"), name="shares")
    answers = []
    for number in range(4):
        with g.scope(f"expert{number}"):
            answers.append(dense(g, dense(g, x, 64, "up", gw.nn.gelu), 32, "down"))
    (gw.stack(answers, axis=1) * gate[:, :, None]).sum(axis=1, name="y")
    return g


def from_onnx():
    """An ONNX file, as it is read.

    The convolutional network above, written to a file and read again. Weights stand in the card of
    the layer that reads them; a plus opens it.
    """
    path = Path(tempfile.mkdtemp()) / "model.onnx"
    graph = convolutional()
    gw.onnx.save(graph, path, ["head/add"])
    return gw.onnx.load(path)
