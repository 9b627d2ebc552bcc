"""Runs: what a training was and how it went, in a folder; and an index of all of them.

A run folder holds ``config.json``, ``events.jsonl``, and ``checkpoints/`` where ``gw.Checkpoints``
was given the run. The folders are the truth; the index is a cache of them, in SQLite.
"""

from .folder import RunFolder
from .run import Run
from .store import Store
from .table import Runs, RunsComparison, runs

__all__ = ["Run", "RunFolder", "Runs", "RunsComparison", "Store", "runs"]
