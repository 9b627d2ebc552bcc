"""What must stay while files move: recorded at one commit, compared at another.

    python -m tests.house record before.json
    python -m tests.house record after.json --what ops,names
    python -m tests.house compare before.json after.json --allow 'ops/*/drawing'

Bits of numbers differ between processors and between OpenBLAS's kernels, so both sides of a
comparison come from one machine and one ``OPENBLAS_CORETYPE``. Only names that users have are
used, but for `facts.inner`; so the same files run before a move and after it.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

for _pool in ("OPENBLAS", "MKL", "OMP"):  # before numpy is imported
    os.environ.setdefault(f"{_pool}_NUM_THREADS", "1")

MEASURED = ("measured", "machine")
"""What is told where it differs, and makes no comparison fail."""
SWITCHES = ("OPENBLAS_", "GRADWRIGHT_", "OMP_")
"""How the variables begin that choose kernels."""
WHAT: dict[str, str] = {
    "measured": "walks.measured",
    "imports": "walks.imports",
    "names": "faces.names",
    "live": "faces.live",
    "traits": "faces.traits",
    "views": "views.record",
    "trainings": "trainings.record",
    "ops": "facts.ops",
    "rewrites": "facts.rewrites",
}
"""Name of a part of the record -> the function beside this file that makes it."""


def machine() -> dict[str, str]:
    """Return what the bits depend on."""
    import numpy as np

    found = {"python": platform.python_version(), "numpy": np.__version__}
    found["cpu"] = next(
        (
            line.partition(":")[2].strip()
            for line in _lines("/proc/cpuinfo")
            if "model name" in line
        ),
        platform.processor(),
    )
    chosen = {k: v for k, v in sorted(os.environ.items()) if k.startswith(SWITCHES)}
    return found | {k: v for k, v in chosen.items() if k != "GRADWRIGHT_CACHE"}


def record(what: Sequence[str]) -> dict[str, Any]:
    """Return the parts of the record that were asked for."""
    found: dict[str, Any] = {"machine": machine()}
    for name in WHAT:
        if name in what:
            module, function = WHAT[name].split(".")
            make: Callable[[], Any] = getattr(import_module(f".{module}", __package__), function)
            if (part := make()) is not None:
                found[name] = part
    return json.loads(json.dumps(found))  # as it comes back from a file: no tuples


def differences(a: Any, b: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path of each place where two records differ, and how."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in (*a, *(k for k in b if k not in a)):
            at = f"{path}/{key}" if path else key
            if key not in b:
                yield at, f"gone: {_short(a[key])}"
            elif key not in a:
                yield at, f"new: {_short(b[key])}"
            else:
                yield from differences(a[key], b[key], at)
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, pair in enumerate(zip(a, b, strict=True)):
            yield from differences(*pair, f"{path}/{i}")
    elif a != b:
        yield path, f"{_short(a)}  ->  {_short(b)}"


def compare(a: dict[str, Any], b: dict[str, Any], allow: Sequence[str]) -> int:
    """Print the differences of what both records hold; return how many are not allowed."""
    both = {k: v for k, v in a.items() if k in b}
    wrong = 0
    for path, how in differences(both, {k: b[k] for k in both}):
        told = path.partition("/")[0] in MEASURED
        allowed = any(fnmatch.fnmatchcase(path, pattern) for pattern in allow)
        wrong += not (told or allowed)
        print(f"{'   ' if told else 'ok ' if allowed else '!! '}{path}: {how}")
    print(f"{', '.join(both)}: {wrong} differences that are not allowed")
    return wrong


def main(given: Sequence[str]) -> int:
    """Record or compare."""
    parser = argparse.ArgumentParser(prog="tests.house", description=__doc__.splitlines()[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    one = verbs.add_parser("record", help="write what must stay")
    one.add_argument("out", type=Path)
    one.add_argument("--what", default=",".join(WHAT), help=f"of {', '.join(WHAT)}")
    two = verbs.add_parser("compare", help="exit with 1 where two records differ")
    two.add_argument("before", type=Path)
    two.add_argument("after", type=Path)
    two.add_argument("--allow", action="append", default=[], help="pattern of paths, * crosses /")
    asked = parser.parse_args(given)
    if asked.verb == "compare":
        before, after = (json.loads(p.read_text("utf-8")) for p in (asked.before, asked.after))
        return int(compare(before, after, asked.allow) > 0)
    what = asked.what.split(",")
    if unknown := set(what) - set(WHAT):
        parser.error(f"{', '.join(sorted(unknown))} is no part: {', '.join(WHAT)}")
    with tempfile.TemporaryDirectory(prefix="gradwright-") as cache:  # kernels of no earlier run
        os.environ.setdefault("GRADWRIGHT_CACHE", cache)
        found = record(what)
    asked.out.parent.mkdir(parents=True, exist_ok=True)
    asked.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(f"{asked.out}: {', '.join(f'{k} {len(v)}' for k, v in found.items())}")
    return 0


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []


def _short(value: Any, most: int = 160) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= most else f"{text[: most - 1]}…"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
