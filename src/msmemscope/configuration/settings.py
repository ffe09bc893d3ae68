"""One frozen `Config`, and how it travels.

A `Config` goes to the observed process as text in the environment (`Config.to_settings_text`). From there it goes into
the event log as facts. So a capture can be exported later the way it was meant (`Config.from_facts`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import os
import re
import sys
import time
from typing import TYPE_CHECKING, Any, TypeVar

from msmemscope.errors import ConfigurationError
from msmemscope.model.devices import DEVICES_PER_KIND, KIND_WORDS, device_name, parse_device_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

SETTINGS_VARIABLE = "MSMEMSCOPE_SETTINGS"
"""The environment variable that carries the settings text to observed processes."""

DEFAULT_OUTPUT = "memscopeDumpResults"
OLDER_OUTPUT = "leaksDumpResults"
DEFAULT_STACK_DEPTH = 50
MAXIMUM_STACK_DEPTH = 1000
HIGHEST_DEVICE = 31
"""Index of a device that can be chosen; recordings can have higher ones."""
ACCEPTED_DEVICES = f"{', '.join(KIND_WORDS)}, or one of a kind: npu:{{0..{HIGHEST_DEVICE}}}"
DEFAULT_OOM_TOP = 10
MAXIMUM_OOM_TOP = 1000
DEFAULT_HOLDER_TIME_MS = 500
MAXIMUM_HOLDER_TIME_MS = 600_000
DEFAULT_HOST_SAMPLE_BYTES = 512 << 10
LEAST_HOST_SAMPLE_BYTES = 1 << 10
MOST_HOST_SAMPLE_BYTES = 1 << 30
DEFAULT_WATCH_BUDGET_BYTES = 12 << 20
DEFAULT_WATCH_MAX_SIZE_BYTES = 10 << 30
DEFAULT_TRIGGER_STEPS = 10
NO_SESSION = "0" * 16

WHOLE_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)
CONTROL_CHARACTERS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class CollectionItem(str, enum.Enum):
    """Kinds of events to collect; the order is the order in which they are written."""

    ALLOC = "alloc"
    FREE = "free"
    LAUNCH = "launch"
    ACCESS = "access"
    TRACEBACK = "traceback"
    ALLOCATOR = "allocator"


class Level(str, enum.Enum):
    """At which granularity launches are collected."""

    OP = "op"
    KERNEL = "kernel"


class CollectMode(str, enum.Enum):
    """When collection begins: at once, or at `msmemscope.start()`."""

    IMMEDIATE = "immediate"
    DEFERRED = "deferred"


class Analysis(str, enum.Enum):
    """A question that is answered about what was collected."""

    LEAKS = "leaks"
    DECOMPOSE = "decompose"
    INEFFICIENT = "inefficient"
    OOM = "oom"


class DataFormat(str, enum.Enum):
    """The format of the dump files."""

    CSV = "csv"
    DB = "db"


class HostSampling(str, enum.Enum):
    """Which allocations of host memory besides tensors are recorded."""

    SAMPLED = "sampled"
    ALL = "all"
    OFF = "off"


class WatchChecksum(str, enum.Enum):
    """Which checksum of watched memory is written; `native/watch/content_hash.h` has both byte by byte."""

    HASH64 = "hash64"
    CRC64 = "crc64"


class LogLevel(str, enum.Enum):
    """The least important messages that are still printed; from the least to the most important."""

    DEBUG = "debug"
    INFO = "info"
    WARN = "warn"
    ERROR = "error"


CANN_VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
"""Set by CANN's own scripts (set_env.sh); nothing of CANN works without them."""


CUDA_DRIVER_FILES = ("/dev/nvidiactl", "/dev/dxg")
"""Files of a driver of CUDA: under Linux, and under WSL."""


def cann_directory() -> str:
    """The directory of CANN that this environment is set up for, existing or not; empty if it is set up for none."""
    return next(filter(None, map(os.environ.get, CANN_VARIABLES)), "")


def observable_devices() -> tuple[str, ...]:
    """The devices that are observed when none is named.

    All NPUs where CANN is set up. Else the cpu, and all CUDA devices where a driver of CUDA is.
    """
    if cann_directory():
        return ("npu",)
    has_cuda = any(map(os.path.exists, CUDA_DRIVER_FILES))  # pathlib would be loaded into the observed process
    return ("cuda", "cpu") if has_cuda else ("cpu",)


def _default_output() -> str:
    name = OLDER_OUTPUT if _uses_older_name() else DEFAULT_OUTPUT
    try:
        return os.path.abspath(name)  # noqa: PTH100 - pathlib would be loaded into the observed process
    except OSError:
        # The current directory is gone. Nothing can be created there, which is said when something is to be.
        return f"/proc/self/cwd/{name}"


