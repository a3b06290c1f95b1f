"""The registry: from what a user calls a model to everything that is known of it.

A name finds a row of manifests/models.toml, whatever its case, or the row of that hub id. Anything else is the user's
own model: a TOML file with the fields of a row, a folder, a file of vectors, a name on the hub, or a name that a
server knows (`base_url`).
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from quarry_harness.errors import InvalidInputError, UsageError
from quarry_harness.resources import resource

KINDS = ("lexical", "static", "sentence-transformers", "openai", "voyage", "precomputed", "cross-encoder")
API_KINDS = ("openai", "voyage")
DTYPES = ("float32", "bfloat16", "float16")
MAX_DIMENSION = 1_000_000
# The extra that installs a kind's packages, and the packages; "" where the base install has all.
_MODELS = ("models", ("sentence_transformers", "torch"))
EXTRAS = {"static": ("static", ("model2vec",)), "sentence-transformers": _MODELS, "cross-encoder": _MODELS}
_DTYPE_WORDS = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
# What a user may say about a model of each kind.
_PROMPTS = ("query_prompt", "document_prompt")
_OF_API = ("base_url", "key_env", "dimension", "max_tokens", *_PROMPTS)
_TAKES: Mapping[str, tuple[str, ...]] = {
    "lexical": (),
    "static": ("dimension", "max_tokens", "revision", *_PROMPTS),
    "sentence-transformers": ("dimension", "dtype", "max_tokens", "revision", "trust_remote_code", *_PROMPTS),
    "openai": _OF_API,
    "voyage": _OF_API,
    "precomputed": ("dimension",),
    "cross-encoder": ("dtype", "max_tokens", "revision", "trust_remote_code"),
}
# No number of a model is larger; NaN and infinity are not smaller.
_MOST = 2**31 - 1
# Of some fields the ends of what they may be.
_RANGES = {
    "dimension": (0, MAX_DIMENSION),
    "timeout_s": (0.001, 86_400),
    "price_usd": (0, 1_000_000),
}
_SERVABLE = ("static", "sentence-transformers", *API_KINDS)
_CHOICES = {"kind": KINDS, "similarity": ("cosine", "dot"), "truncate": ("client", "server"), "dtype": DTYPES}
_OWN = (
    "Your own: a TOML file, a folder, OWNER/NAME of the hub, a .parquet or .npy file of vectors,"
    " or any name with --base-url."
)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one batch or request may hold, and how fast requests may follow; 0 where nothing limits."""

    texts: int = 0
    tokens: int = 0
    requests_per_minute: int = 0
    tokens_per_minute: int = 0


# Where nothing is said: padded tokens of a batch that common GPUs hold, and a request that common servers take.
_LIMITS = {
    "static": Limits(texts=4096, tokens=4_000_000),
    "sentence-transformers": Limits(texts=256, tokens=16_384),
    "openai": Limits(texts=32, tokens=65_536),
    "voyage": Limits(texts=1000, tokens=120_000),
    "precomputed": Limits(texts=65_536),
    "cross-encoder": Limits(texts=256, tokens=16_384),
}


