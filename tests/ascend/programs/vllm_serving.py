"""Serves a tiny model with random weights by vLLM on Ascend, and prints what is in memory: ``FOLDER [WORKER_CLASS]``.

The last line is JSON: tokens, bytes and sizes of the blocks of the cache, bytes of the weights.
"""

from __future__ import annotations

import importlib
import itertools
import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")  # one process, so that the runner is at hand

TOKENS = 6
CONFIG = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": 8192,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
    "hidden_act": "silu",
    "bos_token_id": 1,
    "eos_token_id": 2,
}


class OnTheHost:
    """Does the work of Triton's kernel of that name: there is no Triton for the virtual NPU."""

    def __getitem__(self, grid: Any) -> Any:
        """The kernel does not depend on how it is spread over a device."""
        return self.map_slots

    def map_slots(self, *arguments: Any, **constants: Any) -> None:
        """Write the slot of each token: the place that its position has in the blocks of its request."""
        import torch

        _, _, starts, positions, table, _, block_size, mapping = arguments
        where, blocks = positions.cpu(), table.cpu().long()
        slots = torch.full((mapping.numel(),), constants["PAD_ID"], dtype=mapping.dtype)
        for request, (begin, end) in enumerate(itertools.pairwise(starts.tolist())):
            of_request = where[begin:end]
            slots[begin:end] = blocks[request][of_request // block_size] * block_size + of_request % block_size
        mapping.copy_(slots)


def storages(value: Any, found: dict[int, int]) -> dict[int, int]:
    """Collect the storages of tensors in nested containers: begin -> bytes."""
    if hasattr(value, "untyped_storage"):
        storage = value.untyped_storage()
        found[storage.data_ptr()] = storage.nbytes()
    else:
        for item in value.values() if isinstance(value, dict) else value:
            storages(item, found)
    return found


def main(folder: Path) -> None:
    """Load the model, generate tokens, and look at what the runner holds."""
    (folder / "config.json").write_text(json.dumps(CONFIG))
    from vllm import LLM, SamplingParams

    # Not before vLLM, which loads it as its plugin.
    block_table = importlib.import_module("vllm_ascend.worker.block_table")
    block_table._compute_slot_mapping_kernel = OnTheHost()
    llm = LLM(
        model=str(folder), skip_tokenizer_init=True, load_format="dummy", enforce_eager=True, dtype="float16",
        max_model_len=256, max_num_seqs=4, max_num_batched_tokens=256, num_gpu_blocks_override=16, block_size=128,
        enable_prefix_caching=False, **({"worker_cls": sys.argv[2]} if len(sys.argv) > 2 else {}),
    )  # fmt: skip
    tokens = []
    if len(sys.argv) == 2:  # the cache of 310P is written in a fractal format, which the virtual NPU does not have
        choice = SamplingParams(max_tokens=TOKENS, temperature=0.0, ignore_eos=True, detokenize=False)
        (answer,) = llm.generate([{"prompt_token_ids": [5, 6, 7, 8]}], choice)
        tokens = list(answer.outputs[0].token_ids)
    runner = llm.llm_engine.model_executor.driver_worker.worker.model_runner
    caches = storages(runner.kv_caches, {})
    weights = storages([*runner.model.parameters(), *runner.model.buffers()], {})
    found = {
        "runner": type(runner).__name__,
        "tokens": tokens,
        "cache": sorted(caches.items()),
        "weights": sorted(weights.items()),
    }
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
