"""The model runner."""

# ruff: noqa: ARG002 - of a fake, only names and parameters matter

from __future__ import annotations

from importlib import import_module
from typing import Any

_probe: Any = import_module("framework_probe")


class NPUModelRunner:
    """Loads and runs a model."""

    def profile_run(self) -> Any:
        """Run a dummy batch to measure what activations need."""
        return _probe.called("profile_run")

    def execute_model(self, scheduler_output: Any, intermediate_tensors: Any = None) -> Any:
        """Serve one batch."""
        return _probe.called("execute_model")

    def capture_model(self) -> Any:
        """Capture graphs."""
        return _probe.called("capture_model")

    def load_model(self) -> Any:
        """Load the weights."""
        return _probe.called("load_model")

    def initialize_kv_cache(self, kv_cache_config: Any) -> Any:
        """Prepare the cache."""
        return _probe.called("initialize_kv_cache")

    def initialize_kv_cache_tensors(self, kv_cache_config: Any) -> Any:
        """Allocate the cache."""
        return _probe.called("initialize_kv_cache_tensors")

    def initialize_kv_cache_tensors_deepseek_sfa(self, kv_cache_config: Any) -> Any:
        """Allocate the cache of one kind of model."""
        return _probe.called("initialize_kv_cache_tensors_deepseek_sfa")

    def initialize_kv_cache_tensors_deepseek_mla(self, kv_cache_config: Any) -> Any:
        """Allocate the cache of one kind of model."""
        return _probe.called("initialize_kv_cache_tensors_deepseek_mla")
