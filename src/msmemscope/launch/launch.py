"""`msmemscope [options] program`: run it under observation, then write its results."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from msmemscope.capture.attach import was_not_chosen
from msmemscope.capture.launched import NEVER_BEGAN
from msmemscope.capture.output_root import prepare_output_root, remove_if_empty
from msmemscope.configuration import (
    CANN_VARIABLES,
    SETTINGS_VARIABLE,
    Config,
    HostSampling,
    LogLevel,
    cann_directory,
    new_session,
)
from msmemscope.errors import MsmemscopeError
from msmemscope.launch import messages
from msmemscope.launch.attaching.order_files import OrderDesk
from msmemscope.launch.capture_folders import captures_since, has_event_log
from msmemscope.launch.ended_by import EndedBy, limit_of_kill, memory_group, note_end
from msmemscope.launch.executable import MUSL, find_program, why_not_observable
from msmemscope.launch.history_timer import HistoryTimer, interval_of
from msmemscope.launch.ledger import (
    append_captures,
    create_launch_directory,
    read_ledger,
    remove_launch_directory,
)
from msmemscope.launch.left_behind import left_behind
from msmemscope.launch.load_ahead import LoadAhead
from msmemscope.launch.preload import core_library, native_directory, preload_environment
from msmemscope.launch.proceedings import tell_begin, tell_end
from msmemscope.launch.program import end_like, run_program
from msmemscope.model.sources import CPU_SOURCES, DEVICE_SOURCES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from msmemscope.analysis.judged import NotJudged
    from msmemscope.capture.output_root import OutputRoot
    from msmemscope.cli.arguments import LaunchRequest
    from msmemscope.launch.destination import Destination
    from msmemscope.launch.ledger import Ledger
    from msmemscope.launch.program import ProgramEnd
    from msmemscope.reports.run_summary import ProcessSummary

    Facts = Mapping[str, tuple[str, ...]]

_ENVIRONMENT_CLEANERS = frozenset({"sudo", "doas", "pkexec"})
"""Programs that start others under another user, without the variables that could make them load something."""
_WRONG_USAGE = 2
"""Exit status of programs that were called with other arguments than they take."""
_SETTLE_SECONDS = 0.5
"""How long processes that the program left behind may take to end before they are called running."""
_POLL_SECONDS = 0.02


def launch(request: LaunchRequest, config: Config) -> int:
    """Run the program and finish its captures.

    Returns:
        The program's exit status; where a signal ended the program, it ends this process too.

    Raises:
        UsageError: If the output root cannot be used; nothing was started.
        LaunchError: If the program cannot be started; nothing is left on disk.
    """
    program = find_program(request.program[0], os.environ.get("PATH", os.defpath))
    destination = _destination(request)
    history_s = interval_of(request.given, config.maximum_size)
    if request.taken_from_program:
        taken = ", ".join(request.taken_from_program)
        messages.note(f"taken as options of msmemscope: {taken} (put -- before the program to pass them on)")
    if request.left_to_program:
        left = ", ".join(request.left_to_program)
        messages.note(
            f"passed on to the program: {left}, which {request.known_by} has (options of msmemscope stand before it)"
        )
    config = dataclasses.replace(config, native_directory=native_directory(config.package))
    if core_library(config) is None:
        messages.warning(
            "the native library is missing: the program runs unobserved", hint="msmemscope doctor says what to do"
        )
        return end_like(run_program(program, request.program, os.environ))
    writes_page = any(one.option.name == "report" for one in request.given)
    return end_like(_observe(program, request.program, config, destination, history_s, writes_page=writes_page))


def _destination(request: LaunchRequest) -> Destination | None:
    """Where captures are gathered; the option counts as it was given last."""
    given = [one.value for one in request.given if one.option.name == "gather"]
    if not given:
        return None
    from msmemscope.launch.destination import destination_of

    return destination_of(given[-1])


def _observe(
    program: str,
    arguments: tuple[str, ...],
    config: Config,
    destination: Destination | None,
    history_s: int | None,
    *,
    writes_page: bool,
) -> ProgramEnd:
    root = prepare_output_root(config.output)
    for warning in root.warnings:
        messages.warning(warning)
    launch_directory = create_launch_directory(config.output)
    session = new_session()
    config = dataclasses.replace(config, session=session, launch_directory=str(launch_directory))
    link_directory: Path | None = None
    since_ns = time.time_ns()
    is_settled = True
    try:
        preload = preload_environment(config, os.environ)
        link_directory = preload.link_directory
        if MUSL in (why_not_observable(program) or ""):
            preload.variables["LD_PRELOAD"] = os.environ.get("LD_PRELOAD", "")
        library = core_library(config)
        if library is not None and messages.are_printed(LogLevel.INFO):
            tell_begin(program, config, library, preload.variables)
        ahead = LoadAhead(
            lambda: bool(read_ledger(launch_directory).captures or captures_since(Path(root.path), since_ns))
        )
        desk = OrderDesk(launch_directory, _obey)
        history = HistoryTimer(history_s, lambda: read_ledger(launch_directory).captures)

        def begin_threads() -> None:
            ahead.begin()
            desk.begin()
            history.begin()

        group = memory_group()
        end = run_program(program, arguments, preload.variables, begin_threads)
        end = dataclasses.replace(end, limit_bytes=limit_of_kill(end.signal_number, group, memory_group()))
        with _survivable(config):
            history.program_ended()
            ahead.end()
            desk.end()
            is_settled = _finish(program, end, config, root, since_ns, destination, writes_page=writes_page)
            history.end()
    finally:
        # Processes that still run need both to start others under observation.
        if is_settled:
            remove_launch_directory(launch_directory)
            if link_directory is not None:
                remove_launch_directory(link_directory)
            remove_if_empty(root)
    return end


def _obey(process_id: int, words: Sequence[str]) -> str:
    """Have a process do what somebody has ordered through the folder; loaded when there is one."""
    from msmemscope.launch.attaching.control import obey_order

    return obey_order(process_id, words)


@contextlib.contextmanager
def _survivable(config: Config) -> Iterator[None]:
    """Whatever goes wrong in our own work, the program's exit status is still returned."""

    def interrupt(number: int, _frame: object) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    previous = {number: signal.signal(number, interrupt) for number in numbers}
    hint = f"the event logs are kept: msmemscope recover {_shown(config.output)}"
    try:
        yield
    except MsmemscopeError as error:
        messages.error(error)
    except KeyboardInterrupt:
        messages.failed("interrupted while the results were written", hint=hint)
    except BrokenPipeError:
        pass  # nobody reads our words
    except Exception as error:  # noqa: BLE001 - a fault of ours must not look like a fault of the program
        messages.failed(f"the results could not be written: {type(error).__name__}: {error}", hint=hint)
    finally:
        messages.forget_unwritten(sys.stderr)
        for number, handler in previous.items():
            signal.signal(number, handler)


