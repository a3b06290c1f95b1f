"""What measuring costs beside ranx and pytrec_eval, and what a comparison of ten runs costs: scripts/bench measure

The same 6,525 queries with 1,000 ranked documents each, and the measures that all three define. Two jobs, each with its
ratio to the faster of the two others:

  measures   what each tool does with its own loaded object: ours the ranks of the gold units, ranx a sorted Run,
             pytrec_eval its evaluator and a dict of scores
  from scores  the same, from one array of scores a query: sorting, finding the gold, measuring; for the others also
             making their object from the arrays

Then `compare` of ten runs of 6,525 queries of 3,411 tasks with 10,000 resamples, as the stage does it, from run
folders, with the peak memory of a process that does nothing else. Repetitions are interleaved; medians are printed.
Needs the extra `bench`: pip install -e '.[bench]'
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import pytrec_eval
from ranx import Qrels, Run
from ranx import evaluate as ranx_evaluate

from quarry_harness import measures
from quarry_harness.measures import QueryRanks
from quarry_harness.retrieve import top_k
from quarry_harness.runs import per_query_table, write_run

QUERIES, TASKS, DEPTH, CUTOFFS = 6_525, 3_411, 1_000, (5, 10, 20, 50)
OURS = [f"{name}@{k}" for name in ("recall", "precision", "hit", "RR", "AP", "nDCG") for k in CUTOFFS] + ["RR", "AP"]
# trec_eval has no RR at a cutoff, so pytrec_eval computes four measures less.
TREC = {f"{name}.5,10,20,50" for name in ("recall", "P", "success", "map_cut", "ndcg_cut")} | {"recip_rank", "map"}
RANX = [f"{name}@{k}" for name in ("recall", "precision", "hit_rate", "mrr", "map", "ndcg") for k in CUTOFFS]
RANX += ["mrr", "map"]


class Data:
    """Scores without ties, and one to eight gold documents a query."""

    def __init__(self, queries: int, depth: int) -> None:
        rng = np.random.default_rng(1)
        self.ids = [f"src/module_{d % 97}/file.py:function_{d}:1-9" for d in range(depth)]
        self.scores = rng.permuted(np.tile(np.arange(depth, dtype=np.float32), (queries, 1)), axis=1)
        self.gold = [rng.permutation(depth)[: 1 + q % 8].tolist() for q in range(queries)]
        self.grades = [rng.integers(1, 3, len(gold)).tolist() for gold in self.gold]
        self.qrels = {
            f"q{q}": {self.ids[d]: grade for d, grade in zip(gold, self.grades[q], strict=True)}
            for q, gold in enumerate(self.gold)
        }

    def ranks(self) -> list[QueryRanks]:
        """Ours: sort each query's scores, find the gold."""
        queries = []
        for q, gold in enumerate(self.gold):
            ranking = top_k(self.scores[q], len(self.ids))
            place = np.zeros(len(self.ids), np.int64)
            place[ranking] = np.arange(1, len(ranking) + 1)
            essential = tuple(grade == 2 for grade in self.grades[q])
            ranks = tuple(place[gold].tolist())
            queries.append(QueryRanks(f"q{q}", "r", "t", "go", ranks, essential, len(ranking)))
        return queries

    def run(self) -> dict[str, dict[str, float]]:
        """Theirs: query -> document -> score."""
        return {f"q{q}": dict(zip(self.ids, row.tolist(), strict=True)) for q, row in enumerate(self.scores)}


def seconds(job: Callable[[], object]) -> float:
    started = time.perf_counter()
    job()
    return time.perf_counter() - started


def measured(data: Data, repetitions: int) -> None:
    ranks, run = data.ranks(), data.run()
    units = measures.judged(ranks)
    evaluator = pytrec_eval.RelevanceEvaluator(data.qrels, TREC)
    qrels, loaded = Qrels(data.qrels), Run(run)

    def ranx(own: Run) -> dict[str, float]:
        return ranx_evaluate(qrels, own, RANX)  # type: ignore[no-any-return]

    agree(measures.micro(measures.per_query(units, OURS)), evaluator.evaluate(run), ranx(loaded))
    jobs: dict[str, dict[str, Callable[[], object]]] = {
        "measures": {
            "ours": lambda: measures.per_query(units, OURS),
            "ranx": lambda: ranx(loaded),
            "pytrec_eval": lambda: evaluator.evaluate(run),
        },
        "from scores": {
            "ours": lambda: measures.per_query(data.ranks(), OURS),
            "ranx": lambda: ranx(Run(data.run())),
            "pytrec_eval": lambda: evaluator.evaluate(data.run()),
        },
    }
    print(f"{'job':<13}{'ours':>9}{'ranx':>9}{'pytrec_eval':>13}{'ours / faster of them':>24}   (seconds)")
    for name, tools in jobs.items():
        times: dict[str, list[float]] = {tool: [] for tool in tools}
        for _ in range(repetitions):
            for tool, job in tools.items():
                times[tool].append(seconds(job))
        ours, ranx_s, trec = (median(times[tool]) for tool in tools)
        print(f"{name:<13}{ours:>9.3f}{ranx_s:>9.3f}{trec:>13.3f}{ours / min(ranx_s, trec):>24.4f}", flush=True)


