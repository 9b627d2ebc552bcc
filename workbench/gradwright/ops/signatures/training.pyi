"""Functions of the namespace training; written by python -m gradwright.ops.stubs."""

from collections.abc import Sequence

from numpy.typing import ArrayLike

from gradwright.graph import Tensor

def accumulate_gradient(
    total: Tensor | ArrayLike,
    grad: Tensor | ArrayLike,
    step: Tensor | ArrayLike,
    every: Tensor | ArrayLike,
    *,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Mean gradient of several micro-batches, summed up in float32 at least.

    s = total + grad/every; ready = (step mod every = 0)
    total ← 0 where ready, else s;        grad ← s, the mean where ready

    ``step`` counts micro-batches from 1. Outputs the new total, s, and ready: bool[], which is the
    ``commit_if`` of the update that s is for.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> total, dw = g.constant([1.0]), g.constant([4.0])
    >>> total, mean, ready = gw.training.accumulate_gradient(total, dw, 2, 2, name="y")
    >>> [v.tolist() for v in g.output({}, total, mean, ready).values()]
    [[0.0], [3.0], True]
    """

def adabelief_update(
    param: Tensor | ArrayLike,
    grad: Tensor | ArrayLike,
    m: Tensor | ArrayLike,
    v: Tensor | ArrayLike,
    step: Tensor | ArrayLike,
    learning_rate: Tensor | ArrayLike,
    beta1: Tensor | ArrayLike,
    beta2: Tensor | ArrayLike,
    eps: Tensor | ArrayLike,
    weight_decay: Tensor | ArrayLike,
    *,
    name: str | None = None,
) -> Tensor:
    """Adam with the variance of gradients in place of their square (Zhuang et al. 2020).

    m ← β₁·m + (1 − β₁)·g        v ← β₂·v + (1 − β₂)·(g − m)² + ε
    p ← p·(1 − lr·λ) − lr/(1 − β₁ᵗ)·m/(√(v/(1 − β₂ᵗ)) + ε)

    ``step`` is t, the number of this update counted from 1; states begin as zeros.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> p, *states = gw.training.adabelief_update(
    ...     p, dp, zero, zero, 1, 0.1, 0.9, 0.999, 1e-8, 0.0, name="p"
    ... )
    >>> g.output({}, p)["p"].round(3)
    array([ 0.889, -1.111], dtype=float32)
    """

def adadelta_update(
    param: Tensor | ArrayLike,
    grad: Tensor | ArrayLike,
    s: Tensor | ArrayLike,
    d: Tensor | ArrayLike,
    learning_rate: Tensor | ArrayLike,
    rho: Tensor | ArrayLike,
    eps: Tensor | ArrayLike,
    weight_decay: Tensor | ArrayLike,
    *,
    name: str | None = None,
) -> Tensor:
    """Adadelta, whose step has the parameter's unit (Zeiler 2012, arXiv:1212.5701).

    s ← ρ·s + (1 − ρ)·g²        u = √(d + ε)/√(s + ε)·g
    d ← ρ·d + (1 − ρ)·u²        p ← p − lr·u, with λ·p added to g

    States begin as zeros.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> p, *states = gw.training.adadelta_update(
    ...     p, dp, zero, zero, 1.0, 0.9, 1e-6, 0.0, name="p"
    ... )
    >>> g.output({}, p)["p"].round(3)
    array([ 0.997, -1.003], dtype=float32)
    """

def adafactor_matrix_update(
    param: Tensor | ArrayLike,
    grad: Tensor | ArrayLike,
    rows: Tensor | ArrayLike,
    columns: Tensor | ArrayLike,
    step: Tensor | ArrayLike,
    learning_rate: Tensor | ArrayLike,
    beta2_decay: Tensor | ArrayLike,
    eps1: Tensor | ArrayLike,
    eps2: Tensor | ArrayLike,
    clip_threshold: Tensor | ArrayLike,
    weight_decay: Tensor | ArrayLike,
    relative_step: bool = True,
    scale_parameter: bool = True,
    *,
    name: str | None = None,
) -> Tensor:
    """Adafactor of a matrix, or of several: second moments by row and by column alone.

    r ← β·r + (1 − β)·meanⱼ (g² + ε₁)        c ← β·c + (1 − β)·meanᵢ (g² + ε₁)
    v = r·cᵀ/mean(r), and on as ``adafactor_update`` has it

    param: f32[…, n, m], r: f32[…, n], c: f32[…, m].

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp = g.constant([[1.0, -1.0]]), g.constant([[0.5, 2.0]])
    >>> p, *states = gw.training.adafactor_matrix_update(
    ...     p, dp, g.constant([0.0]), g.constant([0.0, 0.0]),
    ...     1, 0.1, 0.8, 1e-30, 1e-3, 1.0, 0.0, name="p",
    ... )
    >>> g.output({}, p)["p"].round(3)
    array([[ 0.9, -1.1]], dtype=float32)

    Attributes:
        relative_step: Bound the rate by 1/√t.
        scale_parameter: Multiply the rate by the parameter's size.
    """

def adafactor_update(
    param: Tensor | ArrayLike,
    grad: Tensor | ArrayLike,
    v: Tensor | ArrayLike,
    step: Tensor | ArrayLike,
    learning_rate: Tensor | ArrayLike,
    beta2_decay: Tensor | ArrayLike,
    eps1: Tensor | ArrayLike,
    eps2: Tensor | ArrayLike,
    clip_threshold: Tensor | ArrayLike,
    weight_decay: Tensor | ArrayLike,
    relative_step: bool = True,
    scale_parameter: bool = True,
    *,
    name: str | None = None,
) -> Tensor:
    """Adafactor of what is no matrix (Shazeer and Stern 2018, arXiv:1804.04235).

    β = 1 − t^−δ        v ← β·v + (1 − β)·(g² + ε₁)        u = g/√v
    p ← p·(1 − lr·λ) − α·u/max(1, rms(u)/d),  α = max(ε₂, rms(p))·ρ,  ρ = min(lr, 1/√t)

    Without ``relative_step`` ρ is lr, without ``scale_parameter`` α is ρ. ``step`` is t, counted
    from 1; the state begins as zeros.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> p, *states = gw.training.adafactor_update(
    ...     p, dp, zero, 1, 0.1, 0.8, 1e-30, 1e-3, 1.0, 0.0, name="p"
    ... )
    >>> g.output({}, p)["p"].round(3)
    array([ 0.9, -1.1], dtype=float32)

    Attributes:
        relative_step: Bound the rate by 1/√t.
        scale_parameter: Multiply the rate by the parameter's size.
    """

def adagrad_step(
    learning_rate: Tensor | ArrayLike,
    step: Tensor | ArrayLike,
    *tensors: Tensor | ArrayLike | Sequence[Tensor],
    eps: float = 1e-06,
    decay_factor: float = 0.0,
    norm_coefficient: float = 0.0,
    name: str | None = None,
) -> tuple[Tensor, ...]:
    """Adagrad on several tensors, as ONNX has it (Duchi, Hazan and Singer 2011).

    r = lr/(1 + step·decay_factor)        g ← norm_coefficient·x + g
    h ← h + g²        x ← x − r·g/(√h + ε), for all x, then all g, then all h

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, dx, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> x, *states = gw.training.adagrad_step(0.1, 1, x, dx, zero, name="x")
    >>> g.output({}, x)["x"].round(3)
    array([ 0.9, -1.1], dtype=float32)

    Attributes:
        eps: Added to the root.
        decay_factor: How the learning rate decays with the step.
        norm_coefficient: Of the penalty ½·‖x‖².
    """

def adagrad_update(
    param: Tensor | ArrayLike,
    grad: Tensor | ArrayLike,
    h: Tensor | ArrayLike,
    learning_rate: Tensor | ArrayLike,
    eps: Tensor | ArrayLike,
    weight_decay: Tensor | ArrayLike,
    *,
    name: str | None = None,
) -> Tensor:
    """Adagrad (Duchi, Hazan and Singer 2011).

    h ← h + g²        p ← p − lr·g/(√h + ε), with λ·p added to g

    The state begins as zeros.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> p, *states = gw.training.adagrad_update(p, dp, zero, 0.1, 1e-8, 0.0, name="p")
    >>> g.output({}, p)["p"].round(3)
    array([ 0.9, -1.1], dtype=float32)
    """

def adam8bit_update(
    param: Tensor | ArrayLike,
    grad: Tensor | ArrayLike,
    m: Tensor | ArrayLike,
    m_absmax: Tensor | ArrayLike,
    v: Tensor | ArrayLike,
    v_absmax: Tensor | ArrayLike,
    step: Tensor | ArrayLike,
    learning_rate: Tensor | ArrayLike,
    beta1: Tensor | ArrayLike,
    beta2: Tensor | ArrayLike,
    eps: Tensor | ArrayLike,
    weight_decay: Tensor | ArrayLike,
    block_size: int = 256,
    *,
    name: str | None = None,
) -> tuple[Tensor, ...]:
    """Adam whose moments are stored as 8 bits each and a scale per block (Dettmers et al. 2022).

    m ← β₁·m + (1 − β₁)·g        v ← β₂·v + (1 − β₂)·g²
    p ← p·(1 − lr·λ) − lr/(1 − β₁ᵗ) · m / (√v / √(1 − β₂ᵗ) + ε)

    The moments are read from codes of the dynamic type times their block's absmax, the signed type
    for m and the unsigned one for v; the parameter moves by the new moments before those are
    rounded to codes again (arXiv:2110.02861). They begin as codes of 0: 127 for m and 0 for v.

    param, grad: f32[…] of n elements; m, v: u8[…]; m_absmax, v_absmax: f32[⌈n/block_size⌉].

    >>> import gradwright as gw, numpy as np
    >>> g = gw.Graph()
    >>> p, dp, one = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0]))
    >>> m, v = (g.constant(np.full(2, code, "uint8")) for code in (127, 0))
    >>> p, *states = gw.training.adam8bit_update(
    ...     p, dp, m, one, v, one, 1, 0.1, 0.9, 0.999, 1e-8, 0.0, name="p"
    ... )
    >>> g.output({}, p)["p"].round(3)
    array([ 0.9, -1.1], dtype=float32)

    Attributes:
        block_size: Elements that share a scale.
    """

def adam_step(
    learning_rate: Tensor | ArrayLike,
    step: Tensor | ArrayLike,
    *tensors: Tensor | ArrayLike | Sequence[Tensor],
    alpha: float = 0.9,
    beta: float = 0.999,
    eps: float = 1e-06,
    norm_coefficient: float = 0.0,
    norm_coefficient_post: float = 0.0,
    name: str | None = None,
) -> tuple[Tensor, ...]:
    """Adam on several tensors, as ONNX has it: ε outside the bias correction.

    g ← norm_coefficient·x + g        v ← α·v + (1 − α)·g        h ← β·h + (1 − β)·g²
    r = lr·√(1 − βᵗ)/(1 − αᵗ) for t = step > 0, else lr
    x ← (1 − norm_coefficient_post)·(x − r·v/(√h + ε)), for all x, then all g, all v, all h

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, dx, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> x, *states = gw.training.adam_step(0.1, 1, x, dx, zero, zero, name="x")
    >>> g.output({}, x)["x"].round(3)
    array([ 0.9, -1.1], dtype=float32)

    Attributes:
        alpha: Decay of the first moment.
        beta: Decay of the second moment.
        eps: Added to the root.
        norm_coefficient: Of the penalty ½·‖x‖².
        norm_coefficient_post: Share of x that is taken away at the end.
    """

def adam_update(
    param: Tensor | ArrayLike,
    grad: Tensor | ArrayLike,
    m: Tensor | ArrayLike,
    v: Tensor | ArrayLike,
    step: Tensor | ArrayLike,
    learning_rate: Tensor | ArrayLike,
    beta1: Tensor | ArrayLike,
    beta2: Tensor | ArrayLike,
    eps: Tensor | ArrayLike,
    weight_decay: Tensor | ArrayLike,
    *,
    name: str | None = None,
) -> Tensor:
    """Adam (Kingma & Ba 2015, arXiv:1412.6980); with λ > 0 AdamW (Loshchilov & Hutter 2019).

    m ← β₁·m + (1 − β₁)·g        v ← β₂·v + (1 − β₂)·g²
    p ← p·(1 − lr·λ) − lr/(1 − β₁ᵗ) · m / (√v / √(1 − β₂ᵗ) + ε)

    ``step`` is t, the number of this update counted from 1. The decay λ is decoupled: it moves the
    parameter and not the moments (arXiv:1711.05101).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> p, *states = gw.training.adam_update(
    ...     p, dp, zero, zero, 1, 0.1, 0.9, 0.999, 1e-8, 0.0, name="p"
    ... )
    >>> g.output({}, p)["p"].round(3)
    array([ 0.9, -1.1], dtype=float32)
    """

def adamax_update(
    param: Tensor | ArrayLike,
    grad: Tensor | ArrayLike,
    m: Tensor | ArrayLike,
    v: Tensor | ArrayLike,
    step: Tensor | ArrayLike,
    learning_rate: Tensor | ArrayLike,
    beta1: Tensor | ArrayLike,
    beta2: Tensor | ArrayLike,
    eps: Tensor | ArrayLike,
    weight_decay: Tensor | ArrayLike,
    *,
    name: str | None = None,
) -> Tensor:
    """Adam with the largest gradient in place of the mean square (Kingma and Ba 2015, §7.1).

    m ← β₁·m + (1 − β₁)·g        v ← max(β₂·v, |g| + ε)
    p ← p − lr/(1 − β₁ᵗ)·m/v, with λ·p added to g

    ``step`` is t, the number of this update counted from 1; states begin as zeros.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> p, *states = gw.training.adamax_update(
    ...     p, dp, zero, zero, 1, 0.1, 0.9, 0.999, 1e-8, 0.0, name="p"
    ... )
    >>> g.output({}, p)["p"].round(3)
    array([ 0.9, -1.1], dtype=float32)
    """

def all_finite(*xs: Tensor | ArrayLike | Sequence[Tensor], name: str | None = None) -> Tensor:
    """Whether no element of any tensor is NaN or infinite.

    y = ∧ₖ ∧ᵢ |xₖᵢ| < ∞ : bool[]

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.training.all_finite([g.constant([1.0]), g.constant(float("nan"))], name="y")
    >>> bool(g.output({}, y)["y"])
    False
    """

def amsgrad_update(
    param: Tensor | ArrayLike,
    grad: Tensor | ArrayLike,
    m: Tensor | ArrayLike,
    v: Tensor | ArrayLike,
    h: Tensor | ArrayLike,
    step: Tensor | ArrayLike,
    learning_rate: Tensor | ArrayLike,
    beta1: Tensor | ArrayLike,
    beta2: Tensor | ArrayLike,
    eps: Tensor | ArrayLike,
    weight_decay: Tensor | ArrayLike,
    *,
    name: str | None = None,
) -> Tensor:
    """Adam whose steps never grow again (Reddi, Kale and Kumar 2018).

    m ← β₁·m + (1 − β₁)·g        v ← β₂·v + (1 − β₂)·g²        h ← max(h, v)
    p ← p·(1 − lr·λ) − lr/(1 − β₁ᵗ)·m/(√h/√(1 − β₂ᵗ) + ε)

    ``step`` is t, the number of this update counted from 1; states begin as zeros.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> p, *states = gw.training.amsgrad_update(
    ...     p, dp, zero, zero, zero, 1, 0.1, 0.9, 0.999, 1e-8, 0.0, name="p"
    ... )
    >>> g.output({}, p)["p"].round(3)
    array([ 0.9, -1.1], dtype=float32)
    """

def centered_rmsprop_update(
    param: Tensor | ArrayLike,
    grad: Tensor | ArrayLike,
    v: Tensor | ArrayLike,
    m: Tensor | ArrayLike,
    learning_rate: Tensor | ArrayLike,
    rho: Tensor | ArrayLike,
    eps: Tensor | ArrayLike,
    weight_decay: Tensor | ArrayLike,
    eps_inside: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Gradient over the root of its variance (Graves 2013, arXiv:1308.0850, eq. 38 to 41).

    v ← ρ·v + (1 − ρ)·g²        m ← ρ·m + (1 − ρ)·g
    p ← p − lr·g/(√(v − m²) + ε), with λ·p added to g

    With ``eps_inside`` the root is √(v − m² + ε), as in the paper. States begin as zeros.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> p, *states = gw.training.centered_rmsprop_update(
    ...     p, dp, zero, zero, 0.1, 0.9, 1e-8, 0.0, name="p"
    ... )
    >>> g.output({}, p)["p"].round(3)
    array([ 0.667, -1.333], dtype=float32)

    Attributes:
        eps_inside: Add ε below the root.
    """

