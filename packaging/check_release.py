"""Whether a tag can be released: it is the version of both distributions, and the addresses lead to this repository."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]

VERSIONS = (ROOT / "src" / "msmemscope" / "__init__.py", ROOT / "vnpu" / "src" / "virtual_npu" / "__init__.py")
PROJECTS = (ROOT / "pyproject.toml", ROOT / "vnpu" / "pyproject.toml")


def faults(tag: str, repository: str) -> list[str]:
    """What is wrong with a release; nothing as a rule.

    Args:
        tag: Such as v1.2.3.
        repository: The address that the tag was pushed to.
    """
    found = []
    for path in VERSIONS:
        version = re.search(r'^__version__ = "([^"]+)"$', path.read_text(encoding="utf-8"), re.MULTILINE)
        if version is None or f"v{version[1]}" != tag:
            found.append(f"{path.relative_to(ROOT)} has {version[1] if version else 'no version'}, the tag is {tag}")
    files = repository.replace("https://github.com", "https://raw.githubusercontent.com")
    for path in PROJECTS:
        addresses = re.findall(r"https://[^\"' ]+", path.read_text(encoding="utf-8"))
        wrong = [one for one in addresses if not f"{one}/".startswith((f"{repository}/", f"{files}/"))]
        found += [f"{path.relative_to(ROOT)} names {one}, the repository is {repository}" for one in wrong]
    heading = tag.removeprefix("v")
    if f"\n## {heading}" not in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"):
        found.append(f"CHANGELOG.md has no section {heading}")
    return found


def main() -> None:
    """Say each fault, and end with a failure if there is one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tag", required=True)
    parser.add_argument("--repository", required=True)
    arguments = parser.parse_args()
    found = faults(arguments.tag, arguments.repository)
    if found:
        raise SystemExit("\n".join(found))


if __name__ == "__main__":
    main()
