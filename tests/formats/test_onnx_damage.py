"""Damaged ONNX files, a few of the twenty thousand that ``make fuzz-formats`` tries."""

from __future__ import annotations

import pytest

import gradwright as gw
from gradwright.errors import ArchiveError
from tests.formats import damaged_onnx
from tests.formats.damaged_models import models


def test_models_before_they_are_damaged(tmp_path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(96))
    for data in models().values():
        (tmp_path / "model.onnx").write_bytes(data)
        gw.onnx.to_model(gw.onnx.load(tmp_path / "model.onnx"))


def test_damaged_files_are_refused_or_good_graphs() -> None:
    assert list(damaged_onnx.CAMPAIGN.search(300, 0)) == []


def test_a_seed_decides_the_damage() -> None:
    assert damaged_onnx.damaged(5) == damaged_onnx.damaged(5) != damaged_onnx.damaged(6)


@pytest.mark.parametrize(
    ("use", "match"),
    [
        (lambda path: path.with_name("new").write_text("a"), "does open"),
        (lambda path: open("/etc/hostname").close(), "does open"),  # noqa: PTH123
        (lambda path: eval("1 + 1"), "does compile"),  # noqa: S307
        (lambda path: path.unlink(), "does os.remove"),
        (lambda path: 1 / 0, "raises ZeroDivisionError"),
        (lambda path: sum(range(10**8)), "takes"),
    ],
)
def test_what_must_not_be_is_seen(monkeypatch, use, match) -> None:
    damaged_onnx.warm()
    monkeypatch.setattr(damaged_onnx, "_read", use)
    monkeypatch.setattr(damaged_onnx, "SECONDS", 0.2)
    assert match in damaged_onnx.problem(0)


def test_errors_of_ours_are_what_is_wanted(monkeypatch) -> None:
    def refused(path):
        raise ArchiveError("damaged")

    damaged_onnx.warm()
    monkeypatch.setattr(damaged_onnx, "_read", refused)
    assert damaged_onnx.problem(0) == ""