def clip_by_global_norm(
    clip_norm: Tensor | ArrayLike,
    *xs: Tensor | ArrayLike | Sequence[Tensor],
    name: str | None = None,
) -> Tensor:
    """Scale all tensors by one factor so that their joint norm is at most ``clip_norm``.

    n = √(Σₖ Σᵢ xₖᵢ²)        yₖ = xₖ · c / max(n, c)

    Outputs n and then y₀, y₁, …: the direction of the step stays as it is (Pascanu et al. 2013,
    arXiv:1211.5063).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> norm, y = gw.training.clip_by_global_norm(1.0, g.constant([3.0, 4.0]), name="y")
    >>> g.output({}, y)["y:1"].round(2)
    array([0.6, 0.8], dtype=float32)
    """

def ema_update(
    average: Tensor | ArrayLike,
    value: Tensor | ArrayLike,
    decay: Tensor | ArrayLike,
    *,
    name: str | None = None,
) -> Tensor:
    """Exponential moving average, of parameters most often (Polyak and Juditsky 1992).

    y = decay·average + (1 − decay)·value

    The average keeps its dtype: a float32 average of bfloat16 parameters stays one.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.training.ema_update(g.constant([1.0]), g.constant([2.0]), 0.75, name="y")
    >>> g.output({}, y)["y"].tolist()
    [1.25]
    """

