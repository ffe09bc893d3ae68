"""Lets this machine's compiler link to a C library that is older than the machine's.

A library that is linked to glibc wants, of each function, the version that was current in that glibc; so it starts only
where glibc is as new or newer. What the linker looks at is the list of symbols alone. `zig` (ziglang on the package
index) brings the lists of every glibc, and writes a library without code for each. The compiler and everything else stay
the machine's: what is compiled does not change.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

LIBRARIES = ("libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1", "libld.so.2")
"""What is linked to; libld.so.2 is the dynamic loader."""

ABSENT_IN_OLDER = """
/* What the machine's static libstdc++ takes from its own glibc, where an older one may not have it. */
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

/* Whether the process has one thread only: never sure. */
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;

__attribute__((visibility("hidden"))) uint32_t arc4random(void) {
    uint32_t number;
    if (getrandom(&number, sizeof(number), 0) != sizeof(number)) {
        abort();
    }
    return number;
}
"""


def run(command: list[str], **environment: str) -> str:
    """Run a command to its end and return what it printed; a failure ends this script with that.

    Raises:
        SystemExit: The command failed.
    """
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def make_link_folder(folder: Path, machine: str, version: str, compiler: str) -> None:
    """Fill a folder that goes to the linker as -L.

    Args:
        folder: Where to; what is there is replaced.
        machine: As `uname -m` says it.
        version: Of glibc, such as 2.28.
        compiler: The C compiler whose linker it is for.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch_name:
        scratch = Path(scratch_name)
        program = scratch / "main.c"
        program.write_text("int main(void) { return 0; }\n", encoding="ascii")
        zig = [sys.executable, "-m", "ziglang", "cc", "-target", f"{machine}-linux-gnu.{version}"]
        run([*zig, str(program), "-o", str(scratch / "main")], ZIG_GLOBAL_CACHE_DIR=scratch_name)
        for name in (*LIBRARIES, "libc_nonshared.a"):
            (found,) = scratch.rglob(name)
            shutil.copy(found, folder)
    absent = folder / "absent_in_older.c"
    absent.write_text(ABSENT_IN_OLDER, encoding="ascii")
    run([compiler, "-O2", "-fPIC", "-c", str(absent), "-o", str(absent.with_suffix(".o"))])
    archiver = run([compiler, "-print-prog-name=ar"]).strip()
    run([archiver, "rcs", str(folder / "libabsent.a"), str(absent.with_suffix(".o"))])
    for library in LIBRARIES:
        (folder / f"{library.split('.')[0]}.so").symlink_to(library)
    parts = [str(folder.resolve() / name) for name in ("libc.so.6", "libc_nonshared.a", "libabsent.a", "libld.so.2")]
    (folder / "libc.so").unlink()
    (folder / "libc.so").write_text(f"GROUP ( {' '.join(parts[:3])} AS_NEEDED ( {parts[3]} ) )\n", encoding="utf-8")


def main() -> None:
    """Make one folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--machine", default=os.uname().machine, choices=("x86_64", "aarch64"))
    parser.add_argument("--version", default="2.28")
    parser.add_argument("--compiler", default="cc")
    arguments = parser.parse_args()
    make_link_folder(arguments.folder, arguments.machine, arguments.version, arguments.compiler)


if __name__ == "__main__":
    main()
