"""The shape of vllm 0.23."""

__version__ = "0.23.0"
