"""`make docs`: writes OPERATORS.md and the tables in README.md: the operators from the report of their cases, the choices.

Usage: python vnpu/tests/operator_pages.py REPORT
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter, defaultdict
from dataclasses import fields
from pathlib import Path
from typing import Any

from virtual_npu.compiled_kernels import ensure_kernels, implemented_functions
from virtual_npu.configuration import Configuration
from virtual_npu.installation import require_matching_packages

ROOT = Path(__file__).parents[1]
NAMES = ROOT / "native" / "operators" / "function_names.txt"

HEAD = """\
# Operators

<!-- Written by `make docs`; do not edit. -->

With compute=none every function of this page is there: it allocates, and computes nothing. This page is about
compute=cpu. Each case runs on the virtual NPU and on the CPU; results and gradients have to agree.
"""


def cases_text(rows: list[dict[str, Any]]) -> str:
    """How a function was tested: the cases that ran it, a few by name."""
    names = sorted({f"{row['family']}: {row['case']}" for row in rows})
    shown = "; ".join(names[:3])
    return shown + (f"; and {len(names) - 3} more" if len(names) > 3 else "")


def marks(rows: list[dict[str, Any]]) -> str:
    """The types and directions that were tested."""
    types = sorted({row["type"] for row in rows}, reverse=True)
    directions = "forward and backward" if any(row["backward"] for row in rows) else "forward"
    return f"{', '.join(types)}; {directions}"


def pages(report: list[dict[str, Any]], implemented: dict[str, str]) -> tuple[str, str]:
    """Return OPERATORS.md, and the block for README.md."""
    names = [name for name in NAMES.read_text(encoding="utf-8").split() if name.startswith("acl")]
    by_function: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in report:
        for function in row["functions"]:
            by_function[function].append(row)
    looked_up = [function for function in implemented if function in names]
    tested = [function for function in looked_up if function in by_function]
    cases = {(row["family"], row["case"]) for row in report}

    families: dict[str, list[str]] = defaultdict(list)
    for function in sorted(implemented):
        families[implemented[function]].append(function)

    summary = [
        f"{len(looked_up)} of the {len(names)} functions that torch_npu looks up have a kernel. Of these,",
        f"the {len(cases)} operator cases ({len(report)} comparisons with the CPU) run {len(tested)}, in float32, bfloat16 and",
        "float16, forward and backward. Every function with its cases: [OPERATORS.md](OPERATORS.md).",
        "",
        "| kernels | functions | run by cases |",
        "|---|---|---|",
        *(
            f"| {family.replace('_', ' ')} | {len(functions)} | {sum(name in by_function for name in functions)} |"
            for family, functions in sorted(families.items())
        ),
    ]

    lines = [HEAD, *summary[:2], "float16, forward and backward.", ""]
    for family, functions in sorted(families.items()):
        lines += [
            f"## {family.replace('_', ' ').capitalize()}",
            "",
            "| function | tested in | cases |",
            "|---|---|---|",
        ]
        for function in functions:
            rows = by_function.get(function, [])
            how = f"{marks(rows)} | {cases_text(rows)}" if rows else "| no public call was found that reaches it"
            lines.append(f"| `{function}` | {how} |".replace("|| no", "| | no"))
        lines.append("")
    lines += ["## Cases", "", "| family | cases | comparisons |", "|---|---|---|"]
    case_counts = Counter(family for family, _ in cases)
    comparisons = Counter(row["family"] for row in report)
    lines += [
        f"| {family.replace('_', ' ')} | {case_counts[family]} | {comparisons[family]} |"
        for family in sorted(case_counts)
    ]
    lines += ["", "## Without a kernel", "", "With compute=cpu these fail, with their name and what to do.", ""]
    lines.append(", ".join(f"`{name}`" for name in names if name not in implemented) + ".")
    return "\n".join(lines) + "\n", "\n".join(summary) + "\n"


def choices() -> str:
    """The table of everything that can be chosen."""
    lines = ["| option | variable | default | |", "|---|---|---|---|"]
    for declared in fields(Configuration):
        facts = declared.metadata
        default = f"`{readable(declared.default)}`" if declared.default != "" else ""
        text = facts["help"].replace("|", "\\|")
        lines.append(f"| `--{declared.name}={facts['metavar']}` | `{facts['variable']}` | {default} | {text} |")
    return "\n".join(lines) + "\n"


def readable(value: object) -> str:
    """A default with its sizes in units."""
    text = re.sub(r"\d{7,}", lambda number: f"{int(number[0]) >> 20}MiB", str(value))
    return re.sub(r"\d{4,}MiB", lambda number: f"{int(number[0][:-3]) >> 10}GiB", text)


def with_block(text: str, name: str, block: str) -> str:
    """Put a block where its marks are."""
    begin, end = f"<!-- {name}: begin, written by make docs -->", f"<!-- {name}: end -->"
    before, _, rest = text.partition(begin)
    return f"{before}{begin}\n\n{block}\n{end}{rest.partition(end)[2]}"


def main() -> None:
    """Write both."""
    report = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))

    torch, _ = require_matching_packages()
    page, block = pages(report, implemented_functions(ensure_kernels(torch, os.environ), torch))
    (ROOT / "OPERATORS.md").write_text(page, encoding="utf-8")
    readme = ROOT / "README.md"
    text = with_block(readme.read_text(encoding="utf-8"), "operators", block)
    readme.write_text(with_block(text, "choices", choices()), encoding="utf-8")


if __name__ == "__main__":
    main()
