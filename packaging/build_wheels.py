"""`make wheels`: the wheels of this machine's Linux and Pythons, as a release has them, into dist/.

From the source distribution, by this machine's compiler, linked to glibc 2.28 (see older_glibc.py), renamed by
auditwheel, then installed into fresh environments and tried. Only wheels that passed stay in dist/.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from older_glibc import make_link_folder, run

ROOT: Final = Path(__file__).parents[1]
GLIBC: Final = "2.28"
PYTHONS: Final = ("3.10", "3.11", "3.12", "3.13")
POLICY: Final = f"manylinux_{GLIBC.replace('.', '_')}_{os.uname().machine}"


def found_pythons() -> list[Path]:
    """Those of PYTHONS that there are, on PATH or among pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = []
    for version in PYTHONS:
        candidates = [*sorted(pyenv.glob(f"{version}.*/bin/python{version}")), shutil.which(f"python{version}")]
        working = [Path(one) for one in candidates if one is not None and has_pip(one)]
        found += working[:1]
    return found


def has_pip(python: str | Path) -> bool:
    """Whether it starts and has pip; the shims of pyenv are there for versions that are not."""
    command = [str(python), "-m", "pip", "--version"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def source_distribution(project: Path, folder: Path) -> Path:
    """Make it and return it."""
    run([sys.executable, "-m", "build", "--sdist", "--outdir", str(folder), str(project)])
    (made,) = folder.glob("*.tar.gz")
    return made


def wheel_from(source: Path, python: Path, folder: Path, link_folder: Path) -> Path:
    """Build a wheel for one Python and name it after the oldest Linux that it runs on."""
    with tempfile.TemporaryDirectory() as scratch:
        command = [str(python), "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", scratch, str(source)]
        run(command, LDFLAGS=f"-L{link_folder.resolve()}", MSMEMSCOPE_COMMIT=commit())
        (built,) = Path(scratch).glob("*.whl")
        repair = [sys.executable, "-m", "auditwheel", "repair", f"--plat={POLICY}", f"--wheel-dir={scratch}/out"]
        run([*repair, str(built)], PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        (repaired,) = Path(scratch, "out").glob("*.whl")
        return Path(shutil.copy(repaired, folder))


def commit() -> str:
    """Of these sources; empty where they are no checkout."""
    command = ["git", "rev-parse", "--short=12", "HEAD"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def said_by_auditwheel(wheel: Path) -> str:
    """Its sentence about the tag that the wheel is consistent with."""
    said = run([sys.executable, "-m", "auditwheel", "show", str(wheel)])
    tag = re.search(r'consistent with the following platform\s+tag: "([^"]+)"', " ".join(said.split()))
    if tag is None:
        raise SystemExit(f"auditwheel says of {wheel.name}:\n{said}")
    return tag[1]


def try_wheel(wheel: Path, python: Path, check: list[str]) -> str:
    """Install a wheel into a fresh environment, check it, take it away again; return what the check said.

    Raises:
        SystemExit: The check failed, or files stayed behind: of the installation, or of its use.
    """
    uninstall = ["-m", "pip", "uninstall", "--quiet", "--yes", wheel.name.split("-")[0]]
    with tempfile.TemporaryDirectory() as name:
        environment = Path(name) / "environment"
        run([str(python), "-m", "venv", str(environment)])
        inside = str(environment / "bin" / "python")
        fresh = set(environment.rglob("*"))
        run([inside, "-m", "pip", "install", "--quiet", "--no-deps", str(wheel)])
        own = {path for path in set(environment.rglob("*")) - fresh if path.suffix != ".pyc"}
        run([inside, *uninstall])
        left = [path for path in own if path.exists() and not path.is_dir()]
        run([inside, "-m", "pip", "install", "--quiet", str(wheel)])
        said = run([inside if part == "python" else part for part in check])
        run([inside, *uninstall])
        packages = [path for path in own if path.parent.name == "site-packages"]
        left += [path for path in packages if path.exists()]
        if left:
            raise SystemExit(f"uninstalling {wheel.name} left {sorted(map(str, left))}")
        return said.strip()


def main() -> None:
    """Build both distributions, and print what auditwheel and the checks say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, default=ROOT / "dist", help="folder for what is built")
    parser.add_argument(
        "--python", type=Path, action="append", help="an interpreter to build for; all found by default"
    )
    arguments = parser.parse_args()
    pythons: list[Path] = arguments.python or found_pythons()
    if not pythons:
        raise SystemExit(
            f"no Python of {', '.join(PYTHONS)} with pip was found; name one: --python=/path/to/python3.12"
        )
    to: Path = arguments.to
    to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        make_link_folder(scratch / "glibc", os.uname().machine, GLIBC, os.environ.get("CC", "cc"))
        for project, chosen, check in (
            (ROOT, pythons, ["python", str(ROOT / "packaging" / "check_installed.py")]),
            (ROOT / "vnpu", pythons[:1], ["python", "-m", "virtual_npu", "--help"]),
        ):
            made = scratch / project.name
            made.mkdir()
            source = source_distribution(project, made)
            for python in chosen:
                wheel = wheel_from(source, python, made, scratch / "glibc")
                said = try_wheel(wheel, python, check).splitlines()[0]
                print(
                    f"{wheel.name}: {wheel.stat().st_size / 1e6:.2f} MB; auditwheel: {said_by_auditwheel(wheel)}; {said}",
                    flush=True,
                )
            files = sorted([source, *made.glob("*.whl")])
            run([sys.executable, "-m", "twine", "check", "--strict", *map(str, files)])
            for path in files:
                shutil.copy(path, to)


if __name__ == "__main__":
    main()
