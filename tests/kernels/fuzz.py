"""Random programs on a simulated GPU, each access looked at, against numpy.

    python -m tests.kernels.fuzz [count] [--seed N]    programs of the seeds N, N + 1, ... (10,000)
    python -m tests.kernels.fuzz --seed N --one        one program, here: printed, run, compared

They are those of ``tests.fuzz``; what has no kernel goes over the host.
"""

from __future__ import annotations

from tests.fuzz import Program, problem
from tests.support.campaign import Campaign

CAMPAIGN = Campaign(
    "tests.kernels.fuzz",
    "programs",
    lambda seed: problem(Program(seed), "cuda-sim"),
    lambda seed: Program(seed).lines,
    "the same on a simulated GPU",
)


if __name__ == "__main__":
    CAMPAIGN.main(__doc__)