def agree(ours: dict[str, float], trec: dict[str, dict[str, float]], ranx: dict[str, float]) -> None:
    """Ends the program where the three do not give the same means: another job would have been timed."""
    names = {"recall": "recall", "precision": "P", "hit": "success", "AP": "map_cut", "nDCG": "ndcg_cut"}
    for name, value in ours.items():
        family, _, k = name.partition("@")
        of_ranx = {"hit": "hit_rate", "RR": "mrr", "AP": "map", "nDCG": "ndcg"}.get(family, family)
        others = [ranx[f"{of_ranx}@{k}" if k else of_ranx]]
        if family in names or not k:
            column = f"{names[family]}_{k}" if k else {"RR": "recip_rank", "AP": "map"}[family]
            others.append(float(np.mean([row[column] for row in trec.values()])))
        for other in others:
            if abs(value - other) > 1e-9:
                sys.exit(f"{name}: {value} here, {other} there")


def kept_runs(folder: Path, runs: int, queries: int, tasks: int) -> list[str]:
    """Run folders whose runs differ a little."""
    rng = np.random.default_rng(2)
    counts = [1 + q % 8 for q in range(queries)]
    base = [rng.geometric(0.05, n) for n in counts]
    names = []
    for number in range(runs):
        rows = []
        for q, n in enumerate(counts):
            ranks = np.unique(base[q] + rng.integers(0, 2 + number, n))
            ranks = [int(r) if r <= 100 else 0 for r in ranks] + [0] * (n - len(ranks))
            task = q * tasks // queries
            rows.append({"query_id": f"t{task}::q{q}", "repo": f"o__r{task % 60}", "task_id": f"t{task}"})
            rows[-1] |= {"gold_unit_keys": [f"{q}:{u}" for u in range(n)], "gold_documents": list(range(n))}
            rows[-1] |= {"gold_relevances": ["ESSENTIAL"] * n, "gold_ranks": ranks}
        names.append(f"m{number}-preimage-0")
        result = {"run_id": names[-1], "model": f"m{number}", "settings": {"depth": 100}, "image": "preimage"}
        write_run(folder / "runs" / names[-1], [], [], per_query_table(rows, []), result, {})
    return names


COMPARE = """
import re, sys, time
from pathlib import Path
from quarry_harness.stages.compare import Plan, compare
started = time.perf_counter()
document = compare(Path(sys.argv[1]), sys.argv[2:], None, Plan(), None, None)
elapsed = time.perf_counter() - started
# Not ru_maxrss: a new process starts with its parent's.
status = Path("/proc/self/status")
peak = int(re.search(r"VmHWM:\\s+(\\d+)", status.read_text())[1]) / 1e3 if status.exists() else float("nan")
print(f"{elapsed:.2f} {peak:.0f} {document['clusters']} {document['resamples']} {len(document['rows'])}")
"""


def comparison(repetitions: int, queries: int, tasks: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        names = kept_runs(Path(folder), 10, queries, tasks)
        rows = [
            subprocess.run([sys.executable, "-c", COMPARE, folder, *names], check=True, capture_output=True, text=True)
            .stdout.split()
            for _ in range(repetitions)
        ]  # fmt: skip
    elapsed, peak = median(float(row[0]) for row in rows), max(float(row[1]) for row in rows)
    _, _, clusters, resamples, table = rows[0]
    print(
        f"compare: 10 runs, {queries} queries of {clusters} tasks, {resamples} resamples, {table} rows:"
        f" {elapsed:.2f} s, peak {peak:.0f} MB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--queries", type=int, default=QUERIES)
    parser.add_argument("--depth", type=int, default=DEPTH)
    options = parser.parse_args()
    # numba complains of what ranx asks of it; nothing of ours.
    warnings.filterwarnings("ignore")
    print(f"{os.cpu_count()} cores, medians of {options.repetitions} interleaved repetitions,", end=" ")
    print(f"{options.queries} queries x {options.depth} ranks, {len(OURS)} measures")
    measured(Data(options.queries, options.depth), options.repetitions)
    comparison(options.repetitions, options.queries, max(1, options.queries * TASKS // QUERIES))


if __name__ == "__main__":
    main()
