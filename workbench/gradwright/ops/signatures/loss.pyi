"""Functions of the namespace loss; written by python -m gradwright.ops.stubs."""

from numpy.typing import ArrayLike

from gradwright.graph import Tensor

def absolute_difference(
    labels: Tensor | ArrayLike,
    predictions: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    *,
    reduction: str = "mean_by_nonzero_weight_count",
    name: str | None = None,
) -> Tensor:
    """Absolute error.

    l = |prediction − label|

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, p = g.constant([1.0, 2.0]), g.constant([1.0, 4.0])
    >>> float(g.output({}, gw.loss.absolute_difference(y, p, name="loss"))["loss"])
    1.0

    Attributes:
        reduction: How many become one.
    """

def cosine_distance(
    labels: Tensor | ArrayLike,
    predictions: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    *,
    reduction: str = "mean_by_nonzero_weight_count",
    axis: int = -1,
    name: str | None = None,
) -> Tensor:
    """One minus the inner product; labels and predictions are taken to have norm 1 already.

    l = 1 − Σ label·prediction over ``axis``

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, p = g.constant([[1.0, 0.0]]), g.constant([[0.6, 0.8]])
    >>> round(float(g.output({}, gw.loss.cosine_distance(y, p, name="loss"))["loss"]), 4)
    0.4

    Attributes:
        reduction: How many become one.
        axis: Axis of classes or features, summed over.
    """

def hinge(
    labels: Tensor | ArrayLike,
    predictions: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    *,
    reduction: str = "mean_by_nonzero_weight_count",
    name: str | None = None,
) -> Tensor:
    """Margin loss; labels are 0 and 1, predictions any number (Cortes and Vapnik 1995).

    l = max(0, 1 − (2·label − 1)·prediction)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, p = g.constant([0.0, 1.0]), g.constant([-2.0, 0.5])
    >>> g.output({}, gw.loss.hinge(y, p, reduction="none", name="loss"))["loss"].tolist()
    [0.0, 0.5]

    Attributes:
        reduction: How many become one.
    """

def huber(
    labels: Tensor | ArrayLike,
    predictions: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    *,
    reduction: str = "mean_by_nonzero_weight_count",
    delta: float = 1.0,
    name: str | None = None,
) -> Tensor:
    """Squared error for small errors, absolute for large ones (Huber 1964).

    l = e²/2 for |e| ≤ δ, else δ(|e| − δ/2), with e = prediction − label

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, p = g.constant([0.0, 0.0]), g.constant([1.0, 3.0])
    >>> g.output({}, gw.loss.huber(y, p, reduction="none", name="loss"))["loss"].tolist()
    [0.5, 2.5]

    Attributes:
        reduction: How many become one.
        delta: Error at which the loss turns linear.
    """

def kl_divergence(
    labels: Tensor | ArrayLike,
    predictions: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    *,
    reduction: str = "mean_by_nonzero_weight_count",
    axis: int = -1,
    name: str | None = None,
) -> Tensor:
    """Relative entropy of two distributions (Kullback and Leibler 1951).

    l = Σ label·(log label − log prediction) over ``axis``, with 0·log 0 = 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, p = g.constant([[1.0, 0.0]]), g.constant([[0.5, 0.5]])
    >>> round(float(g.output({}, gw.loss.kl_divergence(y, p, name="loss"))["loss"]), 4)
    0.6931

    Attributes:
        reduction: How many become one.
        axis: Axis of classes or features, summed over.
    """

