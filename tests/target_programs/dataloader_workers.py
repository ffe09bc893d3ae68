"""A DataLoader with worker processes: each sample is a tensor of a known size, made in a worker."""

from __future__ import annotations

import os

import torch
from torch.utils.data import DataLoader, Dataset

SAMPLE_BYTES = 1_000_064
SAMPLES = 8
WORKERS = 2


class Samples(Dataset[torch.Tensor]):
    """Tensors of one size, whose bytes all hold the index."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((SAMPLE_BYTES,), index, dtype=torch.uint8)


def main() -> None:
    """Read all samples and say what was read."""
    loader = DataLoader(Samples(), batch_size=None, num_workers=WORKERS)
    total = sum(int(sample[0]) for sample in loader)
    print(f"who=parent pid={os.getpid()} size={SAMPLE_BYTES} samples={SAMPLES} workers={WORKERS} total={total}")


if __name__ == "__main__":
    main()
