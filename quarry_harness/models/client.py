"""One JSON request after another to a server that may be slow, busy, down for a while, or wrong.

The key goes into one header of a request to the base URL's own host and nowhere else: redirects are not followed, and
what the server says is shown without it.
"""

from __future__ import annotations

import http.client
import json
import random
import ssl
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Any, Protocol
from urllib.parse import urlsplit

from quarry_harness import __version__
from quarry_harness.errors import EnvironmentProblem, UsageError
from quarry_harness.models.registry import Limits


class Clock(Protocol):
    """Time, so that a test need not wait."""

    def now(self) -> float:
        """Returns seconds of a clock that never goes back."""

    def wall(self) -> float:
        """Returns seconds since 1970."""

    def sleep(self, seconds: float) -> None:
        """Waits."""

    def jitter(self) -> float:
        """Returns a number from 0 to 1, another one each time."""


class RealClock:
    """The machine's own time."""

    now = staticmethod(time.monotonic)
    wall = staticmethod(time.time)
    sleep = staticmethod(time.sleep)
    jitter = staticmethod(random.random)


@dataclass(frozen=True, slots=True)
class Patience:
    """How often and how long to try again.

    attempts: of one request, in all. first_attempts: of a request that finds nobody at home before the server has
    answered at all, since then the address is likely to be wrong. longest_hint_s: a server that wants a longer wait
    than this (a spent daily quota) ends the work.
    """

    attempts: int = 12
    first_attempts: int = 3
    first_wait_s: float = 1.0
    longest_wait_s: float = 120.0
    longest_hint_s: float = 1800.0


MAX_ANSWER_BYTES = 1 << 30


class RefusedError(Exception):
    """The server refuses what the request holds: too much of it, or a text; `too_large` is whether it says too much."""

    def __init__(self, message: str, *, too_large: bool) -> None:
        super().__init__(message)
        self.too_large = too_large


class _AgainError(Exception):
    """A failure that another attempt may mend.

    hint_s: the wait that the server asks for. paid: the request had arrived and was not refused.
    """

    def __init__(self, reason: str, *, hint_s: float = 0.0, nobody_home: bool = False, paid: bool = False) -> None:
        super().__init__(reason)
        self.hint_s = hint_s
        self.nobody_home = nobody_home
        self.paid = paid


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_arguments: Any, **_named: Any) -> None:
        return None


