"""Sequences and optionals: neither PyTorch nor JAX has values of their kind."""

from __future__ import annotations

from tests.oracle.rows import Row

ROWS: dict[str, Row] = {}

_LISTS = "beside Python's own lists, and gradients by differences, in test_sequences.py"
_OPTIONALS = "what is held or not, and gradients by differences, in test_sequences.py"

ELSEWHERE = {
    **dict.fromkeys(("construct", "empty", "at", "insert", "erase", "length", "put"), _LISTS),
    **dict.fromkeys(("split_to_sequence", "concat_from_sequence"), _LISTS),
    **dict.fromkeys(("optional", "optional_get_element", "optional_has_element"), _OPTIONALS),
    "fold_in": "random: the words of its block, and draws in loops, in test_loops.py",
}
