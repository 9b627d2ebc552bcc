"""Functions of the namespace nn; written by python -m gradwright.ops.stubs."""

from collections.abc import Sequence

from numpy.typing import ArrayLike, DTypeLike

from gradwright.graph import Tensor
from gradwright.spec import AnyDim

def apply_alibi(scores: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Scores less the distance of query and key, times a slope per head (Press et al. 2022).

    y[h, i, j] = scores[h, i, j] − mₕ·|i + S − T − j|, mₕ = 2^(−8·h/H) for h = 1 … H

    scores: f32[…, H, T, S]; the last query stands at the last key. Where H is no power of 2, the
    slopes of the power below are followed by every other one of the power above.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.apply_alibi(g.constant([[[0.0, 0.0], [0.0, 0.0]]]), name="y")
    >>> g.output({}, y)["y"].tolist()
    [[[0.0, -0.00390625], [-0.00390625, 0.0]]]
    """

def attention(
    query: Tensor | ArrayLike,
    key: Tensor | ArrayLike,
    value: Tensor | ArrayLike,
    attn_mask: Tensor | ArrayLike | None = None,
    past_key: Tensor | ArrayLike | None = None,
    past_value: Tensor | ArrayLike | None = None,
    nonpad_kv_seqlen: Tensor | ArrayLike | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    softcap: float = 0.0,
    q_num_heads: int | None = None,
    kv_num_heads: int | None = None,
    softmax_precision: str | None = None,
    qk_matmul_output_mode: int = 0,
    left_window_size: int = -1,
    right_window_size: int = -1,
    name: str | None = None,
) -> tuple[Tensor, ...]:
    """Attention with caches, windows, grouped heads, masks and soft caps, as ONNX has it.

    P = softmax(softcap(query @ keyᵀ·scale) + bias) over the keys that are seen, y = P @ value.

    query: f32[B, Hq, T, E], key: f32[B, H, S, E], value: f32[B, H, S, D], where runs of Hq/H heads
    share one; or packed as f32[B, T, Hq·E] and so on, with ``q_num_heads`` and ``kv_num_heads``.
    attn_mask, broadcastable to [B, Hq, T, S], says which keys are seen (bool), or is added (float);
    it may be shorter than the keys, whose rest is then hidden. past_key: f32[B, H, P, E] and
    past_value: f32[B, H, P, D] come before key and value. nonpad_kv_seqlen: i64[B] (or i64[], the
    same for all) says instead how many keys of a cache exist. For ``is_causal`` and the windows,
    query i stands at position P + i, or nonpad_kv_seqlen − T + i. What sees no key gets zeros.

    Returns (y, present_key, present_value, qk_matmul_output); the last is, by
    ``qk_matmul_output_mode``, the raw scores, those after softcap, those with bias and −∞ where
    nothing is seen, or P. Raises ShapeError and DTypeError for inputs that are not in step, and
    GraphError for a past beside nonpad_kv_seqlen. ONNX operator Attention (opsets 23 to 25).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> q, v = g.constant([[[[1.0], [1.0]]]]), g.constant([[[[2.0], [4.0]]]])
    >>> y, *_ = gw.nn.attention(q, q, v, is_causal=True, name="y")
    >>> g.output({}, y)["y"].tolist()
    [[[[2.0], [3.0]]]]

    Attributes:
        is_causal: Hide the keys behind each query.
        scale: Factor of the scores; None is 1/√E.
        softcap: c in c·tanh(scores/c), before any mask; 0 is none.
        q_num_heads: Heads of packed queries.
        kv_num_heads: Heads of packed keys and values.
        softmax_precision: Dtype that each step of the softmax is rounded to; None: float32 or more. One of None, 'float16', 'bfloat16', 'float32', 'float64'.
        qk_matmul_output_mode: What the last output is. One of 0, 1, 2, 3.
        left_window_size: How many keys before a query it sees; -1 is all.
        right_window_size: How many keys behind a query it sees; -1 is all.
    """

def awq_matmul(
    x: Tensor | ArrayLike,
    qweight: Tensor | ArrayLike,
    qzeros: Tensor | ArrayLike,
    scales: Tensor | ArrayLike,
    *,
    name: str | None = None,
) -> Tensor:
    """Product with a weight of 4 bits in AutoAWQ's layout, of which 0.5 MB at a time are floats.

    y = x @ ((q − z)·scales), x: f32[…, D], qweight: i32[D, F/8], qzeros: i32[D/group, F/8],
    scales: f16[D/group, F] -> f32[…, F]; an int32 holds columns 0, 2, 4, 6, 1, 3, 5, 7 of eight
    from its lowest to its highest 4 bits (Lin et al. 2024)

    The gradient flows to x. Raises ShapeError where these differ.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> q, z = g.constant([[0x21], [0x43]], dtype="int32"), g.constant([[0]], dtype="int32")
    >>> y = gw.nn.awq_matmul(g.constant([[1.0, 1.0]]), q, z, g.constant([[1.0] * 8]), name="y")
    >>> g.output({}, y)["y"].tolist()
    [[4.0, 0.0, 6.0, 0.0, 0.0, 0.0, 0.0, 0.0]]
    """

def bias_add(
    x: Tensor | ArrayLike, bias: Tensor | ArrayLike, axis: int = -1, *, name: str | None = None
) -> Tensor:
    """Add a bias along one axis; ``axis=1`` is the channel axis of images, ``f32[B, C, H, W]``.

    y[…, c, …] = x[…, c, …] + bias[c]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, b = g.constant([[1.0, 2.0]]), g.constant([10.0, 20.0])
    >>> g.output({}, gw.nn.bias_add(x, b))["bias_add"].tolist()
    [[11.0, 22.0]]

    Attributes:
        axis: Axis along which the bias lies.
    """

def causal_conv1d(
    x: Tensor | ArrayLike,
    weight: Tensor | ArrayLike,
    bias: Tensor | ArrayLike | None = None,
    past_state: Tensor | ArrayLike | None = None,
    *,
    activation: str = "none",
    name: str | None = None,
) -> Tensor:
    """Convolution of each channel along time, over this element and those before it.

    y[b, c, t] = f(bias[c] + Σ_j weight[c, 0, j]·x[b, c, t + j − k + 1]), with past_state before x

    x: f32[B, C, T], weight: f32[C, 1, k], bias: f32[C], past_state: f32[B, C, k − 1], else 0
    -> y: f32[B, C, T] and the state to go on with: f32[B, C, k − 1], the last elements of the past
    and x. f is SiLU or nothing. Raises ShapeError where these differ (ONNX
    CausalConvWithState-27; Gu and Dao 2023).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[[1.0, 2.0, 3.0]]]), g.constant([[[10.0, 1.0]]])
    >>> y, state = gw.nn.causal_conv1d(x, w, name="conv")
    >>> [a.tolist() for a in g.output({}, y, state).values()]
    [[[[1.0, 12.0, 23.0]]], [[[3.0]]]]

    Attributes:
        activation: The function f. One of 'none', 'silu', 'swish'.
    """

def causal_mask(scores: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Which keys each query may see: those at its own position and before.

    y[i, j] = j ≤ i, of the shape of the last two axes of ``scores``

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.causal_mask(g.constant([[0.0, 0.0]])))["causal_mask"].tolist()
    [[True, False]]
    """

def celu(x: Tensor | ArrayLike, alpha: float = 1.0, *, name: str | None = None) -> Tensor:
    """Elu whose slope is continuous for every α (Barron 2017).

    y = max(x, 0) + min(α(exp(x/α) − 1), 0)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.celu(g.constant([-100.0, 1.0]), alpha=2.0))["celu"].tolist()
    [-2.0, 1.0]

    Attributes:
        alpha: Minus the limit for x → −∞.
    """

def center_and_sharpen(
    x: Tensor | ArrayLike,
    center: Tensor | ArrayLike,
    temperature: Tensor | ArrayLike,
    axis: int = -1,
    *,
    name: str | None = None,
) -> Tensor:
    """Teacher's probabilities of self-distillation, centred against collapse (Caron et al. 2021).

    y = softmax((x − center)/temperature) over ``axis``; center broadcasts to x, temperature is 0-d

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, c = g.constant([[1.0, 2.0]]), g.constant([1.0, 2.0])
    >>> g.output({}, gw.nn.center_and_sharpen(x, c, g.constant(0.04), name="y"))["y"].tolist()
    [[0.5, 0.5]]

    Attributes:
        axis: Axis that sums to one.
    """

def column_parallel_linear(
    x: Tensor | ArrayLike,
    weight: Tensor | ArrayLike,
    bias: Tensor | ArrayLike | None = None,
    *,
    parts: int = 1,
    part: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Affine map whose outputs are shared out among parts (Shoeybi et al. 2019, "Megatron-LM").

    yₖ = x @ weight[:, part k] + bias[part k]; all parts side by side are the whole map

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[1.0]]), g.constant([[1.0, 2.0, 3.0, 4.0]])
    >>> y = gw.nn.column_parallel_linear(x, w, parts=2, part=1, name="y")
    >>> g.output({}, y)["y"].tolist()
    [[3.0, 4.0]]

    Attributes:
        parts: Number of parts that the weight is cut into.
        part: Which of them is computed; None: all of them.
    """

def copy(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """The tensor in memory of its own, row-major.

    y = x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.copy(g.constant([1.0, 2.0])))["copy"].tolist()
    [1.0, 2.0]
    """

def crelu(x: Tensor | ArrayLike, axis: int = -1, *, name: str | None = None) -> Tensor:
    """Relu of the input and of its negative side by side (Shang et al. 2016).

    y = (max(x, 0), max(−x, 0)) along ``axis``, which doubles

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.crelu(g.constant([-1.0, 2.0])))["crelu"].tolist()
    [0.0, 2.0, 1.0, 0.0]

    Attributes:
        axis: Axis that doubles.
    """

def ctc_greedy_decoder(
    logits: Tensor | ArrayLike,
    lengths: Tensor | ArrayLike | None = None,
    *,
    blank: int = 0,
    merge_repeated: bool = True,
    name: str | None = None,
) -> tuple[Tensor, ...]:
    """Labels along the likeliest path: repeats merged, blanks dropped (Graves et al. 2006).

    path_t = argmax_c logits[t, b, c] for t < lengths[b]; labels = path without repeats and blanks

    logits: f32[T, B, C], lengths: i64[B], all T if not given. Returns decoded: i64[B, T], filled
    with −1, their numbers: i64[B], and the score Σ_t max_c logits[t, b, c]: f32[B], through which
    gradients flow (torch's layout; TensorFlow's ``ctc_greedy_decoder`` returns the score negated).

    >>> import gradwright as gw, numpy as np
    >>> g = gw.Graph()
    >>> logits = g.constant(np.eye(3)[[1, 1, 0, 1, 2]][:, None])
    >>> labels, n, score = gw.nn.ctc_greedy_decoder(logits, name="y")
    >>> g.output({}, labels)["y"].tolist()
    [[1, 1, 2, -1, -1]]

    Attributes:
        blank: Class that stands for no label.
        merge_repeated: Whether repeats without a blank between are one label.
    """

def decoder_masked_mha(
    query: Tensor | ArrayLike,
    key: Tensor | ArrayLike,
    value: Tensor | ArrayLike,
    key_cache: Tensor | ArrayLike,
    value_cache: Tensor | ArrayLike,
    past_sequence_length: Tensor | ArrayLike,
    attention_bias: Tensor | ArrayLike | None = None,
    *,
    num_heads: int,
    kv_num_heads: int | None = None,
    scale: float | None = None,
    softcap: float = 0.0,
    left_window_size: int = -1,
    name: str | None = None,
) -> tuple[Tensor, ...]:
    """Attention of new positions to a cache of fixed room into which they are written.

    present[…, P + i, :] = new[…, i, :],  yᵢ = softmax(Qᵢ @ present_key[: P + i + 1]ᵀ·scale) @
    present_value[: P + i + 1], with P = past_sequence_length

    query: f32[B, T, Hq·E], key: f32[B, T, H·E], value: f32[B, T, H·D]; key_cache: f32[B, H, S, E],
    value_cache: f32[B, H, S, D], past_sequence_length: i64[] or i64[B]; attention_bias broadcasts
    to [B, Hq, T, S]. Returns (f32[B, T, Hq·D], present_key, present_value). What does not fit into
    the cache is an error when run. After ONNX Runtime's DecoderMaskedMultiHeadAttention.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, cache = g.placeholder("x", (1, 1, 8)), g.placeholder("cache", (1, 2, 16, 4))
    >>> at = g.placeholder("at", (), "int64")
    >>> y, keys, values = gw.nn.decoder_masked_mha(x, x, x, cache, cache, at, num_heads=2)
    >>> y.shape, keys.shape
    ((1, 1, 8), (1, 2, 16, 4))

    Attributes:
        num_heads: Heads of the queries.
        kv_num_heads: Heads of keys and values; None is num_heads.
        scale: Factor of the scores; None is 1/√E.
        softcap: c in c·tanh(scores/c), before any mask; 0 is none.
        left_window_size: How many keys before a query it sees; -1 is all.
    """

def dora_matmul(
    x: Tensor | ArrayLike,
    weight: Tensor | ArrayLike,
    a: Tensor | ArrayLike,
    b: Tensor | ArrayLike,
    magnitude: Tensor | ArrayLike,
    bias: Tensor | ArrayLike | None = None,
    *,
    scale: float = 1.0,
    name: str | None = None,
) -> Tensor:
    """Affine map whose weight's direction is adapted and whose size is learned (Liu et al. 2024).

    y = (x @ v)·magnitude/‖v‖ + bias, v = weight + scale·a @ b, with one norm and one magnitude per
    output: f32[out]. The norm counts as a constant in gradients, as §4.3 of "DoRA" proposes.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([1.0, 0.0]), g.constant([[3.0], [4.0]])
    >>> a, b = g.constant([[0.0], [0.0]]), g.constant([[0.0]])
    >>> g.output({}, gw.nn.dora_matmul(x, w, a, b, g.constant([10.0]), name="y"))["y"].tolist()
    [6.0]

    Attributes:
        scale: Factor of the adapter: lora_alpha/r, or lora_alpha/√r (rsLoRA).
    """

def dot_product_attention(
    query: Tensor | ArrayLike,
    key: Tensor | ArrayLike,
    value: Tensor | ArrayLike,
    bias: Tensor | ArrayLike | None = None,
    mask: Tensor | ArrayLike | None = None,
    query_seq_lengths: Tensor | ArrayLike | None = None,
    key_value_seq_lengths: Tensor | ArrayLike | None = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    local_window_size: tuple[int, int] | None = None,
    name: str | None = None,
) -> Tensor:
    """Attention with positions before heads, as ``jax.nn.dot_product_attention`` has it.

    y = softmax(query @ keyᵀ·scale + bias) @ value over the keys that are seen

    query: f32[B, T, Hq, E], key: f32[B, S, H, E], value: f32[B, S, H, D]; runs of Hq/H heads share
    one. bias and mask: bool broadcast to [B, Hq, T, S]; query_seq_lengths and
    key_value_seq_lengths: i64[B] say how many positions exist, results beyond are zeros.
    ``local_window_size`` = (left, right) bounds what a query sees.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> q, v = g.constant([[[[1.0]], [[1.0]]]]), g.constant([[[[2.0]], [[4.0]]]])
    >>> y = gw.nn.dot_product_attention(q, q, v, is_causal=True, name="y")
    >>> g.output({}, y)["y"].ravel().tolist()
    [2.0, 3.0]

    Attributes:
        scale: Factor of the scores; None is 1/√E.
        is_causal: Let position i see keys 0 to i only.
        local_window_size: Keys seen before and behind.
    """

def dual_rope(
    x: Tensor | ArrayLike,
    position_ids: Tensor | ArrayLike,
    base: float = 10000.0,
    scaling: str = "none",
    factor: float = 1.0,
    original_length: int = 8192,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    low_freq_factor: float = 1.0,
    high_freq_factor: float = 4.0,
    attention_factor: float | None = None,
    interleaved: bool = False,
    rotary_dim: int = 0,
    global_base: float = 1000000.0,
    *,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """One tensor rotated twice: by fast angles for near positions, by slow ones for far (Gemma 3).

    local = rope(x, base=``base``), global = rope(x, base=``global_base``)

    x: f32[B, n, T, D], position_ids: i64[B, T], or i64[T]. ``scaling`` and ``factor`` concern the
    global angles. Returns (local, global): layers with a sliding window take the one, layers that
    see everything the other.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[[[1.0, 1.0, 0.0, 0.0]]]])
    >>> near, far = gw.nn.dual_rope(x, g.constant([2]), name="y")
    >>> [a.round(3).ravel().tolist()[1::2] for a in g.output({}, near, far).values()]
    [[1.0, 0.019999999552965164], [1.0, 0.0020000000949949026]]

    Attributes:
        base: The slowest pair turns once in 2π·base positions.
        scaling: How a longer context is reached. One of 'none', 'linear', 'ntk', 'yarn', 'llama3'.
        factor: How many times longer the context is than in pre-training.
        original_length: Length in pre-training, for yarn and llama3.
        beta_fast: yarn: pairs that turn more often keep their speed.
        beta_slow: yarn: pairs that turn less often slow by the factor.
        low_freq_factor: llama3: likewise, turns at which all slow.
        high_freq_factor: llama3: likewise, turns at which none slow.
        attention_factor: Factor of cos and sin; None is 1, for yarn with a factor above 1 0.1·ln factor + 1.
        interleaved: Pairs stand side by side.
        rotary_dim: How many features are rotated; 0 is all.
        global_base: Base of the global angles.
    """

def elu(x: Tensor | ArrayLike, alpha: float = 1.0, *, name: str | None = None) -> Tensor:
    """Exponential linear unit (Clevert, Unterthiner and Hochreiter 2015).

    y = x for x > 0, else α(eˣ − 1)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.elu(g.constant([-100.0, 2.0])))["elu"].tolist()
    [-1.0, 2.0]

    Attributes:
        alpha: Minus the limit for x → −∞.
    """

def embedding(
    ids: Tensor | ArrayLike, weight: Tensor | ArrayLike, *, name: str | None = None
) -> Tensor:
    """Rows of a table by number; the gradient adds up over repeated numbers.

    y[…, :] = weight[ids[…], :]

    An id that is no row of the table is an error when it is run.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> table = g.variable("table", (3, 2), init=[[0, 0], [1, 2], [3, 4]])
    >>> g.output({}, gw.nn.embedding(g.constant([2, 1]), table))["embedding"].tolist()
    [[3.0, 4.0], [1.0, 2.0]]
    """

def embedding_bag(
    ids: Tensor | ArrayLike,
    weight: Tensor | ArrayLike,
    per_sample_weights: Tensor | ArrayLike | None = None,
    *,
    mode: str = "sum",
    padding_idx: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Sum, mean or maximum of the rows of a table that each bag names.

    y[…, :] = Σₖ w[…, k]·weight[ids[…, k], :], with ids: i64[…, K], weight: f32[n, D]

    ``mode`` "mean" divides by the number of ids, "max" takes the largest per column. Ids equal to
    ``padding_idx`` do not count; a bag of none gives 0. ``per_sample_weights`` are for sums only.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> table = g.constant([[0.0, 0.0], [1.0, 2.0], [3.0, 4.0]])
    >>> y = gw.nn.embedding_bag(g.constant([[1, 2], [2, 0]]), table, mode="mean", name="y")
    >>> g.output({}, y)["y"].tolist()
    [[2.0, 3.0], [1.5, 2.0]]

    Attributes:
        mode: How rows become one. One of 'sum', 'mean', 'max'.
        padding_idx: Id that does not count; None: all count.
    """

