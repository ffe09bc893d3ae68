"""`msmemscope top PATH`: the call sites that memory is from, ranked."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Final

from msmemscope.cli.chosen_input import add_path, describe_verb
from msmemscope.cli.each_process import chosen_number, chosen_word, show_processes

if TYPE_CHECKING:
    import argparse

# Rankings bring what they are made with, which the other verbs need not wait for: they are imported when this verb is chosen.

_BY: Final = "--by"
_LIMIT: Final = "--limit"
_DEFAULT_LIMIT: Final = "10"
_MOST_ROWS: Final = 1_000_000
_EXAMPLE: Final = "msmemscope top memscopeDumpResults --by=churn --limit=5"


class TopCommand:
    """Show the call sites that the most memory is from, a table per pool and device.

    PATH is a capture folder (msmemscope_*_ascend), a folder of several, a dump
    (CSV or DB), or a memory snapshot of torch. Without it, the latest run is taken.
    """

    name = "top"

    def prepare_parser(self, parser: argparse.ArgumentParser) -> None:
        """Add the arguments of the verb."""
        describe_verb(parser, self, _EXAMPLE)
        add_path(parser)
        parser.add_argument(
            _BY,
            metavar="MEASURE",
            default="peak",
            help="peak: in use at the peak of the pool (default); leaked: see analyze leaks; allocated: all blocks; "
            "churn: freed again; blocks: number of blocks; byte-seconds: bytes times seconds in use",
        )
        parser.add_argument(
            _LIMIT, metavar="N", default=_DEFAULT_LIMIT, help=f"rows of a table; default: {_DEFAULT_LIMIT}"
        )
        parser.add_argument("--json", action="store_true", help="write all call sites to stdout as one JSON object")

    def run(self, arguments: argparse.Namespace) -> int:
        """Rank the call sites of each process."""
        from msmemscope.analysis.weights.measures import Measure
        from msmemscope.analysis.weights.ranked_sites import RankedBy, rank_sites
        from msmemscope.reports.ranked_sites_report import render_ranked_sites

        words = [one.value for one in RankedBy]
        ranked_by = RankedBy(chosen_word(arguments.by, words, _BY, reason="is nothing that call sites are ranked by"))
        limit = chosen_number(arguments.limit, _LIMIT, least=1, most=_MOST_ROWS, of="rows")
        return show_processes(
            arguments.path,
            self.name,
            functools.partial(rank_sites, ranked_by=ranked_by),
            functools.partial(render_ranked_sites, out=sys.stdout, limit=limit),
            as_json=arguments.json,
            following=f"tree --of={ranked_by.value}" if ranked_by.value in {one.value for one in Measure} else "tree",
        )
