"""Labels of what vLLM has loaded and allocated."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from msmemscope.capture.framework_hooks import init_framework_hooks
from msmemscope.capture.frameworks import vllm_labels
from msmemscope.model.labels import LabelLevel
from tests.support.frameworks import framework_process, listening

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(eq=False)
class Tensor:
    """Something that has an address."""

    name: str

    def data_ptr(self) -> int:
        """Never asked for: labels are given to storages."""
        raise AssertionError


@dataclass
class Module:
    """A module of torch, as far as weights are concerned."""

    own: Sequence[Tensor] = ()
    kept: Sequence[Tensor] = ()
    parts: Sequence[Any] = ()

    def parameters(self) -> Iterator[Tensor]:
        """Trained tensors."""
        yield from self.own

    def buffers(self) -> Iterator[Tensor]:
        """Other tensors."""
        yield from self.kept

    def modules(self) -> Iterator[Any]:
        """The module and its parts."""
        yield self
        yield from self.parts


@dataclass
class Block:
    """The labels that blocks have in the end, by tensor."""

    labels: dict[str, dict[LabelLevel, str]] = field(default_factory=dict)

    def label_tensor(self, tensor: Tensor, pairs: Sequence[tuple[str, LabelLevel]]) -> bool:
        """As the real one: labels take the place of those on their levels."""
        self.labels.setdefault(tensor.name, {}).update({level: label for label, level in pairs})
        return True

    def owners(self) -> dict[str, str]:
        """The labels in the order of their levels."""
        return {name: "@".join(labels[level] for level in sorted(labels)) for name, labels in self.labels.items()}


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> Block:
    """Blocks that can be labelled."""
    blocks = Block()
    monkeypatch.setattr(vllm_labels, "label_tensor", blocks.label_tensor)
    return blocks


def test_weights_of_model_drafter_and_adapters(blocks: Block) -> None:
    """A tensor that the drafter shares with the model is the drafter's."""
    shared = Tensor("embedding")
    adapter = SimpleNamespace(lora_a={"q": Tensor("a.q")}, lora_b={"q": Tensor("b.q")})
    stacked = SimpleNamespace(lora_a_stacked=(Tensor("a0"), Tensor("a1")), lora_b_stacked=[Tensor("b0")], lora_a=None)
    runner = SimpleNamespace(
        model=Module([Tensor("weight"), shared], [Tensor("rotary")], [adapter, stacked]),
        drafter=SimpleNamespace(model=Module([Tensor("head"), shared])),
    )
    vllm_labels.label_weights(None, (runner,), {})
    assert blocks.owners() == {
        "weight": "vllm@weights",
        "rotary": "vllm@weights",
        "head": "vllm@weights@drafter",
        "embedding": "vllm@weights@drafter",
        **dict.fromkeys(("a.q", "b.q", "a0", "a1", "b0"), "vllm@weights@lora"),
    }


@pytest.mark.parametrize("runner", [SimpleNamespace(), SimpleNamespace(model=None, drafter=None)])
def test_a_runner_without_model_has_no_weights(blocks: Block, runner: Any) -> None:
    """A drafter may have no model of its own either (n-gram)."""
    vllm_labels.label_weights(None, (runner,), {})
    assert blocks.owners() == {}


class FullAttentionSpec:
    """A name of vLLM."""


class MambaSpec:
    """A name of vLLM."""


class MambaCacheSpec:
    """A name of vLLM: of both words the first counts."""


class HiddenStateCacheSpec:
    """A name of vLLM."""


class EagleHidden_State:  # noqa: N801 - a part of the name is what counts
    """Not a name of today."""


SPECS = {
    "attention": FullAttentionSpec(),
    "mamba": MambaSpec(),
    "mamba cache": MambaCacheSpec(),
    "hidden": HiddenStateCacheSpec(),
    "eagle": EagleHidden_State(),
}

OWNERS = {
    "k": "vllm@kv_cache@attn",
    "v": "vllm@kv_cache@attn",
    "state": "vllm@kv_cache@mamba",
    "conv": "vllm@kv_cache@mamba",
    "last": "vllm@kv_cache@hidden_state",
    "draft": "vllm@kv_cache@hidden_state",
    "other": "vllm@kv_cache",
}


def caches() -> dict[str, Any]:
    """The allocations of a runner: tensors by layer, in all the forms of vLLM."""
    return {
        "attention": (Tensor("k"), Tensor("v")),
        "mamba": [Tensor("state")],
        "mamba cache": {"conv": Tensor("conv")},
        "hidden": Tensor("last"),
        "eagle": Tensor("draft"),
        "unknown": (Tensor("other"), None),
    }


def groups() -> list[SimpleNamespace]:
    """As an older runner keeps them: one group with a kind for all layers, one with a kind for each."""
    each = {name: spec for name, spec in SPECS.items() if name != "attention"}
    return [
        SimpleNamespace(layer_names=["attention"], kv_cache_spec=SPECS["attention"]),
        SimpleNamespace(layer_names=[*each, "unknown"], kv_cache_spec=SimpleNamespace(kv_cache_specs=each)),
    ]


@pytest.mark.parametrize("by_keyword", [False, True])
@pytest.mark.parametrize("where", ["method", "runner", "argument"])
def test_caches_by_kind_of_layer(blocks: Block, where: str, by_keyword: bool) -> None:  # noqa: FBT001
    """Wherever this version of the runner keeps the kinds; a layer without one is cache all the same."""
    config = SimpleNamespace(kv_cache_groups=groups() if where == "argument" else [])
    runner = SimpleNamespace()
    if where == "method":
        runner._get_layer_kv_cache_specs = lambda given: SPECS if given is config else {}
    elif where == "runner":
        runner.kv_cache_config = SimpleNamespace(kv_cache_groups=groups())
    args, kwargs = ((runner,), {"kv_cache_config": config}) if by_keyword else ((runner, config), {})
    vllm_labels.label_kv_cache(caches(), args, kwargs)
    assert blocks.owners() == OWNERS


def test_a_runner_is_not_asked_without_a_configuration(blocks: Block) -> None:
    """Its method reads it; the groups that the runner keeps say the same."""
    runner = SimpleNamespace(
        _get_layer_kv_cache_specs=lambda config: config.no_such_attribute,
        kv_cache_config=SimpleNamespace(kv_cache_groups=groups()),
    )
    vllm_labels.label_kv_cache(caches(), (runner,), {})
    assert blocks.owners() == OWNERS


@pytest.mark.parametrize("result", [None, [], 3])
def test_a_result_that_is_no_cache_is_left_alone(blocks: Block, result: object) -> None:
    """Another version may return something else."""
    vllm_labels.label_kv_cache(result, (SimpleNamespace(),), {})
    assert blocks.owners() == {}


def test_the_runner_is_labelled_when_it_has_loaded(blocks: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the hooks; the runner's own result is returned."""
    with framework_process("vllm_ascend_0_11", monkeypatch) as process:
        init_framework_hooks("vllm_ascend", "0.11.0", "worker", "decompose")
        runner = importlib.import_module("vllm_ascend.worker.model_runner_v1").NPUModelRunner()
        runner.kv_cache_config = SimpleNamespace(kv_cache_groups=groups())
        found = caches()

        def load_model(name: str) -> Any:
            if name == "load_model":
                runner.model = Module([Tensor("weight")])
                return None
            return found

        with listening(load_model):
            assert runner.load_model() is None
            assert runner.initialize_kv_cache_tensors_deepseek_mla(kv_cache_config=None) is found
        assert process.printed == []
    assert blocks.owners() == {"weight": "vllm@weights", **OWNERS}
