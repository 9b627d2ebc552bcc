"""Pickles as a format: recognised, looked into by their words alone, and never opened.

Opening a pickle calls whatever it names. What ``torch.save`` writes is one, alone or in a ZIP file
whose other members are the numbers.
"""

from __future__ import annotations

import io
import pickletools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from ..errors import ArchiveError
from ..words.tables import size
from .registry import Format, TensorRange
from .report import Finding, ModelInfo, some
from .source import Source, members, naming

DATA = "data.pkl"
TORCH = bytes.fromhex("80028a0a6cfc9c46f9206aa850192e")
"""How a file begins that torch wrote before 1.6: its magic number, as a pickle."""
READ, MOST = 1 << 24, 200_000
"""Bytes and operations of a pickle that are looked at: 0.3 s at the most."""
HEAD, FIRST = 1 << 16, 32
"""Bytes, and operations in them, by which a pickle is told."""
FRIENDS = ("torch", "collections", "numpy", "_codecs", "copyreg", "transformers", "argparse")
"""Packages that pickles of weights name."""
TEXTS = ("UNICODE", "STRING")
LINES = (
    "from torch import load; from safetensors.torch import save_file",
    "save_file({{n: t.clone().contiguous() for n, t in "
    "load({path!r}, 'cpu', weights_only=True).items()}}, {to!r})",
)
"""What makes a safetensors file of one: tensors that share memory are written each."""
AS_HINT = " " * 8
"""How far an error indents what it says to try."""


def conversion(path: Path) -> str:
    """Return the lines that make a safetensors file of a pickle, where torch is."""
    return f"\n{AS_HINT}".join(_lines(path))


def _lines(path: Path) -> list[str]:
    to = path.with_suffix(".safetensors")
    return [line.format(path=str(path), to=str(to)) for line in LINES]


def recognise(source: Source) -> bool | None:
    """Tell a pickle by its first words, in the ZIP file that torch writes or alone."""
    if source.read(0, 4) == b"PK\3\4":
        return bool(_pickled(source))
    head = source.read(0, HEAD)
    if len(head) < 3 or head[0] != 0x80 or not 2 <= head[1] <= 5:
        return False
    seen = 0
    try:
        for operation, _, _ in pickletools.genops(io.BytesIO(head)):
            seen += 1
            if operation.proto > head[1]:
                return False
            if seen == FIRST:
                break
    except ValueError:  # cut off, or something else that begins alike
        return None if seen > 1 else False
    return True


def _pickled(source: Source) -> list[str]:
    """Return the members of a ZIP file that are pickles."""
    return [name for name in source.names() if name == DATA or name.endswith("/" + DATA)]


def _programs(source: Source) -> list[bytes]:
    """Return what is executed when a file is opened, as far as it is looked at."""
    return [source.part(name).read(0, READ) for name in _pickled(source)] or [source.read(0, READ)]


def imports(program: bytes) -> tuple[dict[str, int], bool]:
    """Return what a pickle calls or makes objects of, by name, and whether all was looked at.

    >>> import pickle, collections
    >>> imports(pickle.dumps(collections.OrderedDict(a=1)))
    ({'collections.OrderedDict': 1}, True)
    """
    found: dict[str, int] = {}
    memo: dict[int, str] = {}
    texts, stream = ["", ""], io.BytesIO(program)
    count = 0
    try:
        while stream.tell() < len(program):
            for operation, argument, _ in pickletools.genops(stream):
                count += 1
                if count > MOST:
                    return found, False
                name: str = operation.name
                called = ""
                if any(word in name for word in TEXTS):
                    texts = [texts[-1], str(argument)]
                elif name == "MEMOIZE":
                    memo[len(memo)] = texts[-1]
                elif name.endswith("PUT"):
                    memo[int(argument or 0)] = texts[-1]
                elif name.endswith("GET"):
                    texts = [texts[-1], memo.get(int(argument or 0), "")]
                elif name in ("GLOBAL", "INST"):
                    called = str(argument).replace(" ", ".")
                elif name == "STACK_GLOBAL":
                    called = ".".join(texts)
                if called:
                    found[called[:200]] = found.get(called[:200], 0) + 1
            if stream.tell() >= len(program) or program[stream.tell()] != 0x80:
                break  # numbers follow
    except (ValueError, OverflowError, MemoryError):
        return found, False
    return found, True


@dataclass(frozen=True, repr=False)
class PickleInfo(ModelInfo):
    """What a pickle would call if it were opened, and how often, as far as it was looked at."""

    calls: Mapping[str, int]

    def facts(self) -> dict[str, str]:
        """Return what is told in a line each: no tensors, for nothing says what they are."""
        called = some(f"{name} {n:,}" for name, n in self.calls.items())
        return {"producer": self.producer, "calls": called}

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as JSON has it."""
        return {**super().as_dict(), "calls": dict(self.calls)}


def inspect(source: Source) -> PickleInfo:
    """Return what a pickle would call, and how much lies beside it; nothing of it is run."""
    calls: dict[str, int] = {}
    whole = True
    with naming(source.name):
        programs = _programs(source)
    for program in programs:
        found, all_of_it = imports(program)
        whole &= all_of_it
        for name, n in found.items():
            calls[name] = calls.get(name, 0) + n
    numbers = [m.file_size for m in members(source) if "/data/" in m.filename]
    path = Path(source.name)
    refused = "a pickle calls what it names when it is opened, so it is not opened here"
    strange = [name for name in calls if name.partition(".")[0] not in FRIENDS]
    notes = [f"{len(numbers):,} storages of {size(sum(numbers))} lie in it"] * bool(numbers)
    if not whole:
        notes.append("what it would call is not all known: it is long, or damaged")
    notes += ["this makes a safetensors file of it:", *_lines(Path(path.name))]
    return PickleInfo(
        path,
        source.size,
        path.stem,
        {},
        {},
        {},
        calls,
        producer="torch" if numbers or source.read(0, len(TORCH)) == TORCH else "",
        findings=[
            Finding(refused, grave=True),
            *(Finding(f"it would call {name[:80]}", grave=True) for name in strange),
            *map(Finding, notes),
        ],
    )


def tensors(source: Source) -> Mapping[str, TensorRange]:
    """Raise: which bytes are which tensor is known to who runs the pickle."""
    raise _refusal(Path(source.name))


def opened(path: Path) -> NoReturn:
    """Raise, with the lines that make a safetensors file."""
    raise _refusal(path)


def _refusal(path: Path) -> ArchiveError:
    return ArchiveError(
        "a pickle runs whatever it names when it is opened, so it is not",
        where=str(path),
        facts=["gw.inspect(path) tells what it would call"],
        need="a safetensors file",
        hint=conversion(path),
    )


FORMAT = Format(
    name="pickle",
    title="a pickle, as torch.save writes",
    suffixes=(".pt", ".pth", ".ckpt", ".pkl", ".pickle"),
    recognise=recognise,
    inspect=inspect,
    tensors=tensors,
    use=f"gw.inspect(path) looks into it; a safetensors file is made of it by\n{AS_HINT}"
    + conversion(Path("model.pt")),
    open=opened,
)