@dataclass(frozen=True, slots=True)
class Model:
    """A model as it is to be used: a row of the registry or the user's own, with what the user asked for.

    dimension is what the model itself gives (0: read from the model), output_dimension what is kept of it.
    max_tokens 0: the model's own limit, or none. query_prompt and document_prompt stand in where the model's own
    configuration has no prompt of that name; `asked` (by role) is what the user wants instead of either.
    """

    name: str
    kind: str = "sentence-transformers"
    model: str = ""  # its id on the hub or in the API, or the path of a folder or file
    revision: str = ""
    dimension: int = 0
    dimensions: tuple[int, ...] = ()  # others it can give, ..
    min_dimension: int = 0  # .. or any from this one up to `dimension`
    max_tokens: int = 0
    query_prompt: str | None = None
    document_prompt: str | None = None
    query_prompt_name: str = ""
    document_prompt_name: str = ""
    pooling: str = ""
    similarity: str = "cosine"
    dtype: str = "float32"
    trust_remote_code: bool = False
    licence: str = ""
    base_url: str = ""
    key_env: str = ""
    tokenizer: str = ""  # "tiktoken:ENCODING", or a hub id or folder that has a tokenizer.json
    truncate: str = "client"  # who cuts a text for an API that is longer than max_tokens; "server": it does, there
    server_truncates_vectors: bool = False  # the API gives another dimension on request; else it is cut here
    limits: Limits = Limits()
    timeout_s: float = 300.0
    ids: str = ""  # precomputed .npy: the file with one id a line
    price_usd: float = 0.0  # of a million tokens
    price_source: str = ""
    published: str = ""  # what is known of its setting in the published table
    sources: Mapping[str, str] = field(default_factory=dict)
    unverified: tuple[str, ...] = ()
    output_dimension: int = 0
    asked: Mapping[str, str] = field(default_factory=dict)

    def prompt(self, role: str, own: Mapping[str, str]) -> str:
        """Returns the text put before every text of a role, "query" or "document".

        own: the prompts of the model's own configuration, by name. The user's word wins, then the model's own prompt,
        then the row's text. Raises UsageError where a prompt is promised by name and none of them has it, or where
        the model has prompts for queries under names that say nothing: no prompt at all would be a silent mistake.
        """
        if role in self.asked:
            return self.asked[role]
        name = self.query_prompt_name if role == "query" else self.document_prompt_name
        text = self.query_prompt if role == "query" else self.document_prompt
        names = (name,) if name else {"query": ("query",), "document": ("document", "passage", "corpus")}[role]
        found = next((own[candidate] for candidate in names if own.get(candidate)), text)
        if found is not None:
            return found
        others = [other for other, words in own.items() if words]
        if name or (role == "query" and others and not any(candidate in own for candidate in names)):
            raise UsageError(
                f"{self.name}: its configuration has no prompt '{names[0]}'"
                f" ({', '.join(map(repr, others)) or 'none at all'}).",
                f"Say which text to put before every {role}: --{role}-prompt TEXT (an empty one for none).",
            )
        return ""


@dataclass(frozen=True, slots=True)
class Options:
    """What a user may say about a model on the command line; None where nothing is said."""

    kind: str | None = None
    base_url: str | None = None
    key_env: str | None = None
    dimension: int | None = None
    dtype: str | None = None
    max_tokens: int | None = None
    revision: str | None = None
    query_prompt: str | None = None
    document_prompt: str | None = None
    trust_remote_code: bool | None = None


@cache
def rows() -> tuple[Model, ...]:
    """Returns the registry's models in the order of the file."""
    path = resource("manifests/models.toml")
    tables = tomllib.loads(path.read_text("utf-8"))["model"]
    return tuple(_model(table, f"{path}: {table.get('name')}") for table in tables)


def find(name: str, options: Options | None = None) -> Model:
    """Returns the model that a user means, with the user's options applied.

    Raises UsageError for a name that is nothing, and for options that do not fit the model; InvalidInputError for a
    TOML file that is none or has other fields.
    """
    options = options or Options()
    if options.kind is not None and options.kind not in KINDS:
        raise UsageError(f"There is no kind '{options.kind}'.", f"Kinds: {', '.join(KINDS)}.")
    known = {key.casefold(): row for row in rows() for key in (row.model, row.name) if key}
    if name.endswith(".toml"):
        return _with_options(_from_file(Path(name)), options)
    if name.casefold() in known:
        return _with_options(known[name.casefold()], options)
    return _with_options(_own(name, options), options)


def extra_of(model: Model) -> str:
    """Returns the name of the extra that the model's kind needs, "" where the base install has all."""
    return EXTRAS.get(model.kind, ("", ()))[0]


def _own(name: str, options: Options) -> Model:
    """A model of the user's that nothing but its name, or path, tells of."""
    path = Path(name).expanduser()
    if options.base_url:
        return Model(name=name, kind=options.kind or "openai", model=name)
    if path.suffix in (".parquet", ".npy"):
        if not path.is_file():
            raise UsageError(f"{name}: there is no such file of vectors.")
        return Model(name=path.name, kind="precomputed", model=str(path))
    if path.is_dir():
        return Model(name=path.resolve().name, kind=options.kind or _kind_of_folder(path), model=str(path))
    if name.count("/") == 1 and not name.startswith(("/", ".")) and not name.endswith("/"):
        return Model(name=name, kind=options.kind or "sentence-transformers", model=name)
    raise UsageError(f"There is no model '{name}'.", f"Models: {', '.join(row.name for row in rows())}. {_OWN}")


