"""Every row of the tables, on packages with the names of the real ones."""

from __future__ import annotations

import importlib
import inspect
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from msmemscope.capture.framework_hooks import cleanup_framework_hooks, init_framework_hooks
from msmemscope.capture.frameworks.registry import find_hook_sets
from msmemscope.capture.frameworks.targets import HookType
from tests.support.frameworks import call, framework_process, labels_in_force, listening, owner_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from msmemscope.capture.frameworks.targets import Target
    from tests.support.frameworks import FrameworkProcess

TABLES = [
    ("vllm_ascend_0_11", ("vllm_ascend", "0.11.0", "worker", "decompose")),
    ("vllm_ascend_0_11", ("vllm_ascend", "0.11.0", "worker", "snapshot")),
    ("vllm_ascend_0_18", ("vllm_ascend", "0.18.0", "worker", "decompose")),
    ("vllm_ascend_0_18", ("vllm_ascend", "0.18.0", "worker", "snapshot")),
    ("vllm_ascend_0_11", ("vllm_ascend", "0.11.0", "worker", "sleep")),
    ("vllm_ascend_0_18", ("vllm_ascend", "0.23.0", "worker", "sleep")),
    ("vllm_0_23", ("vllm", "0.23.0", "worker", "sleep")),
    ("verl_0_7", ("verl", "0.7.0", "TaskRunner", "snapshot")),
    ("mindspeed_0_12", ("mindspeed_llm", "0.12.1", "training", "snapshot")),
    ("torch_2_9", ("pytorch", "2.9.1", "fsdp1", "decompose")),
    ("torch_2_9", ("pytorch", "2.9.1", "fsdp2", "decompose")),
]

NOT_IN = {
    ("vllm_ascend_0_11", "vllm_ascend.worker.worker"),
    ("vllm_ascend_0_18", "vllm_ascend.worker.worker_v1"),
    ("mindspeed_0_12", "mindspeed_llm.core.transformer.transformer_block"),
    ("mindspeed_0_12", "mindspeed_llm.core.transformer.attention"),
}
"""Modules of a target that stands in another of its modules there."""

LABELS = {
    "vllm_ascend": {
        "profile_run": ["vllm", "profile"],
        "execute_model": ["vllm", "serve"],
        "compile_or_warm_up_model": ["vllm", "warmup"],
        "capture_model": ["graph_pool"],
        "load_model": [],
        "initialize_kv_cache_tensors": [],
        "initialize_kv_cache_tensors_deepseek_sfa": [],
        "initialize_kv_cache_tensors_deepseek_mla": [],
    },
    "pytorch": {
        "forward": ["fsdp1", "activation"],
        "_pre_backward_hook": ["fsdp1", "backward"],
        "_post_backward_hook": ["fsdp1", "backward"],
        "_init_flat_param_and_metadata": ["fsdp1", "model@weight", "sharded_weight"],
        "_alloc_padded_unsharded_flat_param": ["fsdp1", "model@weight", "all_gather"],
        "_reduce_grad": ["fsdp1", "model@gradient"],
        "_pre_forward": ["fsdp2", "activation"],
        "_post_forward": ["fsdp2", "activation"],
        "_pre_backward": ["fsdp2", "backward"],
        "post_backward": ["fsdp2", "backward"],
        "_init_sharded_param": ["fsdp2", "model@weight", "sharded_weight"],
        "foreach_all_gather": ["fsdp2", "model@weight", "all_gather_output"],
        "foreach_reduce": ["fsdp2", "model@gradient"],
        "init_all_gather_outputs": ["fsdp2", "model@weight", "all_gather_output"],
        "alloc_all_gather_outputs": ["fsdp2", "model@weight", "all_gather_output"],
    },
}


def rows() -> list[tuple[str, tuple[str, str, str, str], Target, str]]:
    """Each target in each module where the fakes have it."""
    return [
        (folder, words, target, module)
        for folder, words in TABLES
        for hook_set in find_hook_sets(*words)
        for target in hook_set.targets
        for module in target.modules
        if (folder, module) not in NOT_IN
    ]


ROWS = pytest.mark.parametrize(
    ("folder", "words", "target", "module"),
    rows(),
    ids=[
        f"{folder} {words[3]} {module}.{target.class_name}.{target.function}"
        for folder, words, target, module in rows()
    ],
)


