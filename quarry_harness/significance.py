"""How far a mean over queries, or a difference of two, can be trusted.

The queries of a task describe one change and share gold units, so they are not independent; what is drawn at random
here is therefore never a query but a whole cluster of them (a task, or a repository).

- Intervals: the percentile interval of the cluster bootstrap (Davison and Hinkley, Bootstrap Methods and Their
  Application, 1997, sections 3.8 and 5.3.1): clusters are drawn with replacement, as many as there are, with all
  their queries, and the mean over the drawn queries is taken.
- Tests: the paired permutation test by random signs (Fisher's randomisation test; Smucker, Allan and Carterette,
  CIKM 2007), two-sided, p = (hits + 1) / (resamples + 1) (Phipson and Smyth 2010), so p is never 0. The sign is
  flipped for a whole cluster: were the two systems equal, their names could be exchanged for a task, but not for one
  of its queries alone while another, which goes the same way for the same reason, keeps them. Signs per query would
  take the queries for independent evidence and reject true nulls too often.
- Many tests in one table: Holm's step-down correction (Holm 1979).

One seed gives the same draws for every column, so columns can be compared; sums are taken in whole numbers (values in
fixed point), so the digits depend neither on the order of rows nor on the machine, its threads or its BLAS.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from quarry_harness.types import RESAMPLES, SEED

LEVEL = 0.95
ALPHA = 0.05
POWER = 0.8
# Differences of two means of fractions below this are rounding, not a win.
TIE = 1e-12
_BLOCK_CELLS = 1_000_000  # resamples x clusters held at once: 8 MB of counts

Floats = NDArray[np.float64]
Label = TypeVar("Label", str, int, tuple[str, ...])


@dataclass(frozen=True, slots=True)
class Clustered:
    """Values summed by cluster, in fixed point: what every resampling needs of them.

    sums, counts: shape (clusters, columns), whole numbers in float64. A value is sums * step.
    """

    sums: Floats
    counts: Floats
    step: float


def clustered(values: Floats, clusters: Sequence[Label]) -> Clustered:
    """Returns the values by cluster. values: shape (queries, columns), NaN where undefined; clusters: one label a row.

    Clusters are in the order of their labels, which alone decides what a seed draws; those in which nothing is defined
    are left out. Raises ValueError where the lengths differ.
    """
    if len(values) != len(clusters):
        raise ValueError(f"{len(values)} rows, {len(clusters)} clusters")
    number = {label: i for i, label in enumerate(sorted(set(clusters)))}
    codes = np.array([number[label] for label in clusters], np.int64)
    defined = ~np.isnan(values)
    # Room below 2**53 for the sum of the heaviest cluster, drawn as often as there are clusters.
    largest = float(np.abs(values[defined]).max(initial=1.0))
    heaviest = int(np.bincount(codes).max(initial=1)) * max(1, len(number))
    step = 2.0 ** (math.frexp(largest * heaviest)[1] - 52)
    fixed = np.where(defined, np.rint(np.where(defined, values, 0.0) / step), 0.0)
    sums = _by_cluster(fixed, codes, len(number))
    counts = _by_cluster(defined.astype(np.float64), codes, len(number))
    kept = counts.any(axis=1)
    return Clustered(sums[kept], counts[kept], step)


def _by_cluster(values: Floats, codes: NDArray[np.int64], clusters: int) -> Floats:
    columns = [np.bincount(codes, column, minlength=clusters) for column in values.T]
    return np.stack(columns, axis=1) if columns else np.empty((clusters, 0))


def means(data: Clustered) -> Floats:
    """Returns the mean of each column over its queries, NaN where none is defined; shape (columns,)."""
    return _ratio(data.sums.sum(axis=0), data.counts.sum(axis=0)) * data.step


def bootstrap(data: Clustered, resamples: int = RESAMPLES, seed: int = SEED) -> Floats:
    """Returns the mean of each column in each resample of the clusters; shape (resamples, columns)."""
    clusters, columns = data.sums.shape
    result = np.full((resamples, columns), np.nan)
    uniform = bool((data.counts == data.counts[:, :1]).all())
    counts = data.counts[:, :1] if uniform else data.counts
    both = np.concatenate([data.sums, counts], axis=1)
    for rows, drawn in _draws(clusters, resamples, seed):
        sums = drawn @ both
        result[rows] = _ratio(sums[:, :columns], sums[:, columns:]) * data.step
    return result


def _draws(clusters: int, resamples: int, seed: int) -> Iterator[tuple[slice, Floats]]:
    """Blocks of resamples: which rows they are, and how often each cluster was drawn in each, (rows, clusters)."""
    bits = np.random.PCG64(seed)
    for rows, size in _blocks(clusters, resamples):
        # Raw bits and our own scaling: NumPy promises the same bits for ever, but not the same draws made of them.
        # A number of 32 bits times the clusters, over 2**32: uneven by less than clusters / 2**32.
        drawn = _raw(bits, size * clusters, np.uint32).astype(np.uint64) * np.uint64(clusters) >> np.uint64(32)
        cells = drawn.reshape(size, clusters).astype(np.int64) + np.arange(0, size * clusters, clusters)[:, None]
        counts = np.bincount(cells.ravel(), minlength=size * clusters).reshape(size, clusters)
        yield rows, counts.astype(np.float64)


def _blocks(clusters: int, resamples: int) -> Iterator[tuple[slice, int]]:
    """Rows of resamples that fit in memory, and how many they are; none where there is nothing to draw from."""
    # Whole words of random bits fall to 64 rows, so that the size of a block never shows in what is drawn.
    size = max(64, _BLOCK_CELLS // max(1, clusters) // 64 * 64)
    for start in range(0, resamples if clusters else 0, size):
        end = min(start + size, resamples)
        yield slice(start, end), end - start


def _raw(bits: np.random.PCG64, count: int, kind: type[np.uint32] | type[np.uint8]) -> NDArray[np.unsignedinteger]:
    """`count` random unsigned numbers, the same on every machine."""
    words = np.asarray(bits.random_raw(-(-count * kind().itemsize // 8)), "<u8")
    return words.view(np.dtype(kind).newbyteorder("<"))[:count]


def _ratio(above: Floats, below: Floats) -> Floats:
    result: Floats = np.full(np.broadcast_shapes(above.shape, below.shape), np.nan)
    np.divide(above, below, out=result, where=np.broadcast_to(below != 0, result.shape))
    return result


def interval(resampled: Floats, level: float = LEVEL) -> Floats:
    """Returns the percentile interval of each column of resampled means; shape (2, columns), NaN where undefined.

    The ends are resamples themselves, nothing is interpolated: of R sorted means the floor(R * (1 - level) / 2)-th
    from below and from above, counted from 0.
    """
    result = np.full((2, resampled.shape[1]), np.nan)
    for column, values in enumerate(np.sort(resampled, axis=0).T):
        kept = values[~np.isnan(values)]
        if len(kept):
            cut = int(len(kept) * (1 - level) / 2 + 1e-9)
            result[:, column] = kept[cut], kept[len(kept) - 1 - cut]
    return result


def permutation(differences: Clustered, resamples: int = RESAMPLES, seed: int = SEED) -> Floats:
    """Returns the two-sided p of each column of paired differences; shape (columns,), NaN where nothing is defined.

    A hit is a permutation whose mean difference is at least as far from 0 as the observed one. With C clusters only
    2**(C - 1) outcomes differ, so p cannot go below about 2**(1 - C).
    """
    clusters, columns = differences.sums.shape
    observed = np.abs(differences.sums.sum(axis=0))
    # The rounding to fixed point: half a step a value, so a step a query, so that what is equal counts as equal.
    reach = observed - differences.counts.sum(axis=0)
    hits = np.zeros(columns)
    bits = np.random.PCG64(seed)
    for _, size in _blocks(clusters, resamples):
        signs = np.unpackbits(_raw(bits, -(-size * clusters // 8), np.uint8))[: size * clusters]
        # Sums of the flipped clusters alone: sum(signs * d) = sum(d) - 2 * sum(flipped d).
        flipped = signs.reshape(size, clusters).astype(np.float64) @ differences.sums
        hits += (np.abs(differences.sums.sum(axis=0) - 2 * flipped) >= reach).sum(axis=0)
    return np.where(differences.counts.any(axis=0), (hits + 1) / (resamples + 1), np.nan)


def holm(p: Sequence[float]) -> list[float]:
    """Returns Holm's adjusted p of each test of a table, in the same order; NaN stays NaN and is no test."""
    tests = sorted((value, i) for i, value in enumerate(p) if not math.isnan(value))
    adjusted = [math.nan] * len(p)
    largest = 0.0
    for place, (value, i) in enumerate(tests):
        largest = max(largest, min(1.0, value * (len(tests) - place)))
        adjusted[i] = largest
    return adjusted


def win_tie_loss(differences: Floats) -> tuple[int, int, int]:
    """Returns how many queries a system wins, ties and loses; differences: shape (queries,), NaN is none of them."""
    wins = int((differences > TIE).sum())
    losses = int((differences < -TIE).sum())
    return wins, int((~np.isnan(differences)).sum()) - wins - losses, losses


def detectable(resampled: Floats) -> Floats:
    """Returns the smallest true difference that a test at ALPHA finds with probability POWER; shape (columns,).

    resampled: bootstrapped mean differences. (z(1 - ALPHA / 2) + z(POWER)) times their standard deviation, the usual
    normal approximation (Cohen 1988), before any correction for many tests. NaN where no resample differs from another:
    nothing was seen to vary, so nothing can be said of what would be found.
    """
    z = NormalDist().inv_cdf(1 - ALPHA / 2) + NormalDist().inv_cdf(POWER)
    if len(resampled) < 2:
        return np.full(resampled.shape[1], np.nan)
    varied = resampled.max(axis=0) != resampled.min(axis=0)
    return np.where(varied, z * resampled.std(axis=0, ddof=1), np.nan)
