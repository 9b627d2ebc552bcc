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
        reduction: How many become one. One of 'mean_by_nonzero_weight_count', 'mean_by_weight', 'sum', 'none'.
    """

def attention_distillation(
    labels: Tensor | ArrayLike,
    predictions: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    *,
    reduction: str = "mean_by_nonzero_weight_count",
    name: str | None = None,
) -> Tensor:
    """Squared distance of a student's attention to its teacher's (Jiao et al. 2020, "TinyBERT").

    l = (mean over heads of prediction − mean over heads of label)², with labels f32[B, H, T, S]
    and predictions f32[B, G, T, S]; with as many heads on both sides, head by head

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> t, s = g.constant([[[[1.0]], [[3.0]]]]), g.constant([[[[4.0]]]])
    >>> float(g.output({}, gw.loss.attention_distillation(t, s, name="l"))["l"])
    4.0

    Attributes:
        reduction: How many become one. One of 'mean_by_nonzero_weight_count', 'mean_by_weight', 'sum', 'none'.
    """

def contrastive(
    labels: Tensor | ArrayLike,
    predictions: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    temperature: Tensor | ArrayLike | float | None = None,
    *,
    reduction: str = "mean_by_nonzero_weight_count",
    normalize: bool = True,
    name: str | None = None,
) -> Tensor:
    """Symmetric InfoNCE: row i of either side picks row i of the other (van den Oord et al. 2018).

    l = ½(−log softmax(s)[i, i] − log softmax(sᵀ)[i, i]), s = a·bᵀ/temperature, with a = labels/‖·‖
    and b = predictions/‖·‖, both f32[B, D]; normalize=False takes them as they are

    The temperature is a number, or a tensor that may be learned, as in CLIP. A row without weight
    still is one that others must not pick, unless it is NaN or infinite on one side.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> a = g.constant([[1.0, 0.0], [0.0, 1.0]])
    >>> loss = gw.loss.contrastive(a, a, temperature=0.1, name="l")
    >>> round(float(g.output({}, loss)["l"]), 6)
    4.5e-05

    Attributes:
        reduction: How many become one. One of 'mean_by_nonzero_weight_count', 'mean_by_weight', 'sum', 'none'.
        temperature: What similarities are divided by; None: 1.
        normalize: Whether rows are brought to length 1 first.
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
        reduction: How many become one. One of 'mean_by_nonzero_weight_count', 'mean_by_weight', 'sum', 'none'.
        axis: Axis of classes or features, summed over.
    """

def cosine_embedding(
    labels: Tensor | ArrayLike,
    a: Tensor | ArrayLike,
    b: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    *,
    reduction: str = "mean_by_nonzero_weight_count",
    margin: float = 0.0,
    name: str | None = None,
) -> Tensor:
    """Angles made small where the label is 1, large where it is −1.

    l = 1 − cos(a, b) for label 1, max(0, cos(a, b) − margin) for label −1, per row of f32[…, D];
    the cosine with a row of zeros counts as 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, a = g.constant([1.0, -1.0]), g.constant([[2.0, 0.0], [2.0, 0.0]])
    >>> g.output({}, gw.loss.cosine_embedding(y, a, a, reduction="none", name="l"))["l"].tolist()
    [0.0, 1.0]

    Attributes:
        reduction: How many become one. One of 'mean_by_nonzero_weight_count', 'mean_by_weight', 'sum', 'none'.
        margin: How far the two have to be apart.
    """

def ctc(
    labels: Tensor | ArrayLike,
    predictions: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    label_lengths: Tensor | ArrayLike | None = None,
    prediction_lengths: Tensor | ArrayLike | None = None,
    *,
    reduction: str = "mean_by_nonzero_weight_count",
    blank: int = 0,
    zero_infinity: bool = False,
    name: str | None = None,
) -> Tensor:
    """Loss of label sequences that are not aligned to their inputs (Graves et al. 2006).

    l = −log Σ over alignments of Πₜ softmax(predictions[t])[symbol], one per example: f32[B]

    Labels are i64[B, S], predictions logits f32[B, T, C], of which ``label_lengths`` and
    ``prediction_lengths``, i64[B], count; None: all. Labels have no blank among them; what lies
    beyond their length is not looked at. A label sequence that does not fit into its time has loss
    ∞, or 0 with ``zero_infinity``, and gradient 0. The mean that torch takes has weights
    1/label_lengths. Gradients exist to order 2.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[0.0, 0.0], [0.0, 0.0]]])
    >>> round(float(g.output({}, gw.loss.ctc(g.constant([[1]]), x, name="l"))["l"]), 4)
    0.2877

    Attributes:
        reduction: How many become one. One of 'mean_by_nonzero_weight_count', 'mean_by_weight', 'sum', 'none'.
        blank: Symbol that stands for no label.
        zero_infinity: Whether what does not fit has loss 0 instead of ∞.
    """

def dice(
    labels: Tensor | ArrayLike,
    predictions: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    *,
    reduction: str = "mean_by_nonzero_weight_count",
    smooth: float = 1.0,
    name: str | None = None,
) -> Tensor:
    """One minus the overlap of two masks (Milletari, Navab and Ahmadi 2016).

    l = 1 − (2·Σ label·p + s)/(Σ label + Σ p + s), over all axes but the first: one per example

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, p = g.constant([[1.0, 1.0, 0.0]]), g.constant([[1.0, 0.0, 0.0]])
    >>> float(g.output({}, gw.loss.dice(y, p, smooth=0.0, name="l"))["l"])
    0.3333333134651184

    Attributes:
        reduction: How many become one. One of 'mean_by_nonzero_weight_count', 'mean_by_weight', 'sum', 'none'.
        smooth: Added above and below, so that empty masks overlap.
    """

def distillation_kl(
    labels: Tensor | ArrayLike,
    predictions: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    targets: Tensor | ArrayLike | None = None,
    *,
    reduction: str = "mean_by_nonzero_weight_count",
    axis: int = -1,
    temperature: float = 1.0,
    alpha: float = 0.5,
    name: str | None = None,
) -> Tensor:
    """Student's logits beside its teacher's, both softened (Hinton, Vinyals and Dean 2015).

    l = α·T²·KL(softmax(teacher/T) ‖ softmax(student/T)) + (1 − α)·CE(targets, student)

    Labels are the teacher's logits, predictions the student's, both f32[…, C]; ``targets``,
    i64[…], are the true classes. Without targets the second term is left out.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> t, s = g.constant([[1.0, 2.0]]), g.constant([[2.0, 3.0]])
    >>> float(g.output({}, gw.loss.distillation_kl(t, s, temperature=2.0, name="l"))["l"])
    0.0

    Attributes:
        reduction: How many become one. One of 'mean_by_nonzero_weight_count', 'mean_by_weight', 'sum', 'none'.
        axis: Axis of classes or features, summed over.
        temperature: T, by which both sides' logits are divided.
        alpha: Share of the teacher; 1 without targets.
    """

def feature_distillation(
    labels: Tensor | ArrayLike,
    predictions: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    projection: Tensor | ArrayLike | None = None,
    *,
    reduction: str = "mean_by_nonzero_weight_count",
    name: str | None = None,
) -> Tensor:
    """Squared distance of a student's features to its teacher's (Romero et al. 2015, "FitNets").

    l = (prediction @ projection − label)², with labels f32[…, E], predictions f32[…, D] and
    projection f32[D, E]; without a projection both have the same shape

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> t, s, w = g.constant([[3.0]]), g.constant([[1.0, 1.0]]), g.constant([[1.0], [1.0]])
    >>> float(g.output({}, gw.loss.feature_distillation(t, s, None, w, name="l"))["l"])
    1.0

    Attributes:
        reduction: How many become one. One of 'mean_by_nonzero_weight_count', 'mean_by_weight', 'sum', 'none'.
    """

def gaussian_nll(
    labels: Tensor | ArrayLike,
    predictions: Tensor | ArrayLike,
    variance: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    *,
    reduction: str = "mean_by_nonzero_weight_count",
    full: bool = False,
    eps: float = 1e-06,
    name: str | None = None,
) -> Tensor:
    """Negative log likelihood under a normal distribution of given variance (Nix, Weigend 1994).

    l = ½(log v + (prediction − label)²/v), v = max(variance, ε); ``full`` adds ½·log 2π

    The variance broadcasts to the predictions; below ε it has no gradient.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, p = g.constant([0.0, 0.0]), g.constant([2.0, 0.0])
    >>> float(g.output({}, gw.loss.gaussian_nll(y, p, g.constant(1.0), name="l"))["l"])
    1.0

    Attributes:
        reduction: How many become one. One of 'mean_by_nonzero_weight_count', 'mean_by_weight', 'sum', 'none'.
        full: Add the constant ½·log 2π.
        eps: Smallest variance.
    """

def generalized_jsd(
    labels: Tensor | ArrayLike,
    predictions: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    *,
    reduction: str = "mean_by_nonzero_weight_count",
    axis: int = -1,
    beta: float = 0.5,
    temperature: float = 1.0,
    name: str | None = None,
) -> Tensor:
    """Divergence between a student's and its teacher's logits, from forward to reverse KL.

    l = β·KL(t ‖ m) + (1 − β)·KL(s ‖ m),  m = β·t + (1 − β)·s,  with softmax of logits/T on both
    sides;  β = 0: KL(t ‖ s),  β = 1: KL(s ‖ t)  (Agarwal et al. 2024, "GKD", arXiv:2306.13649)

    Labels are the teacher's logits, predictions the student's, both f32[…, C]. There is no factor
    T², as in the paper. Forward KL has the student cover all that its teacher does, reverse KL has
    it seek the teacher's mode; β = 0.5 is the Jensen-Shannon divergence, within 0 … log 2.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> t, s = g.constant([[0.0, 50.0]]), g.constant([[50.0, 0.0]])
    >>> round(float(g.output({}, gw.loss.generalized_jsd(t, s, name="l"))["l"]), 4)
    0.6931

    Attributes:
        reduction: How many become one. One of 'mean_by_nonzero_weight_count', 'mean_by_weight', 'sum', 'none'.
        axis: Axis of classes or features, summed over.
        beta: β: 0 forward KL, 1 reverse KL, between them a mixture.
        temperature: T, by which both sides' logits are divided.
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
        reduction: How many become one. One of 'mean_by_nonzero_weight_count', 'mean_by_weight', 'sum', 'none'.
    """

def hinge_embedding(
    labels: Tensor | ArrayLike,
    predictions: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    *,
    reduction: str = "mean_by_nonzero_weight_count",
    margin: float = 1.0,
    name: str | None = None,
) -> Tensor:
    """Distances made small where the label is 1, and at least a margin where it is −1.

    l = x for label 1, max(0, margin − x) for label −1

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, x = g.constant([1.0, -1.0]), g.constant([0.5, 0.25])
    >>> g.output({}, gw.loss.hinge_embedding(y, x, reduction="none", name="l"))["l"].tolist()
    [0.5, 0.75]

    Attributes:
        reduction: How many become one. One of 'mean_by_nonzero_weight_count', 'mean_by_weight', 'sum', 'none'.
        margin: Distance at which unlike pairs are far enough.
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
        reduction: How many become one. One of 'mean_by_nonzero_weight_count', 'mean_by_weight', 'sum', 'none'.
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
        reduction: How many become one. One of 'mean_by_nonzero_weight_count', 'mean_by_weight', 'sum', 'none'.
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

