"""Figures for Prometheus: those of a program that runs, with the names and labels that its own parser reads."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import re
import signal
import subprocess
import sys
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from msmemscope.cli.main import main
from tests.support import tool
from tests.support.recorded_runs import write_run
from tests.support.targets import environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("prometheus_client") is None, reason="needs pip install 'msmemscope[metrics]'"
)


def samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Names with labels to values, read by the library of others."""
    from prometheus_client.parser import text_string_to_metric_families

    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(found: dict[Any, float], name: str, **labels: str) -> float:
    """The one sample with a name and some labels."""
    (one,) = [
        number for (other, having), number in found.items() if other == name and labels.items() <= dict(having).items()
    ]
    return one


def test_figures_are_those_of_live(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of each process, pool and line."""
    capture = write_run(tmp_path)
    assert main(["metrics", str(capture), "--once"]) == 0
    found = samples(capsys.readouterr().out)
    assert main(["live", str(capture), "--once", "--json"]) == 0
    (process,) = json.loads(capsys.readouterr().out)["processes"]
    for pool in process["pools"]:
        labels = {"process": "4242", "device": pool["device"], "pool": pool["pool"]}
        assert value(found, "msmemscope_in_use_bytes", **labels) == pool["in_use_bytes"]
        assert value(found, "msmemscope_peak_bytes", **labels) == pool["peak_bytes"]
        assert value(found, "msmemscope_in_use_blocks", **labels) == pool["block_count"]
        for site in pool["sites"]:
            assert value(found, "msmemscope_site_in_use_bytes", **labels, site=site["site"]) == site["size_bytes"]
    assert value(found, "msmemscope_events_total", process="4242") == process["event_count"]
    assert value(found, "msmemscope_steps_total", process="4242") == process["step_count"]
    assert value(found, "msmemscope_process_running", process="4242") == 0


def test_of_two_runs_of_one_process_number_the_last_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Containers number their processes alike, and Prometheus refuses a figure that comes twice."""
    first = write_run(tmp_path / "a", leaks=False, steps=0).rename(tmp_path / "msmemscope_4242_20240101000000_ascend")
    last = write_run(tmp_path / "b").rename(tmp_path / "msmemscope_4242_20250101000000_ascend")
    told = []
    for path in (first, last, tmp_path):
        assert main(["metrics", str(path), "--once"]) == 0
        told.append(capsys.readouterr().out)
    assert told[2] == told[1] != told[0]


@contextlib.contextmanager
def started(command: Sequence[object], **streams: Any) -> Iterator[subprocess.Popen[str]]:
    """A process that is ended at last, whatever happens."""
    with subprocess.Popen([*map(str, command)], text=True, env=environment(), **streams) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.torch
@pytest.mark.slow
def test_a_running_program_is_scraped(tmp_path: Path) -> None:
    """Twice: memory that it has allocated in between is there. The server is there before the program."""
    program = (
        "import sys, torch\nkept = []\n"
        "for line in sys.stdin:\n    kept += [torch.ones(1 << 18) for _ in range(int(line))]\n    print('done', flush=True)\n"
    )
    command = [*tool.TOOL, f"--output={tmp_path}", sys.executable, "-u", "-c", program]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    serve = [*tool.TOOL, "metrics", tmp_path, "--prometheus=127.0.0.1:0"]
    with started(serve, stderr=subprocess.PIPE) as serving, started(command, **pipes) as running:
        found: dict[Any, float] = {}
        address = _address(serving)
        for blocks in (3, 4):
            _write(running, f"{blocks}\n")
            with urllib.request.urlopen(address, timeout=60) as answer:  # noqa: S310 - our own server
                found = samples(answer.read().decode())
            assert value(found, "msmemscope_process_running") == 1
            in_use = value(found, "msmemscope_in_use_bytes", device="cpu", pool="HOST")
            assert in_use == (3 if blocks == 3 else 7) << 20
        kept = value(found, "msmemscope_site_in_use_bytes", device="cpu", site="<string>(4): <listcomp>")
        assert kept == 7 << 20
        serving.send_signal(signal.SIGINT)
        assert serving.wait(timeout=60) == 0


def _write(program: subprocess.Popen[str], line: str) -> None:
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.write(line)
    program.stdin.flush()
    assert program.stdout.readline() == "done\n"


def _address(serving: subprocess.Popen[str]) -> str:
    assert serving.stderr is not None
    line = serving.stderr.readline()
    assert "which has no capture yet" in line
    found = re.search(r"http://\S+/metrics", line)
    assert found is not None
    return found[0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["/nowhere", "--once"], "/nowhere"),
        (["--prometheus=here", "--once"], "--prometheus: is no address to listen at: 'here' (accepted: HOST:PORT"),
        (["--prometheus=127.0.0.1:99999", "--once"], "--prometheus: is no address to listen at"),
    ],
)
def test_bad_input_is_named(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Before anything is offered."""
    assert main(["metrics", *words]) == 2
    assert said in capsys.readouterr().err


def test_a_port_that_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One line, and status 2."""
    import socket

    capture = write_run(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["metrics", str(capture), f"--prometheus=127.0.0.1:{taken.getsockname()[1]}"]) == 2
    assert "--prometheus: cannot listen there: Address already in use" in capsys.readouterr().err
