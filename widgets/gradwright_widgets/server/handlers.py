"""What the server answers below ``gradwright/``; each handler asks who is asking."""

from __future__ import annotations

import asyncio
import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.services.contents.fileio import FileManagerMixin
from jupyter_server.utils import url_path_join
from tornado import web

from .kept import Kept
from .paths import file_of, stamp_of
from .pool import Pool
from .refused import RefusedError

TASKS: Mapping[str, tuple[str, tuple[str, ...], bool]] = {
    "formats": ("quick", (), False),
    "inspect": ("quick", ("path",), True),
    "tensors": ("quick", ("path",), False),
    "tensor": ("quick", ("path",), False),
    "window": ("quick", ("path",), False),
    "element": ("quick", ("path",), False),
    "values": ("quick", ("path",), False),
    "drawing": ("quick", ("path",), True),
    "inside": ("quick", ("path",), False),
    "fits": ("quick", ("path",), True),
    "runs": ("quick", ("path",), False),
    "curves": ("quick", ("path",), False),
    "difference": ("quick", ("path",), False),
    "compare": ("long", ("a", "b"), False),
}
"""Task -> the lane it runs in, the arguments that are paths, and whether its answer is kept."""
MAX_ARGUMENT = 4096
"""Characters of an argument."""


class Handler(APIHandler):
    """What all handlers share: whose files they are, and how they refuse."""

    auth_resource = "contents"
    _track_activity = False  # polling a stamp keeps no server alive

    def initialize(self, pool: Pool, kept: Kept) -> None:
        """Take what all requests share."""
        self._pool, self._kept = pool, kept
        self._asked: asyncio.Future[Any] | None = None

    def root(self) -> str:
        """Return the folder that the contents manager shows; others show no folder of here."""
        manager = self.contents_manager
        if not isinstance(manager, FileManagerMixin):
            raise RefusedError(
                501, "the contents of this server do not lie in a folder of this machine",
                code="no-root", facts=[f"they come from {type(manager).__name__}"],
            )  # fmt: skip
        return str(manager.root_dir)

    async def files(self, paths: list[str]) -> tuple[list[Path], list[str]]:
        """Return the files that paths mean, and their stamps; looked up beside the event loop."""
        root, hidden = self.root(), self.shows_hidden

        def look() -> tuple[list[Path], list[str]]:
            found = [file_of(path, root, hidden=hidden) for path in paths]
            return found, [stamp_of(path)["stamp"] for path in found]

        return await asyncio.get_running_loop().run_in_executor(None, look)

    @property
    def shows_hidden(self) -> bool:
        """Whether what is hidden is shown, too."""
        return bool(getattr(self.contents_manager, "allow_hidden", False))

    def on_connection_close(self) -> None:
        """End what nobody waits for any more."""
        if self._asked is not None:
            self._asked.cancel()

    async def refuse(self, error: RefusedError) -> None:
        """Answer that there is no answer."""
        self.set_status(error.status)
        await self.finish(json.dumps(error.as_dict()))

    def values(self, name: str) -> list[str]:
        """Return the values of an argument; raises RefusedError for what is no text."""
        found: list[str] = []
        for raw in self.request.query_arguments.get(name, []):
            try:
                found.append(raw.decode("utf-8"))
            except UnicodeDecodeError:
                raise RefusedError(400, f"the argument {name!r} is no UTF-8 text") from None
            if len(found[-1]) > MAX_ARGUMENT:
                raise RefusedError(400, f"the argument {name!r} is too long")
        return found


class StampHandler(Handler):
    """Whether a file has changed, at the cost of looking at its folder entry."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Answer with size, time and stamp of the file."""
        try:
            path = next(iter(self.values("path")), "")
            root, hidden = self.root(), self.shows_hidden
            look = lambda: stamp_of(file_of(path, root, hidden=hidden))  # noqa: E731
            found = await asyncio.get_running_loop().run_in_executor(None, look)
            await self.finish(json.dumps({"path": path, **found}))
        except RefusedError as error:
            await self.refuse(error)


class TaskHandler(Handler):
    """A task that a process beside the server does."""

    task: ClassVar[str]

    @web.authenticated
    @authorized
    async def get(self) -> None:
        """Answer with what the task returns."""
        try:
            data = await self._answer()
        except RefusedError as error:
            await self.refuse(error)
        except asyncio.CancelledError:
            return  # nobody waits
        else:
            await self.finish(data)

    async def _answer(self) -> bytes:
        lane, names, is_kept = TASKS[self.task]
        taken = {name: self.values(name) for name in names}
        if empty := [name for name, values in taken.items() if not values]:
            raise RefusedError(400, f"the argument {empty[0]!r} is missing")
        paths = [path for values in taken.values() for path in values]
        files, stamps = await self.files(paths) if names else ([], [])
        lane = "long" if self.values("exact") == ["1"] else lane
        others = {n: self.values(n)[-1] for n in self.request.query_arguments if n not in names}
        key = self.task, tuple(paths), tuple(stamps), tuple(sorted(others.items()))
        if is_kept or not names:
            found = self._kept.find(key)
            if found is not None:
                return found
        asked = {
            "task": self.task,
            "root": self.root() if names else "",
            "hidden": self.shows_hidden,
            "paths": paths,
            "files": list(map(str, files)),
            "stamps": stamps,
            "arguments": others,
        }
        self._asked = asyncio.ensure_future(self._pool.ask(lane, asked))
        data: bytes = await self._asked
        if is_kept or not names:
            self._kept.keep(key, data)
        return data


def handlers(base_url: str) -> list[tuple[str, type[Handler], dict[str, Any]]]:
    """Return the handlers with their addresses, as an application of tornado takes them."""
    shared = {"pool": Pool(), "kept": Kept()}
    at = functools.partial(url_path_join, base_url, "gradwright")
    tasks = [
        (at(task), type(f"{task.title()}Handler", (TaskHandler,), {"task": task}), shared)
        for task in TASKS
    ]
    return [(at("stamp"), StampHandler, shared), *tasks]