def flash_attention(
    query: Tensor | ArrayLike,
    key: Tensor | ArrayLike,
    value: Tensor | ArrayLike,
    is_causal: bool = False,
    scale: float | None = None,
    left_window_size: int = -1,
    right_window_size: int = -1,
    tile: int = 256,
    *,
    name: str | None = None,
) -> Tensor:
    """Attention whose memory grows with the length, not its square (Dao 2023, FlashAttention-2).

    y = softmax(query @ keyᵀ·scale) @ value, summed tile by tile with a running maximum and total:
    of a tile's scores s, m′ = max(m, max s), l′ = l·eᵐ⁻ᵐ′ + Σ eˢ⁻ᵐ′, y′ = y·eᵐ⁻ᵐ′ + eˢ⁻ᵐ′ @ value.

    query: f32[B, Hq, T, E], key: f32[B, H, S, E], value: f32[B, H, S, D]; runs of Hq/H heads share
    one. Query i stands at position S − T + i for ``is_causal`` and the windows; tiles that nobody
    sees are not computed. A query that sees no key gets zeros. The gradient computes the weights
    again, tile by tile, from the residual m + ln l; that of order 2 holds whole score matrices.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> q, v = g.constant([[[[1.0], [1.0]]]]), g.constant([[[[2.0], [4.0]]]])
    >>> y = gw.nn.flash_attention(q, q, v, is_causal=True, name="y")
    >>> g.output({}, y)["y"].tolist()
    [[[[2.0], [3.0]]]]

    Attributes:
        is_causal: Hide the keys behind each query.
        scale: Factor of the scores; None is 1/√E.
        left_window_size: How many keys before a query it sees; -1 is all.
        right_window_size: How many keys behind a query it sees; -1 is all.
        tile: Queries, and keys, of a tile.
    """

def fp8_matmul(
    a: Tensor | ArrayLike,
    b: Tensor | ArrayLike,
    a_scale: Tensor | ArrayLike | None = None,
    b_scale: Tensor | ArrayLike | None = None,
    *,
    dtype: DTypeLike = "float8_e4m3fn",
    name: str | None = None,
) -> Tensor:
    """Product of matrices rounded to 8-bit floats, each with one scale (Micikevicius et al. 2022).

    y = (f8(a/s_a) @ f8(b/s_b))·s_a·s_b, s = max |·| / the largest f8, or the scale that is given

    a: f32[…, M, K], b: f32[…, K, N], a_scale, b_scale: f32[]. Products are summed in float32. The
    gradient takes rounding as the identity, scales as constants. Raises ShapeError as ``matmul``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> a = g.constant([[448.0, 1.06]])
    >>> g.output({}, gw.nn.fp8_matmul(a, a.T, name="y"))["y"].tolist()
    [[200705.0]]

    Attributes:
        dtype: The narrow dtype.
    """

def fp8_product(
    a: Tensor | ArrayLike,
    b: Tensor | ArrayLike,
    a_scale: Tensor | ArrayLike | None = None,
    b_scale: Tensor | ArrayLike | None = None,
    g_scale: Tensor | ArrayLike | None = None,
    *,
    a_dtype: str = "float8_e4m3fn",
    b_dtype: str = "float8_e4m3fn",
    g_dtype: str = "float8_e5m2",
    dtype: DTypeLike | None = None,
    margin: int = 0,
    transpose_a: bool = False,
    transpose_b: bool = False,
    name: str | None = None,
) -> tuple[Tensor, ...]:
    """Product of two matrices in 8-bit floats, whose gradient is two such products.

    y = f8(a)·f8(b),  ∂a = f8(g)·f8(b)ᵀ,  ∂b = f8(a)ᵀ·f8(g), each tensor with one scale

    a: f32[M, K], b: f32[K, N] -> y: f32[M, N], and max |a|, max |b|: f32[], of which scales of
    later steps are made. ``a_scale``, ``b_scale`` and ``g_scale``: f32[]; without them each tensor
    is scaled by its own maximum. Cotangents are quantised to ``g_dtype``; rounding counts as the
    identity (Micikevicius et al. 2022). Raises ShapeError as ``matmul``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> a = g.constant([[448.0, 1.06]])
    >>> y, most, _ = gw.nn.fp8_product(a, a, transpose_b=True, name="y")
    >>> [v.tolist() for v in g.output({}, y, most).values()]
    [[[200705.0]], 448.0]

    Attributes:
        a_dtype: 8-bit float of a. One of 'float8_e4m3fn', 'float8_e5m2'.
        b_dtype: 8-bit float of b. One of 'float8_e4m3fn', 'float8_e5m2'.
        g_dtype: 8-bit float of cotangents. One of 'float8_e4m3fn', 'float8_e5m2'.
        dtype: Dtype of y; None: that of a and b.
        margin: Powers of two left as room, where scales are not given.
        transpose_a: Whether a is [K, M].
        transpose_b: Whether b is [N, K].
    """

def fused_elementwise_chain(
    chain: Sequence[str],
    x: Tensor | ArrayLike,
    *others: Tensor | ArrayLike | Sequence[Tensor],
    name: str | None = None,
) -> Tensor:
    """Elementwise ops one after the other, each applied to what the one before gave.

    y = fₙ(… f₂(f₁(x))); an op of two tensors takes the next of ``others`` as its second.

    Ops are named as they are registered, and stand with their defaults. Raises GraphError for a
    name that is no elementwise op of one or two tensors, and where ``others`` do not go around.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, b = g.constant([-1.0, 2.0]), g.constant(1.0)
    >>> y = gw.nn.fused_elementwise_chain(("relu", "add", "neg"), x, b, name="y")
    >>> g.output({}, y)["y"].tolist()
    [-1.0, -3.0]

    Attributes:
        chain: Names of elementwise ops of one or two tensors.
    """

def fused_gelu(
    x: Tensor | ArrayLike, bias: Tensor | ArrayLike | None = None, *, name: str | None = None
) -> Tensor:
    """Gelu by tanh of an input with a bias, as transformer blocks use it.

    y = u/2·(1 + tanh(√(2/π)·(u + 0.044715·u³))), u = x + bias, with bias: f32[D] for x: f32[…, D]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.fused_gelu(g.constant([0.0, 1.0])))["fused_gelu"].round(4)
    array([0.    , 0.8412], dtype=float32)
    """

def fused_gemm_swiglu(
    x: Tensor | ArrayLike,
    gate_weight: Tensor | ArrayLike,
    up_weight: Tensor | ArrayLike,
    gate_bias: Tensor | ArrayLike | None = None,
    up_bias: Tensor | ArrayLike | None = None,
    *,
    name: str | None = None,
) -> Tensor:
    """Gate and value of a swiglu block from one input (Shazeer 2020).

    y = silu(x @ gate_weight + gate_bias)·(x @ up_weight + up_bias), with x: f32[…, in],
    weights f32[in, hidden], biases f32[hidden]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[1.0, 1.0]]), g.variable("w", (2, 3), init=50.0)
    >>> g.output({}, gw.nn.fused_gemm_swiglu(x, w, w, name="y"))["y"].tolist()
    [[10000.0, 10000.0, 10000.0]]
    """

