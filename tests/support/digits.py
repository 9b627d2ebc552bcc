"""Train scikit-learn's handwritten digits (1,797 images of 8x8) to 98 % accuracy on held-out ones.

    python tests/support/digits.py

The data is the test set of "Optical Recognition of Handwritten Digits" (Alpaydin & Kaynak, 1998),
which scikit-learn carries. One in five images is held out, the same ones in every run.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

import gradwright as gw


def load() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return training and test data by placeholder name."""
    images, labels = load_digits(return_X_y=True)
    images = (images / 16.0).astype("float32")
    order = np.random.default_rng(0).permutation(len(images))
    held_out, kept = np.split(order, [len(order) // 5])
    train, test = ({"x": images[rows], "t": labels[rows]} for rows in (kept, held_out))
    return train, test


def build(hidden: int = 256) -> gw.Trainer:
    """Return the trainer of a network with one hidden layer."""
    g = gw.Graph("digits")
    x = g.placeholder("x", (None, 64))
    t = g.placeholder("t", (None,), dtype="int64")
    with g.scope("hidden"):
        w = g.variable("w", (64, hidden), init=gw.init.he_normal(seed=0))
        b = g.variable("b", (hidden,))
        h = gw.nn.relu(x @ w + b)
    w2 = g.variable("w2", (hidden, 10), init=gw.init.xavier_uniform(seed=1))
    b2 = g.variable("b2", (10,))
    logits = h @ w2 + b2
    loss = gw.loss.sparse_softmax_cross_entropy(t, logits, name="loss")
    schedule = gw.schedules.Cosine(5e-3, steps=30 * 23, warmup=23)
    return gw.Trainer(
        g,
        loss,
        optimizer=gw.optim.AdamW(schedule),
        metrics={"accuracy": gw.metrics.accuracy(t, logits)},
        clip_norm=1.0,
    )


def main() -> gw.History:
    """Train for 30 epochs and return the history."""
    train, test = load()
    return build().fit(train, epochs=30, batch_size=64, validation=test)


if __name__ == "__main__":
    history = main()
    print(history)
    reached = history.last()["val_accuracy"]
    raise SystemExit(None if reached >= 0.98 else f"only {reached:.1%} on held-out digits")
