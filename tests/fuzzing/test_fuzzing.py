"""No input ends in a traceback, a hang, or without memory: dozens at each run, a million each night.

`python -m tests.fuzzing.campaign 100000` runs as many as you like. A failing input is written as a text file. Once the
fault is mended, the file goes into the corpus.
"""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from msmemscope import load_all
from msmemscope.errors import MsmemscopeError
from tests.fuzzing import campaign, worker
from tests.fuzzing.campaign import ROOT, Finding, pieces, run_inputs
from tests.fuzzing.forms import FORMS, KEPT, SHARES, make_input
from tests.fuzzing.inputs import LOAD, FuzzInput, kept_inputs
from tests.support.nightly import NIGHT

if TYPE_CHECKING:
    from collections.abc import Sequence

INPUTS = 1_000_000 if NIGHT else 80
FIRST = NIGHT * INPUTS
"""Each night tries others."""


def report(findings: Sequence[Finding], folder: Path) -> str:
    """Writes what failed as files, and returns the message."""
    lines = []
    for finding in findings:
        path = folder / f"{finding.form.replace(' ', '_')}_{finding.number}.json"
        path.write_text(make_input(finding.form, finding.number).to_text(finding.signature), encoding="ascii")
        lines.append(f"{finding.form} {finding.number}, kept as {path}: {finding.failure}")
    return "\n".join(lines)


@pytest.mark.parametrize("form, first, count", pieces(INPUTS, FIRST), ids=lambda value: str(value).replace(" ", "_"))
def test_random_inputs(form: str, first: int, count: int, tmp_path: Path) -> None:
    """Damaged, odd and hostile files through the public entry points."""
    findings = run_inputs(form, first, count)
    assert not findings, report(findings[:5], tmp_path)


def test_inputs_that_once_failed(tmp_path: Path) -> None:
    """The corpus, as it was kept."""
    findings = run_inputs(KEPT, 0, len(kept_inputs()))
    assert not findings, report(findings, tmp_path)


@pytest.mark.parametrize("form", FORMS)
def test_inputs_come_back_by_their_number(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At any time, and from their text."""
    time_now = time.time
    for number in range(20):
        fuzz_input = make_input(form, number)
        with monkeypatch.context() as tomorrow:
            tomorrow.setattr(time, "time", lambda: time_now() + 86400)
            assert make_input(form, number) == fuzz_input
        assert FuzzInput.from_text(fuzz_input.to_text("why")) == fuzz_input


@pytest.mark.parametrize("form", ["event log", "csv", "db", "snapshot"])
def test_most_inputs_are_read(form: str, tmp_path: Path) -> None:
    """Files that are refused at their first byte would find nothing behind it."""
    inputs = 80 if NIGHT else 24
    count = 0
    for number in range(inputs):
        fuzz_input = make_input(form, number)
        folder = tmp_path / str(number)
        fuzz_input.write(folder)
        # Of an event log its folder, of others the file itself.
        with contextlib.suppress(MsmemscopeError):
            count += any(recording.events.height for recording in load_all(max(folder.iterdir())))
    assert count >= inputs * 3 // 8


@pytest.mark.parametrize(
    "answer",
    [
        "raise KeyError('x')",
        "raise pl.exceptions.PanicException('x')",
        "sys.stderr.write('msmemscope: error: this is a fault of msmemscope: KeyError (a.py:1)\\n'); return 1",
        "sys.stdout.write('analysis: failed, this is a fault of msmemscope: KeyError (a.py:1)\\n'); return 0",
        "return 7",
        "return 2",
        "sys.stdout.write('{\"a\": NaN}'); return 0",
    ],
)
def test_failures_are_seen(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever way a command has to fail; an error in one sentence is none."""
    names: dict[str, object] = {}
    exec(f"import sys\nimport polars as pl\ndef main(arguments):\n    {answer}", names)  # noqa: S102 - of the list above
    monkeypatch.setattr(worker, "main", names["main"])
    assert worker.failure_of(FuzzInput("x", {}, (("analyze", "oom", "x", "--json"),))) is not None


def test_an_error_in_one_sentence_is_no_failure() -> None:
    """That is what damaged inputs get."""
    fuzz_input = FuzzInput("x", {"x": b"hello"}, ((LOAD, "{0}/x"), ("analyze", "oom", "{0}/x"), ("recover", "{0}")))
    assert worker.failure_of(fuzz_input) is None


LIMITED = """
import mmap, sys, time
from tests.fuzzing import worker
def failure_of(fuzz_input):
    if worker.is_limited:
        {deed}
    return None
worker.is_limited = False
worker.failure_of, limit = failure_of, worker.limit_memory
def limit_memory():
    limit()
    worker.is_limited = True
worker.limit_memory = limit_memory
worker.PROCESSOR_SECONDS = 0.3
worker.run("other", 0, 1, mmap.mmap(-1, 8))
"""


@pytest.mark.parametrize(
    "deed, status",
    [("while True: pass", -27), ("x = bytearray(2 << 30)", 1), ("import os; os.abort()", -6), ("pass", 0)],
    ids=["endless", "memory", "abort", "nothing"],
)
def test_a_process_that_goes_too_far_is_ended(deed: str, status: int) -> None:
    """By the kernel, and its end is seen."""
    run = subprocess.run(
        [sys.executable, "-c", LIMITED.format(deed=deed)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert run.returncode == status, run.stderr


def test_a_process_that_waits_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that uses no processor time reaches none of the limits above."""
    monkeypatch.setattr(campaign, "WALL_SECONDS", 0.5)
    progress = tmp_path / "progress"
    progress.write_bytes(bytes(8))
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        assert "no end after" in (campaign._watch(process, progress) or "")
        assert process.wait() == -9


def test_a_run_goes_on_behind_an_input_that_ends_its_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And names it."""
    script = tmp_path / "worker.py"
    script.write_text(
        "import struct, sys\n"
        "form, first, count, progress = sys.argv[1:]\n"
        "for number in range(int(first), int(first) + int(count)):\n"
        "    open(progress, 'r+b').write(struct.pack('<Q', number))\n"
        "    if number == 12: sys.exit(3)\n",
        encoding="utf-8",
    )
    monkeypatch.setattr(campaign, "WORKER", [sys.executable, str(script)])
    (finding,) = run_inputs("csv", 10, 5)
    assert finding.number == 12
    assert "status 3" in finding.failure


def test_every_form_gets_its_share() -> None:
    """And the numbers of one night follow each other."""
    work = pieces(10_000, 500, piece=300)
    assert {form for form, _, _ in work} == set(SHARES) == set(FORMS)
    assert sum(count for _, _, count in work) == pytest.approx(10_000, abs=10)
    for form in FORMS:
        mine = [(first, count) for own, first, count in work if own == form]
        assert mine[0][0] == 500
        assert all(first + count == following for (first, count), (following, _) in itertools.pairwise(mine))
