"""A real JupyterLab on loopback with a configuration of its own, and a Chromium that drives it."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PATIENCE = 150.0
"""Seconds; beside ten busy processes on two cores a throttled page took over 90 to open."""

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


VIEW = ".jp-Notebook .gw"
"""Widgets in notebooks, and not what the extension shows beside them."""


def chromium() -> str:
    """Return the path of an installed Chromium; skip without one, but fail in CI."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    return missing("no Chromium: apt-get install chromium")


def missing(what: str) -> str:
    """Skip a test for what is not installed, but fail in CI."""
    if os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(f"CI runs the browser tests, but there is {what}")
    pytest.skip(what)


def wait_for(question: Any, what: str, patience: float = PATIENCE) -> Any:
    """Ask until the answer is true; fail with ``what`` was waited for."""
    end = time.monotonic() + patience
    while True:
        if answer := question():
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"waited {patience:.0f} s for {what}")
        time.sleep(0.05)


def expect(what: Any) -> Any:
    """Return Playwright's assertions about a page or what is on it: they ask until they hold."""
    from playwright.sync_api import expect as assertions

    assertions.set_options(timeout=PATIENCE * 1000)
    return assertions(what)


def redraw(page: Any) -> None:
    """Let a page draw what it has heard, so that what shall not change could have changed."""
    page.evaluate("() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))")


def points(plot: Any) -> int:
    """Return how many points are drawn."""
    return int(plot.get_attribute("data-points") or 0)


STILL = """async (stage, what) => {
  const before = stage.locate(what);
  await new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)));
  const now = stage.locate(what);
  const still = before && now && before.x === now.x && before.y === now.y;
  return still && !stage.closest("[data-busy]") ? [now.x, now.y] : null;
}"""


def place(stage: Any, what: Any) -> tuple[float, float]:
    """Return where a picture shows something, once it stands still and no layout is under way."""
    x, y = wait_for(lambda: stage.evaluate(STILL, what), f"{what!r} to be drawn and stand still")
    return x, y


EXTENSION = Path(__file__).parents[2] / "widgets/gradwright_widgets/labextension"
SERVER_CONFIG = EXTENSION.parent / "server/jupyter_server_config.d"
"""What makes Jupyter Server load our extension."""


class Lab:
    """A JupyterLab whose settings, runtime files and notebooks live under one folder.

    ``app`` is the module that is run: ``notebook`` for Notebook 7. ``shared`` lets its pages work
    on one document together, where jupyter-collaboration is installed.
    """

    def __init__(self, folder: Path, app: str = "jupyterlab", *, shared: bool = False) -> None:
        self._app, self._shared = app, shared
        self.root = folder / "notebooks"
        self.root.mkdir(parents=True)
        self._events = self.root / "events.jsonl"
        self._events.touch()
        settings = folder / "config/labconfig"
        settings.mkdir(parents=True)
        extensions = folder / "data/labextensions"
        extensions.mkdir(parents=True)
        (extensions / "gradwright").symlink_to(EXTENSION)  # of this tree, whatever is installed
        (folder / "config/jupyter_server_config.d").symlink_to(SERVER_CONFIG)
        quiet = {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True}
        overrides = {"@jupyterlab/apputils-extension:notification": quiet}
        (settings / "default_setting_overrides.json").write_text(json.dumps(overrides))
        places = {
            "JUPYTER_CONFIG_DIR": "config",
            "JUPYTER_DATA_DIR": "data",
            "JUPYTER_RUNTIME_DIR": "runtime",
            "JUPYTERLAB_SETTINGS_DIR": "settings",
            "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
            "IPYTHONDIR": "ipython",
        }
        self._env = {**os.environ, **{key: str(folder / name) for key, name in places.items()}}
        self._env["JUPYTER_PLATFORM_DIRS"] = "1"
        self.log = folder / "lab.log"
        self.token = secrets.token_hex(16)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.base = f"http://127.0.0.1:{probe.getsockname()[1]}"

    def start(self) -> None:
        """Start the server and wait until it answers."""
        with self.log.open("w") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, "-m", self._app, "--no-browser", "--allow-root"),
                    *("--ip=127.0.0.1", f"--port={self.base.rpartition(':')[2]}"),
                    *("--ServerApp.port_retries=0", f"--IdentityProvider.token={self.token}"),
                    f"--ServerApp.root_dir={self.root}",
                    "--LabApp.expose_app_in_browser=True",
                    "--JupyterNotebookApp.expose_app_in_browser=True",
                    f"--YDocExtension.disable_rtc={not self._shared}",
                    f"--SQLiteYStore.db_path={self.root.parent / 'ystore.db'}",
                    "--LabApp.news_url=",
                    "--LabApp.check_for_updates_class=jupyterlab.handlers.announcements.NeverCheckForUpdate",
                ],
                env=self._env,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        wait_for(self._answers, "JupyterLab to answer")

    def _answers(self) -> bool:
        if self._process.poll() is not None:
            raise AssertionError("JupyterLab ended:\n" + self.log.read_text()[-3000:])
        try:
            self._ask("GET", "/api")
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            return False
        return True

    def _ask(self, method: str, path: str, patience: float = 2) -> bytes:
        """Return what the server answers."""
        url = f"{self.base}{path}?token={self.token}"
        request = urllib.request.Request(url, method=method)
        with urllib.request.urlopen(request, timeout=patience) as answer:
            return answer.read()

    def end_kernels(self) -> None:
        """End all kernels: a training that one has begun would go on beside all later tests."""
        for session in json.loads(self._ask("GET", "/api/sessions", PATIENCE)):
            self._ask("DELETE", f"/api/sessions/{session['id']}", PATIENCE)

    def stop(self) -> None:
        """End the server and its kernels."""
        self._process.terminate()
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def write_notebook(self, name: str, cells: list[str]) -> None:
        """Save a notebook of code cells, and forget what others have noted."""
        self._events.write_text("")
        import nbformat.v4 as v4

        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        notebook = v4.new_notebook(
            metadata={"kernelspec": kernel}, cells=[v4.new_code_cell(cell) for cell in cells]
        )
        (self.root / name).write_text(json.dumps(notebook))

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Return what the notebook has noted under this kind so far."""
        lines = self._events.read_text().splitlines()
        return [event for line in lines if (event := json.loads(line))["kind"] == kind]

    def event(self, kind: str, **facts: Any) -> dict[str, Any]:
        """Wait until the notebook has noted an event with these facts, and return the last one."""

        def found() -> dict[str, Any] | None:
            fitting = [e for e in self.events(kind) if facts.items() <= e.items()]
            return fitting[-1] if fitting else None

        event: dict[str, Any] = wait_for(found, f"the event {kind!r} with {facts}")
        return event


NOTE = """
import json
def note(kind, **facts):
    with open("events.jsonl", "a") as file:
        file.write(json.dumps({"kind": kind, **facts}) + "\\n")
