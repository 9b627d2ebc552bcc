"""Cells that run again in a real kernel, and errors that point at them."""

from __future__ import annotations

import pytest

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
