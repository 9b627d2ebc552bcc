"""Servers of other hosts than JupyterLab, each with a configuration of its own, on loopback."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.lab import EXTENSION, wait_for

MODEL = """
import numpy as np
import gradwright as gw
from gradwright_widgets import Workbench

def made():
    g = gw.Graph("line")
    x, t = g.placeholder("x", (None, 2)), g.placeholder("t", (None, 1))
    loss = gw.loss.mean_squared_error(t, x @ g.variable("w", (2, 1)), name="loss")
    trainer = gw.Trainer(g, loss, optimizer=gw.optim.SGD(0.01))
    data = {"x": np.ones((64, 2), "float32"), "t": np.ones((64, 1), "float32")}
    return Workbench(g, trainer, data=data, epochs=3)
"""
"""Defines ``made``: what every host shows."""

MARIMO = f"""
# /// script
# [tool.marimo.display]
# theme = "dark"
# ///
import marimo
app = marimo.App()

@app.cell
def _():
    import marimo as mo
    {MODEL.strip().replace(chr(10), chr(10) + "    ")}
    mo.ui.anywidget(made())
    return
"""

SHINY = f"""
from shiny import App, ui
from shinywidgets import output_widget, render_widget
{MODEL}
def server(input, output, session):
    @render_widget
    def bench():
        return made()

page = ui.page_fluid(ui.input_dark_mode(mode="dark"), output_widget("bench"))
app = App(page, server)
"""


def installed(host: str) -> None:
    """Skip a test whose host is missing; it is not imported, for shinywidgets takes all widgets."""
    if importlib.util.find_spec(host) is None:
        pytest.skip(f"no {host}: pip install -e '.[hosts]'")


def free_port() -> int:
    """Return a port that nobody listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def served(folder: Path, *command: str) -> Iterator[str]:
    """Run ``python -m command`` in a folder; yield where it answers. ``PORT`` becomes its port."""
    port = free_port()
    env = {**os.environ, "JUPYTER_PLATFORM_DIRS": "1", "MARIMO_SKIP_UPDATE_CHECK": "1"}
    env |= {name: str(folder / name.lower()) for name in ("IPYTHONDIR", "XDG_CONFIG_HOME")}
    for name in ("CONFIG", "DATA", "RUNTIME"):
        env[f"JUPYTER_{name}_DIR"] = str(folder / name.lower())
    extensions = folder / "data/labextensions"
    shutil.copytree(EXTENSION, extensions / "gradwright")  # hosts without its tokens live with it
    log = folder / "host.log"
    with log.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", *(part.replace("PORT", str(port)) for part in command)],
            cwd=folder, env=env, stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def answers() -> bool:
        if process.poll() is not None:
            raise AssertionError(f"{command[0]} ended:\n{log.read_text()[-3000:]}")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 2):
            return True
        return False

    try:
        wait_for(answers, f"{command[0]} to answer")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
