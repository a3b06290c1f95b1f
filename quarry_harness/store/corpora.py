"""The corpora of one repository: its distinct documents, and each revision's corpus as numbers into them.

Revisions of a repository share most of their chunks. Two chunks of one path are one document when container, name and
text are the same, whichever blobs they lie in; a document is then read, and costs a model, once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from quarry_harness.store.database import Database

# The one order that breaks ties, for a query over entry e and chunk c.
CORPUS_ORDER = " ORDER BY e.path, c.start_line, c.end_line, c.name, c.ordinal"


def gather(database: Database, revisions: Sequence[int], kinds: Iterable[str] | None) -> pa.Table:
    """Numbers the distinct documents of these revisions and returns them: path, container, name, text, by number.

    kinds None = chunks of every kind. `corpus` answers for these revisions until the next call.
    """
    wanted = None if kinds is None else sorted(kinds)
    # Numbered by content, so that nothing depends on which blob came first. The text takes part by its digest: a sort
    # of the texts themselves would have to hold them all.
    with database.incoming(pa.table({"id": pa.array(revisions, pa.int32())})):
        database.execute(
            "CREATE OR REPLACE TEMP TABLE placed AS SELECT e.path, c.blob, c.ordinal,"
            " dense_rank() OVER (ORDER BY e.path, c.container, c.name, sha256(c.text)) - 1 AS document"
            " FROM (SELECT DISTINCT path, blob FROM entry WHERE revision IN (SELECT id FROM incoming)) e"
            " JOIN chunk c USING (blob) WHERE ? IS NULL OR list_contains(?, c.kind)",
            [wanted, wanted],
        )
    return database.arrow(
        "SELECT p.path, c.container, c.name, c.text FROM"
        " (SELECT document, path, min_by({'blob': blob, 'ordinal': ordinal}, (blob, ordinal)) AS first FROM placed"
        " GROUP BY document, path) p JOIN chunk c ON c.blob = p.first.blob AND c.ordinal = p.first.ordinal"
        " ORDER BY p.document"
    )


def corpus(database: Database, revision: int) -> pa.Table:
    """Returns the corpus of a gathered revision in corpus order.

    Columns: path, blob, ordinal, name, start_line, end_line, document (its number).
    """
    return database.arrow(
        "SELECT e.path, c.blob, c.ordinal, c.name, c.start_line, c.end_line, p.document"
        " FROM entry e JOIN chunk c USING (blob) JOIN placed p USING (path, blob, ordinal) WHERE e.revision = ?"
        + CORPUS_ORDER,
        [revision],
    )


def longest(database: Database, revisions: Sequence[int], kinds: Iterable[str] | None, count: int) -> pa.Table:
    """Returns the longest documents of these revisions, by letters: path, container, name, text; at most `count`."""
    wanted = None if kinds is None else sorted(kinds)
    with database.incoming(pa.table({"id": pa.array(revisions, pa.int32())})):
        # The texts themselves are read of the few that are left.
        return database.arrow(
            "SELECT first.path, c.container, c.name, c.text FROM (SELECT min(e.path) AS path, c.blob, c.ordinal,"
            " length(c.text) AS letters FROM entry e JOIN chunk c USING (blob)"
            " WHERE e.revision IN (SELECT id FROM incoming) AND (? IS NULL OR list_contains(?, c.kind))"
            " GROUP BY c.blob, c.ordinal, letters ORDER BY letters DESC, path, c.ordinal LIMIT ?) first"
            " JOIN chunk c ON c.blob = first.blob AND c.ordinal = first.ordinal ORDER BY letters DESC, path, c.ordinal",
            [wanted, wanted, count],
        )
