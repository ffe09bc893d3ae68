"""The programs: which packages each needs, in how many processes it runs, and what it is held against."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import importlib.util
import os
import sys
from pathlib import Path

FOLDER = Path(sys.prefix) / "training"
"""Where `make test-training` puts packages that nothing else gets to see."""

PARTS = ("weight", "gradient", "optimizer_state", "activation")


@dataclasses.dataclass(frozen=True)
class Program:
    """One program."""

    package: str
    """Whose version is reported: the name of a distribution."""
    checked: str
    """The work of the program, in the words of the page of compatibility."""
    needs: tuple[str, ...] = ()
    """Further distributions, `package` aside."""
    ranks: int = 1
    """Processes, each on a device of its own."""
    owners: tuple[str, ...] = PARTS
    """The owners that it tells apart; the rest counts as memory of operators."""
    devices: tuple[str, ...] = ("cpu", "npu")
    is_of_every_day: bool = False
    """Quick, and of packages that `make test` has."""
    snapshots: tuple[str, ...] = ()
    """Calls around which each process takes snapshots, in their order."""


_WORKER = "verl.workers.engine_workers@TrainingWorker"
_CALLS_OF_VERL = (
    "verl.trainer.main_ppo_v0@BaseTaskRunner@add_critic_worker",
    f"{_WORKER}@reset",
    *(3 * (f"{_WORKER}@train_batch", f"{_WORKER}@infer_batch")),
)

PROGRAMS = {
    "trainers.transformers_trainer": Program(
        "transformers", "Trainer, AdamW", needs=("accelerate",), is_of_every_day=True
    ),
    "trainers.transformers_checkpointing": Program(
        "transformers", "Trainer, gradient checkpointing", needs=("accelerate",)
    ),
    "trainers.transformers_generate": Program("transformers", "generate", owners=("weight", "kv_cache")),
    "trainers.peft_lora": Program("peft", "LoRA, Trainer", needs=("transformers", "accelerate")),
    "trainers.accelerate_accumulation": Program(
        "accelerate", "prepare, gradient accumulation, clipping", needs=("transformers",)
    ),
    "trl_trainers.sft": Program("trl", "SFTTrainer", needs=("transformers", "accelerate", "datasets")),
    "trl_trainers.grpo": Program("trl", "GRPOTrainer", needs=("transformers", "accelerate", "datasets")),
    "verl_policy.policy": Program(
        "verl",
        "policy loss, every block of memory snapshots known",
        needs=("transformers", "tensordict", "ray"),
        devices=("npu",),
    ),
    "verl_worker.worker": Program(
        "verl",
        "worker, FSDP2 engine, micro-batches",
        needs=("transformers", "tensordict", "ray", "fastapi", "pillow", "torchdata", "cachetools"),
        ranks=2,
        devices=("npu",),
        snapshots=_CALLS_OF_VERL,
    ),
    "verl_worker.offloading_worker": Program(
        "verl",
        "worker, offloaded to the host between calls",
        needs=("transformers", "tensordict", "ray", "fastapi", "pillow", "torchdata", "cachetools"),
        ranks=2,
        devices=("npu",),
        snapshots=_CALLS_OF_VERL,
    ),
    "parallel.ddp": Program("torch", "DistributedDataParallel", needs=("transformers",), ranks=2),
    "parallel.fsdp1": Program("torch", "FullyShardedDataParallel", needs=("transformers",), ranks=2),
    "parallel.fsdp2": Program("torch", "fully_shard", needs=("transformers",), ranks=2),
    "deepspeed_zero.zero_1": Program("deepspeed", "ZeRO 1, bfloat16", needs=("transformers",), ranks=2),
    "deepspeed_zero.zero_2": Program("deepspeed", "ZeRO 2, bfloat16", needs=("transformers",), ranks=2),
    "deepspeed_zero.zero_3": Program("deepspeed", "ZeRO 3, bfloat16", needs=("transformers",), ranks=2),
    "megatron_gpt.gpt": Program(
        "megatron-core", "GPT, tensor parallel 2, pipeline parallel 2, bfloat16", ranks=4, devices=("npu",)
    ),
}


def search_path() -> str:
    """Return a PYTHONPATH on which the packages of the training lane are found too, behind what is on it already.

    Without torch_npu: transformers loads it where it is importable.
    """
    folders = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    kept = [folder for folder in folders if not (Path(folder) / "torch_npu").is_dir()]
    return os.pathsep.join([*kept, *([str(FOLDER)] if FOLDER.is_dir() else [])])


def installed_version(distribution: str) -> str | None:
    """Return the version of a distribution here or in the folder of the training lane; None if it is in neither."""
    for path in (sys.path, [str(FOLDER)], [str(Path(sys.prefix) / "torch_npu")]):
        for found in importlib.metadata.distributions(name=distribution, path=path):
            return found.version
    return None


def missing(program: Program) -> str:
    """Return which of the distributions that a program needs are not installed; empty if none."""
    return ", ".join(name for name in ("torch", program.package, *program.needs) if installed_version(name) is None)
