"""Losses beyond those of the core: of errors, classes, pairs, teachers, sequences."""

from . import classes, ctc, distillation, errors, pairs
