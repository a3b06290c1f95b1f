"""The text a model sees for a chunk: the measured contract of the benchmark."""

from __future__ import annotations


def document_text(path: str, container: str, name: str, source: str) -> str:
    """Returns the document of one chunk.

    `source` starts at the beginning of the function's first line (its indentation included) and has LF line ends.
    A free function is `{path}/{name}`, a newline, the source. A method is `{path}/{container}/{name}`, a newline,
    `class {container}:` and at once the source: the word `class` stands in every language and no newline or space
    follows the colon. The format is the benchmark's own; see docs/measures.md.
    """
    if not container:
        return f"{path}/{name}\n{source}"
    return f"{path}/{container}/{name}\nclass {container}:{source}"
