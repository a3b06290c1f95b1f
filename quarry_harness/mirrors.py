"""Where a repository is and how to sign in there: names, URL templates, tokens.

A token is never part of a URL, an argument or a file. Git gets it in the environment, as a header for one host.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from quarry_harness.errors import EnvironmentProblem, InvalidInputError, UsageError
from quarry_harness.git import git_environment, one_line, run_git
from quarry_harness.types import REPOSITORY

DEFAULT_TEMPLATE = "https://github.com/{owner}/{name}.git"
# What GIT_ALLOW_PROTOCOL becomes. A redirect may raise the protection (http to https), never lower it.
PROTOCOLS = {"https": "https", "http": "http:https", "file": "file"}


@dataclass(frozen=True, slots=True)
class Credentials:
    """How to sign in at a private mirror: names of the places where the secret is, never the secret.

    Either `token_variable`, an environment variable that holds a token, or `helper`, a git credential helper as
    `credential.helper` would name it, which runs in the user's own environment.
    """

    token_variable: str = ""
    helper: str = ""
    username: str = "x-access-token"  # goes with the token; GitHub and GitLab take any
    scheme: str = "basic"  # or "bearer"


def repository_url(repo: str, template: str | None = None) -> str:
    """The URL of a repository named `owner__name`, split at the first `__`.

    `template` holds {owner} and {name}; without one it is GitHub's. Schemes: https, http (for loopback and hosts of
    your own) and file (an absolute path). Raises InvalidInputError for a bad name and UsageError for a bad template.
    """
    match = REPOSITORY.fullmatch(repo)
    if match is None:
        raise InvalidInputError(
            f"{one_line(repo, 120)!r} is not a repository's name.",
            "It is written owner__name, with GitHub's characters: letters, digits, '-', '_' and '.'.",
        )
    template = DEFAULT_TEMPLATE if template is None else template
    _check_template(template)
    return template.replace("{owner}", match["owner"]).replace("{name}", match["name"])


def _check_template(template: str) -> None:
    try:
        parts = urlsplit(template)
    except ValueError as error:  # brackets of an IPv6 address that do not match
        raise UsageError("The URL template is no URL: its host cannot be read.", f"As in {DEFAULT_TEMPLATE}") from error
    if "@" in parts.netloc or "?" in template or "#" in template:
        # The template itself is not shown: it may hold a password.
        raise UsageError(
            "The URL template holds a user name, a password, a '?' or a '#'.",
            "Take it out, and name an environment variable that holds the token, or a git credential helper.",
        )
    shown = f"The URL template {one_line(template, 200)!r}"
    if "{owner}" not in template or "{name}" not in template or re.search(r"[{}]", _without_fields(template)):
        raise UsageError(f"{shown} needs {{owner}} and {{name}}, and no other braces.", f"As in {DEFAULT_TEMPLATE}")
    if parts.scheme not in PROTOCOLS:
        raise UsageError(f"{shown} is not https, http or file.", f"As in {DEFAULT_TEMPLATE}")
    if not re.fullmatch(r"[\x21-\x7e\xa0-\U0010ffff]+", template) or "\\" in template:
        raise UsageError(f"{shown} has a space, a control character or '\\'.", "Take it out.")
    if parts.scheme == "file" and (parts.netloc or not parts.path.startswith("/")):
        raise UsageError(f"{shown} has no absolute path.", "As in file:///mirrors/{owner}/{name}.git")
    if parts.scheme != "file" and (not re.fullmatch(r"[A-Za-z0-9.:\[\]-]+", parts.netloc) or parts.netloc[0] == "-"):
        raise UsageError(f"{shown} has no host, or one with strange characters.", f"As in {DEFAULT_TEMPLATE}")


def _without_fields(template: str) -> str:
    return template.replace("{owner}", "").replace("{name}", "")


# What zlib leaves of source code, about.
_DEFLATED = 5


def size_in_mirror(url: str, revisions: Sequence[str], blob_limit_bytes: int) -> int | None:
    """About how many bytes the revisions' objects take in a pack of their own, larger blobs left out; None: unreadable.

    An object that the mirror stores whole, or as a delta against another one of these, is taken to travel as it is
    stored; one that builds on an object that stays behind has to be written anew, whole. `url` is a file URL. Revisions
    that the mirror lacks count nothing.
    """
    path = Path(unquote(urlsplit(url).path))
    git_dir = path / ".git" if (path / ".git").is_dir() else path
    if not git_dir.is_dir():
        return None
    command = ["rev-list", "--objects", "--no-object-names", "--no-walk", "--ignore-missing", "--missing=allow-any"]
    stdin = "".join(f"{revision}\n" for revision in revisions).encode("ascii")
    named = run_git([*command, f"--filter=blob:limit={blob_limit_bytes}", "--stdin"], git_dir=git_dir, stdin=stdin)
    if named.returncode != 0:
        return None
    form = "--batch-check=%(objectname) %(objectsize) %(objectsize:disk) %(deltabase)"
    told = run_git(["cat-file", form, "--buffer"], git_dir=git_dir, stdin=named.stdout)
    rows = [row for line in told.stdout.splitlines() if len(row := line.split()) == 4]
    here = {row[0] for row in rows} | {b"0" * 40}
    return sum(int(disk) if base in here else max(int(disk), int(size) // _DEFLATED) for _, size, disk, base in rows)


def authorization(url: str, credentials: Credentials) -> str:
    """The value of the Authorization header for a URL.

    Raises UsageError where the secret would travel in the clear or the names are unusable, EnvironmentProblem where
    the secret is not there.
    """
    parts = urlsplit(url)
    if parts.scheme == "file":
        raise UsageError(f"{url}: a folder takes no token.", "Leave the credentials out.")
    if parts.scheme == "http" and not re.fullmatch(r"127\.[0-9.]+|localhost|::1", parts.hostname or ""):
        raise UsageError(f"{url}: a token does not travel over http.", "Use https.")
    if bool(credentials.token_variable) == bool(credentials.helper):
        raise UsageError("The credentials name both a token's variable and a helper, or neither.", "Name one.")
    if credentials.helper:
        username, secret = _ask_helper(url, credentials.helper)
    else:
        username, secret = credentials.username, os.environ.get(credentials.token_variable, "")
        if not secret.strip():
            # What does not look like a variable's name may be the token itself, given in the wrong place.
            usual = re.fullmatch(r"[A-Z_][A-Z0-9_]{0,60}", credentials.token_variable)
            name = credentials.token_variable if usual else "that was named"
            raise EnvironmentProblem(f"The environment variable {name} holds no token.", "Set it, and export it.")
        secret = secret.strip()
    if re.search(r"[\x00-\x1f\x7f]", username + secret) or (credentials.scheme == "bearer" and " " in secret):
        raise EnvironmentProblem("The token has a line break or control character.", "Set it again, on one line.")
    if credentials.scheme == "bearer":
        return f"Bearer {secret}"
    if credentials.scheme != "basic":
        raise UsageError(f"{one_line(credentials.scheme, 40)!r} is no scheme.", "It is basic or bearer.")
    return "Basic " + base64.b64encode(f"{username}:{secret}".encode()).decode()


def _ask_helper(url: str, helper: str) -> tuple[str, str]:
    parts = urlsplit(url)
    # The user named this program, so it runs in the user's own environment; git's variables stay out all the same.
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    hermetic = git_environment(config=[("credential.helper", helper)])
    env.update({name: value for name, value in hermetic.items() if name.startswith("GIT_")})
    asked = f"protocol={parts.scheme}\nhost={parts.netloc}\n\n".encode()
    result = run_git(["credential", "fill"], stdin=asked, env=env, timeout_s=120)
    lines = result.stdout.decode("utf-8", "replace").splitlines()
    answer = dict(line.partition("=")[::2] for line in lines)
    if result.returncode != 0 or not answer.get("password"):
        raise EnvironmentProblem(
            f"The credential helper has no password for {parts.scheme}://{parts.netloc}.",
            "Try it by hand: git credential fill",
        )
    return answer.get("username", ""), answer["password"]
