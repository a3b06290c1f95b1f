"""The command line of scripts/oracle."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from pathlib import Path

from oracles.compare import KINDS, Tally, add, sources
from oracles.packages import OracleError, read_manifest, unpacked
from oracles.programs import LANGUAGES, Toolbox, run

COLUMNS = (
    *("language", "files", "not read", "functions", "exact", "other range", "only theirs", "only ours"),
    *("bodiless", "exact", "in macros", "off by #if"),
)


def default_cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "quarry-harness" / "oracle"


def main(arguments: list[str] | None = None) -> int:
    """Returns 0 when every difference is explained, 1 when one is not, 3 when a parser could not be asked."""
    parser = argparse.ArgumentParser(
        prog="oracle",
        description="Compare our function chunks with what the languages' own parsers see in pinned packages.",
    )
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE", help=f"of {', '.join(LANGUAGES)}; default: all")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="where packages and programs are kept")
    parser.add_argument("--samples", type=int, default=5, metavar="N", help="show up to N of each unexplained kind")
    parser.add_argument("--list-failed", action="store_true", help="name the files that their parser does not take")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.languages) - set(LANGUAGES))
    if unknown:
        parser.error(f"no oracle for {', '.join(unknown)}")
    options.cache.mkdir(parents=True, exist_ok=True)
    tallies, missing = [], []
    print("  ".join(f"{name:>11}" for name in COLUMNS))
    for language in options.languages or LANGUAGES:
        try:
            tally = ask(language, options.cache.resolve())
        except OracleError as error:
            missing.append(f"{language}: not asked: {error}")
            continue
        tallies.append(tally)
        print("  ".join(f"{cell:>11}" for cell in cells(tally)), flush=True)
    for tally in tallies:
        print_differences(tally, options.samples, options.list_failed)
    for line in missing:
        print(line)
    if missing:
        return 3
    return 1 if any(tally.unexplained for tally in tallies) else 0


def ask(language: str, cache: Path) -> Tally:
    """One language's numbers over all its packages; raises OracleError."""
    manifest = read_manifest()
    toolbox = Toolbox(manifest.tools, cache)
    tally = Tally(language)
    for package in manifest.packages:
        if package.language == language:
            home = unpacked(package, cache)
            seen = run(package, home, sources(package, home), toolbox)
            add(tally, seen, package.name, home, manifest.differences)
    return tally


def cells(tally: Tally) -> tuple[str, ...]:
    numbers = (tally.files, len(tally.failed), tally.theirs, tally.exact, *map(tally.count, KINDS))
    rest = (tally.declarations, tally.declarations_exact, tally.macros, tally.hidden)
    return (tally.language, *map(str, [*numbers, *rest]))


def print_differences(tally: Tally, samples: int, list_failed: bool) -> None:
    explained = Counter((one.kind, one.reason) for one in tally.found if one.reason)
    for (kind, reason), count in sorted(explained.items()):
        print(f"{tally.language}: {kind.replace('_', ' ')}, {count}: {reason}")
    for kind in KINDS:
        for one in [one for one in tally.unexplained if one.kind == kind][:samples]:
            print(f"{tally.language}: {kind.replace('_', ' ')}, UNEXPLAINED: {one}")
    if list_failed:
        for path, reason in sorted(tally.failed.items()):
            print(f"{tally.language}: not read by its own parser: {path}: {reason}")


if __name__ == "__main__":
    sys.exit(main())
