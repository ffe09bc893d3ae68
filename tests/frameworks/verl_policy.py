"""verl: its loss of a policy, the log probabilities that it works out, and its sampler of memory snapshots."""

from __future__ import annotations

import pickle
import tempfile
from typing import Any

import torch

import msmemscope
from tests.owner_truths import DEVICE
from tests.owner_truths.truth import Saved, moment, parts_of

from .trainers import LENGTH, ROWS, VOCABULARY, small_model

STEPS = 3


def _addresses_in_snapshot(folder: str) -> list[int]:
    """Where the live blocks of the snapshot that verl's sampler takes now begin."""
    from verl.utils.memory_utils import MemorySnapshotSampler

    path = MemorySnapshotSampler().dump_memory_snapshot(out_dir=folder)
    assert path is not None
    snapshot: dict[str, Any] = pickle.loads(path.read_bytes())  # noqa: S301 - written here
    blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
    found = [int(block["address"]) for block in blocks if block["state"] == "active_allocated"]
    assert found
    return found


def policy() -> None:
    """Updates of a policy. Every live block of a snapshot must be a block of the recording."""
    from verl.trainer.ppo.core_algos import agg_loss, compute_policy_loss
    from verl.utils.torch_functional import logprobs_from_logits

    model = small_model().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with tempfile.TemporaryDirectory() as folder:
        for step in range(STEPS):
            texts = torch.randint(3, VOCABULARY, (ROWS, LENGTH)).to(DEVICE)
            mask = torch.ones(ROWS, LENGTH - 1, device=DEVICE)
            gains = torch.randn(ROWS, LENGTH - 1).to(DEVICE)
            saved = Saved()
            with saved:
                scores = model(input_ids=texts, use_cache=False).logits[:, :-1]
                chances = logprobs_from_logits(scores, texts[:, 1:])
                loss = compute_policy_loss(chances.detach() - 0.1, chances, gains, mask, cliprange=0.2)[0]
                loss = loss + 0.01 * agg_loss(chances.square(), mask, "token-mean")
            blocks = _addresses_in_snapshot(folder)
            moment(f"forward {step}", **parts_of(model, optimizer), activation=saved, operator=blocks)
            loss.backward()
            optimizer.step()
            blocks = _addresses_in_snapshot(folder)
            moment(f"updated {step}", **parts_of(model, optimizer), activation=saved, operator=blocks)
            optimizer.zero_grad()
            moment(f"step {step}", **parts_of(model, optimizer), activation=saved)
            msmemscope.step()
