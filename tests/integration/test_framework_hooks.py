"""Hooks in real frameworks: FSDP of the installed PyTorch, in one process, and vLLM's names on real tensors."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import polars as pl
import pytest

from msmemscope.model.events import EventKind
from msmemscope.model.labels import decode_labels
from tests.support import tool
from tests.support.frameworks import PACKAGES
from tests.support.recordings import assert_sound, events_of
from tests.support.warm import run_observed, run_python

if TYPE_CHECKING:
    from pathlib import Path

    from msmemscope.formats.event_log import Capture

pytestmark = pytest.mark.torch

IN, HIDDEN, OUT, BATCH, STEPS = 64, 128, 32, 16, 2
PARAMETER_BYTES = 4 * (IN * HIDDEN + HIDDEN + HIDDEN * OUT + OUT)

GROUP = """
import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
torch.manual_seed(1)
"""

# Destroying a group holds the interpreter's lock and waits for threads of the group. Those threads need the lock to
# forget the tensors of the last collective.
LEAVE = """
import time
time.sleep(0.3)
dist.destroy_process_group()
"""

FSDP2 = f"""
{GROUP}
from torch.distributed.fsdp import fully_shard

model = nn.Sequential(nn.Linear({IN}, {HIDDEN}), nn.ReLU(), nn.Linear({HIDDEN}, {OUT}))
for layer in (model[0], model[2]):
    fully_shard(layer)
fully_shard(model)
for _ in range({STEPS}):
    model(torch.randn({BATCH}, {IN})).square().mean().backward()
print("result=" + ",".join(repr(float(each.grad.full_tensor().double().sum())) for each in model.parameters()))
{LEAVE}
"""

FSDP1 = f"""
{GROUP}
import warnings

warnings.simplefilter("ignore")
from torch.distributed.fsdp import FullyShardedDataParallel

module = nn.Sequential(nn.Linear({IN}, {HIDDEN}), nn.ReLU(), nn.Linear({HIDDEN}, {OUT}))
model = FullyShardedDataParallel(module, device_id=torch.device("cpu"))
for _ in range({STEPS}):
    model(torch.randn({BATCH}, {IN})).square().mean().backward()
print("result=" + ",".join(repr(float(each.grad.double().sum())) for each in model.parameters()))
{LEAVE}
"""

COMPILED = f"""
{GROUP}
from torch._dynamo.utils import counters
from torch.distributed.fsdp import fully_shard

model = nn.Sequential(nn.Linear({IN}, {HIDDEN}), nn.ReLU(), nn.Linear({HIDDEN}, {OUT}))
for layer in (model[0], model[2]):
    fully_shard(layer)
compiled = torch.compile(fully_shard(model), backend="aot_eager")
for _ in range({STEPS}):
    loss = compiled(torch.randn({BATCH}, {IN})).square().mean()
    loss.backward()
print(f"loss={{loss.item()!r}} breaks={{sum(counters['graph_break'].values())}}")
{LEAVE}
"""

EVERY_TARGET = """
import importlib, inspect, sys
import torch
import msmemscope
from msmemscope.capture.frameworks.registry import find_hook_sets

targets = [
    (module, target)
    for component in ("fsdp1", "fsdp2")
    for hook_set in find_hook_sets("pytorch", torch.__version__, component, "decompose")
    for target in hook_set.targets
    for module in target.modules
]


def attributes():
    for module, target in targets:
        owner = importlib.import_module(module)
        owner = getattr(owner, target.class_name) if target.class_name else owner
        yield vars(owner).get(target.function), getattr(owner, target.function)


if sys.argv[1] == "imported":
    list(attributes())
before = list(attributes()) if sys.argv[1] == "imported" else None
for component in ("fsdp1", "fsdp2"):
    msmemscope.init_framework_hooks("pytorch", torch.__version__, component, "decompose")
hooked = [found for found in attributes()]
print(f"targets={len(targets)} hooked={sum(own is not None and hasattr(own, '__wrapped__') for own, _ in hooked)}")
signatures = [(inspect.signature(found), inspect.signature(inspect.unwrap(found))) for _, found in hooked]
print(f"signatures={sum(one == other for one, other in signatures)}")
msmemscope.cleanup_framework_hooks()
after = list(attributes())
left = sum(any("msmemscope" in (getattr(each, "__code__", None) or compile("", "", "exec")).co_filename
               for each in pair) for pair in after)
same = before is None or all(x is y for pair in zip(before, after) for x, y in zip(*pair))
print(f"left={left} same={same}")
"""

VLLM = """
import sys
from types import SimpleNamespace
import torch
import msmemscope
import framework_probe

msmemscope.init_framework_hooks("vllm_ascend", "0.11.0", "worker", "decompose")
msmemscope.init_framework_hooks("vllm_ascend", "0.11.0", "worker", "snapshot")
from vllm_ascend.worker.model_runner_v1 import NPUModelRunner

runner = NPUModelRunner()
spec = type("FullAttentionSpec", (), {})()
runner.kv_cache_config = SimpleNamespace(
    kv_cache_groups=[SimpleNamespace(layer_names=["layer.0"], kv_cache_spec=spec)]
)


def work(name):
    if name == "load_model":
        runner.model = torch.nn.Linear(1000, 1000, bias=False)
    if name == "initialize_kv_cache_tensors":
        return {"layer.0": (torch.zeros(3000), torch.zeros(5000))}
    if name == "profile_run":
        return torch.zeros(7000)


