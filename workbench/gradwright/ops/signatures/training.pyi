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
    *,
    name: str | None = None,
) -> Tensor:
    """Gradient over the root of its mean square (Tieleman and Hinton 2012).

    v ← ρ·v + (1 − ρ)·g²        p ← p − lr·g/(√v + ε), with λ·p added to g

    The state begins as zeros.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> p, dp, zero = (g.constant(v) for v in ([1.0, -1.0], [0.5, 2.0], [0.0, 0.0]))
    >>> p, *states = gw.training.rmsprop_update(p, dp, zero, 0.1, 0.9, 1e-8, 0.0, name="p")
    >>> g.output({}, p)["p"].round(3)
    array([ 0.684, -1.316], dtype=float32)
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