class Client:
    """Posts JSON to one server at a checked_url.

    `who` names the model in messages, `key_env` the variable that the key came from. `pay_again` is told of the tokens
    of a request before it is sent once more after an attempt that may cost; it may refuse by raising.
    """

    def __init__(
        self,
        base_url: str,
        who: str,
        limits: Limits,
        *,
        key: str = "",
        key_env: str = "",
        timeout_s: float = 300.0,
        patience: Patience | None = None,
        clock: Clock | None = None,
        pay_again: Callable[[int], None] | None = None,
    ) -> None:
        self.base_url = base_url
        self._who = who
        self._limits = limits
        self._key = key
        self._key_env = key_env
        self._timeout_s = timeout_s
        self._patience = patience or Patience()
        self._clock = clock or RealClock()
        self._pay_again = pay_again
        self._answered = False
        self._sent: deque[tuple[float, int]] = deque()  # when, and tokens, of the last minute's requests
        self._open = urllib.request.build_opener(_NoRedirect).open

    def post(self, path: str, document: dict[str, Any], tokens: int, accept: Callable[[Any], Any]) -> Any:
        """Returns what `accept` makes of the answer to a request of about so many tokens.

        accept: raises ValueError for an answer that is not what was asked for; it is asked for once more, and then
        the work ends. Raises RefusedError, and EnvironmentProblem where trying again does not help.
        """
        spoiled = 0
        for attempt in range(1, self._patience.attempts + 1):
            self._keep_pace(tokens)
            try:
                return accept(self._ask(path, document))
            except ValueError as error:
                spoiled += 1
                reason, problem = f"the answer is not usable: {error}", _AgainError("", paid=True)
                last = spoiled > 1
            except _AgainError as error:
                reason, problem = str(error), error
                last = attempt >= (self._patience.first_attempts if self._is_lost(error) else self._patience.attempts)
            wait = self._wait(attempt, problem.hint_s)
            if last or problem.hint_s > self._patience.longest_hint_s:
                break
            if problem.paid and self._pay_again is not None:
                self._pay_again(tokens)
            self._clock.sleep(wait)
        asked = f" It asks for a wait of {problem.hint_s:.0f} s." if problem.hint_s else ""
        raise EnvironmentProblem(
            f"{self._who}: {self.base_url}: {reason}, at attempt {attempt}.{asked}",
            "What is embedded already is kept; the same command goes on when the server answers again.",
        )

    def _is_lost(self, error: _AgainError) -> bool:
        return error.nobody_home and not self._answered

    def _wait(self, attempt: int, hint_s: float) -> float:
        """Twice as long each time, and not less than the server asks for; a part by chance, so that many do not meet.

        A server that always asks for a second only would else use up all attempts in a few.
        """
        longest: float = min(self._patience.longest_wait_s, self._patience.first_wait_s * 2 ** (attempt - 1))
        jitter = self._clock.jitter()
        return max(longest * (0.5 + jitter / 2), hint_s + jitter if hint_s else 0.0)

    def _keep_pace(self, tokens: int) -> None:
        """Waits until a request of so many tokens fits into the minute."""
        while True:
            now = self._clock.now()
            while self._sent and self._sent[0][0] <= now - 60:
                self._sent.popleft()
            requests = self._limits.requests_per_minute
            per_minute = self._limits.tokens_per_minute
            many = requests and len(self._sent) >= requests
            much = per_minute and self._sent and sum(size for _, size in self._sent) + tokens > per_minute
            if not (many or much):
                break
            self._clock.sleep(max(0.001, self._sent[0][0] + 60 - now))
        self._sent.append((now, tokens))

    def _ask(self, path: str, document: dict[str, Any]) -> Any:
        """One attempt: the answer's JSON, or what went wrong."""
        headers = {"Content-Type": "application/json", "User-Agent": f"quarry-harness/{__version__}"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        body = json.dumps(document).encode()
        request = urllib.request.Request(f"{self.base_url}/{path}", body, headers)  # noqa: S310 scheme is checked
        try:
            with self._open(request, timeout=self._timeout_s) as response:
                data = self._read(response)
        except urllib.error.HTTPError as error:
            with error:
                self._answered = True
                raise self._refusal(error.code, error.headers, _body_of(error)) from None
        except urllib.error.URLError as error:
            raise self._unreachable(error.reason) from None
        except (OSError, http.client.HTTPException) as error:
            # The request has been sent: a failure until then is a URLError.
            raise self._unreachable(error, paid=True) from None
        self._answered = True
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            start = self._clean(data[:200].decode("utf-8", "replace"))
            raise _AgainError(f"the answer is no JSON: {start}", paid=True) from None

    def _read(self, response: Any) -> bytes:
        """The whole answer, within the time and the size that an answer may have."""
        end = self._clock.now() + self._timeout_s
        parts: list[bytes] = []
        size = 0
        while part := response.read1(1 << 20):
            parts.append(part)
            size += len(part)
            if size > MAX_ANSWER_BYTES:
                raise EnvironmentProblem(f"{self._who}: {self.base_url}: the answer has more than {size} bytes.")
            if self._clock.now() > end:
                raise TimeoutError("the answer takes too long")
        expected = response.headers.get("Content-Length")
        if expected is not None and expected.isdigit() and size < int(expected):
            raise _AgainError("the connection broke off in the middle of the answer", paid=True)
        return b"".join(parts)

    def _unreachable(self, reason: object, *, paid: bool = False) -> Exception:
        """What a failure below HTTP means."""
        if isinstance(reason, ssl.SSLCertVerificationError):
            return EnvironmentProblem(
                f"{self._who}: {self.base_url}: its certificate is not trusted ({self._clean(str(reason))}).",
                "Set SSL_CERT_FILE to your own authority's file, if it is one.",
            )
        if isinstance(reason, TimeoutError):
            return _AgainError(f"no answer within {self._timeout_s:g} s", nobody_home=True, paid=paid)
        # Refused, unknown or unroutable at once; not a connection that was there and broke.
        broke = isinstance(reason, ConnectionResetError | BrokenPipeError | http.client.HTTPException)
        words = self._clean(str(reason)) or type(reason).__name__
        return _AgainError(f"the connection failed: {words}", nobody_home=not broke, paid=paid)

    def _refusal(self, status: int, headers: Message, body: bytes) -> Exception:  # noqa: PLR0911 a status a line
        """What a status that is not 200 means."""
        said, code = _error_of(body)
        what = f"{self._who}: {self.base_url} says {status}"
        what += f": {self._clean(said)}" if said else "."
        if 300 <= status < 400:
            place = urlsplit(headers.get("Location", ""))
            return EnvironmentProblem(
                f"{self._who}: {self.base_url} redirects to {self._clean(f'{place.scheme}://{place.hostname}')}"
                " and a key does not travel along.",
                "Give the server's own address as the base URL.",
            )
        if status in (401, 403):
            named = f"Check the key in {self._key_env}" if self._key_env else "Name the key's variable: --key-env NAME"
            return EnvironmentProblem(what, f"{named}, and that it may use this model.")
        if status == 402 or code in ("insufficient_quota", "billing_hard_limit_reached"):
            return EnvironmentProblem(what, "The account's quota or credit is spent; what is embedded already is kept.")
        if status == 404:
            return EnvironmentProblem(what, "Check the model's name and the base URL (it usually ends with /v1).")
        if status in (400, 413, 422):
            return RefusedError(what, too_large=status == 413 or _is_about_size(said))
        if status in (408, 409, 425, 429) or status >= 500:
            return _AgainError(f"the server says {status}: {self._clean(said)}", hint_s=self._hint(headers))
        return EnvironmentProblem(what, "The server refuses this request; another attempt would not change that.")

    def _hint(self, headers: Message) -> float:
        """The wait of a Retry-After header, in seconds or as a date (RFC 9110); 0 without one."""
        value = (headers.get("Retry-After") or "").strip()
        try:
            return max(0.0, float(value)) if value else 0.0
        except ValueError:
            pass
        try:
            date = parsedate_to_datetime(value)
        except ValueError:
            return 0.0
        aware: datetime = date if date.tzinfo else date.replace(tzinfo=UTC)
        return max(0.0, aware.timestamp() - self._clock.wall())

    def _clean(self, words: str) -> str:
        """A server's words on one line, short, and without the key that it may repeat."""
        if self._key:
            words = words.replace(self._key, "***")
        line = " ".join("".join(c if c.isprintable() else " " for c in words).split())
        return line if len(line) <= 300 else f"{line[:297]}..."


def checked_url(url: str) -> str:
    """Returns a base URL without its final slash; UsageError where it is none, or holds a password."""
    try:
        parts = urlsplit(url)
        named = bool(parts.hostname) and parts.port != 0 and url.isascii() and url.isprintable() and " " not in url
    except ValueError:  # a port that is no number, half an IPv6 address
        named = False
    if not named or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
        raise UsageError(
            "The base URL is not one.", "For example: --base-url http://localhost:11434/v1 or https://host/v1"
        )
    if "@" in parts.netloc:
        raise UsageError(
            f"The base URL of {parts.hostname} holds a user name or a password.",
            "Leave it out, and name the variable that holds the key: --key-env NAME",
        )
    return url.rstrip("/")


def _body_of(error: urllib.error.HTTPError) -> bytes:
    try:
        return error.read(1 << 16)
    except (OSError, http.client.HTTPException):
        return b""


def _error_of(body: bytes) -> tuple[str, str]:
    """The words and the code of an error, in the forms that servers use; the bare text where it is no JSON."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return body.decode("utf-8", "replace"), ""
    if not isinstance(document, dict):
        return str(document), ""
    error = document.get("error", document)
    if isinstance(error, dict):
        words = error.get("message") or error.get("detail") or error.get("msg") or error
        return str(words), str(error.get("code") or error.get("type") or "")
    return str(error), str(document.get("error_type") or "")


def _is_about_size(words: str) -> bool:
    """Whether a refusal is about how much was sent at once, or about a text that is too long."""
    lower = words.lower()
    much = ("too large", "too many", "too long", "maximum", "exceed", "at most", "limit", "longer than")
    of = ("token", "batch", "length", "context", "payload", "too long", "too large")
    policy = any(word in lower for word in ("policy", "policies", "safety", "moderation", "filter"))
    return not policy and any(word in lower for word in much) and any(word in lower for word in of)
