"""Combining: several adapters become one of low rank; any method with a delta becomes LoRA.

Rules are those of ``add_weighted_adapter`` of peft. The first five combine factors, and need equal
ranks; those that end in ``_svd``, and ``svd``, combine deltas, of which the best of a rank is kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import GraphError
from .adapter import computed
from .adding import add
from .methods.adalora import AdaLoRA
from .methods.dora import DoRA
from .methods.dylora import DyLoRA
from .methods.lora import LoRA
from .settings import check_count
from .site import Place, Site

if TYPE_CHECKING:
    from .adapted import Adapted

Array = np.ndarray[Any, Any]
Factors = tuple[Array, Array]
"""A: [r, in·kernel] and B: [out, r] of a place."""


# -- rules of tensors ------------------------------------------------------------------------------


def linear(xs: Array, weights: Array, **_: Any) -> Array:
    """Return Σ wᵢ·xᵢ.

    >>> linear(np.array([[1.0], [2.0]]), np.array([1.0, 10.0]))
    array([21.])
    """
    found: Array = np.tensordot(weights, xs, 1)
    return found


def magnitude_prune(xs: Array, weights: Array, *, density: float, **_: Any) -> Array:
    """Return Σ wᵢ·xᵢ of the largest ``density`` of each.

    >>> magnitude_prune(np.array([[1.0, -3.0]]), np.ones(1), density=0.5)
    array([ 0., -3.])
    """
    return linear(np.stack([_largest(x, density) for x in xs]), weights)


def ties(xs: Array, weights: Array, *, density: float, sign: str = "total", **_: Any) -> Array:
    """Return the mean of what agrees with the elected sign (Yadav et al. 2023, "TIES-Merging").

    The largest ``density`` of each is kept; the sign is that of their sum (``sign="total"``), or
    that of most of them (``"frequency"``).

    >>> ties(np.array([[3.0, 1.0], [1.0, -2.0]]), np.ones(2), density=1.0)
    array([ 2., -2.])
    """
    return _disjoint(np.stack([_largest(x, density) for x in xs]), weights, sign)


def dare_linear(
    xs: Array, weights: Array, *, density: float, rng: np.random.Generator, **_: Any
) -> Array:
    """Return Σ wᵢ·xᵢ of a random ``density`` of each, scaled up by 1/density (Yu et al. 2023).

    >>> dare_linear(np.ones((1, 2)), np.ones(1), density=1.0, rng=np.random.default_rng(0))
    array([1., 1.])
    """
    return linear(np.stack([_kept(x, density, rng) for x in xs]), weights)


def dare_ties(
    xs: Array,
    weights: Array,
    *,
    density: float,
    rng: np.random.Generator,
    sign: str = "total",
    **_: Any,
) -> Array:
    """Return what ``ties`` elects of a random ``density`` of each, scaled up by 1/density.

    >>> dare_ties(np.ones((1, 2)), np.ones(1), density=1.0, rng=np.random.default_rng(0))
    array([1., 1.])
    """
    return _disjoint(np.stack([_kept(x, density, rng) for x in xs]), weights, sign)


RULES: dict[str, Callable[..., Array]] = {
    f.__name__: f for f in (linear, ties, dare_linear, dare_ties, magnitude_prune)
}


def _largest(x: Array, density: float) -> Array:
    """Return an array with all but its largest numbers zero."""
    count = int(density * x.size)
    found = np.zeros_like(x)
    at = np.argsort(-np.abs(x), axis=None, kind="stable")[:count]
    found.flat[at] = x.flat[at]
    return found


def _kept(x: Array, density: float, rng: np.random.Generator) -> Array:
    """Return an array of which a random part is kept, and scaled up."""
    if density >= 1:
        return x
    mask = rng.random(x.shape) < density
    found: Array = np.where(mask, x / density, 0)
    return found


def _disjoint(xs: Array, weights: Array, sign: str) -> Array:
    total = xs.sum(0) if sign == "total" else np.sign(xs).sum(0)
    agrees = np.sign(xs) == np.where(total >= 0, 1, -1)
    weighted = xs * weights.reshape(-1, *(1 for _ in xs.shape[1:]))
    found: Array = (weighted * agrees).sum(0) / np.maximum(agrees.sum(0), 1)
    return found


# -- adapters --------------------------------------------------------------------------------------


def combine(
    adapted: Sequence[Adapted],
    weights: Sequence[float] | None = None,
    how: str = "cat",
    *,
    name: str = "combined",
    rank: int | None = None,
    density: float = 0.5,
    sign: str = "total",
    seed: int = 0,
) -> Adapted:
    """Add one adapter that does what several do together, and switch these off.

    Args:
        adapted: adapters of one model.
        weights: of each; by default 1.
        how: ``"cat"``: the weighted sum of the deltas, exactly, with the ranks added up;
            ``"linear"``, ``"ties"``, ``"dare_linear"``, ``"dare_ties"``, ``"magnitude_prune"``:
            of factors, each times √(w·s), which of several is not the sum of deltas;
            ``"svd"``, ``"ties_svd"``, …: of deltas, of any method that has one.
        name: of the new one.
        rank: of ``"svd"`` and its kin; by default the largest of theirs.
        density: the share that ``ties`` and its kin keep, and ``dare`` keeps at random.
        sign: how ``ties`` elects one: by the sum of numbers (``"total"``) or of their signs
            (``"frequency"``).
        seed: of what ``dare`` keeps.

    Raises GraphError for adapters of several models, for methods and ranks that do not go together.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = g.placeholder("x", (None, 3)) @ g.variable("w", (3, 2), init=1.0)
    >>> pair = [gw.adapters.add(g, gw.adapters.LoRA(r=1), where="w", name=n) for n in "ab"]
    >>> gw.adapters.combine(pair, [0.5, 0.5]).adapter.r
    2
    """
    given = list(adapted)
    if not given or any(one.graph is not given[0].graph for one in given):
        raise GraphError("combined are adapters of one model", need="one, or several")
    for one in given:
        one._check_apart()
    if rank is not None:
        check_count("rank", rank)
    scales = np.array([1.0] * len(given) if weights is None else list(weights), np.float64)
    if len(scales) != len(given) or not np.isfinite(scales).all():
        raise GraphError(f"{len(given)} adapters have {len(scales)} weights", need="one each")
    if not 0 <= density <= 1 or sign not in ("total", "frequency"):
        need = "0 <= density <= 1, sign='total' or 'frequency'"
        raise GraphError(f"density={density!r}, sign={sign!r}", need=need)
    places = list({p.name: p for one in given for p in one.places}.values())
    rng = np.random.default_rng(seed)
    settings = {"density": density, "sign": sign, "rng": rng}
    factors: dict[str, Factors] = {}
    for place in places:
        there = [
            (one, w)
            for one, w in zip(given, scales, strict=True)
            if any(p.name == place.name for p in one.places)
        ]
        ones, own = [one for one, _ in there], np.array([w for _, w in there])
        if how == "cat":
            factors[place.name] = _stacked(place, ones, own)
        elif how in RULES:
            factors[place.name] = _ruled(place, ones, own, RULES[how], settings)
        elif (
            rule := RULES.get(how.removesuffix("_svd") if how != "svd" else "linear")
        ) is not None:
            deltas = np.stack([_delta(one, place.name) for one in ones])
            most = rank or max(_rank(one, place) for one in ones)
            factors[place.name] = truncated(rule(deltas, own, **settings), most)
        else:
            known = ["cat", *RULES, "svd", *(f"{r}_svd" for r in RULES if r != "linear")]
            raise GraphError(f"how={how!r} is not known", need=", ".join(map(repr, known)))
    return _added(given, places, factors, {}, name)


def to_lora(adapted: Adapted, rank: int | float, *, name: str = "lora") -> Adapted:
    """Add the LoRA that is nearest to an adapter, and switch that off.

    Of each delta, ΔW = U·Σ·Vᵀ, the largest ``rank`` singular values are kept, or as many as have
    this share of Σσ² if it is below 1. Biases that the method changes become ``lora_bias``.

    Raises GraphError for methods that are no change of a weight.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = g.placeholder("x", (None, 6)) @ g.variable("w", (6, 4), init=1.0)
    >>> adapted = gw.adapters.add(g, gw.adapters.LoKr(r=1, init=False), where="w")
    >>> lora = gw.adapters.to_lora(adapted, 2)
    >>> lora.adapter.r, adapted.is_enabled
    (2, False)
    """
    is_share = isinstance(rank, float) and 0 < rank < 1
    if not is_share and not (isinstance(rank, int) and rank >= 1):
        raise GraphError(f"rank={rank!r} makes no sense", need="1, 2, ..., or a share below 1")
    adapted._check_apart()
    factors: dict[str, Factors] = {}
    biases: dict[str, Array] = {}
    for place in adapted.places:
        factors[place.name] = truncated(_delta(adapted, place.name), rank)
        biases |= _bias(adapted, place)
    return _added([adapted], adapted.places, factors, biases, name)


def truncated(delta: Array, rank: int | float) -> Factors:
    """Return A and B of the best approximation of [out, in] of a rank, or of a share of its energy.

    >>> a, b = truncated(np.diag([3.0, 2.0, 0.0]), 0.9)
    >>> a.shape, np.allclose(b @ a, np.diag([3.0, 2.0, 0.0]))
    ((2, 3), True)
    """
    u, s, vt = np.linalg.svd(delta.astype(np.float64), full_matrices=False)
    r = min(int(rank), len(s))
    if rank < 1:
        share = np.cumsum(s**2) / max((s**2).sum(), 1e-30)
        r = min(int(np.searchsorted(share, rank)) + 1, len(s))
    return vt[:r], u[:, :r] * s[:r]


def _added(
    given: Sequence[Adapted],
    places: Sequence[Place],
    factors: Mapping[str, Factors],
    biases: Mapping[str, Array],
    name: str,
) -> Adapted:
    """Add a LoRA of these factors, whose scale is 1, and switch off what it stands for."""
    ranks = {place: len(a) for place, (a, _) in factors.items()}
    r = max(ranks.values())
    own = {re.escape(place): n for place, n in ranks.items() if n != r}
    method = LoRA(r=r, alpha=r, rank_pattern=own, alpha_pattern=own, lora_bias=bool(biases))
    made = add(given[0].model, method, lambda p: p.name in factors, name=name)
    state: dict[str, Array] = {}
    for place in made.places:
        leaves = made.variables[place.name]
        a, b = factors[place.name]
        for leaf, array in zip((x for x in leaves if "bias" not in x), (a, b), strict=True):
            state[f"{place.name}/{leaf}"] = array.reshape(leaves[leaf].shape)
        if "lora_B.bias" in leaves:
            zero = np.zeros(leaves["lora_B.bias"].shape)
            state[f"{place.name}/lora_B.bias"] = biases.get(place.name, zero)
    made.load_state(state)
    for one in given:
        one.disable()
    return made


def _stacked(place: Place, ones: Sequence[Adapted], weights: Array) -> Factors:
    parts = [_factors(one, place) for one in ones]
    a = np.concatenate([w * s * a for w, (a, _, s) in zip(weights, parts, strict=True)])
    return a, np.concatenate([b for _, b, _ in parts], axis=1)


def _ruled(
    place: Place,
    ones: Sequence[Adapted],
    weights: Array,
    rule: Callable[..., Array],
    settings: Mapping[str, Any],
) -> Factors:
    parts = [_factors(one, place) for one in ones]
    if len({len(a) for a, _, _ in parts}) > 1:
        raise GraphError(
            f"ranks at {place.name!r} differ: {[len(a) for a, _, _ in parts]}",
            need="one rank",
            hint='how="cat", or how="svd"',
        )
    signed = weights * np.array([s for _, _, s in parts])
    roots = np.sqrt(np.abs(signed))
    a = rule(np.stack([a for a, _, _ in parts]), roots * np.where(signed >= 0, 1, -1), **settings)
    return a, rule(np.stack([b for _, b, _ in parts]), roots, **settings)


def _factors(one: Adapted, place: Place) -> tuple[Array, Array, float]:
    """Return A, B and the scale of a LoRA at a place."""
    method = one.adapter
    if not isinstance(method, LoRA) or isinstance(method, AdaLoRA | DoRA | DyLoRA):
        raise GraphError(
            f"{one.name!r} is {type(method).__name__}: it is no product of two factors",
            hint='how="svd", or gw.adapters.to_lora(adapted, rank)',
        )
    if method.lora_bias:
        raise GraphError(f"{one.name!r} has biases of B, which are not combined")
    own = next(p for p in one.places if p.name == place.name)
    a, b = (x.astype(np.float64) for x in list(one.numbers(own).values())[:2])
    return a.reshape(len(a), -1), b.reshape(len(b), -1), method.scale(own) * one.weight


def _rank(one: Adapted, place: Place) -> int:
    rank = getattr(one.adapter, "rank", None)
    return int(rank(place)) if rank is not None else int(getattr(one.adapter, "r", 8))


def _delta(one: Adapted, name: str) -> Array:
    """Return what an adapter adds to a weight, [out, in·kernel]."""
    place = next(p for p in one.places if p.name == name)
    if not isinstance(place, Site):
        raise GraphError(f"{type(one.adapter).__name__} at {name!r} is no change of a weight")
    w = place.array().astype(np.float64)
    changed = computed(lambda t, p: one.adapter.changed(place, t, p), w, one.numbers(place))
    found: Array = ((changed - w) * one.weight).reshape(len(w), -1)
    return found


def _bias(one: Adapted, place: Place) -> dict[str, Array]:
    """Return what an adapter adds to the bias of a place, if that is anything."""
    bias = next((use.bias for use in place.uses if use.bias is not None), None)
    if bias is None or not isinstance(place, Site):
        return {}
    before = one.graph.values.stored(bias.node).astype(np.float64)
    done = one.adapter.merge(place, place.array(), before, one.numbers(place))
    if done is None or done[1] is None or np.array_equal(done[1], before):
        return {}
    return {place.name: (done[1] - before) * one.weight}