def _finish(  # noqa: PLR0913 - what a run was asked to do
    program: str,
    end: ProgramEnd,
    config: Config,
    root: OutputRoot,
    since_ns: int,
    destination: Destination | None,
    *,
    writes_page: bool,
) -> bool:
    """Write the dump files, the page if it was asked for, and the summary.

    Returns:
        Whether every observed process has ended.
    """
    output = Path(root.path)
    ledger = read_ledger(Path(config.launch_directory))
    exported = _Exported()
    if ledger.captures or captures_since(output, since_ns):
        exported = _export_captures(config, output, since_ns, destination, end)
        ledger = read_ledger(Path(config.launch_directory))
        if writes_page:
            from msmemscope.launch.html_report import with_page

            exported = dataclasses.replace(exported, processes=with_page(exported.processes))
    if not exported.processes and was_not_chosen(config.to_settings_text()):
        return True  # with one launcher per rank, most of them have nothing to say
    from msmemscope.analysis.judged import kinds_not_recorded
    from msmemscope.reports.run_summary import RunSummary
    from msmemscope.reports.terminal import render_run

    left = [] if exported.process_ids else left_behind(config.session)
    lost = {path: process for path, process in ledger.captures.items() if not has_event_log(path)}
    recorded = {*exported.process_ids.values(), *lost.values()}
    unrecorded = {start.process_id: start.executable for start in ledger.started if start.process_id not in recorded}
    summary = RunSummary(
        processes=_as_shown(exported.processes),
        unrecorded=tuple(dict.fromkeys(Path(path).name for path in unrecorded.values())),
        unrecorded_count=len(unrecorded),
        unobservable=tuple(_unobservable(program, is_silent=not exported.processes)),
        not_observed=(*_not_there(config, exported.processes, ledger.facts), *kinds_not_recorded(config.devices)),
        nothing_recorded=() if recorded else tuple(_why_nothing(config, ledger, end, left)),
        removed=tuple(_removed(root, lost, has_results=bool(exported.processes))),
        recover_command=f"msmemscope recover {_shown(config.output)}",
    )
    if messages.are_printed(LogLevel.INFO):
        tell_end(exported.processes)
    if messages.are_printed(LogLevel.WARN):
        render_run(summary, sys.stderr)
    _report_to_enclosing_launch(exported.process_ids)
    return not exported.has_running and not left


