"""Functions of the namespace random; written by python -m gradwright.ops.stubs."""

from numpy.typing import ArrayLike

from gradwright.graph import Tensor

def fold_in(
    rng: Tensor | ArrayLike, number: Tensor | ArrayLike, *, name: str | None = None
) -> Tensor:
    """A random key of its own for each number, such as the step of a loop.

    key' = philox(key, number)

    Raises DTypeError where the key is not u64[2], or the number no integer. Salmon et al. 2011.

    >>> import gradwright as gw
    >>> g = gw.Graph()
    >>> keys = [gw.random.fold_in(g.rng, g.constant(i)) for i in (1, 1, 2)]
    >>> a, b, c = g.output({}, *keys).values()
    >>> a.tolist() == b.tolist(), a.tolist() == c.tolist()
    (True, False)
    """