"""
"""Defines ``note`` in a notebook: how the kernel tells the test what it has seen."""

SLOW = """
import time
class Slow(gw.Callback):
    def on_step_end(self, trainer, record): time.sleep(0.002)
"""
"""A callback in a notebook: a training that goes on until a test ends it leaves others a core."""

HIDDEN = """
import numpy as np
import gradwright as gw

g = gw.Graph("digits")
x = g.placeholder("x", (None, 16))
t = g.placeholder("t", (None,), dtype="int64")
with g.scope("hidden"):
    w = g.variable("w", (16, 32), init=gw.init.he_normal(seed=0))
    h = gw.nn.relu(x @ w + g.variable("b", (32,)))
"""
"""Begins a classifier in a notebook: a graph ``g``, inputs ``x`` and ``t``, a layer ``h``."""


EVIL = "<img src=x onerror=window.executed=1>"
"""The name of a node or parameter that would show if names were read as HTML anywhere."""


class Watched:
    """A browser page that remembers what went wrong on it and where it asked for anything."""

    def __init__(self, context: Any, *allowed: str) -> None:
        self.page = context.new_page()
        self.page.set_default_timeout(PATIENCE * 1000)
        self.errors: list[str] = []
        self.outside: list[str] = []
        self._context, self._allowed = context, (*allowed, "data:", "blob:", "file:")
        context.on("request", self._look)
        self.page.on(
            "console", lambda m: self.errors.append(m.text[:500]) if m.type == "error" else None
        )
        self.page.on("pageerror", lambda e: self.errors.append(str(e)[:500]))

    def _look(self, request: Any) -> None:
        if not request.url.startswith(self._allowed):
            self.outside.append(request.url)

    def close(self) -> None:
        """Close the page; others of its context go on."""
        self._context.remove_listener("request", self._look)
        self.page.close()

    def assert_clean(self) -> None:
        """Assert that nothing went wrong, nothing was asked for, and no name was executed."""
        wrong = [*self.errors, *self.outside]
        assert not wrong, wrong  # a helper's assertion says no more than it is told
        assert self.page.evaluate("window.executed") is None


UNHURRIED = f"""{{
  const timeout = AbortSignal.timeout.bind(AbortSignal);
  AbortSignal.timeout = (ms) => timeout(Math.max(ms, {PATIENCE * 1000:.0f}));
}}"""
"""anywidget 0.11 drops all messages to a widget whose module is not there after two seconds."""


CLEAR = """async () => {
  if (!window.jupyterapp) return false;
  const {commands, shell, serviceManager} = window.jupyterapp;
  for (const {context} of shell.widgets('main')) if (context) context.model.dirty = false;
  await commands.execute('application:close-all');
  await commands.execute('filebrowser:open-path', {path: '/'});
  shell.collapseRight();
  shell.activateById('filebrowser');
  document.activeElement?.blur();
  await serviceManager.sessions.shutdownAll();
  return true;
}"""
"""Closes all documents of JupyterLab and what stands beside them, and ends their kernels."""


class Page(Watched):
    """A page on which JupyterLab runs."""

    def __init__(self, context: Any, lab: Lab) -> None:
        super().__init__(context, lab.base, lab.base.replace("http", "ws"))
        self.page.add_init_script(UNHURRIED)
        self.lab = lab
        self._is_there = False

    def clear(self) -> None:
        """Close all that is open, for the next test: to load JupyterLab takes 7 s of a processor.

        What goes wrong meanwhile, as in a kernel that ends while it computes, is forgotten.
        """
        self.page.unroute_all()
        self.page.mouse.move(0, 0)
        self._is_there = self._is_there and self.page.evaluate(CLEAR)
        redraw(self.page)
        self.errors.clear()
        self.outside.clear()

    def open_lab(self) -> None:
        """Have JupyterLab with nothing open, loaded anew unless it is there."""
        if not self._is_there:
            self.load_lab()

    def load_lab(self) -> None:
        """Load JupyterLab with nothing open."""
        self.page.goto(f"{self.lab.base}/lab?reset&token={self.lab.token}")
        self.restored()
        self._is_there = True

    def restored(self) -> None:
        """Wait until JupyterLab has loaded."""
        self.page.wait_for_function(
            "() => window.jupyterapp && window.jupyterapp.restored.then(() => true)"
        )

    def open_notebook(self, name: str) -> None:
        """Open JupyterLab on a notebook and wait for its kernel."""
        self.open_lab()
        self.command("docmanager:open", {"path": name})
        self.page.wait_for_function(
            """(path) => {
              const w = window.jupyterapp.shell.currentWidget;
              const kernel = w?.sessionContext?.session?.kernel;
              return w?.context?.path === path && kernel?.status === 'idle';
            }""",
            arg=name,
        )

    @contextlib.contextmanager
    def setting(self, plugin: str, **values: Any) -> Iterator[None]:
        """Have JupyterLab use other settings of a plugin for pages opened meanwhile."""
        save = """([plugin, text, base, token]) => fetch(
            `${base}/lab/api/settings/${plugin}`,
            {
              method: 'PUT',
              headers: {Authorization: `token ${token}`},
              body: JSON.stringify({raw: text}),
            },
          ).then((answer) => { if (!answer.ok) throw new Error(answer.statusText); })"""
        if not self.page.url.startswith(self.lab.base):
            self.page.goto(f"{self.lab.base}/lab?reset&token={self.lab.token}")
        place = [self.lab.base, self.lab.token]
        self.page.evaluate(save, [plugin, json.dumps(values), *place])
        self._is_there = False
        try:
            yield
        finally:
            self.page.evaluate(save, [plugin, "{}", *place])
            self._is_there = False

    def command(self, name: str, args: dict[str, Any] | None = None) -> None:
        """Run a command of JupyterLab."""
        self.page.evaluate(
            "([name, args]) => window.jupyterapp.commands.execute(name, args).then(() => null)",
            [name, args or {}],
        )

    def choose(self, label: str) -> None:
        """Choose a command from the palette, by keyboard alone."""
        self.page.keyboard.press("Control+Shift+C")
        self.page.locator(".lm-CommandPalette-input").fill(label)
        expect(self.page.locator(".lm-CommandPalette-item.lm-mod-active")).to_contain_text(label)
        self.page.keyboard.press("Enter")

    def tab_to(self, target: Any, key: str = "Tab") -> None:
        """Go to a control by the Tab key, within sixty of them."""
        for _ in range(60):
            if target.evaluate("(control) => control === document.activeElement"):
                return
            self.page.keyboard.press(key)
        raise AssertionError(f"{target} cannot be reached by {key}")

    def run_cell(self, number: int) -> None:
        """Run a cell of the notebook to its end; raises what the cell raised."""
        outputs = self.page.evaluate(
            """async (k) => {
              const notebook = window.jupyterapp.shell.currentWidget.content;
              notebook.activeCellIndex = k;
              await window.jupyterapp.commands.execute('notebook:run-cell');
              return notebook.model.cells.get(k).toJSON().outputs;
            }""",
            number,
        )
        for output in outputs:
            if output["output_type"] == "error":
                raise AssertionError("\n".join(output["traceback"]))

    def start_cell(self, number: int) -> None:
        """Run a cell without waiting for its end."""
        self.page.evaluate(
            """(k) => {
              window.jupyterapp.shell.currentWidget.content.activeCellIndex = k;
              window.jupyterapp.commands.execute('notebook:run-cell');
            }""",
            number,
        )

    def reload_notebook(self, name: str) -> None:
        """Save the notebook and load the whole page anew; the kernel goes on."""
        self.command("docmanager:save")
        self.page.goto(f"{self.lab.base}/lab/tree/{name}?reset&token={self.lab.token}")

    def set_theme(self, name: str) -> None:
        """Switch JupyterLab's theme and wait until its style sheet is in place."""
        self.command("apputils:change-theme", {"theme": name})
        light = "true" if "Light" in name else "false"
        self.page.wait_for_function(
            "(light) => document.body.dataset.jpThemeLight === light", arg=light
        )
        self.page.wait_for_timeout(600)  # the sheet follows the attribute; widgets look again