def _kind_of_folder(folder: Path) -> str:
    """What a folder that some library's save_pretrained wrote holds; UsageError where there is no model in it."""
    config, modules = _json_of(folder / "config.json"), _json_of(folder / "modules.json")
    if config is None and modules is None:
        raise UsageError(
            f"{folder}: there is no model in this folder (neither modules.json nor config.json).",
            "Give the folder that save_pretrained wrote.",
        )
    if isinstance(config, dict) and config.get("model_type") == "model2vec":
        return "static"
    own = _json_of(folder / "config_sentence_transformers.json")
    if isinstance(own, dict) and own.get("model_type") == "CrossEncoder":
        return "cross-encoder"
    if modules is None and isinstance(config, dict) and scores_sequences(config):
        return "cross-encoder"
    # Models that model2vec did not distil itself carry its layout alone: the one module lies in the folder itself.
    first = modules[0] if isinstance(modules, list) and modules else {}
    of_model2vec = isinstance(first, dict) and str(first.get("type")).endswith(".StaticEmbedding")
    return "static" if of_model2vec and first.get("path") in ("", ".") else "sentence-transformers"


def scores_sequences(config: Mapping[str, Any]) -> bool:
    """Returns whether a model's config.json says that it ends in scores and not in vectors."""
    return any(str(name).endswith("ForSequenceClassification") for name in config.get("architectures") or ())


def _json_of(file: Path) -> Any:
    try:
        return json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return None


def _from_file(path: Path) -> Model:
    """A user's own row: the fields of a row at the top level of a TOML file."""
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{path}: there is no such file.") from None
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{path}: {error}", "docs/models.md has an example.") from None
    table.setdefault("name", path.stem)
    model = _model(table, str(path))
    if not model.model and model.kind != "lexical":
        raise InvalidInputError(f"{path}: the field `model` is missing.", "docs/models.md says what a field means.")
    prompts = {"query": model.query_prompt, "document": model.document_prompt}
    asked = {role: text for role, text in prompts.items() if text is not None}
    weights, ids, tokenizer = (_beside(name, path) for name in (model.model, model.ids, model.tokenizer))
    return replace(model, model=weights, ids=ids, tokenizer=tokenizer, asked=asked)


def _beside(name: str, file: Path) -> str:
    """A relative path in a TOML file starts at the file."""
    place = file.parent / Path(name).expanduser()
    return str(place) if name and place.exists() else name


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _MOST


# By a field's type in Model: whether a value of the TOML file can be one.
_FITS: Mapping[str, Callable[[Any], bool]] = {
    "str": lambda value: isinstance(value, str),
    "str | None": lambda value: isinstance(value, str),
    "bool": lambda value: isinstance(value, bool),
    "int": _is_count,
    "float": lambda value: type(value) in (int, float) and 0 <= value <= _MOST,
    "tuple[int, ...]": lambda value: isinstance(value, list) and all(map(_is_count, value)),
    "tuple[str, ...]": lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
    "Mapping[str, str]": lambda value: isinstance(value, dict) and all(isinstance(s, str) for s in value.values()),
    "Limits": lambda value: (
        isinstance(value, dict)
        and set(value) <= {f.name for f in fields(Limits)}
        and all(map(_is_count, value.values()))
    ),
}


