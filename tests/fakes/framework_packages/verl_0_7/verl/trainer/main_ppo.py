"""PPO training."""

# ruff: noqa: ARG002 - of a fake, only names and parameters matter

from __future__ import annotations

from importlib import import_module
from typing import Any

_probe: Any = import_module("framework_probe")


class TaskRunner:
    """Sets workers up and runs the training."""

    def add_actor_rollout_worker(self, config: Any) -> Any:
        """Actor and rollout."""
        return _probe.called("add_actor_rollout_worker")

    def add_critic_worker(self, config: Any) -> Any:
        """Critic."""
        return _probe.called("add_critic_worker")

    def add_reward_model_worker(self, config: Any) -> Any:
        """Reward model."""
        return _probe.called("add_reward_model_worker")

    def add_ref_policy_worker(self, config: Any, ref_policy_cls: Any) -> Any:
        """Reference policy."""
        return _probe.called("add_ref_policy_worker")

    def run(self, config: Any) -> Any:
        """Train."""
        return _probe.called("run")
