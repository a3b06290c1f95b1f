import resource
import threading
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quarry_harness import vectors
from quarry_harness.errors import EnvironmentProblem, InvalidInputError
from quarry_harness.vectors import VectorStore, key_of, verify

MODEL = {"name": "toy", "revision": "1"}


def opened(root: Path, dtype: str = "float32", dimension: int = 3) -> VectorStore:
    return VectorStore(root, MODEL, dimension, dtype)


def batch(start: int, count: int, dimension: int = 3) -> tuple[list[bytes], np.ndarray, np.ndarray]:
    """Keys, token counts and vectors of texts number start, start + 1, ..."""
    numbers = np.arange(start, start + count)
    rows = (numbers[:, None] + np.arange(dimension)[None, :] / 10).astype(np.float32)
    return [key_of(f"text {n}", "document") for n in numbers], numbers * 7, rows


def fill(root: Path, *counts: int, dtype: str = "float32") -> Path:
    """Makes a store with batches of so many texts, and returns its folder."""
    with opened(root, dtype) as store:
        start = 0
        for count in counts:
            store.append(*batch(start, count))
            start += count
        return store.folder


def found(root: Path, count: int) -> list[int]:
    """The texts of the first `count` that are there, each with its own vector."""
    keys, tokens, expected = batch(0, count)
    with opened(root) as store:
        rows = store.find(keys)
        there = np.flatnonzero(rows >= 0)
        assert np.array_equal(store.read(rows[there]), expected[there])
        assert np.array_equal(store.tokens(rows[there]), tokens[there])
    return there.tolist()


def test_what_was_appended_is_found_again_by_this_and_by_another_process(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        for start, count in ((0, 1), (1, 4), (5, 2)):
            store.append(*batch(start, count))
            keys, _, expected = batch(0, start + count)
            assert np.array_equal(store.read(store.find(keys)), expected)
        assert store.find([key_of("text 3", "query"), key_of("text 99", "document")]).tolist() == [-1, -1]
        assert len(store) == 7
    assert found(tmp_path, 9) == list(range(7))


def test_a_text_as_query_and_as_document_are_two_keys() -> None:
    assert key_of("text", "query") != key_of("text", "document")
    assert key_of("\udcff", "query") != key_of("\udcfe", "query")
    assert len(key_of("", "query")) == 32


def test_float16_halves_the_file_and_gives_the_rounded_numbers(tmp_path: Path) -> None:
    folder = fill(tmp_path, 5, dtype="float16")
    assert (folder / "00000.vectors").stat().st_size == 5 * 3 * 2
    keys, _, expected = batch(0, 5)
    with opened(tmp_path, "float16") as store:
        got = store.read(store.find(keys))
    assert got.dtype == np.float16
    assert np.array_equal(got, expected.astype(np.float16))


def test_another_identity_dimension_or_dtype_is_another_store(tmp_path: Path) -> None:
    folders = {
        VectorStore(tmp_path, identity, dimension, dtype).folder
        for identity in (MODEL, MODEL | {"revision": "2"})
        for dimension in (3, 4)
        for dtype in ("float16", "float32")
    }
    assert len(folders) == 8


def test_shards_are_closed_when_they_are_full_and_read_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "SHARD_BYTES", 5 * 3 * 4)
    folder = fill(tmp_path, 3, 3, 3, 4, 1)
    assert sorted(path.name for path in folder.glob("*.vectors")) == [f"0000{n}.vectors" for n in range(3)]
    assert found(tmp_path, 14) == list(range(14))
    with opened(tmp_path) as store:
        keys, _, expected = batch(0, 14)
        rows = store.find(keys)
        selection = store.select(rows)
        assert selection.shape == (14, 3)
        assert np.array_equal(selection[4:9], expected[4:9])
        assert np.array_equal(selection[np.array([13, 0, 6, 6])], expected[[13, 0, 6, 6]])
        store.append(*batch(14, 2))
        assert np.array_equal(store.select(store.find(batch(12, 4)[0]))[:], batch(12, 4)[2])


def test_rows_side_by_side_are_read_without_a_copy(tmp_path: Path) -> None:
    with opened(tmp_path) as store:
        store.append(*batch(0, 50))
        store.append(*batch(50, 50))
        selection = store.select(np.sort(store.find(batch(0, 100)[0])))
        assert np.shares_memory(selection[10:20], selection[0:100])


