"""A real Jupyter server on loopback with the extension, over a folder of files."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TOKEN = "t0ken"
PATIENCE = 150.0


@dataclass
class Answer:
    """Status, headers and body of an answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body, parse_constant=_no_constant)


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


class Server:
    """The server; what it says goes to ``log``."""

    def __init__(self, root: Path, home: Path, *options: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.root, self.log = root, home / "log"
        folders = {
            f"JUPYTER_{kind}_DIR": str(home / kind) for kind in ("CONFIG", "DATA", "RUNTIME")
        }
        config = home / "CONFIG"
        config.mkdir(parents=True)
        (config / "jupyter_server_config.json").write_text(
            json.dumps({"ServerApp": {"jpserver_extensions": {"gradwright_widgets.server": True}}})
        )
        command = [
            *(sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root"),
            *(f"--ServerApp.root_dir={root}", f"--ServerApp.port={self.port}"),
            *("--ServerApp.port_retries=0", f"--IdentityProvider.token={TOKEN}"),
            *("--ServerApp.ip=127.0.0.1", "--ServerApp.base_url=/base/", *options),
        ]
        env = {**os.environ, **folders, "JUPYTER_NO_CONFIG": "", "JUPYTER_PREFER_ENV_PATH": "0"}
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env=env, cwd=home)
        until = time.monotonic() + PATIENCE
        while self.get("/base/api/status").status != 200:
            if time.monotonic() > until or self._process.poll() is not None:
                raise RuntimeError(self.log.read_text())
            time.sleep(0.05)

    @property
    def pid(self) -> int:
        return self._process.pid

    def get(self, url: str, *, token: str | None = TOKEN, method: str = "GET") -> Answer:
        """Ask for an address as it is."""
        headers = {} if token is None else {"Authorization": f"token {token}"}
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{url}", headers=headers, method=method
        )
        try:
            with _OPENER.open(request, timeout=PATIENCE) as answer:
                return Answer(answer.status, dict(answer.headers), answer.read())
        except urllib.error.HTTPError as error:
            return Answer(error.code, dict(error.headers), error.read())
        except (urllib.error.URLError, ConnectionError) as error:
            return Answer(0, {}, str(error).encode())

    def ask(self, task: str, *, token: str | None = TOKEN, **arguments: Any) -> Answer:
        """Ask a handler of ours; a list is an argument that is given several times."""
        query = urllib.parse.urlencode(arguments, doseq=True, errors="surrogateescape")
        return self.get(f"/base/gradwright/{task}?{query}", token=token)

    def readers(self) -> list[int]:
        """Return the processes that read for it."""
        found = []
        for status in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = status.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == self.pid:
                found.append(int(status.parent.name))
        return found

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def resident(pid: int) -> int:
    """Return the bytes of memory that a process holds, and has held at most."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024
