"""Recipes: whole ways to train that are built on a trainer."""
