"""Intervals and tests against scipy on the same data, against hand-made enumerations, and against known truths."""

import itertools
import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from quarry_harness import significance
from quarry_harness.significance import bootstrap, clustered, detectable, holm, interval, means, permutation


def dependent(rng: np.random.Generator, tasks: int, columns: int, shared: float = 1.0) -> tuple[np.ndarray, list[int]]:
    """Differences of two equal systems: 1 to 4 queries a task, with an effect that a task's queries share."""
    clusters = np.repeat(np.arange(tasks), rng.integers(1, 5, tasks))
    own = rng.normal(size=(len(clusters), columns))
    return own + shared * rng.normal(size=(tasks, columns))[clusters], clusters.tolist()


def test_the_mean_is_over_queries_not_over_clusters() -> None:
    data = clustered(np.array([[1.0], [0.0], [0.0], [np.nan]]), ["a", "b", "b", "c"])
    assert means(data)[0] == pytest.approx(1 / 3, abs=1e-14)
    assert data.counts[:, 0].tolist() == [1, 2]


def test_bootstrap_of_two_clusters_has_the_three_means_that_can_be_drawn() -> None:
    # a: one query of 1; b: two queries of 0. Drawn: aa (1/4), ab (1/2), bb (1/4).
    drawn = bootstrap(clustered(np.array([[1.0], [0.0], [0.0]]), ["a", "b", "b"]), 10_000, 1)[:, 0]
    found, counts = np.unique(np.round(drawn, 12), return_counts=True)
    assert found.tolist() == pytest.approx([0, 1 / 3, 1])
    assert counts / 10_000 == pytest.approx([1 / 4, 1 / 2, 1 / 4], abs=0.02)


def test_the_interval_s_ends_are_resamples_at_the_stated_places() -> None:
    assert interval(np.arange(1000.0)[:, None])[:, 0].tolist() == [25, 974]
    assert interval(np.arange(10_000.0)[::-1, None])[:, 0].tolist() == [250, 9749]
    assert interval(np.array([[7.0]]))[:, 0].tolist() == [7, 7]
    assert np.isnan(interval(np.array([[np.nan]]))).all()


def test_the_interval_agrees_with_scipy() -> None:
    rng = np.random.default_rng(5)
    values, clusters = dependent(rng, 120, 1)
    data = clustered(values, clusters)
    ours = interval(bootstrap(data, 20_000, 3))[:, 0]

    def mean(sums: np.ndarray, counts: np.ndarray, axis: int) -> np.ndarray:
        return sums.sum(axis=axis) / counts.sum(axis=axis)

    theirs = scipy.stats.bootstrap(
        (data.sums[:, 0] * data.step, data.counts[:, 0]), mean, paired=True, vectorized=True,
        n_resamples=20_000, method="percentile", rng=np.random.default_rng(7),
    )  # fmt: skip
    assert ours == pytest.approx(tuple(theirs.confidence_interval), abs=0.04 * theirs.standard_error * 2)
    assert bootstrap(data, 20_000, 3).std() == pytest.approx(theirs.standard_error, rel=0.03)


@pytest.mark.parametrize("seed", range(5))
def test_p_agrees_with_scipy_s_exact_test(seed: int) -> None:
    rng = np.random.default_rng(seed)
    differences = rng.normal(0.4, 1, 12)
    exact = scipy.stats.permutation_test(
        (differences,), lambda d, axis: d.mean(axis=axis), permutation_type="samples", vectorized=True, n_resamples=5000
    ).pvalue
    ours = permutation(clustered(differences[:, None], list(range(12))), 50_000, seed)[0]
    assert ours == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 50_000) + 2e-5)


def test_p_with_clusters_is_that_of_flipping_whole_clusters() -> None:
    # Every one of the 2**4 ways to flip four tasks, by hand; equal sums must count as hits although 0.1 * 3 is not 0.3.
    values = np.array([0.1, 0.1, 0.1, 0.3, -0.2, 0.2])
    clusters = ["a", "a", "a", "b", "c", "d"]
    sums = np.array([0.3, 0.3, -0.2, 0.2])
    signs = np.array(list(itertools.product((1, -1), repeat=4)))
    exact = float((np.abs(signs @ sums) >= abs(sums.sum()) - 1e-9).mean())
    assert exact == 6 / 16
    p = permutation(clustered(values[:, None], clusters), 40_000, 11)[0]
    assert p == pytest.approx(exact, abs=0.01)


def test_p_is_never_0_and_1_where_nothing_differs() -> None:
    certain = clustered(np.ones((40, 1)), list(range(40)))
    assert permutation(certain, 999, 1)[0] == 1 / 1000
    assert permutation(clustered(np.zeros((40, 1)), list(range(40))), 999, 1)[0] == 1
    # One cluster: both signs are as far from 0.
    assert permutation(clustered(np.ones((40, 1)), [0] * 40), 999, 1)[0] == 1


def test_nothing_at_all_is_no_number() -> None:
    for data in (clustered(np.empty((0, 2)), []), clustered(np.full((3, 2), np.nan), [1, 2, 3])):
        assert np.isnan(means(data)).all()
        assert np.isnan(permutation(data, 99)).all()
        assert np.isnan(interval(bootstrap(data, 99))).all()
    with pytest.raises(ValueError, match="2 rows, 1 clusters"):
        clustered(np.zeros((2, 1)), [1])


