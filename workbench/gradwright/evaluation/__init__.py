"""Evaluations: how good predictions are, counted batch by batch, merged, drawn, saved as JSON.

    Classification   one class of many: accuracy, F1, confusion matrix ...
    Binary           yes or no, for each of several outputs
    ROC, ROCBinary, ROCMultiClass   over all thresholds: AUROC, AUPRC and their curves
    Calibration      whether probabilities are what they say
    Regression       errors and correlation of each column
    Custom           functions of your own

Each takes ``.add(labels, predictions, mask)`` batch by batch, and holds sums, not examples, but for
exact ROC curves. Two that have seen parts of the data ``.merge`` into what one would be that has
seen all. ``gw.evaluate`` fills them from a graph, and ``.metric(...)`` makes one of them a metric
of a trainer.
"""

from .adapter import evaluate
from .as_metric import EvaluationMetric
from .base import Evaluation
from .binary import Binary
from .calibration import Calibration
from .classification import Classification
from .custom import Custom
from .regression import Regression
from .roc import ROC, ROCBinary, ROCMultiClass
from .scores import PrecisionRecallCurve, RocCurve

__all__ = [
    "ROC",
    "Binary",
    "Calibration",
    "Classification",
    "Custom",
    "Evaluation",
    "EvaluationMetric",
    "PrecisionRecallCurve",
    "ROCBinary",
    "ROCMultiClass",
    "Regression",
    "RocCurve",
    "evaluate",
]