framework_probe.listeners.append(work)
runner.load_model()
cache = runner.initialize_kv_cache_tensors(runner.kv_cache_config)
kept = runner.profile_run()
after = torch.zeros(9000)
"""


def owners(capture: Capture) -> dict[str, int]:
    """Bytes of all blocks by the labels that they were allocated with, and those given later as `later: ...`."""
    events = events_of(capture)
    assert_sound(events)
    texts = {number: "@".join(decode_labels(text).values()) for number, text in capture.strings.items()}
    found: dict[str, int] = {}
    for kind, column, prefix in ((EventKind.MALLOC, "extra", ""), (EventKind.OWNER, "attribute_id", "later: ")):
        sums = events.filter(pl.col("kind") == int(kind)).group_by(column).agg(pl.col("size").sum())
        found |= {prefix + texts.get(number, ""): size for number, size in sums.iter_rows()}
    return found


@pytest.mark.slow
def test_fsdp2_memory_is_labelled_by_phase(output: Path) -> None:
    """Sharded weights to the byte; gathers and gradients by their functions; the results are those without the tool."""
    alone = run_python(["-c", FSDP2], output=output, variables={})
    assert alone.returncode == 0, alone.stderr
    run = run_observed(["-c", FSDP2], "--analysis=decompose", output=output)
    assert run.returncode == 0, run.stderr
    assert run.report["result"] == alone.report["result"]
    found = owners(run.capture)
    assert found["fsdp2@model@weight@sharded_weight"] == PARAMETER_BYTES
    # With one process nothing is gathered: the buffers are made once, and grow again around each forward and backward.
    assert found["fsdp2@activation@model@weight@all_gather_output"] == PARAMETER_BYTES
    assert found["fsdp2@activation"] >= (STEPS - 1) * PARAMETER_BYTES
    assert found["fsdp2@backward"] >= STEPS * PARAMETER_BYTES
    assert found["fsdp2@backward@model@gradient"] >= STEPS * PARAMETER_BYTES
    facts = run.capture.facts
    assert "pytorch fsdp2 decompose" in facts["observed.framework_hooks"][-1]
    assert "unobserved.framework_hooks" not in facts


@pytest.mark.slow
def test_fsdp1_memory_is_labelled_by_phase(output: Path) -> None:
    """The flat parameter to the byte, and what the forward makes."""
    alone = run_python(["-c", FSDP1], output=output, variables={})
    assert alone.returncode == 0, alone.stderr
    run = run_observed(["-c", FSDP1], "--analysis=decompose", output=output)
    assert run.returncode == 0, run.stderr
    assert run.report["result"] == alone.report["result"]
    found = owners(run.capture)
    assert found["fsdp1@model@weight@sharded_weight"] == PARAMETER_BYTES
    assert found["fsdp1@activation"] >= STEPS * 4 * BATCH * (HIDDEN + OUT)
    assert "unobserved.framework_hooks" not in run.capture.facts


@pytest.mark.slow
def test_compiled_programs_are_compiled_as_before(output: Path) -> None:
    """As many graph breaks, the same result, and labels of what the hooked functions allocate."""
    alone = run_python(["-c", COMPILED], output=output, variables={})
    assert alone.returncode == 0, alone.stderr
    run = run_observed(["-c", COMPILED], "--analysis=decompose", output=output)
    assert run.returncode == 0, run.stderr
    assert run.report == alone.report
    found = owners(run.capture)
    assert found["fsdp2@model@weight@sharded_weight"] == PARAMETER_BYTES
    assert found["fsdp2@activation"] == (STEPS - 1) * PARAMETER_BYTES


@pytest.mark.slow
def test_no_labels_without_decompose(output: Path) -> None:
    """The frameworks are not touched for other analyses."""
    run = run_observed(["-c", FSDP2], "--analysis=leaks", output=output)
    assert run.returncode == 0, run.stderr
    assert set(owners(run.capture)) == {""}
    assert "observed.framework_hooks" not in run.capture.facts


@pytest.mark.parametrize("order", ["imported", "not imported"])
def test_every_target_is_in_the_installed_torch(output: Path, order: str) -> None:
    """All are hooked with their signatures, before or after the import, and given back as the very same objects."""
    words = ["-c", EVERY_TARGET, order]
    if order == "imported":
        run = run_python(words, output=output, variables={})
    else:  # torch._dynamo, which a forked process has, has imported them
        run = tool.run([sys.executable, *words], output=output)
    assert run.returncode == 0, run.stderr
    targets, signatures, rest = run.reports
    assert int(targets["targets"]) == int(targets["hooked"]) >= 14
    assert signatures["signatures"] == targets["targets"]
    assert rest == {"left": "0", "same": "True"}


@pytest.mark.slow
def test_weights_and_cache_of_vllm_are_labelled(output: Path) -> None:
    """Tensors that exist are labelled when the runner has them, what a phase allocates as it does; and snapshots."""
    paths = ":".join(map(str, (PACKAGES, PACKAGES / "vllm_ascend_0_11")))
    program = f"import sys; sys.path[:0] = {paths.split(':')!r}\n{VLLM}"
    run = run_observed(["-c", program], output=output)
    assert run.returncode == 0, run.stderr
    found = owners(run.capture)
    assert found["later: vllm@weights"] == 4_000_000
    assert found["later: vllm@kv_cache@attn"] == 4 * (3000 + 5000)
    assert found["vllm@profile"] == 4 * 7000
    names = events_of(run.capture).filter(pl.col("kind") == int(EventKind.SNAPSHOT))["name_id"]
    runner = "vllm_ascend.worker.model_runner_v1@NPUModelRunner"
    assert [run.capture.strings[number] for number in names] == [
        f"{runner}@{function}@{moment}" for function in ("load_model", "profile_run") for moment in ("Start", "End")
    ]
