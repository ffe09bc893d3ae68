"""`msmemscope doctor`: what can be observed on this machine, and what is missing."""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING

from msmemscope.configuration import OPTION_BY_SPELLING, Config, GivenOption, with_options
from msmemscope.errors import EXIT_STATUS_FAILURE

if TYPE_CHECKING:
    import argparse

    from msmemscope.capture.findings import Finding

_WIDTH = 80
_INDENT = " " * 10


class DoctorCommand:
    """Check what can be observed on this machine, and say what to do about what is missing.

    The exit status is 0 unless nothing at all can be observed.
    """

    name = "doctor"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the verb."""
        option = OPTION_BY_SPELLING["--output"]
        parser.add_argument(
            option.spelling, *option.other_spellings, metavar=option.metavar, help="the output root to check"
        )

    def run(self, arguments: argparse.Namespace) -> int:
        """Print one line per check, as soon as it is done."""
        from msmemscope.launch.diagnosis import diagnose

        option = OPTION_BY_SPELLING["--output"]
        given = [] if arguments.output is None else [GivenOption(option, option.spelling, arguments.output)]
        is_impossible = False
        for finding in diagnose(with_options(Config(), given)):
            is_impossible = is_impossible or finding.is_fatal
            sys.stdout.write(finding_text(finding))
            sys.stdout.flush()
        if is_impossible:
            sys.stdout.write("Nothing can be observed on this machine until that is solved.\n")
            return EXIT_STATUS_FAILURE
        return 0


def finding_text(finding: Finding) -> str:
    """Return the finding of a check as text: a line, and the advice below it."""
    text = f"{finding.status.value:8}  {finding.subject}: {finding.detail}\n"
    if finding.advice:
        text += textwrap.fill(finding.advice, _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT) + "\n"
    return text
