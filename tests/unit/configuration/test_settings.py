"""The configuration as text: in the environment of the observed process, and as facts of its event log."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.configuration import (
    CANN_VARIABLES,
    Analysis,
    CollectionItem,
    CollectMode,
    Config,
    DataFormat,
    HostSampling,
    Level,
    LogLevel,
    observable_devices,
)
from msmemscope.errors import ConfigurationError

KEYS = [
    "output",
    "session",
    "launch_directory",
    "package",
    "native_directory",
    "events",
    "unwritten",
    "level",
    "collect_mode",
    "devices",
    "steps",
    "python_stack",
    "python_stack_depth",
    "native_stack",
    "native_stack_depth",
    "analysis",
    "named_analyses",
    "oom_top",
    "holder_time",
    "data_format",
    "log_level",
    "maximum_size",
    "host",
    "host_sample_bytes",
    "watch",
    "watch_budget",
    "watch_max_size",
    "watch_checksum",
    "trigger",
    "trigger_steps",
    "ranks",
    "sample_ranks",
    "role",
    "on_command_line",
    "utc_offset",
]

paths = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=60).map(lambda text: f"/{text}")
depths = st.integers(0, 1000)
configs = st.builds(
    Config,
    output=paths,
    session=st.text("0123456789abcdef", min_size=16, max_size=16),
    launch_directory=st.just("") | paths,
    package=paths,
    native_directory=st.just("") | paths,
    events=st.frozensets(st.sampled_from(CollectionItem)),
    level=st.frozensets(st.sampled_from(Level)),
    collect_mode=st.sampled_from(CollectMode),
    devices=st.lists(st.sampled_from(["cpu", "npu", "npu:0", "npu:31"]), min_size=1, max_size=4, unique=True).map(
        tuple
    ),
    steps=st.lists(st.integers(1, 2**32 - 1), max_size=5, unique=True).map(tuple),
    python_stack=st.booleans(),
    python_stack_depth=depths,
    native_stack=st.booleans(),
    native_stack_depth=depths,
    analysis=st.frozensets(st.sampled_from(Analysis)),
    oom_top=st.integers(0, 1000),
    holder_time=st.integers(0, 600_000),
    data_format=st.sampled_from(DataFormat),
    log_level=st.sampled_from(LogLevel),
    maximum_size=st.integers(0, 2**63 - 1),
    host=st.sampled_from(HostSampling),
    host_sample_bytes=st.integers(1 << 10, 1 << 30),
    ranks=st.sampled_from(["", "0", "0,7,8-15"]),
    sample_ranks=st.sampled_from(["", "1/16"]),
    role=st.text(st.characters(categories=("L", "N", "P", "Zs")), max_size=80),
    on_command_line=st.frozensets(st.sampled_from(["output", "data-format"])),
    utc_offset=st.integers(-86400, 86400),
)


@given(configs)
def test_settings_text_gives_back_the_same_config(config: Config) -> None:
    """Whatever the values, a configuration survives its way through the environment."""
    assert Config.from_settings_text(config.to_settings_text()) == config


@given(configs)
def test_facts_give_back_the_same_config(config: Config) -> None:
    """The lines, as facts of a capture, rebuild the configuration; of several values the last holds."""
    lines = dict(line.split("=", 1) for line in config.to_settings_text().split("\n"))
    facts = {f"setting.{key}": ("an older value", value) for key, value in lines.items()}
    assert Config.from_facts({**facts, "argument": ("python",)}) == config


def test_scopes_of_call_stacks() -> None:
    """Where `config()` changed which stacks are shown, each scope has its own; what is damaged is left out."""
    facts = {"setting.python_stack": ("0", "1"), "scope.stacks": ("17,1,0", "1,1", "40,0,1")}
    scopes = Config.from_facts(facts).stack_scopes
    assert [dataclasses.astuple(scope) for scope in scopes] == [(0, False, False), (17, True, False), (40, False, True)]
    assert Config.from_facts({"setting.python_stack": ("1",)}).stack_scopes == ()


def test_what_was_asked_for_at_any_time_is_shown() -> None:
    """A program may choose other settings for each part of it; the results are one."""
    facts = {
        "setting.analysis": ("leaks,decompose", "leaks", "oom"),
        "setting.oom_top": ("0", "20", "10"),
        "setting.python_stack": ("1", "0"),
        "setting.native_stack": ("0", "0"),
        "setting.events": ("alloc,free", "launch"),
    }
    config = Config.from_facts(facts)
    assert config.analysis == {Analysis.LEAKS, Analysis.DECOMPOSE, Analysis.OOM}
    assert (config.oom_top, config.python_stack, config.native_stack) == (20, True, False)
    assert config.events == {CollectionItem.LAUNCH}


def test_settings_text_has_every_key_in_a_fixed_order() -> None:
    """The native core and the readers rely on the keys; every field of the configuration is among them."""
    text = Config().to_settings_text()
    assert [line.partition("=")[0] for line in text.split("\n")] == KEYS
    # The scopes of call stacks are known of captures alone.
    assert {field.name for field in dataclasses.fields(Config)} - {"stack_scopes"} == set(KEYS)


def test_lists_are_written_in_a_fixed_order() -> None:
    """Sets have no order, lines do."""
    config = Config(
        events=frozenset(CollectionItem), level=frozenset(Level), analysis=frozenset(Analysis), steps=(1, 3)
    )
    lines = config.to_settings_text().split("\n")
    assert "events=alloc,free,launch,access,traceback,allocator" in lines
    assert "level=op,kernel" in lines
    assert "analysis=leaks,decompose,inefficient,oom" in lines
    assert "steps=1,3" in lines


@pytest.fixture(autouse=True)
def without_cann(monkeypatch: pytest.MonkeyPatch) -> None:
    """No CANN is set up, wherever these tests run."""
    for variable in CANN_VARIABLES:
        monkeypatch.delenv(variable, raising=False)


@pytest.mark.parametrize("variable", CANN_VARIABLES)
def test_npus_are_observed_where_cann_is_set_up(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    """An empty variable is as good as none."""
    monkeypatch.setenv(variable, "")
    assert Config().devices == ("cpu",)
    monkeypatch.setenv(variable, "/usr/local/Ascend/ascend-toolkit/latest")
    assert Config().devices == ("npu",)


def test_defaults_are_those_of_the_documents() -> None:
    """alloc,free,launch; operators; at once; leaks; csv; warnings; no stacks in the dumps, but collected."""
    config = Config()
    assert config.output.endswith("/memscopeDumpResults")
    assert config.events == {CollectionItem.ALLOC, CollectionItem.FREE, CollectionItem.LAUNCH}
    assert config.level == {Level.OP}
    assert config.collect_mode is CollectMode.IMMEDIATE
    assert config.analysis == {Analysis.LEAKS}
    assert config.data_format is DataFormat.CSV
    assert config.log_level is LogLevel.WARN
    assert config.devices == observable_devices()
    assert (config.python_stack, config.python_stack_depth) == (False, 50)
    assert (config.native_stack, config.native_stack_depth) == (False, 0)
    assert config.maximum_size == 0


def test_cuda_devices_are_observed_where_their_driver_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """And CPU tensors with them. Where CANN is set up, NPUs are observed."""
    exists = os.path.exists
    monkeypatch.setattr(os.path, "exists", lambda path: path == "/dev/nvidiactl" or exists(path))
    for variable in CANN_VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    assert observable_devices() == ("cuda", "cpu")
    monkeypatch.setenv(CANN_VARIABLES[0], "/usr/local/Ascend")
    assert observable_devices() == ("npu",)


def test_missing_and_unknown_keys_do_not_matter() -> None:
    """A text of another version is read as far as it is understood."""
    config = Config.from_settings_text("level=kernel\nfrom_the_future=1\n\nno equals sign")
    assert config == Config(level=frozenset({Level.KERNEL}))


@pytest.mark.parametrize(
    "line",
    [
        "events=alloc,nothing",
        "session=xyz",
        "python_stack=2",
        "native_stack_depth=1001",
        "steps=a",
        "devices=",
        "data_format=",
        "maximum_size=-1",
        "utc_offset=east",
    ],
)
def test_a_damaged_line_is_named(line: str) -> None:
    """A line that we could never have written is refused with the key and the value."""
    key, _, value = line.partition("=")
    with pytest.raises(ConfigurationError) as caught:
        Config.from_settings_text(line)
    assert caught.value.option == key
    assert repr(value) in str(caught.value)


def test_a_path_with_a_line_feed_is_refused() -> None:
    """It would end its line and could pretend to be another setting."""
    with pytest.raises(ConfigurationError, match="output"):
        Config(output="/tmp/a\nlog_level=error").to_settings_text()


def test_importing_the_configuration_loads_standard_library_only() -> None:
    """It is imported inside the observed process."""
    code = """
import sys
before = set(sys.modules)
import msmemscope.configuration
own = {name.partition(".")[0] for name in set(sys.modules) - before}
print(sorted(name for name in own if name not in sys.stdlib_module_names and name != "msmemscope"))
"""
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "[]"
