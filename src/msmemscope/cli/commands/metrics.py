"""`msmemscope metrics PID|DIR`: figures of running programs for Prometheus."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msmemscope.cli.chosen_input import describe_verb
from msmemscope.errors import MsmemscopeError, UsageError

if TYPE_CHECKING:
    import argparse

_PACKAGE: Final = "prometheus_client"
_EXAMPLE: Final = "msmemscope metrics memscopeDumpResults --prometheus=127.0.0.1:9464"
_ADDRESS: Final = "--prometheus"
_DEFAULT_ADDRESS: Final = "127.0.0.1:9464"
_FORM: Final = re.compile(r"([A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\]):([0-9]{1,5})")
_PAUSE_S: Final = 0.5
_MOST_PORT: Final = 65535


class MetricsCommand:
    """Offer figures of running programs to Prometheus, until Ctrl-C.

    PID is an observed process, or one that has started some. DIR is a capture
    folder (msmemscope_*_ascend) or a folder of several; new ones in it are found,
    also if it is empty at first.
    Without either: the latest run. The programs are not touched: their event
    logs are read at each scrape. Needs `pip install 'msmemscope[metrics]'`.
    """

    name = "metrics"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the verb."""
        describe_verb(parser, self, _EXAMPLE)
        parser.add_argument("what", metavar="PID|DIR", nargs="?", help="a process or a folder; default: the latest run")
        parser.add_argument(
            _ADDRESS,
            metavar="HOST:PORT",
            default=_DEFAULT_ADDRESS,
            help=f"where to listen; default: {_DEFAULT_ADDRESS}",
        )
        parser.add_argument("--once", action="store_true", help="print the figures once and end")

    def run(self, arguments: argparse.Namespace) -> int:
        """Serve the figures, or print them once."""
        host, port = _host_and_port(arguments.prometheus)
        if importlib.util.find_spec(_PACKAGE) is None:
            message = f"msmemscope metrics needs the package {_PACKAGE}, which is not installed for {sys.executable}"
            raise UsageError(message, hint="pip install 'msmemscope[metrics]'")
        if "polars" not in sys.modules:
            # Tables of live blocks are small: a thread for each processor would only be in the way of the programs.
            os.environ.setdefault("POLARS_MAX_THREADS", "1")
        from prometheus_client import CollectorRegistry, generate_latest, start_http_server

        from msmemscope.launch import messages
        from msmemscope.live.metrics import CaptureMetrics

        is_awaited = _are_awaited(arguments)
        registry = CollectorRegistry(auto_describe=False)
        collector = CaptureMetrics(lambda: _captures(arguments.what))
        if arguments.once:
            registry.register(collector)
            sys.stdout.write(generate_latest(registry).decode())
            return 0
        try:
            server, thread = start_http_server(port, host, registry)
        except OSError as error:
            message = f"cannot listen there: {error.strerror or error}"
            raise UsageError(message, option=_ADDRESS, value=arguments.prometheus) from error
        registry.register(collector)
        yet = ", which has no capture yet," if is_awaited else ""
        what = f"{arguments.what or 'the latest run'}{yet}"
        messages.note(f"metrics of {what} at http://{host}:{server.server_port}/metrics")
        try:
            while thread.is_alive():
                thread.join(_PAUSE_S)  # a wait without an end is not always interrupted
        except KeyboardInterrupt:
            server.shutdown()
            server.server_close()
        return 0


def _are_awaited(arguments: argparse.Namespace) -> bool:
    """Whether there are no captures yet, as beside a container that is just being started.

    Raises:
        MsmemscopeError: There are none, and there is no folder for them: it is told before anything is offered.
    """
    try:
        _captures(arguments.what)
    except MsmemscopeError:
        if arguments.once or arguments.what is None or not Path(arguments.what).is_dir():
            raise
        return True
    return False


def _captures(given: str | None) -> list[Path]:
    """The folders of the captures that are named, as they are now."""
    from msmemscope.cli.chosen_input import chosen_input
    from msmemscope.live.capture_choice import checked_captures

    return checked_captures(*chosen_input(given))


def _host_and_port(given: str) -> tuple[str, int]:
    found = _FORM.fullmatch(given)
    if found is None or int(found[2]) > _MOST_PORT:
        message = "is no address to listen at"
        raise UsageError(message, option=_ADDRESS, value=given, accepted="HOST:PORT, such as 127.0.0.1:9464")
    return found[1].strip("[]"), int(found[2])
