"""`msmemscope control PID|DIR ORDER`: tell a process that records to begin, stop, or change what it records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msmemscope.cli.chosen_input import describe_verb
from msmemscope.errors import EXIT_STATUS_FAILURE, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from msmemscope.launch.attaching.remote_call import AttachError


class ControlCommand:
    """Tell a process that records to begin, stop, or change what it records.

    The process runs under msmemscope, or somebody has attached to it. `start` and
    `stop` turn collection on and off, `snapshot` writes a row with the memory of each
    device, and `set` changes options from then on. The number of the launcher, or of
    any process above, stands for all that record below it. DIR is a folder of results,
    or one capture in it: the launcher passes the order on. That works from another
    container that shares the folder. The program goes on; one of its threads stands
    still for some milliseconds.
    """

    name = "control"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the verb."""
        from msmemscope.launch.attaching.control import EXAMPLE, ORDERS, SETTABLE, SETTINGS

        describe_verb(parser, self, EXAMPLE)
        parser.add_argument(
            "target", metavar="PID|DIR", help="the number of a process that records, or a folder of results"
        )
        parser.add_argument(
            "order",
            metavar="ORDER",
            choices=ORDERS,
            help="; ".join(f"{word}: {description}" for word, description in ORDERS.items()),
        )
        names = ", ".join(spelling[2:] for spelling in SETTABLE)
        parser.add_argument("settings", metavar=SETTINGS, nargs="*", help=f"for set: {names}, as for a run")

    def run(self, arguments: argparse.Namespace) -> int:
        """Tell it, and wait until it is done."""
        from msmemscope.launch import messages
        from msmemscope.launch.attaching.control import checked_order
        from msmemscope.live.capture_choice import is_process_number

        words = [arguments.order, *arguments.settings]
        checked_order(words)
        tell = _tell_processes if is_process_number(arguments.target) else _tell_launchers
        done, failed = tell(arguments.target, words)
        for failure in failed:
            messages.error(failure)
        for process in done:
            messages.note(f"done in process {process}: {' '.join(words)}")
        return EXIT_STATUS_FAILURE if failed else 0


def _tell_processes(given: str, words: Sequence[str]) -> tuple[list[int], list[AttachError]]:
    """Give an order to a process, and to those below it; those that did it, and the errors of the others."""
    from msmemscope.launch.attaching.control import checked_order, give_order
    from msmemscope.launch.attaching.remote_call import AttachError
    from msmemscope.launch.attaching.target_process import target_process
    from msmemscope.live.capture_choice import recording_processes

    word, settings = checked_order(words)
    done: list[int] = []
    failed: list[AttachError] = []
    for target in [target_process(str(number), records=True) for number in recording_processes(given)]:
        try:
            give_order(target, word, settings)
        except AttachError as error:  # noqa: PERF203 - the others are told all the same
            failed.append(error)
        else:
            done.append(target.process_id)
    return done, failed


def _tell_launchers(given: str, words: Sequence[str]) -> tuple[list[int], list[AttachError]]:
    """Give an order to the launchers of a folder; results as of `_tell_processes`."""
    from pathlib import Path

    from msmemscope.launch.attaching.order_files import launch_directories, send_order
    from msmemscope.launch.attaching.remote_call import AttachError

    folder = Path(given)
    accepted = "the number of a process that records, or the folder of its results"
    if not folder.is_dir():
        message = "is neither a process nor a folder"
        raise UsageError(message, option="PID|DIR", value=given, accepted=accepted)
    root, captures = folder.resolve(), []
    if not launch_directories(root):
        root, captures = root.parent, [root.name]
    try:
        answers = send_order(launch_directories(root), words, captures)
    except OSError as error:
        message = f"the order cannot be written: {error.strerror}"
        raise UsageError(message, option="PID|DIR", value=given) from error
    done = [process for answer in answers for process in answer.done]
    failed: list[AttachError] = [AttachError(failure) for answer in answers for failure in answer.failed]
    if not answers:
        message = "no launcher writes there now"
        hint = "name the process: where a program has called msmemscope.start() itself, there is no launcher"
        raise UsageError(message, option="PID|DIR", value=given, accepted=accepted, hint=hint)
    if not done and not failed:
        failed.append(AttachError("nothing was recorded there yet, or what was recorded has ended"))
    return done, failed