def fused_layer_norm(
    x: Tensor | ArrayLike,
    weight: Tensor | ArrayLike | None = None,
    bias: Tensor | ArrayLike | None = None,
    *,
    axis: int = -1,
    eps: float = 1e-05,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Layer norm together with the statistics that it used (Ba, Kiros, Hinton 2016).

    y = (x − μ)·r·weight + bias, μ = mean x, r = 1/√(var x + ε); the outputs are y, μ and r, with
    the normalised axes of μ and r kept at size 1, and in float32 at least

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y, mean, r = gw.nn.fused_layer_norm(g.constant([[1.0, 3.0]]), eps=0.0, name="y")
    >>> [v.tolist() for v in g.output({}, y, mean, r).values()]
    [[[-1.0, 1.0]], [[2.0]], [[1.0]]]

    Attributes:
        axis: First normalised axis; all from there on are.
        eps: Added to the variance, so that constants do not divide by 0.
    """

def fused_mrope(
    query: Tensor | ArrayLike,
    key: Tensor | ArrayLike,
    position_ids: Tensor | ArrayLike,
    base: float = 5000000.0,
    scaling: str = "none",
    factor: float = 1.0,
    original_length: int = 8192,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    low_freq_factor: float = 1.0,
    high_freq_factor: float = 4.0,
    attention_factor: float | None = None,
    interleaved: bool = False,
    rotary_dim: int = 0,
    sections: Sequence[int] = (24, 20, 20),
    sections_interleaved: bool = True,
    *,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Rotary embedding of positions in time, height and width at once (Qwen2-VL, Wang et al. 2024).

    Each pair of features turns by one of the three positions: pair k by the axis that
    ``sections`` give it, in turns (t h w t h w …) or, without ``sections_interleaved``, in runs.

    query: f32[B, Hq, T, D], key: f32[B, H, T, D], position_ids: i64[3, B, T], or i64[3, T];
    ``sections`` add up to D/2. Text has three equal positions, for which this is ``fused_rope``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> q = g.placeholder("q", (1, 2, 5, 8))
    >>> at = g.placeholder("at", (3, 1, 5), "int64")
    >>> gw.nn.fused_mrope(q, q, at, sections=(2, 1, 1))[0].shape
    (1, 2, 5, 8)

    Attributes:
        base: The slowest pair turns once in 2π·base positions.
        scaling: How a longer context is reached. One of 'none', 'linear', 'ntk', 'yarn', 'llama3'.
        factor: How many times longer the context is than in pre-training.
        original_length: Length in pre-training, for yarn and llama3.
        beta_fast: yarn: pairs that turn more often keep their speed.
        beta_slow: yarn: pairs that turn less often slow by the factor.
        low_freq_factor: llama3: likewise, turns at which all slow.
        high_freq_factor: llama3: likewise, turns at which none slow.
        attention_factor: Factor of cos and sin; None is 1, for yarn with a factor above 1 0.1·ln factor + 1.
        interleaved: Pairs stand side by side.
        rotary_dim: How many features are rotated; 0 is all.
        sections: Pairs that turn by each axis.
        sections_interleaved: Axes take turns, rather than runs of pairs.
    """

def fused_norm_quantize(
    x: Tensor | ArrayLike,
    weight: Tensor | ArrayLike | None = None,
    bias: Tensor | ArrayLike | None = None,
    *,
    axis: int = -1,
    eps: float = 1e-05,
    norm: str = "rms",
    dtype: DTypeLike = "int8",
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Norm, then codes of 8 bits with one scale per row.

    codes = round(n/scale), scale = max |n|/127 over the normalised axes, for n = rms_norm(x) or
    layer_norm(x); a float8 dtype takes its largest number for 127 and rounds to its own grid

    Outputs the codes and the scales, float32 at least, with the normalised axes kept at size 1:
    codes·scale is n again, up to rounding. Integer codes have no gradient; the scale has.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> codes, scale = gw.nn.fused_norm_quantize(g.constant([[1.0, -2.0]]), name="y")
    >>> g.output({}, codes)["y"].tolist()
    [[64, -127]]

    Attributes:
        axis: First normalised axis; all from there on are.
        eps: Added to the variance, so that constants do not divide by 0.
        norm: Which norm. One of 'rms', 'layer'.
        dtype: Dtype of the codes: int8 or a float8.
    """

def fused_rms_norm_swiglu(
    x: Tensor | ArrayLike,
    gain: Tensor | ArrayLike,
    gate_weight: Tensor | ArrayLike,
    up_weight: Tensor | ArrayLike,
    eps: float = 1e-05,
    *,
    name: str | None = None,
) -> Tensor:
    """First half of a Llama block's feed-forward layer: norm, gate, value.

    y = silu(n @ gate_weight)·(n @ up_weight), n = x/√(mean x² + ε)·gain, with x: f32[…, in],
    gain: f32[in], weights f32[in, hidden]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, gain = g.constant([3.0, 3.0]), g.constant([1.0, 1.0])
    >>> w = g.constant([[50.0], [50.0]])
    >>> g.output({}, gw.nn.fused_rms_norm_swiglu(x, gain, w, w, name="y"))["y"].round().tolist()
    [10000.0]

    Attributes:
        eps: Added to the mean square, so that zeros do not divide by 0.
    """

def fused_rope(
    query: Tensor | ArrayLike,
    key: Tensor | ArrayLike,
    position_ids: Tensor | ArrayLike,
    base: float = 10000.0,
    scaling: str = "none",
    factor: float = 1.0,
    original_length: int = 8192,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    low_freq_factor: float = 1.0,
    high_freq_factor: float = 4.0,
    attention_factor: float | None = None,
    interleaved: bool = False,
    rotary_dim: int = 0,
    *,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Queries and keys with rotary position embedding, angles made on the way (Su et al. 2021).

    (y₁, y₂) = (x₁·cos pω − x₂·sin pω, x₁·sin pω + x₂·cos pω) for each pair of features

    query: f32[B, Hq, T, D], key: f32[B, H, T, D], position_ids: i64[B, T], or i64[T]; the settings
    of ``rope_cos_sin``. Returns both, rotated.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> q = g.constant([[[[1.0, 0.0], [1.0, 0.0]]]])
    >>> y, _ = gw.nn.fused_rope(q, q, g.constant([0, 1]), name="y")
    >>> g.output({}, y)["y"].round(4).tolist()
    [[[[1.0, 0.0], [0.5403000116348267, 0.8414999842643738]]]]

    Attributes:
        base: The slowest pair turns once in 2π·base positions.
        scaling: How a longer context is reached. One of 'none', 'linear', 'ntk', 'yarn', 'llama3'.
        factor: How many times longer the context is than in pre-training.
        original_length: Length in pre-training, for yarn and llama3.
        beta_fast: yarn: pairs that turn more often keep their speed.
        beta_slow: yarn: pairs that turn less often slow by the factor.
        low_freq_factor: llama3: likewise, turns at which all slow.
        high_freq_factor: llama3: likewise, turns at which none slow.
        attention_factor: Factor of cos and sin; None is 1, for yarn with a factor above 1 0.1·ln factor + 1.
        interleaved: Pairs stand side by side.
        rotary_dim: How many features are rotated; 0 is all.
    """

def gated_delta_net_block(
    x: Tensor | ArrayLike,
    w_q: Tensor | ArrayLike,
    w_k: Tensor | ArrayLike,
    w_v: Tensor | ArrayLike,
    w_z: Tensor | ArrayLike,
    w_b: Tensor | ArrayLike,
    w_a: Tensor | ArrayLike,
    conv: Tensor | ArrayLike,
    a_log: Tensor | ArrayLike,
    dt_bias: Tensor | ArrayLike,
    norm: Tensor | ArrayLike,
    w_o: Tensor | ArrayLike,
    eps: float = 1e-06,
    chunk_size: int = 32,
    *,
    name: str | None = None,
) -> Tensor:
    """Block of a gated delta network: projections, short convolutions, memory, gated norm.

    q, k, v = silu(conv(x w_q)), silu(conv(x w_k)), silu(conv(x w_v)), q and k of length 1 per head;
    β = σ(x w_b), g = −exp(a_log)·softplus(x w_a + dt_bias);
    y = (rms_norm(gated_delta_rule(q, k, v, g, β))·norm⊙silu(x w_z)) w_o (Yang et al. 2025)

    x: f32[B, T, D], w_q, w_k: f32[D, H·K], w_v, w_z: f32[D, H·V], w_b, w_a: f32[D, H],
    conv: f32[H·(2·K + V), 1, k] for q, k and v one after the other, a_log, dt_bias: f32[H],
    norm: f32[V], w_o: f32[H·V, D] -> f32[B, T, D]. Raises ShapeError where these differ.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> shapes = dict(x=(1, 5, 8), w_q=(8, 6), w_k=(8, 6), w_v=(8, 4), w_z=(8, 4), w_b=(8, 2),
    ...     w_a=(8, 2), conv=(16, 1, 3), a_log=(2,), dt_bias=(2,), norm=(2,), w_o=(4, 8))
    >>> gw.nn.gated_delta_net_block(*(g.placeholder(k, s) for k, s in shapes.items())).shape
    (1, 5, 8)

    Attributes:
        eps: Added to the mean square in the norm.
        chunk_size: Steps of a chunk.
    """

def gated_delta_rule(
    query: Tensor | ArrayLike,
    key: Tensor | ArrayLike,
    value: Tensor | ArrayLike,
    decay: Tensor | ArrayLike,
    beta: Tensor | ArrayLike,
    initial: Tensor | ArrayLike | None = None,
    *,
    scale: float | None = None,
    normalize: bool = False,
    chunk_size: int = 32,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Memory S of values by keys, which decays and is corrected at each step (Yang et al. 2025).

    S ← exp(g_t)·S, S ← S + k_t ⊗ β_t·(v_t − Sᵀk_t), y_t = scale·Sᵀq_t, g the decay

    query, key: f32[B, T, H, K], value: f32[B, T, H, V], decay: f32[B, T, H] (at most 0),
    beta: f32[B, T, H], initial: f32[B, H, K, V] -> y: f32[B, T, H, V], last S: f32[B, H, K, V].
    Within a chunk the corrections are a triangular system (Yang et al. 2024); only from chunk to
    chunk there is a loop. Keys are normalised first with ``normalize``. Raises ShapeError where
    these differ.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> k, v = g.constant([[[[1.0]], [[1.0]]]]), g.constant([[[[4.0]], [[8.0]]]])
    >>> gate, half = g.constant([[[0.0], [0.0]]]), g.constant([[[0.5], [0.5]]])
    >>> y, s = gw.nn.gated_delta_rule(k, k, v, gate, half, scale=1.0, name="delta")
    >>> g.output({}, y)[y.name].ravel().tolist()
    [2.0, 5.0]

    Attributes:
        scale: Factor of the queries; None is 1/√K.
        normalize: Bring queries and keys to length 1 first.
        chunk_size: Steps of a chunk.
    """

def geglu(
    gate: Tensor | ArrayLike,
    x: Tensor | ArrayLike,
    approximate: str = "none",
    *,
    name: str | None = None,
) -> Tensor:
    """Input gated by a gelu (Shazeer 2020).

    y = gate·Φ(gate)·x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> gate, x = g.constant([0.0, 1000.0]), g.constant([2.0, 3.0])
    >>> g.output({}, gw.nn.geglu(gate, x))["geglu"].tolist()
    [0.0, 3000.0]

    Attributes:
        approximate: Exact, or by tanh. One of 'none', 'tanh'.
    """

def gelu(x: Tensor | ArrayLike, approximate: str = "none", *, name: str | None = None) -> Tensor:
    """Gaussian error linear unit (Hendrycks and Gimpel 2016).

    y = x·Φ(x), with Φ the normal distribution function; approximate="tanh" takes
    y = x/2·(1 + tanh(√(2/π)·(x + 0.044715·x³)))

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.gelu(g.constant([0.0, 1.0])))["gelu"].round(4)
    array([0.    , 0.8413], dtype=float32)

    Attributes:
        approximate: Exact, or by tanh. One of 'none', 'tanh'.
    """

def ggml_lora_matmul(
    x: Tensor | ArrayLike,
    weight: Tensor | ArrayLike,
    a: Tensor | ArrayLike,
    b: Tensor | ArrayLike,
    format: str = "q8_0",
    scale: float = 1.0,
    *,
    name: str | None = None,
) -> Tensor:
    """Product with a weight in blocks of a ggml format, and a low-rank adapter beside it.

    y = x @ dequantize_ggml(weight)ᵀ + scale·(x @ Aᵀ) @ Bᵀ (Hu et al. 2022; Dettmers et al. 2023)

    x: f32[…, D], weight: u8[F, D/size·bytes], A: f32[r, D], B: f32[F, r] -> f32[…, F]; scale is
    lora_alpha/r. The gradient flows to x, A and B. Raises ShapeError where these differ.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = gw.quant.quantize_ggml(g.constant([[1.0] * 32]), format="q4_0")
    >>> x, a, b = g.constant([[1.0] * 32]), g.constant([[0.5] * 32]), g.constant([[1.0]])
    >>> y = gw.nn.ggml_lora_matmul(x, w, a, b, format="q4_0", scale=2.0, name="y")
    >>> g.output({}, y)["y"].tolist()
    [[64.0]]

    Attributes:
        format: Name of the format. One of 'q4_0', 'q4_1', 'q5_0', 'q5_1', 'q8_0', 'q4_k'.
        scale: Factor of the adapter.
    """

def ggml_matmul(
    x: Tensor | ArrayLike,
    weight: Tensor | ArrayLike,
    format: str = "q8_0",
    *,
    name: str | None = None,
) -> Tensor:
    """Product with a weight in blocks of a ggml format, of which 0.5 MB at a time are floats.

    y = x @ dequantize_ggml(weight)ᵀ, x: f32[…, D], weight: u8[F, D/size·bytes] -> f32[…, F]

    The gradient flows to x. Raises ShapeError where D differs.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = gw.quant.quantize_ggml(g.constant([[1.0] * 32, [-2.0] * 32]), format="q4_0")
    >>> y = gw.nn.ggml_matmul(g.constant([[1.0] * 32]), w, format="q4_0", name="y")
    >>> g.output({}, y)["y"].tolist()
    [[32.0, -64.0]]

    Attributes:
        format: Name of the format. One of 'q4_0', 'q4_1', 'q5_0', 'q5_1', 'q8_0', 'q4_k'.
    """

def glu(x: Tensor | ArrayLike, axis: int = -1, *, name: str | None = None) -> Tensor:
    """Half of the input, gated by the other half (Dauphin et al. 2016).

    y = a·sigmoid(b), with a and b the halves of x along ``axis``

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.glu(g.constant([3.0, 0.0])))["glu"].tolist()
    [1.5]

    Attributes:
        axis: Axis that is halved.
    """

def group_norm(
    x: Tensor | ArrayLike,
    weight: Tensor | ArrayLike | None = None,
    bias: Tensor | ArrayLike | None = None,
    *,
    num_groups: int,
    eps: float = 1e-05,
    name: str | None = None,
) -> Tensor:
    """Bring each group of channels to mean 0 and variance 1 (Wu and He 2018).

    y = (x − μ)/√(σ² + ε)·weight + bias, with μ and σ² over C/num_groups channels and all pixels

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([[1.0, 3.0, 5.0, 5.0]])
    >>> y = gw.nn.group_norm(x, num_groups=2)
    >>> g.output({}, y)["group_norm"].round(3).tolist()
    [[-1.0, 1.0, 0.0, 0.0]]

    Attributes:
        eps: Added to the variance, so that constants do not divide by 0.
        num_groups: Number of groups that the channels make.
    """

def grouped_matmul(
    x: Tensor | ArrayLike,
    weight: Tensor | ArrayLike,
    sizes: Tensor | ArrayLike,
    *,
    name: str | None = None,
) -> Tensor:
    """Each row times the matrix of its group; the rows of group 0 stand first, then those of 1.

    y_m = x_m @ weight_{e(m)}

    x: f32[M, D], weight: f32[E, D, F], sizes: i64[E] with Σ sizes = M -> f32[M, F]

    One product per group. Raises ShapeError where these differ.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[1.0], [2.0], [3.0]]), g.constant([[[10.0]], [[100.0]]])
    >>> y = gw.nn.grouped_matmul(x, w, g.constant([1, 2]), name="y")
    >>> g.output({}, y)["y"].ravel().tolist()
    [10.0, 200.0, 300.0]
    """

def grouped_query_attention(
    query: Tensor | ArrayLike,
    key: Tensor | ArrayLike,
    value: Tensor | ArrayLike,
    attn_mask: Tensor | ArrayLike | None = None,
    *,
    scale: float | None = None,
    softcap: float = 0.0,
    is_causal: bool = False,
    name: str | None = None,
) -> Tensor:
    """Attention in which runs of query heads share a head of keys and values (Ainslie et al. 2023).

    y[h] = softmax(softcap(query[h] @ key[h·H/Hq]ᵀ·scale) + mask) @ value[h·H/Hq]

    query: f32[B, Hq, T, E], key: f32[B, H, S, E], value: f32[B, H, S, D], Hq a multiple of H; with
    H = 1 it is multi-query attention (Shazeer 2019). A bool attn_mask says which keys are seen, a
    float one is added; both broadcast to [B, Hq, T, S].

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> q, kv = g.placeholder("q", (1, 8, 5, 4)), g.placeholder("kv", (1, 2, 5, 4))
    >>> gw.nn.grouped_query_attention(q, kv, kv, is_causal=True).shape
    (1, 8, 5, 4)

    Attributes:
        scale: Factor of the scores; None is 1/√E.
        softcap: c in c·tanh(scores/c), before any mask; 0 is none.
        is_causal: Let position i see keys 0 to i only.
    """

def hard_shrink(x: Tensor | ArrayLike, lambd: float = 0.5, *, name: str | None = None) -> Tensor:
    """Input where it is large, else 0.

    y = x for |x| > λ, else 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.hard_shrink(g.constant([-2.0, 0.2])))["hard_shrink"].tolist()
    [-2.0, 0.0]

    Attributes:
        lambd: Half the width of what becomes 0.
    """

def hard_sigmoid(
    x: Tensor | ArrayLike,
    alpha: float = 0.16666666666666666,
    beta: float = 0.5,
    *,
    name: str | None = None,
) -> Tensor:
    """Piecewise linear sigmoid (Howard et al. 2019 with the default slope).

    y = min(max(αx + β, 0), 1)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.hard_sigmoid(g.constant([-9.0, 0.0, 9.0])))["hard_sigmoid"].tolist()
    [0.0, 0.5, 1.0]

    Attributes:
        alpha: Slope.
        beta: Value at 0.
    """

def hard_swish(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Swish with a piecewise linear sigmoid (Howard et al. 2019).

    y = x·min(max(x/6 + 1/2, 0), 1)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.hard_swish(g.constant([-3.0, 0.0, 3.0])))["hard_swish"].tolist()
    [-0.0, 0.0, 3.0]
    """

