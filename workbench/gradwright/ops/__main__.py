"""The ops described and compared: ``python -m gradwright.ops describe | check``.

``describe [FILE]`` writes the description of all ops, to the screen without a file; with
``--bare`` only what is compared. ``check OLD [NEW]`` prints what changed since an old description;
its exit code is 1 where something broke, 2 where a file is no description.
"""

from __future__ import annotations

import argparse
import sys

from ..errors import ArchiveError
from .reference.changes import check
from .reference.description import descriptors, written


def main(arguments: list[str] | None = None) -> int:
    """Run a command; return its exit code."""
    parser = argparse.ArgumentParser("python -m gradwright.ops", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    describe = commands.add_parser("describe", help="write the description of all ops")
    describe.add_argument("file", nargs="?", help="where to; the screen without it")
    describe.add_argument("--bare", action="store_true", help="without functions and texts")
    compare = commands.add_parser("check", help="say what broke since an old description")
    compare.add_argument("old", help="file of a description")
    compare.add_argument("new", nargs="?", help="file of another one; without it, today's ops")
    given = parser.parse_args(arguments)
    if given.command == "describe":
        found = descriptors(given.file, texts=not given.bare)
        if given.file is None:
            sys.stdout.write(written(found))
        return 0
    try:
        changes = check(given.old, given.new)
    except ArchiveError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"{changes}\n")
    return int(not changes.ok)


if __name__ == "__main__":
    sys.exit(main())
