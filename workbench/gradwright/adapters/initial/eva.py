"""EVA: adapters begin as the directions in which a layer's inputs vary (Paischer et al. 2024)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import FeedError, GraphError
from ...graph import Tensor
from ...session import Session
from ..site import Site
from .first import leading

if TYPE_CHECKING:
    from .chosen import EVA

Array = np.ndarray[Any, Any]


class IncrementalPca:
    """Principal components of rows that come in batches (Ross et al. 2008).

    What is known of earlier rows are their mean and their ``n`` largest singular values and
    vectors; these stand above the rows of the next batch.

    >>> import numpy as np
    >>> rows = np.random.default_rng(0).standard_normal((200, 3)) * [3, 1, 0.1]
    >>> pca = IncrementalPca(2)
    >>> for batch in np.split(rows, 4):
    ...     pca.take(batch)
    >>> np.abs(pca.components.round(1)).tolist(), pca.ratios.round(1).tolist()
    ([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], [0.9, 0.1])
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self.components: Array | None = None
        """Directions, [n, in], of unit length."""
        self.sizes = self.ratios = np.zeros(n)
        """Singular values, and shares of the whole variance."""
        self._count, self._mean, self._squares = 0, np.float64(0), np.float64(0)

    def take(self, rows: Array) -> None:
        """Take rows [m, in], m at least n, into account."""
        m = len(rows)
        mean = rows.mean(0, dtype=np.float64)
        x = (rows - mean).astype(np.float32)
        gap = self._mean - mean
        weight = self._count * m / (self._count + m)
        self._squares = self._squares + np.square(x, dtype=np.float64).sum(0) + weight * gap**2
        if self.components is not None:
            x = np.concatenate([self.sizes[:, None] * self.components, x, [weight**0.5 * gap]])
        self._mean = (self._mean * self._count + rows.sum(0, dtype=np.float64)) / (self._count + m)
        self._count += m
        q = min(2 * self.n, *x.shape)
        _, s, vt = leading(x.astype(np.float32), q, 4, np.random.default_rng(42))
        at = np.abs(vt).argmax(1)
        vt = vt * np.sign(vt[np.arange(len(vt)), at])[:, None]  # so that two runs can be compared
        self.components, self.sizes = vt[: self.n], s[: self.n]
        self.ratios = self.sizes.astype(np.float64) ** 2 / self._squares.sum()


