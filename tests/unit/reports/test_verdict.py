"""Findings as sentences."""

from __future__ import annotations

from msmemscope.model.pools import Pool
from msmemscope.reports.verdict import Verdict, VerdictKind

STEP = "/app/train.py(41): step"
KEPT = "/app/train.py(50): main"


def sentence(*bytes_by_site: tuple[str, int]) -> str:
    """A leak at some call sites, the worst first."""
    size = sum(size for _, size in bytes_by_site)
    leak = Verdict(
        VerdictKind.LEAK, 0, Pool.PTA, size, bytes_by_site[0][0], "in step 3", (), bytes_by_site=bytes_by_site
    )
    return leak.sentence(names_process=False)


def test_lines_of_a_library_are_those_of_the_line_that_called_it() -> None:
    """The line of the program with the most bytes comes first, with the worst of its library's lines behind."""
    in_library = ((f"{STEP}, in lib/a.py(3): f", 3 << 20), (f"{STEP}, in lib/b.py(4): g", 2 << 20))
    behind = f"{STEP}, in lib/a.py(3): f"
    assert sentence(*in_library) == f"leak: 5.00 MiB on npu:0 at {behind}, in step 3"
    kept = (KEPT, 4 << 20)
    assert sentence(kept, *in_library) == f"leak: 9.00 MiB on npu:0 at {behind} (5.00 MiB) and 1 more line, in step 3"
    assert sentence(kept, in_library[0]) == f"leak: 7.00 MiB on npu:0 at {KEPT} (4.00 MiB) and 1 more line, in step 3"