def _as_shown(processes: Iterable[ProcessSummary]) -> tuple[ProcessSummary, ...]:
    """The sources, and the library of each, are for those who ask how the tool did it."""
    if messages.are_printed(LogLevel.INFO):
        return tuple(processes)
    return tuple(dataclasses.replace(process, observed=()) for process in processes)


@dataclasses.dataclass(frozen=True)
class _Exported:
    """The outcome of the captures of a launch."""

    processes: tuple[ProcessSummary, ...] = ()
    process_ids: dict[Path, int] = dataclasses.field(default_factory=dict)
    """By capture directory."""
    has_running: bool = False


def _export_captures(
    config: Config, output: Path, since_ns: int, destination: Destination | None, end: ProgramEnd
) -> _Exported:
    # Loaded only now, or by load_ahead.py: most commands under a launch record nothing.
    from msmemscope.launch.captures import (
        captures_of_session,
        has_finished_dump,
        open_captures,
        settings_of,
    )
    from msmemscope.launch.finish import finish

    deadline = time.monotonic() + _SETTLE_SECONDS
    while True:
        ledger = read_ledger(Path(config.launch_directory))
        ours = captures_of_session(captures_since(output, since_ns), config.session)
        found = dict.fromkeys([*ledger.captures, *ours])
        captures = open_captures(directory for directory in found if has_event_log(directory))
        running = [capture for capture in captures if capture.is_running()]
        if not running or time.monotonic() >= deadline:
            break
        time.sleep(_POLL_SECONDS)
    if end.signal_number or end.exit_status:
        name = signal.Signals(end.signal_number).name if end.signal_number else ""
        for capture in captures:
            if capture.header.process_id == end.process_id:
                note_end(capture.directory, EndedBy(name, end.limit_bytes, end.exit_status, end.end_ns))
    if destination is not None:
        from msmemscope.capture.launcher_environment import node_name
        from msmemscope.launch.gather import gather

        # First of all: a job that is being ended from outside has little time left.
        gather(captures, destination, node_name(os.environ))
    ended = [capture for capture in captures if capture not in running]
    unfinished = [capture for capture in ended if not has_finished_dump(capture.directory)]
    finished = finish(captures, {capture.directory: settings_of(capture, config) for capture in unfinished})
    return _Exported(
        processes=finished.processes,
        process_ids={capture.directory: capture.header.process_id for capture in captures},
        has_running=bool(running),
    )


def _unobservable(program: str, *, is_silent: bool) -> Iterator[str]:
    name = Path(program).name
    reason = why_not_observable(program)
    if is_silent and name in _ENVIRONMENT_CLEANERS:
        yield (
            f"{name} starts programs in an environment of their own, in which they are not observed: put msmemscope "
            f"behind it ({name} msmemscope ...)"
        )
    elif reason is not None:
        yield f"{reason}, so that no library can be preloaded into it; programs that it starts are observed if they can be"


