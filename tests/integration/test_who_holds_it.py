"""Who holds it: chains of references to tensors, on demand and in findings about leaks."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import polars as pl
import pytest

from msmemscope.analysis.leaks.overview import find_leaks
from msmemscope.formats.reading import load
from msmemscope.model.events import EventKind
from msmemscope.model.holders import HANDLED_EXCEPTION
from msmemscope.recording.holder_events import holder_events
from msmemscope.recording.holders import block_holders
from msmemscope.recording.recording import StepSource
from tests.integration.test_integrations_trainers import needs_transformers
from tests.integration.test_integrations_trainers import run_python as run_without_torch_npu
from tests.support import tool
from tests.support.nightly import nightly
from tests.support.warm import run_observed, run_python

PROGRAMS = Path(__file__).parents[1] / "target_programs"

pytestmark = [pytest.mark.torch]


def printed_by(folder: Path, *words: object) -> str:
    """Run `python WORDS` in a folder, without the tool; return what it prints."""
    finished = run_python(words, output=folder / "output", variables={}, folder=folder)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.strip()


def test_every_way_of_holding(tmp_path: Path) -> None:
    """Each chain names the variable, and the way from there; what a search looks at lives no longer for it."""
    found = json.loads(printed_by(tmp_path, PROGRAMS / "held_in_many_ways.py"))
    assert {name: chains[0] if chains else None for name, chains in found.items()} == {
        "attribute": "Owner.history[1], from main.owner",
        "global": "__main__.by_key['key']",
        "default": "__main__.collect(collect, default of seen)[0]",
        "class": "__main__.Owner.registry[0]",
        "slot": "Slots.value, from main.slots",
        "closure": "__main__.closure(closure, closure cell kept)[0]",
        "cache": "__main__.cached(cache)[10]",
        "generator": "main.generator(suspended).work",
        "deque": "main.last[0]",
        "parameter": "parameter Linear.weight, from main.model",
        "graph": "main.loss -> autograd graph",
        "cycle": found["cycle"][0],
        "two": "main.gone",
        "nobody": None,
    }
    assert found["cycle"][0] == "Node.value, in a reference cycle through Node.itself"
    assert found["two"] == ["main.gone", "main.both[0]"]


def test_no_code_of_the_program_runs(tmp_path: Path) -> None:
    """Objects that stand in for others, subclasses of containers and of text, and keys that take long to show."""
    printed = json.loads(printed_by(tmp_path, PROGRAMS / "holders_with_opinions.py"))
    assert printed["noticed"] == []
    assert {name: chains[0] for name, chains in printed["found"].items()} == {
        "lazy": "LazyStandIn.value, from main.lazy",
        "list": "LoggedList[0], from main.items",
        "key": "LoggedDictionary[Name], from main.named",
        "number": "main.numbered[int]",
        "long": f"main.lengthy['{'x' * 40}'...]",
    }


def test_a_program_that_stops_again_and_again_is_searched_now_and_then(tmp_path: Path) -> None:
    """A search takes as long as a collection of garbage: of many stops, only some search."""
    program = """
import torch, msmemscope
from msmemscope.capture import holders
searches = []
record = holders._record
holders._record = lambda *arguments: (searches.append(1), record(*arguments))
msmemscope.config(analysis="leaks", device="cpu")
kept = []
for _ in range(200):
    msmemscope.start()
    kept += [torch.ones(1000) for _ in range(20)]
    msmemscope.stop()
print(len(searches))
"""
    printed = printed_by(tmp_path, "-c", program)
    assert 1 <= int(printed) < 20


def test_names_that_take_too_long_are_left_out(tmp_path: Path) -> None:
    """If a holder was found and not named, the answer does not say that nobody holds the block."""
    program = """
import torch
from msmemscope.capture.holder_search import HolderSearch
kept = [torch.ones(8) for _ in range(300)]
wanted = {one.untyped_storage().data_ptr(): None for one in kept}
print(len(HolderSearch(60_000).chains(dict(wanted), most_paths=1)))
search = HolderSearch(60_000)
search._named_until = 0
print(search.chains(dict(wanted), most_paths=1))
"""
    assert printed_by(tmp_path, "-c", program).splitlines() == ["300", "[]"]


def test_variables_of_the_program_are_named_where_the_rest_takes_too_long(tmp_path: Path) -> None:
    """The search names all that a walk met before its time was over, with what a graph has saved."""
    program = """
