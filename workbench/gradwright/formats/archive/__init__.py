"""The graph archive ``.gw``: graphs, values and optimizer state in one file that can be mapped.

An archive is a ZIP file (ZIP64) whose members are all stored, never compressed:

- ``graph.json``: the graph as text, one node per line (`document`);
- ``values/00001-of-00001.safetensors``: arrays, 64-byte aligned (`tensors`);
- ``state/<name>/...``: further sets of arrays, such as optimizer state;
- ``manifest.json``: the format's version, sizes and CRC-32 of the other members.

With ``max_file_bytes`` the arrays are files of their own beside it, which the manifest names
(`several`).

No code is stored and none is imported: ops are found by name and version among those registered.
"""

from .. import onnx
from .archive import load, load_state, save
from .report import ArchiveInfo, ShardInfo
from .unknown import UnknownOp

__all__ = [
    "ArchiveInfo",
    "ShardInfo",
    "UnknownOp",
    "load",
    "load_state",
    "onnx",
    "save",
]
