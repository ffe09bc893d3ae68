"""Figures of running programs for a collector of OpenTelemetry, which are sent to it again and again (OTLP over HTTP).

They are the figures of `msmemscope.live.metrics`, with the same names and labels. The attributes of a data point are its
labels. Source of the data model: https://opentelemetry.io/docs/specs/otel/metrics/data-model/.
"""

from __future__ import annotations

import logging
import os
import re
import time
from typing import TYPE_CHECKING, Final

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from msmemscope import __version__

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.core import Metric as Family

_LOGGER: Final = "opentelemetry"
_SYSTEM_ERROR: Final = re.compile(r"\[Errno -?\d+\] ([^)'\"]+)")
_BYTES_SUFFIX: Final = "_bytes"
_COUNTER: Final = "counter"
_COUNTER_SUFFIX: Final = "_total"


class OtlpSender:
    """Sends figures to one collector. Headers, certificates and compression are those of the variables OTEL_EXPORTER_OTLP_*.

    Args:
        endpoint: The whole URL, such as `http://127.0.0.1:4318/v1/metrics`.
        timeout_s: Seconds within which a collector must take them.
    """

    def __init__(self, endpoint: str, timeout_s: float) -> None:
        self._exporter = OTLPMetricExporter(endpoint, timeout=timeout_s)
        self._begun_ns = time.time_ns()
        self._heard = _FirstMessage()
        logger = logging.getLogger(_LOGGER)
        logger.propagate = False
        logger.addHandler(self._heard)
        names = {} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: "msmemscope"}
        self._resource = Resource.create(names)

    def send(self, families: Iterable[Family]) -> str:
        """Send figures; return why the collector does not have them, or an empty text."""
        self._heard.text = ""
        scope = ScopeMetrics(
            scope=InstrumentationScope("msmemscope", __version__),
            metrics=[*metrics_of(families, self._begun_ns, time.time_ns())],
            schema_url="",
        )
        data = MetricsData([ResourceMetrics(resource=self._resource, scope_metrics=[scope], schema_url="")])
        if self._exporter.export(data) is MetricExportResult.SUCCESS:
            return ""
        said = self._heard.text
        reason = _SYSTEM_ERROR.search(said)
        return reason[1] if reason else said or "the collector did not take them"

    def close(self) -> None:
        """Let go of the connection."""
        self._exporter.shutdown()


class _FirstMessage(logging.Handler):
    """Keeps what the library says first of a failure: it returns no reason. Later messages tell of further attempts."""

    text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text = self.text or " ".join(record.getMessage().split())


def metrics_of(families: Iterable[Family], begun_ns: int, now_ns: int) -> Iterable[Metric]:
    """Return the figures in OpenTelemetry's data model.

    Args:
        families: Gauges and counters.
        begun_ns: The counters count from this moment for whoever reads them; nanoseconds since 1970.
        now_ns: The moment of the figures.
    """
    for family in families:
        points = [
            NumberDataPoint(
                attributes={name: text for name, text in sample.labels.items() if text},
                start_time_unix_nano=begun_ns,
                time_unix_nano=now_ns,
                value=sample.value,
            )
            for sample in family.samples
        ]
        if not points:
            continue
        unit = "By" if family.name.endswith(_BYTES_SUFFIX) else "1"
        if family.type == _COUNTER:
            total = Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True)
            yield Metric(f"{family.name}{_COUNTER_SUFFIX}", family.documentation, unit, total)
        else:
            yield Metric(family.name, family.documentation, unit, Gauge(points))
