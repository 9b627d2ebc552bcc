"""Ways to begin, by name or with settings: what ``init`` of LoRA may be."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import GraphError
from ...words.jsonable import jsonable
from .first import First
from .loftq import KINDS, loftq, made_up
from .olora import olora
from .orthogonal import orthogonal
from .pissa import pissa

Array = np.ndarray[Any, Any]
_PISSA = re.compile(r"pissa(?:_niter_(\d+))?")
PLAIN = (True, False, "gaussian")
"""Those that look neither at the weight nor at data."""
NAMES = ("pissa", "pissa_niter_16", "olora", "orthogonal", "loftq", "eva")


@jsonable
@dataclass(frozen=True)
class LoftQ:
    """Begin as what quantising the weight loses (Li et al. 2023, "LoftQ").

    base = dq(q(W − scale·B·A)), scale·B·A ≈ W − base, ``iterations`` times

    The weight becomes numbers that ``kind`` holds exactly. Where it is quantised already it stays,
    and ``data=`` of ``gw.adapters.add`` is the model of floats that it was made of.

    Args:
        kind: ``"nf4"``, ``"int8"`` by rows, or a format of ggml.
        iterations: how often.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> y = g.placeholder("x", (None, 64)) @ g.variable("w", (64, 8), init=gw.init.normal(seed=1))
    >>> before = g.values["w"]
    >>> start = gw.adapters.LoftQ(iterations=2)
    >>> adapted = gw.adapters.add(g, gw.adapters.LoRA(r=4, alpha=4, init=start), where="w")
    >>> bool((g.values["w"] != before).any())
    True
    """

    kind: str = "nf4"
    iterations: int = 1

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise GraphError(f"no format {self.kind!r} to quantise to", need=", ".join(KINDS))
        if self.iterations < 1:
            raise GraphError(f"LoftQ of {self.iterations} iterations gives nothing", need="1, ...")


@jsonable
@dataclass(frozen=True)
class EVA:
    """Begin as the directions in which a layer's inputs vary most (Paischer et al. 2024, "EVA").

    A = the leading principal components of the inputs, B = 0; the sum of all ranks goes to the
    directions that explain the largest shares of their layers' variance.

    ``data=`` of ``gw.adapters.add`` are batches of feeds, or one of them, which are gone through
    until directions have converged. Where a batch has ``labels``, one for each position, those that
    are ``label_mask_value`` are left out. Embeddings and convolutions begin as LoRA does.

    Args:
        rho: at most how many times its rank a layer gets.
        tau: cosine from which on a direction has converged, between two batches.
        use_label_mask: whether labels say what counts.
        label_mask_value: the label of what does not.
        whiten: whether directions are divided by the root of their singular values.
        adjust_scaling_factors: whether alpha changes with the rank, so that the scale does not.
        passes: how often all data is gone through at most.

    >>> import gradwright as gw, numpy as np
    >>> g = gw.Graph()
    >>> y = g.placeholder("x", (None, 3)) @ g.variable("w", (3, 2), init=1.0)
    >>> batch = {"x": np.random.default_rng(0).standard_normal((99, 3)) * [0, 5, 1]}
    >>> lora = gw.adapters.LoRA(r=1, init=gw.adapters.EVA(rho=1.0))
    >>> adapted = gw.adapters.add(g, lora, where="w", data=[batch])
    >>> np.abs(adapted.state()["w/lora_A"]).round(1).tolist()
    [[0.0, 1.0, 0.0]]
    """

    rho: float = 2.0
    tau: float = 0.99
    use_label_mask: bool = True
    label_mask_value: int = -100
    whiten: bool = False
    adjust_scaling_factors: bool = True
    passes: int = 10

    def __post_init__(self) -> None:
        if self.rho < 1 or not 0 <= self.tau <= 1 or self.passes < 1:
            raise GraphError(
                f"rho={self.rho}, tau={self.tau}, passes={self.passes} make no sense",
                need="rho >= 1, 0 <= tau <= 1, passes >= 1",
            )


def check(init: Any) -> None:
    """Raise GraphError for what is no way to begin.

    >>> check("pissa_niter_4")
    >>> check(EVA(rho=1.5))
    """
    known = (*PLAIN, *NAMES)
    if isinstance(init, LoftQ | EVA) or any(init is p for p in (True, False)):
        return
    if isinstance(init, str) and (init in known or _PISSA.fullmatch(init)):
        return
    raise GraphError(
        f"init={init!r} is not known", need=", ".join([*map(repr, known), "LoftQ(...)", "EVA(...)"])
    )


def eva_of(init: Any) -> EVA | None:
    """Return the settings of EVA where that is the way."""
    return EVA() if init == "eva" else init if isinstance(init, EVA) else None


def is_read(init: Any) -> bool:
    """Tell whether first values depend on the weight, or on what it is made of."""
    return not any(init is p for p in (True, False)) and init != "gaussian" and eva_of(init) is None


def first(
    init: Any, name: str, w: Array, r: int, scale: float, original: Array | None = None
) -> First:
    """Return first values for a weight [out, in] that is read.

    ``original`` is what a weight that is quantised already was made of.
    """
    if original is not None:
        return made_up(original.astype(np.float32) - w, r, scale)
    if isinstance(init, LoftQ) or init == "loftq":
        how = init if isinstance(init, LoftQ) else LoftQ()
        return loftq(w, r, scale, kind=how.kind, iterations=how.iterations)
    seed = zlib.crc32(name.encode())
    if init == "orthogonal":
        return orthogonal(w.shape[0], w.shape[1], r, seed=seed)
    if init == "olora":
        return olora(w, r, scale)
    found = _PISSA.fullmatch(init)
    assert found is not None
    return pissa(w, r, scale, n_iter=None if found[1] is None else int(found[1]), seed=seed)
