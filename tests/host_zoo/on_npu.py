"""Runs a program of the zoo with its tensors on the NPU: `python on_npu.py program.py`."""

from __future__ import annotations

import runpy
import sys

import torch


def main() -> None:
    """Its lines and its names are those that it has alone."""
    torch.set_default_device("npu")
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
