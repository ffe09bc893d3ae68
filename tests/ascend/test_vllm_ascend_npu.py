"""The real vLLM with the real vLLM-Ascend on the virtual NPU: it serves, and its weights and cache have their owners.

Its packages are many, so `make test-vllm-ascend` runs these in an environment of their own; elsewhere they are skipped.
"""

from __future__ import annotations

import importlib.util
import json
import re
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.ascend.conftest import Observe
    from tests.support.ascend import Observation

TIMEOUT_S: Final = 500
PADDING: Final = 512
"""Blocks of the caching allocator are rounded up to that many bytes, with 32 of padding."""
VARIABLES: Final = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_HOST_IP": "127.0.0.1",
    "PYTHONWARNINGS": "ignore",
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(2 * TIMEOUT_S),
    pytest.mark.skipif(
        importlib.util.find_spec("vllm_ascend") is None,
        reason="vLLM-Ascend is not installed in this environment (make test-vllm-ascend installs it)",
    ),
]


def served(observe: Observe, folder: Path, *words: str) -> tuple[dict[str, Any], Observation]:
    """Run the program; return what it printed, and the recording."""
    options = ["--device=npu", "--analysis=decompose", "--call-stack=python"]
    seen = observe(options, "vllm_serving.py", folder, *words, variables=VARIABLES, timeout_s=TIMEOUT_S)
    (line,) = [line for line in seen.run.stdout.splitlines() if line.startswith('{"runner"')]
    return json.loads(line), seen


def owners(seen: Observation) -> dict[int, tuple[str, int]]:
    """The owner and the size of the block that was allocated last at each address."""
    rows = seen.of(0, event="MALLOC", event_type="PTA")
    return {int(row["Ptr"], 0): (row["attributes"].get("owner", ""), int(row["attributes"]["size"])) for row in rows}


def assert_owned(blocks: list[list[int]], recorded: dict[int, tuple[str, int]], owner: str) -> None:
    """Each storage is a block of this owner, as large as it is."""
    assert blocks
    for address, size_bytes in blocks:
        label, block_bytes = recorded[address]
        assert re.match(owner, label), (address, label)
        assert size_bytes + 32 <= block_bytes < size_bytes + 32 + PADDING


def bytes_of_cache(recorded: dict[int, tuple[str, int]]) -> int:
    """All that has the label of a cache."""
    return sum(size for label, size in recorded.values() if "@kv_cache" in label)


def test_tokens_are_generated_and_weights_and_cache_have_their_owners(observe: Observe, tmp_path: Path) -> None:
    """Each storage of the runner's weights and of its cache, at its address, with its size."""
    answer, seen = served(observe, tmp_path)
    assert answer["runner"] == "NPUModelRunner"
    assert len(answer["tokens"]) == 6
    recorded = owners(seen)
    assert_owned(answer["cache"], recorded, r"PTA@vllm@kv_cache@attn$")
    assert_owned(answer["weights"], recorded, r"PTA@vllm@weights(@|$)")
    assert bytes_of_cache(recorded) == sum(recorded[address][1] for address, _ in answer["cache"])


def test_the_cache_of_310p_has_its_owner(observe: Observe, tmp_path: Path) -> None:
    """Its runner overrides the function that makes the cache, and does not call what it overrides."""
    answer, seen = served(observe, tmp_path, "vllm_ascend._310p.worker_310p.NPUWorker310")
    assert answer["runner"] == "NPUModelRunner310"
    recorded = owners(seen)
    assert_owned(answer["cache"], recorded, r"PTA@vllm@kv_cache@attn$")
    assert_owned(answer["weights"], recorded, r"PTA@vllm@weights(@|$)")
    assert bytes_of_cache(recorded) == sum(recorded[address][1] for address, _ in answer["cache"])