def test_equal_systems_are_told_apart_one_time_in_twenty() -> None:
    # 1,000 simulated comparisons of equal systems, whose queries depend on each other within a task.
    values, clusters = dependent(np.random.default_rng(20), 150, 1000)
    share = float((permutation(clustered(values, clusters), 1999, 4) < 0.05).mean())
    assert 0.035 <= share <= 0.065
    # What would be wrong: each query as evidence of its own.
    naive = float((permutation(clustered(values, list(range(len(clusters)))), 1999, 4) < 0.05).mean())
    assert naive > 0.12


def test_an_interval_holds_the_truth_19_times_in_20() -> None:
    values, clusters = dependent(np.random.default_rng(21), 150, 1000)
    low, high = interval(bootstrap(clustered(values, clusters), 1999, 4))
    assert 0.925 <= float(((low <= 0) & (high >= 0)).mean()) <= 0.965


def test_a_difference_of_the_detectable_size_is_found_four_times_in_five() -> None:
    values, clusters = dependent(np.random.default_rng(22), 150, 1000)
    size = detectable(bootstrap(clustered(values, clusters), 1999, 4))
    p = permutation(clustered(values + float(size.mean()), clusters), 1999, 5)
    assert 0.76 <= float((p < 0.05).mean()) <= 0.84


def test_detectable_by_hand() -> None:
    # (1.959964 + 0.841621) x the standard deviation.
    drawn = np.array([[0.1], [0.3], [0.2]])
    assert detectable(drawn)[0] == pytest.approx(2.801585 * 0.1, rel=1e-6)
    assert np.isnan(detectable(drawn[:1])).all()


def test_where_nothing_varies_nothing_is_known_to_be_detectable() -> None:
    """A regression: two equal runs had a detectable difference of 0.0."""
    tasks = [f"t{number}" for number in range(20)]
    for same in (0.0, 0.1):
        drawn = bootstrap(clustered(np.full((20, 1), same), tasks), 200, 1)
        assert np.isnan(detectable(drawn)).all()


def test_holm_by_hand() -> None:
    # 0.01 x 4, 0.02 x 3, 0.03 x 2 = 0.06, 0.9 x 1; then no smaller than the one before.
    assert holm([0.02, 0.9, 0.01, math.nan, 0.03]) == pytest.approx([0.06, 0.9, 0.04, math.nan, 0.06], nan_ok=True)
    assert holm([0.6, 0.5]) == [1, 1]
    assert holm([]) == []


@given(st.lists(st.floats(0.0001, 1), max_size=12))
def test_holm_lies_between_no_correction_and_bonferroni_s(p: list[float]) -> None:
    adjusted = holm(p)
    assert all(raw <= new <= min(1, raw * len(p)) for raw, new in zip(p, adjusted, strict=True))
    assert sorted(range(len(p)), key=lambda i: (p[i], i)) == sorted(range(len(p)), key=lambda i: (adjusted[i], p[i], i))


def test_win_tie_loss_by_hand() -> None:
    differences = np.array([0.5, -0.25, 0.0, 1 / 3 - (1 - 2 / 3), np.nan, 1.0])
    assert significance.win_tie_loss(differences) == (2, 2, 1)


TABLE = st.lists(
    st.tuples(st.sampled_from("abcde"), st.sampled_from([0, 1 / 3, 0.5, 1]), st.sampled_from([0, 0.1, 1])),
    min_size=1, max_size=25,
)  # fmt: skip


@given(TABLE, st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_no_digit(table: list[tuple[str, float, float]], random: object) -> None:
    shuffled = table.copy()
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    results = []
    for rows in (table, shuffled):
        data = clustered(np.array([row[1:] for row in rows], float), [row[0] for row in rows])
        results.append((means(data), interval(bootstrap(data, 199)), permutation(data, 199)))
    for first, second in zip(*results, strict=True):
        np.testing.assert_array_equal(first, second)


@given(TABLE)
def test_a_column_s_digits_do_not_depend_on_its_neighbours(table: list[tuple[str, float, float]]) -> None:
    values = np.array([row[1:] for row in table], float)
    clusters = [row[0] for row in table]
    both, alone = clustered(values, clusters), clustered(values[:, :1], clusters)
    np.testing.assert_array_equal(bootstrap(both, 199)[:, 0], bootstrap(alone, 199)[:, 0])
    assert permutation(both, 199)[0] == permutation(alone, 199)[0]


def test_the_same_seed_gives_these_digits_everywhere() -> None:
    # Written down once: another machine, NumPy or BLAS must give them to the last bit.
    values = np.array([[i % 7 / 7] for i in range(60)])
    data = clustered(values, [i // 3 for i in range(60)])
    assert interval(bootstrap(data)).ravel().tolist() == [0.33809523809523867, 0.4904761904761905]
    assert permutation(clustered(values - 3 / 7, [i // 3 for i in range(60)]), 999)[0] == 0.764


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    values, clusters = dependent(np.random.default_rng(1), 41, 2)
    data = clustered(values, clusters)
    whole = bootstrap(data, 500), permutation(data, 500)
    monkeypatch.setattr(significance, "_BLOCK_CELLS", 1)
    np.testing.assert_array_equal(bootstrap(data, 500), whole[0])
    np.testing.assert_array_equal(permutation(data, 500), whole[1])
