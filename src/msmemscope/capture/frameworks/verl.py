"""verl: what sets the workers of PPO training up, and the worker that trains.

The names hold in the published packages 0.7.0 and 0.9.1. It runs in processes of Ray: hooks are needed there.
"""

from __future__ import annotations

from typing import Final

from msmemscope.capture.frameworks.targets import Framework, HookSet, HookType, functions

_RUNNER = functions(
    "verl.trainer.main_ppo",
    "TaskRunner",
    "add_actor_rollout_worker add_critic_worker add_reward_model_worker add_ref_policy_worker run",
    is_snapshot=True,
)

# Ray makes another class of the runner, which inherits these.
_BASE_RUNNER = functions(
    "verl.trainer.main_ppo_v0",
    "BaseTaskRunner",
    "add_actor_rollout_worker add_critic_worker add_ref_policy_worker",
    is_snapshot=True,
)

_WORKER = functions(
    "verl.workers.engine_workers", "TrainingWorker", "reset to train_batch infer_batch", is_snapshot=True
)

VERL: Final = Framework(
    name="verl",
    package="verl",
    distribution="verl",
    hook_sets=(
        HookSet("verl", "0.7.0", "TaskRunner", HookType.SNAPSHOT, _RUNNER),
        HookSet("verl", "0.9+", "TaskRunner", HookType.SNAPSHOT, _BASE_RUNNER),
        HookSet("verl", "0.9+", "worker", HookType.SNAPSHOT, _WORKER),
    ),
)
