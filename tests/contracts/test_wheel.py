"""Wheels and source distributions, as a user gets them from a package index, have what they need and nothing else."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest

from msmemscope import _native
from tests.support.nightly import NIGHT, nightly

ROOT = Path(__file__).parents[2]

NEEDED_PATTERNS = (
    r"msmemscope/__init__\.py",
    r"msmemscope/py\.typed",
    r"msmemscope/lib64/libmsmemscope_core\.so",
    *(
        rf"msmemscope/lib64/lib{name}\.so"
        for name in (
            "leaks_ascend_hal_hook",
            "ascend_mstx_hook",
            "ascend_kernel_hook",
            "atb_abi_0_hook",
            "atb_abi_1_hook",
            "msmemscope_attach",
        )
    ),
    r"msmemscope/_native\..*so",
    r"msmemscope/cli/main\.py",
    r"msmemscope/reports/html/static/report\.css",
    r"msmemscope/reports/html/static/report\.js",
    r"msmemscope/view/static/index\.html",
    r"msleaks/__init__\.py",
    r"msmemscope-[\d.]+\.data/scripts/msmemscope",
    r"msmemscope-[\d.]+\.data/data/share/man/man1/msmemscope\.1",
    r"msmemscope-[\d.]+\.dist-info/entry_points\.txt",
    r"msmemscope-[\d.]+\.dist-info/licenses/LICENSE",
)

UNWANTED_PATTERN = re.compile(r"(^|/)(tests|docs|benchmarks|native|__pycache__)/|\.(cpp|h|o|a)$|CMake")

SOURCES = {
    "msmemscope": {
        "CHANGELOG.md",
        "CMakeLists.txt",
        "LICENSE",
        "PKG-INFO",
        "README.md",
        "native",
        "pyproject.toml",
        "src",
    },
    "vnpu": {
        "CMakeLists.txt",
        "LICENSE",
        "OPERATORS.md",
        "PKG-INFO",
        "README.md",
        "examples",
        "native",
        "pyproject.toml",
        "src",
    },
}
"""The files and folders at the top of each source distribution."""

NEWEST_GLIBC = (2, 28)

OLD_WORDS_OF_NEW_VERSIONS = re.compile(
    r"dl(addr|close|error|open|sym|vsym)|(__)?pthread_(?!\w*clock)\w+|sem_(?!clock)\w+|[fl]?stat|fstatat"  # elsewhere, or inline, before 2.34
    r"|__libc_single_threaded|__libc_start_main|__isoc\d+_\w+"  # by the compiler's headers alone; see packaging/
)
"""Functions that glibc 2.28 has under another version: packaging/older_glibc.py links to that one."""

BUILD_REQUIREMENTS = ("scikit_build_core", "nanobind", "hatch_fancy_pypi_readme")
needs_build_requirements = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in BUILD_REQUIREMENTS),
    reason="the build requirements are not installed in this environment",
)


def pip(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run pip on sources, without isolation: the build requirements are in this environment."""
    command = [sys.executable, "-m", "pip", *arguments]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)


def copy_of_sources(to: Path) -> Path:
    """The repository without what is built."""
    left_out = shutil.ignore_patterns(
        ".git", ".venv", "build", "*.so", "lib64", "__pycache__", ".*_cache", "memscope*", "node_modules"
    )
    shutil.copytree(ROOT, to, ignore=left_out)
    return to


@pytest.mark.slow
@needs_build_requirements
def test_a_wheel_has_what_the_tool_needs(tmp_path: Path) -> None:
    """At night from a copy without build products, as pip does it; by day with what `make build` has compiled."""
    source = copy_of_sources(tmp_path / "source") if NIGHT else ROOT
    built = pip("wheel", "--no-build-isolation", "--no-deps", "--quiet", "--wheel-dir", str(tmp_path), str(source))
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    missing = [pattern for pattern in NEEDED_PATTERNS if not any(re.fullmatch(pattern, name) for name in names)]
    assert not missing, f"missing: {missing}; in the wheel: {names}"
    unwanted = [name for name in names if UNWANTED_PATTERN.search(name)]
    assert not unwanted


def _link(source: str, target: str) -> None:
    """Give a file another name, which takes no space; copy it where that does not go."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


@pytest.fixture(scope="module", params=["msmemscope", "vnpu"])
def source_distribution(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The name of a project of the repository, and its source distribution, opened."""
    to = tmp_path_factory.mktemp("sdist")
    project = ROOT if request.param == "msmemscope" else ROOT / request.param
    if project == ROOT and not NIGHT:
        # The copy has the built files. It leaves out the thousands of files of installed packages, which would all be
        # looked at.
        left_out = shutil.ignore_patterns(".git", ".venv", ".hypothesis", ".*_cache", "*.pyc.*")
        project = shutil.copytree(ROOT, to / "source", ignore=left_out, symlinks=True, copy_function=_link)
        to = to / "archives"
    code = f"import scikit_build_core.build as build; build.build_sdist({str(to)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=project, check=True, capture_output=True)
    (path,) = to.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        yield request.param, archive


