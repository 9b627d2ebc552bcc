"""Damaged GGUF and safetensors files, a few of the forty thousand of ``make fuzz-formats``."""

from __future__ import annotations

import pytest

from gradwright.errors import ArchiveError
from tests.formats import damaged_onnx, damaged_weights


def test_damaged_files_are_refused_or_what_they_hold() -> None:
    assert list(damaged_weights.CAMPAIGN.search(300, 0)) == []


def test_a_seed_decides_the_damage() -> None:
    assert damaged_weights.damaged(5) == damaged_weights.damaged(5) != damaged_weights.damaged(6)


def test_most_are_refused_and_some_are_what_they_hold(tmp_path) -> None:
    opened = refused = 0
    for seed in range(60):
        (tmp_path / str(seed)).mkdir()
        path = damaged_weights._put(tmp_path / str(seed), damaged_weights.damaged(seed)[1])
        try:
            damaged_weights._listed(path)
            opened += 1
        except ArchiveError:
            refused += 1
    assert opened > 10 and refused > 25


@pytest.mark.parametrize(
    ("use", "match"),
    [
        (lambda path: (path.parent.parent / "secret").read_bytes(), "does open"),
        (lambda path: path.unlink(), "does os.remove"),
        (lambda path: 1 / 0, "raises ZeroDivisionError"),
        (lambda path: sum(range(10**8)), "takes"),
    ],
)
def test_what_must_not_be_is_seen(monkeypatch, use, match) -> None:
    damaged_weights.warm()
    monkeypatch.setattr(damaged_weights, "_opened", use)
    monkeypatch.setattr(damaged_onnx, "SECONDS", 0.5)
    assert match in damaged_weights.problem(0)
