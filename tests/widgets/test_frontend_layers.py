"""The arrows of the front end, read off every import of its TypeScript.

1. ``core <- panels <- widgets, lab``: `core` knows no panel, a panel knows no widget, a widget is
   the entry of a bundle, which nothing imports, and `lab` is the extension of JupyterLab, which no
   other room knows.
2. A panel imports `core`, its own folder, and the panels that `SHOWS` says it shows.
3. No file is part of a circle; imports of types count as much as others.
4. Packages are imported in `lab` alone, and not by its `viewer`, which shows files wherever it is.
"""

from __future__ import annotations

import graphlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "widgets/frontend/src"
SHOWS = {"training": {"plot"}, "runs": {"plot", "parameters"}}
"""Panel -> panels that it has inside of it, or whose parts it uses."""
IMPORT = re.compile(
    r'(?:^(?:import|export)\b[^;"]*|\bimport\()"(?:worker:)?(\.[^"]+)"', re.MULTILINE
)
PACKAGE = re.compile(r'\b(?:from |import\()"([@a-z][^":]*)"')


def imports(path: Path) -> Iterator[str]:
    """Yield what a file imports, as paths from the source folder without their suffix."""
    for found in IMPORT.findall(path.read_text("utf-8")):
        target = (path.parent / found).resolve()
        declared = target.with_suffix(".d.ts").is_file()
        if target.suffix not in {".css", ".ipynb"} and not declared:
            yield target.relative_to(SOURCE).as_posix().removesuffix(".ts")


FILES = {
    path.relative_to(SOURCE).as_posix().removesuffix(".ts"): sorted(imports(path))
    for path in sorted(SOURCE.rglob("*.ts"))
    if not path.name.endswith(".d.ts")
}


def allowed(here: str, there: str) -> bool:
    """Tell whether one file may import another.

    >>> allowed("widgets/graph_view", "panels/graph/panel"), allowed("core/dom", "panels/graph/pen")
    (True, False)
    """
    room, _, rest = here.partition("/")
    if there.startswith("core/"):
        return True
    if room == "lab" and there.startswith("lab/"):
        return True
    if not there.startswith("panels/") or room == "core":
        return False
    panel, other = rest.partition("/")[0], there.split("/")[1]
    return room in {"widgets", "lab"} or other == panel or other in SHOWS.get(panel, ())


def test_every_file_stands_in_a_room() -> None:
    assert {name.partition("/")[0] for name in FILES} == {"core", "panels", "widgets", "lab"}
    assert len(FILES) > 100


def test_imports_point_downwards() -> None:
    wrong = [
        f"{here} imports {there}"
        for here, found in FILES.items()
        for there in found
        if not allowed(here, there)
    ]
    assert not wrong, "core <- panels <- widgets, lab:\n" + "\n".join(wrong)


DRAWING = ("model", "layout", "picture")
"""Folders of the drawing, in reading order; the files beside them are the panel's own parts."""


def test_the_drawing_reads_from_model_to_picture() -> None:
    place = {f"panels/graph/{folder}": order for order, folder in enumerate(DRAWING)}
    orders = {name: place.get(name.rpartition("/")[0], len(place)) for name in FILES}
    wrong = [
        f"{here} imports {there}"
        for here, found in FILES.items()
        for there in found
        if f"{here} {there}".count("panels/graph/") == 2 and orders[here] < orders[there]
    ]
    assert {*place} <= {name.rpartition("/")[0] for name in FILES}
    assert not wrong


def test_packages_are_imported_in_the_extension_alone() -> None:
    found = {name: PACKAGE.findall((SOURCE / f"{name}.ts").read_text("utf-8")) for name in FILES}
    users = {name for name, packages in found.items() if packages}
    assert users, "the extension is made of JupyterLab's packages"
    assert not [n for n in users if not n.startswith("lab/") or n.startswith("lab/viewer/")]
    declared = json.loads((SOURCE.parent / "package.json").read_text("utf-8"))["dependencies"]
    assert {package for name in users for package in found[name]} == {*declared}


def test_imports_lead_to_files() -> None:
    missing = [(here, there) for here, found in FILES.items() for there in {*found} - {*FILES}]
    assert not missing


def test_there_are_no_circles() -> None:
    try:
        graphlib.TopologicalSorter(FILES).prepare()
    except graphlib.CycleError as error:
        pytest.fail("a circle of imports: " + " <- ".join(error.args[1]))


def test_every_panel_that_is_shown_is_used() -> None:
    for panel, others in SHOWS.items():
        inside = [
            t for n, found in FILES.items() if n.startswith(f"panels/{panel}/") for t in found
        ]
        assert others == {t.split("/")[1] for t in inside if t.startswith("panels/")} - {panel}


@pytest.mark.parametrize(
    ("here", "there", "right"),
    [
        ("core/shell", "core/dom", True),
        ("core/shell", "panels/plot/panel", False),
        ("panels/plot/panel", "panels/plot/chart", True),
        ("panels/plot/panel", "panels/runs/panel", False),
        ("panels/runs/panel", "panels/plot/panel", True),
        ("panels/graph/panel", "widgets/graph_view", False),
        ("widgets/workbench", "panels/graph/panel", True),
        ("widgets/workbench", "widgets/graph_view", False),
        ("lab/viewer/drawing", "panels/graph/panel", True),
        ("lab/viewer/drawing", "widgets/graph_view", False),
        ("panels/graph/panel", "lab/viewer/viewer", False),
    ],
)
def test_the_rule_itself(here: str, there: str, right: bool) -> None:
    assert allowed(here, there) is right
