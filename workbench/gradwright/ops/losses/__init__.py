"""Losses beyond those of the core: of errors, classes, pairs, teachers, sequences."""