def global_norm(*xs: Tensor | ArrayLike | Sequence[Tensor], name: str | None = None) -> Tensor:
    """Euclidean norm over all elements of all tensors; overflows only if the result does.

    y = √(Σₖ Σᵢ |xₖᵢ|²)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> n = gw.training.global_norm([g.constant([3.0]), g.constant(4.0)], name="n")
    >>> float(g.output({}, n)["n"])
    5.0
    """

def lamb_update(
    param: Tensor | ArrayLike,
    grad: Tensor | ArrayLike,
    m: Tensor | ArrayLike,
    v: Tensor | ArrayLike,
    step: Tensor | ArrayLike,
    learning_rate: Tensor | ArrayLike,
    beta1: Tensor | ArrayLike,
    beta2: Tensor | ArrayLike,
    eps: Tensor | ArrayLike,
    weight_decay: Tensor | ArrayLike,
    *,
    name: str | None = None,
) -> Tensor:
    """Adam whose step has the parameter's length, for large batches (You et al. 2020).

    m ← β₁·m + (1 − β₁)·g        v ← β₂·v + (1 − β₂)·g²
    r = m/(1 − β₁ᵗ)/(√(v/(1 − β₂ᵗ)) + ε) + λ·p
    p ← p − lr·‖p‖/‖r‖·r, or p − lr·r where either length is 0

    ``step`` is t, the number of this update counted from 1; states begin as zeros.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> p, *states = gw.training.lamb_update(
    ...     p, dp, zero, zero, 1, 0.1, 0.9, 0.999, 1e-8, 0.0, name="p"
    ... )
    >>> g.output({}, p)["p"].round(3)
    array([ 0.9, -1.1], dtype=float32)
    """

