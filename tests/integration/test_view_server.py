"""`msmemscope view` as a user starts it: who is answered, what is kept, and how it ends."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

pytest.importorskip("uvicorn", reason="needs starlette and uvicorn: pip install 'msmemscope[view]'")

from tests.support.recorded_runs import KEEPING_LINE, KEPT_BYTES, with_dumps, write_run
from tests.support.targets import environment
from tests.support.viewer import COMMAND, RunningViewer, ask, running_viewer

if TYPE_CHECKING:
    from collections.abc import Iterator

STEPS = 6


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningViewer]:
    """A viewer of a run that leaks at a line of a program that is there."""
    folder = tmp_path_factory.mktemp("view")
    program = folder / "train.py"
    program.write_text("".join(f"line_{number} = keep()\n" for number in range(1, 31)), encoding="utf-8")
    write_run(folder, program=str(program), steps=STEPS, has_trace=True)
    with running_viewer(folder / "cache", folder) as running:
        yield running
    assert running.process.returncode == 0


def test_the_page_and_its_answers(viewer: RunningViewer) -> None:
    """The page is there; the session names the process, and its first sentence the leak with its line."""
    status, headers, content = viewer.get("")
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert b"<script" in content
    session = viewer.content("session")
    (process,) = session["processes"]
    assert process["pools"][0]["name"] == "cpu HOST"
    assert process["knows_owners"] is True, "what leaks is held by the program"
    verdict = viewer.content("verdicts")[0]
    assert verdict["severity"] == "bad"
    assert verdict["text"].startswith("leak: ")
    (link,) = verdict["links"]
    source = viewer.content(f"source?site={urllib.parse.quote(link['site'])}")
    assert source["line"] == 11
    assert source["lines"][source["line"] - source["first_line"]] == "line_11 = keep()"
    frame = viewer.content("memory?columns=10&by=site")
    assert frame.info["window_peak"]["bytes"] == process["pools"][0]["peak_bytes"]
    leaked = viewer.content("tree?measure=leaked")
    assert leaked.info["total"] == (STEPS - 2) * KEPT_BYTES
    in_chinese = viewer.content("verdicts?language=zh")[0]
    assert in_chinese["text"].startswith("泄漏")
    assert [link["site"] for link in in_chinese["links"]] == [link["site"]]
    titles = [one["title"] for one in viewer.content("findings?language=zh")]
    assert all(any("一" <= letter <= "鿿" for letter in title) for title in titles)
    findings = viewer.content("findings")
    (leaks,) = [one for one in findings if one["question"] == "leaks"]
    assert any(KEEPING_LINE.rpartition("/")[2] in (site or "") for table in leaks["tables"] for site in table["sites"])


def test_a_run_without_owners_says_so(tmp_path: Path) -> None:
    """All of it is memory of operators: then the page groups by call site."""
    write_run(tmp_path, leaks=False, steps=0)
    with running_viewer(tmp_path / "cache", tmp_path) as viewer:
        (process,) = viewer.content("session")["processes"]
        groups = viewer.content("memory?columns=10&by=owner").info["groups"]
    assert [group["name"] for group in groups] == ["HOST@ops@aten"]
    assert process["knows_owners"] is False


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1:1"},
        {"Host": "127.0.0.1.evil.example:{port}"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "document"},
    ],
)
def test_other_origins_and_hosts_are_refused(viewer: RunningViewer, headers: dict[str, str]) -> None:
    """Also with the token: what a page of somebody else asks in this browser is not answered."""
    given = {name.replace("-", "_"): value.format(port=viewer.port) for name, value in headers.items()}
    for path in ("", "api/session"):
        status, _, content = viewer.get(path, **given)
        assert status == 403
        assert b"train" not in content


def test_our_own_origin_and_links_are_answered(viewer: RunningViewer) -> None:
    """The browser's headers mark requests of the page itself, and links that somebody follows.

    The server answers both.
    """
    own = {"Origin": f"http://127.0.0.1:{viewer.port}", "Sec_Fetch_Site": "same-origin"}
    assert viewer.get("api/session", **own)[0] == 200
    followed = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
    assert viewer.get("", **followed)[0] == 200
    assert ask(viewer.address.replace("127.0.0.1", "localhost"))[0] == 200


@pytest.mark.parametrize(
    "path", ["", "/", "/api/session", "/x/api/session", "/{part}/api/session", "//{token}/", "/{token}"]
)
def test_without_the_token_nothing_is_said(viewer: RunningViewer, path: str) -> None:
    """Neither the page, nor that a question exists."""
    base = f"http://127.0.0.1:{viewer.port}"
    status, headers, content = ask(base + path.format(part=viewer.token[:-1], token=viewer.token))
    assert status == 403
    assert viewer.token.encode() not in content
    assert "location" not in headers


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_nothing_can_be_written(viewer: RunningViewer, method: str) -> None:
    """Other methods are refused."""
    assert ask(f"{viewer.address}api/session", method)[0] == 405


def test_two_hosts_are_none(viewer: RunningViewer) -> None:
    """A request that names two hosts is refused, whichever is meant."""
    connection = http.client.HTTPConnection("127.0.0.1", viewer.port, timeout=20)
    connection.putrequest("GET", f"/{viewer.token}/", skip_host=True)
    connection.putheader("Host", f"127.0.0.1:{viewer.port}")
    connection.putheader("Host", "evil.example")
    connection.endheaders()
    with contextlib.closing(connection), connection.getresponse() as response:
        assert response.status in {400, 403}


def test_every_answer_is_guarded(viewer: RunningViewer) -> None:
    """The policy allows no inline script and no other host; nothing is kept, framed or sniffed."""
    for path in ("", "app.js", "app.css", "api/session", "api/nothing", "nothing", "api/memory?columns=x"):
        _, headers, _ = viewer.get(path)
        policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert policy["frame-ancestors"] == policy["base-uri"] == policy["form-action"] == "'none'"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert "server" not in headers
    _, _, page = viewer.get("")
    assert re.findall(rb"<script(?![^>]*\bsrc=)", page) == []
    assert b" style=" not in page
    assert b" on" not in re.sub(rb'"[^"]*"', b"", page.partition(b"<body")[2])


@pytest.mark.parametrize(
    ("question", "status", "message"),
    [
        ("nothing", 404, "there is no question"),
        ("memory?columns=0", 400, "columns: must be a whole number: '0' (accepted: 1 to 4000)"),
        ("memory?columns=٣", 400, "columns: must be a whole number"),
        ("memory?by=colour", 400, "by: is no grouping of this process: 'colour' (accepted: owner, site"),
        ("memory?pool=9", 400, "pool: is no pool of this process: '9' (accepted: 0 to 0)"),
        ("memory?process=1", 400, "process: must be a whole number: '1' (accepted: 0 to 0)"),
        ("memory?axis=steps", 400, "axis: is no axis of this process"),
        ("memory?from=9&to=3", 400, "to: lies before the begin"),
        ("memory?from=99999999999999999999999", 400, "from: must be a whole number"),
        ("blocks?layout=pile", 400, "layout: is not accepted: 'pile' (accepted: address, stacked)"),
        ("tree?measure=moment", 400, "row: is needed for a moment"),
        ("tree?measure=moment&row=123456", 400, "row: must be a whole number"),
        ("difference?row=1", 400, "other_row: is missing"),
        ("block?block=99999", 400, "block: is no block of this process"),
        ("block", 400, "block: is no block of this process"),
        ("source?site=/etc/passwd(1)", 404, "no stack of this recording names this line"),
        ("source?site=nothing", 400, "site: names no line"),
        ("segments", 404, "segments are not known"),
        ("download?what=session", 400, "what: is not accepted: 'session' (accepted: memory, blocks"),
        ("download?what=blocks&format=exe", 400, "format: is not accepted"),
        ("table?table=blocks&sort=x", 400, "sort: is no column of this table"),
    ],
)
def test_wrong_questions_get_a_reason(viewer: RunningViewer, question: str, status: int, message: str) -> None:
    """An error names the fault, the value, and the accepted values."""
    path, _, query = question.partition("?")
    quoted = urllib.parse.quote(query, safe="=&()/")
    found, headers, content = viewer.get(f"api/{path}?{quoted}")
    assert (found, headers["content-type"]) == (status, "application/json")
    assert json.loads(content)["error"]["message"].startswith(message)


@pytest.mark.parametrize(
    "path", ["../session.py", "..%2f..%2fserver.py", "%2e%2e/server.py", ".gitkeep", "app.js/", "api"]
)
def test_no_other_file_is_read(viewer: RunningViewer, path: str) -> None:
    """Only the three of the page."""
    connection = http.client.HTTPConnection("127.0.0.1", viewer.port, timeout=20)
    connection.request("GET", f"/{viewer.token}/{path}")
    with contextlib.closing(connection), connection.getresponse() as response:
        assert response.status in {403, 404}


def test_what_is_shown_can_be_saved(viewer: RunningViewer, tmp_path: Path) -> None:
    """Every row, as a file with a name."""
    for what in ("memory", "blocks", "events", "tree", "calls"):
        status, headers, content = viewer.get(f"api/download?what={what}&format=parquet")
        assert (status, headers["content-disposition"]) == (200, f'attachment; filename="{what}.parquet"')
        (tmp_path / what).write_bytes(content)
        saved = pl.read_parquet(tmp_path / what)
        assert saved.height
        csv = viewer.get(f"api/download?what={what}&format=csv")[2]
        assert csv.decode().count("\n") == saved.height + 1
    events = viewer.content("session")["processes"][0]["counts"]["events"]
    assert pl.read_parquet(tmp_path / "events").height == events


def test_the_python_trace_is_among_the_calls(viewer: RunningViewer) -> None:
    """With its function."""
    calls = viewer.content("calls")
    kinds = {track["kind"] for track in calls.info["tracks"]}
    assert kinds == {"operators", "python"}
    assert "train.py(1): main" in calls.table["name"].cast(pl.String).to_list()


def test_the_index_is_made_once_and_anew_when_the_recording_changes(tmp_path: Path) -> None:
    """It lies in the folder of the user's cache; of a path there is one."""
    capture = write_run(tmp_path / "run")
    kept = tmp_path / "cache" / "msmemscope" / "view"
    with running_viewer(tmp_path / "cache", capture) as viewer:
        assert viewer.content("session")["processes"][0]["counts"]["steps"] == STEPS
    (first,) = kept.iterdir()
    made = (first / "0" / "facts.json").stat().st_mtime_ns
    with running_viewer(tmp_path / "cache", capture):
        assert [one.name for one in kept.iterdir()] == [first.name]
        assert (first / "0" / "facts.json").stat().st_mtime_ns == made
    dump = with_dumps(capture)
    os.utime(dump)
    with running_viewer(tmp_path / "cache", capture):
        (second,) = kept.iterdir()
        assert second.name != first.name
    assert not list((capture).glob("**/*.npy"))


