"""Results as text for people. Everything here returns strings; printing is the command line's business."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from quarry_harness.errors import InvalidInputError
from quarry_harness.measures import CUTOFFS
from quarry_harness.resources import resource
from quarry_harness.types import LANGUAGES

HEADLINE = "strict all-gold micro recall@k"
FEW = 10  # clusters below which an interval is warned of beside the number itself


def table(header: Sequence[str], rows: Sequence[Sequence[str]], words: Collection[int] = (0,)) -> str:
    """Returns a plain aligned table: columns of words, by their places, to the left, the others to the right."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]

    def line(row: Sequence[str]) -> str:
        cells = enumerate(zip(row, widths, strict=True))
        return "  ".join(cell.ljust(w) if i in words else cell.rjust(w) for i, (cell, w) in cells).rstrip()

    return "\n".join([line(header), "  ".join("-" * width for width in widths), *map(line, rows)])


def percent(value: float | None) -> str:
    """Returns a fraction as percent with one decimal, "-" where it is not defined."""
    return "-" if value is None or math.isnan(value) else f"{100 * value:.1f}"


def percents(ends: Sequence[float | None]) -> str:
    """Returns an interval of fractions as percent, "-" where it is not defined."""
    low, high = map(percent, ends)
    return "-" if "-" in (low, high) else f"{low}-{high}"


def measure_names() -> list[str]:
    """Returns the measures of every recall table, in order."""
    return [f"{name}@{k}" for name in ("recall", "all_gold") for k in CUTOFFS]


def evaluation(result: Mapping[str, Any]) -> str:
    """Returns the whole printed report of one run: headline, rollup, languages, repositories, published table."""
    parts = [_title(result), _main_table(result), _groups_table("language", _languages(result))]
    parts.append(_groups_table("repository", _repositories(result)))
    parts.append(_accounts(result))
    parts.append(published(result))
    return "\n\n".join(parts)


def few_clusters(clusters: int, by: str, enough: int) -> list[str]:
    """Returns the warning that an interval stands on fewer clusters than are enough, or nothing."""
    several = "" if clusters == 1 else "s"
    return [f"only {clusters} {by}{several}: too few for intervals and p to be trusted"] if clusters < enough else []


def selected_words(run: Mapping[str, Any]) -> str:
    """Returns what it means that a run is not on all tasks of its release, or nothing. run: a result, or an account."""
    if run["tasks"] == run["release_tasks"]:
        return ""
    return (
        f"on a selection{selection_words(run['filters'] or {})}: {run['tasks']} of the release's"
        f" {run['release_tasks']} tasks; it is not comparable with results on the whole release"
    )


def _title(result: Mapping[str, Any]) -> str:
    scope = f"{result['queries']} queries of {result['tasks']} tasks"
    if result["tasks"] != result["release_tasks"]:
        scope += f" (a selection{selection_words(result['filters'])}: the release has {result['release_tasks']} tasks)"
    profile = "" if result["profile"] == "quarry" else f", profile {result['profile']}"
    return (
        f"{result['model']} on {release_words(result)}, {result['image']}{profile}:"
        f" {HEADLINE}, in percent"
        f"\n{scope}\nrecall = share of a query's gold units in the top k, all_gold = every one of them is there"
    )


def selection_words(filters: Mapping[str, Any]) -> str:
    """Returns how a selection was made, as far as it fits on a line: " of language go; the first 20", or nothing."""
    words = [
        f"{name} {', '.join(map(str, filters[name]))}" for name in ("repos", "languages", "tasks") if filters.get(name)
    ]
    words += [f"the first {filters['limit']}"] if filters.get("limit") else []
    line = printable("; ".join(words))
    return f" of {line if len(line) <= 100 else line[:97] + '...'}" if line else ""


def release_words(document: Mapping[str, Any]) -> str:
    """Returns the name and version of the release that a document is about."""
    return f"{document['release']} {document['release_version'] or ''}".strip()


def _main_table(result: Mapping[str, Any]) -> str:
    rollup = result["rollup"]
    ends = result["intervals"]["measures"]
    rows = [
        ["micro (mean over queries)", *_cells(result["measures"])],
        [f"  {100 * result['intervals']['level']:.0f}% interval", *(percents(ends[name]) for name in measure_names())],
    ]
    rows += [[f"macro by {level}", *_cells(rollup[level])] for level in ("task", "repo", "language")]
    pooled = {f"recall@{k}": result["pooled"][f"pooled_recall@{k}"] for k in CUTOFFS}
    rows.append(["pooled (units found / units)", *_cells(pooled)])
    return "\n".join(
        [
            table(["", *measure_names()], rows),
            _essential(result),
            _how_sure(result["intervals"]),
            *few_clusters(result["intervals"]["clusters"], result["intervals"]["by"], FEW),
        ]
    )