def lion_update(
    param: Tensor | ArrayLike,
    grad: Tensor | ArrayLike,
    m: Tensor | ArrayLike,
    learning_rate: Tensor | ArrayLike,
    beta1: Tensor | ArrayLike,
    beta2: Tensor | ArrayLike,
    weight_decay: Tensor | ArrayLike,
    *,
    name: str | None = None,
) -> Tensor:
    """Sign of a momentum, with decoupled decay (Chen et al. 2023, arXiv:2302.06675).

    p ← p·(1 − lr·λ) − lr·sign(β₁·m + (1 − β₁)·g)        m ← β₂·m + (1 − β₂)·g

    The state begins as zeros.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> p, *states = gw.training.lion_update(p, dp, zero, 0.1, 0.9, 0.999, 0.0, name="p")
    >>> g.output({}, p)["p"].round(3)
    array([ 0.9, -1.1], dtype=float32)
    """

def momentum_step(
    learning_rate: Tensor | ArrayLike,
    step: Tensor | ArrayLike,
    *tensors: Tensor | ArrayLike | Sequence[Tensor],
    alpha: float = 0.9,
    beta: float = 1.0,
    mode: str = "standard",
    norm_coefficient: float = 0.0,
    name: str | None = None,
) -> tuple[Tensor, ...]:
    """Momentum on several tensors, as ONNX has it.

    g ← norm_coefficient·x + g        v ← α·v + b·g, b = β for step > 0, else 1
    x ← x − lr·v, or x − lr·(g + α·v) for mode "nesterov", for all x, then all g, all v

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x, dx, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> x, *states = gw.training.momentum_step(0.1, 1, x, dx, zero, name="x")
    >>> g.output({}, x)["x"].round(3)
    array([ 0.95, -1.2 ], dtype=float32)

    Attributes:
        alpha: Decay of the velocity.
        beta: Share of the gradient, but for the first update.
        mode: Which momentum. One of 'standard', 'nesterov'.
        norm_coefficient: Of the penalty ½·‖x‖².
    """