@pytest.fixture
def process(folder: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[FrameworkProcess]:
    """A process that can import the fakes of the row and has not."""
    with framework_process(folder, monkeypatch) as process:
        yield process


@ROWS
def test_the_function_does_what_its_row_says(
    process: FrameworkProcess, folder: str, words: tuple[str, str, str, str], target: Target, module: str
) -> None:
    """Labels while it runs, or snapshots or a range around it, also when it raises; its result and signature are its own."""
    original = inspect.getattr_static(owner_of(target, module), target.function)
    signature = inspect.signature(getattr(owner_of(target, module), target.function))
    init_framework_hooks(*words)
    seen: list[list[str]] = []
    answer = {} if target.callback else object()

    def listen(name: str) -> object:
        if name == target.function:
            seen.append(labels_in_force())
        return answer

    with listening(listen):
        assert call(target, module) is answer
    is_decompose = words[3] == HookType.DECOMPOSE.value
    assert seen == [LABELS[words[0]][target.function] if is_decompose else []]
    assert labels_in_force() == []

    def fail(_name: str) -> object:
        raise LookupError

    with listening(fail), pytest.raises(LookupError):
        call(target, module)
    assert labels_in_force() == []
    name = target.function
    assert process.ranges == ([name, 1, name, 3] if words[3] == HookType.SLEEP.value else [])
    if words[3] == HookType.SNAPSHOT.value:
        name = f"{target.class_name}@{target.function}"
        assert [each.split("@", 1)[1] for each in process.snapshots if f"@{name}@" in each][:4] == [
            f"{name}@Start",
            f"{name}@End",
        ] * 2
    assert inspect.signature(getattr(owner_of(target, module), target.function)) == signature
    cleanup_framework_hooks()
    assert inspect.getattr_static(owner_of(target, module), target.function) is original
    assert process.printed == []


@pytest.mark.parametrize(
    ("folder", "words"), TABLES, ids=[f"{folder} {words[2]} {words[3]}" for folder, words in TABLES]
)
def test_nothing_of_a_table_is_missing(
    process: FrameworkProcess, folder: str, words: tuple[str, str, str, str]
) -> None:
    """Hooked before anything is imported: all targets are found as the modules come, and none is noted as absent."""
    hook_sets = find_hook_sets(*words)
    init_framework_hooks(*words)
    for hook_set in hook_sets:
        for target in hook_set.targets:
            for module in reversed(target.modules):  # a file of MindSpeed imports the one of Megatron
                with suppress(ModuleNotFoundError):
                    importlib.import_module(module)
    assert process.facts_of("unobserved.framework_hooks") == []
    for hook_set in hook_sets:
        for target in hook_set.targets:
            module = next(each for each in target.modules if (folder, each) not in NOT_IN)
            assert hasattr(inspect.getattr_static(owner_of(target, module), target.function), "__wrapped__"), str(
                target
            )
    assert process.facts_of("observed.framework_hooks") == [f"{words[0]} {words[2]} {words[3]}"]


@pytest.mark.parametrize("folder", ["torch_2_9"])
def test_a_name_imported_from_another_place_of_the_table_is_labelled_once(process: FrameworkProcess) -> None:
    """The group's `foreach_all_gather` is the one of the collectives; both are given back."""
    package = "torch.distributed.fsdp._fully_shard"
    init_framework_hooks("pytorch", "2.9.1", "fsdp2", "decompose")
    group = importlib.import_module(f"{package}._fsdp_param_group")
    collectives = importlib.import_module(f"{package}._fsdp_collectives")
    seen: list[list[str]] = []
    with listening(lambda _name: seen.append(labels_in_force())):
        group.foreach_all_gather(None, None)
        collectives.foreach_all_gather(None, None)
    assert seen == [["fsdp2", "model@weight", "all_gather_output"]] * 2
    cleanup_framework_hooks()
    assert group.foreach_all_gather is collectives.foreach_all_gather
    assert not hasattr(group.foreach_all_gather, "__wrapped__")


@pytest.mark.parametrize("folder", ["mindspeed_0_12"])
def test_a_class_that_two_modules_name_is_one_place(process: FrameworkProcess) -> None:
    """One pair of snapshots for Megatron's MLP, which MindSpeed's file imports by name."""
    init_framework_hooks("mindspeed_llm", "0.12.1", "training", "snapshot")
    mlp = importlib.import_module("mindspeed_llm.core.transformer.mlp").MLP
    mlp().forward(None)
    name = "megatron.core.transformer.mlp@MLP@forward"
    assert process.snapshots == [f"{name}@Start", f"{name}@End"]
