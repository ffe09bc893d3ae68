"""The choices of a user: one table for the command line, for ``activate()`` and for the environment.

The emulated libraries read the environment variables themselves (``native/settings``), so a choice made here travels
with the process, and to its children.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from .errors import VirtualNpuError

COMPUTE_TIERS = ("cpu", "none")
STREAM_MODES = ("synchronous", "asynchronous")
MOST_DEVICES = 64

SIZE = re.compile(r"(\d+)(?:([KMGT])(?:i?B)?|B)?")
UNITS = {None: 0, "K": 10, "M": 20, "G": 30, "T": 40}

# The driver's modules, named as in CANN's memory reports. The place in the list is the number.
MODULES = (
    "SLOG", "IDEDD", "IDEDH", "HCCL", "FMK", "HIAIENGINE", "DVPP", "RUNTIME", "CCE", "HDC", "DRV", "MDCFUSION",
    "MDCLOCATION", "MDCPERCEPTION", "MDCFSM", "MDCCOMMON", "MDCMONITOR", "MDCBSWP", "MDCDEFAULT", "MDCSC", "MDCPNC",
    "MLL", "DEVMM", "KERNEL", "LIBMEDIA", "CCECPU", "ASCENDDK", "ROS", "HCCP", "ROCE", "TEFUSION", "PROFILING",
    "DP", "APP", "TS", "TSDUMP", "AICPU", "LP", "TDT", "FE", "MD", "MB", "ME", "IMU", "IMP", "GE", "MDCFUSA",
    "CAMERA", "ASCENDCL", "TEEOS", "ISP", "SIS", "HSM", "DSS", "PROCMGR", "BBOX", "AIVECTOR", "TBE", "FV", "MDCMAP",
    "TUNE", "HSS", "FFTS", "OP", "UDF", "HICAID", "TSYNC", "AUDIO", "TPRT", "ASCENDCKERNEL", "ASYS", "ATRACE",
    "RTC", "SYSMONITOR", "AML", "INVLID_MOUDLE_ID",
)  # fmt: skip


def parse_size(name: str, value: object) -> int:
    """Return a number of bytes from ``512MiB``, ``64G`` or a plain number. Units are binary.

    Raises:
        VirtualNpuError: If it is none of these.
    """
    match = SIZE.fullmatch(str(value).strip())
    if match is None:
        raise refused(name, value, "a whole number of bytes, or one with a unit: 512MiB, 64GiB, 1TiB")
    return int(match[1]) << UNITS[match[2]]


def refused(name: str, value: object, accepted: str, hint: str = "") -> VirtualNpuError:
    """Make the error for a value that is not accepted."""
    return VirtualNpuError(
        f"{name}: '{value}' is not accepted; accepted: {accepted}" + (f"\nhint: {hint}" * bool(hint))
    )


def parse_devices(name: str, value: object) -> int:
    """Return the number of devices."""
    text = str(value).strip()
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MOST_DEVICES:
        raise refused(name, value, f"a number from 1 to {MOST_DEVICES}")
    return int(text)


def parse_memory(name: str, value: object) -> int:
    """Return the bytes of each device's memory."""
    size = parse_size(name, value)
    if size == 0:
        raise refused(name, value, "more than 0 bytes")
    return size


def parse_compute(name: str, value: object) -> str:
    """Return the compute tier."""
    if value not in COMPUTE_TIERS:
        raise refused(name, value, ", ".join(COMPUTE_TIERS))
    return str(value)


def parse_streams(name: str, value: object) -> str:
    """Return how streams run."""
    if value not in STREAM_MODES:
        raise refused(name, value, ", ".join(STREAM_MODES))
    return str(value)


def parse_soc(name: str, value: object) -> str:
    """Return the name of the chip; torch_npu knows which names there are."""
    if not re.fullmatch(r"Ascend\w+", str(value)):
        raise refused(name, value, "a chip's name such as Ascend910B1 (A2) or Ascend910_9391 (A3)")
    return str(value)


def parse_overhead(name: str, value: object) -> str:
    """Return ``MODULE=size`` pairs, checked, sizes in bytes. An empty text means none."""
    pairs = []
    for part in filter(None, (part.strip() for part in str(value).split(","))):
        module, equals, size = part.partition("=")
        if module not in MODULES or not equals:
            raise refused(
                name,
                part,
                "pairs of a driver module and a size: RUNTIME=128MiB,HCCL=1GiB",
                "modules have the names of CANN's memory reports: RUNTIME, AICPU, HCCL, OP, APP ...",
            )
        pairs.append(f"{module}={parse_size(name, size)}")
    return ",".join(pairs)


def parse_version(name: str, value: object) -> str:
    """Return a version of CANN or of the driver, checked; empty for none."""
    text = str(value)
    if text and not re.fullmatch(r"\d{1,4}(\.[0-9A-Za-z]{1,16}){1,4}", text):
        raise refused(name, text, "a version such as 8.5.0 or 9.0.RC1")
    return text


