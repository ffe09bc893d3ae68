"""The files that a launch makes on disk, the users that it trusts, and the things that it leaves behind."""

from __future__ import annotations

import dataclasses
import os
import shutil
import stat
import struct
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from msmemscope.capture.output_root import prepare_output_root, remove_if_empty
from msmemscope.configuration import SETTINGS_VARIABLE, Config
from msmemscope.errors import UsageError
from msmemscope.launch.executable import why_not_observable
from msmemscope.launch.ledger import append_captures, create_launch_directory, read_ledger
from msmemscope.launch.preload import CORE_LIBRARY, core_library, native_directory, preload_environment
from tests.support import tool
from tests.support.targets import environment

INSTALLED = dataclasses.replace(Config(), native_directory=native_directory(Config().package))
needs_core = pytest.mark.skipif(core_library(INSTALLED) is None, reason="the native library was not built")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
NOBODY = 65534


def mode_of(path: Path) -> int:
    """Permission bits."""
    return stat.S_IMODE(path.stat().st_mode)


def copy_package(packages: Path, *, with_core: bool) -> None:
    """Put the package elsewhere, in one folder, as a wheel has it. To be run with -S: editable installs have a finder."""
    sources = shutil.ignore_patterns("lib64", "*.so", "__pycache__")
    shutil.copytree(INSTALLED.package, packages / "msmemscope", ignore=sources)
    native = Path(INSTALLED.native_directory or INSTALLED.package)
    for extension in native.glob("_native.*.so"):
        shutil.copy(extension, packages / "msmemscope")
    if with_core:
        shutil.copytree(native / "lib64", packages / "msmemscope" / "lib64")


def test_root_is_created_for_the_user_and_the_group(tmp_path: Path) -> None:
    """0750, with everything on the way."""
    root = prepare_output_root(f"{tmp_path}/a/b")
    assert root.was_created
    assert mode_of(tmp_path / "a") == mode_of(tmp_path / "a" / "b") == 0o750
    assert not prepare_output_root(f"{tmp_path}/a/b").was_created


def test_empty_root_of_this_launch_is_removed(tmp_path: Path) -> None:
    """A run that records nothing leaves nothing; what was there before stays."""
    remove_if_empty(prepare_output_root(f"{tmp_path}/new"))
    assert not (tmp_path / "new").exists()
    (tmp_path / "old").mkdir()
    remove_if_empty(prepare_output_root(f"{tmp_path}/old"))
    assert (tmp_path / "old").is_dir()
    root = prepare_output_root(f"{tmp_path}/used")
    (tmp_path / "used" / "file").touch()
    remove_if_empty(root)
    assert (tmp_path / "used" / "file").exists()


def test_own_links_are_followed(tmp_path: Path) -> None:
    """Relative and absolute ones; a loop is an error, not a hang."""
    (tmp_path / "real").mkdir()
    (tmp_path / "relative").symlink_to("real")
    (tmp_path / "absolute").symlink_to(tmp_path / "relative")
    prepare_output_root(f"{tmp_path}/absolute/new")
    assert (tmp_path / "real" / "new").is_dir()
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(UsageError, match="--output"):
        prepare_output_root(f"{tmp_path}/loop/new")


@needs_root
def test_links_of_others_are_refused(tmp_path: Path) -> None:
    """Wherever in the path they stand."""
    (tmp_path / "real").mkdir()
    (tmp_path / "planted").symlink_to("real")
    os.chown(tmp_path / "planted", NOBODY, NOBODY, follow_symlinks=False)
    for path in ("planted", "planted/new"):
        with pytest.raises(UsageError, match="symbolic link of another user"):
            prepare_output_root(f"{tmp_path}/{path}")
    assert list((tmp_path / "real").iterdir()) == []


def test_paths_open_to_others_are_warned_about(tmp_path: Path) -> None:
    """The root itself, and what lies on the way; a sticky folder such as /tmp is safe."""
    open_root, open_parent, sticky = tmp_path / "open", tmp_path / "parent", tmp_path / "sticky"
    for path in (open_root, open_parent, sticky):
        path.mkdir()
        path.chmod(0o1777 if path is sticky else 0o777)

    def warnings(path: Path) -> list[str]:
        return [line for line in prepare_output_root(str(path)).warnings if "other users can write" in line]

    assert len(warnings(open_root)) == 1
    assert str(open_parent) in warnings(open_parent / "below")[0]
    assert warnings(sticky / "below") == []
    assert all("\n" not in line for line in warnings(open_root))


