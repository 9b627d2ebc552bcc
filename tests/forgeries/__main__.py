"""Forged files: every field of every JSON file wrong in type, range and depth, with valid sums.

    python -m tests.forgeries [--every N] [--only KIND]    every N-th forgery of each kind (1: all)

A forgery is a good file in which one field is another value, or gone, or has company; checksums
and sizes are right, as an attacker would write them. Whoever reads it must take it, say with an
error of ours what is wrong, or fall back to an earlier file; a trainer that is not resumed must be
what it was, to the bit, and what is taken must be able to go on.
"""

from __future__ import annotations

import argparse
import sys

from tests.forgeries.campaign import KINDS, forged


def main() -> None:
    """Try all, and print what became of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--only", choices=KINDS, action="append")
    asked = parser.parse_args()
    failed = 0
    for kind in asked.only or KINDS:
        outcomes, wrong = forged(kind, asked.every)
        told = ", ".join(f"{n} {what}" for what, n in sorted(outcomes.items()))
        print(f"{kind}: {sum(outcomes.values()) + len(wrong)} forgeries: {told}", flush=True)
        for line in wrong:
            print("  " + line)
        failed += len(wrong)
    sys.exit(f"{failed} that must not be" if failed else 0)


if __name__ == "__main__":
    main()
