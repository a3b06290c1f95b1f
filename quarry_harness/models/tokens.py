"""How many tokens a text has: exactly, where the model's tokenizer is on this machine, else by a stated estimate.

Nothing is downloaded for it. The count plans batches, finds what would be cut, and prices a run; no vector depends on
which of the two it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

# Sub-word tokenizers give source code three to four bytes a token; the lower number plans for the worse case.
BYTES_PER_TOKEN = 3
ESTIMATE = f"estimate: {BYTES_PER_TOKEN} bytes of UTF-8 a token"
EXACT = "exact"


class TokenCounter(Protocol):
    """Counts tokens, and cuts a text after so many of them."""

    how: str  # EXACT or ESTIMATE

    def count(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Returns the tokens of each text."""

    def cut(self, text: str, tokens: int) -> str:
        """Returns the text up to the end of its first `tokens` tokens."""


class Estimate:
    """For a tokenizer that is not here. It cuts nothing: where to cut would be a guess."""

    how = ESTIMATE

    def count(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Returns a third of each text's bytes, rounded up."""
        return np.array([-(-len(text.encode()) // BYTES_PER_TOKEN) for text in texts], dtype=np.int64)

    def cut(self, text: str, tokens: int) -> str:
        """Returns the text as it is."""
        return text


class Tokenizers:
    """A tokenizer.json, read by the `tokenizers` package. No special tokens are counted or cut."""

    how = EXACT

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def count(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Returns the tokens of each text."""
        encoded = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return np.array([len(one.ids) for one in encoded], dtype=np.int64)

    def cut(self, text: str, tokens: int) -> str:
        """Returns the text up to the end of its first `tokens` tokens."""
        offsets = self._tokenizer.encode(text, add_special_tokens=False).offsets
        return text if len(offsets) <= tokens else text[: offsets[tokens - 1][1]]


class Tiktoken:
    """OpenAI's tokenizer."""

    how = EXACT

    def __init__(self, encoding: Any) -> None:
        self._encoding = encoding

    def count(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Returns the tokens of each text; what looks like a special token is text."""
        return np.array([len(self._encoding.encode_ordinary(text)) for text in texts], dtype=np.int64)

    def cut(self, text: str, tokens: int) -> str:
        """Returns the text up to the end of its first `tokens` tokens, less a character that the end would split."""
        ids = self._encoding.encode_ordinary(text)
        if len(ids) <= tokens:
            return text
        data: bytes = self._encoding.decode_bytes(ids[:tokens])
        return data.decode("utf-8", "ignore")


def counter_for(tokenizer: str) -> TokenCounter:
    """Returns the counter for a row's `tokenizer`: exact where it is on this machine, else the estimate."""
    if tokenizer.startswith("tiktoken:"):
        return _tiktoken(tokenizer.removeprefix("tiktoken:")) or Estimate()
    return (_tokenizer_file(tokenizer) if tokenizer else None) or Estimate()


def _tiktoken(encoding: str) -> TokenCounter | None:
    try:
        import tiktoken

        return Tiktoken(tiktoken.get_encoding(encoding))
    except Exception:  # noqa: BLE001 not installed, or its file is neither here nor to be had
        return None


def _tokenizer_file(place: str) -> TokenCounter | None:
    try:
        from huggingface_hub import try_to_load_from_cache
        from tokenizers import Tokenizer

        file: Any = Path(place, "tokenizer.json")
        if not file.is_file():
            file = try_to_load_from_cache(place, "tokenizer.json")
        tokenizer = Tokenizer.from_file(str(file)) if isinstance(file, str | Path) else None
    except Exception:  # noqa: BLE001 not installed, no such name, a damaged file: then it is not here
        return None
    if tokenizer is None:
        return None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return Tokenizers(tokenizer)