@needs_root
def test_running_as_root_is_warned_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one line; the run goes on."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert [line for line in prepare_output_root(f"{tmp_path}/x").warnings if "root" in line]


def test_ledger(tmp_path: Path) -> None:
    """Lines of processes; torn and foreign ones do not count."""
    directory = create_launch_directory(str(tmp_path))
    assert mode_of(directory) == 0o700
    assert read_ledger(directory).started == ()
    with (directory / "processes").open("a", encoding="utf-8") as file:
        file.write("start\t10\t1\t123\t/usr/bin/python\nstart\tx\t1\t2\t/bin/x\nfuture\t1\n")
        file.write("capture\t10\t/out/msmemscope_10\ncapture\t10\t/out/msmemscope_10\nstart\t11\t10\t124\t/bin/tor")
    ledger = read_ledger(directory)
    assert [(start.process_id, start.executable) for start in ledger.started] == [(10, "/usr/bin/python")]
    assert ledger.captures == {Path("/out/msmemscope_10"): 10}
    assert read_ledger(tmp_path / "missing").captures == {}


def test_nested_captures_reach_the_outer_ledger(tmp_path: Path) -> None:
    """One line each."""
    directory = create_launch_directory(str(tmp_path))
    append_captures(directory, {Path("/out/msmemscope_7"): 7})
    assert read_ledger(directory).captures == {Path("/out/msmemscope_7"): 7}


@pytest.mark.parametrize("name", ["with space", "with:colon", "with$dollar"])
def test_package_path_that_cannot_be_preloaded(tmp_path: Path, name: str) -> None:
    """A link under the launch directory stands for it, or a private one where that path is no better."""
    package = tmp_path / name / "msmemscope"
    (package / "lib64").mkdir(parents=True)
    (package / "bootstrap").mkdir()
    (package / CORE_LIBRARY).touch()
    for launch in (tmp_path / "launch", tmp_path / name / "launch"):
        launch.mkdir()
        config = Config(package=str(package), launch_directory=str(launch))
        preload = preload_environment(config, {"LD_PRELOAD": "/other.so"})
        ours, other = preload.variables["LD_PRELOAD"].split(":")
        assert not set(ours) & set(" :$")
        assert Path(ours).samefile(package / CORE_LIBRARY)
        assert other == "/other.so"
        assert Path(preload.variables["PYTHONPATH"]).samefile(package / "bootstrap")
        assert (preload.link_directory is None) is (launch.parent == tmp_path)
        if preload.link_directory is not None:
            assert mode_of(preload.link_directory) == 0o700
            shutil.rmtree(preload.link_directory)


def test_core_beside_the_extension(tmp_path: Path) -> None:
    """An installation for development has its compiled parts elsewhere; the package comes first."""
    package, native = tmp_path / "source", tmp_path / "built"
    (native / "lib64").mkdir(parents=True)
    (native / CORE_LIBRARY).touch()
    config = Config(package=str(package), native_directory=str(native))
    assert core_library(config) == native / CORE_LIBRARY
    assert core_library(Config(package=str(package))) is None
    assert preload_environment(config, {}).variables["LD_PRELOAD"] == str(native / CORE_LIBRARY)


def test_environment_keeps_what_the_user_set() -> None:
    """Ours stand in front, once, also in a launch within a launch."""
    config = Config(package="/opt/msmemscope", launch_directory="/out/.launch")
    first = preload_environment(config, {"PYTHONPATH": "/mine::/more", "HOME": "/home/me"}).variables
    assert first["LD_PRELOAD"] == "/opt/msmemscope/lib64/libmsmemscope_core.so"
    assert first["PYTHONPATH"] == "/opt/msmemscope/bootstrap:/mine::/more"
    assert first["HOME"] == "/home/me"
    assert Config.from_settings_text(first[SETTINGS_VARIABLE]) == config
    second = preload_environment(config, first).variables
    assert second == first


def test_observable_programs() -> None:
    """This Python, and scripts that it runs."""
    assert why_not_observable(sys.executable) is None
    assert why_not_observable("/no/such/file") is None


