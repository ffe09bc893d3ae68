"""The shape of vllm_ascend 0.18: it has no __version__ of its own."""
