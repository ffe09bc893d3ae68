"""Programs of several ranks: one process each, started together."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from vnpu.tests.programs import MARGIN_S, NIGHT, READ_LATER, TARGET_PROGRAMS, clean_environment, run_forked

READ_BY_GROUPS: Final = frozenset({"HCCL_EXEC_TIMEOUT"})
"""Variables that the emulated collectives read when they are used. torch_npu reads this one too, when it is imported.
It is for a watchdog that has no part in these checks."""


@dataclass(frozen=True)
class EndedRank:
    """How one rank ended."""

    status: int
    stdout: str
    stderr: str

    def lines(self) -> list[dict[str, str | None]]:
        """The lines of a program that prints JSON, a line for each thing."""
        return [json.loads(line) for line in self.stdout.splitlines() if line.startswith("{")]


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run_ranks(
    program: str,
    *arguments: str,
    count: int = 2,
    options: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> list[EndedRank]:
    """Run ``vnpu run OPTIONS -- python PROGRAM ARGUMENTS`` for each rank, and return how they ended.

    Args:
        program: A file of the target programs.
        arguments: The program's arguments.
        count: The number of ranks; each uses the device of its number.
        options: Options of ``vnpu run``.
        environment: Variables added to the programs' environment.
    """
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(count)}
    if not NIGHT and (READ_LATER | READ_BY_GROUPS).issuperset(environment or {}):
        shared.update(environment or {})
        return run_forked_ranks(program, *arguments, count=count, options=options, variables=shared)
    command = [
        sys.executable, "-m", "virtual_npu", "run", *options, "--",
        sys.executable, str(TARGET_PROGRAMS / program), *arguments,
    ]  # fmt: skip
    shared = clean_environment() | shared | dict(environment or {})
    processes = [
        subprocess.Popen(
            command,
            env=shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]
    deadline = time.monotonic() + MARGIN_S
    ended = []
    try:
        for process in processes:
            stdout, stderr = process.communicate(timeout=max(1.0, deadline - time.monotonic()))
            ended.append(EndedRank(process.returncode, stdout, stderr))
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
    return ended


def run_forked_ranks(
    program: str, *arguments: str, count: int, options: Sequence[str], variables: Mapping[str, str]
) -> list[EndedRank]:
    """Run the ranks in processes that are forked from some that have imported torch and torch_npu."""

    def run(rank: int) -> EndedRank:
        own = {**variables, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        ended = run_forked(program, *arguments, options=options, variables=own, number=rank)
        return EndedRank(ended.returncode, ended.stdout, ended.stderr)

    with ThreadPoolExecutor(count) as ranks:
        return list(ranks.map(run, range(count)))


def assert_good(ranks: list[EndedRank]) -> None:
    """Every rank has ended well."""
    for number, rank in enumerate(ranks):
        assert rank.status == 0, f"rank {number}: status {rank.status}\n{rank.stdout}\n{rank.stderr}"
