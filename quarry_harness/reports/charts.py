"""A report's figures as SVG: told apart by shape, dash and pattern as well as by colour.

Colours are classes of page.css (s0, s1, ... for runs, o0, o1, ... for outcomes), so that a page can be dark or printed.
Every figure says its numbers in a <title> at the mark, and stands beside a table of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

from quarry_harness.report import percent, percents
from quarry_harness.reports import tables

SERIES = 8  # styles; a ninth run looks like the first
_DASHES = ("", "7 3", "2 3", "9 3 2 3", "5 2 2 2 2 2", "12 4", "4 4", "1 4")
_WIDTH = 960.0
_LABELS = 250.0  # of the width, for names
_LETTERS = 36  # that fit there


def swatch(number: int) -> str:
    """Returns a run's line, marker and pattern, for a legend."""
    style = number % SERIES
    line = f'<line class="line s{style}" x1="1" y1="9" x2="33" y2="9"{_dash(style)}/>'
    box = f'<rect class="bar s{style}" x="40" y="2" width="26" height="14" {_fill("p", style)}/>'
    return f'<svg class="swatch" viewBox="0 0 68 18" aria-hidden="true">{line}{_marker(style, 17, 9)}{box}</svg>'


def outcome_swatch(number: int) -> str:
    """Returns the pattern of an outcome, for a legend."""
    box = f'<rect class="bar o{number}" x="1" y="2" width="30" height="14" {_fill("q", number)}/>'
    return f'<svg class="swatch" viewBox="0 0 32 18" aria-hidden="true">{box}</svg>'


def patterns() -> str:
    """Returns the patterns that all figures of a page use, drawn over the colour of the series or outcome."""
    shapes = (
        "", '<path d="M0 8L8 0"/>', '<circle cx="4" cy="4" r="1.6"/>', '<path d="M0 0L8 8"/>', '<path d="M0 4H8"/>',
        '<path d="M4 0V8"/>', '<path d="M0 8L8 0M0 0L8 8"/>', '<path d="M0 4H8M4 0V8"/>',
    )  # fmt: skip
    # Good outcomes are plain and ever lighter, bad ones have a pattern each.
    bad = ("", "", "", "", shapes[2], shapes[4], shapes[1], shapes[6])
    defined = [
        f'<pattern id="{kind}{i}" width="8" height="8" patternUnits="userSpaceOnUse">'
        f'<rect class="under {series}{i}" width="8" height="8"/><g class="over">{shape}</g></pattern>'
        for kind, series, drawn in (("p", "s", shapes), ("q", "o", bad))
        for i, shape in enumerate(drawn)
    ]
    return f'<svg class="patterns" width="0" height="0" aria-hidden="true"><defs>{"".join(defined)}</defs></svg>'


def forest(document: Mapping[str, Any], name: str) -> str:
    """Returns the leaderboard of one measure: a marker a run at its mean, a line over its interval."""
    cells = tables.values(document)
    runs = tables.ranked(document)
    called = tables.names(document)
    rows = [cells[run, name] for run in runs]
    low, high = _range([end for row in rows for end in (*row["interval"], row["value"])])
    area = _Area(_LABELS, 10, _WIDTH - 150, 10 + 30.0 * len(rows), low, high)
    parts = list(area.grid())
    numbers = _numbers(document)
    for place, (run, row) in enumerate(zip(runs, rows, strict=True)):
        y = area.top + 30 * place + 15
        words = f"{percent(row['value'])} ({percents(row['interval'])})"
        parts.append(_label(called[run], area.left - 12, y))
        style = numbers[run] % SERIES
        if not math.isnan(row["value"]):
            ends = [area.x(100 * end) for end in row["interval"]]
            parts += [_whisker(ends, y, 6, f"s{style}"), _marker(style, area.x(100 * row["value"]), y, 7)]
        parts.append(_text(words, area.right + 12, y, "value"))
        parts.append(_hover(f"{called[run]}: {name} {words}", 0, y - 15, _WIDTH, 30))
    title = f"{name} of each run, in percent, with its 95% interval; {document['comparison']['queries']} queries"
    return _figure(title, _WIDTH, area.bottom + 34, parts)


