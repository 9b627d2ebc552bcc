"""Models in files, told to JupyterLab without a kernel: an extension of Jupyter Server.

The server itself checks who asks, and that a path stays within its root; it imports nothing of
ours but that. What reads files runs in processes beside it, with bounds on memory and time, so
that no file takes the server down, or keeps it waiting.
"""

from __future__ import annotations

from typing import Any


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "gradwright_widgets.server"}]


def _load_jupyter_server_extension(app: Any) -> None:
    from .folders import folders
    from .handlers import handlers

    base_url = app.web_app.settings["base_url"]
    app.web_app.add_handlers(".*$", [*handlers(base_url), *folders(base_url)])
