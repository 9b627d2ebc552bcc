"""Which ONNX cases pass, by operator: ``python -m tests.onnx_report [part of a name]``."""

from __future__ import annotations

import collections
import sys

from .onnx_cases import chosen, is_expanded, operator, outcome


def main(patterns: list[str]) -> None:
    passed: dict[tuple[bool, str], int] = collections.Counter()
    total: dict[tuple[bool, str], int] = collections.Counter()
    failed = []
    for name, case in chosen(patterns).items():
        key = is_expanded(name), operator(case) if not is_expanded(name) else "expanded"
        total[key] += 1
        error = outcome(case)
        passed[key] += not error
        if error:
            failed.append(f"{name}: {error}")
    print(*failed, sep="\n")
    for key in sorted(total):
        if passed[key] < total[key]:
            print(f"{key[1]:32} {passed[key]:4} of {total[key]:4}")
    for expanded in (False, True):
        good = sum(n for (e, _), n in passed.items() if e == expanded)
        print(
            "expanded:" if expanded else "written:",
            good,
            "of",
            sum(n for (e, _), n in total.items() if e == expanded),
        )


if __name__ == "__main__":
    main(sys.argv[1:])