def hard_tanh(
    x: Tensor | ArrayLike, min: float = -1.0, max: float = 1.0, *, name: str | None = None
) -> Tensor:
    """Identity clipped to a range (Collobert 2004).

    y = min(max(x, min), max)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.hard_tanh(g.constant([-3.0, 0.5, 3.0])))["hard_tanh"].tolist()
    [-1.0, 0.5, 1.0]

    Attributes:
        min: Smallest value.
        max: Largest value.
    """

def hard_tanh_derivative(
    x: Tensor | ArrayLike, g: Tensor | ArrayLike | None = None, *, name: str | None = None
) -> Tensor:
    """Derivative of the hard tanh, 0 at its kinks.

    y = g where |x| < 1, else 0, with g = 1 unless it is given

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.hard_tanh_derivative(g.constant([-1.0, 0.5, 2.0]), name="y")
    >>> g.output({}, y)["y"].tolist()
    [0.0, 1.0, 0.0]
    """

def hardmax(x: Tensor | ArrayLike, axis: int = -1, *, name: str | None = None) -> Tensor:
    """One-hot of the largest element along an axis, the first of equal ones.

    yᵢ = 1 for i = argmax x, else 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.hardmax(g.constant([1.0, 3.0, 3.0])))["hardmax"].tolist()
    [0.0, 1.0, 0.0]

    Attributes:
        axis: Axis along which one element is 1.
    """

def instance_norm(
    x: Tensor | ArrayLike,
    weight: Tensor | ArrayLike | None = None,
    bias: Tensor | ArrayLike | None = None,
    *,
    eps: float = 1e-05,
    name: str | None = None,
) -> Tensor:
    """Bring each channel of each example to mean 0 and variance 1 (Ulyanov et al. 2016).

    y = (x − μ)/√(σ² + ε)·weight + bias, with μ and σ² over all axes but the first two

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.instance_norm(g.constant([[[1.0, 3.0], [5.0, 5.0]]]))
    >>> g.output({}, y)["instance_norm"].round(3).tolist()
    [[[-1.0, 1.0], [0.0, 0.0]]]

    Attributes:
        eps: Added to the variance, so that constants do not divide by 0.
    """

def kv_cache_dequantize(
    codes: Tensor | ArrayLike, scale: Tensor | ArrayLike, *, name: str | None = None
) -> Tensor:
    """Numbers from integer codes and the scale of each block of features.

    y = code·scale, codes: i8[…, D], scale: f32[…, D/block_size]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> codes = gw.cast(g.constant([[127, -50]]), "int8")
    >>> y = gw.nn.kv_cache_dequantize(codes, g.constant([[0.01]]), name="y")
    >>> g.output({}, y)["y"].round(2).tolist()
    [[1.2699999809265137, -0.5]]
    """

