"""``make bench``: the benchmarks, as ratios of interleaved runs; nothing is asserted.

``python -m tests.benchmarks.drawing`` and ``.page`` need a Chromium, ``.catalogue`` times more ops
beside torch: they stand by themselves.
"""

from __future__ import annotations

import os

for _pool in ("OPENBLAS", "MKL", "OMP"):  # before numpy is imported
    os.environ.setdefault(f"{_pool}_NUM_THREADS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

from . import building, ops, training, widgets  # noqa: E402

building.main()
training.main()
if training.HAS_TORCH:
    ops.main()
widgets.main()