FAULTS = "fail-allocation:N, memory-limit:SIZE, overrun:FUNCTION[:CALL[:SIZE]]"


def parse_fault(name: str, fault: str) -> str:
    """Check one injected fault."""
    kind, *words = fault.split(":")
    number = re.compile(r"[1-9]\d*")
    if kind == "fail-allocation" and len(words) == 1 and number.fullmatch(words[0]):
        return fault
    if kind == "memory-limit" and len(words) == 1:
        return f"{kind}:{parse_size(name, words[0])}"
    if (
        kind == "overrun"
        and 1 <= len(words) <= len(("FUNCTION", "CALL", "SIZE"))
        and re.fullmatch(r"aclnn\w+", words[0])
    ):
        if len(words) > 1 and not number.fullmatch(words[1]):
            raise refused(name, fault, FAULTS)
        return ":".join([kind, *words[:2], *(str(parse_size(name, size)) for size in words[2:])])
    raise refused(name, fault, FAULTS)


def parse_faults(name: str, value: object) -> str:
    """Return the injected faults, checked; a comma list, or any iterable of texts."""
    if isinstance(value, Iterable) and not isinstance(value, str):
        value = ",".join(map(str, value))
    return ",".join(parse_fault(name, part.strip()) for part in str(value).split(",") if part.strip())


def option(variable: str, parse: Callable[[str, object], Any], default: Any, metavar: str, text: str) -> Any:
    """Declare one choice: a field of the configuration, an option of the command, an environment variable."""
    return field(default=default, metadata={"variable": variable, "parse": parse, "metavar": metavar, "help": text})


@dataclass(frozen=True)
class Configuration:
    """The choices for one program. Make it with ``Configuration.choose``, which checks and fills in."""

    devices: int = option("VNPU_DEVICES", parse_devices, 8, "N", "number of devices, 1 to 64")
    memory: int = option(
        "VNPU_MEMORY", parse_memory, 64 << 30, "SIZE",
        "memory of each device; backed by the machine's memory only where it is written",
    )  # fmt: skip
    soc: str = option("VNPU_SOC", parse_soc, "Ascend910B1", "NAME", "name of the chip that the devices report")
    compute: str = option(
        "VNPU_COMPUTE", parse_compute, "cpu", "TIER",
        "cpu: operators compute, on the CPU; none: they only allocate, and values are meaningless",
    )  # fmt: skip
    streams: str = option(
        "VNPU_STREAMS", parse_streams, "synchronous", "MODE",
        "synchronous: what is put on a stream has happened when the call returns; asynchronous: each stream has a thread",
    )  # fmt: skip
    cann: str = option(
        "VNPU_CANN", parse_version, "", "VERSION",
        "version that the packages of CANN report, such as 8.5.0; without one they report none, as before CANN 8.1",
    )  # fmt: skip
    driver: str = option(
        "VNPU_DRIVER", parse_version, "", "VERSION", "version that the driver reports to who asks CANN, 25.5.0; without one none"
    )  # fmt: skip
    workspace: int = option(
        "VNPU_WORKSPACE", parse_size, 16 << 20, "SIZE",
        "device memory that matrix multiplication, convolution and attention ask for while they run",
    )  # fmt: skip
    overhead: str = option(
        "VNPU_OVERHEAD", parse_overhead, "RUNTIME=134217728,AICPU=67108864,OP=33554432", "MODULE=SIZE,...",
        "memory that modules of the driver take on a device when a process first uses it",
    )  # fmt: skip
    faults: str = option("VNPU_FAULTS", parse_faults, "", "FAULT,...", f"injected faults: {FAULTS}")

    def __post_init__(self) -> None:
        if "overrun:" in self.faults and self.compute == "none":
            message = "faults: an overrun needs compute=cpu: with compute=none no operator writes anything"
            raise VirtualNpuError(message)

    @classmethod
    def choose(
        cls,
        given: Mapping[str, object],
        environment: Mapping[str, str],
        spell: Callable[[str], str] = str,
    ) -> Configuration:
        """Combine the given values with the environment. Given values win; ``None`` counts as not given.

        Args:
            given: Values by field name.
            environment: Where variables such as ``VNPU_DEVICES`` are looked up.
            spell: How a field is named in an error: ``devices``, or ``--devices`` on the command line.

        Raises:
            VirtualNpuError: If a value is not accepted.
        """
        chosen = {}
        for declared in fields(cls):
            variable = declared.metadata["variable"]
            if given.get(declared.name) is not None:
                chosen[declared.name] = declared.metadata["parse"](spell(declared.name), given[declared.name])
            elif variable in environment and (environment[variable] or declared.name == "overhead"):
                chosen[declared.name] = declared.metadata["parse"](variable, environment[variable])
        return cls(**chosen)

    def variables(self) -> dict[str, str]:
        """Return the environment variables that carry this configuration."""
        return {declared.metadata["variable"]: str(getattr(self, declared.name)) for declared in fields(self)}
