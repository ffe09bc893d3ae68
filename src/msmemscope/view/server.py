"""The local server of the viewer: it answers its own page and nobody else, and writes nothing."""

from __future__ import annotations

import contextlib
import hmac
import json
import mimetypes
import secrets
import socket
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

import anyio.to_thread
import uvicorn
from starlette.applications import Starlette
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from msmemscope.errors import MissingInputError, MsmemscopeError, UsageError
from msmemscope.launch import messages
from msmemscope.launch.faults import faults_as_errors
from msmemscope.view.answers import Answers
from msmemscope.view.parameters import Parameters
from msmemscope.view.queries.frame import MEDIA_TYPE, Frame

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from msmemscope.view.downloads import Download
    from msmemscope.view.queries.process_view import ProcessView

HOST: Final = "127.0.0.1"
_NAMES: Final = ("127.0.0.1", "localhost", "[::1]")
"""The accepted names of the host: a name that leads here from outside is none of these."""
_FILES: Final = ("index.html", "app.js", "app.css")
_POLICY: Final = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' blob: data:",
    "connect-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
}
"""The policy of the page: what it may load, and what may be done with it."""
_HEADERS: Final = {
    "Content-Security-Policy": "; ".join(f"{kind} {sources}" for kind, sources in _POLICY.items()),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_BAD_REQUEST, _FORBIDDEN, _NOT_FOUND, _NOT_ALLOWED, _FAULT = 400, 403, 404, 405, 500


class Viewer:
    """The server of one session.

    Args:
        processes: The processes to show.
        port: Of the address; 0 for any that is free.

    Raises:
        UsageError: The port is taken.
    """

    def __init__(self, processes: Sequence[ProcessView], port: int = 0) -> None:
        """Take the port: from here on the address is known."""
        self.token = secrets.token_urlsafe(24)
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((HOST, port))
        except OSError as error:
            self._socket.close()
            message = f"cannot be used: {error.strerror}"
            raise UsageError(
                message, option="--port", value=str(port), accepted="a free one", hint="--port=0 chooses one"
            ) from error
        self.port: int = self._socket.getsockname()[1]
        self.application = _guarded(_application(Answers(processes)), self.token, self.port)

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://{HOST}:{self.port}/{self.token}/"

    def serve(self, is_ready: Callable[[], None]) -> None:
        """Answer until the process is interrupted.

        Args:
            is_ready: Called when questions are taken.
        """
        configuration = uvicorn.Config(
            self.application, log_config=None, access_log=False, server_header=False, date_header=False, lifespan="off",
            timeout_graceful_shutdown=1,
        )  # fmt: skip
        server = _Server(configuration, is_ready)
        with contextlib.closing(self._socket), contextlib.suppress(KeyboardInterrupt):
            server.run(sockets=[self._socket])


class _Server(uvicorn.Server):
    def __init__(self, configuration: uvicorn.Config, is_ready: Callable[[], None]) -> None:
        super().__init__(configuration)
        self._is_ready = is_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._is_ready()


def _guarded(application: ASGIApp, token: str, port: int) -> ASGIApp:
    """Let only those through who know the token, and who ask this host, from its own page or from none.

    Any page that a browser shows can send requests to this port: it must not learn anything by that. A name that its owner
    lets lead to this host (DNS rebinding) is not one of ours.
    """
    hosts = {f"{name}:{port}".encode() for name in _NAMES}
    origins = {b"http://" + host for host in hosts}

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        given: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            given.setdefault(name, []).append(value)
        is_ours = (
            len(given.get(b"host", [])) == 1
            and given[b"host"][0] in hosts
            and all(origin in origins for origin in given.get(b"origin", []))
            and (
                all(site in {b"same-origin", b"none"} for site in given.get(b"sec-fetch-site", [])) or _is_opened(given)
            )
        )
        first, separator, rest = scope["path"].removeprefix("/").partition("/")
        if not is_ours or not separator or not hmac.compare_digest(first.encode(), token.encode()):
            await _failure("this address is not known here", _FORBIDDEN)(scope, receive, send)
            return
        if scope["method"] not in {"GET", "HEAD"}:
            await _failure("only GET and HEAD are answered", _NOT_ALLOWED)(scope, receive, send)
            return
        await application({**scope, "path": f"/{rest}", "raw_path": None}, receive, send)

    return guarded


def _is_opened(given: dict[bytes, list[bytes]]) -> bool:
    """Whether somebody follows a link to the page, as out of a notebook: the page is shown, and nobody else reads it."""
    return given.get(b"sec-fetch-mode") == [b"navigate"] and given.get(b"sec-fetch-dest") == [b"document"]


def _application(answers: Answers) -> Starlette:
    limiter = anyio.CapacityLimiter(4)  # answers are worked out on a few threads; a page asks for several at once

    async def answer(request: Request) -> Response:
        given = Parameters(request.query_params)
        name = request.path_params["name"]
        response: Response = await anyio.to_thread.run_sync(_answered, answers, name, given, limiter=limiter)
        return response

    async def file(request: Request) -> Response:
        return _file(request.path_params.get("name") or "index.html")

    async def nothing(request: Request) -> Response:
        return _failure(f"there is nothing at {request.url.path[:80]!r}", _NOT_FOUND)

    routes = [Route("/api/{name}", answer), Route("/", file), Route("/{name}", file), Route("/{rest:path}", nothing)]
    return Starlette(routes=routes)


def _answered(answers: Answers, name: str, given: Parameters) -> Response:
    try:
        with faults_as_errors(during=f"api/{name}", send="what was shown"):
            if name == "download":
                return _download(answers.download(given))
            if name not in answers.by_name:
                return _failure(f"there is no question {name[:80]!r}", _NOT_FOUND)
            found = answers.by_name[name](given)
            if isinstance(found, Frame):
                return _response(found.to_bytes(), MEDIA_TYPE)
            return _response(json.dumps(found).encode(), "application/json")
    except MissingInputError as error:
        return _failure(error.message, _NOT_FOUND, error.hint)
    except UsageError as error:
        return _failure(error.message, _BAD_REQUEST, error.hint)
    except MsmemscopeError as error:
        messages.warning(error.message, error.hint)
        return _failure(error.message, _FAULT, error.hint)


def _download(download: Download) -> Response:
    headers = {**_HEADERS, "Content-Disposition": f'attachment; filename="{download.name}"'}
    if download.byte_count is not None:
        headers["Content-Length"] = str(download.byte_count)
    media_type = mimetypes.guess_type(download.name)[0] or "application/octet-stream"
    return StreamingResponse(download.content, headers=headers, media_type=media_type)


def _file(name: str) -> Response:
    if name not in _FILES:
        return _failure(f"there is no file {name[:80]!r}", _NOT_FOUND)
    content = (resources.files("msmemscope.view") / "static" / name).read_bytes()
    return _response(
        content, {"html": "text/html", "js": "text/javascript", "css": "text/css"}[name.rpartition(".")[2]]
    )


def _response(content: bytes, media_type: str, headers: dict[str, str] | None = None, status: int = 200) -> Response:
    return Response(content, status, {**_HEADERS, **(headers or {})}, media_type)


def _failure(message: str, status: int, hint: str | None = None) -> Response:
    content: dict[str, Any] = {"error": {"message": message, "hint": hint}}
    return _response(json.dumps(content).encode(), "application/json", status=status)