def elf(*, machine: int | None = None, interpreter: bytes | None = None, elf_class: int | None = None) -> bytes:
    """The head of an executable like this Python, changed in one respect."""
    own = Path("/proc/self/exe").read_bytes()[:64]
    identity = bytearray(own)
    struct.pack_into("<Q", identity, 32, 64)
    struct.pack_into("<HH", identity, 54, 56, 1 if interpreter else 0)
    if machine is not None:
        struct.pack_into("<H", identity, 18, machine)
    if elf_class is not None:
        identity[4] = elf_class
    header = b""
    if interpreter:
        header = struct.pack("<IIQQQQQQ", 3, 4, 120, 0, 0, len(interpreter) + 1, len(interpreter) + 1, 1)
        header += interpreter + b"\0"
    return bytes(identity) + header


@pytest.mark.parametrize(
    "content, reason",
    [
        (elf(), "statically linked"),
        (elf(interpreter=b"/lib64/ld-linux-x86-64.so.2"), None),
        (elf(interpreter=b"/lib/ld-musl-x86_64.so.1"), "musl"),
        (elf(machine=40), "another kind of machine"),
        (elf(elf_class=1), "32-bit"),
        (b"#!/bin/sh\n", None),
        (b"#!{static} -x\n", "statically linked"),
        (b"text", None),
        (b"", None),
    ],
)
def test_programs_that_cannot_be_observed(tmp_path: Path, content: bytes, reason: str | None) -> None:
    """Told from the file, through the interpreter of a script."""
    static = tmp_path / "static"
    static.write_bytes(elf())
    program = tmp_path / "program"
    program.write_bytes(content.replace(b"{static}", bytes(static)))
    found = why_not_observable(str(program))
    assert (found is None) if reason is None else (found is not None and reason in found)


@needs_root
def test_programs_of_another_identity(tmp_path: Path) -> None:
    """The dynamic linker preloads nothing into them."""
    program = tmp_path / "program"
    shutil.copy("/bin/true", program)
    os.chown(program, NOBODY, NOBODY)
    program.chmod(0o4755)
    assert "set-user-ID" in str(why_not_observable(str(program)))


@needs_core
def test_a_program_with_nothing_to_record_leaves_nothing(tmp_path: Path) -> None:
    """Neither the output root nor the ledger; the summary says so."""
    result = tool.run([*tool.TOOL, f"--output={tmp_path}/output", "--", "true"], output=tmp_path / "output")
    assert result.returncode == 0
    assert list(tmp_path.iterdir()) == []
    assert "nothing was recorded" in result.stderr
    assert "nothing to record in 1 process: true" in result.stderr


@needs_core
def test_a_static_program_runs_and_is_named(tmp_path: Path) -> None:
    """Its exit status is passed on; the coverage says why nothing was seen."""
    source = tmp_path / "static.c"
    source.write_text("int main(void) { return 3; }")
    program = tmp_path / "static_program"
    if subprocess.run(["cc", "-static", "-o", program, source], capture_output=True, check=False).returncode != 0:
        pytest.skip("no static C library")
    result = tool.run([*tool.TOOL, f"--output={tmp_path}/output", "--", program], output=tmp_path / "output")
    assert result.returncode == 3
    assert "is statically linked" in " ".join(result.stderr.split())


@needs_core
def test_a_package_in_a_folder_with_a_blank(tmp_path: Path) -> None:
    """LD_PRELOAD cannot say it; the program is observed all the same."""
    packages = tmp_path / "site packages"
    copy_package(packages, with_core=True)
    result = subprocess.run(
        [sys.executable, "-S", "-m", "msmemscope", f"--output={tmp_path}/out put", "--", "true"],
        capture_output=True,
        text=True,
        check=False,
        env=environment(PYTHONPATH=f"{packages}:{sysconfig.get_path('purelib')}", TMPDIR=str(tmp_path)),
    )
    assert result.returncode == 0
    assert "nothing to record in 1 process: true" in result.stderr, result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["site packages"]


def test_missing_native_library_is_one_line(tmp_path: Path) -> None:
    """The program runs unobserved, and nothing is written."""
    packages = tmp_path / "packages"
    copy_package(packages, with_core=False)
    result = subprocess.run(
        [sys.executable, "-S", "-m", "msmemscope", f"--output={tmp_path}/output", "--", "sh", "-c", "exit 8"],
        capture_output=True,
        text=True,
        check=False,
        env=environment(PYTHONPATH=str(packages)),
    )
    assert result.returncode == 8
    assert result.stderr.splitlines() == [
        "msmemscope: warning: the native library is missing: the program runs unobserved",
        "hint: msmemscope doctor says what to do",
    ]
    assert not (tmp_path / "output").exists()
