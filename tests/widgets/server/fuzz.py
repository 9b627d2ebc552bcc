"""Random requests to the server: an answer or a refusal, soon, and the server goes on.

    python -m tests.widgets.server.fuzz [count] [--seed N]

A seed draws a task, a path that may be odd or of a damaged file, and arguments that may be
anything. No answer may be a mistake of ours (a status of 500, or no JSON), tell what lies outside
of the root, or take longer than 20 seconds; the server must not grow by more than 64 MB.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
import time
import urllib.parse
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.widgets.server.serving import TOKEN, Server, resident

SECONDS, GROWTH = 20.0, 64 << 20
STATUSES = {200, 400, 403, 404, 405, 409, 413, 414, 415, 422, 503}
TASKS = (
    *("formats", "stamp", "inspect", "tensors", "tensor", "window", "element", "values", "drawing"),
    *("inside", "fits", "runs", "curves", "difference", "compare", "nothing", ""),
)
SECRET = "gradwright must not tell this"
TEXTS = (
    *("", "w", "x", "big", "é\n\u200d", "a" * 5000, "../secret", "/etc/passwd", "<b>", "\0", "[0]"),
    *("[:, 0]", "[::-1]", "[...]", "[" * 500, "-1", "99999999999999999999", "1e9", "NaN", "none::"),
    *('{"B": 8}', '{"B": "8"}', "{", "name", "-bytes", "0,1", "1", "true", "%00", "\\..\\", "C:"),
)
ARGUMENTS = (
    *("name", "index", "plane", "part", "scope", "exact", "start", "n", "sort", "filter", "node"),
    *("sizes", "since", "path", "a", "b", "other"),
)


def prepare(root: Path) -> None:
    """Write the files that are asked for: good ones, damaged ones, and what should not be shown."""
    from tests.formats import every_format

    draw = random.Random(0)
    for name, make in every_format.MAKERS.items():
        folder = root / "fuzz" / name
        if folder.is_dir():
            continue
        folder.mkdir(parents=True)
        path = make(folder)[0]
        for i in range(12 if path.is_file() else 4):
            other = path.with_name(f"damaged{i}{path.suffix}")
            shutil.copytree(path, other) if path.is_dir() else shutil.copy(path, other)
            parts = [other, *other.rglob("*")]
            held = sorted(p for p in parts if p.is_file() and p.stat().st_size)
            damage(draw.choice(held), draw, cut=i % 3 > 0)
        if (events := path / "events.jsonl").is_file():
            events.write_bytes(events.read_bytes() + b"{}\n[")
    secret = root.parent / "secret"
    secret.write_text(SECRET)
    if not (root / "fuzz/link").is_symlink():
        (root / "fuzz/link").symlink_to(secret)


def damage(path: Path, draw: random.Random, cut: bool) -> None:
    """Change some bytes near the beginning of a file, and cut off what is far behind."""
    data = path.read_bytes()
    made = bytearray(data[: 1 << 14] if cut else data)
    for _ in range(draw.choice([1, 4, 16])):
        made[draw.randrange(min(len(made), 1 << 12))] = draw.randrange(256)
    path.write_bytes(made)


def request(seed: int, paths: list[str]) -> str:
    """Return the address of a random request."""
    draw = random.Random(seed)

    def path() -> str:
        found = draw.choice(paths)
        if draw.random() < 0.15:
            odd = draw.choice(["../", "/", "./", "\0", "\\", "%2e%2e/", "//", "é", " ", "."])
            at = draw.randrange(len(found) + 1)
            found = found[:at] + odd + found[at:]
        return found if draw.random() < 0.95 else draw.choice(TEXTS)

    task = draw.choice(TASKS)
    given = [(name, path()) for name in (("a", "b") if task == "compare" else ("path",))]
    if task in ("tensor", "window", "element") and draw.random() < 0.8:
        given.append(("name", draw.choice(["w", "big", "a/b.c", "words", "half", "text", "z"])))
        bounds = [str(draw.choice([0, 0, 1, 2, 7, 10**9, 10**18])) for _ in range(8)]
        given += [("window", ",".join(bounds)), ("at", ",".join(bounds[:5]))]
    for _ in range(draw.choice([0, 0, 1, 2, 4])):
        given.append((draw.choice(ARGUMENTS), draw.choice(TEXTS)))
    query = urllib.parse.urlencode(given)
    if draw.random() < 0.05:
        at = draw.randrange(len(query) + 1)
        query = query[:at] + draw.choice(["%", "%ff", "%c3%28", "&", "=", "+", ";"]) + query[at:]
    return f"/base/gradwright/{task}?{query}"


def campaign(server: Server, seeds: Iterable[int], counts: Counter[int] | None = None) -> list[str]:
    """Ask, and return what is wrong."""
    fuzz = server.root / "fuzz"
    paths = [p.relative_to(server.root).as_posix() for p in sorted(fuzz.rglob("*"))]
    wrong = []
    before = resident(server.pid)
    for seed in seeds:
        url, begun = request(seed, paths), time.monotonic()
        has_token = seed % 50 != 7
        answer = server.get(url, token=TOKEN if has_token else None)
        took = time.monotonic() - begun
        if counts is not None:
            counts[answer.status] += 1
        problem = ""
        if answer.status not in STATUSES or (not has_token and answer.status not in (403, 404)):
            problem = f"status {answer.status}"
        elif SECRET.encode() in answer.body or b"root:" in answer.body:
            problem = "tells what it must not"
        elif took > SECONDS:
            problem = f"{took:.1f} seconds"
        elif not url.startswith(("/base/gradwright/nothing", "/base/gradwright/?")):
            try:
                assert isinstance(answer.json, dict)
            except (ValueError, AssertionError):
                problem = "no JSON"
        if problem:
            wrong.append(f"seed {seed}: {problem}: {url[:300]}: {answer.body[:200]!r}")
    if (grown := resident(server.pid) - before) > GROWTH:
        wrong.append(f"the server grew by {grown:,} bytes")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("count", nargs="?", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root, home = Path(folder, "root"), Path(folder, "home")
        root.mkdir()
        home.mkdir()
        prepare(root)
        server = Server(root, home)
        try:
            counts: Counter[int] = Counter()
            begun, first = time.monotonic(), resident(server.pid)
            wrong = campaign(server, range(chosen.seed, chosen.seed + chosen.count), counts)
            print(*wrong, sep="\n")
            print(
                f"{chosen.count:,} requests in {time.monotonic() - begun:.0f} s, "
                f"{len(wrong)} of them wrong; statuses {dict(sorted(counts.items()))}; "
                f"server {first >> 20} MB before, {resident(server.pid) >> 20} MB after; "
                f"readers {[resident(pid) >> 20 for pid in server.readers()]} MB"
            )
        finally:
            server.close()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
