"""PHP."""

from __future__ import annotations

from quarry_harness.languages.rules import Rules

RULES = Rules(
    language="php",
    grammars={"php": "php"},
    extensions=dict.fromkeys(("php", "phtml", "php3", "php4", "php5", "phps"), "php"),
    functions={"function_definition": "function", "method_declaration": "method"},
    types=frozenset({"class_declaration", "interface_declaration", "trait_declaration", "enum_declaration"}),
    clauses=frozenset({"namespace_definition"}),
    wrappers=frozenset(
        {
            "ERROR",
            "declaration_list",
            "enum_declaration_list",
            # a function that is declared only under a condition is still one
            "compound_statement",
            "if_statement",
            "else_clause",
            "else_if_clause",
            "colon_block",
        }
    ),
)