def _essential(result: Mapping[str, Any]) -> str:
    """One line: essential_recall at every cutoff, and over how many queries, since not all have an ESSENTIAL unit."""
    queries = result["groups"]["relevance"].get("ESSENTIAL", {}).get("queries", 0)
    values = " / ".join(percent(result["measures"][f"essential_recall@{k}"]) for k in CUTOFFS)
    return f"essential_recall@{'/'.join(map(str, CUTOFFS))}: {values}, over {queries} queries with an ESSENTIAL unit"


def _how_sure(intervals: Mapping[str, Any]) -> str:
    return (
        f"interval: {intervals['method']}, {intervals['clusters']} {intervals['by']}s resampled"
        f" {intervals['resamples']:,} times, seed {intervals['seed']}"
    )


def _cells(values: Mapping[str, float | None]) -> list[str]:
    return [percent(values.get(name)) for name in measure_names()]


def _groups_table(title: str, groups: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    rows = [[name, str(group["queries"]), *_cells(group["micro"])] for name, group in groups]
    return table([title, "queries", *measure_names()], rows)


def _languages(result: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    return [(LANGUAGES[language], group) for language, group in result["rollup"]["by_language"].items()]


def _repositories(result: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    return [(f"{row['repo']} ({LANGUAGES[row['language']]})", row) for row in result["rollup"]["by_repo"]]


def _accounts(result: Mapping[str, Any]) -> str:
    """What could lower the numbers without being the model's fault, always printed."""
    lines = [
        f"gold units: {result['units']}, unresolved: {result['unresolved_units']}"
        " (an unresolved unit counts as not found)",
        f"queries without a result: {result['queries_without_result']}{_reasons(result)} (they count 0)",
    ]
    if result["units_sharing_a_chunk"]:
        lines.append(
            f"gold units in the same chunk as another of their query: {result['units_sharing_a_chunk']}"
            " (qrels.trec lists a document once, so its recall may differ a little)"
        )
    if result["revisions_missing"]:
        lines.append(
            f"revisions missing: {result['revisions_missing']} of {len(result['revisions'])}"
            " (nothing can be found in them)"
        )
    if result["queries_without_gold"]:
        lines.append(
            f"queries without a gold unit: {result['queries_without_gold']} (nothing to find: left out of every mean)"
        )
    for name, counts in result.get("texts", {}).items():
        lines.append(f"longer than {name} takes, and cut: {cut_of(counts)}")
    model = result["settings"]["model"]
    lines += [_reranking(model)] if "reranker" in model else []
    lines += [_setting(part) for part in model.get("parts", [model]) if "dimension" in part]
    return "\n".join(lines)


def cut_of(counts: Mapping[str, int]) -> str:
    """Returns how many texts, or pairs of a query and a document, a model did not see whole, and of how many."""
    kinds = [kind for kind in ("documents", "queries", "pairs") if kind in counts]
    return ", ".join(f"{counts[f'{kind}_cut']} of {counts[kind]} {kind}" for kind in kinds)


def _reranking(model: Mapping[str, Any]) -> str:
    """What was re-ranked, and by what."""
    by = model["reranker"]
    longest = f", at most {by['max_tokens']} tokens" if by["max_tokens"] else ""
    return (
        f"the top {model['top']} of {model['first_stage']['run_id']} re-ranked by {by['name']}:"
        f" revision {by['revision']}, computed in {by['dtype']}{longest}"
    )


def _setting(model: Mapping[str, Any]) -> str:
    """What an embedding model was in this run: all that two numbers under one name could differ by."""
    facts = [f"{model['dimension']} dimensions kept as {model['stored_as']}"]
    for key, words in (("revision", "revision {}"), ("dtype", "computed in {}"), ("pooling", "{} pooling")):
        facts += [words.format(model[key])] if model.get(key) else []
    facts += [f"at most {model['max_tokens']} tokens"] if model.get("max_tokens") else []
    facts += [
        f"{model[f'{role}_prompt']!r} before each {role}"
        for role in ("query", "document")
        if model.get(f"{role}_prompt")
    ]
    return f"{model['name']}: {model.get('similarity', 'cosine')} of {', '.join(facts)}"


def _reasons(result: Mapping[str, Any]) -> str:
    reasons = result["queries_without_result_by_reason"]
    return f" [{', '.join(f'{count} {reason}' for reason, count in reasons.items())}]" if reasons else ""


def published_results() -> dict[str, Any]:
    """Returns manifests/published.toml: metric, queries, and a list `result` of rows in percent."""
    path = resource("manifests/published.toml")
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise InvalidInputError(f"{path}: cannot be read ({error}).", "Reinstall quarry-harness.") from error


def published(result: Mapping[str, Any]) -> str:
    """Returns the published table with this run among it, and the warning what may be compared."""
    return (
        "For orientation, the published results on all 6,525 queries of release 1.0 (benchmark = its own description,\n"
        "model card = a second-hand copy of the Muninn model card). Another corpus, subset or release is\n"
        "NOT comparable.\n" + published_table({f"{result['model']} (this run)": result["measures"]})
    )


def published_table(ours: Mapping[str, Mapping[str, float | None]]) -> str:
    """Returns the published rows and ours, given as name -> measure -> fraction, best first."""
    cutoffs = ("recall@5", "recall@20", "recall@50")
    rows = [
        (row["model"], row["size"], [row[name] for name in cutoffs], row["source"])
        for row in published_results()["result"]
    ]
    for model, values in ours.items():
        percents = [100 * value if (value := values.get(name)) is not None else math.nan for name in cutoffs]
        rows.append((f"> {model}", "", percents, "measured"))
    rows.sort(key=lambda row: (math.isnan(row[2][0]), -row[2][0], row[0]))
    lines = [[name, size, *(percent(value / 100) for value in values), source] for name, size, values, source in rows]
    return table(["model", "size", *cutoffs, "source"], lines)


def fetched(document: Mapping[str, Any]) -> str:
    """Returns what a fetch did, a line a fact."""
    scope = (
        f"{document['revisions']} revisions of {document['repositories']} repositories for {document['queries']}"
        f" queries ({document['image']})"
    )
    if document["queries_without_revision"]:
        scope += f"; {document['queries_without_revision']} queries have no revision at this image"
    if document.get("dry_run"):
        return _planned(document, scope)
    if document["present"] == document["revisions"]:
        lines = [f"fetch: nothing to do, {scope} are there"]
    else:
        lines = [
            f"fetch: {scope}: {document['fetched']} fetched, {document['present']} there before,"
            f" {len(document['missing'])} missing; {megabytes(document['bytes'])}, {document['requests']} requests,"
            f" {document['seconds']:.1f} s"
        ]
    if document["release_changed"]:
        lines.append("  the workspace held another release, or another state of this one; all labels are resolved anew")
    lines += [f"  {printable(row['repo'])} has moved: {row['note']}" for row in document["renamed"]]
    lines += _listed(
        [f"missing {row['repo']}@{row['revision']}: {row['status']}: {row['reason']}" for row in document["missing"]]
    )
    if document["missing"]:
        counts = {status: n for status, n in document["outcomes"].items() if status not in ("fetched", "present")}
        lines.append("  missing by reason: " + ", ".join(f"{n} {status}" for status, n in counts.items()))
    if document["known_missing"]:
        lines.append(f"  {document['known_missing']} of them known and not asked for again (--retry-missing asks)")
    if document["left_out"]:
        lines.append(f"  {len(document['left_out'])} sources are too large to be kept (--json lists them)")
    return "\n".join(lines)


def _planned(document: Mapping[str, Any], scope: str) -> str:
    disk = document["disk"]
    lines = [
        f"would fetch {document['to_fetch']} of {scope}, from {document['repositories_to_ask']} repositories;"
        f" {document['present']} are there already"
    ]
    if document["known_missing"]:
        lines.append(f"  {document['known_missing']} known to be missing would not be asked for (--retry-missing asks)")
    size = "no estimate" if disk["bytes"] is None else f"about {megabytes(disk['bytes'])}"
    lines.append(f"  disk: {size}: {disk['basis']}")
    return "\n".join(lines)


def checked_out(document: Mapping[str, Any]) -> str:
    """Returns what a checkout wrote, and what it did not."""
    lines = [
        f"checkout: {document['files']} files ({megabytes(document['bytes'])}) of {document['repo']}"
        f"@{document['revision']} in {printable(document['directory'])}"
    ]
    rows = [f"not written: {row['path']}: {row['reason']}" for row in document["not_written"]]
    return "\n".join(lines + _listed(rows))


def to_free(plan: Mapping[str, Any]) -> str:
    """Returns what is not needed, before it is freed."""
    rows = [f"repository {row['repo']}: {megabytes(row['bytes'])}" for row in plan["repositories"]]
    rows += [f"{row['revisions']} revisions of {row['repo']}: about {megabytes(row['bytes'])}" for row in plan["pins"]]
    rows += [f"left by a killed process, {row['repo']}: {megabytes(row['bytes'])}" for row in plan["leftovers"]]
    if plan["demo_mirror_bytes"]:
        rows.append(f"the demo's mirror: {megabytes(plan['demo_mirror_bytes'])}")
    if any(plan["rows"].values()):
        counts = plan["rows"]
        rows.append(
            f"in the database: {counts['revision']} revisions, {counts['entry']} files, {counts['blob']} blobs,"
            f" {counts['chunk']} chunks (the file keeps the room for later)"
        )
    return "\n".join(["gc: not needed any more:", *_listed(rows)] if rows else ["gc: nothing to free"])


def freed(document: Mapping[str, Any]) -> str:
    """Returns how much was freed, or would be."""
    if document["dry_run"]:
        return f"gc: would free about {megabytes(document['bytes'])}"
    left = f"; left, since another process uses them: {', '.join(document['in_use'])}" if document["in_use"] else ""
    return f"gc: freed {megabytes(document['freed_bytes'])}{left}"


def _listed(rows: Sequence[str], most: int = 20) -> list[str]:
    """The first rows, made fit for a terminal, and how many more there are."""
    lines = [f"  {printable(row)}" for row in rows[:most]]
    return lines + ([f"  and {len(rows) - most} more (--json lists all)"] if len(rows) > most else [])


def printable(words: str) -> str:
    """Returns text of a stranger with everything replaced that could drive a terminal."""
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in words)


def printable_lines(words: str) -> str:
    """Returns the same of text that has several lines."""
    return "\n".join(map(printable, words.split("\n")))


def chunked(document: Mapping[str, Any]) -> str:
    """Returns what a chunk stage did and what the selection holds."""
    holds = (
        f"{document['chunks']} chunks of {document['blobs']} blobs ({megabytes(document['bytes'])}) in"
        f" {document['files']} files of {document['revisions']} revisions"
    )
    if not document["listed"]:
        lines = [f"chunk: nothing to do, {holds} are there"]
    else:
        lines = [f"chunk: {holds}; {document['parsed']} blobs parsed now, {document['seconds']:.1f} s"]
    if document["skipped"]:
        lines.append("  skipped files: " + ", ".join(f"{n} {why}" for why, n in document["skipped"].items()))
    if document["missing"]:
        lines.append(
            f"  {len(document['missing'])} revisions are missing and have no chunks (quarry status lists them)"
        )
    return "\n".join(lines)


def canonicalized(document: Mapping[str, Any]) -> str:
    """Returns how the gold units resolved, with the first of the unresolved ones."""
    tiers = ", ".join(f"{count} {tier}" for tier, count in document["by_tier"].items())
    verb = "nothing to do, " if document["done_before"] else ""
    lines = [f"canonicalize: {verb}{document['resolved']} of {document['units']} gold units resolved ({tiers})"]
    lines += _listed([f"unresolved {row['unit_key']}: {row['reason']}" for row in document["unresolved"]])
    return "\n".join(lines)


def evaluated(document: Mapping[str, Any]) -> str:
    """Returns one line about a finished evaluation."""
    verb = "nothing to do, run" if document["done_before"] else "run"
    return f"eval: {verb} {document['run_id']} is in {document['folder']}"


def to_embed(plan: Mapping[str, Any]) -> str:
    """Returns what a run would have to embed first, a line a model."""
    lines = []
    for row in plan["models"]:
        exact = "" if row["token_count"] in ("exact", "") else f" ({row['token_count']})"
        cost = "no price is known" if row["cost_usd"] is None else f"about ${row['cost_usd']:.2f}"
        lines.append(
            f"{row['model']}: {row['texts']} texts to embed, {row['tokens']} tokens{exact}; the longest has"
            f" {row['longest_tokens']}, {row['cut']} would be cut; {cost}"
        )
    lines = lines or ["nothing to embed: the model reads words"]
    if written := plan.get("texts"):
        lines.append(f"{written['queries']} queries and {written['documents']} documents are in {written['file']}")
    return "\n".join(lines)


def checks(rows: Sequence[Any]) -> str:
    """Returns a verification, a line a check: ok, WRONG, or ? where nothing could be compared."""
    words = {True: "ok", False: "WRONG", None: "?"}
    wrong = sum(row.ok is False for row in rows)
    unknown = sum(row.ok is None for row in rows)
    lines = [f"{words[row.ok]:5}  {row.name}: {row.detail}" for row in rows]
    lines.append(f"{len(rows)} checks: {len(rows) - wrong - unknown} ok, {wrong} wrong, {unknown} could not be checked")
    return "\n".join(lines)


def state(document: Mapping[str, Any]) -> str:
    """Returns what a workspace holds, stage by stage."""
    counts = document["counts"]
    lines = [
        f"workspace     {document['workspace']}",
        f"release       {release_words(document)}: {counts['tasks']} tasks, {counts['queries']} queries",
        f"selection     {counts['selected_tasks']} tasks, {counts['selected_queries']} queries"
        f"{selection_words(document['selection'].get('filters', {}))}",
    ]
    lines += [f"mirror        {document['mirror']}"] if document["mirror"] else []
    for image, held in document["images"].items():
        if not held["revisions"]:
            continue
        missing = "".join(f", {n} {why}" for why, n in held["missing_by_reason"].items())
        not_tried = f", {held['not_tried']} not tried" if held["not_tried"] else ""
        lines.append(
            f"{image:13} {held['fetched']} of {held['revisions']} revisions fetched{missing}{not_tried},"
            f" {held['chunked']} chunked"
        )
        words = {True: "resolved", False: "resolved for an earlier state; run quarry canonicalize"}
        lines += [f"              gold, profile {name}: {words[fresh]}" for name, fresh in held["resolved"].items()]
    lines.append(f"chunks        {counts['chunks']} in {counts['blobs']} blobs")
    lines += [
        f"run           {row['run_id']}" + ("" if row["whole"] else " (DAMAGED; run quarry verify)")
        for row in document["runs"]
    ]
    lines += [
        f"run           {printable(name)} (no record of it in this database)" for name in document["unrecorded_runs"]
    ]
    return "\n".join(lines)


def megabytes(count: int) -> str:
    """Returns a byte count for people, in units of 1,000,000 bytes."""
    return f"{count / 1e6:.1f} MB"


def model_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Returns the registry, a line a model."""
    header = ("name", "kind", "dimension", "max tokens", "prompts", "licence", "needs", "ready")
    lines = [
        (
            row["name"],
            row["kind"],
            str(row["dimension"] or "-"),
            str(row["max_tokens"] or "-"),
            _prompts(row),
            row["licence"] or "?",
            row["needs"] or "-",
            ("yes" if row["ready"] else "no") + (f": {row['note']}" if row["note"] else ""),
        )
        for row in rows
    ]
    ready = sum(row["ready"] for row in rows)
    return (
        f"{table(header, lines, words=(0, 1, 4, 5, 6, 7))}\n\n{ready} of {len(rows)} ready."
        " quarry models NAME shows all that is known of one, and what is not."
    )


def _prompts(row: Mapping[str, Any]) -> str:
    """Which sides have a prompt; the text itself is for model_details."""
    if row["kind"] == "voyage":
        return "server's"
    sides = [s for s in ("query", "document") if row[f"{s}_prompt"] or row[f"{s}_prompt_name"]]
    return " + ".join(sides) or "-"


def model_details(rows: Sequence[Mapping[str, Any]]) -> str:
    """Returns all that is known of each model, a line a field, and what could not be checked."""
    return "\n\n".join(map(_details, rows))


def _details(row: Mapping[str, Any]) -> str:
    words = {True: "yes", False: "no"}
    lines = []
    for key, value in row.items():
        if key in ("sources", "unverified", "limits") or (value in ("", None, 0, ()) and key != "ready"):
            continue
        shown = words[value] if isinstance(value, bool) else value
        shown = repr(value) if key in ("query_prompt", "document_prompt") else shown
        lines.append(f"{key:24}  {', '.join(map(str, shown)) if isinstance(shown, tuple) else shown}")
    lines += [f"{'limits':24}  {count} {key}" for key, count in row["limits"].items() if count]
    lines += [f"{'source':24}  {key}: {source}" for key, source in row["sources"].items()]
    lines += [f"{'not verified':24}  {fact}" for fact in row["unverified"]]
    return "\n".join(lines)
