"""Factorisations and solutions of linear systems."""
