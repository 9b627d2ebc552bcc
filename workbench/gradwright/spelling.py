"""What was probably meant by a name that does not exist: torch's spelling of it, or a slip."""

from __future__ import annotations

from collections.abc import Iterable

_TORCH = {
    "dim": "axis",
    "dims": "axis",
    "keepdim": "keepdims",
    "view": "reshape",
    "permute": "transpose",
    "unsqueeze": "expand_dims",
    "cat": "concat",
    "clamp": "clip",
    "mm": "matmul",
    "bmm": "matmul",
    "repeat_interleave": "repeat",
    "cross_entropy": "softmax_cross_entropy",
    "mse_loss": "mean_squared_error",
    "l1_loss": "absolute_difference",
    "kl_div": "kl_divergence",
    "rand": "uniform",
    "randn": "normal",
    "randperm": "permutation",
    "multinomial": "categorical",
    "binary_cross_entropy_with_logits": "sigmoid_cross_entropy",
    "layernorm": "layer_norm",
}


def meant(name: str, known: Iterable[str]) -> str:
    """Return which of the known names was probably meant, "" if none is like it.

    >>> meant("dim", ["axis", "keepdims"]), meant("sofmax", ["softmax"]), meant("ReLU", ["relu"])
    ('axis', 'softmax', 'relu')
    >>> meant("frobnicate", ["axis"])
    ''
    """
    import difflib  # 3 ms, and only errors need it

    plain = {k.replace("_", ""): k for k in known}
    wanted = _TORCH.get(name.lower(), name).lower().replace("_", "")
    if wanted.removesuffix("loss") in plain:
        return plain[wanted.removesuffix("loss")]
    close = difflib.get_close_matches(wanted, plain, 1, cutoff=0.75)
    return plain[close[0]] if close else ""