import types, sys, torch
from msmemscope.capture.holder_search import HolderSearch
weight = torch.ones(8, requires_grad=True)
saved = weight * 2
kept = [saved.exp() * saved]
library = types.ModuleType("library")
library.records = [[number] for number in range(2_000_000)]
library.records = [[one] for one in library.records]
sys.modules["library"] = library
wanted = dict.fromkeys(one.untyped_storage().data_ptr() for one in (saved, *kept))
del saved, library
search = HolderSearch(100)
print([text for _, text in search.chains(wanted, most_paths=1)])
"""
    printed = printed_by(tmp_path, "-c", program)
    assert printed == "['__main__.kept[0]', '__main__.kept[0] -> autograd graph']"


@nightly  # by day the leak zoo has a trainer that keeps its losses, and the Trainer of transformers runs under the command line
@pytest.mark.slow
@needs_transformers
def test_a_trainer_that_keeps_losses(tmp_path: Path) -> None:
    """One run without an edit: the leak is at the user's line, in the user's list; its steps are the optimizer's."""
    program = PROGRAMS / "trainer_that_keeps_losses.py"
    output = tmp_path / "output"
    tool_words = (*tool.TOOL, "--device=cpu", f"--output={output}", "--")
    run = run_without_torch_npu(tmp_path, program, tmp_path / "trainer", before=tool_words)
    assert run.returncode == 0, run.stderr
    (directory,) = output.glob("msmemscope_*_ascend")
    recording = load(directory)
    found = find_leaks(recording)
    assert (found.step_source, found.step_leaks.steps_ended) == (StepSource.OPTIMIZER, 24)
    lines = program.read_text(encoding="utf-8").splitlines()
    line = next(number for number, text in enumerate(lines, 1) if text.endswith("# LEAK"))
    held = dict(found.step_leaks.leaking_sites.select("site", "held_by").iter_rows())
    assert re.match(r"LossTrainer[.]history\[\d+\], from ", held[f"{program}({line}): compute_loss"])
    assert all(text and text.startswith("LossTrainer.history[") for text in held.values())
    assert recording.events["kind"].is_in([EventKind.STEP]).sum() == 0
    assert "held by LossTrainer.history[" in run.stdout + run.stderr


@pytest.mark.parametrize(("kept", "share"), [("rows[0]", 1 / 64), ("list(rows)", None), ("rows[0].clone()", None)])
def test_views_that_keep_a_block(kept: str, share: float | None, tmp_path: Path) -> None:
    """One row of many keeps them all; all rows use them; and a copy is a block of its own."""
    program = tmp_path / "features.py"
    program.write_text(
        f"""
import msmemscope, torch

def features():
    return torch.randn(64, 512)

kept = []
for _ in range(12):
    rows = features()
    kept.append({kept})
    msmemscope.step()
""",
        encoding="utf-8",
    )
    run = run_observed([program], output=tmp_path / "output")
    assert run.returncode == 0, run.stderr
    found = find_leaks(load(run.capture.directory))
    (site,) = found.step_leaks.leaking_sites.iter_rows(named=True)
    assert site["held_by"].startswith("__main__.kept[")
    assert site["viewed_share"] == (None if share is None else pytest.approx(share))


def test_a_server_without_steps_whose_function_has_returned(tmp_path: Path) -> None:
    """While it runs, one of its variables holds what it keeps; at the end of the process none does."""
    program = tmp_path / "server.py"
    program.write_text(
        """
import time, torch

class Engine:
    def __init__(self):
        self.sessions = {}

def serve():
    engine = Engine()
    for number in range(600):
        engine.sessions[number] = torch.zeros(4096 + number % 7)
        state = torch.ones(64)
        for _ in range(10):
            state = torch.tanh(state)
        time.sleep(0.002)
        if number % 8:
            del engine.sessions[number]

serve()
"""
    )
    run = run_observed([program], output=tmp_path / "output")
    assert run.returncode == 0, run.stderr
    (site,) = find_leaks(load(run.capture.directory)).slow_leaks.sites.iter_rows(named=True)
    assert site["site"] == f"{program}(11): serve"
    assert re.fullmatch(r"Engine\.sessions\[\d+\], from serve\.engine", site["held_by"])