def test_no_two_processes_have_a_store_open(tmp_path: Path) -> None:
    with opened(tmp_path) as store, pytest.raises(EnvironmentProblem, match="in use"):
        opened(tmp_path)
    store.close()
    # Another process: a lock taken by another thread's file handle is one to the system.
    held = FileLock(store.folder / ".lock", thread_local=False)
    thread = threading.Thread(target=held.acquire)
    thread.start()
    thread.join()
    with pytest.raises(EnvironmentProblem, match="in use"):
        opened(tmp_path)
    held.release()
    opened(tmp_path).close()


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_a_kill_leaves_whole_batches_stay_and_the_rest_can_be_written_again(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("killed")
    counts = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    folder = fill(root, *counts[:-1])
    # A shard's index begins with 16 bytes that come with the file.
    before = {"00000.vectors": 0, "00000.index": 16}
    if kept := sum(counts[:-1]):
        before = {name: (folder / name).stat().st_size for name in before}
    total = sum(counts)
    with opened(root) as store:
        store.append(*batch(kept, counts[-1]))
    # The last batch: its vectors, then its part of the index, were written as far as some byte of each; a file may
    # also have grown without its content.
    for name, size in before.items():
        file = folder / name
        upto = data.draw(st.integers(size, file.stat().st_size))
        zeros = data.draw(st.sampled_from([0, 3, 200]))
        content = file.read_bytes()[:upto] + b"\0" * zeros
        file.write_bytes(content)
    there = found(root, total)
    assert there[:kept] == list(range(kept))
    assert len(there) in (kept, total)
    with opened(root) as store:
        keys, tokens, rows = batch(0, total + 3)
        missing = store.find(keys) < 0
        store.append([k for k, m in zip(keys, missing, strict=True) if m], tokens[missing], rows[missing])
    assert found(root, total + 3) == list(range(total + 3))
    assert [check.ok for check in verify(root)] == [True]


@pytest.mark.parametrize("name", ["00000.vectors", "00000.index"])
@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_byte_costs_vectors_but_never_gives_a_wrong_one(tmp_path: Path, name: str, seed: int) -> None:
    folder = fill(tmp_path, 3, 2, 4)
    content = bytearray((folder / name).read_bytes())
    place = int(np.random.default_rng(seed).integers(16 if name.endswith("index") else 0, len(content)))
    content[place] ^= 1 << seed % 8
    (folder / name).write_bytes(content)
    (check,) = verify(tmp_path)
    # In the last batch's part of the index it looks as if a kill had cut it short.
    assert check.ok is False or "begun does not count" in check.detail
    with opened(tmp_path) as store:
        keys, tokens, rows = batch(0, 9)
        missing = store.find(keys) < 0
        assert missing.sum() > 0
        store.append([k for k, m in zip(keys, missing, strict=True) if m], tokens[missing], rows[missing])
    assert found(tmp_path, 9) == list(range(9))
    assert [check.ok for check in verify(tmp_path)] == [True]


def test_verify_names_the_store_and_tells_what_is_wrong(tmp_path: Path) -> None:
    assert list(verify(tmp_path)) == []
    folder = fill(tmp_path, 3, 2)
    (check,) = verify(tmp_path)
    assert (check.name, check.ok, check.detail) == (f"vectors {folder.name} (toy, float32)", True, "5 vectors")
    with (folder / "00000.vectors").open("r+b") as file:
        file.seek(40)
        file.write(b"\xff")
    (check,) = verify(tmp_path)
    assert (check.ok, check.detail.partition(";")[0]) == (False, "2 of 5 vectors are damaged")
    (folder / "identity.json").write_text("{}")
    (check,) = verify(tmp_path)
    assert (check.ok, "identity.json" in check.detail) == (False, True)
    with pytest.raises(InvalidInputError, match="changed"):
        opened(tmp_path)


def test_lost_files_are_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "SHARD_BYTES", 1)
    folder = fill(tmp_path, 2, 2, 2)
    (folder / "00001.vectors").unlink()
    assert found(tmp_path, 6) == [0, 1, 4, 5]
    (folder / "00001.index").unlink()
    assert [check.ok for check in verify(tmp_path)] == [False]
    with pytest.raises(InvalidInputError, match="files are missing"):
        opened(tmp_path)


def test_an_index_of_another_shape_is_refused(tmp_path: Path) -> None:
    folder = fill(tmp_path, 2)
    (folder / "00000.index").write_bytes(b"something else altogether")
    with pytest.raises(InvalidInputError, match="not an index of 3 x float32"):
        opened(tmp_path)
    assert [check.ok for check in verify(tmp_path)] == [False]


def test_rows_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    keys, tokens, rows = batch(0, 2)
    with opened(tmp_path) as store:
        for wrong in ((keys[:1], tokens, rows), (keys, tokens[:1], rows), (keys, tokens, rows[:, :2])):
            with pytest.raises(ValueError, match="shape"):
                store.append(*wrong)
        store.append([], tokens[:0], rows[:0])
        assert len(store) == 0


