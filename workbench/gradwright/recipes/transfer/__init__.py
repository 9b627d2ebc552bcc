"""Transfer learning: keep what a model has learnt, give it another head, train little of it.

- ``freeze_up_to``: freeze all variables that a tensor depends on
- ``replace_head``: let what used the old output use a new one
- ``CachedFeatures``: compute what is frozen once, and train the rest on it
- ``FineTuning``: which layers are trained when, and how fast
"""

from .cached import CachedFeatures
from .heads import freeze_up_to, replace_head
from .tuning import FineTuning, GradualUnfreezing

__all__ = ["CachedFeatures", "FineTuning", "GradualUnfreezing", "freeze_up_to", "replace_head"]
