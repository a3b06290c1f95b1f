"""What exact search costs beside the bare matrix product and beside faiss: scripts/bench search

60 queries, 40,000 distinct documents of 1,024 dimensions, 30 overlapping revisions of 20,000 documents each, two
queries a revision, the best 100 of each. The documents are clustered, so that the best ones lie close together, as
code's do. Three columns, interleaved, medians of one run:

product   one numpy matrix product of all queries and all documents, float32, in memory: a bound, it ranks nothing
ours      from the store of vectors on the disk (in the page cache) to every ranking with its exact scores
faiss     IndexFlatIP, an index a revision, filled beforehand; only its searches are timed

All three use the same number of threads. The rankings of ours and of faiss are compared.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import numpy as np

from quarry_harness.retrieve import Corpus, Ranking, search
from quarry_harness.vectors import VectorStore


def clustered(count: int, dimension: int, generator: np.random.Generator) -> np.ndarray:
    """Unit vectors around as many centres as the root of their number."""
    centres = generator.standard_normal((int(count**0.5), dimension)).astype(np.float32)
    rows = centres[generator.integers(len(centres), size=count)]
    rows += 0.7 * generator.standard_normal((count, dimension)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def overlapping(revisions: int, documents: int, size: int, queries: int) -> list[Corpus]:
    """Corpora of neighbouring documents, each moved on a little from the one before, in an order of their own."""
    generator = np.random.default_rng(2)
    starts = np.linspace(0, documents - size, revisions).astype(int)
    each = queries // revisions
    return [
        Corpus(generator.permutation(np.arange(start, start + size)), tuple(range(i * each, (i + 1) * each)))
        for i, start in enumerate(starts)
    ]


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def faiss_indexes(corpora: list[Corpus], documents: np.ndarray) -> list:
    """A flat inner-product index a corpus; none without faiss."""
    if find_spec("faiss") is None:
        return []
    import faiss

    indexes = []
    for corpus in corpora:
        indexes.append(faiss.IndexFlatIP(documents.shape[1]))
        indexes[-1].add(documents[corpus.documents])
    return indexes


def differing(rankings: list[list[Ranking]], theirs: list[np.ndarray]) -> int:
    """Rankings that are not the same to the last place."""
    pairs = (
        (ours, row)
        for of_corpus, rows in zip(rankings, theirs, strict=True)
        for ours, row in zip(of_corpus, rows, strict=True)
    )
    return sum(ours.positions.tolist() != row.tolist() for ours, row in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=60)
    parser.add_argument("--documents", type=int, default=40_000)
    parser.add_argument("--dimension", type=int, default=1024)
    parser.add_argument("--revisions", type=int, default=30)
    parser.add_argument("--size", type=int, default=20_000, help="documents of a revision")
    parser.add_argument("--repetitions", type=int, default=15)
    parser.add_argument("--dtype", choices=["float32", "float16"], default="float32")
    options = parser.parse_args()
    generator = np.random.default_rng(1)
    documents = clustered(options.documents, options.dimension, generator)
    queries = documents[generator.integers(len(documents), size=options.queries)]
    queries = queries + 0.02 * generator.standard_normal(queries.shape).astype(np.float32)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    corpora = overlapping(options.revisions, options.documents, options.size, options.queries)
    indexes = faiss_indexes(corpora, documents)
    with (
        tempfile.TemporaryDirectory() as folder,
        VectorStore(Path(folder), {"name": "bench"}, options.dimension, options.dtype) as store,
    ):
        for start in range(0, len(documents), 4096):
            part = documents[start : start + 4096]
            keys = [number.to_bytes(32, "big") for number in range(start, start + len(part))]
            store.append(keys, np.zeros(len(part), dtype=np.int64), part)
        rows = store.find([number.to_bytes(32, "big") for number in range(len(documents))])
        rankings: list[list[Ranking]] = []
        theirs: list[np.ndarray] = []

        def product() -> None:
            np.matmul(queries, documents.T)

        def ours() -> None:
            rankings[:] = search(queries, store.select(rows), corpora, 100)

        def flat() -> None:
            theirs[:] = [
                index.search(queries[list(corpus.queries)], 100)[1]
                for index, corpus in zip(indexes, corpora, strict=True)
            ]

        columns = {"product": product, "ours": ours} | ({"faiss": flat} if indexes else {})
        times: dict[str, list[float]] = {name: [] for name in columns}
        for work in columns.values():
            work()
        for _ in range(options.repetitions):
            for name, work in columns.items():
                times[name].append(seconds(work))
    middle = {name: median(column) for name, column in times.items()}
    print(
        f"{options.queries} queries, {options.documents} documents of {options.dimension} dimensions ({options.dtype}),"
        f" {options.revisions} revisions of {options.size}, {os.cpu_count()} cores, {options.repetitions} repetitions"
    )
    for name, column in times.items():
        print(f"  {name:<8} {1000 * middle[name]:7.1f} ms (fastest {1000 * min(column):.1f})")
    print(f"ours / product: {middle['ours'] / middle['product']:.2f}")
    if indexes:
        ratio = middle["ours"] / middle["faiss"]
        print(f"ours / faiss:   {ratio:.2f} ({differing(rankings, theirs)} of {options.queries} rankings differ)")
    else:
        print("ours / faiss:   faiss is not installed (pip install faiss-cpu)")
    print(
        f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f} MB, the documents' copies included"
    )


if __name__ == "__main__":
    sys.exit(main())