def _uses_older_name() -> bool:
    """Whether this process knows us as msleaks, our older name: its command, or its import."""
    return "msleaks" in sys.modules or os.path.basename(sys.argv[0] if sys.argv else "") == "msleaks"  # noqa: PTH119


def _package_directory() -> str:
    return os.path.abspath(os.path.join(__file__, "..", ".."))  # noqa: PTH100, PTH118 - as above


def _utc_offset_seconds() -> int:
    return time.localtime().tm_gmtoff


@dataclasses.dataclass(frozen=True)
class StackScope:
    """Which call stacks dumps show from an event on."""

    first_sequence: int
    """Number of that event."""
    python_stack: bool
    native_stack: bool

    def to_fact(self) -> str:
        """Write it as the value of a fact."""
        return f"{self.first_sequence},{int(self.python_stack)},{int(self.native_stack)}"

    @classmethod
    def from_fact(cls, text: str) -> StackScope | None:
        """Read what `to_fact` wrote; None for anything else."""
        match = re.fullmatch("([0-9]{1,19}),([01]),([01])", text, re.ASCII)
        return cls(int(match[1]), match[2] == "1", match[3] == "1") if match else None


STACK_SCOPE_FACT = "scope.stacks"
"""Key of the fact that each change of `StackScope` is noted as."""


