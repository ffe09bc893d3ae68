"""vLLM on Ascend: what the worker and its model runner do from loading to serving.

The names hold in the published packages 0.11.0, 0.13.0, 0.18.0 and 0.23.0.
"""

from __future__ import annotations

from typing import Final

from msmemscope.capture.frameworks.targets import Callback, Framework, HookSet, HookType, functions, ranged_functions
from msmemscope.model.labels import LabelLevel

_RUNNER_MODULE = "vllm_ascend.worker.model_runner_v1"
_RUNNER = "NPUModelRunner"
# Renamed between 0.11 and 0.13.
_WORKER_MODULES = ("vllm_ascend.worker.worker", "vllm_ascend.worker.worker_v1")
_WORKER = "NPUWorker"

_VLLM = ("vllm", LabelLevel.COMPONENT)
_PROFILE = ("profile", LabelLevel.PROCESS)
_SERVE = ("serve", LabelLevel.PROCESS)
_WARMUP = ("warmup", LabelLevel.PROCESS)
_GRAPH_POOL = ("graph_pool", LabelLevel.DETAIL_1)

_DECOMPOSE = (
    *functions(_RUNNER_MODULE, _RUNNER, "profile_run", labels=(_VLLM, _PROFILE)),
    *functions(_RUNNER_MODULE, _RUNNER, "execute_model", labels=(_VLLM, _SERVE)),
    *functions(_WORKER_MODULES, _WORKER, "compile_or_warm_up_model", labels=(_VLLM, _WARMUP)),
    *functions(_RUNNER_MODULE, _RUNNER, "capture_model", labels=(_GRAPH_POOL,)),
    *functions(_RUNNER_MODULE, _RUNNER, "load_model", callback=Callback.WEIGHTS),
    *functions(_RUNNER_MODULE, _RUNNER, "initialize_kv_cache_tensors", callback=Callback.KV_CACHE),
)

# On 310P the runner is a class of its own, which makes the cache without calling the function that it overrides.
_DECOMPOSE_310P = functions(
    "vllm_ascend._310p.model_runner_310p",
    "NPUModelRunner310",
    "initialize_kv_cache_tensors",
    callback=Callback.KV_CACHE,
)

# In 0.11 the cache of two kinds of models is made by functions of their own.
_DECOMPOSE_CACHES_OF_0_11 = functions(
    _RUNNER_MODULE,
    _RUNNER,
    "initialize_kv_cache_tensors_deepseek_sfa initialize_kv_cache_tensors_deepseek_mla",
    callback=Callback.KV_CACHE,
)

_SNAPSHOT = (
    *functions(
        _RUNNER_MODULE,
        _RUNNER,
        "load_model profile_run initialize_kv_cache execute_model capture_model",
        is_snapshot=True,
    ),
    *functions(_WORKER_MODULES, _WORKER, "compile_or_warm_up_model", is_snapshot=True),
)

# The worker calls the allocator; of programs that have no worker, as trainers with an engine of their own, the allocator
# counts alone.
_SLEEP = (
    *ranged_functions("vllm_ascend.device_allocator.camem", "CaMemAllocator", "sleep wake_up"),
    *ranged_functions(_WORKER_MODULES, _WORKER, "sleep wake_up"),
)

VLLM_ASCEND: Final = Framework(
    name="vllm_ascend",
    package="vllm_ascend",
    distribution="vllm-ascend",
    hook_sets=(
        HookSet("vllm_ascend", "0.11+", "worker", HookType.DECOMPOSE, _DECOMPOSE),
        HookSet("vllm_ascend", "0.23+", "worker", HookType.DECOMPOSE, _DECOMPOSE_310P),
        HookSet("vllm_ascend", "0.11-0.11", "worker", HookType.DECOMPOSE, _DECOMPOSE_CACHES_OF_0_11),
        HookSet("vllm_ascend", "0.11+", "worker", HookType.SNAPSHOT, _SNAPSHOT),
        HookSet("vllm_ascend", "0.11+", "worker", HookType.SLEEP, _SLEEP),
    ),
    older_version_names=(("11.0", "0.11.0"),),
)
