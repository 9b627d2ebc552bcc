"""Checkpoints: a training on disk, from which it goes on to the same bits after whatever befell it.

A checkpoint is a ``.gw`` archive (:mod:`gradwright.formats.archive`): graph and values as
``gw.save`` writes them, the state ``trainer`` (``trainer.state_dict()``), and ``checkpoint.json``:
where the training was, what it measured, its settings, and what decides the last bits on this
machine. So ``gw.load`` and ``gw.inspect`` read it, too.
"""

from .callback import Checkpoints
from .folder import Checkpoint, Listing
from .resuming import resume

__all__ = ["Checkpoint", "Checkpoints", "Listing", "resume"]