def curves(document: Mapping[str, Any], family: str) -> str:
    """Returns recall or all_gold against k, a line a run."""
    rows = {curve["run_id"]: curve for curve in document["curves"]}
    last = max(curve["k"][-1] for curve in rows.values())
    area = _Area(46, 12, 468, 300, 0, 100, log=last)
    called, numbers = tables.names(document), _numbers(document)
    parts = list(area.frame([k for k in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if k <= last]))
    for run in reversed(tables.ranked(document)):
        style = numbers[run] % SERIES
        points = [(k, 100 * value) for k, value in zip(rows[run]["k"], rows[run][family], strict=True)]
        points = [(k, value) for k, value in points if not math.isnan(value)]
        line = " ".join(f"{_n(area.at(k))},{_n(area.y(value))}" for k, value in points)
        parts.append(f'<polyline class="line s{style}" points="{line}"{_dash(style)}/>')
        for k, value in points:
            if k in (1, 5, 10, 20, 50, 100, 200, 500, 1000):
                x, y = area.at(k), area.y(value)
                parts.append(_marker(style, x, y, 5))
                parts.append(_hover(f"{called[run]}: {family}@{k} {value:.1f}", x - 8, y - 8, 16, 16))
    parts.append(_text("k (logarithmic)", (area.left + area.right) / 2, area.bottom + 34, "axis", "middle"))
    title = f"{family}@k in percent against k, {document['comparison']['queries']} queries"
    return _figure(title, 480, 340, parts)


def bars(document: Mapping[str, Any], field: str, name: str) -> str:
    """Returns a measure by group (a field of the document): a bar a run, a line over its interval."""
    runs = tables.ranked(document)
    called, numbers = tables.names(document), _numbers(document)
    thick = 18.0 if len(runs) == 1 else 15.0 if len(runs) <= 4 else 11.0
    step = max(34.0, thick * len(runs) + 14)
    area = _Area(_LABELS, 8, _WIDTH - 150, 8 + step * len(document[field]), 0, 100)
    parts = list(area.grid())
    for place, group in enumerate(document[field]):
        top = area.top + step * place
        middle = top + step / 2
        title = tables.group_name(field, group)
        parts.append(_text(title, area.left - 12, middle - 7, "name", "end"))
        parts.append(_text(_counts(group), area.left - 12, middle + 8, "small", "end"))
        by_run = {run["run_id"]: run["measures"][name] for run in group["runs"]}
        start = middle - thick * len(runs) / 2
        for i, run in enumerate(runs):
            value, ends = by_run[run]["value"], by_run[run]["interval"]
            style, y = numbers[run] % SERIES, start + thick * i
            words = f"{percent(value)} ({percents(ends)})"
            if not math.isnan(value):
                width = area.x(100 * value) - area.left
                parts.append(
                    f'<rect class="bar s{style}" x="{_n(area.left)}" y="{_n(y + 1)}" width="{_n(width)}"'
                    f' height="{_n(thick - 2)}" {_fill("p", style)}/>'
                )
                parts.append(_whisker([area.x(100 * end) for end in ends], y + thick / 2, thick / 4, "ink"))
            size = "value" if thick > 12 else "value tiny"
            parts.append(_text(words, area.right + 12, y + thick / 2, size))
            parts.append(_hover(f"{title}, {called[run]}: {name} {words}, {_counts(group)}", 0, y, _WIDTH, thick))
    return _figure(f"{name} in percent, with 95% intervals", _WIDTH, area.bottom + 34, parts)


