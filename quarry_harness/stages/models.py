"""What is known of the registry's models, and whether each can be used here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from quarry_harness.models import Choice, registry
from quarry_harness.models.embedders import standing


def choice_of(name: str, stored_as: str, max_cost_usd: float | None, settings: dict[str, Any]) -> Choice:
    """Returns a choice of a model; takes what registry.Options has fields for out of settings."""
    said = {field.name: settings.pop(field.name) for field in fields(registry.Options)}
    return Choice(name, registry.Options(**said), stored_as, max_cost_usd)


def cross_encoder_of(name: str, settings: dict[str, Any]) -> registry.Model:
    """Returns the cross-encoder that a user means, with what is said of it: fields of registry.Options.

    Raises what registry.find raises, UsageError for a model of another kind.
    """
    return registry.find(name, registry.Options(**settings, kind="cross-encoder"))


def models(names: Sequence[str]) -> list[dict[str, Any]]:
    """Returns a row a model: the fields of its row in manifests/models.toml, needs, ready, note.

    names: the registry's names or a user's own models; none for the whole registry, in the file's order. needs: the
    extra to install or the variable to set, "" for neither. Raises UsageError for a name that is no model.
    """
    chosen = [registry.find(name) for name in names] if names else registry.rows()
    return [_row(model) for model in chosen]


def _row(model: registry.Model) -> dict[str, Any]:
    extra = registry.extra_of(model)
    ready, note = standing(model)
    row = asdict(model) | {"needs": f"[{extra}]" if extra else model.key_env, "ready": ready, "note": note}
    return {key: value for key, value in row.items() if key not in ("output_dimension", "asked")}
