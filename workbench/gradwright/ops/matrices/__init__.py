"""Factorisations and solutions of linear systems."""

from ...op import Autocast, Family

FAMILY = Family("Matrices", drawing="linear", autocast=Autocast.FACTOR)