def duel(document: Mapping[str, Any], name: str) -> str:
    """Returns the queries that each run wins and loses against the baseline in one measure."""
    comparison = document["comparison"]
    cells, called = tables.values(document), tables.names(document)
    rows = [(run, cells[run, name]) for run in tables.ranked(document) if "wins" in cells[run, name]]
    most = max([1, *(row[side] for _, row in rows for side in ("wins", "losses"))])
    left, right, step = _LABELS + 40, _WIDTH - 190, 40.0
    middle, half = (left + right) / 2, (right - left) / 2 - 70
    parts = [
        _text(f"{called[comparison['baseline']]} better", middle - 8, 12, "axis", "end"),
        _text("the run better", middle + 8, 12, "axis"),
    ]
    for place, (run, row) in enumerate(rows):
        y = 26 + step * place
        parts.append(_label(called[run], _LABELS - 12, y + 13))
        for side, sign, style in (("losses", -1, 6), ("wins", 1, 0)):
            width = half * row[side] / most
            x = middle if sign > 0 else middle - width
            parts.append(
                f'<rect class="bar o{style}" x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="26" '
                f"{_fill('q', style)}/>"
            )
            anchor = "start" if sign > 0 else "end"
            parts.append(_text(f"{row[side]} {'won' if sign > 0 else 'lost'}", middle + sign * (width + 6), y + 13,
                               "value", anchor))  # fmt: skip
        words = f"{tables.signed(row['difference'])} ({' to '.join(map(tables.signed, row['difference_interval']))})"
        parts.append(_text(words, right + 14, y + 6, "value"))
        parts.append(_text(f"{row['ties']} tied, p (Holm) {row['p_corrected']:.4f}", right + 14, y + 21, "small"))
        parts.append(_hover(f"{called[run]}: {words}", 0, y, _WIDTH, 30))
    bottom = 26 + step * len(rows)
    parts.append(f'<line class="rule" x1="{_n(middle)}" y1="20" x2="{_n(middle)}" y2="{_n(bottom)}"/>')
    return _figure(f"Queries won and lost in {name} against the baseline", _WIDTH, bottom + 4, parts)


def stack(document: Mapping[str, Any], of: str) -> str:
    """Returns where the queries or the units of each run ended, as parts of a whole."""
    called = tables.names(document)
    by_run = {row["run_id"]: row[of] for row in document["failures"]}
    area = _Area(_LABELS, 4, _WIDTH - 90, 4 + 40.0 * len(by_run), 0, 100)
    parts = list(area.grid())
    for place, run in enumerate(tables.ranked(document)):
        counts = by_run[run]
        whole, y, x = sum(counts.values()), area.top + 40 * place + 6, area.left
        parts.append(_label(called[run], area.left - 12, y + 14))
        for number, (name, words) in enumerate(tables.OUTCOMES.items()):
            if counts[name]:
                width = (area.right - area.left) * counts[name] / whole
                share = f"{counts[name]:,} of {whole:,} {of} {words} ({100 * counts[name] / whole:.1f}%)"
                parts += _segment(f"{counts[name]:,}", f"{called[run]}: {share}", number, x, y, width)
                x += width
        parts.append(_text(f"{whole:,} {of}", area.right + 10, y + 14, "small"))
    return _figure(f"Where the {of} of each run end, in percent", _WIDTH, area.bottom + 34, parts)


def _segment(count: str, words: str, outcome: int, x: float, y: float, width: float) -> Iterator[str]:
    """A part of a whole, with its number where that fits."""
    yield (
        f'<rect class="bar o{outcome}" x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="28" {_fill("q", outcome)}/>'
    )
    box = 8.0 * len(count) + 8
    if width > box:
        left = x + width / 2 - box / 2
        yield f'<rect class="plate" x="{_n(left)}" y="{_n(y + 6)}" width="{_n(box)}" height="16" rx="3"/>'
        yield _text(count, x + width / 2, y + 14, "value", "middle")
    yield _hover(words, x, y, width, 28)


class _Area:
    """The rectangle of a figure's data, and its scales."""

    def __init__(
        self, left: float, top: float, right: float, bottom: float, low: float, high: float, log: int = 0
    ) -> None:
        self.left, self.top, self.right, self.bottom = left, top, right, bottom
        self.low, self.high, self.log = low, high, log

    def x(self, value: float) -> float:
        return self.left + (self.right - self.left) * (value - self.low) / (self.high - self.low)

    def y(self, value: float) -> float:
        return self.bottom - (self.bottom - self.top) * (value - self.low) / (self.high - self.low)

    def at(self, k: int) -> float:
        return self.left + (self.right - self.left) * (math.log(k) / math.log(self.log) if self.log > 1 else 0)

    def grid(self) -> Iterator[str]:
        """Vertical lines with their percent."""
        step = 20 if self.high - self.low > 50 else 10 if self.high - self.low > 20 else 5
        for value in range(int(self.low), int(self.high) + 1, step):
            x = self.x(value)
            yield f'<line class="grid" x1="{_n(x)}" y1="{_n(self.top)}" x2="{_n(x)}" y2="{_n(self.bottom)}"/>'
            yield _text(f"{value}%", x, self.bottom + 14, "axis", "middle")

    def frame(self, cutoffs: Sequence[int]) -> Iterator[str]:
        """Horizontal lines with their percent, and the cutoffs."""
        for value in range(0, 101, 20):
            y = self.y(value)
            yield f'<line class="grid" x1="{_n(self.left)}" y1="{_n(y)}" x2="{_n(self.right)}" y2="{_n(y)}"/>'
            yield _text(f"{value}%", self.left - 7, y, "axis", "end")
        for k in cutoffs:
            x = self.at(k)
            yield f'<line class="grid" x1="{_n(x)}" y1="{_n(self.top)}" x2="{_n(x)}" y2="{_n(self.bottom)}"/>'
            yield _text(str(k), x, self.bottom + 14, "axis", "middle")


