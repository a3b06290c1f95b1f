"""quarry-harness: turns a Quarry release (queries and labels, no source) into trustworthy retrieval results."""

__version__ = "0.1.0"
