"""The hub room against a loopback server that speaks as much of the hub's protocol as its library asks for."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from conftest import Ended
from git_repos import make_repository
from releases import write_release

from quarry_harness.errors import UsageError
from quarry_harness.hub import hub_source, locate_release

COMMIT = "d3f033b2984fe7ac2d41a484c67bc1ceb2a15c87"
FILES = {
    "README.md": b"not a file of the release\n",
    "RELEASE_MANIFEST.json": b'{"name": "Quarry", "version": "1.0"}\n',
    "data/queries.jsonl": b'{"query": "where"}\n',
    "data/tasks.jsonl": b'{"task": 1}\n',
    "data/gold-preimage.jsonl.gz": b"\x1f\x8b and so on",
    "data/extra.jsonl": b"{}\n",
}
SCRIPT = """
import json, sys
from pathlib import Path
from quarry_harness.errors import QuarryError
from quarry_harness.hub import hub_source, locate_release
cache = Path(sys.argv[2]) if len(sys.argv) > 2 else None
try:
    folder = locate_release(sys.argv[1], cache)
    files = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    print(json.dumps({"folder": str(folder), "files": files, "source": hub_source(folder)}))
except QuarryError as error:
    print(json.dumps({"error": type(error).__name__, "code": error.exit_code, "message": str(error)}))
