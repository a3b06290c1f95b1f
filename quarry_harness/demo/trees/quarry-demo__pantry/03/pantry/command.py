"""`python -m pantry.command`: look into a snapshot."""

from __future__ import annotations

import argparse
import sys
import textwrap
from pathlib import Path

from pantry.persist import SnapshotError, load
from pantry.store import LruStore


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pantry")
    parser.add_argument("snapshot", type=Path)
    parser.add_argument("--limit", type=int, default=20)
    return parser


def show(store: LruStore, limit: int) -> list[str]:
    lines = []
    for key, value in store.items():
        if len(lines) == limit:
            lines.append("...")
            break
        lines.append(textwrap.shorten(f"{key} {value!r}", 80, placeholder="..."))
    return lines


def main(argv: list[str] | None = None) -> int:
    options = build_parser().parse_args(argv)
    store = LruStore(capacity=1_000_000)
    try:
        load(store, options.snapshot)
    except (OSError, SnapshotError) as error:
        print(error, file=sys.stderr)
        return 2
    print("\n".join(show(store, options.limit)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
