"""Which ONNX cases pass, by operator: ``python -m tests.formats.onnx_report [part of a name ...]``.

With ``--json`` the outcomes of all cases are printed as one object, with ``--operators`` a line for
each operator: from which opsets on it is read, which op it is, and whether it is written as itself.
"""

from __future__ import annotations

import collections
import json
import sys
from dataclasses import asdict

import gradwright as gw
from gradwright.op import OPS
from tests.formats.test_onnx_round_trip import OWN
from tests.support.onnx_cases import chosen, is_expanded, operator, outcome


def main(arguments: list[str]) -> None:
    cases = chosen([a for a in arguments if not a.startswith("--")])
    outcomes = {name: outcome(case) for name, case in cases.items()}
    if "--json" in arguments:
        print(json.dumps({name: asdict(found) for name, found in outcomes.items()}))
        return
    if "--operators" in arguments:
        own = {f":{op_type}" for op_type in OWN}
        print_operators(own.union(*(found.kept for found in outcomes.values())))
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


def print_operators(kept: set[str]) -> None:
    """Print what is known of each operator of ONNX; ``kept`` are those written as themselves."""
    from onnx import defs

    ops: dict[tuple[str, str], list[str]] = {}
    for name, cls in OPS.items():
        if cls.onnx is not None:
            ops.setdefault((cls.onnx.domain, cls.onnx.op_type), []).append(name)
    read = gw.onnx.operators()
    for key in sorted({(s.domain, s.name) for s in defs.get_all_schemas()}):
        label = ":".join(key)
        since = ", ".join(str(reader.since) for reader in read.get(key, ()))
        written = "itself" if label in kept else "opened"
        how = f"opset {since}; written as {written}" if since else "not read"
        print(f"{label:45} {how:45} {', '.join(ops.get(key, []))}")


if __name__ == "__main__":
    main(sys.argv[1:])
