"""Cells that run again in a real kernel, and errors that point at them; tutorials as committed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TUTORIALS = sorted((ROOT / "notebooks").glob("*.ipynb"))
manager = pytest.importorskip("jupyter_client.manager", reason="pip install -e '.[test]'")


@pytest.fixture(scope="module")
def execute():
    """Run code in one ipykernel as the cell of a given id; return its text, or its traceback."""
    kernel, client = manager.start_new_kernel(kernel_name="python3")

    def run(cell_id: str, code: str) -> str:
        message = client.session.msg(
            "execute_request",
            {"code": code, "silent": False, "store_history": True, "allow_stdin": False},
            metadata={"cellId": cell_id},
        )
        client.shell_channel.send(message)
        text = ""
        while True:
            reply = client.get_iopub_msg(timeout=60)
            if reply["parent_header"].get("msg_id") != message["header"]["msg_id"]:
                continue
            if reply["msg_type"] == "stream":
                text += reply["content"]["text"]
            elif reply["msg_type"] == "error":
                text += "\n".join(reply["content"]["traceback"])
            elif reply["content"].get("execution_state") == "idle":
                return text

    yield run
    client.stop_channels()
    kernel.shutdown_kernel(now=True)


def test_running_a_cell_again_is_an_edit(execute):
    execute("a", "import gradwright as gw\ng = gw.Graph()\nx = g.placeholder('x', (3,))")
    cell = "w = g.variable('w', (3,), init=2.0)\nh = {}"
    show = "print(g.output({'x': [1.0, 1.0, 1.0]}, 'out')['out'])"
    assert execute("b", cell.format("x * w")) == ""
    assert execute("c", "out = h.sum(name='out')") == ""
    execute("d", "g.values['w'] = [1.0, 2.0, 3.0]")
    assert execute("b", cell.format("x * w")) == ""  # a second run: no name is taken
    assert execute("e", show).strip() == "6.0"  # the later cell follows; w kept its value
    assert execute("b", cell.format("10.0 * x * w")) == ""  # edited: "mul" is another thing now
    assert "no tensor 'out'" in execute("e", show)
    assert execute("c", "out = h.sum(name='out')") == ""
    assert execute("e", show).strip() == "60.0"


def test_errors_name_cell_and_line(execute):
    execute("g", "import gradwright as gw\ng2 = gw.Graph()\na = g2.placeholder('a', (2, 3))")
    text = execute("h", "b = g2.placeholder('b', (2, 3))\nc = a @ b")
    assert "inner dimensions differ" in text
    assert "cell" in text and "line 3)" in text and "line 1)" in text


def test_a_name_taken_by_another_cell_stays_an_error(execute):
    execute("i", "import gradwright as gw\ng3 = gw.Graph()\ng3.variable('w', ())")
    assert "is taken" in execute("j", "g3.variable('w', ())")


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_tutorials_are_cleared_and_listed(path):
    notebook = json.loads(path.read_text("utf-8"))
    assert "widgets" not in notebook["metadata"]
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None
    assert f"notebooks/{path.name}" in (ROOT / "README.md").read_text("utf-8")


def test_the_tutorial_on_the_engine_runs():
    """Its cells assert what its text claims."""
    cells = json.loads((ROOT / "notebooks/engine.ipynb").read_text("utf-8"))["cells"]
    sources = ["".join(c["source"]) for c in cells if c["cell_type"] == "code"]
    small = {"layers=6": "layers=4", "timed(40": "timed(8", "range(6)": "range(2)"}
    space: dict = {}
    for number, source in enumerate(sources):
        for long, short in small.items():
            source = source.replace(long, short)
        exec(compile(source, f"cell {number}", "exec"), space)
    assert space["less"].peak < space["memory"].peak
    assert len(space["figure"].data) == 2 and len(space["codes"]) == 5