def l2_loss(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Half the sum of squares of a tensor, as a penalty on weights.

    y = ½·Σ x²

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.loss.l2_loss(g.constant([3.0, 4.0]), name="loss"))["loss"])
    12.5
    """

def log_loss(
    labels: Tensor | ArrayLike,
    predictions: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    *,
    reduction: str = "mean_by_nonzero_weight_count",
    epsilon: float = 1e-07,
    name: str | None = None,
) -> Tensor:
    """Cross entropy of probabilities; from logits, ``sigmoid_cross_entropy`` is more precise.

    l = −label·log(p + ε) − (1 − label)·log(1 − p + ε)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, p = g.constant([1.0, 0.0]), g.constant([0.5, 0.5])
    >>> round(float(g.output({}, gw.loss.log_loss(y, p, name="loss"))["loss"]), 4)
    0.6931

    Attributes:
        reduction: How many become one.
        epsilon: Added to probabilities, so that the loss stays finite.
    """

def log_poisson(
    labels: Tensor | ArrayLike,
    predictions: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    *,
    reduction: str = "mean_by_nonzero_weight_count",
    full: bool = False,
    name: str | None = None,
) -> Tensor:
    """Negative log likelihood of counts; predictions are logarithms of rates.

    l = exp(prediction) − label·prediction; ``full`` adds Stirling's label·log label − label +
    ½·log(2π·label) for labels above 1

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, p = g.constant([1.0, 3.0]), g.constant([0.0, 0.0])
    >>> float(g.output({}, gw.loss.log_poisson(y, p, name="loss"))["loss"])
    1.0

    Attributes:
        reduction: How many become one.
        full: Add Stirling's approximation of log(label!).
    """

def mean_pairwise_squared_error(
    labels: Tensor | ArrayLike,
    predictions: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    *,
    reduction: str = "mean_by_nonzero_weight_count",
    name: str | None = None,
) -> Tensor:
    """Squared error of differences: how far pairs of outputs are apart, not where they are.

    l = Σ_{i<j} (dᵢ − dⱼ)² / (n(n − 1)/2) per example, with d = prediction − label over the n
    elements of the example; computed as 2·Σ (dᵢ − mean d)²/(n − 1)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, p = g.constant([[1.0, 2.0]]), g.constant([[11.0, 15.0]])
    >>> float(g.output({}, gw.loss.mean_pairwise_squared_error(y, p, name="loss"))["loss"])
    9.0

    Attributes:
        reduction: How many become one.
    """

def mean_squared_error(
    labels: Tensor | ArrayLike,
    predictions: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    *,
    reduction: str = "mean_by_nonzero_weight_count",
    name: str | None = None,
) -> Tensor:
    """Squared error.

    l = (prediction − label)²

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, p = g.constant([1.0, 2.0]), g.constant([1.0, 4.0])
    >>> float(g.output({}, gw.loss.mean_squared_error(y, p, name="loss"))["loss"])
    2.0

    Attributes:
        reduction: How many become one.
    """

def sigmoid_cross_entropy(
    labels: Tensor | ArrayLike,
    predictions: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    *,
    reduction: str = "mean_by_nonzero_weight_count",
    label_smoothing: float = 0.0,
    name: str | None = None,
) -> Tensor:
    """Cross entropy of independent yes/no labels; predictions are logits.

    l = −y·log σ(x) − (1 − y)·log(1 − σ(x)) = y·softplus(−x) + (1 − y)·softplus(x),
    y = (1 − s)·label + s/2 with label smoothing s

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, x = g.constant([1.0, 0.0]), g.constant([0.0, -1000.0])
    >>> loss = gw.loss.sigmoid_cross_entropy(y, x, reduction="none", name="loss")
    >>> g.output({}, loss)["loss"].round(4)
    array([0.6931, 0.    ], dtype=float32)

    Attributes:
        reduction: How many become one.
        label_smoothing: Share of every label that is spread evenly.
    """

def softmax_cross_entropy(
    labels: Tensor | ArrayLike,
    predictions: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    *,
    reduction: str = "mean_by_nonzero_weight_count",
    axis: int = -1,
    label_smoothing: float = 0.0,
    name: str | None = None,
) -> Tensor:
    """Cross entropy of class probabilities (one-hot or soft labels); predictions are logits.

    l = −Σ y·log softmax(x) over ``axis``, y = (1 − s)·label + s/C with label smoothing s over C
    classes (Szegedy et al. 2016)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, x = g.constant([[1.0, 0.0]]), g.constant([[0.0, 0.0]])
    >>> loss = gw.loss.softmax_cross_entropy(y, x, name="loss")
    >>> round(float(g.output({}, loss)["loss"]), 4)
    0.6931

    Attributes:
        reduction: How many become one.
        axis: Axis of classes or features, summed over.
        label_smoothing: Share of every label that is spread over classes.
    """

def sparse_softmax_cross_entropy(
    labels: Tensor | ArrayLike,
    predictions: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    *,
    reduction: str = "mean_by_nonzero_weight_count",
    ignore_index: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Cross entropy of class numbers; predictions are logits, classes on the last axis.

    l = −log softmax(x)[label]

    Labels are ``i64[…]``, predictions ``f32[…, C]``. A label outside 0 … C − 1 is an error when it
    is run, but for ``ignore_index``: examples so labelled have weight 0.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, x = g.constant([1, -100]), g.constant([[0.0, 1000.0], [0.0, 0.0]])
    >>> loss = gw.loss.sparse_softmax_cross_entropy(y, x, ignore_index=-100, name="loss")
    >>> float(g.output({}, loss)["loss"])
    0.0

    Attributes:
        reduction: How many become one.
        ignore_index: Label of examples that do not count.
    """
