"""`msmemscope control PID ORDER`: tell a process that records to begin, stop, or change what it records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msmemscope.cli.chosen_input import describe_verb
from msmemscope.configuration import OPTION_BY_SPELLING, Config, GivenOption, with_options
from msmemscope.errors import EXIT_STATUS_FAILURE, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

_EXAMPLE: Final = "msmemscope control 4242 set call-stack=python:30"
_SETTINGS: Final = "OPTION=VALUE"
_SETTABLE: Final = ("--level", "--events", "--call-stack", "--analysis", "--device", "--watch")


class ControlCommand:
    """Tell a process that records to begin, stop, or change what it records.

    The process runs under msmemscope, or somebody has attached to it. `start` and
    `stop` turn collection on and off, `snapshot` writes a row with the memory of each
    device, and `set` changes options from then on. The number of the launcher, or of
    any process above, stands for all that record below it. The program goes on; one
    of its threads stands still for some milliseconds.
    """

    name = "control"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the verb."""
        from msmemscope.launch.attaching.control import ORDERS

        describe_verb(parser, self, _EXAMPLE)
        parser.add_argument("process", metavar="PID", help="the number of a process that records")
        parser.add_argument(
            "order",
            metavar="ORDER",
            choices=ORDERS,
            help="; ".join(f"{word}: {description}" for word, description in ORDERS.items()),
        )
        names = ", ".join(spelling[2:] for spelling in _SETTABLE)
        parser.add_argument("settings", metavar=_SETTINGS, nargs="*", help=f"for set: {names}, as for a run")

    def run(self, arguments: argparse.Namespace) -> int:
        """Tell it, and wait until it is done."""
        from msmemscope.launch import messages
        from msmemscope.launch.attaching.control import SET, give_order
        from msmemscope.launch.attaching.remote_call import AttachError
        from msmemscope.launch.attaching.target_process import target_process
        from msmemscope.live.capture_choice import is_process_number, recording_processes

        if (arguments.order == SET) != bool(arguments.settings):
            message = "is needed for set" if arguments.order == SET else f"is not for {arguments.order}"
            value = arguments.settings[0] if arguments.settings else ""
            raise UsageError(message, option=_SETTINGS, value=value, accepted=_EXAMPLE)
        settings = _settings(arguments.settings)
        if not is_process_number(arguments.process):
            message = "is no number of a process"
            raise UsageError(
                message, option="PID", value=arguments.process, accepted="the number of a process that records"
            )
        targets = [target_process(str(number), records=True) for number in recording_processes(arguments.process)]
        failures = []
        for target in targets:
            try:
                give_order(target, arguments.order, settings)
            except AttachError as error:  # noqa: PERF203 - the others are told all the same
                failures.append(error)
                messages.error(error)
            else:
                messages.note(
                    f"done in process {target.process_id}: {' '.join([arguments.order, *arguments.settings])}"
                )
        return EXIT_STATUS_FAILURE if failures else 0


def _settings(texts: Sequence[str]) -> dict[str, str]:
    """Keyword arguments of `msmemscope.config`; values that are not accepted are refused here."""
    given = []
    for text in texts:
        name, equals, value = text.partition("=")
        spelling = "--" + name.removeprefix("--")
        if spelling not in _SETTABLE or not equals:
            message = "cannot be set in a process that runs"
            accepted = ", ".join(f"{one[2:]}=..." for one in _SETTABLE)
            raise UsageError(message, option=_SETTINGS, value=text, accepted=accepted)
        given.append(GivenOption(OPTION_BY_SPELLING[spelling], spelling, value))
    with_options(Config(), given)
    return {one.spelling[2:].replace("-", "_"): one.value for one in given}
