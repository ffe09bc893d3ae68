"""A web server that attends over the keys of each session, marks no step, and never forgets a session.

python serve_sessions.py SESSIONS REQUESTS_OF_EACH
"""

from __future__ import annotations

import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

import torch

WIDTH = 64


class Sessions:
    """All that the server knows of its clients."""

    def __init__(self) -> None:
        self.keys: dict[str, torch.Tensor] = {}
        self.weight = torch.eye(WIDTH)

    def answer(self, name: str) -> float:
        """One request: a key more, and attention over all of them."""
        key = torch.ones(1, WIDTH) @ self.weight
        known = self.keys.get(name)
        self.keys[name] = key if known is None else torch.cat([known, key])
        scores = torch.softmax(self.keys[name] @ key.T, dim=0)
        return float((scores * self.keys[name]).sum())


SESSIONS = Sessions()


class Handler(BaseHTTPRequestHandler):
    """Answers GET /SESSION."""

    def do_GET(self) -> None:
        """Answer."""
        text = str(SESSIONS.answer(self.path[1:])).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


def main(sessions: int, requests: int) -> None:
    """Serve on a free port, and be the clients as well."""
    torch.set_num_threads(1)
    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    for number in range(sessions * requests):
        urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/{number // requests}").read()
    server.shutdown()
    thread.join()
    server.server_close()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