def kv_cache_quantize(
    x: Tensor | ArrayLike, bits: int = 8, block_size: int = 0, *, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Integers of few bits with one scale for each block of features, symmetric about zero.

    code = round(x/scale), scale = max |x| / (2ᵇⁱᵗˢ⁻¹ − 1) over each block of the last axis

    x: f32[…, D] gives codes: i8[…, D] and scale: f32[…, D/block_size] (one block by default). A
    block of zeros has scale 0. Gradients flow through the scale; codes are integers.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> codes, scale = gw.nn.kv_cache_quantize(g.constant([[1.27, -0.5, 0.0]]), name="q")
    >>> g.output({}, codes)["q"].tolist()
    [[127, -50, 0]]

    Attributes:
        bits: Bits of a code. One of 2, 3, 4, 5, 6, 7, 8.
        block_size: Features that share a scale; 0 is all.
    """

def kv_cache_update(
    key_cache: Tensor | ArrayLike,
    value_cache: Tensor | ArrayLike,
    key: Tensor | ArrayLike,
    value: Tensor | ArrayLike,
    position: Tensor | ArrayLike,
    circular: bool = False,
    *,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Caches of keys and values with new positions written from ``position`` on.

    present[…, position + i, :] = new[…, i, :], for keys and for values

    key_cache: f32[B, H, S, E], value_cache: f32[B, H, S, D], key: f32[B, H, T, E],
    value: f32[B, H, T, D], position: i64[], or i64[B] where samples differ. What does not fit is an
    error when run, unless ``circular`` lets it overwrite the oldest.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> room, new = g.constant([[[0.0], [0.0]]]), g.constant([[[5.0]]])
    >>> keys, values = gw.nn.kv_cache_update(room, room, new, new, g.constant(1), name="kv")
    >>> g.output({}, keys)["kv"].ravel().tolist()
    [0.0, 5.0]

    Attributes:
        circular: Wrap around at the end of the room.
    """

def kv_scatter(
    cache: Tensor | ArrayLike,
    update: Tensor | ArrayLike,
    write_indices: Tensor | ArrayLike | None = None,
    *,
    axis: int = -2,
    mode: str = "linear",
    name: str | None = None,
) -> Tensor:
    """A cache with new positions written at a place of its own in each sample.

    y = cache,  y[b, …, (place_b + i) mod S, …] = update[b, …, i, …] along ``axis``

    cache: f32[B, …, S, …], update: f32[B, …, T, …] with T ≤ S, write_indices: i64[B], or i64[] for
    all samples; 0 if not given. In ``linear`` mode places do not wrap, and what does not fit is
    an error when run. ONNX operator TensorScatter-24.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> cache, new = g.constant([[[0.0], [0.0], [0.0]]]), g.constant([[[1.0], [2.0]]])
    >>> y = gw.nn.kv_scatter(cache, new, g.constant([2]), mode="circular", name="y")
    >>> g.output({}, y)["y"].ravel().tolist()
    [2.0, 0.0, 1.0]

    Attributes:
        axis: Axis of the positions.
        mode: Whether places wrap. One of 'linear', 'circular'.
    """

def layer_norm(
    x: Tensor | ArrayLike,
    weight: Tensor | ArrayLike | None = None,
    bias: Tensor | ArrayLike | None = None,
    *,
    axis: int = -1,
    eps: float = 1e-05,
    name: str | None = None,
) -> Tensor:
    """Bring each example to mean 0 and variance 1 over its last axes (Ba, Kiros, Hinton 2016).

    y = (x − mean x)/√(var x + ε)·weight + bias

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.layer_norm(g.constant([[1.0, 3.0], [5.0, 5.0]]))
    >>> g.output({}, y)["layer_norm"].round(3).tolist()
    [[-1.0, 1.0], [0.0, 0.0]]

    Attributes:
        axis: First normalised axis; all from there on are.
        eps: Added to the variance, so that constants do not divide by 0.
    """

def leaky_relu(
    x: Tensor | ArrayLike, negative_slope: float = 0.01, *, name: str | None = None
) -> Tensor:
    """Relu with a slope for negative inputs (Maas, Hannun and Ng 2013).

    y = x for x > 0, else negative_slope·x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.leaky_relu(g.constant([-2.0, 2.0]), negative_slope=0.5)
    >>> g.output({}, y)["leaky_relu"].tolist()
    [-1.0, 2.0]

    Attributes:
        negative_slope: Slope where x is negative.
    """

def leaky_relu_derivative(
    x: Tensor | ArrayLike,
    g: Tensor | ArrayLike | None = None,
    *,
    negative_slope: float = 0.01,
    name: str | None = None,
) -> Tensor:
    """Derivative of the leaky relu, at 0 that of the negative side.

    y = g for x > 0, else g·negative_slope, with g = 1 unless it is given

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.leaky_relu_derivative(g.constant([-1.0, 2.0]), negative_slope=0.5, name="y")
    >>> g.output({}, y)["y"].tolist()
    [0.5, 1.0]

    Attributes:
        negative_slope: Slope where x is negative.
    """

def lightning_attention(
    query: Tensor | ArrayLike,
    key: Tensor | ArrayLike,
    value: Tensor | ArrayLike,
    rate: Tensor | ArrayLike,
    past_state: Tensor | ArrayLike | None = None,
    *,
    chunk_size: int = 64,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Linear attention whose states decay at one rate per head (Qin et al. 2024, Lightning-2).

    Sₜ = e^(−rateₕ)·Sₜ₋₁ + keyₜᵀ ⊗ valueₜ,  yₜ = queryₜ @ Sₜ

    query: f32[B, H, T, E], key: f32[B, H, T, E], value: f32[B, H, T, D], rate: f32[H] at least 0,
    past_state: f32[B, H, E, D]. Returns (f32[B, H, T, D], present_state); chunks of ``chunk_size``
    positions are computed as matrices.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> one, v = g.constant([[[[1.0], [1.0]]]]), g.constant([[[[2.0], [4.0]]]])
    >>> y, state = gw.nn.lightning_attention(one, one, v, g.constant([0.0]), name="y")
    >>> g.output({}, y)["y"].tolist()
    [[[[2.0], [6.0]]]]

    Attributes:
        chunk_size: Positions computed at once.
    """

def linear(
    x: Tensor | ArrayLike,
    weight: Tensor | ArrayLike,
    bias: Tensor | ArrayLike | None = None,
    *,
    name: str | None = None,
) -> Tensor:
    """Affine map over the last axis, with the weight in matmul layout: one column per output.

    y = x @ weight + bias, with x: f32[…, in], weight: f32[in, out], bias: f32[out]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([1.0, 2.0]), g.variable("w", (2, 3), init=1.0)
    >>> g.output({}, gw.nn.linear(x, w))["linear"].tolist()
    [3.0, 3.0, 3.0]
    """

def linear_attention(
    query: Tensor | ArrayLike,
    key: Tensor | ArrayLike,
    value: Tensor | ArrayLike,
    past_state: Tensor | ArrayLike | None = None,
    decay: Tensor | ArrayLike | None = None,
    beta: Tensor | ArrayLike | None = None,
    *,
    q_num_heads: int,
    kv_num_heads: int,
    update_rule: str = "gated_delta",
    scale: float | None = None,
    chunk_size: int = 64,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention by a state that is written at each position and read by the query.

    Sₜ = Dₜ·Sₜ₋₁ + keyₜᵀ ⊗ uₜ,  yₜ = scale·queryₜ @ Sₜ, with uₜ = valueₜ (``linear``), Dₜ = e^decayₜ
    (``gated``), uₜ = βₜ·(valueₜ − keyₜ @ Dₜ·Sₜ₋₁) (``delta``), or both (``gated_delta``)

    query: f32[B, T, Hq·E], key: f32[B, T, H·E], value: f32[B, T, H·D]; runs of Hq/H heads share a
    state. past_state: f32[B, H, E, D], zeros if not given; decay, in logarithms and at most 0:
    f32[B, T, H] or, by feature, f32[B, T, H·E]; beta: f32[B, T, H] or f32[B, T, 1]. Returns
    (f32[B, T, Hq·D], present_state). T must be known when it runs: chunks of ``chunk_size``
    positions are computed as matrices, one after the other. ONNX operator LinearAttention-27.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> one, v = g.constant([[[1.0], [1.0]]]), g.constant([[[2.0], [4.0]]])
    >>> heads = {"q_num_heads": 1, "kv_num_heads": 1, "update_rule": "linear"}
    >>> y, state = gw.nn.linear_attention(one, one, v, name="y", **heads)
    >>> g.output({}, y)["y"].tolist()
    [[[2.0], [6.0]]]

    Attributes:
        q_num_heads: Heads of the queries.
        kv_num_heads: Heads of keys, values and states.
        update_rule: How the state changes. One of 'linear', 'gated', 'delta', 'gated_delta'.
        scale: Factor of the results; None is 1/√E.
        chunk_size: Positions computed at once.
    """

def linear_attention_decode(
    query: Tensor | ArrayLike,
    key: Tensor | ArrayLike,
    value: Tensor | ArrayLike,
    state: Tensor | ArrayLike,
    decay: Tensor | ArrayLike | None = None,
    beta: Tensor | ArrayLike | None = None,
    *,
    scale: float | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """One step of linear attention: the state is decayed, written, and read by the query.

    S′ = e^decay·S + keyᵀ ⊗ u,  y = scale·query @ S′, u = value, or β·(value − key @ e^decay·S)

    query: f32[B, Hq, E], key: f32[B, H, E], value: f32[B, H, D], state: f32[B, H, E, D]; decay, in
    logarithms: f32[B, H] or f32[B, H, E]; beta: f32[B, H], with which values are corrected (delta
    rule). Returns (f32[B, Hq, D], S′): what ``linear_attention`` gives for the next position.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> one, state = g.constant([[[1.0]]]), g.constant([[[[5.0]]]])
    >>> y, _ = gw.nn.linear_attention_decode(one, one, one * 2.0, state, name="y")
    >>> g.output({}, y)["y"].tolist()
    [[[7.0]]]

    Attributes:
        scale: Factor of the results; None is 1/√E.
    """

def linear_scan(
    a: Tensor | ArrayLike,
    b: Tensor | ArrayLike,
    initial: Tensor | ArrayLike | None = None,
    *,
    axis: int = 0,
    reverse: bool = False,
    matrix: bool = False,
    name: str | None = None,
) -> Tensor:
    """All states of a linear recurrence along an axis.

    h_t = a_t⊙h_{t-1} + b_t, or with ``matrix`` h_t = a_t @ h_{t-1} + b_t over the last two axes

    b: f32[…, T, …], a broadcasts against it, but for T (with ``matrix``: f32[…, T, …, N, N]);
    initial: b without the axis, else 0. ``reverse`` goes from the last step to the first. Wide
    steps follow each other one by one; of narrow ones spans of 1, 2, 4, … are joined, so that T of
    them take log₂ T passes over all (Hillis and Steele 1986). A factor of 0 forgets what was
    before, infinities and NaN, too. The gradient is the same recurrence,
    backwards. Raises ShapeError where sizes differ.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.linear_scan(g.constant([0.5, 0.5, 0.5]), g.constant([4.0, 0.0, 1.0]), name="h")
    >>> g.output({}, y)["h"].tolist()
    [4.0, 2.0, 2.0]

    Attributes:
        axis: Axis of the steps.
        reverse: Start at the last step.
        matrix: Let a be matrices, not factors of the elements.
    """

def log_sigmoid(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Logarithm of the sigmoid, precise in both tails.

    y = −log(1 + e⁻ˣ)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.log_sigmoid(g.constant([-1000.0, 1000.0])))["log_sigmoid"].tolist()
    [-1000.0, 0.0]
    """

def log_softmax(x: Tensor | ArrayLike, axis: int = -1, *, name: str | None = None) -> Tensor:
    """Logarithm of softmax along ``axis``, precise where that is tiny.

    yᵢ = xᵢ − max x − log Σⱼ exp(xⱼ − max x)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.log_softmax(g.constant([0.0, 1000.0])))["log_softmax"].tolist()
    [-1000.0, 0.0]

    Attributes:
        axis: Axis that sums to one.
    """

def loha_matmul(
    x: Tensor | ArrayLike,
    weight: Tensor | ArrayLike,
    a1: Tensor | ArrayLike,
    b1: Tensor | ArrayLike,
    a2: Tensor | ArrayLike,
    b2: Tensor | ArrayLike,
    bias: Tensor | ArrayLike | None = None,
    *,
    scale: float = 1.0,
    name: str | None = None,
) -> Tensor:
    """Affine map with an adapter of rank up to r² (Hyeon-Woo, Ye-Bin and Oh 2022, "FedPara").

    y = x @ (weight + scale·(a₁ @ b₁)⊙(a₂ @ b₂)) + bias, with aᵢ: f32[in, r], bᵢ: f32[r, out]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w, c = g.constant([1.0]), g.constant([[1.0]]), [g.constant([[v]]) for v in (2.0, 3.0)]
    >>> g.output({}, gw.nn.loha_matmul(x, w, *c, *c, name="y"))["y"].tolist()
    [37.0]

    Attributes:
        scale: Factor of the adapter: lora_alpha/r, or lora_alpha/√r (rsLoRA).
    """

def lokr_matmul(
    x: Tensor | ArrayLike,
    weight: Tensor | ArrayLike,
    w1: Tensor | ArrayLike,
    w2: Tensor | ArrayLike,
    w1_b: Tensor | ArrayLike | None = None,
    w2_b: Tensor | ArrayLike | None = None,
    bias: Tensor | ArrayLike | None = None,
    *,
    scale: float = 1.0,
    name: str | None = None,
) -> Tensor:
    """Affine map with a Kronecker product as its adapter (Yeh et al. 2023, "LyCORIS").

    y = x @ (weight + scale·w₁ ⊗ w₂) + bias, with w₁: f32[m, l], w₂: f32[n, k], in = m·n,
    out = l·k; either may be given as two factors, wᵢ @ wᵢ_b. The Kronecker product itself is never
    made: x, seen as f32[…, m, n], is multiplied by w₂ and then by w₁.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([1.0, 2.0]), g.constant([[0.0], [0.0]])
    >>> w1, w2 = g.constant([[1.0], [10.0]]), g.constant([[3.0]])
    >>> g.output({}, gw.nn.lokr_matmul(x, w, w1, w2, name="y"))["y"].tolist()
    [63.0]

    Attributes:
        scale: Factor of the adapter: lora_alpha/r, or lora_alpha/√r (rsLoRA).
    """

def lora_matmul(
    x: Tensor | ArrayLike,
    weight: Tensor | ArrayLike,
    a: Tensor | ArrayLike,
    b: Tensor | ArrayLike,
    bias: Tensor | ArrayLike | None = None,
    *,
    scale: float = 1.0,
    name: str | None = None,
) -> Tensor:
    """Affine map with a low-rank adapter (Hu et al. 2021, "LoRA").

    y = x @ weight + scale·(x @ a) @ b + bias, with x: f32[…, in], weight: f32[in, out],
    a: f32[in, r], b: f32[r, out], bias: f32[out]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([1.0, 2.0]), g.constant([[1.0], [1.0]])
    >>> a, b = g.constant([[1.0], [0.0]]), g.constant([[10.0]])
    >>> g.output({}, gw.nn.lora_matmul(x, w, a, b, scale=0.5, name="y"))["y"].tolist()
    [8.0]

    Attributes:
        scale: Factor of the adapter: lora_alpha/r, or lora_alpha/√r (rsLoRA).
    """

def lp_normalize(
    x: Tensor | ArrayLike,
    p: float = 2.0,
    axis: int = -1,
    eps: float = 0.0,
    *,
    name: str | None = None,
) -> Tensor:
    """Divide by the norm along an axis; what has no length stays 0.

    y = x/max(‖x‖ₚ, ε), with 0/0 = 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.lp_normalize(g.constant([3.0, 4.0])))["lp_normalize"].round(2).tolist()
    [0.6000000238418579, 0.800000011920929]

    Attributes:
        p: Order of the norm, at least 1.
        axis: Axis of the vectors.
        eps: Smallest number to divide by; torch takes 1e-12.
    """

def mamba2_ssm(
    x: Tensor | ArrayLike,
    delta: Tensor | ArrayLike,
    a: Tensor | ArrayLike,
    b: Tensor | ArrayLike,
    c: Tensor | ArrayLike,
    d: Tensor | ArrayLike | None = None,
    initial: Tensor | ArrayLike | None = None,
    *,
    chunk_size: int = 64,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """State-space model with one decay per head, in chunks of matrix products (Dao and Gu 2024).

    h_t = exp(Δ_t·A)·h_{t-1} + Δ_t·B_t ⊗ x_t, y_t = C_t·h_t + D·x_t

    x: f32[B, T, H, P], delta: f32[B, T, H], A: f32[H] (below 0), B, C: f32[B, T, G, N] with H a
    multiple of G, D: f32[H], initial: f32[B, H, N, P] -> y: f32[B, T, H, P], last h:
    f32[B, H, N, P]. Within a chunk y is a product with a matrix of decays; only from chunk to chunk
    there is a loop. Raises ShapeError where these differ.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, one = g.constant([[[[1.0]], [[0.0]]]]), g.constant([[[[1.0]], [[1.0]]]])
    >>> y, h = gw.nn.mamba2_ssm(x, one[..., 0], g.constant([-0.6931472]), one, one, name="ssd")
    >>> g.output({}, y)[y.name].round(4).ravel().tolist()
    [1.0, 0.5]

    Attributes:
        chunk_size: Steps of a chunk.
    """

def masked_softmax(
    scores: Tensor | ArrayLike,
    seen: Tensor | ArrayLike | None = None,
    *,
    rounded: bool = False,
    name: str | None = None,
) -> Tensor:
    """Softmax over the last axis of what is seen; zero elsewhere, and in rows that see nothing.

    yᵢ = sᵢ·exp(xᵢ − m) / Σⱼ sⱼ·exp(xⱼ − m), m = max over the seen xⱼ

    scores: f32[…, S], seen: bool, broadcastable to it. Scores of −∞ count as not seen; what is not
    seen may be anything, NaN too. Halves are computed in float32 unless ``rounded``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> seen = g.constant([[True, True, False], [False, False, False]])
    >>> y = gw.nn.masked_softmax(g.constant([[1.0, 1.0, 9.0]] * 2), seen, name="y")
    >>> g.output({}, y)["y"].tolist()
    [[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]

    Attributes:
        rounded: Round each step to the dtype, as the ONNX reference does.
    """

def mean_square(
    x: Tensor | ArrayLike,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Mean of the squares over axes, halves in float32.

    y = mean x²

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.nn.mean_square(g.constant([1.0, 7.0]), name="y"))["y"])
    25.0

    Attributes:
        axis: Axes to reduce; None reduces all.
        keepdims: Keep reduced axes with size 1.
    """

def mean_variance_normalization(
    x: Tensor | ArrayLike,
    axis: int | Sequence[int] = (0, 2, 3),
    eps: float = 1e-09,
    *,
    name: str | None = None,
) -> Tensor:
    """Bring the elements along some axes to mean 0 and standard deviation 1.

    y = (x − mean x)/(√(mean (x − mean x)²) + ε)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.mean_variance_normalization(g.constant([[1.0, 3.0]]), axis=1, name="y")
    >>> g.output({}, y)["y"].tolist()
    [[-1.0, 1.0]]

    Attributes:
        axis: Axes of which mean and variance are taken.
        eps: Added to the standard deviation.
    """

def mish(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Input times the hyperbolic tangent of its softplus (Misra 2019).

    y = x·tanh(log(1 + eˣ))

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.mish(g.constant([0.0, 1.0])))["mish"].round(4)
    array([0.    , 0.8651], dtype=float32)
    """

def mixture_of_experts(
    x: Tensor | ArrayLike,
    gate: Tensor | ArrayLike,
    w1: Tensor | ArrayLike,
    w2: Tensor | ArrayLike,
    w3: Tensor | ArrayLike | None = None,
    b1: Tensor | ArrayLike | None = None,
    b2: Tensor | ArrayLike | None = None,
    *,
    k: int = 2,
    renormalize: bool = False,
    activation: str = "silu",
    name: str | None = None,
) -> Tensor:
    """Networks of two layers, of which each token goes through the k that a gate chooses.

    y = Σ_e weight_e·(f(x @ w1_e + b1_e) @ w2_e + b2_e) over the chosen experts (Shazeer et al.
    2017); if w3 is given, with f(…)⊙(x @ w3_e) instead of f(…) (Shazeer 2020)

    x: f32[…, D], gate: f32[D, E], w1, w3: f32[E, D, F], w2: f32[E, F, D], b1: f32[E, F],
    b2: f32[E, D] -> y: f32[…, D] and the load balance of ``moe_gate``: f32[]. Tokens are grouped by
    expert, so that each expert computes one product. Raises ShapeError where these differ.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, gate = g.constant([[1.0], [-1.0]]), g.constant([[9.0, -9.0]])
    >>> w1, w2 = g.constant([[[1.0]], [[-1.0]]]), g.constant([[[10.0]], [[100.0]]])
    >>> y, _ = gw.nn.mixture_of_experts(x, gate, w1, w2, k=1, activation="relu", name="moe")
    >>> g.output({}, y)[y.name].round(3).tolist()
    [[10.0], [100.0]]

    Attributes:
        k: Experts of a token.
        renormalize: Let the weights of the chosen ones sum to 1.
        activation: The function f. One of 'relu', 'gelu', 'silu'.
    """

def mla_attention(
    query: Tensor | ArrayLike,
    latent: Tensor | ArrayLike,
    rotary_key: Tensor | ArrayLike,
    key_weight: Tensor | ArrayLike,
    value_weight: Tensor | ArrayLike,
    nonpad_kv_seqlen: Tensor | ArrayLike | None = None,
    *,
    is_causal: bool = True,
    scale: float | None = None,
    name: str | None = None,
) -> Tensor:
    """Multi-head latent attention: keys and values of all heads unfold from one small vector.

    Kₕ = (latent @ key_weight[h]ᵀ, rotated key), Vₕ = latent @ value_weight[h],
    yₕ = softmax(queryₕ @ Kₕᵀ·scale) @ Vₕ

    query: f32[B, n, T, E + R], the last R features rotated; latent: f32[B, S, C] and
    rotary_key: f32[B, S, R] are all that a cache has to hold; key_weight: f32[n, E, C],
    value_weight: f32[n, C, D]. Returns f32[B, n, T, D]. The weights are moved to the queries and
    the results, so keys and values are never unfolded (DeepSeek-V2, 2024, section 2.1). Query i
    stands at S − T + i; nonpad_kv_seqlen: i64[B] or i64[] says how many positions of a cache exist.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> q, c = g.placeholder("q", (1, 2, 5, 6)), g.placeholder("c", (1, 5, 3))
    >>> r = g.placeholder("r", (1, 5, 2))
    >>> up, out = g.variable("up", (2, 4, 3)), g.variable("out", (2, 3, 8))
    >>> gw.nn.mla_attention(q, c, r, up, out, is_causal=True).shape
    (1, 2, 5, 8)

    Attributes:
        is_causal: Hide the keys behind each query.
        scale: Factor of the scores; None is 1/√(E + R).
    """

def moe_gate(
    x: Tensor | ArrayLike,
    gate: Tensor | ArrayLike,
    k: int = 2,
    renormalize: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Choose the k most probable experts of each token (Shazeer et al. 2017).

    p = softmax(x @ gate); weights, experts = top_k(p), over Σ weights with ``renormalize``;
    balance = E·Σ_e share_e·mean(p_e), where share_e is the part of all choices that went to e: 1
    for an even load (Fedus et al. 2021)

    x: f32[…, D], gate: f32[D, E] -> weights: f32[…, k], experts: i64[…, k], balance: f32[]. Raises
    ShapeError where these differ, or there are fewer experts than k.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, gate = g.constant([[1.0, 0.0]]), g.constant([[0.0, 2.0, 0.0], [0.0, 0.0, 0.0]])
    >>> weights, experts, _ = gw.nn.moe_gate(x, gate, k=1, renormalize=True, name="gate")
    >>> [a.tolist() for a in g.output({}, weights, experts).values()]
    [[[1.0]], [[1]]]

    Attributes:
        k: Experts of a token.
        renormalize: Let the weights of the chosen ones sum to 1.
    """

def moe_shared_experts(
    x: Tensor | ArrayLike,
    gate: Tensor | ArrayLike,
    w1: Tensor | ArrayLike,
    w2: Tensor | ArrayLike,
    shared_w1: Tensor | ArrayLike,
    shared_w2: Tensor | ArrayLike,
    w3: Tensor | ArrayLike | None = None,
    shared_w3: Tensor | ArrayLike | None = None,
    shared_gate: Tensor | ArrayLike | None = None,
    *,
    k: int = 2,
    renormalize: bool = False,
    activation: str = "silu",
    name: str | None = None,
) -> Tensor:
    """Mixture of experts beside a network that every token goes through (Dai et al. 2024).

    y = mixture_of_experts(x, …) + s·shared(x), shared(x) = f(x @ shared_w1) @ shared_w2, with
    f(…)⊙(x @ shared_w3) if that is given; s = σ(x @ shared_gate) if given, else 1

    Inputs as of ``mixture_of_experts`` without biases, and shared_w1, shared_w3: f32[D, G],
    shared_w2: f32[G, D], shared_gate: f32[D, 1] -> y: f32[…, D], balance: f32[].

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, gate, w = g.constant([[2.0]]), g.constant([[1.0]]), g.constant([[[1.0]]])
    >>> y, _ = gw.nn.moe_shared_experts(x, gate, w, w, gate, gate, k=1, activation="relu", name="y")
    >>> g.output({}, y)[y.name].tolist()
    [[4.0]]

    Attributes:
        k: Experts of a token.
        renormalize: Let the weights of the chosen ones sum to 1.
        activation: The function f. One of 'relu', 'gelu', 'silu'.
    """

def multi_head_attention(
    query: Tensor | ArrayLike,
    key: Tensor | ArrayLike,
    value: Tensor | ArrayLike,
    bias: Tensor | ArrayLike | None = None,
    key_padding_mask: Tensor | ArrayLike | None = None,
    attention_bias: Tensor | ArrayLike | None = None,
    past_key: Tensor | ArrayLike | None = None,
    past_value: Tensor | ArrayLike | None = None,
    *,
    num_heads: int,
    mask_filter_value: float = -10000.0,
    scale: float | None = None,
    is_causal: bool = False,
    name: str | None = None,
) -> tuple[Tensor, ...]:
    """Attention of packed heads with biases, padding mask and cache, as in ONNX Runtime.

    y = concatₕ(softmax(Qₕ @ Kₕᵀ·scale + attention_bias + hidden·mask_filter_value) @ Vₕ),
    Q, K, V = query, key, value + their runs of bias

    query: f32[B, T, n·E], key: f32[B, S, n·E], value: f32[B, S, n·D], bias: f32[2·n·E + n·D].
    key_padding_mask: i32[B], numbers of keys, or i32[B, P + S] or i32[B, T, P + S], where 0 hides.
    attention_bias broadcasts to [B, n, T, P + S]; past_key: f32[B, n, P, E] and past_value come
    first. Returns (f32[B, T, n·D], present_key, present_value). ONNX Runtime's contrib operator
    MultiHeadAttention.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", ("B", "T", 8))
    >>> y, key, value = gw.nn.multi_head_attention(x, x, x, num_heads=2)
    >>> y.shape, key.shape
    ((B, T, 8), (B, 2, T, 4))

    Attributes:
        num_heads: Number of heads.
        mask_filter_value: What is added to scores that the mask hides.
        scale: Factor of the scores; None is 1/√E.
        is_causal: Hide the keys behind each query.
    """

def multi_head_dot_product_attention(
    query: Tensor | ArrayLike,
    key: Tensor | ArrayLike,
    value: Tensor | ArrayLike,
    query_weight: Tensor | ArrayLike,
    key_weight: Tensor | ArrayLike,
    value_weight: Tensor | ArrayLike,
    out_weight: Tensor | ArrayLike,
    query_bias: Tensor | ArrayLike | None = None,
    key_bias: Tensor | ArrayLike | None = None,
    value_bias: Tensor | ArrayLike | None = None,
    out_bias: Tensor | ArrayLike | None = None,
    attn_mask: Tensor | ArrayLike | None = None,
    *,
    num_heads: int,
    kv_num_heads: int | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    name: str | None = None,
) -> Tensor:
    """Attention of several heads between learned projections (Vaswani et al. 2017).

    y = concatₕ(softmax(Qₕ @ Kₕᵀ·scale) @ Vₕ) @ out_weight + out_bias,
    Q = query @ query_weight + query_bias, and K, V likewise; head h takes its run of columns

    query: f32[B, T, C], key: f32[B, S, C′], value: f32[B, S, C″]; query_weight: f32[C, n·E],
    key_weight: f32[C′, n·E], value_weight: f32[C″, n·D], out_weight: f32[n·D, M], in matmul layout.
    attn_mask broadcasts to [B, n, T, S]: bool says which keys are seen, a float one is added. With
    fewer ``kv_num_heads`` than ``num_heads``, runs of query heads share one.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.placeholder("x", ("B", "T", 8)), g.variable("w", (8, 8), init=1.0)
    >>> gw.nn.multi_head_dot_product_attention(x, x, x, w, w, w, w, num_heads=2).shape
    (B, T, 8)

    Attributes:
        num_heads: Heads of the queries.
        kv_num_heads: Heads of keys and values; None is num_heads.
        is_causal: Let position i see keys 0 to i only.
        scale: Factor of the scores; None is 1/√E.
    """

def multi_lora_matmul(
    x: Tensor | ArrayLike,
    weight: Tensor | ArrayLike,
    a: Tensor | ArrayLike,
    b: Tensor | ArrayLike,
    adapter: Tensor | ArrayLike,
    scales: Tensor | ArrayLike | None = None,
    bias: Tensor | ArrayLike | None = None,
    *,
    scale: float = 1.0,
    name: str | None = None,
) -> Tensor:
    """Affine map with another adapter in each row of a batch (Chen et al. 2023, "Punica").

    y[i] = x[i] @ weight + scale·scales[n]·(x[i] @ a[n]) @ b[n] + bias, n = adapter[i]

    With x: f32[B, in] or f32[B, T, in], a: f32[n, in, r], b: f32[n, r, out], adapter: i64[B],
    scales: f32[n]. A row with a negative number has no adapter; a number beyond the last adapter is
    an error when it is run.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[1.0], [1.0], [1.0]]), g.constant([[1.0]])
    >>> a, b = g.constant([[[1.0]], [[1.0]]]), g.constant([[[10.0]], [[100.0]]])
    >>> y = gw.nn.multi_lora_matmul(x, w, a, b, g.constant([1, 0, -1]), name="y")
    >>> g.output({}, y)["y"].tolist()
    [[101.0], [11.0], [1.0]]

    Attributes:
        scale: Factor of the adapter: lora_alpha/r, or lora_alpha/√r (rsLoRA).
    """

def nf4_matmul(
    x: Tensor | ArrayLike,
    packed: Tensor | ArrayLike,
    absmax: Tensor | ArrayLike,
    out_features: int,
    block_size: int = 64,
    *,
    name: str | None = None,
) -> Tensor:
    """Product with a weight packed as NF4, of which 0.5 MB at a time are floats.

    y = x @ dequantize_nf4(packed, absmax)ᵀ, x: f32[…, D], packed: u8[F·D/2, 1],
    absmax: f32[F·D/block_size] -> f32[…, F] (Dettmers et al. 2023)

    The gradient flows to x. Raises ShapeError unless packed holds ``out_features``·D codes.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> packed, absmax = gw.quant.quantize_nf4(g.constant([[2.0, 0.0], [-2.0, 2.0]]))
    >>> y = gw.nn.nf4_matmul(g.constant([[1.0, 1.0]]), packed, absmax, out_features=2, name="y")
    >>> g.output({}, y)["y"].tolist()
    [[2.0, 0.0]]

    Attributes:
        out_features: Rows of the weight.
        block_size: Elements that share a scale.
    """

def per_layer_embedding(
    x: Tensor | ArrayLike,
    weight: Tensor | ArrayLike,
    ids: Tensor | ArrayLike,
    scale: float = 1.0,
    *,
    name: str | None = None,
) -> Tensor:
    """Hidden states plus a layer's own embedding of the tokens (Gemma 3n).

    y = x + scale·weight[ids], with x: f32[…, D], weight: f32[n, D], ids: i64[…]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, table = g.constant([[1.0, 1.0]]), g.constant([[1.0, 2.0], [3.0, 4.0]])
    >>> y = gw.nn.per_layer_embedding(x, table, g.constant([1]), scale=2.0, name="y")
    >>> g.output({}, y)["y"].tolist()
    [[7.0, 9.0]]

    Attributes:
        scale: Factor of the embedding.
    """

def prelu(x: Tensor | ArrayLike, slope: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Relu with a learned slope for negative inputs (He et al. 2015).

    y = x for x ≥ 0, else slope·x; the slope broadcasts to x, as ``f32[C, 1, 1]`` does to
    ``f32[B, C, H, W]``

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, slope = g.constant([[-2.0, -2.0]]), g.variable("slope", (2,), init=[0.5, 2.0])
    >>> g.output({}, gw.nn.prelu(x, slope))["prelu"].tolist()
    [[-1.0, -4.0]]
    """

def quantized_matmul(
    x: Tensor | ArrayLike,
    weight: Tensor | ArrayLike,
    scale: Tensor | ArrayLike,
    zero_point: Tensor | ArrayLike | None = None,
    *,
    block_size: int = 0,
    name: str | None = None,
) -> Tensor:
    """Product with a weight of scaled integers, of which 0.5 MB at a time are floats.

    y = x @ ((weight − zero_point)·scale)ᵀ, x: f32[…, D], weight: i8[F, D] or
    other integers -> f32[…, F]

    scale: one number, one per row of weight (f32[F]), or with ``block_size`` one per that many
    elements of a row (f32[F, D/block_size]); zero_point: of its shape. The gradient flows to x.
    Raises ShapeError where these differ.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.constant([[1, 2], [3, -4]], dtype="int4")
    >>> y = gw.nn.quantized_matmul(g.constant([[1.0, 1.0]]), w, g.constant([0.5, 2.0]), name="y")
    >>> g.output({}, y)["y"].tolist()
    [[1.5, -2.0]]

    Attributes:
        block_size: Elements of a row that share a scale; 0: no blocks.
    """

def quick_gelu(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Gelu by a sigmoid (Hendrycks and Gimpel 2016).

    y = x·sigmoid(1.702·x)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.quick_gelu(g.constant([0.0, 1.0])))["quick_gelu"].round(4)
    array([0.    , 0.8458], dtype=float32)
    """

def reglu(gate: Tensor | ArrayLike, x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Input gated by a relu (Shazeer 2020).

    y = max(gate, 0)·x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> gate, x = g.constant([-1.0, 2.0]), g.constant([2.0, 3.0])
    >>> g.output({}, gw.nn.reglu(gate, x))["reglu"].tolist()
    [0.0, 6.0]
    """

def relative_position_bias(
    weight: Tensor | ArrayLike,
    scores: Tensor | ArrayLike,
    max_distance: int = 128,
    bidirectional: bool = True,
    *,
    name: str | None = None,
) -> Tensor:
    """Learned biases of scores by distance, many distances to a bucket (T5, Raffel et al. 2020).

    y[h, i, j] = weight[bucket(j − i − (S − T)), h]

    weight: f32[buckets, H], scores: f32[…, T, S] for its sizes only; the result f32[H, T, S] is to
    be added. Half of the buckets are distances of their own, the rest grow with the logarithm, up
    to ``max_distance``; if ``bidirectional``, keys behind a query have their own half.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (8, 2), init=0.5)
    >>> gw.nn.relative_position_bias(w, g.placeholder("s", (1, 2, "T", "S"))).shape
    (2, T, S)

    Attributes:
        max_distance: Distance from which all share the last bucket.
        bidirectional: Keys behind a query have buckets of their own.
    """

def relu(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Rectified linear unit; the gradient at 0 is 0 (Nair and Hinton 2010).

    y = max(x, 0)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.relu(g.constant([-1.0, 2.0]))
    >>> g.output({}, y)["relu"].tolist()
    [0.0, 2.0]
    """

def relu6(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Relu that stops at 6; the gradient at 0 and 6 is 0 (Howard et al. 2017).

    y = min(max(x, 0), 6)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.relu6(g.constant([-1.0, 2.0, 9.0])))["relu6"].tolist()
    [0.0, 2.0, 6.0]
    """

def relu_layer(
    x: Tensor | ArrayLike,
    weight: Tensor | ArrayLike,
    bias: Tensor | ArrayLike | None = None,
    *,
    name: str | None = None,
) -> Tensor:
    """Relu of an affine map over the last axis.

    y = max(x @ weight + bias, 0), with x: f32[…, in], weight: f32[in, out], bias: f32[out]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> w = g.variable("w", (2, 2), init=[[1.0, -1.0], [1.0, -1.0]])
    >>> g.output({}, gw.nn.relu_layer(g.constant([1.0, 2.0]), w))["relu_layer"].tolist()
    [3.0, 0.0]
    """

def rms_norm(
    x: Tensor | ArrayLike,
    weight: Tensor | ArrayLike | None = None,
    *,
    axis: int = -1,
    eps: float = 1e-05,
    name: str | None = None,
) -> Tensor:
    """Divide each example by its root mean square over the last axes (Zhang, Sennrich 2019).

    y = x/√(mean x² + ε)·weight

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.rms_norm(g.constant([3.0, 4.0]))
    >>> g.output({}, y)["rms_norm"].round(3)
    array([0.849, 1.131], dtype=float32)

    Attributes:
        axis: First normalised axis; all from there on are.
        eps: Added to the variance, so that constants do not divide by 0.
    """

def rms_norm_linear(
    x: Tensor | ArrayLike,
    gain: Tensor | ArrayLike,
    weight: Tensor | ArrayLike,
    bias: Tensor | ArrayLike | None = None,
    *,
    eps: float = 1e-05,
    name: str | None = None,
) -> Tensor:
    """Root mean square norm over the last axis, then an affine map.

    y = (x/√(mean x² + ε)·gain) @ weight + bias, with gain: f32[in], weight: f32[in, out]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, gain = g.constant([3.0, 3.0]), g.constant([1.0, 2.0])
    >>> y = gw.nn.rms_norm_linear(x, gain, g.constant([[1.0], [1.0]]), name="y")
    >>> g.output({}, y)["y"].round(3).tolist()
    [3.0]

    Attributes:
        eps: Added to the mean square, so that zeros do not divide by 0.
    """

def rope(
    x: Tensor | ArrayLike,
    cos_cache: Tensor | ArrayLike,
    sin_cache: Tensor | ArrayLike,
    position_ids: Tensor | ArrayLike | None = None,
    *,
    interleaved: bool = False,
    rotary_dim: int = 0,
    num_heads: int = 0,
    name: str | None = None,
) -> Tensor:
    """Rotary position embedding with given tables of angles (Su et al. 2021).

    y = x, its first ``rotary_dim`` features rotated in pairs by the angles of a position

    x: f32[B, n, T, D], or f32[B, T, n·D] with ``num_heads``. cos_cache and sin_cache:
    f32[P, D/2] with position_ids: i64[B, T], else f32[B, T, D/2]. ``interleaved`` pairs neighbours
    (GPT-J) rather than halves (GPT-NeoX). ONNX operator RotaryEmbedding-23.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> cos, sin = gw.nn.rope_cos_sin(g.constant(range(16)), dim=4)
    >>> x, at = g.placeholder("x", (1, 2, 3, 4)), g.placeholder("at", (1, 3), "int64")
    >>> gw.nn.rope(x, cos, sin, at).shape
    (1, 2, 3, 4)

    Attributes:
        interleaved: Pairs stand side by side.
        rotary_dim: How many features are rotated; 0 is all.
        num_heads: Heads of packed features.
    """

def rope_cos_sin(
    position_ids: Tensor | ArrayLike,
    dim: int,
    base: float = 10000.0,
    scaling: str = "none",
    factor: float = 1.0,
    original_length: int = 8192,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    low_freq_factor: float = 1.0,
    high_freq_factor: float = 4.0,
    attention_factor: float | None = None,
    dtype: DTypeLike = "float32",
    *,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the angles by which rotary embeddings turn, position by position.

    cos(pᵢ·ωₖ), sin(pᵢ·ωₖ), ωₖ = base^(−2k/dim), for k = 0 … dim/2 − 1

    position_ids: i64[…] gives two tensors f32[…, dim/2]. ``scaling`` reaches ``factor`` times
    longer contexts: all ω/factor (linear, Chen et al. 2023), base·factor^(dim/(dim − 2)) (ntk), or
    ω/factor for slow pairs only (yarn, Peng et al. 2023; llama3, 2024).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> cos, sin = gw.nn.rope_cos_sin(g.constant([0, 1]), dim=2, name="y")
    >>> g.output({}, cos)["y"].round(4).tolist()
    [[1.0], [0.5403000116348267]]

    Attributes:
        base: The slowest pair turns once in 2π·base positions.
        scaling: How a longer context is reached. One of 'none', 'linear', 'ntk', 'yarn', 'llama3'.
        factor: How many times longer the context is than in pre-training.
        original_length: Length in pre-training, for yarn and llama3.
        beta_fast: yarn: pairs that turn more often keep their speed.
        beta_slow: yarn: pairs that turn less often slow by the factor.
        low_freq_factor: llama3: likewise, turns at which all slow.
        high_freq_factor: llama3: likewise, turns at which none slow.
        attention_factor: Factor of cos and sin; None is 1, for yarn with a factor above 1 0.1·ln factor + 1.
        dim: Number of features that are rotated, two to an angle.
        dtype: Dtype of the result.
    """

def rotate_pairs(
    x: Tensor | ArrayLike,
    cos: Tensor | ArrayLike,
    sin: Tensor | ArrayLike,
    interleaved: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Pairs of features turned by an angle: the last axis holds two halves, or pairs side by side.

    (y₁, y₂) = (x₁·cos − x₂·sin, x₁·sin + x₂·cos)

    x: f32[…, 2·n], cos and sin: f32[…, n], broadcast against the leading axes of x, which they do
    not extend. Pair i is (xᵢ, xᵢ₊ₙ), or (x₂ᵢ, x₂ᵢ₊₁) if ``interleaved``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> zero, one = g.constant([0.0]), g.constant([1.0])
    >>> y = gw.nn.rotate_pairs(g.constant([[2.0, 5.0]]), zero, one, name="y")
    >>> g.output({}, y)["y"].tolist()
    [[-5.0, 2.0]]

    Attributes:
        interleaved: Pairs stand side by side.
    """

def row_parallel_linear(
    x: Tensor | ArrayLike,
    weight: Tensor | ArrayLike,
    bias: Tensor | ArrayLike | None = None,
    *,
    parts: int = 1,
    part: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Affine map whose inputs are shared out among parts (Shoeybi et al. 2019, "Megatron-LM").

    yₖ = x[…, part k] @ weight[part k, :], and bias in part 0; the sum of all parts is the whole
    map. A part may also be given its own share of x, f32[…, in/parts].

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[1.0, 1.0]]), g.constant([[1.0, 2.0], [3.0, 4.0]])
    >>> y = gw.nn.row_parallel_linear(x, w, parts=2, part=1, name="y")
    >>> g.output({}, y)["y"].tolist()
    [[3.0, 4.0]]

    Attributes:
        parts: Number of parts that the weight is cut into.
        part: Which of them is computed; None: all of them.
    """

def scaled_dot_product_attention(
    query: Tensor | ArrayLike,
    key: Tensor | ArrayLike,
    value: Tensor | ArrayLike,
    attn_mask: Tensor | ArrayLike | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    name: str | None = None,
) -> Tensor:
    """Average of values, weighted by how well keys match queries (Vaswani et al. 2017).

    y = softmax(query @ keyᵀ·scale + attn_mask) @ value over the last two axes, with
    query: f32[…, L, E], key: f32[…, S, E], value: f32[…, S, D]; leading axes broadcast.

    A bool ``attn_mask`` says which keys are seen, a floating one is added to the scores, where −∞
    hides. Queries that see no key get zeros, in the result and in the gradient.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> q, v = g.constant([[1.0], [1.0]]), g.constant([[2.0], [4.0]])
    >>> y = gw.nn.scaled_dot_product_attention(q, q, v, is_causal=True, name="y")
    >>> g.output({}, y)["y"].tolist()
    [[2.0], [3.0]]

    Attributes:
        is_causal: Let position i see keys 0 to i only.
        scale: Factor of the scores; None is 1/√E.
    """

def scaled_matmul(
    a: Tensor | ArrayLike,
    b: Tensor | ArrayLike,
    a_inverse: Tensor | ArrayLike,
    b_inverse: Tensor | ArrayLike,
    dtype: DTypeLike = "float32",
    *,
    name: str | None = None,
) -> Tensor:
    """Product of quantised matrices, summed in float32 and brought back to scale.

    y = (a @ b)·a_inverse·b_inverse, a: f8[M, K], b: f8[K, N], inverses: f32[] -> f32[M, N]

    Raises ShapeError as ``matmul``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> q, inverse, _ = gw.quant.quantize_fp8(g.constant([[2.0]]), 100.0)
    >>> g.output({}, gw.nn.scaled_matmul(q, q, inverse, inverse, name="y"))["y"].tolist()
    [[3.6863999366760254]]

    Attributes:
        dtype: Dtype of the product.
    """

def selective_scan(
    x: Tensor | ArrayLike,
    delta: Tensor | ArrayLike,
    a: Tensor | ArrayLike,
    b: Tensor | ArrayLike,
    c: Tensor | ArrayLike,
    d: Tensor | ArrayLike | None = None,
    z: Tensor | ArrayLike | None = None,
    delta_bias: Tensor | ArrayLike | None = None,
    initial: Tensor | ArrayLike | None = None,
    *,
    delta_softplus: bool = False,
    name: str | None = None,
) -> Tensor:
    """State-space model whose steps depend on the input (Gu and Dao 2023): Mamba's core.

    Δ = delta + delta_bias, through softplus with ``delta_softplus``;
    h_t = exp(Δ_t·A)⊙h_{t-1} + Δ_t·x_t·B_t, y_t = h_t·C_t + D⊙x_t, times silu(z) if z is given

    x, delta, z: f32[B, T, D], A: f32[D, N] (below 0), B, C: f32[B, T, N], D, delta_bias: f32[D],
    initial: f32[B, D, N] -> y: f32[B, T, D], last h: f32[B, D, N]. Holds all states,
    f32[B, T, D, N], for the gradient. Raises ShapeError where these differ.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, one = g.constant([[[1.0], [0.0]]]), g.constant([[[1.0], [1.0]]])
    >>> y, h = gw.nn.selective_scan(x, one, g.constant([[-0.6931472]]), one, one, name="ssm")
    >>> g.output({}, y)[y.name].round(4).tolist()
    [[[1.0], [0.5]]]

    Attributes:
        delta_softplus: Send Δ through softplus.
    """

def selu(
    x: Tensor | ArrayLike,
    alpha: float = 1.6732632423543772,
    gamma: float = 1.0507009873554805,
    *,
    name: str | None = None,
) -> Tensor:
    """Elu scaled so that activations keep mean 0 and variance 1 (Klambauer et al. 2017).

    y = γ·x for x > 0, else γ·α(eˣ − 1)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.selu(g.constant([-100.0, 1.0])))["selu"].round(4).tolist()
    [-1.7581000328063965, 1.0506999492645264]

    Attributes:
        alpha: Minus the limit for x → −∞, before scaling.
        gamma: Scale.
    """

def shared_kv_attention(
    query: Tensor | ArrayLike,
    shared_key: Tensor | ArrayLike,
    shared_value: Tensor | ArrayLike,
    nonpad_kv_seqlen: Tensor | ArrayLike | None = None,
    *,
    scale: float | None = None,
    softcap: float = 0.0,
    is_causal: bool = True,
    left_window_size: int = -1,
    name: str | None = None,
) -> Tensor:
    """Attention of a layer that has no keys and values of its own, to those of an earlier one.

    y = softmax(query @ keyᵀ·scale) @ value, where query i stands at position S − T + i

    query: f32[B, Hq, T, E]; shared_key: f32[B, H, S, E] and shared_value: f32[B, H, S, D] are an
    earlier layer's, past positions included (cross-layer attention, Brandon et al. 2024). Of a
    cache with room to spare, nonpad_kv_seqlen: i64[B] or i64[] says how many positions exist, and
    query i then stands at nonpad_kv_seqlen − T + i. Gradients add up in the layer that made them.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> q, v = g.constant([[[[1.0]]]]), g.constant([[[[2.0], [4.0], [9.0]]]])
    >>> y = gw.nn.shared_kv_attention(q, v * 0.0, v, g.constant(2), name="y")
    >>> g.output({}, y)["y"].tolist()
    [[[[3.0]]]]

    Attributes:
        scale: Factor of the scores; None is 1/√E.
        softcap: c in c·tanh(scores/c), before any mask; 0 is none.
        is_causal: Hide the keys behind each query.
        left_window_size: How many keys before a query it sees; -1 is all.
    """

def shrink(
    x: Tensor | ArrayLike, lambd: float = 0.5, bias: float = 0.0, *, name: str | None = None
) -> Tensor:
    """Input moved towards 0, and 0 where it is small.

    y = x − bias for x > λ, x + bias for x < −λ, else 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.shrink(g.constant([-2.0, 0.2, 2.0]), lambd=0.5, bias=1.5, name="y")
    >>> g.output({}, y)["y"].tolist()
    [-0.5, 0.0, 0.5]

    Attributes:
        lambd: Half the width of what becomes 0.
        bias: How far the rest moves.
    """

def sigmoid(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Logistic function, precise in both tails.

    y = 1/(1 + e⁻ˣ)

    The slope is y·(1 − y), so that x need not be kept; for large x its relative error in float32 is
    6e-8·eˣ, and from 17 on it is 0. Where x is a placeholder or a variable, it is precise.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.sigmoid(g.constant([-1000.0, 0.0])))["sigmoid"].tolist()
    [0.0, 0.5]
    """

def sigmoid_derivative(
    x: Tensor | ArrayLike, g: Tensor | ArrayLike | None = None, *, name: str | None = None
) -> Tensor:
    """Derivative of the sigmoid.

    y = g·σ(x)·(1 − σ(x)), with g = 1 unless it is given

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.nn.sigmoid_derivative(g.constant(0.0), name="y"))["y"])
    0.25
    """

def silu(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Sigmoid-weighted linear unit, also called swish (Elfwing, Uchibe and Doya 2017).

    y = x·sigmoid(x)

    The second derivative has 1 − sigmoid(x): for large x its relative error in float32 is 6e-8·eˣ.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.silu(g.constant([-1000.0, 0.0, 1000.0])))["silu"].tolist()
    [-0.0, 0.0, 1000.0]
    """

def skip_rms_norm(
    x: Tensor | ArrayLike,
    skip: Tensor | ArrayLike,
    weight: Tensor | ArrayLike | None = None,
    bias: Tensor | ArrayLike | None = None,
    *,
    axis: int = -1,
    eps: float = 1e-05,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Residual connection and root mean square norm of the sum.

    s = x + skip + bias, y = s/√(mean s² + ε)·weight; the outputs are y and s, which the next
    residual connection takes

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.constant([3.0, 4.0])
    >>> y, s = gw.nn.skip_rms_norm(x, x, name="y")
    >>> g.output({}, s)["y:1"].tolist()
    [6.0, 8.0]

    Attributes:
        axis: First normalised axis; all from there on are.
        eps: Added to the variance, so that constants do not divide by 0.
    """

def sliding_window_attention(
    query: Tensor | ArrayLike,
    key: Tensor | ArrayLike,
    value: Tensor | ArrayLike,
    attn_mask: Tensor | ArrayLike | None = None,
    *,
    scale: float | None = None,
    softcap: float = 0.0,
    window_size: int = 128,
    is_causal: bool = True,
    name: str | None = None,
) -> Tensor:
    """Attention to the last ``window_size`` keys only, its own position among them (Mistral 2023).

    Query i sees the keys i − window_size < j ≤ i; without ``is_causal`` those with
    |i − j| < window_size (Longformer, Beltagy et al. 2020).

    query: f32[B, Hq, T, E], key: f32[B, H, S, E], value: f32[B, H, S, D]; attn_mask as in
    ``grouped_query_attention``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> q, v = g.constant([[[[1.0], [1.0], [1.0]]]]), g.constant([[[[2.0], [4.0], [8.0]]]])
    >>> y = gw.nn.sliding_window_attention(q, q, v, window_size=2, name="y")
    >>> g.output({}, y)["y"].ravel().tolist()
    [2.0, 3.0, 6.0]

    Attributes:
        scale: Factor of the scores; None is 1/√E.
        softcap: c in c·tanh(scores/c), before any mask; 0 is none.
        window_size: How many keys a query sees on each side, itself counted.
        is_causal: Look back only.
    """

def smooth_quant(
    x: Tensor | ArrayLike,
    weight: Tensor | ArrayLike,
    alpha: float = 0.5,
    *,
    name: str | None = None,
) -> Tensor:
    """Move the size of a layer's inputs into its weight, channel by channel (Xiao et al. 2023).

    s_j = max |x_j|^α / max |w_j|^(1 − α), y = x/s, v = w·s, so that y @ v = x @ w for the weight w

    x: f32[…, D], weight: f32[D, F] -> y, v of the same shapes, and s: f32[D]; s is 1 where x_j or
    w_j is zero. Raises ShapeError where D differs.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, w = g.constant([[100.0, 1.0]]), g.constant([[1.0], [1.0]])
    >>> y, v, s = gw.nn.smooth_quant(x, w, name="smooth")
    >>> [a.tolist() for a in g.output({}, y, v).values()]
    [[[10.0, 1.0]], [[10.0], [1.0]]]

    Attributes:
        alpha: How much of the size goes into the weight, from 0 to 1.
    """

def soft_shrink(x: Tensor | ArrayLike, lambd: float = 0.5, *, name: str | None = None) -> Tensor:
    """Input moved towards 0 by λ, at most up to it: the proximal map of λ·|x| (Donoho 1995).

    y = sign(x)·max(|x| − λ, 0)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.soft_shrink(g.constant([-2.0, 0.2])))["soft_shrink"].tolist()
    [-1.5, 0.0]

    Attributes:
        lambd: Half the width of what becomes 0.
    """

def softmax(x: Tensor | ArrayLike, axis: int = -1, *, name: str | None = None) -> Tensor:
    """Normalise logits to probabilities along ``axis``; never overflows.

    yᵢ = exp(xᵢ − max x) / Σⱼ exp(xⱼ − max x)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.softmax(g.constant([1000.0, 1000.0])))["softmax"].tolist()
    [0.5, 0.5]

    Attributes:
        axis: Axis that sums to one.
    """

def softplus(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Smooth relu; never overflows.

    y = log(1 + eˣ)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.softplus(g.constant([-1000.0, 1000.0])))["softplus"].tolist()
    [0.0, 1000.0]
    """

def softsign(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Sigmoid with polynomial tails (Bergstra et al. 2009).

    y = x/(1 + |x|)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.softsign(g.constant([-3.0, 1.0])))["softsign"].tolist()
    [-0.75, 0.5]
    """

def softsign_derivative(
    x: Tensor | ArrayLike, g: Tensor | ArrayLike | None = None, *, name: str | None = None
) -> Tensor:
    """Derivative of the softsign.

    y = g/(1 + |x|)², with g = 1 unless it is given

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.softsign_derivative(g.constant([0.0, 1.0]), name="y")
    >>> g.output({}, y)["y"].tolist()
    [1.0, 0.25]
    """

def squared_relu(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """Square of the rectified input (So et al. 2021, "Primer").

    y = max(x, 0)²

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.squared_relu(g.constant([-2.0, 3.0])))["squared_relu"].tolist()
    [0.0, 9.0]
    """

def swiglu(
    gate: Tensor | ArrayLike, x: Tensor | ArrayLike, alpha: float = 1.0, *, name: str | None = None
) -> Tensor:
    """Input gated by a swish (Shazeer 2020); SameDiff calls it swishMul.

    y = gate·sigmoid(α·gate)·x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> gate, x = g.constant([0.0, 1000.0]), g.constant([2.0, 3.0])
    >>> g.output({}, gw.nn.swiglu(gate, x))["swiglu"].tolist()
    [0.0, 3000.0]

    Attributes:
        alpha: Steepness of the sigmoid.
    """

def swish(x: Tensor | ArrayLike, alpha: float = 1.0, *, name: str | None = None) -> Tensor:
    """Input times its sigmoid, of which α is the steepness (Ramachandran, Zoph and Le 2017).

    y = x·sigmoid(α·x); silu is the case α = 1

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.swish(g.constant([0.0, 2.0]), alpha=100.0))["swish"].tolist()
    [0.0, 2.0]

    Attributes:
        alpha: Steepness; torch and Keras call it beta.
    """

def tanh_derivative(
    x: Tensor | ArrayLike, g: Tensor | ArrayLike | None = None, *, name: str | None = None
) -> Tensor:
    """Derivative of the hyperbolic tangent.

    y = g·(1 − tanh² x), with g = 1 unless it is given

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.nn.tanh_derivative(g.constant(0.0), name="y"))["y"])
    1.0
    """

def tanh_shrink(x: Tensor | ArrayLike, *, name: str | None = None) -> Tensor:
    """What the hyperbolic tangent takes away.

    y = x − tanh x

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> g.output({}, gw.nn.tanh_shrink(g.constant([0.0, 100.0])))["tanh_shrink"].tolist()
    [0.0, 99.0]
    """

def thresholded_relu(
    x: Tensor | ArrayLike, alpha: float = 1.0, *, name: str | None = None
) -> Tensor:
    """Input where it exceeds a threshold, else 0 (Konda, Memisevic and Krueger 2014).

    y = x for x > α, else 0

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.thresholded_relu(g.constant([0.5, 1.0, 2.0]), name="y")
    >>> g.output({}, y)["y"].tolist()
    [0.0, 0.0, 2.0]

    Attributes:
        alpha: Threshold.
    """

def turbo_quant_attention(
    query: Tensor | ArrayLike,
    key_codes: Tensor | ArrayLike,
    key_norms: Tensor | ArrayLike,
    value_codes: Tensor | ArrayLike,
    value_norms: Tensor | ArrayLike,
    rotation: Tensor | ArrayLike,
    nonpad_kv_seqlen: Tensor | ArrayLike | None = None,
    *,
    bits: int = 4,
    is_causal: bool = False,
    scale: float | None = None,
    name: str | None = None,
) -> Tensor:
    """Attention to keys and values that are kept in a few bits a feature (Zandieh et al. 2025).

    K = norm·level[code] @ rotation/√D, V likewise,  y = softmax(query @ Kᵀ·scale) @ V

    query: f32[B, Hq, T, D]; key_codes: i8[B, H, S, D] and key_norms: f32[B, H, S], and those of the
    values, from ``turbo_quantize``, with the same rotation: f32[D, D]. Queries are rotated, and
    results rotated back, so that keys and values never are. nonpad_kv_seqlen: i64[B] or i64[] says
    how many keys of a cache exist; query i stands at S − T + i, or nonpad_kv_seqlen − T + i.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, turn = g.placeholder("x", (1, 2, 5, 8)), g.placeholder("turn", (8, 8))
    >>> kv = gw.nn.turbo_quantize(x, turn)
    >>> gw.nn.turbo_quant_attention(x, *kv, *kv, turn).shape
    (1, 2, 5, 8)

    Attributes:
        bits: Bits of a code. One of 1, 2, 3, 4.
        is_causal: Hide the keys behind each query.
        scale: Factor of the scores; None is 1/√D.
    """

def turbo_quantize(
    x: Tensor | ArrayLike, rotation: Tensor | ArrayLike, bits: int = 4, *, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Length of each vector, and its direction in few bits a feature (Zandieh et al. 2025).

    norm = ‖x‖,  code = index of the level nearest to √D·(x/norm @ rotationᵀ)

    x: f32[…, D], rotation: f32[D, D] orthogonal and random, so that the features of any direction
    are nearly normal; levels are the best for that. Returns codes: i8[…, D] and norm: f32[…].
    Gradients flow through the norm; codes are integers.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, turn = g.constant([[3.0, -4.0]]), g.constant([[1.0, 0.0], [0.0, 1.0]])
    >>> codes, norm = gw.nn.turbo_quantize(x, turn, bits=1, name="q")
    >>> [a.tolist() for a in g.output({}, codes, norm).values()]
    [[[1, 0]], [5.0]]

    Attributes:
        bits: Bits of a code. One of 1, 2, 3, 4.
    """