def log_cosh(
    labels: Tensor | ArrayLike,
    predictions: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    *,
    reduction: str = "mean_by_nonzero_weight_count",
    name: str | None = None,
) -> Tensor:
    """Logarithm of the hyperbolic cosine of the error: square near 0, absolute far away.

    l = log cosh e = |e| + log(1 + e^(−2|e|)) − log 2, with e = prediction − label

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, p = g.constant([0.0, 0.0]), g.constant([0.0, 1000.0])
    >>> g.output({}, gw.loss.log_cosh(y, p, reduction="none", name="l"))["l"].round(3).tolist()
    [0.0, 999.3070068359375]

    Attributes:
        reduction: How many become one. One of 'mean_by_nonzero_weight_count', 'mean_by_weight', 'sum', 'none'.
    """

def log_loss(
    labels: Tensor | ArrayLike,
    predictions: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    *,
    reduction: str = "mean_by_nonzero_weight_count",
    eps: float = 1e-07,
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
        reduction: How many become one. One of 'mean_by_nonzero_weight_count', 'mean_by_weight', 'sum', 'none'.
        eps: Added to probabilities, so that the loss stays finite.
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
        reduction: How many become one. One of 'mean_by_nonzero_weight_count', 'mean_by_weight', 'sum', 'none'.
        full: Add Stirling's approximation of log(label!).
    """

def margin_ranking(
    labels: Tensor | ArrayLike,
    a: Tensor | ArrayLike,
    b: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    *,
    reduction: str = "mean_by_nonzero_weight_count",
    margin: float = 0.0,
    name: str | None = None,
) -> Tensor:
    """Scores in the order that labels say: 1 for a above b, −1 for b above a.

    l = max(0, −label·(a − b) + margin)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, a, b = g.constant([1.0, -1.0]), g.constant([2.0, 2.0]), g.constant([1.0, 1.0])
    >>> g.output({}, gw.loss.margin_ranking(y, a, b, reduction="none", name="l"))["l"].tolist()
    [0.0, 1.0]

    Attributes:
        reduction: How many become one. One of 'mean_by_nonzero_weight_count', 'mean_by_weight', 'sum', 'none'.
        margin: How far the two have to be apart.
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
        reduction: How many become one. One of 'mean_by_nonzero_weight_count', 'mean_by_weight', 'sum', 'none'.
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
        reduction: How many become one. One of 'mean_by_nonzero_weight_count', 'mean_by_weight', 'sum', 'none'.
    """

def mean_squared_log_error(
    labels: Tensor | ArrayLike,
    predictions: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    *,
    reduction: str = "mean_by_nonzero_weight_count",
    name: str | None = None,
) -> Tensor:
    """Squared error of logarithms, for what is not negative.

    l = (log(1 + prediction) − log(1 + label))²

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, p = g.constant([0.0]), g.constant([1.0])
    >>> round(float(g.output({}, gw.loss.mean_squared_log_error(y, p, name="l"))["l"]), 4)
    0.4805

    Attributes:
        reduction: How many become one. One of 'mean_by_nonzero_weight_count', 'mean_by_weight', 'sum', 'none'.
    """

def multi_margin(
    labels: Tensor | ArrayLike,
    predictions: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    class_weights: Tensor | ArrayLike | None = None,
    *,
    reduction: str = "mean_by_nonzero_weight_count",
    axis: int = -1,
    ignore_index: int | None = None,
    margin: float = 1.0,
    p: int = 1,
    name: str | None = None,
) -> Tensor:
    """Hinge loss of class numbers: other classes' scores stay a margin below (Crammer 2001).

    l = Σ over j ≠ label of max(0, margin − x[label] + xⱼ)^p / C

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, x = g.constant([0]), g.constant([[1.0, 0.5, -3.0, 1.0]])
    >>> float(g.output({}, gw.loss.multi_margin(y, x, name="l"))["l"])
    0.375

    Attributes:
        reduction: How many become one. One of 'mean_by_nonzero_weight_count', 'mean_by_weight', 'sum', 'none'.
        axis: Axis of classes; in ONNX it is 1.
        ignore_index: Label of examples that do not count.
        margin: How far other scores have to be below.
        p: Power: 1 or 2. One of 1, 2.
    """

def nll(
    labels: Tensor | ArrayLike,
    predictions: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    class_weights: Tensor | ArrayLike | None = None,
    *,
    reduction: str = "mean_by_nonzero_weight_count",
    axis: int = -1,
    ignore_index: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Negative log likelihood of class numbers; predictions are log probabilities.

    l = −prediction[label], times class_weights[label] where they are given

    Labels are ``i64[…]``, predictions ``f32[…, C]``, or with the classes on another ``axis``. A
    label outside 0 … C − 1 is an error when it is run, but for ``ignore_index``: examples so
    labelled have weight 0. The mean that torch and ONNX take is ``reduction="mean_by_weight"``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, p = g.constant([1, 0]), g.constant([[-3.0, -1.0], [-2.0, 0.0]])
    >>> float(g.output({}, gw.loss.nll(y, p, name="l"))["l"])
    1.5

    Attributes:
        reduction: How many become one. One of 'mean_by_nonzero_weight_count', 'mean_by_weight', 'sum', 'none'.
        axis: Axis of classes; in ONNX it is 1.
        ignore_index: Label of examples that do not count.
    """

def pinball(
    labels: Tensor | ArrayLike,
    predictions: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    *,
    reduction: str = "mean_by_nonzero_weight_count",
    q: float = 0.5,
    name: str | None = None,
) -> Tensor:
    """Pinball loss, least where predictions are the q-quantile (Koenker and Bassett 1978).

    l = max(q·e, (q − 1)·e), with e = label − prediction

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, p = g.constant([0.0, 2.0]), g.constant([1.0, 1.0])
    >>> g.output({}, gw.loss.pinball(y, p, q=0.75, reduction="none", name="l"))["l"].tolist()
    [0.25, 0.75]

    Attributes:
        reduction: How many become one. One of 'mean_by_nonzero_weight_count', 'mean_by_weight', 'sum', 'none'.
        q: Which quantile: 0.5 is the median.
    """

def poisson_nll(
    labels: Tensor | ArrayLike,
    predictions: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    *,
    reduction: str = "mean_by_nonzero_weight_count",
    eps: float = 1e-08,
    name: str | None = None,
) -> Tensor:
    """Negative log likelihood of counts; predictions are rates.

    l = p − label·log(p + ε); ``log_poisson`` takes logarithms of rates

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, p = g.constant([1.0, 3.0]), g.constant([1.0, 1.0])
    >>> float(g.output({}, gw.loss.poisson_nll(y, p, name="l"))["l"])
    1.0

    Attributes:
        reduction: How many become one. One of 'mean_by_nonzero_weight_count', 'mean_by_weight', 'sum', 'none'.
        eps: Added to rates, so that the loss stays finite.
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
        reduction: How many become one. One of 'mean_by_nonzero_weight_count', 'mean_by_weight', 'sum', 'none'.
        label_smoothing: Share of every label that is spread evenly.
    """

def sigmoid_focal(
    labels: Tensor | ArrayLike,
    predictions: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    *,
    reduction: str = "mean_by_nonzero_weight_count",
    alpha: float | None = 0.25,
    gamma: float = 2.0,
    name: str | None = None,
) -> Tensor:
    """Cross entropy that counts easy examples less (Lin et al. 2017); predictions are logits.

    l = aₜ·(1 − pₜ)^γ·(−log pₜ), pₜ = p for label 1 and 1 − p for label 0, p = σ(x);
    aₜ = α for label 1 and 1 − α for label 0, or 1 where α is None

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, x = g.constant([1.0, 1.0]), g.constant([0.0, 1000.0])
    >>> loss = gw.loss.sigmoid_focal(y, x, alpha=None, reduction="none", name="l")
    >>> g.output({}, loss)["l"].round(4).tolist()
    [0.17329999804496765, 0.0]

    Attributes:
        reduction: How many become one. One of 'mean_by_nonzero_weight_count', 'mean_by_weight', 'sum', 'none'.
        alpha: Weight of label 1; None weighs both the same.
        gamma: How much less easy examples count; 0: not at all.
    """

def smooth_l1(
    labels: Tensor | ArrayLike,
    predictions: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    *,
    reduction: str = "mean_by_nonzero_weight_count",
    beta: float = 1.0,
    name: str | None = None,
) -> Tensor:
    """Absolute error, rounded off below β (Girshick 2015); huber divided by its delta.

    l = e²/(2β) for |e| < β, else |e| − β/2, with e = prediction − label

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, p = g.constant([0.0, 0.0]), g.constant([1.0, 3.0])
    >>> g.output({}, gw.loss.smooth_l1(y, p, beta=2.0, reduction="none", name="l"))["l"].tolist()
    [0.25, 2.0]

    Attributes:
        reduction: How many become one. One of 'mean_by_nonzero_weight_count', 'mean_by_weight', 'sum', 'none'.
        beta: Error at which the loss turns linear; 0: absolute error.
    """

def soft_margin(
    labels: Tensor | ArrayLike,
    predictions: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    *,
    reduction: str = "mean_by_nonzero_weight_count",
    name: str | None = None,
) -> Tensor:
    """Logistic loss of labels −1 and 1.

    l = log(1 + exp(−label·prediction))

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, p = g.constant([1.0, -1.0]), g.constant([1000.0, -1000.0])
    >>> float(g.output({}, gw.loss.soft_margin(y, p, name="l"))["l"])
    0.0

    Attributes:
        reduction: How many become one. One of 'mean_by_nonzero_weight_count', 'mean_by_weight', 'sum', 'none'.
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

    Where softmax(x) of the label nears 1, the loss and the slope p − 1 hold to a unit in the last
    place of 1: 6e-8 in float32, as in torch.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, x = g.constant([[1.0, 0.0]]), g.constant([[0.0, 0.0]])
    >>> loss = gw.loss.softmax_cross_entropy(y, x, name="loss")
    >>> round(float(g.output({}, loss)["loss"]), 4)
    0.6931

    Attributes:
        reduction: How many become one. One of 'mean_by_nonzero_weight_count', 'mean_by_weight', 'sum', 'none'.
        axis: Axis of classes or features, summed over.
        label_smoothing: Share of every label that is spread over classes.
    """

def sparse_softmax_cross_entropy(
    labels: Tensor | ArrayLike,
    predictions: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    class_weights: Tensor | ArrayLike | None = None,
    *,
    reduction: str = "mean_by_nonzero_weight_count",
    axis: int = -1,
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    name: str | None = None,
) -> Tensor:
    """Cross entropy of class numbers; predictions are logits.

    l = −log softmax(x)[label], times class_weights[label] where they are given

    Labels are ``i64[…]``, predictions ``f32[…, C]``, or with the classes on another ``axis``. A
    label outside 0 … C − 1 is an error when it is run, but for ``ignore_index``: examples so
    labelled have weight 0. Label smoothing s takes (1 − s)·l − s·Σ log softmax(x)/C, its sum
    weighed by class. The mean that torch and ONNX take is ``reduction="mean_by_weight"``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, x = g.constant([1, -100]), g.constant([[0.0, 1000.0], [0.0, 0.0]])
    >>> loss = gw.loss.sparse_softmax_cross_entropy(y, x, ignore_index=-100, name="loss")
    >>> float(g.output({}, loss)["loss"])
    0.0

    Attributes:
        reduction: How many become one. One of 'mean_by_nonzero_weight_count', 'mean_by_weight', 'sum', 'none'.
        axis: Axis of classes; in ONNX it is 1.
        ignore_index: Label of examples that do not count.
        label_smoothing: Share of every label that is spread over classes.
    """

def triplet_margin(
    labels: Tensor | ArrayLike,
    predictions: Tensor | ArrayLike,
    negatives: Tensor | ArrayLike,
    weights: Tensor | ArrayLike | None = None,
    *,
    reduction: str = "mean_by_nonzero_weight_count",
    margin: float = 1.0,
    p: float = 2.0,
    swap: bool = False,
    name: str | None = None,
) -> Tensor:
    """Distance to a positive, at least a margin below that to a negative (Schroff et al. 2015).

    l = max(0, ‖anchor − positive‖ₚ − ‖anchor − negative‖ₚ + margin), one per row of f32[…, D]

    Anchors stand where other losses have labels. With ``swap`` the distance to the negative is the
    smaller one of that from the anchor and that from the positive (Balntas et al. 2016).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> a, p, n = (g.constant([[v, 0.0]]) for v in (0.0, 1.0, -1.5))
    >>> round(float(g.output({}, gw.loss.triplet_margin(a, p, n, name="l"))["l"]), 3)
    0.5

    Attributes:
        reduction: How many become one. One of 'mean_by_nonzero_weight_count', 'mean_by_weight', 'sum', 'none'.
        margin: How much farther negatives have to be.
        p: Order of the norm.
        swap: Whether the positive may stand for the anchor.
    """
