"""A real HTTP server on loopback that speaks OpenAI's embeddings protocol, and Voyage's, and can be told to misbehave.

The vector of a text depends on the text (and on Voyage's input_type) alone, so any run that ends well can be compared
with an undisturbed one.
"""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
from numpy.typing import NDArray

NATIVE_DIMENSION = 8
KEY = "sk-test-0123456789abcdef"
Answer = dict[str, Any]


def vector_of(text: str, input_type: str = "", dimension: int = NATIVE_DIMENSION) -> NDArray[np.float32]:
    """The vector that the server gives a text, of length 1, cut to a dimension as Matryoshka models are."""
    digest = hashlib.sha256(f"{input_type}|{text}".encode()).digest()
    whole = np.frombuffer(digest, dtype=np.uint8)[:NATIVE_DIMENSION].astype(np.float64) - 127.5
    cut = whole[:dimension]
    return (cut / np.linalg.norm(cut)).astype(np.float32)


class EmbeddingServer:
    """Use as a context manager. `script`: one entry a request, in order; None or nothing left: a good answer.

    An entry is (status, headers, document), or a function that changes the good answer's document, or "cut" (the
    connection breaks in the middle of the answer), "drop" (it breaks before), ("slow", seconds) or "noise" (no JSON).
    """

    def __init__(self, script: list[Any] | None = None, *, key: str = "", form: str = "float") -> None:
        self.script = list(script or [])
        self.key = key
        self.form = form
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.texts_embedded = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> EmbeddingServer:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.requests.append(body)
                outer.headers.append(dict(self.headers))
                with suppress(BrokenPipeError, ConnectionResetError):
                    outer.answer(self, body)

            def log_message(self, *_arguments: object) -> None:
                pass

        return Handler

    def answer(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        entry = self.script.pop(0) if self.script else None
        if self.key and handler.headers.get("Authorization") != f"Bearer {self.key}":
            entry = (401, {}, {"error": {"message": f"Wrong key: {handler.headers.get('Authorization')}"}})
        if isinstance(entry, tuple) and entry[0] != "slow":
            status, headers, document = entry
            send(handler, status, headers, json.dumps(document).encode())
            return
        if entry == "drop":
            handler.connection.shutdown(socket.SHUT_RDWR)
            return
        document = self.good(handler.path, body)
        if callable(entry):
            change: Callable[[Answer], Answer] = entry
            document = change(document)
        data = json.dumps(document).encode()
        if entry == "noise":
            data = b"<html>we are having tea</html>"
        if isinstance(entry, tuple):
            time.sleep(entry[1])
        send(handler, 200, {}, data, cut=entry == "cut")

    def good(self, path: str, body: dict[str, Any]) -> Answer:
        assert path == "/v1/embeddings"
        voyage = "output_dimension" in body
        dimension = body.get("output_dimension" if voyage else "dimensions") or NATIVE_DIMENSION
        vectors = [vector_of(text, body.get("input_type", ""), dimension) for text in body["input"]]
        self.texts_embedded += len(vectors)
        shown = [base64.b64encode(v.tobytes()).decode() if self.form == "base64" else v.tolist() for v in vectors]
        data = [{"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(shown)]
        return {"object": "list", "data": data, "model": body["model"], "usage": {"total_tokens": 7}}


def send(handler: BaseHTTPRequestHandler, status: int, headers: dict[str, str], data: bytes, cut: bool = False) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data[: len(data) // 2] if cut else data)
    handler.wfile.flush()
    if cut:
        handler.connection.shutdown(socket.SHUT_RDWR)