def test_several_recordings_are_shown_together(tmp_path: Path) -> None:
    """Captures and a dump of one of them; one that cannot be read is named, and the others are shown.

    Names with markup, control characters and marks of direction are plain texts of bounded length.
    """
    hostile = "<img src=x onerror=alert(1)>\u202e\x1b[31m" + "x" * 10_000
    one = write_run(tmp_path / "one", process_id=11, rank=0, program=f"/home/me/{hostile}.py")
    other = write_run(tmp_path / "other", process_id=12, rank=1, leaks=False)
    dump = with_dumps(other)
    with running_viewer(tmp_path / "cache", one, other, dump, tmp_path / "nowhere") as viewer:
        session = viewer.content("session")
        names = [process["name"].partition(":")[0] for process in session["processes"]]
        assert names == ["rank 0", "rank 1", "rank 1"]  # its dump knows its place too
        frame = viewer.content("difference?row=40&other_process=1&other_row=40&by=site")
        assert frame.table.height
        for question in ("verdicts", "findings", "block?block=0"):
            text = json.dumps(viewer.content(question), ensure_ascii=False)
            assert "<img src=x" in text
            assert "\u202e" not in text
            assert "\x1b" not in text
            assert "\\u001b" not in text
            assert "x" * 2500 not in text
        viewer.process.send_signal(signal.SIGINT)
        assert viewer.process.wait(60) == 0
        assert viewer.process.stderr is not None
        assert "nowhere" in viewer.process.stderr.read()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["/nowhere"], "/nowhere"),
        (["--port=x", "/tmp"], "--port: must be a number of a port: 'x' (accepted: 0 to 65535)"),
        (["--port=99999", "/tmp"], "--port: must be a number of a port: '99999'"),
    ],
)
def test_what_cannot_be_shown_is_refused(tmp_path: Path, arguments: list[str], message: str) -> None:
    """Status 2, and no server."""
    variables = {**environment(), "XDG_CACHE_HOME": str(tmp_path)}
    run = subprocess.run(
        [*COMMAND, "--no-browser", *arguments], capture_output=True, text=True, check=False, env=variables, timeout=60
    )
    assert (run.returncode, run.stdout) == (2, "")
    assert message in run.stderr


def test_a_port_that_is_taken_is_refused(tmp_path: Path) -> None:
    """With another way."""
    write_run(tmp_path / "run")
    variables = {**environment(), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        run = subprocess.run(
            [*COMMAND, "--no-browser", f"--port={port}", str(tmp_path / "run")],
            capture_output=True, text=True, check=False, env=variables, timeout=60,
        )  # fmt: skip
    assert (run.returncode, run.stdout) == (2, "")
    assert f"--port: cannot be used: Address already in use: '{port}'" in run.stderr
    assert "hint: --port=0 chooses one" in run.stderr