def _numbers(document: Mapping[str, Any]) -> dict[str, int]:
    """The style of each run: its place among the runs, the baseline first."""
    return {run["run_id"]: i for i, run in enumerate(document["comparison"]["runs"])}


def _counts(group: Mapping[str, Any]) -> str:
    return f"{group['queries']:,} queries, {group['tasks']:,} tasks"


def _range(values: Sequence[float]) -> tuple[float, float]:
    """Whole tens around percentages."""
    known = [100 * value for value in values if not math.isnan(value)] or [0.0, 100.0]
    low, high = 10 * math.floor(min(known) / 10), 10 * math.ceil(max(known) / 10)
    return (low, high) if low < high else (max(0, low - 10), min(100, high + 10))


def _figure(title: str, width: float, height: float, parts: Sequence[str]) -> str:
    return (
        f'<svg class="figure" viewBox="0 0 {_n(width)} {_n(height)}" role="img" aria-label="{escape(title)}">'
        + "".join(parts)
        + "</svg>"
    )


def _n(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


def _dash(style: int) -> str:
    return f' stroke-dasharray="{_DASHES[style]}"' if _DASHES[style] else ""


def _fill(kind: str, number: int) -> str:
    return f'fill="url(#{kind}{number})"'


def _text(words: str, x: float, y: float, style: str, anchor: str = "start") -> str:
    at = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text class="{style}" x="{_n(x)}" y="{_n(y)}" dy=".35em"{at}>{escape(words)}</text>'


def _label(words: str, x: float, y: float) -> str:
    short = words if len(words) <= _LETTERS else f"{words[:20]}…{words[-(_LETTERS - 21) :]}"
    return _text(short, x, y, "name", "end")


def _hover(words: str, x: float, y: float, width: float, height: float) -> str:
    return (
        f'<rect class="hover" x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}">'
        f"<title>{escape(words)}</title></rect>"
    )


def _whisker(ends: Sequence[float], y: float, cap: float, style: str) -> str:
    low, high = map(_n, ends)
    caps = "".join(f"M{end} {_n(y - cap)}V{_n(y + cap)}" for end in (low, high))
    return f'<path class="whisker {style}" d="M{low} {_n(y)}H{high}{caps}"/>'


def _marker(style: int, x: float, y: float, size: float = 5) -> str:
    """Another shape for each style, about as large as a circle of that radius."""
    points: tuple[tuple[float, float], ...] = (
        (),
        ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
        ((0, -1.2), (1.1, 0.85), (-1.1, 0.85)),
        ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
        ((0, 1.2), (1.1, -0.85), (-1.1, -0.85)),
        ((-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4), (1.2, 0.4), (0.4, 0.4), (0.4, 1.2), (-0.4, 1.2),
         (-0.4, 0.4), (-1.2, 0.4), (-1.2, -0.4), (-0.4, -0.4)),
        ((-1.2, 0), (0.85, -1.1), (0.85, 1.1)),
        ((0, -1.2), (1.15, -0.35), (0.7, 1), (-0.7, 1), (-1.15, -0.35)),
    )[style]  # fmt: skip
    if not points:
        return f'<circle class="marker s{style}" cx="{_n(x)}" cy="{_n(y)}" r="{_n(size)}"/>'
    corners = " ".join(f"{_n(x + size * across)},{_n(y + size * down)}" for across, down in points)
    return f'<polygon class="marker s{style}" points="{corners}"/>'
