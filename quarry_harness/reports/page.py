"""A report as one HTML file that needs nothing beside itself.

Words of strangers (queries, paths, source, names of runs) become text and nothing else: escaped where Python writes
them, and set as text nodes where the page's script does. A content security policy lets only this page's own style and
script work, and no request leave.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from quarry_harness import __version__
from quarry_harness.measures import CUTOFFS
from quarry_harness.report import HEADLINE, printable
from quarry_harness.reports import charts, tables
from quarry_harness.reports.tables import Table
from quarry_harness.types import LANGUAGES

_FOLDER = Path(__file__).parent
# What would end the script element, or be a line end to an old parser of scripts.
_UNSAFE = {letter: f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


def html(document: Mapping[str, Any], browser: Mapping[str, Any]) -> str:
    """Returns the page of a survey and of the queries to look at (`browse`)."""
    style, script = (_text_of(name) for name in ("page.css", "page.js"))
    sections = _sections(document, browser)
    return Template(_text_of("page.html")).substitute(
        title=escape(f"{HEADLINE}: {tables.scope(document)}"),
        headline=escape(HEADLINE),
        scope=escape(tables.scope(document)),
        warnings="".join(f'<p class="warning">⚠ {escape(line)}</p>' for line in tables.warnings(document)),
        definition=escape(tables.DEFINITION),
        generator=f"quarry-harness {__version__}",
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        patterns=charts.patterns(),
        radios="".join(
            f'<input class="radio" type="radio" name="k" id="k{k}"{" checked" if k == CUTOFFS[0] else ""}'
            f' aria-label="figures at k = {k}">'
            for k in CUTOFFS
        ),
        labels="".join(f'<label for="k{k}">{k}</label>' for k in CUTOFFS),
        links="".join(f'<li><a href="#{anchor}">{escape(title)}</a></li>' for anchor, title, _, _ in sections),
        sections="\n".join(
            f'<section id="{anchor}"><h2>{escape(title)}</h2>\n{body}\n</section>'
            for anchor, _, title, body in sections
        ),
        data=_embedded(_data(document, browser)),
    )


def _text_of(name: str) -> str:
    return (_FOLDER / name).read_text("utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


def _embedded(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return "".join(_UNSAFE.get(letter, letter) for letter in text)


def _data(document: Mapping[str, Any], browser: Mapping[str, Any]) -> dict[str, Any]:
    runs = [run["run_id"] for run in document["comparison"]["runs"]]
    called = tables.names(document)
    words = {**tables.OUTCOMES, "no_gold": tables.NO_GOLD}
    return {
        "runs": [called[run] for run in runs],
        "first": runs.index(tables.ranked(document)[0]),
        "languages": dict(LANGUAGES),
        "outcomes": [words[name] for name in browser["outcomes"]],
        **{name: browser[name] for name in ("queries", "places", "sources")},
    }


def _sections(document: Mapping[str, Any], browser: Mapping[str, Any]) -> list[tuple[str, str, str, str]]:
    """(anchor, word in the navigation, title, body) of each section."""
    against = tables.against(document)
    found = [
        ("leaderboard", "Leaderboard", "Leaderboard", _leaderboard(document)),
        ("curves", "Curves", "Recall against k", _curves(document)),
        ("languages", "Languages", "Languages", _languages(document)),
    ]
    found += [("baseline", "Baseline", "Against the baseline", _baseline(document, against))] if against else []
    return [
        *found,
        ("failures", "Failures", "Where queries fail", _failures(document)),
        ("browse", "Queries", "Queries", _browser(document, browser)),
        ("method", "Method", "How this was made", _method(document)),
    ]


def _leaderboard(document: Mapping[str, Any]) -> str:
    figures = _at(lambda k: _scroll(charts.forest(document, f"recall@{k}"), "Leaderboard"), "recall@{k}")
    return figures + _table(tables.leaderboard(document)) + _table(tables.averages(document))


def _curves(document: Mapping[str, Any]) -> str:
    pair = "".join(
        f"<div><h3>{family}@k</h3>{charts.curves(document, family)}</div>" for family in ("recall", "all_gold")
    )
    return f'{_legend(document)}<div class="pair">{pair}</div>'


def _bars(document: Mapping[str, Any], field: str, title: str) -> str:
    return _at(lambda k: _scroll(charts.bars(document, field, f"recall@{k}"), title), "recall@{k}")


def _languages(document: Mapping[str, Any]) -> str:
    note = '<p class="note">The thin line over a bar is its 95% interval; with few tasks it says little.</p>'
    figures = _bars(document, "languages", "Recall by language")
    return _legend(document) + figures + note + _numbers(tables.grouped(document, "languages"))


def _baseline(document: Mapping[str, Any], against: Table) -> str:
    return _at(lambda k: _scroll(charts.duel(document, f"recall@{k}"), "Won and lost"), "recall@{k}") + _numbers(
        against
    )


def _failures(document: Mapping[str, Any]) -> str:
    legend = "".join(
        f"<li>{charts.outcome_swatch(number)}{escape(words)}</li>"
        for number, words in enumerate(tables.OUTCOMES.values())
    )
    parts = [f'<ul class="legend">{legend}</ul>']
    for of, title in (("queries", "Queries, by the worst of their gold units"), ("units", "Gold units")):
        parts.append(f'<div class="whole"><h3>{title}</h3>{_scroll(charts.stack(document, of), title)}</div>')
    parts.append(_numbers(*(tables.failures(document, of) for of in ("queries", "units"))))
    for field, title in (("corpus_chunks", "By chunks in the corpus"), ("gold_units", "By number of gold units")):
        chart = _bars(document, field, title)
        parts.append(f'<div class="whole"><h3>{title}</h3>{_legend(document)}{chart}</div>')
        parts.append(_numbers(tables.grouped(document, field)))
    return "".join(parts)


def _browser(document: Mapping[str, Any], browser: Mapping[str, Any]) -> str:
    left_out = browser["left_out"]
    notes = [
        f"Each query with its gold units and the top {browser['hits']} of each run, sources cut at"
        f" {browser['lines']} lines."
    ]
    if left_out["queries"]:
        notes.append(
            f"{left_out['queries']:,} queries are not listed, to keep this file small enough to be opened; the numbers"
            " above are over all of them."
        )
    if left_out["sources"]:
        notes.append(f"The source of {left_out['sources']:,} functions is left out for the same reason.")
    if left_out["sources_missing"]:
        notes.append(f"The source of {left_out['sources_missing']:,} functions is not in the workspace.")
    choices = {
        "order": {"order": "by repository", "worst": "worst first"},
        "against": {"": "any", "better": "better in the top 10", "worse": "worse in the top 10"},
    }
    if len(document["runs"]) > 1:
        choices["order"] |= {"gain": "largest gain on the baseline first", "loss": "largest loss first"}
    selects = [
        ("language", "Language"), ("repository", "Repository"), ("run", "Run"), ("outcome", "Outcome"),
        ("against", "Against the baseline"), ("order", "Order"),
    ]  # fmt: skip
    fields = "".join(
        f'<div><label for="{name}">{title}</label><select id="{name}">'
        + "".join(f'<option value="{value}">{words}</option>' for value, words in choices.get(name, {}).items())
        + "</select></div>"
        for name, title in selects
    )
    return (
        f'<p class="note">{escape(" ".join(notes))}</p>'
        "<noscript><p>The list of queries needs JavaScript; everything else on this page does not.</p></noscript>"
        '<p class="paper">On paper: the queries that were open on the screen.</p>'
        '<div id="browser" hidden><div class="controls">'
        '<div class="search"><label for="search">Words in the query, its id, or the path of a gold unit</label>'
        f'<input id="search" type="search" autocomplete="off" spellcheck="false"></div>{fields}'
        '<button id="reset" class="reset" type="button">Clear the filters</button></div>'
        '<p id="status" class="status" role="status"></p><ol id="queries" class="queries"></ol>'
        '<button id="more" class="more" type="button" hidden></button></div>'
    )


def _method(document: Mapping[str, Any]) -> str:
    called = tables.names(document)
    runs = "".join(f"<li>{escape(called[run['run_id']])}: {escape(_settings(run))}</li>" for run in document["runs"])
    return (
        f"<h3>What to know before believing a number</h3>{_facts(tables.notes(document))}"
        f"{_table(tables.accounts(document))}<h3>Statistics</h3>{_facts(tables.method(document))}"
        f'<h3>Runs</h3><ul class="facts">{runs}</ul>'
    )


def _settings(run: Mapping[str, Any]) -> str:
    depth = run["depth"] or "its own"
    settings = json.dumps(run["model_settings"], sort_keys=True, ensure_ascii=False)
    versions = ", ".join(f"{name} {version}" for name, version in (run["versions"] or {}).items())
    return printable(f"run {run['run_id']}; model {settings}; profile {run['profile']}; depth {depth}; {versions}")


def _facts(lines: Sequence[str]) -> str:
    return f'<ul class="facts">{"".join(f"<li>{escape(line)}</li>" for line in lines)}</ul>'


def _at(figure: Any, title: str) -> str:
    """One figure a cutoff, of which the page shows one."""
    return "".join(f'<div class="at k{k}"><h3>{escape(title.format(k=k))}</h3>{figure(k)}</div>' for k in CUTOFFS)


def _scroll(inside: str, label: str) -> str:
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(label)}">{inside}</div>'


def _legend(document: Mapping[str, Any]) -> str:
    called = tables.names(document)
    runs = [run["run_id"] for run in document["comparison"]["runs"]]
    items = "".join(
        f"<li>{charts.swatch(runs.index(run))}{escape(called[run])}</li>" for run in tables.ranked(document)
    )
    return f'<ul class="legend">{items}</ul>'


def _numbers(*several: Table) -> str:
    inside = "".join(map(_table, several))
    return f'<details class="numbers"><summary>The numbers</summary>{inside}</details>'


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col"{_word(i, table)}>{escape(name)}</th>' for i, name in enumerate(table.header))
    rows = "".join(f"<tr>{''.join(_cell(cell, i, table) for i, cell in enumerate(row))}</tr>" for row in table.rows)
    inside = (
        f"<table><caption>{escape(table.caption)}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )
    return _scroll(inside, table.caption)


def _cell(cell: str | tuple[str, str], column: int, table: Table) -> str:
    if not isinstance(cell, str):
        return f'<td>{escape(cell[0])}<span class="ci">{escape(cell[1])}</span></td>'
    tag, role = ("th", ' scope="row"') if column == 0 and cell else ("td", "")
    return f"<{tag}{role}{_word(column, table)}>{escape(cell)}</{tag}>"


def _word(column: int, table: Table) -> str:
    return ' class="word"' if column < table.left or table.header[column] == "run" else ""
