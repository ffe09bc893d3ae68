"""`msmemscope metrics PID|DIR`: figures of running programs for Prometheus, or for a collector of OpenTelemetry."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from msmemscope.cli.chosen_input import describe_verb
from msmemscope.errors import MsmemscopeError, UsageError

if TYPE_CHECKING:
    import argparse

    from msmemscope.live.metrics import CaptureMetrics

_PACKAGE: Final = "prometheus_client"
_EXAMPLE: Final = "msmemscope metrics memscopeDumpResults --prometheus=127.0.0.1:9464"
_ADDRESS: Final = "--prometheus"
_DEFAULT_ADDRESS: Final = "127.0.0.1:9464"
_FORM: Final = re.compile(r"([A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\]):([0-9]{1,5})")
_PAUSE_S: Final = 0.5
_MOST_PORT: Final = 65535
_OTLP: Final = "--otlp"
_EVERY: Final = "--every"
_OTLP_PACKAGE: Final = "opentelemetry.exporter.otlp.proto.http"
_OTLP_PATH: Final = "/v1/metrics"
_OTLP_ACCEPTED: Final = "a URL, such as http://127.0.0.1:4318"
_DEFAULT_EVERY_S: Final = 15.0
_MOST_EVERY_S: Final = 3600.0
_OTLP_TIMEOUT_S: Final = 10.0


class MetricsCommand:
    """Offer figures of running programs to Prometheus, or send them, until Ctrl-C.

    PID is an observed process, or one that has started some. DIR is a capture
    folder (msmemscope_*_ascend) or a folder of several; new ones in it are found,
    also if it is empty at first.
    Without either: the latest run. The programs are not touched: their event
    logs are read at each scrape. Needs `pip install 'msmemscope[metrics]'`.
    With --otlp the figures go to a collector of OpenTelemetry. That needs
    `pip install 'msmemscope[otlp]'`.
    """

    name = "metrics"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the verb."""
        describe_verb(parser, self, _EXAMPLE)
        parser.add_argument("what", metavar="PID|DIR", nargs="?", help="a process or a folder; default: the latest run")
        ways = parser.add_mutually_exclusive_group()
        ways.add_argument(
            _ADDRESS,
            metavar="HOST:PORT",
            default=_DEFAULT_ADDRESS,
            help=f"where to listen; default: {_DEFAULT_ADDRESS}",
        )
        ways.add_argument(_OTLP, metavar="URL", help="a collector that takes OTLP over HTTP; it gets the figures")
        parser.add_argument(
            _EVERY,
            metavar="SECONDS",
            type=float,
            help=f"with {_OTLP}: the time between two reports; default: {_DEFAULT_EVERY_S:g}",
        )
        parser.add_argument("--once", action="store_true", help="print or send the figures once and end")

    def run(self, arguments: argparse.Namespace) -> int:
        """Serve the figures, send them, or print them once."""
        host, port = _host_and_port(arguments.prometheus)
        endpoint = None if arguments.otlp is None else _endpoint(arguments.otlp)
        every_s = _every_s(arguments)
        _require(_PACKAGE, "metrics")
        if "polars" not in sys.modules:
            # Tables of live blocks are small: a thread for each processor would only be in the way of the programs.
            os.environ.setdefault("POLARS_MAX_THREADS", "1")
        from prometheus_client import CollectorRegistry, generate_latest, start_http_server

        from msmemscope.launch import messages
        from msmemscope.live.metrics import CaptureMetrics

        if endpoint is not None:
            _require(_OTLP_PACKAGE, "otlp")
        is_awaited = _are_awaited(arguments)
        registry = CollectorRegistry(auto_describe=False)
        collector = CaptureMetrics(lambda: _captures(arguments.what))
        yet = ", which has no capture yet," if is_awaited else ""
        what = f"{arguments.what or 'the latest run'}{yet}"
        if endpoint is not None:
            return _send(collector, endpoint, every_s, what, is_once=arguments.once)
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
        messages.note(f"metrics of {what} at http://{host}:{server.server_port}/metrics")
        try:
            while thread.is_alive():
                thread.join(_PAUSE_S)  # a wait without an end is not always interrupted
        except KeyboardInterrupt:
            server.shutdown()
            server.server_close()
        return 0


def _send(collector: CaptureMetrics, endpoint: str, every_s: float, what: str, *, is_once: bool) -> int:
    """Send the figures until Ctrl-C; once, return 1 if the collector did not take them."""
    from msmemscope.launch import messages
    from msmemscope.live.otlp_metrics import OtlpSender

    sender = OtlpSender(endpoint, _OTLP_TIMEOUT_S)
    before = ""
    try:
        if not is_once:
            messages.note(f"metrics of {what} go to {endpoint} every {every_s:g} s")
        while True:
            why = sender.send(collector.collect())
            if why and not before:
                ending = "" if is_once else f"; trying again every {every_s:g} s"
                messages.warning(f"metrics were not sent to {endpoint}: {why}{ending}")
            elif before and not why:
                messages.note(f"metrics go to {endpoint} again")
            if is_once:
                return 1 if why else 0
            before = why
            time.sleep(every_s)
    except KeyboardInterrupt:
        return 0
    finally:
        sender.close()


def _require(package: str, extra: str) -> None:
    """Check that a package is installed.

    Raises:
        UsageError: It is not.
    """
    try:
        is_there = importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # a package around it
        is_there = False
    if not is_there:
        message = f"msmemscope metrics needs the package {package}, which is not installed for {sys.executable}"
        raise UsageError(message, hint=f"pip install 'msmemscope[{extra}]'")


def _endpoint(given: str) -> str:
    """The whole URL; one without a path gets that of the protocol.

    Raises:
        UsageError: It is no URL of a web server.
    """
    try:
        parts = urlsplit(given)
        is_address = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        message = "is no address of a collector"
        raise UsageError(message, option=_OTLP, value=given, accepted=_OTLP_ACCEPTED)
    return parts._replace(path=_OTLP_PATH).geturl() if parts.path in {"", "/"} else given


def _every_s(arguments: argparse.Namespace) -> float:
    """The seconds between two reports.

    Raises:
        UsageError: There are none to be sent, or it is no such time.
    """
    if arguments.every is None:
        return _DEFAULT_EVERY_S
    given = f"{arguments.every:g}"
    if arguments.otlp is None:
        message = f"is of no use without {_OTLP}"
        raise UsageError(message, option=_EVERY, value=given, hint="Prometheus decides how often it asks")
    if not 1 <= arguments.every <= _MOST_EVERY_S:
        message = "is no number of seconds between two reports"
        raise UsageError(message, option=_EVERY, value=given, accepted=f"1 to {_MOST_EVERY_S:g}")
    return float(arguments.every)


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