def _model(table: Mapping[str, Any], place: str) -> Model:
    """A table of fields as a Model; InvalidInputError for a field that is none or has a value of another type."""
    known = {f.name: f for f in fields(Model) if f.name not in ("output_dimension", "asked")}
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in known:
            raise InvalidInputError(f"{place}: '{key}' is no field of a model.", f"Fields: {', '.join(known)}.")
        low, high = _RANGES.get(key, (0, _MOST))
        number = type(value) in (int, float)
        if not _FITS[str(known[key].type)](value) or (number and not low <= value <= high):
            raise InvalidInputError(f"{place}: {key} cannot be {value!r}.", "docs/models.md says what a field means.")
        values[key] = tuple(value) if isinstance(value, list) else Limits(**value) if key == "limits" else value
    if not values.get("name"):
        raise InvalidInputError(f"{place}: the model has no name.")
    _check_key_env(str(values.get("key_env", "")))
    for key, choices in _CHOICES.items():
        if values.get(key, choices[0]) not in choices:
            raise InvalidInputError(f"{place}: {key} is '{values[key]}'.", f"One of: {', '.join(choices)}.")
    model = Model(**values)
    limits = model.limits if model.limits != Limits() else _LIMITS.get(model.kind, Limits())
    return replace(model, limits=limits)


def _with_options(model: Model, options: Options) -> Model:
    """The model with what the user said about it; UsageError where that cannot be."""
    if options.base_url and model.kind in _SERVABLE:
        model = _served(model, options.base_url)
    if options.kind not in (None, model.kind):
        raise UsageError(f"{model.name} is {model.kind}, not {options.kind}.")
    for f in fields(Options):
        if f.name not in ("kind", *_TAKES[model.kind]) and getattr(options, f.name) is not None:
            raise UsageError(
                f"{model.name} is {model.kind} and takes no --{f.name.replace('_', '-')}.",
                f"It takes: {', '.join(f'--{name}' for name in _TAKES[model.kind]) or 'none'}.".replace("_", "-"),
            )
    _check_key_env(options.key_env or "")
    prompts = {"query": options.query_prompt, "document": options.document_prompt}
    asked = dict(model.asked) | {role: text for role, text in prompts.items() if text is not None}
    model = replace(model, asked=asked)
    if options.max_tokens not in (None, model.max_tokens):
        model = replace(model, truncate="client")  # a server cuts at its own limit, and not at the user's
    for name in ("key_env", "dtype", "max_tokens", "revision", "trust_remote_code"):
        value = getattr(options, name)
        if value is not None:
            model = replace(model, **{name: value})
    model = replace(model, dtype=_DTYPE_WORDS.get(model.dtype, model.dtype))
    if model.dtype not in DTYPES:
        raise UsageError(f"There is no dtype '{model.dtype}'.", f"One of: {', '.join(DTYPES)}.")
    model = _with_dimension(model, options.dimension)
    return replace(model, limits=_LIMITS.get(model.kind, Limits())) if model.limits == Limits() else model


def _check_key_env(name: str) -> None:
    """Raises UsageError for what is no variable's name, without showing it: it may be the key itself."""
    if name and not (name.isascii() and name.isidentifier()):
        raise UsageError(
            "The name of the variable that holds the key is none.",
            "Put the key into a variable, and name that: --key-env MY_KEY, or key_env in a TOML file.",
        )


def _served(model: Model, base_url: str) -> Model:
    """A model as another server gives it: no key of its provider's goes there, and nothing is known of limits."""
    if model.kind in API_KINDS and model.base_url:
        return replace(model, base_url=base_url, key_env="")
    limits = model.limits if model.kind in API_KINDS else _LIMITS["openai"]
    kind = model.kind if model.kind in API_KINDS else "openai"
    tokenizer = model.tokenizer or model.model
    return replace(model, kind=kind, base_url=base_url, key_env="", limits=limits, tokenizer=tokenizer)


def _with_dimension(model: Model, asked: int | None) -> Model:
    if asked is None:
        return replace(model, output_dimension=model.dimension)
    if not 1 <= asked <= MAX_DIMENSION:
        raise UsageError(f"{asked} is no dimension.")
    if not model.dimension and model.kind in API_KINDS:
        return replace(model, dimension=asked, output_dimension=asked)
    some = model.dimensions or model.min_dimension
    fits = asked in (model.dimension, *model.dimensions) or 0 < model.min_dimension <= asked <= model.dimension
    if (some or model.dimension) and not fits:
        others = ", ".join(map(str, sorted({*model.dimensions, model.dimension})))
        can = f"any from {model.min_dimension} to {model.dimension}" if model.min_dimension else others
        raise UsageError(f"{model.name} cannot give {asked} dimensions.", f"It gives: {can}.")
    return replace(model, output_dimension=asked)
