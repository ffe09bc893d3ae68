"""verl: the task runner of PPO training, which sets the workers of inference and training up.

The names hold in the published package 0.7.0. It runs in a process of Ray: hooks are needed there.
"""

from __future__ import annotations

from typing import Final

from msmemscope.capture.frameworks.targets import Framework, HookSet, HookType, functions

_SNAPSHOT = functions(
    "verl.trainer.main_ppo",
    "TaskRunner",
    "add_actor_rollout_worker add_critic_worker add_reward_model_worker add_ref_policy_worker run",
    is_snapshot=True,
)

VERL: Final = Framework(
    name="verl",
    package="verl",
    distribution="verl",
    hook_sets=(HookSet("verl", "0.7.0", "TaskRunner", HookType.SNAPSHOT, _SNAPSHOT),),
)