def two_way_cross_attention(
    a: Tensor | ArrayLike,
    a_value: Tensor | ArrayLike,
    b: Tensor | ArrayLike,
    b_value: Tensor | ArrayLike,
    attn_mask: Tensor | ArrayLike | None = None,
    *,
    scale: float | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Two sequences that attend to each other over one table of scores.

    S = a @ bᵀ·scale + attn_mask,  y_a = softmax(S) @ b_value,  y_b = softmax(Sᵀ) @ a_value

    a: f32[B, n, T, E], a_value: f32[B, n, T, D], b: f32[B, n, S, E], b_value: f32[B, n, S, F];
    attn_mask: bool, or added, broadcasts to [B, n, T, S]. Returns (y_a: f32[B, n, T, F],
    y_b: f32[B, n, S, D]) (GLIP, Li et al. 2022; BiXT, Hiller et al. 2024).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> a, b = g.placeholder("a", (1, 1, 2, 3)), g.placeholder("b", (1, 1, 5, 3))
    >>> [y.shape for y in gw.nn.two_way_cross_attention(a, a, b, b)]
    [(1, 1, 2, 3), (1, 1, 5, 3)]

    Attributes:
        scale: Factor of the scores; None is 1/√E.
    """

def typical_p_filter(
    logits: Tensor | ArrayLike, p: float = 0.95, *, name: str | None = None
) -> Tensor:
    """Logits of the tokens whose surprise is nearest to the expected one; −∞ elsewhere.

    Kept are, by rising |−ln pᵢ − H(p)|, tokens up to the one with which Σ p reaches the mass
    (Meister et al. 2023, locally typical sampling)

    logits: f32[…, V]. The gradient flows through what is kept.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.typical_p_filter(g.constant([0.0, 0.0, -9.0]), p=0.9, name="y")
    >>> g.output({}, y)["y"].tolist()
    [0.0, 0.0, -inf]

    Attributes:
        p: Mass that is kept.
    """

def visible_keys(
    scores: Tensor | ArrayLike,
    length: Tensor | ArrayLike | None = None,
    *,
    is_causal: bool = False,
    left_window_size: int = -1,
    right_window_size: int = -1,
    offset: AnyDim = 0,
    name: str | None = None,
) -> Tensor:
    """Which keys each query may see, by their positions.

    Query i stands at position p = offset + i, where ``offset`` is ``length`` − T if there is a
    length, and sees the keys p − left ≤ j ≤ p + right, none behind p if ``is_causal``, and none
    from ``length`` on. A window of −1 is unbounded (ONNX Attention-25).

    scores: f32[…, T, S] gives the sizes, length: i64[B] the number of keys that exist in each
    sample; the result is bool[T, S], with a length bool[B, 1, T, S]. A scalar length holds for all.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.nn.visible_keys(g.constant([[0.0] * 4] * 2), is_causal=True, offset=1, name="y")
    >>> g.output({}, y)["y"].astype(int).tolist()
    [[1, 1, 0, 0], [1, 1, 1, 0]]

    Attributes:
        is_causal: Hide the keys behind each query.
        left_window_size: How many keys before a query it sees; -1 is all.
        right_window_size: How many keys behind a query it sees; -1 is all.
        offset: Position of the first query where no length is given.
    """

def vision_embedding_merge(
    text: Tensor | ArrayLike,
    vision: Tensor | ArrayLike,
    ids: Tensor | ArrayLike,
    token: int,
    *,
    name: str | None = None,
) -> Tensor:
    """Image embeddings put where a prompt has image tokens, in order (LLaVA).

    y[b, t] = vision[b, k] where ids[b, t] = token, the k-th such place of the row, else text[b, t]

    With text: f32[B, T, D], vision: f32[B, N, D], ids: i64[B, T]. Places beyond the N-th keep
    their text; vision rows that no place takes have gradient 0.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> text, vision = g.constant([[[1.0], [2.0], [3.0]]]), g.constant([[[10.0], [20.0]]])
    >>> ids = g.constant([[9, 5, 9]])
    >>> y = gw.nn.vision_embedding_merge(text, vision, ids, token=9, name="y")
    >>> g.output({}, y)["y"].tolist()
    [[[10.0], [2.0], [20.0]]]

    Attributes:
        token: Id of the image token.
    """

def windowed_attention(
    query: Tensor | ArrayLike,
    key: Tensor | ArrayLike,
    value: Tensor | ArrayLike,
    attn_mask: Tensor | ArrayLike | None = None,
    *,
    window_size: int,
    scale: float | None = None,
    softcap: float = 0.0,
    name: str | None = None,
) -> Tensor:
    """Attention inside blocks of neighbouring positions, at cost linear in the length.

    y = softmax(query @ keyᵀ·scale + attn_mask) @ value in each run of ``window_size`` positions

    query: f32[B, Hq, T, E], key: f32[B, H, T, E], value: f32[B, H, T, D], T a multiple of the
    window (Swin, Liu et al. 2021; ViTDet, Li et al. 2022). attn_mask, bool or added, broadcasts to
    [B, Hq, T/window_size, window_size, window_size]: [Hq, 1, w, w] holds position biases.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> v = g.constant([[[[2.0], [4.0], [8.0], [0.0]]]])
    >>> y = gw.nn.windowed_attention(v * 0.0, v * 0.0, v, window_size=2, name="y")
    >>> g.output({}, y)["y"].ravel().tolist()
    [3.0, 3.0, 4.0, 4.0]

    Attributes:
        scale: Factor of the scores; None is 1/√E.
        softcap: c in c·tanh(scores/c), before any mask; 0 is none.
        window_size: Positions of a block.
    """
