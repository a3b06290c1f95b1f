from quarry_harness.canonicalize import TIERS, resolve
from quarry_harness.types import Chunk, GoldUnit, LocatedChunk, Resolution

SHA = "a" * 40


def unit(path: str = "a.py", symbol: str = "run", start: int = 10, end: int = 20, fqmn: str = "m.Job.run") -> GoldUnit:
    key = f"preimage:{SHA}:{path}:{symbol}:{start}-{end}"
    return GoldUnit(key, path, symbol, fqmn, start, end, "ESSENTIAL", SHA, "preimage")


def chunk(
    name: str = "run", start: int = 10, end: int = 20, path: str = "a.py", qualified: str = "", kind: str = "method"
) -> LocatedChunk:
    container = qualified.split(".")[-2] if "." in qualified else ""
    return LocatedChunk(path, Chunk("python", kind, name, container, qualified or name, start, end, 0, 1))


def find(wanted: GoldUnit, *chunks: LocatedChunk, status: dict[str, str] | None = None, lines: int = 100) -> Resolution:
    files = {"a.py": "parsed"} if status is None else status
    return resolve(wanted, chunks, {"method", "function"}, files, dict.fromkeys(files, lines))


def test_exact_wins_over_everything_else() -> None:
    found = find(unit(), chunk(start=9), chunk(), chunk("other"))
    assert (found.tier, found.chunk) == ("exact", 1)


def test_the_largest_overlap_of_the_same_name() -> None:
    # 10-20 shares 2 lines with 5-11 and 8 with 13-30.
    found = find(unit(), chunk(start=5, end=11), chunk(start=13, end=30), chunk("other", 10, 19))
    assert (found.tier, found.chunk) == ("overlap", 1)


def test_equal_overlaps_are_ambiguous_and_no_later_tier_settles_them() -> None:
    found = find(unit(), chunk(start=8, end=12), chunk(start=18, end=22), chunk("other", 10, 20))
    assert found.tier == ""
    assert found.reason == "ambiguous: 2 candidates at tier overlap"


def test_the_same_lines_under_another_name() -> None:
    found = find(unit(), chunk("execute"), chunk(start=30, end=40))
    assert (found.tier, found.chunk) == ("lines", 0)


def test_two_functions_on_the_unit_s_one_line_are_ambiguous() -> None:
    assert find(unit(start=3, end=3), chunk("a", 3, 3), chunk("b", 3, 3)).reason.startswith("ambiguous")


def test_two_chunks_with_the_whole_key_are_ambiguous() -> None:
    assert find(unit(), chunk(), chunk()).reason == "ambiguous: 2 candidates at tier exact"


def test_type_and_method_of_the_qualified_name_find_a_unit_that_moved() -> None:
    moved = chunk(start=50, end=60, path="b.py", qualified="Job.run")
    found = find(unit(), chunk("x", 1, 2), moved, chunk(start=50, end=60, path="c.py", qualified="Task.run"))
    assert (found.tier, found.chunk) == ("fqmn", 1)


def test_the_unit_s_own_file_comes_before_other_files() -> None:
    here = chunk(start=50, end=60, qualified="Job.run")
    there = chunk(start=50, end=60, path="b.py", qualified="m.Job.run")
    assert find(unit(), there, here).chunk == 1


def test_a_longer_tail_beats_a_shorter_one_and_equal_tails_are_ambiguous() -> None:
    near = chunk(start=50, end=60, path="b.py", qualified="Job.run")
    nearer = chunk(start=50, end=60, path="c.py", qualified="m.Job.run")
    assert find(unit(), near, nearer).chunk == 1
    assert find(unit(), near, near).reason == "ambiguous: 2 candidates at tier fqmn"


def test_a_bare_name_in_another_file_is_no_evidence() -> None:
    assert find(unit(), chunk(start=50, end=60, path="b.py")).reason == "no_function_at_lines"


def test_reasons_are_told_apart() -> None:
    assert find(unit(), status={}).reason == "path_absent"
    assert find(unit(), status={"a.py": "binary"}).reason == "file_skipped: binary"
    assert find(unit(), chunk("x", 1, 2)).reason == "no_function_at_lines"
    assert find(unit(), chunk(kind="property")).reason == "outside_profile: property"
    assert find(unit(), chunk(), lines=19).reason == "lines_past_end: the file has 19 lines"
    assert find(unit(), chunk(), lines=20).tier == "exact"


def test_every_tier_has_a_case_above() -> None:
    assert TIERS == ("exact", "overlap", "lines", "fqmn")


def test_a_weaker_candidate_inside_the_profile_never_stands_in_for_the_function_outside_it() -> None:
    elsewhere = chunk(start=50, end=60, path="b.py", qualified="Job.run")
    later = chunk(start=50, end=60, qualified="Job.run")
    assert find(unit(), chunk(kind="property"), elsewhere).reason == "outside_profile: property"
    assert find(unit(), chunk(kind="property"), later).reason == "outside_profile: property"


def test_a_unit_of_a_skipped_file_is_never_found_in_another_file() -> None:
    elsewhere = chunk(start=50, end=60, path="b.py", qualified="Job.run")
    assert find(unit(), elsewhere, status={"a.py": "too_large"}).reason == "file_skipped: too_large"


def test_a_free_function_of_another_file_is_no_evidence_whatever_its_package() -> None:
    wanted = unit(path="cmd/x/main.go", fqmn="example.org/cmd/x/main.run")
    other = LocatedChunk("cmd/y/main.go", Chunk("go", "function", "run", "", "main.run", 3, 9, 0, 1))
    assert find(wanted, other, status={"cmd/x/main.go": "parsed"}).reason == "no_function_at_lines"
