"""Fixtures of the tests of rewrites."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gradwright.graph import Graph


@pytest.fixture
def g() -> Iterator[Graph]:
    """Return a graph that ops without inputs go to."""
    with Graph() as graph:
        yield graph
