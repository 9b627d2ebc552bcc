"""Tests of alignment run in numpy, and find plans of theirs again on disk.

They look at losses, steps, what is kept and resumed; that kernels compute what numpy does is held
elsewhere, for every op and for random programs. Kernels that come in the background change last
bits from when on they are compiled: in numpy what is killed and goes on has the bits of what was
not. Pipelines, policies and rollouts took 41 s of processor time with kernels, 36 in numpy, and 30
with plans on disk, too (each once, on a busy machine).
"""

from __future__ import annotations

import pytest

WITH_KERNELS = {
    "test_distinct.py",
    "test_it_goes_on_to_the_bit_from_within_a_rollout[dapo]",
    "test_a_reward_is_learnt[grpo]",
}
"""Files and tests that run as users' programs do: stand-ins of steps, what is the same bit for bit
after a resume, what is learnt. Kernels that come in the background come when they are compiled:
what is compared to the bit either waits for them (``deterministic``) or has none."""


@pytest.fixture(autouse=True)
def in_numpy(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Switch kernels off, and plans on disk on."""
    if not WITH_KERNELS & {request.node.name, request.path.name}:
        monkeypatch.setenv("GRADWRIGHT_KERNELS", "off")
        monkeypatch.delenv("GRADWRIGHT_PLANS", raising=False)