def momentum_update(
    param: Tensor | ArrayLike,
    grad: Tensor | ArrayLike,
    velocity: Tensor | ArrayLike,
    learning_rate: Tensor | ArrayLike,
    momentum: Tensor | ArrayLike,
    weight_decay: Tensor | ArrayLike,
    nesterov: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Gradient descent with momentum (Polyak 1964), or Nesterov's (Sutskever et al. 2013).

    u ← μ·u + g + λ·p        p ← p − lr·u;        Nesterov: p ← p − lr·(g + λ·p + μ·u)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> p, *states = gw.training.momentum_update(p, dp, zero, 0.1, 0.9, 0.0, name="p")
    >>> g.output({}, p)["p"].round(3)
    array([ 0.95, -1.2 ], dtype=float32)

    Attributes:
        nesterov: Look ahead along the velocity.
    """

def muon_update(
    param: Tensor | ArrayLike,
    grad: Tensor | ArrayLike,
    m: Tensor | ArrayLike,
    learning_rate: Tensor | ArrayLike,
    momentum: Tensor | ArrayLike,
    weight_decay: Tensor | ArrayLike,
    nesterov: bool = True,
    steps: int = 5,
    scale: float = 1.0,
    eps: float = 1e-07,
    *,
    name: str | None = None,
) -> Tensor:
    """Muon: the momentum of a matrix, made orthogonal (Jordan et al. 2024).

    m ← μ·m + (1 − μ)·g        n = μ·m + (1 − μ)·g with ``nesterov``, else m
    p ← p·(1 − lr·λ) − lr·scale·newton_schulz(n)

    The state begins as zeros.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp = g.constant([[1.0, 0.0], [0.0, 1.0]]), g.constant([[3.0, 0.0], [0.0, 3.0]])
    >>> p, m = gw.training.muon_update(p, dp, dp * 0.0, 0.1, 0.95, 0.0, name="p")
    >>> g.output({}, p)["p"].round(2)
    array([[0.89, 0.  ],
           [0.  , 0.89]], dtype=float32)

    Attributes:
        nesterov: Look ahead along the momentum.
        steps: Iterations that make it orthogonal.
        scale: Factor of the orthogonal step.
        eps: Added to the norm.
    """

def nadam_momentum(
    product: Tensor | ArrayLike,
    step: Tensor | ArrayLike,
    beta1: Tensor | ArrayLike,
    momentum_decay: Tensor | ArrayLike,
    *,
    name: str | None = None,
) -> tuple[Tensor, ...]:
    """Shares of momentum and gradient in a step of Nadam, whose momentum warms up (Dozat 2016).

    μₜ = β₁·(1 − ½·0.96^(t·ψ))        Π ← Π·μₜ, from 1
    share of m = μₜ₊₁/(1 − Π·μₜ₊₁)        share of g = (1 − μₜ)/(1 − Π)

    Outputs both shares and the new product Π.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> of_m, of_g, product = gw.training.nadam_momentum(g.constant(1.0), 1, 0.9, 0.004, name="y")
    >>> [float(v.round(3)) for v in g.output({}, of_m, of_g, product).values()]
    [0.565, 1.0, 0.45]
    """

def nadam_share_update(
    param: Tensor | ArrayLike,
    grad: Tensor | ArrayLike,
    m: Tensor | ArrayLike,
    v: Tensor | ArrayLike,
    step: Tensor | ArrayLike,
    learning_rate: Tensor | ArrayLike,
    beta1: Tensor | ArrayLike,
    beta2: Tensor | ArrayLike,
    eps: Tensor | ArrayLike,
    weight_decay: Tensor | ArrayLike,
    share_of_m: Tensor | ArrayLike,
    share_of_grad: Tensor | ArrayLike,
    *,
    name: str | None = None,
) -> Tensor:
    """Nadam whose shares of momentum and gradient are given, as ``nadam_momentum`` gives them.

    m ← β₁·m + (1 − β₁)·g        v ← β₂·v + (1 − β₂)·g²
    p ← p·(1 − lr·λ) − lr·(sₘ·m + s_g·g)/(√(v/(1 − β₂ᵗ)) + ε)

    ``step`` is t, the number of this update counted from 1; states begin as zeros.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> p, *states = gw.training.nadam_share_update(
    ...     p, dp, zero, zero, 1, 0.1, 0.9, 0.999, 1e-8, 0.0, 0.6, 1.0, name="p"
    ... )
    >>> g.output({}, p)["p"].round(3)
    array([ 0.894, -1.106], dtype=float32)
    """

def nadam_update(
    param: Tensor | ArrayLike,
    grad: Tensor | ArrayLike,
    m: Tensor | ArrayLike,
    v: Tensor | ArrayLike,
    step: Tensor | ArrayLike,
    learning_rate: Tensor | ArrayLike,
    beta1: Tensor | ArrayLike,
    beta2: Tensor | ArrayLike,
    eps: Tensor | ArrayLike,
    weight_decay: Tensor | ArrayLike,
    *,
    name: str | None = None,
) -> Tensor:
    """Adam with Nesterov's momentum (Dozat 2016), β₁ constant.

    m ← β₁·m + (1 − β₁)·g        v ← β₂·v + (1 − β₂)·g²
    n = β₁·m/(1 − β₁ᵗ⁺¹) + (1 − β₁)·g/(1 − β₁ᵗ)
    p ← p·(1 − lr·λ) − lr·n/(√(v/(1 − β₂ᵗ)) + ε)

    ``step`` is t, the number of this update counted from 1; states begin as zeros.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> p, *states = gw.training.nadam_update(
    ...     p, dp, zero, zero, 1, 0.1, 0.9, 0.999, 1e-8, 0.0, name="p"
    ... )
    >>> g.output({}, p)["p"].round(3)
    array([ 0.853, -1.147], dtype=float32)
    """

def nesterov_update(
    param: Tensor | ArrayLike,
    grad: Tensor | ArrayLike,
    velocity: Tensor | ArrayLike,
    learning_rate: Tensor | ArrayLike,
    momentum: Tensor | ArrayLike,
    weight_decay: Tensor | ArrayLike,
    *,
    name: str | None = None,
) -> Tensor:
    """Gradient descent with Nesterov's momentum, its learning rate in the velocity.

    v ← μ·v − lr·(g + λ·p)        p ← p + μ·v − lr·(g + λ·p)

    As in Sutskever et al. 2013; ``momentum_update(nesterov=True)`` is torch's form, whose velocity
    has no learning rate in it. They agree while that does not change.

    The state begins as zeros.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> p, *states = gw.training.nesterov_update(p, dp, zero, 0.1, 0.9, 0.0, name="p")
    >>> g.output({}, p)["p"].round(3)
    array([ 0.905, -1.38 ], dtype=float32)
    """

def newton_schulz(
    x: Tensor | ArrayLike,
    steps: int = 5,
    a: float = 3.4445,
    b: float = -4.775,
    c: float = 2.0315,
    eps: float = 1e-07,
    *,
    name: str | None = None,
) -> Tensor:
    """Nearly the nearest orthogonal matrix, by a quintic iteration (Jordan et al. 2024).

    x ← x/(‖x‖ + ε), then ``steps`` times  x ← a·x + (b·s + c·s²)·x,  s = x·xᵀ

    With the default coefficients singular values end between about 0.7 and 1.2 after 5 steps,
    however small they were.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = gw.training.newton_schulz(g.constant([[3.0, 0.0], [0.0, 1.0]]), steps=10, name="y")
    >>> (abs(g.output({}, y)["y"].diagonal() - 1) < 0.35).tolist()
    [True, True]

    Attributes:
        steps: Iterations.
        a: Coefficient of x.
        b: Coefficient of x·xᵀ·x.
        c: Coefficient of (x·xᵀ)²·x.
        eps: Added to the norm.
    """

def radam_update(
    param: Tensor | ArrayLike,
    grad: Tensor | ArrayLike,
    m: Tensor | ArrayLike,
    v: Tensor | ArrayLike,
    step: Tensor | ArrayLike,
    learning_rate: Tensor | ArrayLike,
    beta1: Tensor | ArrayLike,
    beta2: Tensor | ArrayLike,
    eps: Tensor | ArrayLike,
    weight_decay: Tensor | ArrayLike,
    *,
    name: str | None = None,
) -> Tensor:
    """Adam that waits for its variance to be known (Liu et al. 2020, arXiv:1908.03265).

    m ← β₁·m + (1 − β₁)·g        v ← β₂·v + (1 − β₂)·g²
    p ← p − lr·m/(1 − β₁ᵗ)·r·√(1 − β₂ᵗ)/(√v + ε) for ρ > 5, else p − lr·m/(1 − β₁ᵗ),
    ρ = c − 2t·β₂ᵗ/(1 − β₂ᵗ), c = 2/(1 − β₂) − 1, r² = (ρ−4)(ρ−2)c/((c−4)(c−2)ρ);
    λ·p is added to g

    ``step`` is t, the number of this update counted from 1; states begin as zeros.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> p, *states = gw.training.radam_update(
    ...     p, dp, zero, zero, 1, 0.1, 0.9, 0.999, 1e-8, 0.0, name="p"
    ... )
    >>> g.output({}, p)["p"].round(3)
    array([ 0.95, -1.2 ], dtype=float32)
    """

def rmsprop_update(
    param: Tensor | ArrayLike,
    grad: Tensor | ArrayLike,
    v: Tensor | ArrayLike,
    learning_rate: Tensor | ArrayLike,
    rho: Tensor | ArrayLike,
    eps: Tensor | ArrayLike,
    weight_decay: Tensor | ArrayLike,
    eps_inside: bool = False,
    *,
    name: str | None = None,
) -> Tensor:
    """Gradient over the root of its mean square (Tieleman and Hinton 2012).

    v ← ρ·v + (1 − ρ)·g²        p ← p − lr·g/(√v + ε), with λ·p added to g

    With ``eps_inside`` the root is √(v + ε), as TensorFlow 1 and optax have it. The state begins as
    zeros.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> p, *states = gw.training.rmsprop_update(p, dp, zero, 0.1, 0.9, 1e-8, 0.0, name="p")
    >>> g.output({}, p)["p"].round(3)
    array([ 0.684, -1.316], dtype=float32)

    Attributes:
        eps_inside: Add ε below the root.
    """

def scale_loss(
    loss: Tensor | ArrayLike, scale: Tensor | ArrayLike, *, name: str | None = None
) -> Tensor:
    """Loss times a scale, so that small gradients of 16 bits do not vanish (Micikevicius 2018).

    y = scale·loss

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> float(g.output({}, gw.training.scale_loss(g.constant(0.5), 1024.0, name="y"))["y"])
    512.0
    """

def schedule_free_share(
    weight_sum: Tensor | ArrayLike,
    largest_rate: Tensor | ArrayLike,
    step: Tensor | ArrayLike,
    learning_rate: Tensor | ArrayLike,
    r: float = 0.0,
    power: float = 2.0,
    *,
    name: str | None = None,
) -> tuple[Tensor, ...]:
    """Share of the newest point in a schedule-free average (Defazio et al. 2024, arXiv:2405.15682).

    h ← max(h, lr)        w = tʳ·hᵏ        s ← s + w        c = w/s, or 0 where s is 0

    Outputs c, the new sum s, and the new largest rate h; both begin as 0.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> c, total, largest = gw.training.schedule_free_share(g.constant(1.0), 0.5, 3, 1.0, name="y")
    >>> [v.tolist() for v in g.output({}, c, total, largest).values()]
    [0.5, 2.0, 1.0]

    Attributes:
        r: Power of the step in the weights.
        power: Power k of the largest learning rate in the weights.
    """

def schedule_free_update(
    param: Tensor | ArrayLike,
    grad: Tensor | ArrayLike,
    z: Tensor | ArrayLike,
    v: Tensor | ArrayLike,
    average: Tensor | ArrayLike,
    step: Tensor | ArrayLike,
    learning_rate: Tensor | ArrayLike,
    beta1: Tensor | ArrayLike,
    beta2: Tensor | ArrayLike,
    eps: Tensor | ArrayLike,
    weight_decay: Tensor | ArrayLike,
    share: Tensor | ArrayLike,
    *,
    name: str | None = None,
) -> Tensor:
    """AdamW without a schedule: gradients at y, steps of z, and x, their average, for evaluation.

    v ← β₂·v + (1 − β₂)·g²        d = g/(√(v/(1 − β₂ᵗ)) + ε) + λ·y
    z ← z − lr·d        x ← (1 − c)·x + c·z        y ← (1 − β₁)·z + β₁·x

    By Defazio et al. 2024 (arXiv:2405.15682). The parameter is y; z and x begin as the parameter, v
    as zeros. The share c is that of ``schedule_free_share``.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> y, z, v, x = gw.training.schedule_free_update(
    ...     p, dp, p, zero, p, 1, 0.1, 0.9, 0.999, 1e-8, 0.0, 0.5, name="p"
    ... )
    >>> for a in g.output({}, y, z, x).values():
    ...     print(a.round(3))
    [ 0.945 -1.055]
    [ 0.9 -1.1]
    [ 0.95 -1.05]
    """

def sgd_update(
    param: Tensor | ArrayLike,
    grad: Tensor | ArrayLike,
    learning_rate: Tensor | ArrayLike,
    weight_decay: Tensor | ArrayLike,
    *,
    name: str | None = None,
) -> Tensor:
    """Gradient descent with L2 decay.

    p ← p − lr·(g + λ·p)

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp = g.constant([1.0, -1.0]), g.constant([0.5, 2.0])
    >>> p = gw.training.sgd_update(p, dp, 0.1, 0.0, name="p")
    >>> g.output({}, p)["p"].round(3)
    array([ 0.95, -1.2 ], dtype=float32)
    """

def unscale_gradients(
    scale: Tensor | ArrayLike,
    *gradients: Tensor | ArrayLike | Sequence[Tensor],
    name: str | None = None,
) -> tuple[Tensor, ...]:
    """Gradients of a scaled loss, brought back, and whether all of them are finite.

    yₖ = gₖ/scale,  finite = ∧ₖ ∧ᵢ |yₖᵢ| < ∞

    Outputs finite: bool[], the ``commit_if`` of the update, and then y₀, y₁, …

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> finite, y = gw.training.unscale_gradients(8.0, g.constant([16.0]), name="y")
    >>> [v.tolist() for v in g.output({}, finite, y).values()]
    [True, [2.0]]
    """

def update_fp8_scale(
    tops: Sequence[float],
    history: Tensor | ArrayLike,
    scale: Tensor | ArrayLike,
    *amax: Tensor | ArrayLike | Sequence[Tensor],
    margin: int = 0,
    algorithm: str = "max",
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Scales of the next step from the largest numbers of the last ones (delayed scaling).

    h₀ ← amax,  m = max h, or h₀ with ``algorithm="most_recent"``
    scale ← 2^−margin·tops/m, kept where m is 0, infinite or NaN;  h ← roll(h, −1), h₀ ← 0

    history: f32[H, n], scale: f32[n], amax: n numbers, f32[] each -> history and scale. ``tops``
    are the largest numbers of the n formats. Column by column, a maximum of 0 leaves the history as
    it is: nothing has flowed there. Raises ShapeError where the sizes differ.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> h, s = g.constant([[0.0], [8.0]]), g.constant([1.0])
    >>> found = gw.training.update_fp8_scale(h, s, g.constant(2.0), tops=(448.0,), name="y")
    >>> [v.tolist() for v in g.output({}, *found).values()]
    [[[0.0], [2.0]], [56.0]]

    Attributes:
        tops: Largest number of each column's format.
        margin: Powers of two that are left as room.
        algorithm: Which maximum counts. One of 'max', 'most_recent'.
    """

def update_loss_scale(
    scale: Tensor | ArrayLike,
    good: Tensor | ArrayLike,
    finite: Tensor | ArrayLike,
    growth: float = 2.0,
    backoff: float = 0.5,
    interval: int = 2000,
    smallest: float = 1.0,
    largest: float = 65536.0,
    *,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Loss scale that grows while gradients are finite and shrinks when they are not.

    finite:      good ← good + 1, and at ``interval`` scale ← growth·scale, good ← 0
    not finite:  scale ← backoff·scale, good ← 0

    The scale stays between ``smallest`` and ``largest`` (Micikevicius et al. 2018).

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> scale, good = gw.training.update_loss_scale(
    ...     g.constant(1024.0), g.constant(7), g.constant(False), name="y"
    ... )
    >>> [v.tolist() for v in g.output({}, scale, good).values()]
    [512.0, 0]

    Attributes:
        growth: Factor after enough good steps.
        backoff: Factor after a step that is not finite.
        interval: Good steps before the scale grows.
        smallest: Smallest scale.
        largest: Largest scale.
    """

def with_gradient(
    value: Tensor | ArrayLike,
    root: Tensor | ArrayLike,
    cotangent: Tensor | ArrayLike,
    *,
    name: str | None = None,
) -> Tensor:
    """A scalar whose gradient with respect to ``root`` is said to be ``cotangent``.

    y = value,  ∂y/∂root := cotangent

    A loss can be measured in one way and trained in another: by what another program says of an
    output, or by a formula that is cheaper at the logits than the derivative of the loss. ``value``
    itself gets no gradient.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> x = g.placeholder("x", (2,))
    >>> y = x * 3.0
    >>> loss = gw.training.with_gradient(gw.sum(gw.abs(y)), y, g.constant([10.0, -1.0]))
    >>> dx, = gw.gradients(loss, [x])
    >>> [v.tolist() for v in gw.Session(g).run([loss, dx], {"x": [1.0, 2.0]})]
    [9.0, [30.0, -3.0]]
    """
