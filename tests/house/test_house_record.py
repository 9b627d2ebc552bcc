"""The record of what must stay sees what differs, and nothing else."""

from __future__ import annotations

import json

import pytest

from tests.house.__main__ import compare, differences, main
from tests.house.faces import described, scrubbed

BEFORE = {"ops": {"exp": {"drawing": "math", "inputs": ["x"]}, "log": {}}, "machine": {"cpu": "a"}}


def test_what_is_gone_new_or_other_is_told_with_its_path():
    after = {"ops": {"exp": {"drawing": "norm", "inputs": ["x", "y"]}, "sin": {}}}
    assert dict(differences({"ops": BEFORE["ops"]}, after)) == {
        "ops/exp/drawing": '"math"  ->  "norm"',
        "ops/exp/inputs": '["x"]  ->  ["x", "y"]',
        "ops/log": "gone: {}",
        "ops/sin": "new: {}",
    }


def test_other_machines_are_told_and_repairs_allowed(tmp_path, capsys):
    after = {"ops": {"exp": {"drawing": "norm", "inputs": ["x"]}, "log": {}}}
    paths = [tmp_path / "before.json", tmp_path / "after.json"]
    for path, held in zip(paths, (BEFORE, after | {"machine": {"cpu": "b"}}), strict=True):
        path.write_text(json.dumps(held))
    assert main(["compare", *map(str, paths)]) == 1
    assert main(["compare", *map(str, paths), "--allow", "ops/*/drawing"]) == 0
    assert "machine/cpu" in capsys.readouterr().out
    assert compare(BEFORE, {"ops": BEFORE["ops"]}, []) == 0  # parts that one side lacks


def test_a_part_that_there_is_not_is_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["record", str(tmp_path / "a.json"), "--what", "names,colours"])
    assert "colours is no part" in capsys.readouterr().err


def test_moved_modules_and_addresses_make_no_difference():
    assert scrubbed("(x=gradwright.train.optim.Adam(), f=<function f at 0x7f00>)") == (
        "(x=Adam(), f=<function f>)"
    )
    assert scrubbed("'gradwright.spec'") == "'spec'" and scrubbed("a.gradwright") == "a.gradwright"


def test_a_value_is_a_value_however_it_is_kept():
    class Kept:
        __module__ = "gradwright.anywhere"

        def __init__(self, size: int = 3) -> None:
            self.size = size

        @property
        def half(self) -> int:
            return self.size // 2

        @classmethod
        def of(cls, text: str) -> Kept:
            return cls(int(text))

        def _inner(self) -> None: ...

    found = described(Kept)
    assert found == {
        "()": "(size: 'int' = 3) -> 'None'",
        "is a": [],
        "half": "value",
        "of": "classmethod (text: 'str') -> 'Kept'",
    }
