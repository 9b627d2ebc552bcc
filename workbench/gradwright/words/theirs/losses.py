"""Losses: torch.nn.functional, torch.nn and keras.losses."""

LOSSES = """
gw.binary_cross_entropy(input, target, weight=None, *, reduction=None) -> \
    gw.loss.log_loss(target, input, weights=weight, reduction=reduction) | labels first
gw.binary_cross_entropy_with_logits(input, target, *, pos_weight) -> \
    gw.loss.sigmoid_cross_entropy(target, input, weights=1 + (pos_weight - 1) * target)
gw.binary_cross_entropy_with_logits(input, target, weight=None, *, reduction=None) -> \
    gw.loss.sigmoid_cross_entropy(target, input, weights=weight, reduction=reduction) | labels first
gw.cosine_embedding_loss(input1, input2, target, margin=None) -> \
    gw.loss.cosine_embedding(target, input1, input2, margin=margin) | labels first
gw.cross_entropy(input, target, weight) -> gw.loss.sparse_softmax_cross_entropy(target, input, \
    class_weights=weight, reduction="mean_by_weight") | labels first; classes are on the last axis
gw.cross_entropy(input, target, *, ignore_index=None, reduction=None, label_smoothing=None) -> \
    gw.loss.sparse_softmax_cross_entropy(target, input, ignore_index=ignore_index, \
    reduction=reduction, label_smoothing=label_smoothing) | labels first; classes are on the last \
    axis, or axis=1; softmax_cross_entropy takes probabilities as labels
gw.gaussian_nll_loss(input, target, var) -> gw.loss.gaussian_nll(target, input, var) | labels first
gw.hinge_embedding_loss(input, target, margin=None) -> \
    gw.loss.hinge_embedding(target, input, margin=margin) | labels first
gw.huber_loss(input, target, *, reduction=None, delta=None) -> \
    gw.loss.huber(target, input, reduction=reduction, delta=delta) | labels first
gw.kl_div(input, target, *, reduction=None) -> \
    gw.loss.kl_divergence(target, gw.exp(input)) | labels first; predictions are probabilities; \
    the mean over examples, torch's "batchmean"
gw.l1_loss(input, target, *, reduction=None) -> \
    gw.loss.absolute_difference(target, input, reduction=reduction) | labels first
gw.margin_ranking_loss(input1, input2, target, margin=None) -> \
    gw.loss.margin_ranking(target, input1, input2, margin=margin) | labels first
gw.mse_loss(input, target, *, reduction=None) -> \
    gw.loss.mean_squared_error(target, input, reduction=reduction) | labels first
gw.multilabel_soft_margin_loss(input, target) -> \
    gw.loss.sigmoid_cross_entropy(target, input) | labels first
gw.multi_margin_loss(input, target) -> gw.loss.multi_margin(target, input) | labels first
gw.nll_loss(input, target, weight) -> gw.loss.nll(target, input, class_weights=weight, \
    reduction="mean_by_weight") | labels first
gw.nll_loss(input, target, *, ignore_index=None, reduction=None) -> \
    gw.loss.nll(target, input, ignore_index=ignore_index, reduction=reduction) | labels first
gw.poisson_nll_loss(input, target, *, log_input: False) -> \
    gw.loss.poisson_nll(target, input) | labels first
gw.poisson_nll_loss(input, target) -> gw.loss.log_poisson(target, input) | labels first
gw.sigmoid_binary_cross_entropy(logits, labels) -> \
    gw.loss.sigmoid_cross_entropy(labels, logits, reduction="none") \
    | labels first; the mean is the default here
gw.sigmoid_cross_entropy_with_logits(labels, logits) -> \
    gw.loss.sigmoid_cross_entropy(labels, logits, reduction="none") | the mean is the default here
gw.softmax_cross_entropy_with_integer_labels(logits, labels) -> \
    gw.loss.sparse_softmax_cross_entropy(labels, logits, reduction="none") \
    | labels first; the mean is the default here
gw.softmax_cross_entropy_with_logits(labels, logits) -> \
    gw.loss.softmax_cross_entropy(labels, logits, reduction="none") | the mean is the default here
gw.sparse_softmax_cross_entropy_with_logits(labels, logits) -> \
    gw.loss.sparse_softmax_cross_entropy(labels, logits, reduction="none") \
    | the mean is the default here
gw.smooth_l1_loss(input, target, *, reduction=None, beta=None) -> \
    gw.loss.smooth_l1(target, input, reduction=reduction, beta=beta) | labels first
gw.soft_margin_loss(input, target) -> gw.loss.soft_margin(target, input) | labels first
gw.triplet_margin_loss(anchor, positive, negative, margin=None) -> \
    gw.loss.triplet_margin(anchor, positive, negative, margin=margin)

gw.BCELoss()(input, target) -> gw.loss.log_loss(target, input) | labels first
gw.BCEWithLogitsLoss(*, pos_weight)(input, target) -> gw.loss.sigmoid_cross_entropy(target, \
    input, weights=1 + (pos_weight - 1) * target)
gw.BCEWithLogitsLoss()(input, target) -> \
    gw.loss.sigmoid_cross_entropy(target, input) | labels first
gw.ContrastiveLoss(margin=1.0)(a, b, label) -> gw.mean((1 - label) * gw.square(gw.norm(a - b, \
    axis=-1)) + label * gw.square(gw.nn.relu(margin - gw.norm(a - b, axis=-1)))) \
    | label 1 is of a pair that differs (Hadsell et al. 2006); gw.loss.contrastive is InfoNCE
gw.CrossEntropyLoss(weight)(input, target) -> gw.loss.sparse_softmax_cross_entropy(target, \
    input, class_weights=weight, reduction="mean_by_weight") | labels first
gw.CrossEntropyLoss(*, ignore_index=None, reduction=None, label_smoothing=None)(input, target) -> \
    gw.loss.sparse_softmax_cross_entropy(target, input, ignore_index=ignore_index, \
    reduction=reduction, label_smoothing=label_smoothing) \
    | labels first; classes are on the last axis
gw.HuberLoss(*, reduction=None, delta=None)(input, target) -> \
    gw.loss.huber(target, input, reduction=reduction, delta=delta) | labels first
gw.KLDivLoss(*, reduction=None)(input, target) -> gw.loss.kl_divergence(target, gw.exp(input)) \
    | labels first; predictions are probabilities; the mean over examples
gw.L1Loss(*, reduction=None)(input, target) -> \
    gw.loss.absolute_difference(target, input, reduction=reduction) | labels first
gw.MSELoss(*, reduction=None)(input, target) -> \
    gw.loss.mean_squared_error(target, input, reduction=reduction) | labels first
gw.NLLLoss()(input, target) -> gw.loss.nll(target, input) | labels first
gw.SmoothL1Loss(*, reduction=None, beta=None)(input, target) -> \
    gw.loss.smooth_l1(target, input, reduction=reduction, beta=beta) | labels first
gw.TripletMarginLoss(margin=None)(anchor, positive, negative) -> \
    gw.loss.triplet_margin(anchor, positive, negative, margin=margin)

gw.BinaryFocalCrossentropy(*, gamma=None, from_logits: True)(y_true, y_pred) -> \
    gw.loss.sigmoid_focal(y_true, y_pred, alpha=None, gamma=gamma)
gw.BinaryFocalCrossentropy(*, gamma=None)(y_true, y_pred) -> \
    gw.loss.sigmoid_focal(y_true, gw.logit(y_pred), alpha=None, gamma=gamma)
gw.BinaryCrossentropy(from_logits: True)(y_true, y_pred) -> \
    gw.loss.sigmoid_cross_entropy(y_true, y_pred)
gw.BinaryCrossentropy()(y_true, y_pred) -> gw.loss.log_loss(y_true, y_pred)
gw.binary_crossentropy(y_true, y_pred, from_logits: True) -> \
    gw.loss.sigmoid_cross_entropy(y_true, y_pred)
gw.binary_crossentropy(y_true, y_pred) -> gw.loss.log_loss(y_true, y_pred)
gw.CategoricalCrossentropy(from_logits: True)(y_true, y_pred) -> \
    gw.loss.softmax_cross_entropy(y_true, y_pred)
gw.CategoricalCrossentropy()(y_true, y_pred) -> \
    gw.loss.softmax_cross_entropy(y_true, gw.log(y_pred)) | predictions are logits
gw.categorical_crossentropy(y_true, y_pred, from_logits: True) -> \
    gw.loss.softmax_cross_entropy(y_true, y_pred)
gw.categorical_crossentropy(y_true, y_pred) -> \
    gw.loss.softmax_cross_entropy(y_true, gw.log(y_pred)) | predictions are logits
gw.CategoricalHinge()(y_true, y_pred) -> gw.mean(gw.nn.relu(1 + gw.max((1 - y_true) * y_pred, \
    axis=-1) - gw.sum(y_true * y_pred, axis=-1)))
gw.CosineSimilarity(axis=-1)(y_true, y_pred) -> \
    -gw.mean(gw.cosine_similarity(y_true, y_pred, axis=axis))
gw.Hinge()(y_true, y_pred) -> gw.loss.hinge(y_true, y_pred) | labels are 0 and 1
gw.Huber(delta=None)(y_true, y_pred) -> gw.loss.huber(y_true, y_pred, delta=delta)
gw.KLDivergence()(y_true, y_pred) -> gw.loss.kl_divergence(y_true, y_pred)
gw.LogCosh()(y_true, y_pred) -> gw.loss.log_cosh(y_true, y_pred)
gw.MeanAbsoluteError()(y_true, y_pred) -> gw.loss.absolute_difference(y_true, y_pred)
gw.mean_absolute_error(y_true, y_pred) -> gw.loss.absolute_difference(y_true, y_pred)
gw.MeanAbsolutePercentageError()(y_true, y_pred) -> \
    100 * gw.mean(gw.abs((y_true - y_pred) / y_true))
gw.MeanSquaredError()(y_true, y_pred) -> gw.loss.mean_squared_error(y_true, y_pred)
gw.MeanSquaredLogarithmicError()(y_true, y_pred) -> \
    gw.loss.mean_squared_log_error(y_true, y_pred)
gw.mae(y_true, y_pred) -> gw.loss.absolute_difference(y_true, y_pred)
gw.mape(y_true, y_pred) -> 100 * gw.mean(gw.abs((y_true - y_pred) / y_true))
gw.msle(y_true, y_pred) -> gw.loss.mean_squared_log_error(y_true, y_pred)
gw.kld(y_true, y_pred) -> gw.loss.kl_divergence(y_true, y_pred)
gw.squared_hinge(y_true, y_pred) -> \
    gw.mean(gw.square(gw.nn.relu(1 - (2 * y_true - 1) * y_pred))) | labels are 0 and 1
gw.mse(y_true, y_pred) -> gw.loss.mean_squared_error(y_true, y_pred)
gw.Poisson()(y_true, y_pred) -> gw.loss.poisson_nll(y_true, y_pred) | predictions are rates
gw.SparseCategoricalCrossentropy(from_logits: True)(y_true, y_pred) -> \
    gw.loss.sparse_softmax_cross_entropy(y_true, y_pred)
gw.SparseCategoricalCrossentropy()(y_true, y_pred) -> gw.loss.nll(y_true, gw.log(y_pred))
gw.sparse_categorical_crossentropy(y_true, y_pred, from_logits: True) -> \
    gw.loss.sparse_softmax_cross_entropy(y_true, y_pred)
gw.sparse_categorical_crossentropy(y_true, y_pred) -> gw.loss.nll(y_true, gw.log(y_pred))
gw.SquaredHinge()(y_true, y_pred) -> \
    gw.mean(gw.square(gw.nn.relu(1 - (2 * y_true - 1) * y_pred))) | labels are 0 and 1
"""
"""As functions and as objects of torch, as both of Keras."""
