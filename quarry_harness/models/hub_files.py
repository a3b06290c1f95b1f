"""A model's own files: in a folder, or on the Hugging Face hub. What they say of its prompts, pooling and dimension.

The hub's own variables are honoured: HF_TOKEN, HF_ENDPOINT, HF_HOME, HF_HUB_OFFLINE. Only the small files are fetched
to describe a model, so that a run whose vectors are all stored loads no weights.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from quarry_harness.errors import EnvironmentProblem
from quarry_harness.models.registry import Model, scores_sequences

Loaded = TypeVar("Loaded")


class HubModel:
    """Where a model's files are, and at which revision.

    shown: the hub id, or the folder's name; a folder's place does not change its vectors. revision: the commit of the
    hub, or "sha256:" and a digest of everything in the folder.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._local = Path(model.model).expanduser().is_dir()
        self._folder = Path(model.model).expanduser().resolve() if self._local else self._snapshot(["*.json"])
        self.shown = self._folder.name if self._local else model.model
        self.revision = _digest_of(self._folder) if self._local else self._folder.name
        self.place = str(self._folder) if self._local else model.model

    def folder(self, *, everything: bool) -> Path:
        """Returns the folder of the model's files; `everything`: of all of them, fetched where they are not here."""
        return self._snapshot(None) if everything and not self._local else self._folder

    def load_arguments(self) -> dict[str, Any]:
        """Returns what pins a loader to this very revision."""
        return {} if self._local else {"revision": self.revision}

    def loaded(self, load: Callable[[], Loaded]) -> Loaded:
        """Returns what `load` returns; EnvironmentProblem, with the library's own words, where it fails."""
        try:
            return load()
        except Exception as error:
            raise self._problem(error) from error

    def prompts(self) -> dict[str, str]:
        """Returns the prompts of config_sentence_transformers.json by name; none where there is none."""
        prompts = self._json("config_sentence_transformers.json").get("prompts") or {}
        return {name: text for name, text in prompts.items() if isinstance(text, str)}

    def scores_pairs(self) -> bool:
        """Returns whether the files are a cross-encoder's: one saved as such, or any model that ends in scores."""
        own = self._json("config_sentence_transformers.json").get("model_type")
        return own == "CrossEncoder" or scores_sequences(self._json("config.json"))

    def pooling(self) -> str:
        """Returns how token vectors become one, in sentence-transformers' words; "mean" where nothing says it."""
        config = self._module("Pooling")
        if config is None:
            return "" if self._modules() else "mean"
        mode = config.get("pooling_mode")
        if mode is None:
            mode = [
                name.removeprefix("pooling_mode_").removesuffix("_tokens").removesuffix("_token")
                for name, on in config.items()
                if name.startswith("pooling_mode_") and on is True
            ]
        return mode if isinstance(mode, str) else "+".join(mode)

    def dimension(self) -> int:
        """Returns the dimension of the vectors as the files tell it; 0 where only the loaded model can."""
        dense = self._module("Dense")
        if dense is not None:
            return _number(dense.get("out_features"))
        pooling = self._module("Pooling")
        if pooling is not None:
            each = _number(pooling.get("embedding_dimension") or pooling.get("word_embedding_dimension"))
            return each * (self.pooling().count("+") + 1)
        return 0 if self._modules() else _number(self._json("config.json").get("hidden_size"))

    def max_tokens(self) -> int:
        """Returns sentence-transformers' own limit of a text's tokens; 0 where only the loaded model can tell."""
        return _number(self._json("sentence_bert_config.json").get("max_seq_length"))

    def check_dimension(self, found: int) -> None:
        """Raises EnvironmentProblem where the model gives another dimension than its row says."""
        if self._model.dimension not in (0, found):
            raise EnvironmentProblem(
                f"{self._model.name}: {self.place} gives {found} dimensions, {self._model.dimension} are expected.",
                "It is another model, or another revision of it.",
            )

    def _modules(self) -> list[Mapping[str, Any]]:
        modules = self._json("modules.json", [])
        return [module for module in modules if isinstance(module, dict)]

    def _module(self, kind: str) -> Mapping[str, Any] | None:
        """The configuration of the last module of a kind; None where there is none."""
        for module in reversed(self._modules()):
            if str(module.get("type", "")).rsplit(".", 1)[-1] == kind:
                config: Mapping[str, Any] = self._json(f"{module.get('path', '')}/config.json")
                return config
        return None

    def _json(self, name: str, default: Any = None) -> Any:
        """A file's content; the default, {} where none is given, without the file."""
        try:
            content = json.loads((self._folder / name).read_text("utf-8"))
        except FileNotFoundError:
            return {} if default is None else default
        except (OSError, ValueError) as error:
            raise EnvironmentProblem(f"{self._folder / name}: {error}", "The model's files are damaged.") from None
        return content if isinstance(content, type({} if default is None else default)) else default or {}

    def _snapshot(self, patterns: list[str] | None) -> Path:
        from huggingface_hub import snapshot_download
        from huggingface_hub.utils.tqdm import disable_progress_bars

        if not sys.stderr.isatty():
            disable_progress_bars()  # a log file is no place for a bar
        revision = self._model.revision or None
        return Path(
            self.loaded(lambda: snapshot_download(self._model.model, revision=revision, allow_patterns=patterns))
        )

    def _problem(self, error: Exception) -> EnvironmentProblem:
        """What a failure of the hub's library or of a loader means for the user."""
        from huggingface_hub import errors

        what = f"{self._model.name} ({self._model.model})"
        words = " ".join(str(error).split()) or type(error).__name__
        if "trust_remote_code" in words:
            return EnvironmentProblem(
                f"{what}: the model brings code of its own, which would run on this machine.",
                "If you trust it: --trust-remote-code",
            )
        if isinstance(error, errors.GatedRepoError):
            return EnvironmentProblem(f"{what}: access must be asked for on the model's page.", "Then set HF_TOKEN.")
        if isinstance(error, errors.RevisionNotFoundError):
            return EnvironmentProblem(f"{what}: there is no revision {self._model.revision}.", "Give another.")
        if isinstance(error, errors.RepositoryNotFoundError):
            return EnvironmentProblem(
                f"{what}: there is no such model on the hub, or it is private.",
                "Check the name; for a private one set HF_TOKEN.",
            )
        if isinstance(error, errors.LocalEntryNotFoundError):
            offline = isinstance(error.__cause__, errors.OfflineModeIsEnabled)
            fact = "it is not on this machine and HF_HUB_OFFLINE is set" if offline else "the hub cannot be reached"
            return EnvironmentProblem(f"{what}: {fact}.", "Go online once to fetch it, or give a folder.")
        return EnvironmentProblem(f"{what}: it cannot be loaded: {words[:300]}")


def _number(value: object) -> int:
    return value if type(value) is int else 0


def _digest_of(folder: Path) -> str:
    """A digest of every file's name and content; hidden files and pages to read (.md) change no vector."""
    total = hashlib.sha256()
    for directory, subdirectories, names in os.walk(folder):
        subdirectories[:] = sorted(name for name in subdirectories if not name.startswith("."))
        for name in sorted(names):
            file = Path(directory, name)
            if not name.startswith(".") and file.suffix != ".md" and file.is_file():
                with file.open("rb") as stream:
                    content = hashlib.file_digest(stream, "sha256").digest()
                total.update(file.relative_to(folder).as_posix().encode() + b"\0" + content)
    return f"sha256:{total.hexdigest()}"