"""


class Hub(ThreadingHTTPServer):
    """One dataset, a/quarry; what is asked is kept, and refusals can be set: a path's pattern -> (status, headers)."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.asked: list[tuple[str, str, str]] = []
        self.refusals: dict[str, tuple[int, dict[str, str]]] = {}
        self.files = dict(FILES)
        self.commit = COMMIT  # what every name means
        self.cuts: dict[str, int] = {}  # a path's pattern -> how many answers end in the middle
        self.ranges: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Answers(BaseHTTPRequestHandler):
    server: Hub

    def do_HEAD(self) -> None:
        self.answer()

    def do_GET(self) -> None:
        self.answer()

    def log_message(self, *words: object) -> None:
        pass

    def answer(self) -> None:
        path = self.path.partition("?")[0]
        self.server.asked.append((self.command, path, self.headers.get("authorization", "")))
        for pattern, (status, headers) in self.server.refusals.items():
            if re.search(pattern, path):
                return self.send(status, b"{}", headers)
        revision = re.fullmatch("/api/datasets/a/quarry/revision/(main|v1|[0-9a-f]{40})", path)
        if revision:
            return self.send_json({"id": "a/quarry", "sha": self.server.commit, "siblings": []})
        if path == f"/api/datasets/a/quarry/tree/{self.server.commit}":
            return self.send_json(
                [
                    {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}  # noqa: S324
                    for name, data in self.server.files.items()
                ]
            )
        file = re.fullmatch(f"/datasets/a/quarry/resolve/{self.server.commit}/(.+)", path)
        if file and file[1] in self.server.files:
            data = self.server.files[file[1]]
            etag = hashlib.sha1(data).hexdigest()  # noqa: S324
            return self.send_file(path, data, {"X-Repo-Commit": self.server.commit, "ETag": f'"{etag}"'})
        if "/a/quarry" in path:
            return self.send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        return self.send(404, b"{}", {"X-Error-Code": "RepoNotFound"})

    def send_file(self, path: str, data: bytes, headers: dict[str, str]) -> None:
        given = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        start = int(given[1]) if given and self.command == "GET" else 0
        if given:
            self.server.ranges.append(given[0])
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        headers["Accept-Ranges"] = "bytes"
        for pattern, left in self.server.cuts.items():
            if left and self.command == "GET" and re.search(pattern, path):
                self.server.cuts[pattern] -= 1
                self.close_connection = True
                half = data[start : start + (len(data) - start) // 2]
                return self.send(206 if given else 200, half, headers, len(data) - start)
        return self.send(206 if given else 200, data[start:], headers)

    def send_json(self, value: object) -> None:
        self.send(200, json.dumps(value).encode(), {"Content-Type": "application/json"})

    def send(self, status: int, body: bytes, headers: dict[str, str], length: int | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


@contextmanager
def serving() -> Iterator[Hub]:
    with Hub() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serving() as server:
        yield server


def locate(
    ref: str, home: Path, endpoint: str, cache: Path | None = None, **variables: str
) -> tuple[dict[str, object], str]:
    """Returns what `locate_release` did in a process of its own, since the library reads its variables on import."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "HUGGING"))}
    environment |= {"HF_HOME": str(home), "HF_ENDPOINT": endpoint, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}
    environment |= {"PYTHONPATH": str(Path(__file__).parents[1]), "HF_HUB_DISABLE_TELEMETRY": "1"} | variables
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, ref, *([str(cache)] if cache else [])],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def test_only_the_files_of_the_release_are_downloaded_and_the_commit_is_known(hub: Hub, tmp_path: Path) -> None:
    got, stderr = locate("hf://a/quarry", tmp_path, hub.url, HF_TOKEN="hf_of_a_test")
    assert got["files"] == [
        "RELEASE_MANIFEST.json",
        "data/gold-preimage.jsonl.gz",
        "data/queries.jsonl",
        "data/tasks.jsonl",
    ]
    assert got["source"] == ["a/quarry", COMMIT]
    assert (Path(str(got["folder"])) / "data/queries.jsonl").read_bytes() == FILES["data/queries.jsonl"]
    assert {token for _, _, token in hub.asked} == {"Bearer hf_of_a_test"}
    assert stderr == ""  # no bars in a log file, and no token


def test_a_revision_and_a_cache_folder_can_be_named(hub: Hub, tmp_path: Path) -> None:
    got, _ = locate("hf://datasets/a/quarry@v1", tmp_path / "home", hub.url, tmp_path / "cache")
    assert str(got["folder"]).startswith(str(tmp_path / "cache"))
    assert got["source"] == ["a/quarry", COMMIT]
    assert any(path.endswith("/revision/v1") for _, path, _ in hub.asked)


def test_what_is_in_the_cache_needs_no_network_and_what_is_not_says_so(hub: Hub, tmp_path: Path) -> None:
    first, _ = locate("hf://a/quarry", tmp_path, hub.url)
    asked = len(hub.asked)
    again, _ = locate("hf://a/quarry", tmp_path, hub.url, HF_HUB_OFFLINE="1")
    assert again == first
    missing, _ = locate("hf://a/other", tmp_path, hub.url, HF_HUB_OFFLINE="1")
    assert len(hub.asked) == asked
    assert (missing["error"], missing["code"]) == ("EnvironmentProblem", 4)
    assert "HF_HUB_OFFLINE is set" in str(missing["message"])


@pytest.mark.parametrize(
    ("ref", "words"),
    [
        ("hf://nobody/nothing", "hf://nobody/nothing: no such dataset, or it is private. Check the name."),
        ("hf://a/quarry@v9", "hf://a/quarry@v9: the dataset has no such revision."),
    ],
)
def test_what_the_hub_does_not_have(hub: Hub, tmp_path: Path, ref: str, words: str) -> None:
    got, _ = locate(ref, tmp_path, hub.url)
    assert (got["error"], got["code"]) == ("EnvironmentProblem", 4)
    assert str(got["message"]).startswith(words)


@pytest.mark.parametrize(
    ("pattern", "status", "headers", "words"),
    [
        ("^/api", 403, {"X-Error-Code": "GatedRepo"}, "must be asked for on its page. Then: Log in"),
        ("^/api", 401, {}, "Log in with an account that has access, or set HF_TOKEN."),
        ("^/api", 503, {}, "the hub cannot be reached"),
        ("/resolve/", 403, {"X-Error-Code": "GatedRepo"}, "must be asked for on its page"),
    ],
)
def test_refusals_of_the_hub(
    hub: Hub, tmp_path: Path, pattern: str, status: int, headers: dict[str, str], words: str
) -> None:
    hub.refusals[pattern] = (status, headers)
    got, _ = locate("hf://a/quarry", tmp_path, hub.url, HF_TOKEN="hf_of_a_test")
    assert (got["error"], got["code"]) == ("EnvironmentProblem", 4), got
    assert words in str(got["message"])
    assert "hf_of_a_test" not in str(got["message"])


def test_no_network(tmp_path: Path) -> None:
    with serving() as server:
        gone = server.url
    got, _ = locate("hf://a/quarry", tmp_path, gone)
    assert (got["error"], got["code"]) == ("EnvironmentProblem", 4)
    assert "the hub cannot be reached" in str(got["message"])
    assert "Check the network" in str(got["message"])


def test_a_dataset_that_is_no_release(hub: Hub, tmp_path: Path) -> None:
    hub.files = {"README.md": b"something else\n"}
    got, _ = locate("hf://a/quarry", tmp_path, hub.url)
    assert (got["error"], got["code"]) == ("InvalidInputError", 3)
    assert "none of a release's files" in str(got["message"])


def test_a_download_that_breaks_off_is_taken_up_again(hub: Hub, tmp_path: Path) -> None:
    hub.refusals["/resolve/.*/tasks"] = (403, {"X-Error-Code": "GatedRepo"})
    broken, _ = locate("hf://a/quarry", tmp_path, hub.url)
    assert broken["error"] == "EnvironmentProblem"
    hub.refusals.clear()
    got, _ = locate("hf://a/quarry", tmp_path, hub.url)
    assert "data/tasks.jsonl" in list(got["files"])  # type: ignore[call-overload]


def test_a_file_that_breaks_off_is_taken_up_where_it_was(hub: Hub, tmp_path: Path) -> None:
    # The library keeps what it has in pieces of ten million bytes.
    hub.files["data/queries.jsonl"] = b'{"query": "where is it?"}\n' * 1_200_000
    hub.cuts["/resolve/.*/queries"] = 1
    got, stderr = locate("hf://a/quarry", tmp_path, hub.url)
    assert "folder" in got, (got, stderr)
    assert (Path(str(got["folder"])) / "data/queries.jsonl").read_bytes() == hub.files["data/queries.jsonl"]
    assert hub.ranges == ["bytes=10485760-"]


# -- a release of the hub in a workspace: quarry fetch --------------------------------------------------------------


@pytest.fixture
def take(hub: Hub, tmp_path: Path, quarry: Callable[..., Ended]) -> Callable[..., Ended]:
    """Serves a real release from the hub and takes it into tmp_path/w with `quarry fetch`."""
    pins = make_repository(tmp_path / "host" / "o" / "r.git", [{"a.py": b"def f():\n    return 1\n"}])
    serve(hub, write_release(tmp_path / "release", {"o__r": pins}))
    environment = {
        "HF_HOME": str(tmp_path / "home"),
        "HF_ENDPOINT": hub.url,
        "no_proxy": "127.0.0.1",
        "NO_PROXY": "127.0.0.1",
    }

    def fetch(ref: str = "hf://a/quarry", **variables: str) -> Ended:
        mirror = f"file://{tmp_path}/host/{{owner}}/{{name}}.git"
        env = environment | {"HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_OFFLINE": "", "HF_TOKEN": ""} | variables
        return quarry("fetch", "--release", ref, "--mirror", mirror, "-w", tmp_path / "w", env=env)

    return fetch


def serve(hub: Hub, release: Path) -> None:
    hub.files = {str(f.relative_to(release)): f.read_bytes() for f in release.rglob("*") if f.is_file()}


def manifest_of(files: dict[str, bytes]) -> bytes:
    sums = {name: {"sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()}
    return json.dumps({"name": "made", "version": "7.1", "files": sums}).encode()


def another(files: dict[str, bytes]) -> dict[str, bytes]:
    """The same release with another question in it."""
    return files | {"data/queries.jsonl": files["data/queries.jsonl"].replace(b"where is it?", b"where was it?")}


def test_a_release_of_the_hub_is_taken_in_at_its_commit(
    hub: Hub, take: Callable[..., Ended], quarry: Callable[..., Ended], tmp_path: Path
) -> None:
    hub.files["RELEASE_MANIFEST.json"] = manifest_of(hub.files)
    done = take(HF_TOKEN="hf_of_a_test")
    assert done.code == 0, done.err
    assert quarry("status", "-w", tmp_path / "w", "--json").json["release"] == f"hf://a/quarry@{COMMIT}"
    assert {token for _, _, token in hub.asked} == {"Bearer hf_of_a_test"}
    asked = len(hub.asked)
    offline = take(HF_HUB_OFFLINE="1")
    assert offline.code == 0, offline.err
    assert len(hub.asked) == asked
    kept = b"".join(file.read_bytes() for file in (tmp_path / "w").rglob("*") if file.is_file())
    assert b"hf_of_a_test" not in kept + done.out.encode() + done.err.encode()


def test_files_that_are_not_what_the_manifest_says_are_refused_on_arrival(
    hub: Hub, take: Callable[..., Ended], tmp_path: Path
) -> None:
    hub.files = another(hub.files) | {"RELEASE_MANIFEST.json": manifest_of(hub.files)}
    done = take()
    assert done.code == 1
    assert "queries.jsonl checksum (own manifest)" in done.err
    assert "Nothing was taken in" in done.err
    assert not (tmp_path / "w").exists()


def test_what_calls_itself_the_pinned_release_has_to_be_it(
    hub: Hub, take: Callable[..., Ended], tmp_path: Path
) -> None:
    hub.files["RELEASE_MANIFEST.json"] = b'{"name": "Quarry", "version": "1.0"}'
    done = take()
    assert done.code == 1
    assert "(pinned 1.0)" in done.err
    assert not (tmp_path / "w").exists()


@pytest.mark.parametrize("ref", ["hf://a/quarry", f"hf://a/quarry@{COMMIT}"])
def test_a_release_that_changed_under_the_same_commit_is_refused(
    ref: str, hub: Hub, take: Callable[..., Ended], tmp_path: Path
) -> None:
    assert take(ref).code == 0
    hub.files = another(hub.files)
    shutil.rmtree(tmp_path / "home")  # from another cache, or another machine
    done = take(ref)
    assert done.code == 1
    assert f"hf://a/quarry@{COMMIT}: the release has changed" in done.err
    assert "queries.jsonl" in done.err
    assert "tasks.jsonl" not in done.err


def test_a_tag_that_was_moved_is_refused_and_the_newest_is_not(
    hub: Hub, take: Callable[..., Ended], quarry: Callable[..., Ended], tmp_path: Path
) -> None:
    assert take("hf://a/quarry@v1").code == 0
    hub.files = another(hub.files)
    hub.commit = "1" * 40
    done = take("hf://a/quarry@v1")
    assert done.code == 1
    assert f"it was hf://a/quarry@{COMMIT}, now it is hf://a/quarry@{'1' * 40}" in done.err
    assert quarry("status", "-w", tmp_path / "w", "--json").json["release"] == f"hf://a/quarry@{COMMIT}"
    assert take("hf://a/quarry").code == 0


def test_a_folder_is_taken_as_it_is(tmp_path: Path) -> None:
    assert locate_release(str(tmp_path), None) == tmp_path
    assert hub_source(tmp_path) == ("", "")


def test_the_demo_is_a_name() -> None:
    pytest.importorskip("quarry_harness.demo")
    assert (locate_release("demo", None) / "data").is_dir()


@pytest.mark.parametrize(
    "ref", ["", "no/such/folder", "hf://", "hf://quarry", "hf://a/b/c", "hf:a/b", "hf://a/b@", "hf://a/..@x", "demo2"]
)
def test_anything_else_is_refused_with_what_is_accepted(ref: str) -> None:
    with pytest.raises(UsageError, match=r"Accepted: a folder, hf://owner/name\[@revision\]"):
        locate_release(ref, None)


def test_a_file_is_refused_with_its_folder(tmp_path: Path) -> None:
    file = tmp_path / "queries.jsonl"
    file.write_text("{}\n")
    with pytest.raises(UsageError, match=f"this is a file. Give the folder that holds the release: {tmp_path}"):
        locate_release(str(file), None)


def test_the_hub_library_is_not_loaded_for_a_folder(tmp_path: Path) -> None:
    code = (
        "import sys; from quarry_harness.hub import locate_release; locate_release(sys.argv[1], None);"
        "print([name for name in ('huggingface_hub', 'pyarrow') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
