"""`msmemscope mcp` as an agent starts it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.recorded_runs import write_run
from tests.support.targets import environment

if TYPE_CHECKING:
    from pathlib import Path

has_sdk = importlib.util.find_spec("mcp") is not None
COMMAND = [sys.executable, "-m", "msmemscope", "mcp"]


@pytest.mark.skipif(has_sdk, reason="the package mcp is installed here")
def test_without_the_sdk() -> None:
    """One clear line and what to do."""
    run = subprocess.run(COMMAND, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert (run.returncode, run.stdout) == (2, "")
    assert "needs the package mcp" in run.stderr
    assert "hint: pip install 'msmemscope[mcp]'" in run.stderr


@pytest.mark.skipif(not has_sdk, reason="needs the package mcp: pip install 'msmemscope[mcp]'")
def test_a_conversation(tmp_path: Path) -> None:
    """Tools are listed and called, stdout has the protocol and nothing else, and the end of stdin ends it."""
    capture = str(write_run(tmp_path))
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    messages: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/list"},
        {"id": 3, "method": "tools/call", "params": {"name": "load", "arguments": {"path": capture}}},
        {"id": 4, "method": "tools/call", "params": {"name": "load", "arguments": {"path": "/nowhere"}}},
    ]
    with subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        results = {}
        for message in messages:
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            server.stdin.flush()
            if "id" in message:
                reply = json.loads(server.stdout.readline())
                results[reply["id"]] = reply["result"]
        server.stdin.close()
        assert server.stdout.read() == ""
        assert server.wait(30) == 0
    assert {"load", "leaks", "blocks_around"} <= {tool["name"] for tool in results[2]["tools"]}
    assert all(tool["annotations"]["readOnlyHint"] for tool in results[2]["tools"])
    assert json.loads(results[3]["content"][0]["text"])["processes"][0]["process_id"] == 4242
    assert results[4]["isError"]
    assert "cannot be read" in results[4]["content"][0]["text"]