class Explained:
    """Directions of the inputs of several layers, and ranks that explain most of their variance.

    Each layer's directions are found among its inputs; then the sum of all ranks goes to the
    directions that explain the largest shares of their layers' variance, ρ times its own rank at
    most for a layer, so that some get none.

    Args:
        ranks: of each layer, by name.
        inputs: the name of the layer whose inputs a layer shares; its own if it is not there.
        rho: at most how many times its rank a layer gets.
        tau: cosine from which on a direction has converged, between two batches.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> found = Explained({"flat": 2, "round": 2}, rho=1.5)
    >>> while not found.is_done:
    ...     flat = rng.standard_normal((500, 1)) * [[1, 2, 0.5, 0]]
    ...     found.take({"flat": flat, "round": rng.standard_normal((500, 4)) * [4, 3, 2, 1]})
    >>> found.ranks, found.directions("round").shape
    ({'flat': 1, 'round': 3}, (3, 4))
    """

    def __init__(
        self,
        ranks: Mapping[str, int],
        inputs: Mapping[str, str] | None = None,
        *,
        rho: float = 2.0,
        tau: float = 0.99,
    ) -> None:
        if rho < 1 or not 0 <= tau <= 1:
            raise GraphError(f"rho={rho}, tau={tau} are none", need="rho >= 1, 0 <= tau <= 1")
        self._tau, self._budget = tau, sum(ranks.values())
        self._source = {name: (inputs or {}).get(name, name) for name in ranks}
        self._most: dict[str, int] = {}
        for name, r in ranks.items():
            source = self._source[name]
            self._most[source] = max(self._most.get(source, 0), round(r * rho))
        self._found = {source: IncrementalPca(n) for source, n in self._most.items()}
        self._converged = {source: np.zeros(n, bool) for source, n in self._most.items()}
        self.ranks = {name: self._most[source] for name, source in self._source.items()}
        """The rank of each layer, as it is known by now."""

    @property
    def wanted(self) -> list[str]:
        """Names of layers whose inputs are still of use."""
        needed = Counter[str]()
        for name, source in self._source.items():
            needed[source] = max(needed[source], self.ranks[name])
        return [s for s, held in self._converged.items() if not held[: needed[s]].all()]

    @property
    def is_done(self) -> bool:
        """Whether all directions that count have converged."""
        return not self.wanted

    def take(self, inputs: Mapping[str, Array]) -> None:
        """Take a batch of the inputs [m, in] of the layers that are ``wanted`` into account.

        A batch of fewer rows than there are directions to find is left out. Raises FeedError for
        numbers that are not finite.
        """
        for source in self.wanted:
            rows, pca = inputs[source].reshape(-1, inputs[source].shape[-1]), self._found[source]
            pca.n = min(pca.n, rows.shape[1])
            if not np.isfinite(rows).all():
                raise FeedError(f"inputs of {source} are not finite", hint="gw.debug finds where")
            if len(rows) < pca.n:
                continue
            before = pca.components
            pca.take(rows)
            after = pca.components
            if before is not None and after is not None:
                close = (before * after).sum(1) >= self._tau
                self._converged[source] = np.pad(
                    close, (0, self._most[source] - len(close)), constant_values=True
                )
        if all(pca.components is not None for pca in self._found.values()):
            self.ranks = self._shared_out()

    def _shared_out(self) -> dict[str, int]:
        """Return ranks: as many directions as there are to give, the most telling ones first."""
        shares = [
            (-ratio, name)
            for name, source in self._source.items()
            for ratio in self._found[source].ratios
        ]
        order = sorted(range(len(shares)), key=lambda i: shares[i][0])  # ties as layers follow
        count = Counter(shares[i][1] for i in order[: self._budget])
        return {name: count[name] for name in self._source}

    def directions(self, name: str, *, whiten: bool = False) -> Array:
        """Return the directions of a layer, [its rank, in]: orthonormal rows, A of its adapter.

        ``whiten`` divides each by the root of its singular value.
        """
        pca, r = self._found[self._source[name]], self.ranks[name]
        if pca.components is None:
            raise FeedError(
                f"no batch was large enough for {name}",
                need=f"{pca.n} rows, tokens of a batch taken together",
            )
        found = pca.components[:r]
        return found / np.sqrt(pca.sizes[:r, None]) if whiten else found


def explained(
    places: Sequence[Site], ranks: Mapping[str, int], batches: Iterable[Any], how: EVA
) -> Explained:
    """Return what the inputs of layers show in batches of feeds, by the names of places.

    Layers that read the same tensor share its directions. Raises FeedError where there are no
    batches, or none is large enough.
    """
    inputs = {p.name: p.uses[0].x for p in places}
    first: dict[Tensor | None, str] = {}
    source = {name: first.setdefault(x, name) for name, x in inputs.items()}
    found = Explained(ranks, source, rho=how.rho, tau=how.tau)
    held = [batches] if isinstance(batches, Mapping) else list(batches)
    session = Session(places[0].weight.graph)
    for feeds in (feeds for _ in range(how.passes) for feeds in held):
        if found.is_done:
            break
        wanted = found.wanted
        values = session.run([inputs[name] for name in wanted], feeds)
        found.take({n: _counted(x, feeds, how) for n, x in zip(wanted, values, strict=True)})
    for place in places:
        found.directions(place.name)  # which says what is missing
    return found


def _counted(x: Array, feeds: Any, how: EVA) -> Array:
    """Return the rows of inputs that count, f32[n, in]."""
    labels = feeds.get("labels") if how.use_label_mask and isinstance(feeds, Mapping) else None
    if labels is not None and np.shape(labels) == x.shape[:-1]:
        x = x[np.asarray(labels) != how.label_mask_value]
    return x.reshape(-1, x.shape[-1]).astype(np.float32, copy=False)
