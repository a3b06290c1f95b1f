"""What decides a dialect's chunks, as one short word: chunks made under another one are made again."""

from __future__ import annotations

import hashlib
import inspect
import sys
from functools import cache
from importlib.metadata import version

from quarry_harness import chunking, languages, readable, trees
from quarry_harness.languages import RULES_OF_DIALECT, bodies
from quarry_harness.languages.rules import Rules
from quarry_harness.trees import grammar

# The rules that are no language's.
_SHARED = (readable.__name__, trees.__name__, bodies.__name__, chunking.__name__)


@cache
def fingerprint(dialect: str) -> str:
    """Returns a hash of all that decides this dialect's chunks: grammar, parser, the description and the shared rules.

    The description and the rules count by their source, comments included: what is parsed once too often costs
    seconds, what is stale costs the result.
    """
    rules = RULES_OF_DIALECT[dialect]
    parts = [dialect, rules.grammars[dialect], str(grammar(dialect).abi_version)]
    grammar_from = rules.package or "tree-sitter-language-pack"
    parts += [f"{package} {version(package)}" for package in ("tree-sitter", grammar_from)]
    parts += [inspect.getsource(sys.modules[name]) for name in _decided_by(rules)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _decided_by(rules: Rules) -> list[str]:
    """The modules that decide the chunks of a description's dialects."""
    return sorted({*_described_in(rules), *_SHARED})


def _described_in(rules: Rules) -> list[str]:
    """The modules of `languages` that hold this description and what it is made of."""
    for module in filter(inspect.ismodule, vars(languages).values()):
        if any(value is rules for value in vars(module).values()):
            # What a partial is of says where it is from, not the partial.
            parts = (getattr(value, "func", value) for value in vars(module).values())
            used = {str(getattr(part, "__module__", "")) for part in parts}
            names = {module.__name__, languages.rules.__name__, *used}
            return sorted(name for name in names if name.startswith(f"{languages.__name__}."))
    raise KeyError(rules.language)