@dataclasses.dataclass(frozen=True)
class Config:
    """Everything that a run of the tool was asked to do, after validation and couplings."""

    output: str = dataclasses.field(default_factory=_default_output)
    """Absolute path of the output root."""
    session: str = NO_SESSION
    """16 hexadecimal digits that name the launch; all zeros if there was none."""
    launch_directory: str = ""
    """Directory of the running launch with its ledger; empty if there is none."""
    package: str = dataclasses.field(default_factory=_package_directory)
    """Directory of the msmemscope package."""
    native_directory: str = ""
    """Directory of the compiled extension where that is not the package: an installation for development."""
    events: frozenset[CollectionItem] = frozenset({CollectionItem.ALLOC, CollectionItem.FREE, CollectionItem.LAUNCH})
    """The kinds of events to collect, couplings included."""
    unwritten: frozenset[CollectionItem] = frozenset()
    """Those of them that are collected for analyses alone: no dump file has them."""
    level: frozenset[Level] = frozenset({Level.OP})
    collect_mode: CollectMode = CollectMode.IMMEDIATE
    devices: tuple[str, ...] = dataclasses.field(default_factory=observable_devices)
    """`cpu`, a kind such as `npu` (all of them), or a device such as `npu:{id}`; never empty."""
    steps: tuple[int, ...] = ()
    """The steps to collect, ascending; empty means all."""
    python_stack: bool = False
    """Whether dumps show Python call stacks. Stacks may be collected all the same, for the summary."""
    python_stack_depth: int = DEFAULT_STACK_DEPTH
    """Frames of a Python call stack that are collected; 0 collects none."""
    native_stack: bool = False
    """Whether dumps show C call stacks."""
    native_stack_depth: int = 0
    """Frames of a C call stack that are collected; 0 collects none."""
    stack_scopes: tuple[StackScope, ...] = ()
    """Of a capture: changes of the stacks in dumps by `config()`, each with its first event, ascending; else empty."""
    analysis: frozenset[Analysis] = frozenset({Analysis.LEAKS})
    named_analyses: frozenset[Analysis] = frozenset()
    """Those that somebody asked for by name: their lines for scripts stand in the summary, too."""
    oom_top: int = 0
    """How many of the latest and of the largest blocks are shown where memory ran out; 0 if that was not asked for."""
    holder_time: int = DEFAULT_HOLDER_TIME_MS
    """Milliseconds of processor time that a search for holders of memory may take; 0: none is made."""
    data_format: DataFormat = DataFormat.CSV
    log_level: LogLevel = LogLevel.WARN
    maximum_size: int = 0
    """Bytes of event log per process, after which the oldest events are dropped; 0 means no limit."""
    host: HostSampling = HostSampling.SAMPLED
    """Which allocations of host memory besides tensors are recorded, so that growth has a line."""
    host_sample_bytes: int = DEFAULT_HOST_SAMPLE_BYTES
    """Of these allocations one per so many bytes is recorded, on average; each one if `host` is `all`."""
    watch: str = ""
    """Memory that is watched, as `configuration.watching` writes it; empty: only that which the program names itself.
    """
    watch_budget: int = DEFAULT_WATCH_BUDGET_BYTES
    """Bytes that automatic watching looks at around one operator, at most."""
    watch_max_size: int = DEFAULT_WATCH_MAX_SIZE_BYTES
    """Bytes of contents of watched memory that one process writes, at most."""
    watch_checksum: WatchChecksum = WatchChecksum.HASH64
    trigger: str = ""
    """Conditions under which details are recorded, as `configuration.triggers` writes them; empty: none."""
    trigger_steps: int = DEFAULT_TRIGGER_STEPS
    """Of how many steps details are recorded then."""
    ranks: str = ""
    """Ranks that are observed, `0,7,8-15`; empty: all, or those of `sample_ranks`."""
    sample_ranks: str = ""
    """Which part of the ranks is observed besides, `1/16`; empty: none."""
    role: str = ""
    """The user's name for the part of this process in a job; empty: the framework's name, if it has one."""
    on_command_line: frozenset[str] = frozenset()
    """Names of the options on the command line; `config()` cannot change the making of a log against them."""
    utc_offset: int = dataclasses.field(default_factory=_utc_offset_seconds)
    """Seconds east of Greenwich: names of folders are local time, which the native core must not ask the C library."""

    def to_settings_text(self) -> str:
        """Write the settings as `key=value` lines, every key, in a fixed order.

        Raises:
            ConfigurationError: If a path holds a control character, which a line cannot carry.
        """
        lines = []
        for name, kind in _SETTING_KINDS.items():
            text = kind.encode(getattr(self, name))
            if CONTROL_CHARACTERS.search(text):
                message = "contains a control character or is not valid text"
                raise ConfigurationError(message, option=name, value=text, accepted="printable characters")
            lines.append(f"{name}={text}")
        return "\n".join(lines)

    def observes(self, device: int) -> bool:
        """Whether a device, as events have it, or all of its kind are observed; not `DEVICE_NONE`."""
        name = device_name(device)
        return not {name, name.partition(":")[0]}.isdisjoint(self.devices)

    @classmethod
    def from_settings_text(cls, text: str) -> Config:
        """Read the text of `to_settings_text`; missing keys keep their default, unknown ones are skipped.

        Raises:
            ConfigurationError: If the value of a known key is not one that could have been written.
        """
        pairs = (line.partition("=") for line in text.split("\n") if line)
        return cls._from_texts({key: value for key, _, value in pairs})

    @classmethod
    def from_facts(cls, facts: Mapping[str, tuple[str, ...]]) -> Config:
        """Rebuild the settings in force from the facts of a capture (`setting.<key>`; of several, the last holds).

        Something counts as asked for in the results if it was asked for at any time.

        Raises:
            ConfigurationError: If the value of a known key is not one that could have been written.
        """
        prefix = "setting."
        texts = {key[len(prefix) :]: texts for key, texts in facts.items() if key.startswith(prefix) and texts}
        config = cls._from_texts({key: reported[-1] for key, reported in texts.items()})
        wishes: dict[str, Any] = {}
        for key in _WISHES & texts.keys():
            earlier = []
            for text in dict.fromkeys(texts[key]):
                with contextlib.suppress(ValueError):  # what no longer holds need not be readable
                    earlier.append(_SETTING_KINDS[key].decode(text))
            wishes[key] = frozenset().union(*earlier) if isinstance(earlier[0], frozenset) else max(earlier)
        changes = [StackScope.from_fact(text) for text in facts.get(STACK_SCOPE_FACT, ())]
        if changes:
            first = (texts.get(name, ("0",))[0] == "1" for name in ("python_stack", "native_stack"))
            wishes["stack_scopes"] = (StackScope(0, *first), *filter(None, changes))
        return dataclasses.replace(config, **wishes)

    @classmethod
    def _from_texts(cls, texts: Mapping[str, str]) -> Config:
        fields: dict[str, Any] = {}
        for name, kind in _SETTING_KINDS.items():
            if name not in texts:
                continue
            try:
                fields[name] = kind.decode(texts[name])
            except ValueError as error:
                message = "damaged setting"
                raise ConfigurationError(message, option=name, value=texts[name], accepted=kind.accepted) from error
        return cls(**fields)


@dataclasses.dataclass(frozen=True)
class _SettingKind:
    """How one field of `Config` is written on a line of settings text."""

    accepted: str
    encode: Callable[[Any], str]
    decode: Callable[[str], Any]


_EnumType = TypeVar("_EnumType", bound=enum.Enum)


def new_session() -> str:
    """Return an identity that no other launch has. Not by `secrets`, which brings OpenSSL into every process."""
    return os.urandom(8).hex()


def _text_kind(accepted: str, pattern: str) -> _SettingKind:
    def decode(text: str) -> str:
        if not re.fullmatch(pattern, text, re.ASCII):
            raise ValueError(text)
        return text

    return _SettingKind(accepted, str, decode)


