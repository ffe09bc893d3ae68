"""`msmemscope cluster PATH...`: one answer about all ranks of a job."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msmemscope.cli.chosen_input import add_force, chosen_input, describe_verb, output_file
from msmemscope.cli.each_process import chosen_number, write_json
from msmemscope.errors import UsageError
from msmemscope.units import format_bytes, parse_size_bytes

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from msmemscope.cluster.capture_task import CaptureOutcome, TaskOptions
    from msmemscope.cluster.captures import FoundCaptures

# The modules that make its answer are imported when this verb is chosen: other verbs need not wait for them.

_EXAMPLE: Final = "msmemscope cluster /shared/job-17 -o cluster.html --summaries=summaries.parquet"
_MOST_JOBS: Final = 4096


class ClusterCommand:
    """Answer about all ranks of a job at once: who runs out first and why, who is unlike its peers, what leaks everywhere.

    PATH is a folder with captures at any depth, an archive, a dump, a pattern, or a URL of an object
    store (s3://bucket/job-17). Without it, the latest run is taken.
    Captures that were looked at before are not read again.
    """

    name = "cluster"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the verb."""
        describe_verb(parser, self, _EXAMPLE)
        parser.add_argument("paths", metavar="PATH", nargs="*", help="where the captures are; default: the latest run")
        parser.add_argument(
            "--jobs", metavar="N", help="processes at a time; default: as many as there are processors and memory for"
        )
        parser.add_argument(
            "--ray", metavar="ADDRESS", help="have the captures read by a Ray cluster that runs: its address, or auto"
        )
        parser.add_argument(
            "--capacity",
            metavar="SIZE",
            help="memory that a rank may use, such as 64G, where no snapshot says it",
        )
        parser.add_argument("-o", "--output", metavar="FILE", help="write the answer as an HTML page, too")
        parser.add_argument(
            "--summaries",
            metavar="FILE",
            help="write the summaries of all ranks as a Parquet file, for your own questions",
        )
        parser.add_argument(
            "--cache", metavar="DIR", help="where summaries are kept; default: the cache folder of the user"
        )
        parser.add_argument("--no-cache", action="store_true", help="read all captures, and keep nothing")
        parser.add_argument("--json", action="store_true", help="write the answer to stdout as one JSON object")
        add_force(parser)

    def run(self, arguments: argparse.Namespace) -> int:
        """Find the captures, have them summed up, and answer."""
        jobs = (
            None
            if arguments.jobs is None
            else chosen_number(arguments.jobs, "--jobs", least=1, most=_MOST_JOBS, of="processes")
        )
        capacity = None if arguments.capacity is None else parse_size_bytes(arguments.capacity, option="--capacity")
        page, table = _outputs(arguments)
        if arguments.ray == "":
            message = "names no cluster"
            raise UsageError(message, option="--ray", value="", accepted="the address of a Ray cluster, or auto")
        from msmemscope.cluster.answer.job_answer import answer_of
        from msmemscope.cluster.answer_json import answer_content
        from msmemscope.cluster.answer_text import render_answer
        from msmemscope.cluster.capture_task import TaskOptions
        from msmemscope.cluster.job_summaries import merge_outcomes
        from msmemscope.cluster.merging import JobPart, merge
        from msmemscope.launch import messages

        found = _captures(arguments.paths)
        options = TaskOptions(None if arguments.no_cache else str(_cache(arguments.cache)))
        with _progress(len(found.locations)) as done:
            part = merge_outcomes(_outcomes(found, options, jobs, arguments.ray), table=table, done=done)
        part = merge([part, JobPart(part.rows.clear(), part.stacks.clear(), found.failures)])
        answer = answer_of(part, capacity_bytes=capacity)
        if page is not None:
            from msmemscope.cluster.answer_page import PAGE_MARK, answer_page
            from msmemscope.formats.output_place import check_output
            from msmemscope.launch.html_report import write_report

            replaces = check_output(page, PAGE_MARK, option="-o", is_forced=arguments.force)
            write_report(answer_page(answer), page, replaces=replaces)
        if arguments.json:
            write_json(answer_content(answer))
        else:
            render_answer(answer, sys.stdout)
        sys.stdout.flush()
        for written in filter(None, (page, table)):
            messages.note(f"written: {written} ({format_bytes(written.stat().st_size)})")
        return 0 if answer.rows.height else 1


def _outputs(arguments: argparse.Namespace) -> tuple[Path | None, Path | None]:
    """The page and the table that are asked for; judged before anything is read."""
    from msmemscope.cluster.answer_page import PAGE_MARK
    from msmemscope.cluster.job_summaries import TABLE_MARK

    places = ((arguments.output, "-o", PAGE_MARK), (arguments.summaries, "--summaries", TABLE_MARK))
    page, table = (
        None if name is None else output_file(name, option, mark, is_forced=arguments.force)
        for name, option, mark in places
    )
    return page, table


def _captures(paths: list[str]) -> FoundCaptures:
    from msmemscope.cluster.captures import FoundCaptures, find_captures

    if paths:
        return find_captures(paths)
    path, captures = chosen_input(None)
    return FoundCaptures(tuple(sorted(map(str, captures or [path]))), ())


def _outcomes(
    found: FoundCaptures, options: TaskOptions, jobs: int | None, ray: str | None
) -> Iterator[CaptureOutcome]:
    if ray is not None:
        from msmemscope.cluster.ray_pool import summarise_on_ray

        return summarise_on_ray(found.locations, options, address=ray, jobs=jobs)
    from msmemscope.cluster.local_pool import default_jobs, summarise_locally

    return summarise_locally(found.locations, options, jobs=jobs or default_jobs())


def _cache(given: str | None) -> Path:
    """The folder that summaries are kept in; it need not be there."""
    if given == "":
        message = "names no folder"
        raise UsageError(message, option="--cache", value="", accepted="a folder; --no-cache keeps nothing")
    if given is not None:
        return Path(given).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME", "")
    folder = Path(base) if base.startswith("/") else Path(os.path.expanduser("~")) / ".cache"  # noqa: PTH111 - no home is "~"
    return folder.absolute() / "msmemscope" / "ranks"


@contextlib.contextmanager
def _progress(count: int) -> Iterator[Callable[[], None]]:
    """A bar on a terminal, and nothing elsewhere."""
    if not sys.stderr.isatty() or count <= 1:
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("Captures", total=count)
        yield lambda: progress.advance(task)