def _not_there(config: Config, processes: Iterable[ProcessSummary], facts: Facts) -> Iterator[NotJudged]:
    """Why nothing was seen of devices that were to be observed.

    Args:
        config: The settings of the run.
        processes: Those that recorded something.
        facts: Those of the others.
    """
    from msmemscope.analysis.judged import kinds_not_loaded

    recorded = {source.partition(":")[0] for one in processes for source in one.observed}
    others = {key.removeprefix("observed.") for key in facts}

    place = cann_directory()
    for one in kinds_not_loaded(config.devices, recorded | others):
        is_npu = one.subject.startswith("npu")
        if is_npu and not place:
            reason = f"no CANN is set up here, neither {' nor '.join(CANN_VARIABLES)} is set"
            yield dataclasses.replace(one, reason=reason, remedy="source its set_env.sh, or use --device=cpu")
        elif is_npu and not Path(place).is_dir():
            reason = f"the environment names a CANN that is not there: {place}"
            yield dataclasses.replace(one, reason=reason, remedy="")
        else:
            yield one


def _removed(root: OutputRoot, lost: Iterable[Path], *, has_results: bool) -> Iterator[str]:
    """Results that were there and are not any more."""
    if not root.is_in_place():
        which = "what was recorded before" if has_results else "what was recorded"
        yield (
            f"the output folder was removed or moved while the program ran, and {which} with it; if it was moved, "
            "msmemscope recover FOLDER writes the results"
        )
        return
    for path in lost:
        yield f"{path.name} was removed or moved while the program ran"


def _why_nothing(config: Config, ledger: Ledger, end: ProgramEnd, left: Sequence[int]) -> Iterator[str]:
    """Why not a single process recorded anything, as far as the settings and the processes say.

    Args:
        config: The settings that were asked for.
        ledger: The words of its processes.
        end: How it ended.
        left: Processes that it left behind.
    """
    from msmemscope.analysis.coverage import summary_limits
    from msmemscope.analysis.recorded import Recorded

    chosen = [
        f"{name}={value}"
        for name, value in (("--ranks", config.ranks), ("--sample-ranks", config.sample_ranks))
        if value
    ]
    if chosen:
        yield f"only processes of some ranks are observed ({', '.join(chosen)})"
        return
    settings = (line.partition("=") for line in config.to_settings_text().split("\n"))
    known = {**ledger.facts, **{f"setting.{name}": (text,) for name, _, text in settings}}
    yield from summary_limits(Recorded({}, known))
    if left:
        who = f"process{'' if len(left) == 1 else 'es'} {', '.join(map(str, left))}"
        yield f"not yet: the program left {who} running; what is recorded later is in msmemscope summary {_shown(config.output)}"
        return
    yield from _without_memory(config, ledger, end)


def _without_memory(config: Config, ledger: Ledger, end: ProgramEnd) -> Iterator[str]:
    """Why programs that would have been recorded had nothing to record."""
    if end.exit_status != 0:
        yield f"the program ended with status {end.exit_status} before it used memory that is recorded"
        if end.exit_status != _WRONG_USAGE and NEVER_BEGAN not in ledger.facts:
            # Some programs look at LD_PRELOAD, and end where it is set.
            yield "one that does not run with LD_PRELOAD set is observed from inside: import msmemscope; msmemscope.start()"
    elif not ledger.started:
        return
    elif any(f"observed.{source}" in ledger.facts for source in CPU_SOURCES.union(*DEVICE_SOURCES.values())):
        yield "torch, CANN or CUDA was loaded, and no tensor was allocated"
    elif config.host is HostSampling.OFF:
        yield "neither torch nor CANN was loaded, and other host memory is not recorded with --host=off"
    else:
        yield "neither torch nor CANN was loaded, and Python used little other host memory"


def _report_to_enclosing_launch(captures: dict[Path, int]) -> None:
    """A launch within a launch: the outer one lists these captures too."""
    text = os.environ.get(SETTINGS_VARIABLE)
    if text and captures:
        with contextlib.suppress(MsmemscopeError):
            enclosing = Config.from_settings_text(text)
            if enclosing.launch_directory:
                append_captures(Path(enclosing.launch_directory), captures)


def _shown(path: str) -> str:
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative
