"""Runs programs of the battery, bare and under the tool, and compares what their user sees."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from msmemscope.reports.verdict import VerdictKind
from tests.battery.catalogue import PROGRAMS, Place
from tests.support.ascend import virtual_npu_environment
from tests.support.nightly import NIGHT
from tests.support.targets import SOURCES, environment
from tests.support.tool import TIMEOUT_S, TOOL, run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.battery.catalogue import Program
    from tests.support.targets import Builder

OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "default options": (),
    "nearly every option": (
        "--events=alloc,free,launch,access",
        "--level=op,kernel",
        "--call-stack=python,c",
        # Of inefficient memory a program notices accesses and operators alone, which are observed anyway: the rest comes later.
        f"--analysis=leaks,decompose,{'inefficient,' if NIGHT else ''}oom",
        "--watch=auto",
        "--data-format=db",
    ),
    "the trace of Python functions": ("--events=alloc,free,launch,access,traceback", "--call-stack=python"),
}
"""Options under which a program is observed, besides where results go."""

VARIED: Final = {
    r"\bpid=\d+": "pid=NUMBER",
    r"\b(process|LWP) \d+": r"\1 NUMBER",
    r"==\d+==": "==NUMBER==",
    r"\b0x[0-9a-f]+": "ADDRESS",
    # The tool reads the channel of a device in a thread of its own.
    r"\[New Thread ADDRESS \(LWP NUMBER\)\]\n|\[Thread ADDRESS \(LWP NUMBER\) exited\]\n": "",
    r"Samples: \d+ Errors: \d+": "Samples: NUMBER Errors: NUMBER",
    # Log lines of torch, of its profiler (with the process and the thread) and of torch_npu.
    r"\b[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+( +\d+)?": "TIME",
    r"\b\d{4}-\d\d-\d\d[ -]\d\d:\d\d:\d\d( \d+:\d+)?": "TIME",
    r"\bPID:\d+": "PID:NUMBER",
    # Where libraries that are loaded early have functions of their own in front of dlopen, as the tool has.
    r"Memray WARNING: Correcting symbol for dlopen from ADDRESS to ADDRESS\n": "",
    # Once per operator that an exception passes, where the tool saw it run.
    r'  File "[^"]*/msmemscope/capture/[^"]*", line \d+, in __torch_dispatch__\n(?:    .*\n)+'
    r'(?:  File "[^"]*/torch/_ops.py", line \d+, in __call__\n(?:    .*\n)+)?': "",
}
"""Texts that differ from run to run, or may differ, and their replacement in the comparison."""

TOGETHER_S: Final = 280.0
"""Seconds after which many programs in one run fail."""

VERDICTS = ("nothing was recorded", "nothing found", "nothing was judged", *(kind.value for kind in VerdictKind))
SUMMARY = re.compile(rf"(?m)^\n?msmemscope: (?:(?:{'|'.join(VERDICTS)})\b|[^\n]* not (?:judged|observed):)")


@dataclass(frozen=True)
class Seen:
    """The end and the output of a program as its user saw them, without what varies."""

    status: int
    stdout: str
    stderr: str


def missing(program: Program) -> str:
    """Return the first thing that a program needs and this machine lacks, or an empty text."""
    for need in program.needs:
        if need == "root":
            there = os.geteuid() == 0
        elif need.startswith("module "):
            there = importlib.util.find_spec(need.removeprefix("module ")) is not None
        elif ".so" in need:
            there = bool(_loads(need))
        else:
            there = shutil.which(need) is not None
        if not there:
            return f"no {need} on this machine"
    return ""


def _loads(library: str) -> bool:
    """Whether a library can be preloaded; the loader complains about one that it does not find, and goes on."""
    variables = environment(LD_PRELOAD=library)
    return not subprocess.run(["true"], capture_output=True, check=True, env=variables).stderr


def normalised(text: str, folder: Path) -> str:
    """Replace what varies."""
    text = text.replace(str(folder), "FOLDER")
    for pattern, replacement in VARIED.items():
        text = re.sub(pattern, replacement, text)
    return text


def without_messages(stderr: str) -> str:
    """Leave out the tool's lines: messages, and the summary, which stands at the end."""
    summary = SUMMARY.search(stderr)
    text = stderr[: summary.start()] if summary else stderr
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("msmemscope: "))


def environment_of(place: Place, *, with_torch: bool) -> dict[str, str]:
    """Return the variables that a place needs.

    Raises:
        NotInstalledError: If the virtual NPU, torch or torch_npu is missing.
    """
    return virtual_npu_environment(with_torch=with_torch) if place is Place.NPU else {}


def built(program: Program, place: Place, builder: Builder, variables: Mapping[str, str]) -> Path:
    """Build a native program with the allocator of its place; return the executable."""
    if place is Place.CPU:
        library = builder.library()
    else:
        libraries = f"{variables['ASCEND_HOME_PATH']}/lib64"
        linked = (f"-L{libraries}", "-Wl,--no-as-needed", "-lascendcl", "-lascend_hal", f"-Wl,-rpath-link,{libraries}")
        library = builder.part(str(PROGRAMS / "device_memory.c"), "libdevice.so", "-Wl,-soname,libdevice.so", *linked)
    options = [f"-I{SOURCES}", f"-L{library.parent}", f"-l:{library.name}", f"-Wl,-rpath,{library.parent}", "-ldl"]
    if place is Place.NPU:
        options.append(f"-Wl,-rpath-link,{libraries}")
    if program.sanitizer:
        options.append(f"-fsanitize={program.sanitizer}")
    return builder.part(str(PROGRAMS / program.source), program.source.partition(".")[0], "-pie", *options)


def see(
    command: Sequence[object],
    place: Place,
    folder: Path,
    variables: Mapping[str, str],
    options: Sequence[str] | None,
    timeout_s: float = TIMEOUT_S,
) -> Seen:
    """Run a command.

    Args:
        command: The command line.
        place: Where its memory lies.
        folder: An empty folder, the current directory of the program. Results of the tool go beside it.
        variables: Changes of the environment.
        options: Options of the tool. If None, the program runs bare.
        timeout_s: Seconds after which the test fails.
    """
    output = folder.parent / "output"
    if options is not None:
        device = "cpu" if place is Place.CPU else "npu,cpu"
        command = [*TOOL, f"--device={device}", f"--output={output}", *options, "--", *command]
    finished = run(command, output=output, variables=variables, folder=folder, timeout_s=timeout_s)
    stderr = finished.stderr if options is None else without_messages(finished.stderr)
    return Seen(finished.returncode, normalised(finished.stdout, folder), normalised(stderr, folder))


def see_native(program: Program, place: Place, builder: Builder, folder: Path, options: Sequence[str] | None) -> Seen:
    """Run a program that has a process of its own; arguments as for `see`."""
    variables = environment_of(place, with_torch=program.with_torch)
    if program.preloaded:
        variables["LD_PRELOAD"] = program.preloaded
    words = {
        "built": str(built(program, place, builder, variables)) if program.source else "",
        "library": str(builder.library()),
        "programs": str(PROGRAMS),
        "python": sys.executable,
        "device": place.name.lower(),
    }
    chosen = program.command if NIGHT else program.by_day or program.command
    command = [word.format_map(words) for word in chosen]
    return see(command, place, folder, variables, options)


def see_together(
    programs: Sequence[Program], place: Place, folder: Path, options: Sequence[str] | None
) -> dict[str, Seen]:
    """Run programs with torch in one process that imports it once; return what was seen of each, by its identity."""
    identities = [program.command[-1] for program in programs]
    files = folder / "programs"
    files.mkdir()
    variables = environment_of(place, with_torch=True)
    command = [sys.executable, PROGRAMS / "with_torch.py", files, place.name.lower(), *identities]
    whole = see(command, place, folder, variables, options, timeout_s=TOGETHER_S)
    ended = dict(re.findall(r"^program=(\S+) pid=NUMBER status=(-?\d+)$", whole.stdout, re.MULTILINE))
    assert set(ended) == set(identities), f"{set(identities) - set(ended)} did not end: {whole}"
    assert (whole.status, whole.stderr) == (0, ""), whole
    hung = [identity for identity, status in ended.items() if int(status) == -signal.SIGALRM]
    assert not hung, f"ended by the time limit of with_torch.py: {hung}"
    texts = {
        path.name: normalised(path.read_text(errors="replace"), files) for path in files.iterdir() if path.is_file()
    }
    return {
        identity: Seen(int(ended[identity]), texts[f"{identity}.stdout"], without_messages(texts[f"{identity}.stderr"]))
        for identity in identities
    }


def differences(bare: Seen, observed: Seen) -> list[str]:
    """Say in what two runs differ; nothing if a user sees the same."""
    return [
        f"{name}:\n  bare:     {one!r}\n  observed: {other!r}"
        for name in ("status", "stdout", "stderr")
        if (one := getattr(bare, name)) != (other := getattr(observed, name))
    ]
