"""Which ONNX cases pass, by operator: ``python -m tests.onnx_report [part of a name ...]``.

With ``--json`` the outcomes of all cases are printed as one object.
"""

from __future__ import annotations

import collections
import json
import sys
from dataclasses import asdict

from .onnx_cases import chosen, is_expanded, operator, outcome


def main(arguments: list[str]) -> None:
    cases = chosen([a for a in arguments if not a.startswith("--")])
    outcomes = {name: outcome(case) for name, case in cases.items()}
    if "--json" in arguments:
        print(json.dumps({name: asdict(found) for name, found in outcomes.items()}))
        return
    passed: collections.Counter[str] = collections.Counter()
    total: collections.Counter[str] = collections.Counter()
    for name, found in outcomes.items():
        if found.error:
            print(f"{name}: {found.error}")
        elif found.again:
            print(f"{name}, written again: {found.again}")
        for row in (operator(cases[name]), "expanded" if is_expanded(name) else "written"):
            label = f"{row} (expanded)" if is_expanded(name) and row != "expanded" else row
            total[label] += 1
            passed[label] += not found.error
    width = max(map(len, total))
    for label in sorted(total, key=lambda label: (label in ("written", "expanded"), label)):
        print(f"{label:{width}} {passed[label]:5} of {total[label]:5}")


if __name__ == "__main__":
    main(sys.argv[1:])
