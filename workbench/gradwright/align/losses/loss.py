"""What losses of alignment share: a value with its metrics, and sums that masks decide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...errors import GraphError, ShapeError
from ...graph import Tensor
from ...ops.core.choice import Maximum, Where
from ...ops.core.identity import StopGradient
from ...ops.core.movement import Cast
from ...spec import kind, shapes_differ


class Loss(NamedTuple):
    """A scalar to make small, and what is watched beside it: no gradient flows from metrics."""

    value: Tensor
    metrics: Mapping[str, Tensor]


def still(x: Any) -> Any:
    """Return a tensor that lets no gradient through."""
    return StopGradient()(x)


def same(**tensors: Tensor | None) -> None:
    """Refuse tensors of different shapes, by name."""
    given = {name: x for name, x in tensors.items() if x is not None}
    first, *rest = given
    for name in rest:
        if shapes_differ(given[name].shape, given[first].shape):
            raise ShapeError(
                f"{name} {given[name].spec} does not fit {first} {given[first].spec}",
                need="one place per token in both",
            )


def chosen_from(name: str, value: str, names: tuple[str, ...]) -> None:
    """Refuse a setting that is none of those there are."""
    if value not in names:
        raise GraphError(f"{name}={value!r} is not known", need=" or ".join(map(repr, names)))


def counted(mask: Tensor, like: Tensor) -> Tensor:
    """Return a mask of zeros and ones, or of bools, as numbers of ``like``'s dtype."""
    found: Tensor = mask if mask.dtype == like.dtype else Cast(dtype=like.dtype)(mask)
    return found


def kept(x: Tensor, mask: Tensor) -> Tensor:
    """Return a tensor with zeros where the mask is 0, whatever stands there, NaN included."""
    found: Tensor = Where()(mask if kind(mask.dtype) == "b" else mask != 0, x, 0)
    return found


def row_sums(x: Tensor, mask: Tensor) -> Tensor:
    """Return sums over the tokens of each row that count: f32[B, T] -> f32[B]."""
    return kept(x, mask).sum(-1)


def lengths(mask: Tensor, like: Tensor) -> Tensor:
    """Return how many tokens of each row count, at least 1."""
    found: Tensor = Maximum()(counted(mask, like).sum(-1), 1)
    return found


def row_means(x: Tensor, mask: Tensor) -> Tensor:
    """Return means over the tokens of each row that count; 0 for a row of none."""
    return row_sums(x, mask) / lengths(mask, x)


def token_mean(x: Tensor, mask: Tensor) -> Tensor:
    """Return the mean over all tokens that count; 0 if there are none."""
    found: Tensor = kept(x, mask).sum() / Maximum()(counted(mask, x).sum(), 1)
    return found


def shared_among(total: Tensor, mask: Tensor, num_items: Tensor | float | None) -> Tensor:
    """Return a sum over ``num_items`` tokens, by default those of the mask, and at least 1."""
    if isinstance(num_items, int | float):
        return total / max(float(num_items), 1.0)
    found: Tensor = total / Maximum()(
        counted(mask, total).sum() if num_items is None else num_items, 1
    )
    return found


def halves(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows of chosen completions, and those of rejected ones: f32[2·B] -> 2 x f32[B]."""
    both = x.reshape((2, -1))
    return both[0], both[1]


def of_pairs(rewards: tuple[Tensor, Tensor], logps: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
    """Return what is watched of pairs: rewards, how often they are in order, their margin."""
    chosen, rejected = map(still, rewards)
    return {
        "rewards/chosen": chosen.mean(),
        "rewards/rejected": rejected.mean(),
        "rewards/accuracies": counted(chosen > rejected, chosen).mean(),
        "rewards/margins": (chosen - rejected).mean(),
        "logps/chosen": still(logps[0]).mean(),
        "logps/rejected": still(logps[1]).mean(),
    }