def test_a_disk_that_refuses_is_a_problem_of_the_surroundings_and_costs_only_the_batch(tmp_path: Path) -> None:
    folder = fill(tmp_path, 3)
    size = (folder / "00000.vectors").stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with opened(tmp_path) as store:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 5, before[1]))
        try:
            with pytest.raises(EnvironmentProblem, match=r"cannot be written: File too large"):
                store.append(*batch(3, 1))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert found(tmp_path, 4) == [0, 1, 2]
    with opened(tmp_path) as store:
        store.append(*batch(3, 1))
    assert found(tmp_path, 5) == [0, 1, 2, 3]


def test_a_first_batch_whose_count_is_damaged_is_not_taken_for_a_kill_s_remains(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = fill(tmp_path, 4)
    content = bytearray((folder / "00000.index").read_bytes())
    content[20:24] = b"\x7f\xff\xff\xff"  # the number of rows: more than the file has
    (folder / "00000.index").write_bytes(content)
    rows = (folder / "00000.vectors").read_bytes()
    (check,) = verify(tmp_path)
    assert (check.ok, "00000.index cannot be read to its end" in check.detail) == (False, True)
    keys, tokens, expected = batch(0, 4)
    with opened(tmp_path) as store:
        assert store.find(keys).tolist() == [-1] * 4
        store.append(keys, tokens, expected)
    assert "00000.index: damaged; its last 4 vectors" in caplog.text
    assert ((folder / "00000.index").read_bytes(), (folder / "00000.vectors").read_bytes()) == (content, rows)
    assert found(tmp_path, 4) == list(range(4))
    assert [check.ok for check in verify(tmp_path)] == [True]


def test_vectors_whose_index_is_missing_are_told_of_and_not_written_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = fill(tmp_path, 3, 2)
    rows = (folder / "00000.vectors").read_bytes()
    (folder / "00000.index").unlink()
    (check,) = verify(tmp_path)
    assert (check.ok, "00000.vectors has no index" in check.detail) == (False, True)
    assert found(tmp_path, 5) == []
    assert "00000.vectors.aside" in caplog.text
    assert (folder / "00000.vectors.aside").read_bytes() == rows
    fill(tmp_path, 3, 2)
    assert found(tmp_path, 5) == list(range(5))
    assert [check.ok for check in verify(tmp_path)] == [True]


def test_verify_finds_an_identity_that_is_not_its_folder_s(tmp_path: Path) -> None:
    folder = fill(tmp_path, 2)
    text = (folder / "identity.json").read_text()
    (folder / "identity.json").write_text(text.replace('"1"', '"2"'))
    (check,) = verify(tmp_path)
    assert (check.ok, check.detail) == (False, "identity.json cannot be used (it has been changed); delete the folder")


def test_vectors_behind_the_index_are_counted_for_whoever_verifies(tmp_path: Path) -> None:
    folder = fill(tmp_path, 3, 2)
    index = (folder / "00000.index").read_bytes()
    (folder / "00000.index").write_bytes(index[: 16 + 16 + 3 * 36])  # as a kill between the two writes leaves it
    (check,) = verify(tmp_path)
    assert (check.ok, check.detail) == (True, "3 vectors, and a batch that was begun does not count (2 vectors)")


@settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_damaged_batches_of_an_index_cost_their_own_texts_and_no_others(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("damaged")
    counts = data.draw(st.lists(st.integers(1, 5), min_size=2, max_size=6))
    folder = fill(root, *counts)
    content = bytearray((folder / "00000.index").read_bytes())
    starts = np.cumsum([16, *(16 + 36 * count for count in counts)]).tolist()
    # The last batch is whole, so that what is before it is no kill's remains.
    bad = data.draw(st.sets(st.integers(0, len(counts) - 2), min_size=1, max_size=3))
    for which in bad:
        place = data.draw(st.integers(starts[which], starts[which + 1] - 1))
        content[place] ^= data.draw(st.integers(1, 255))
    (folder / "00000.index").write_bytes(content)
    texts = np.split(np.arange(sum(counts)), np.cumsum(counts)[:-1])
    kept = [n for which, numbers in enumerate(texts) if which not in bad for n in numbers.tolist()]
    lost = sum(counts) - len(kept)
    (check,) = verify(root)
    assert (check.ok, check.detail.partition(";")[0]) == (False, f"{lost} of {sum(counts)} vectors are damaged")
    assert found(root, sum(counts)) == kept
    keys, tokens, rows = batch(0, sum(counts))
    with opened(root) as store:
        missing = store.find(keys) < 0
        store.append([k for k, m in zip(keys, missing, strict=True) if m], tokens[missing], rows[missing])
    assert found(root, sum(counts)) == list(range(sum(counts)))
    assert [(check.ok, "put aside" in check.detail) for check in verify(root)] == [(True, True)]
