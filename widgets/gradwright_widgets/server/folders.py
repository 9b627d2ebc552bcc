"""Folders called ``checkpoints``, as runs have them, open in the file browser as others do.

Jupyter Server keeps that name for a question of its own: ``contents/run/checkpoints`` stands for
the copies that it has made of ``run``. Who wants a folder listed says so by ``content``, which
nobody sends with that question; all others are answered as ever.
"""

from __future__ import annotations

from typing import Any

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import path_regex
from jupyter_server.services.contents.handlers import CheckpointsHandler, ContentsHandler
from jupyter_server.utils import ensure_async, url_path_join
from tornado import web


class FolderHandler(ContentsHandler):
    """A folder called checkpoints, or the copies of what it lies in."""

    SUPPORTED_METHODS = ("GET", "HEAD", "POST", "OPTIONS")  # nothing that changes what it lies in

    @web.authenticated
    @authorized
    async def get(self, path: str = "") -> None:
        """Answer with the folder where it is asked for by ``content``."""
        if "content" in self.request.query_arguments:
            await ensure_async(super().get(f"{path}/checkpoints"))
        else:
            await ensure_async(CheckpointsHandler.get(self, path))

    post = CheckpointsHandler.post


def folders(base_url: str) -> list[tuple[str, type[Any]]]:
    """Return the handler with its address, as an application of tornado takes it."""
    return [(url_path_join(base_url, f"/api/contents{path_regex}/checkpoints"), FolderHandler)]
