"""With ``GRADWRIGHT_GPU=1`` the simulated GPU of sessions is this machine's."""

from __future__ import annotations

import pytest

from tests.kernels.places import IS_REAL

SIMULATED_ONLY = {
    "test_too_little_memory_is_told_before_anything_runs",
    "test_a_graph_with_an_old_address_is_found",
    "test_a_graph_copies_pinned_memory_as_it_is_when_launched",
    "test_what_is_lent_is_held_until_it_is_given_back",
    "test_a_pool_keeps_no_more_than_it_may",
}
"""Tests of what only a simulated GPU finds, or has."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have sessions open the GPU, and leave out what is not of it."""
    if not IS_REAL:
        return
    from gradwright.program.device import register_device
    from gradwright_kernels.device.gpu import Gpu
    from gradwright_kernels.device.open import freest, gpu

    def opened(number: int | None = None) -> Gpu:
        return Gpu("cuda-sim", gpu(freest()), freest())

    register_device("cuda-sim", opened, is_numbered=True)
    for item in items:
        if item.name.partition("[")[0] in SIMULATED_ONLY:
            item.add_marker(pytest.mark.skip(reason="of the simulated GPU"))
