"""What was probably meant by a name that does not exist: another library's spelling, or a slip."""

from __future__ import annotations

from collections.abc import Iterable

_THEIRS = {
    # arguments
    "axis": "dim dims",
    "keepdims": "keepdim",
    "learning_rate": "lr",
    # functions
    "abs": "absolute",
    "absolute_difference": "l1",
    "batch_norm": "batchnormalization",
    "boolean_mask": "maskedselect",
    "broadcast_to": "expand",
    "cast": "float half double long int to type",
    "categorical": "multinomial",
    "clip": "clamp",
    "col2im": "fold",
    "concat": "cat concatenate hstack vstack",
    "conv_transpose1d": "conv1dtranspose",
    "conv_transpose2d": "conv2dtranspose",
    "conv_transpose3d": "conv3dtranspose",
    "depth_to_space": "pixelshuffle",
    "div": "divide",
    "expand_dims": "unsqueeze",
    "full": "zeros ones empty",
    "gather": "indexselect",
    "global_avg_pool": "globalaveragepooling1d globalaveragepooling2d globalaveragepooling3d",
    "global_max_pool": "globalmaxpooling1d globalmaxpooling2d globalmaxpooling3d",
    "group_norm": "groupnormalization",
    "im2col": "unfold",
    "kl_divergence": "kldiv",
    "layer_norm": "layernormalization",
    "linear": "dense xwplusb",
    "local_response_norm": "lrn",
    "log_loss": "bce binarycrossentropy",
    "matmul": "mm bmm",
    "mean": "reducemean",
    "mean_squared_error": "mse",
    "moments": "stdmean varmean",
    "mul": "multiply",
    "neg": "negative",
    "nonzero": "argwhere",
    "normal": "randn",
    "permutation": "randperm",
    "repeat": "repeatinterleave",
    "reshape": "view",
    "resize": "interpolate upsample",
    "scatter_update": "scatter",
    "sigmoid_cross_entropy": "bcewithlogits binarycrossentropywithlogits",
    "size_of": "numel",
    "slice": "narrow",
    "softmax_cross_entropy": "crossentropy categoricalcrossentropy",
    "space_to_depth": "pixelunshuffle",
    "sparse_softmax_cross_entropy": "sparsecategoricalcrossentropy",
    "split": "chunk",
    "stop_gradient": "detach",
    "sub": "subtract",
    "sum": "reducesum",
    "transpose": "permute",
    "uniform": "rand",
    "where": "maskedfill",
}
"""Ours, and the names of torch and Keras for it, small and without underscores."""
_OURS = {theirs: ours for ours, names in _THEIRS.items() for theirs in names.split()}

NO_OPS = {
    **dict.fromkeys(("tensor", "constant", "array", "asarray", "fromnumpy"), "g.constant"),
    **dict.fromkeys(("variable", "parameter"), "g.variable"),
    **dict.fromkeys(("placeholder", "input"), "g.placeholder"),
    **dict.fromkeys(("grad", "backward"), "gw.gradients"),
}
"""What is called otherwise elsewhere, and no op here; ``g`` is a graph."""


def spellings(name: str) -> list[str]:
    """Return what other libraries call an op of ours, small and without underscores.

    >>> spellings("where")
    ['maskedfill']
    """
    return _THEIRS.get(name, "").split()


def meant(name: str, known: Iterable[str]) -> str:
    """Return which of the known names was probably meant, "" if none is like it.

    >>> meant("dim", ["axis", "keepdims"]), meant("sofmax", ["softmax"]), meant("ReLU", ["relu"])
    ('axis', 'softmax', 'relu')
    >>> meant("BCEWithLogitsLoss", ["log_loss", "sigmoid_cross_entropy"])
    'sigmoid_cross_entropy'
    >>> meant("frobnicate", ["axis"])
    ''
    """
    import difflib  # 3 ms, and only errors need it

    plain = {k.replace("_", ""): k for k in known}
    wanted = name.lower().replace("_", "")
    for spelling in (wanted, wanted.removesuffix("loss")):
        ours = _OURS.get(spelling, spelling).replace("_", "")
        if ours in plain:
            return plain[ours]
    close = difflib.get_close_matches(wanted, plain, 1, cutoff=0.75)
    return plain[close[0]] if close else ""