@pytest.mark.slow
def test_nothing_is_looked_for_with_a_time_of_zero(tmp_path: Path) -> None:
    """The option turns it off; the findings are the same."""
    program = tmp_path / "leaky.py"
    program.write_text(
        "import torch, msmemscope\nkept = []\nfor _ in range(10):\n    kept.append(torch.ones(9))\n    msmemscope.step()\n",
        encoding="utf-8",
    )
    run = run_observed([program], "--holder-time=0", output=tmp_path / "output")
    assert run.returncode == 0, run.stderr
    recording = load(run.capture.directory)
    assert not recording.events["kind"].is_in([EventKind.HOLDER]).any()
    (site,) = find_leaks(recording).step_leaks.leaking_sites.iter_rows(named=True)
    assert (site["leaked_blocks"], site["held_by"]) == (8, None)


@pytest.mark.slow
def test_a_program_that_fails(tmp_path: Path) -> None:
    """At its end only the traceback keeps the variables of its functions: they are named as if it still ran."""
    program = tmp_path / "fails.py"
    program.write_text(
        "import torch\n"
        "def main():\n"
        "    kept = [torch.ones(1000) for _ in range(40)]\n"
        "    raise ValueError(len(kept))\n"
        "main()\n",
        encoding="utf-8",
    )
    output = tmp_path / "output"
    run = tool.run([*tool.TOOL, "--device=cpu", f"--output={output}", "--", sys.executable, program], output=output)
    assert (run.returncode, "ValueError: 40" in run.stderr) == (1, True)
    recording = load(run.capture.directory)
    chains = set(block_holders(recording)["held_by"])
    assert {re.sub(r"\d+", "#", chain) for chain in chains} == {"main.kept[#]"}


def test_a_program_that_goes_on_after_an_error(tmp_path: Path) -> None:
    """Its function has ended: what holds its variables is the traceback, which a notebook keeps."""
    program = """
import sys, torch, msmemscope
def train():
    kept = [torch.ones(3)]
    raise ValueError(kept[0].data_ptr())
try:
    train()
except ValueError as error:
    sys.last_traceback = error.__traceback__
    address = error.args[0]
print(*msmemscope.who_holds(address))
"""
    assert printed_by(tmp_path, "-c", program) == "sys.last_traceback -> train.kept[0]"


def test_what_stands_in_for_a_traceback_is_not_asked(tmp_path: Path) -> None:
    """Whatever a program puts there: at its end none of its code runs for it."""
    program = tmp_path / "stands_in.py"
    program.write_text(
        "import sys, torch\n"
        "class StandIn:\n"
        "    @property\n"
        "    def __class__(self):\n"
        "        print('asked')\n"
        "        return int\n"
        "kept = [torch.ones(1000) for _ in range(40)]\n"
        "sys.last_traceback = StandIn()\n",
        encoding="utf-8",
    )
    run = run_observed([program], output=tmp_path / "output")
    assert (run.returncode, run.stdout) == (0, "")
    assert set(block_holders(load(run.capture.directory))["held_by"]) <= {
        f"__main__.kept[{place}]" for place in range(40)
    }


@pytest.mark.slow
def test_a_step_that_ends_with_an_error(tmp_path: Path) -> None:
    """The error is on its way through the model, and has the variables of the call: it is no holder of what is needed."""
    program = tmp_path / "fails_in_step_four.py"
    program.write_text(
        "import torch\n"
        "class Decoder(torch.nn.Module):\n"
        "    def forward(self, call):\n"
        "        before = torch.ones(5000)\n"
        "        kept.append(torch.ones(4000))\n"
        "        if call == CALLS:\n"
        "            raise ValueError(call)\n"
        "        return before.sum()\n"
        "kept, CALLS = [], 4\n"
        "decoder = Decoder()\n"
        "try:\n"
        "    for call in range(1, 9):\n"
        "        decoder(call)\n"
        "except ValueError as error:\n"
        "    CALLS = 0\n"
        "    for call in range(4):\n"
        "        decoder(call + 1)\n",
        encoding="utf-8",
    )
    run = run_observed([program], output=tmp_path / "output")
    assert run.returncode == 0, run.stderr
    recording = load(run.capture.directory)
    (of_error,) = (
        holder_events(recording).filter(pl.col("held_by").str.starts_with(HANDLED_EXCEPTION)).iter_rows(named=True)
    )
    # Only while the program handles it, in steps that end well.
    assert of_error["held_by"] == f"{HANDLED_EXCEPTION} -> forward.before"
    assert of_error["sequence"] > recording.steps["end_sequence"][4]
