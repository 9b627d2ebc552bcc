"""Labels and predictions in each other's place: told where it is sure, and only there."""

import numpy as np
import pytest

import gradwright as gw
from gradwright.errors import GraphError, TrainingError


@pytest.fixture
def net():
    g = gw.Graph()
    x, t = g.placeholder("x", (None, 4)), g.placeholder("t", (None, 3))
    w, b = g.variable("w", (4, 3), init=gw.init.he_normal(seed=0)), g.variable("b", (3,))
    return g, x, t, w, b


LOSSES = ("softmax_cross_entropy", "sigmoid_cross_entropy", "log_loss", "hinge", "sigmoid_focal")


@pytest.mark.parametrize("name", LOSSES)
def test_the_output_of_a_layer_as_labels_of_what_is_fed_is_refused(net, name):
    _, x, t, w, b = net
    loss = getattr(gw.loss, name)
    for logits in (x @ w, x @ w + b, gw.nn.linear(x, w, b), (x @ w + b).astype("float64")):
        with pytest.raises(GraphError, match="in each other's place"):
            loss(logits, t)
        loss(t, logits)


def test_the_message_gives_the_call_the_other_way_round(net):
    _, x, t, w, _ = net
    logits = x @ w
    with pytest.raises(GraphError) as caught:
        gw.loss.softmax_cross_entropy(logits, t, label_smoothing=0.1, name="loss")
    assert caught.value.hint == (
        "gw.loss.softmax_cross_entropy(t, logits, label_smoothing=0.1, name='loss')"
    )


def test_one_hot_labels_and_a_teacher_in_the_place_of_logits_are_refused(net):
    g, x, _, w, b = net
    c = g.placeholder("c", (None,), "int64")
    for settled in (gw.one_hot(c, 3), gw.nn.softmax(x @ gw.stop_gradient(w) * 2.0)):
        with pytest.raises(GraphError, match="in each other's place"):
            gw.loss.softmax_cross_entropy(x @ w + b, settled)


def test_what_may_be_meant_is_let_through(net):
    g, x, t, w, b = net
    logits, other = x @ w + b, x @ w * 2.0
    soft = gw.loss.softmax_cross_entropy
    soft(gw.nn.softmax(logits), t)  # the reverse cross entropy, against fed logits
    soft(gw.nn.softmax(other), logits)  # a teacher
    soft(logits, other)  # one network's output for another's
    soft(gw.exp(gw.nn.log_softmax(logits)), t)
    soft(gw.clip(logits, 0.0, 1.0), t)
    soft(g.placeholder("a", (None, 3)), g.placeholder("b2", (None, 3)))
    soft(x[:, :3] * 2.0 + 1.0, t)  # labels without trained weights
    gw.loss.mean_squared_error(logits, t)  # the same either way
    gw.loss.kl_divergence(logits, t)
    w.trainable = b.trainable = False
    soft(x @ w + b, t)


def trained(g, x, t, w, b, loss, labels, **options):
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.1), **options)
    data = {"x": np.ones((4, 4), np.float32), "t": np.asarray(labels, np.float32)}
    return trainer.fit(data, batch_size=2, shuffle=False, progress=False)


SIGNS = np.where(np.arange(12).reshape(4, 3) % 2, 1.0, -1.0)


@pytest.mark.parametrize("name", ["sigmoid_cross_entropy", "hinge", "sigmoid_focal"])
def test_signs_fed_as_labels_of_yes_and_no_are_refused_at_the_first_step(net, name):
    g, x, t, w, b = net
    loss = getattr(gw.loss, name)(t, x @ w + b, name="loss")
    before = g.values["w"].copy()
    with pytest.raises(TrainingError, match=r"labels of 'loss', fed as 't', are -1, 1") as caught:
        trained(g, x, t, w, b, loss, SIGNS)
    assert caught.value.hint == "(t + 1) / 2"
    assert np.array_equal(before, g.values["w"])
    trained(g, x, t, w, b, loss, (SIGNS + 1) / 2)


def test_class_numbers_fed_as_labels_of_yes_and_no_are_refused(net):
    g, x, t, w, b = net
    loss = gw.loss.sigmoid_cross_entropy(t.reshape(-1, 3), x @ w + b, name="loss")
    with pytest.raises(TrainingError, match=r"are 0, 1, 2, 3\n.*\n.*sparse_softmax_cross_entropy"):
        trained(g, x, t, w, b, loss, np.arange(12).reshape(4, 3) % 4)
    with pytest.raises(TrainingError, match="are 0, 1, 2, 3"):
        trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.1))
        data = {"x": np.ones((4, 4)), "t": np.arange(12.0).reshape(4, 3) % 4}
        trainer.fit(data, batch_size=2, shuffle=False, unroll=2, progress=False)


def test_shares_and_labels_without_weight_are_let_through(net):
    g, x, t, w, b = net
    logits = x @ w + b
    plain = gw.loss.sigmoid_cross_entropy(t, logits)
    for labels in (SIGNS > 0, np.full((4, 3), 0.3), 0.3 + 0.9 * (SIGNS > 0), 1.2 * (SIGNS > 0)):
        trained(g, x, t, w, b, plain, labels)
    shown = gw.cast(t >= 0.0, "float32")
    trained(g, x, t, w, b, gw.loss.sigmoid_cross_entropy(t, logits, shown), SIGNS)
    trained(g, x, t, w, b, gw.loss.softmax_cross_entropy(t, logits), SIGNS)  # returns, weighted
    trained(g, x, t, w, b, gw.loss.sigmoid_cross_entropy((t + 1.0) * 0.5, logits), SIGNS)


def test_batch_norm_in_the_order_of_torch_is_refused(net):
    g, x, *_ = net
    names = ("mean", "var", "gain", "bias")
    mean, var, gain, bias = (g.variable(n, (4,), init=float(n in ("var", "gain"))) for n in names)
    with pytest.raises(GraphError, match=r"weight 'mean' and running_var 'bias' are all zeros"):
        gw.nn.batch_norm(x, mean, var, gain, bias)
    gw.nn.batch_norm(x, gain, bias, mean, var)
    gw.nn.batch_norm(x, bias, running_var=var)  # a last weight may begin as zeros
