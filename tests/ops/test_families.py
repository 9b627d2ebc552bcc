"""Families of ops: each declares its facts, they have an order, and the core serves the others."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import pytest

import gradwright as gw
from gradwright.op import OPS, Autocast, Family, Op
from gradwright.ops.core.activation import Relu
from gradwright.ops.loading import load
from tests.test_layers import PACKAGES, files, imports_of

FOLDER = PACKAGES["gradwright"] / "ops"
FAMILIES = [
    *("core", "control", "arithmetic", "matrices", "convolutions", "draws", "images", "layers"),
    *("arrays", "attention", "recurrent", "losses", "quantised", "updates", "experts", "adapters"),
    *("sequences", "signals", "texts"),
]
"""A family imports only its own files and those of families to its left."""
NO_FAMILY = {"numerics", "reference"}
"""Folders beside them that hold no op."""


def between() -> Iterator[tuple[str, str, str]]:
    """Yield each import of a family's file: where, from what room or family, which file."""
    for path in files("gradwright"):
        here = path.relative_to(PACKAGES["gradwright"]).with_suffix("").parts
        family = here[1] if here[0] == "ops" and len(here) > 2 else here[0]
        for item in imports_of(path, "gradwright"):
            parts = item.module.split(".")
            if parts[:2] == ["gradwright", "ops"] and len(parts) > 2 and parts[2] in FAMILIES:
                yield item.where, family, ".".join(parts[2:4])


def test_every_folder_is_a_family() -> None:
    assert {path.parent.name for path in FOLDER.glob("*/__init__.py")} == {*FAMILIES} | NO_FAMILY


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_states_its_facts_and_imports_none_of_its_files(name: str) -> None:
    assert isinstance(importlib.import_module(f"gradwright.ops.{name}").FAMILY, Family)
    found = [item.module for item in imports_of(FOLDER / name / "__init__.py", "gradwright")]
    assert all(module.startswith("gradwright.op.") for module in found)


def test_families_have_an_order() -> None:
    wrong = [
        f"{where} imports {file}"
        for where, here, file in between()
        if here in FAMILIES and FAMILIES.index(file.split(".")[0]) > FAMILIES.index(here)
    ]
    assert not wrong, "a family imports only families to its left:\n" + "\n".join(wrong)


def test_each_file_of_the_core_serves_gradients_graphs_or_another_family() -> None:
    load()
    served = {f for _, here, f in between() if here in {*FAMILIES, "gradient", "graph"} - {"core"}}
    inside = {f for _, here, f in between() if here == "core"}
    core = {f"core.{path.stem}" for path in (FOLDER / "core").glob("*.py")} - {"core.__init__"}
    assert core <= served | inside
    defining = {".".join(op.__module__.split(".")[2:]) for op in OPS.values()} & core
    assert defining <= served


def test_a_class_says_otherwise_than_its_family_and_its_classes_inherit_that() -> None:
    assert (Relu.family.drawing, Relu.drawing, Relu.autocast) == (
        "math",
        "activation",
        Autocast.FREE,
    )

    class Mine(Relu):
        autocast = Autocast.SUM

    class Other(Op):
        """Of no family."""

    assert (Mine.drawing, Mine.autocast.bits, Mine().drawing) == (
        "activation",
        "high",
        "activation",
    )
    assert (Other.family.title, Other.drawing, Other.element) == ("Ops of no family", "math", "")
    assert gw.ops.find("lstm").op.drawing == gw.ops.find("linear").op.drawing == "linear"