def _number_kind(maximum: int) -> _SettingKind:
    def decode(text: str) -> int:
        if not re.fullmatch("[0-9]+", text, re.ASCII) or int(text) > maximum:
            raise ValueError(text)
        return int(text)

    return _SettingKind(f"an integer from 0 to {maximum}", str, decode)


def _enum_kind(members: type[_EnumType]) -> _SettingKind:
    return _SettingKind(values_of(members), lambda member: str(member.value), members)


def _enum_set_kind(members: type[_EnumType]) -> _SettingKind:
    def encode(chosen: frozenset[_EnumType]) -> str:
        return ",".join(member.value for member in members if member in chosen)

    def decode(text: str) -> frozenset[_EnumType]:
        return frozenset(members(token) for token in text.split(",") if token)

    return _SettingKind(values_of(members), encode, decode)


def is_device(token: str) -> bool:
    """Whether the token names a device, or all of a kind: `cpu`, `npu`, `cuda:1`."""
    if ":" not in token:
        return token in KIND_WORDS
    device = parse_device_name(token)
    if device is None:
        return False
    # The owner's documents number NPUs up to 31; nobody numbers the others.
    return not token.startswith("npu") or device % DEVICES_PER_KIND <= HIGHEST_DEVICE


def _decode_devices(text: str) -> tuple[str, ...]:
    tokens = tuple(text.split(","))
    if not all(is_device(token) for token in tokens):
        raise ValueError(text)
    return tokens


def _decode_steps(text: str) -> tuple[int, ...]:
    return tuple(int(token) for token in text.split(",") if token)


def _decode_names(text: str) -> frozenset[str]:
    return frozenset(filter(None, text.split(",")))


def values_of(members: Iterable[enum.Enum]) -> str:
    """The words of an enumeration, for messages."""
    return ", ".join(str(member.value) for member in members)


_WISHES = frozenset({"analysis", "named_analyses", "oom_top", "python_stack", "native_stack"})
"""Settings that say what the results show, which `config()` may change while the program runs."""

_ANY_PATH = _text_kind("a path", ".*")
_SWITCH = _SettingKind("0 or 1", lambda on: str(int(on)), lambda text: bool(("0", "1").index(text)))
_SETTING_KINDS: Mapping[str, _SettingKind] = {
    "output": _ANY_PATH,
    "session": _text_kind("16 hexadecimal digits", "[0-9a-f]{16}"),
    "launch_directory": _ANY_PATH,
    "package": _ANY_PATH,
    "native_directory": _ANY_PATH,
    "events": _enum_set_kind(CollectionItem),
    "unwritten": _enum_set_kind(CollectionItem),
    "level": _enum_set_kind(Level),
    "collect_mode": _enum_kind(CollectMode),
    "devices": _SettingKind(ACCEPTED_DEVICES, ",".join, _decode_devices),
    "steps": _SettingKind("integers", lambda steps: ",".join(map(str, steps)), _decode_steps),
    "python_stack": _SWITCH,
    "python_stack_depth": _number_kind(MAXIMUM_STACK_DEPTH),
    "native_stack": _SWITCH,
    "native_stack_depth": _number_kind(MAXIMUM_STACK_DEPTH),
    "analysis": _enum_set_kind(Analysis),
    "named_analyses": _enum_set_kind(Analysis),
    "oom_top": _number_kind(MAXIMUM_OOM_TOP),
    "holder_time": _number_kind(MAXIMUM_HOLDER_TIME_MS),
    "data_format": _enum_kind(DataFormat),
    "log_level": _enum_kind(LogLevel),
    "maximum_size": _number_kind(2**63 - 1),
    "host": _enum_kind(HostSampling),
    "host_sample_bytes": _number_kind(MOST_HOST_SAMPLE_BYTES),
    "watch": _text_kind("operators", ".*"),
    "watch_budget": _number_kind(2**63 - 1),
    "watch_max_size": _number_kind(2**63 - 1),
    "watch_checksum": _enum_kind(WatchChecksum),
    "trigger": _text_kind("conditions", ".*"),
    "trigger_steps": _number_kind(2**31),
    "ranks": _text_kind("numbers and ranges", r"(\d{1,9}(-\d{1,9})?(,\d{1,9}(-\d{1,9})?)*)?"),
    "sample_ranks": _text_kind("a part", r"(\d{1,7}/\d{1,7})?"),
    "role": _text_kind("a name", ".*"),
    "on_command_line": _SettingKind("names of options", lambda names: ",".join(sorted(names)), _decode_names),
    "utc_offset": _SettingKind("a number of seconds", str, int),
}