@needs_build_requirements
def test_a_source_distribution_has_its_own_sources_alone(source_distribution: tuple[str, tarfile.TarFile]) -> None:
    """No tests, no documents, nothing of the other project, nothing that was built."""
    project, archive = source_distribution
    names = [name.partition("/")[2] for name in archive.getnames()]
    assert {name.split("/")[0] for name in names if name} == SOURCES[project]
    assert [member.name for member in archive if member.issym()] == []  # they would lead out of it
    unwanted = re.compile(r"(^|/)(tests|build|node_modules|__pycache__)/|\.(so|o|a|pyc)$")
    assert [name for name in names if unwanted.search(name)] == []
    if project == "msmemscope":
        assert not any("vnpu" in name or "virtual_npu" in name for name in names)


@needs_build_requirements
def test_links_of_the_readme_work_on_a_package_index(source_distribution: tuple[str, tarfile.TarFile]) -> None:
    """In the repository they lead to files beside it; in what is published every link and picture has an address."""
    project, archive = source_distribution
    (name,) = [name for name in archive.getnames() if name.endswith("/PKG-INFO")]
    published = archive.extractfile(name)
    assert published is not None
    text = published.read().decode()
    repository = re.search(r"^Project-URL: Repository, (\S+)$", text, re.MULTILINE)
    assert repository is not None
    readme = (ROOT / ("" if project == "msmemscope" else project) / "README.md").read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)]+)\)", readme) if not link.startswith("#")]
    addresses = [link for link in re.findall(r"\]\(([^)]+)\)", text) if not link.startswith("#")]
    assert len(addresses) == len(links) > 0
    files = repository[1].replace("https://github.com", "https://raw.githubusercontent.com")
    folder = "" if project == "msmemscope" else f"{project}/"
    for link, address in zip(links, addresses, strict=True):
        places = (link, f"{repository[1]}/blob/main/{folder}{link}", f"{files}/main/{folder}{link}")
        assert address in places, address
        assert re.match(r"https?:", address)
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text)
    assert all(picture.startswith(files) for picture in pictures)


def test_native_code_wants_no_function_that_older_systems_lack() -> None:
    """Newer than glibc 2.28 may be only the version of a function, which wheels do not keep.

    A library that wants one function of a newer glibc does not start on an older system, wherever it was built.
    """
    from elftools.elf.elffile import ELFFile

    package = Path(_native.__file__).parent  # an editable installation has it elsewhere than the sources
    libraries = [*package.glob("_native*.so"), *(package / "lib64").glob("*.so")]
    assert len(libraries) >= 2
    wanted = {}
    for library in libraries:
        with library.open("rb") as file:
            elf = ELFFile(file)
            versions = elf.get_section_by_name(".gnu.version")
            needed = elf.get_section_by_name(".gnu.version_r")
            names = {}
            if needed is not None:
                names = {one["vna_other"]: one.name for _, ones in needed.iter_versions() for one in ones}
            for index, symbol in enumerate(elf.get_section_by_name(".dynsym").iter_symbols()):
                version = names.get(versions.get_symbol(index)["ndx"], "") if versions is not None else ""
                match = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(\.\d+)?", version)
                if match is not None and (int(match[1]), int(match[2])) > NEWEST_GLIBC:
                    wanted[f"{library.name}: {symbol.name}@{version}"] = symbol.name
    new = [what for what, symbol in wanted.items() if not OLD_WORDS_OF_NEW_VERSIONS.fullmatch(symbol)]
    assert not new


@needs_build_requirements
@pytest.mark.parametrize("project", ["", "vnpu"])
def test_without_a_compiler_the_message_says_what_to_do(project: str, tmp_path: Path) -> None:
    """Not CMake's own words alone: that wheels need none, and how a compiler is installed."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("cmake", "ninja"):
        found = shutil.which(name)
        if found is None:
            pytest.skip(f"{name} is not installed in this environment")
        (tools / name).symlink_to(found)
    built = pip(
        *("wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT / project)),
        PATH=str(tools),
        SKBUILD_BUILD_DIR=str(tmp_path / "build"),
    )
    assert built.returncode != 0
    said = re.sub(r"\s+", " ", built.stdout + built.stderr)
    assert "no C++ compiler was found" in said
    assert "--only-binary" in said
    assert "apt-get install g++" in said


@nightly
@pytest.mark.slow
def test_wheels_are_built_and_work(tmp_path: Path) -> None:
    """`make wheels` for this Python: built, named after the oldest Linux, installed, tried, uninstalled, checked."""
    command = [sys.executable, "packaging/build_wheels.py", f"--to={tmp_path}", f"--python={sys.executable}"]
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--group", "wheels"], cwd=ROOT, check=True)
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert len(list(tmp_path.glob("*manylinux*.whl"))) == 2
    assert len(list(tmp_path.glob("*.tar.gz"))) == 2
