"""A real smart-HTTP git server on loopback: Python's http.server in front of `git http-backend`, and switches to fail.

with SmartServer(root) as server:          # every repository below `root`
    server.fail("503", times=2)            # spoils the next two requests
    fetch_pins("a__b", pins, folder, server.template)
"""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
import threading
from base64 import b64encode
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType


@dataclass
class Fault:
    """One way to spoil answers.

    kind: a status code; "stall" (half an answer, then silence), "cut" (the connection ends inside the answer),
    "truncated" (the answer ends early and says that this is all), "garbled" (bytes of the pack are changed),
    "dumb" (what a plain file server sends), "endless" (progress messages without end).
    """

    kind: str
    times: int  # how many answers; negative is all
    method: str  # GET, POST or "" for both
    under: str  # the path has to hold it
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    authorization: str
    host: str
    body: bytes


class SmartServer:
    """`template` goes to fetch_pins; `seen` and `sent_bytes` tell what happened."""

    def __init__(
        self, root: Path, *, allow_filter: bool = True, protocol_v0: bool = False, certificate: Path | None = None
    ) -> None:
        self.root = root
        self.allow_filter = allow_filter
        self.protocol_v0 = protocol_v0
        self.authorization = ""  # when set, every request has to bring exactly this
        self.renamed: dict[str, str] = {}  # /old -> /new or http://elsewhere/new
        self.faults: list[Fault] = []
        self.seen: list[Seen] = []
        self.sent_bytes = 0
        self.stop = threading.Event()
        self.gate = threading.Event()  # while it is cleared, requests wait
        self.gate.set()
        self.lock = threading.Lock()
        self.http = _Http(("127.0.0.1", 0), _Handler)
        self.http.daemon_threads = True
        self.http.smart = self  # type: ignore[attr-defined]
        self.port = self.http.server_address[1]
        if certificate:  # a file with the key and the certificate of 127.0.0.1
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.http.socket = context.wrap_socket(self.http.socket, server_side=True)
        self.template = f"{'https' if certificate else 'http'}://127.0.0.1:{self.port}/{{owner}}/{{name}}.git"

    def __enter__(self) -> SmartServer:
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop.set()
        self.gate.set()
        self.http.shutdown()
        self.http.server_close()

    def fail(self, kind: str, times: int = -1, *, method: str = "", under: str = "", **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.faults.append(Fault(kind, times, method, under, named))

    def recover(self) -> None:
        self.faults.clear()

    def require_password(self, username: str, password: str) -> None:
        self.authorization = "Basic " + b64encode(f"{username}:{password}".encode()).decode()

    def take_fault(self, method: str, path: str) -> Fault | None:
        with self.lock:
            for fault in self.faults:
                if fault.times and fault.method in ("", method) and fault.under in path:
                    fault.times -= 1
                    return fault
        return None


class _Http(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is part of the tests; anything else is shown."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._serve(b"")

    def do_POST(self) -> None:
        if self.headers.get("Transfer-Encoding", "") != "chunked":
            return self._serve(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return self._serve(body)

    def log_message(self, *_: object) -> None:
        """Keeps the tests' output to the tests."""

    def _serve(self, body: bytes) -> None:
        smart: SmartServer = self.server.smart  # type: ignore[attr-defined]
        given = self.headers.get("Authorization", "")
        with smart.lock:
            smart.seen.append(Seen(self.command, self.path, given, self.headers.get("Host", ""), body))
        smart.gate.wait(30)
        fault = smart.take_fault(self.command, self.path)
        if fault and fault.kind.isdigit():
            return self._answer(int(fault.kind), fault.headers, b"")
        for old, new in smart.renamed.items():
            if self.path.startswith(old + "/"):
                return self._answer(301, {"Location": new + self.path[len(old) :]}, b"")
        if smart.authorization and given != smart.authorization:
            return self._answer(401, {"WWW-Authenticate": 'Basic realm="mirror"'}, b"")
        if fault and fault.kind == "dumb":
            return self._answer(200, {"Content-Type": "text/plain"}, b"")
        status, headers, content = self._backend(smart, body)
        if fault:
            return self._spoil(smart, fault, headers, content)
        return self._answer(status, headers, content)

    def _backend(self, smart: SmartServer, body: bytes) -> tuple[int, dict[str, str], bytes]:
        path, _, query = self.path.partition("?")
        settings = [("uploadpack.allowFilter", "true" if smart.allow_filter else "false")]
        env = {
            "PATH": os.environ["PATH"],
            "HOME": "/dev/null/home",
            "LC_ALL": "C",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_PROJECT_ROOT": str(smart.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_CONFIG_COUNT": str(len(settings)),
        }
        if not smart.protocol_v0:
            env["GIT_PROTOCOL"] = self.headers.get("Git-Protocol", "")
        for index, (key, value) in enumerate(settings):
            env |= {f"GIT_CONFIG_KEY_{index}": key, f"GIT_CONFIG_VALUE_{index}": value}
        done = subprocess.run(["git", "http-backend"], input=body, capture_output=True, env=env, check=False)
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode("latin-1").split("\r\n") if ": " in line)
        status = int(headers.pop("Status", "200").split()[0])
        return status, headers, content

    def _answer(self, status: int, headers: dict[str, str], content: bytes, length: int | None = None) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content) if length is None else length))
        self.end_headers()
        self.wfile.write(content)
        self.server.smart.sent_bytes += len(content)  # type: ignore[attr-defined]

    def _spoil(self, smart: SmartServer, fault: Fault, headers: dict[str, str], content: bytes) -> None:
        half = content[: len(content) // 2]
        if fault.kind == "truncated":
            self._answer(200, headers, half)
        elif fault.kind == "garbled":
            # Inside the pack's data, past the lengths of the packet lines and away from the text before it.
            at = len(content) - min(len(content) // 4, 3000)
            self._answer(
                200, headers, content[:at] + bytes(255 - byte for byte in content[at : at + 8]) + content[at + 8 :]
            )
        elif fault.kind == "cut":
            self._answer(200, headers, half, len(content))
            self.close_connection = True
        elif fault.kind == "stall":
            self._answer(200, headers, half, len(content))
            self.wfile.flush()
            smart.stop.wait(30)
            self.close_connection = True
        elif fault.kind == "endless":
            self._endless(smart, headers)
        else:
            raise ValueError(fault.kind)

    def _endless(self, smart: SmartServer, headers: dict[str, str]) -> None:
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        said = b"\x02" + b"still counting\n" * 1000
        packet = b"%04x" % (len(said) + 4) + said
        try:
            self._chunk(b"000dpackfile\n")
            while not smart.stop.is_set():
                self._chunk(packet)
        except OSError:
            self.close_connection = True

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n" % len(data) + data + b"\r\n")
