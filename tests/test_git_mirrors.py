"""Names, URL templates and credentials."""

from __future__ import annotations

from base64 import b64decode
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarry_harness.errors import EnvironmentProblem, InvalidInputError, UsageError
from quarry_harness.mirrors import Credentials, authorization, repository_url

URL = "https://git.example.org/a/b.git"


@pytest.mark.parametrize(
    ("repo", "template", "url"),
    [
        ("quic-go__quic-go", None, "https://github.com/quic-go/quic-go.git"),
        ("a__b__c", None, "https://github.com/a/b__c.git"),
        ("a___b", None, "https://github.com/a/_b.git"),
        ("org__.github", None, "https://github.com/org/.github.git"),
        ("a__b", "file:///mirrors/{owner}+{name}/repo", "file:///mirrors/a+b/repo"),
        ("a__b", "http://127.0.0.1:8080/{owner}/{name}", "http://127.0.0.1:8080/a/b"),
    ],
)
def test_url(repo: str, template: str | None, url: str) -> None:
    assert repository_url(repo, template) == url


@pytest.mark.parametrize(
    "repo",
    ["", "a", "a_b", "a/b", "__b", "a__", "-a__b", "a__-b", "a__..", "a__.", "a__b..c", "a__b/c", "a__b c", "..__b",
     "a__b\n", "a__b@c", "a__{owner}", "ä__b", "a__" + "b" * 101],
)  # fmt: skip
def test_bad_names(repo: str) -> None:
    with pytest.raises(InvalidInputError, match="not a repository's name"):
        repository_url(repo)


@pytest.mark.parametrize(
    "template",
    ["", "{owner}/{name}", "ext::sh -c x {owner}{name}", "ext://{owner}/{name}", "ssh://h/{owner}/{name}",
     "git://h/{owner}/{name}", "--upload-pack=x{owner}{name}", "https://h/{owner}", "https://h/{name}",
     "https://h/{owner}/{name}/{branch}", "https://h/{owner.__class__}/{owner}{name}", "https://h/{owner}/{name}?t=1",
     "https://h/{owner}/{name}#x", "https://h/{owner}/{name} x", "https://h/\n{owner}/{name}", "https:///{owner}/{name}",
     "https://-oProxy/{owner}/{name}", "https://{owner}/{name}", "file://host/{owner}/{name}", "file:{owner}/{name}",
     "file:///\\{owner}/{name}"],
)  # fmt: skip
def test_bad_templates(template: str) -> None:
    with pytest.raises(UsageError, match="template"):
        repository_url("a__b", template)


def test_password_in_a_template_is_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError, match="password") as caught:
        repository_url("a__b", "https://me:s3cret@h/{owner}/{name}")
    assert "s3cret" not in str(caught.value)
    assert "environment variable" in caught.value.hint


@given(
    st.text(st.characters(codec="utf-8"), max_size=40) | st.from_regex(r"[-.a-z_]{1,6}__[-./a-z_]{1,6}", fullmatch=True)
)
def test_any_name_is_refused_or_stays_one_repository(repo: str) -> None:
    try:
        url = repository_url(repo)
    except InvalidInputError:
        return
    owner, _, name = repo.partition("__")
    assert urlsplit(url).path == f"/{owner}/{name}.git"
    assert urlsplit(url).netloc == "github.com"
    assert not name.startswith("-")
    assert ".." not in name


def test_token_becomes_a_header(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", " t0ken\n")
    value = authorization(URL, Credentials(token_variable="MY_TOKEN"))
    assert b64decode(value.removeprefix("Basic ")) == b"x-access-token:t0ken"
    assert authorization(URL, Credentials(token_variable="MY_TOKEN", scheme="bearer")) == "Bearer t0ken"
    assert authorization("http://127.0.0.1:1/a", Credentials(token_variable="MY_TOKEN"))
    assert "t0ken" not in repr(Credentials(token_variable="MY_TOKEN"))


@pytest.mark.parametrize(
    ("url", "credentials", "error", "words"),
    [
        (URL, Credentials(token_variable="NOT_SET"), EnvironmentProblem, "NOT_SET"),
        (URL, Credentials(token_variable="TWO_LINES"), EnvironmentProblem, "line break"),
        (URL, Credentials(token_variable="MY_TOKEN", helper="store"), UsageError, "both"),
        (URL, Credentials(), UsageError, "neither"),
        (URL, Credentials(token_variable="MY_TOKEN", scheme="digest"), UsageError, "digest"),
        ("http://git.example.org/a", Credentials(token_variable="MY_TOKEN"), UsageError, "https"),
        ("http://127.0.0.1.example.org/a", Credentials(token_variable="MY_TOKEN"), UsageError, "https"),
        ("file:///a", Credentials(token_variable="MY_TOKEN"), UsageError, "folder"),
        (URL, Credentials(helper="!false"), EnvironmentProblem, "no password"),
    ],
)
def test_unusable_credentials(
    url: str, credentials: Credentials, error: type[Exception], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "t0ken")
    monkeypatch.setenv("TWO_LINES", "t0\r\nken")
    with pytest.raises(error, match=words) as caught:
        authorization(url, credentials)
    assert "t0" not in str(caught.value)


def test_helper_runs_in_the_users_environment_and_is_asked_for_one_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "helper"
    script.write_text(f'#!/bin/sh\ncat > {tmp_path}/asked\necho "username=$WHO"\necho password=s3cret\n')
    script.chmod(0o755)
    monkeypatch.setenv("WHO", "me")
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'credential.helper=!echo password=other'")
    value = authorization(URL, Credentials(helper=str(script)))
    assert b64decode(value.removeprefix("Basic ")) == b"me:s3cret"
    assert set((tmp_path / "asked").read_text().split()) >= {"protocol=https", "host=git.example.org"}
