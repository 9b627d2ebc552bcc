"""Which ops compute in 16 bits, which stay in float32, and why: one table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ...graph import Constant, SubGraph
from ...graph.expand import expansion
from ...op import Op
from ...spec import TensorSpec

LOW, HIGH, APART, FREE = "low", "high", "apart", "free"
"""Cast the inputs down; keep them in float32; look inside a composite; take them as they come."""


class Rule(NamedTuple):
    """What happens to some ops, and the reason."""

    what: str
    reason: str
    ops: str


RULES = (
    Rule(
        LOW,
        "products of matrices take nearly all the time, and sum in float32 whatever they are given",
        """matmul linear dot einsum tensordot outer multi_dot lora_matmul grouped_matmul fp8_matmul
        ggml_matmul ggml_lora_matmul nf4_matmul quantized_matmul awq_matmul""",
    ),
    Rule(
        LOW,
        "convolutions are products of matrices",
        """conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
        depthwise_conv2d separable_conv2d deform_conv2d causal_conv1d""",
    ),
    Rule(
        LOW,
        "attention is two products with a softmax between them that is computed in float32",
        """scaled_dot_product_attention flash_attention grouped_query_attention
        sliding_window_attention shared_kv_attention windowed_attention""",
    ),
    Rule(
        HIGH,
        "exponentials and powers overflow 16 bits, and logarithms and quotients lose their digits",
        """exp exp2 expm1 log log2 log10 log1p pow reciprocal rsqrt sqrt softplus erfinv sinh cosh
        tan arcsin arccos logaddexp lgamma digamma xlogy logit softmax log_softmax masked_softmax
        logsumexp logcumsumexp log_sigmoid""",
    ),
    Rule(
        HIGH,
        "a sum of many numbers needs more digits than each of them",
        """sum mean prod var std cumsum cumprod norm norm1 moments squared_norm
        segment_sum segment_mean unsorted_segment_sum unsorted_segment_mean trace""",
    ),
    Rule(
        HIGH,
        "statistics of a normalisation are small differences of large sums",
        """layer_norm rms_norm batch_norm group_norm instance_norm skip_rms_norm lp_normalize
        mean_variance_normalization fused_layer_norm local_response_norm standardize
        normalize_moments cosine_similarity""",
    ),
    Rule(
        HIGH,
        "recurrent states gather the rounding of all their steps",
        "rnn gru lstm lstm_block linear_scan selective_scan",
    ),
    Rule(
        HIGH,
        "factorisations and transforms exist in 32 bits and more only",
        """inv solve triangular_solve pinv lstsq det slogdet cholesky qr lu eigh eigvalsh eig svd
        svdvals matrix_rank matrix_exp condition_number fft ifft rfft irfft""",
    ),
)
"""What torch.autocast does, by kinds of op; all others take their inputs as they come, and where
some are of 16 bits and some of 32, all are float32."""

LOSSES = Rule(HIGH, "a loss is one number, from which all gradients come", "")
"""For the ops of the namespace ``loss``."""
TAKEN = Rule(FREE, "takes its inputs as they come", "")
OPENED = Rule(APART, "made of products and other ops, each under its own rule", "")
MIXED = Rule(HIGH, "made of ops that stay in float32", "")
_BY_NAME: Mapping[str, Rule] = {name: rule for rule in RULES for name in rule.ops.split()}
_seen: dict[tuple[Op, tuple[object, ...]], Rule] = {}
_MOST = 4096


def rule_of(op: Op, specs: Sequence[TensorSpec | None]) -> Rule:
    """Return the rule for an op on inputs of these specs; composites go by what they are made of.

    >>> import gradwright as gw
    >>> from gradwright.ops.core.activation import Relu
    >>> rule_of(Relu(), [gw.TensorSpec((2,))]).what
    'free'
    """
    found = _BY_NAME.get(op.name)
    if found is not None:
        return found
    if op.namespace == "loss":
        return LOSSES
    bodies = [v for v in op.attributes().values() if isinstance(v, SubGraph)]
    if not bodies and not op.is_composite():
        return TAKEN
    key = op, tuple(None if s is None else s.key() for s in specs)
    found = _seen.get(key)
    if found is None:
        if len(_seen) >= _MOST:
            _seen.clear()
        found = _seen[key] = _by_parts(bodies or [expansion(op, specs)])
    return found


def _by_parts(parts: Sequence[SubGraph]) -> Rule:
    """Return the rule for what is made of these: a product inside opens it."""
    found = {
        rule_of(node.op, [None if t is None else t.spec for t in node.inputs]).what
        for part in parts
        for node in part.nodes
        if not isinstance(node.op, Constant)
    }
    if found & {LOW, APART}:
        return OPENED
    return MIXED if HIGH in found else TAKEN
