"""Losses beyond those of the core: of errors, classes, pairs, teachers, sequences."""

from ...op import Autocast, Family

FAMILY = Family("Losses", drawing="loss", autocast=Autocast.LOSS)
