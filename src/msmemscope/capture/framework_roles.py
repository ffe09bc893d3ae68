"""The role of this process in a job of reinforcement learning or inference, told by the frameworks that it loaded."""

from __future__ import annotations

import sys
from typing import Any

TYPE_CHECKING = False  # typing itself is slow to import
if TYPE_CHECKING:
    from collections.abc import Callable


def role_of_frameworks(on_failure: Callable[[str], None]) -> str:
    """The role, empty if no framework has one; nothing is imported or created to find it.

    Args:
        on_failure: Gets what went wrong with one of the frameworks, which is then left out.
    """
    for module_name, read in _READERS.items():
        module = sys.modules.get(module_name)
        if module is None:
            continue
        try:
            role = read(module)
        except Exception as error:  # noqa: BLE001 - a version that is different, or in the middle of its import
            on_failure(f"{module_name}: {type(error).__name__}: {error}")
            continue
        if role and role.isprintable():
            return role
    return ""


def _of_ray_actor(worker: Any) -> str:
    """The roles of verl's workers that share this process, or the class of the actor."""
    for actor in list(worker.global_worker.actors.values()):
        # verl puts several workers into one actor: a dict of them by role.
        for name in ("worker_dict", "fused_worker_dict"):
            workers = getattr(actor, name, None)
            if isinstance(workers, dict) and workers:
                return "+".join(map(str, workers))
        role = getattr(actor, "role", None)
        return role if isinstance(role, str) and role else type(actor).__name__
    return ""


def _of_vllm(state: Any) -> str:
    """`kv_producer` where prefill is apart from decoding, `kv_consumer` there."""
    connector = getattr(state, "_KV_CONNECTOR_AGENT", None)
    transfer = getattr(getattr(connector, "_vllm_config", None), "kv_transfer_config", None)
    return str(getattr(transfer, "kv_role", None) or "")


_READERS: dict[str, Callable[[Any], str]] = {
    "ray._private.worker": _of_ray_actor,
    "vllm.distributed.kv_transfer.kv_transfer_state": _of_vllm,
}
"""By the module that knows; verl's workers are actors of Ray."""
