"""Factorisations and solutions of linear systems."""

from . import determinants, factors, patterns, powers, solutions, spectra, svd
