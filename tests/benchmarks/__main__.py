"""``python -m tests.benchmarks``: what graphs, ops, checks and widgets cost; nothing is asserted.

Training steps stand in ``tests.benchmarks.engine``, which ``make bench`` runs. ``.drawing`` and
``.page`` need a Chromium, ``.more_ops`` times more ops beside torch: they stand by themselves.
"""

from __future__ import annotations

import os

for _pool in ("OPENBLAS", "MKL", "OMP"):  # before numpy is imported
    os.environ.setdefault(f"{_pool}_NUM_THREADS", "1")

from tests.benchmarks import building, checking, ops, widgets  # noqa: E402

building.main()
checking.main()
if checking.HAS_TORCH:
    ops.main()
widgets.main()
