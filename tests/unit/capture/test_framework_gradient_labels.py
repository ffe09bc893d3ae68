"""Which tensors of DeepSpeed's ZeRO and of `fully_shard` are labelled as gradients, on stand-ins of their objects."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from msmemscope.capture.frameworks import gradient_labels
from msmemscope.capture.frameworks.places import Place
from msmemscope.capture.frameworks.targets import Callback, Target
from msmemscope.capture.module_labels import GRADIENT_TEXT


class Tensor:
    """Something that is taken for a tensor."""

    def data_ptr(self) -> int:
        """As tensors have it."""
        return 0


def test_buckets_and_sums_are_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of both kinds of optimizers; what is none of them is left alone."""
    found: list[object] = []
    monkeypatch.setattr(gradient_labels, "label_storages", lambda tensor, _text: found.append(tensor))
    bucket, flat, part, other = Tensor(), Tensor(), Tensor(), Tensor()
    optimizer = SimpleNamespace(
        ipg_buckets={"bfloat16": SimpleNamespace(buffer=[bucket])},
        grad_partitions_flat_buffer=flat,
        averaged_gradients={0: [part], 1: None},
        bit16_groups_flat=[other],
    )
    gradient_labels.label_gradients_of_zero(None, (optimizer,), {})
    assert found == [bucket, flat, part]


def test_a_gradient_is_labelled_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hooked method is called as before, and gives what it gave."""
    found: list[object] = []
    monkeypatch.setattr(
        gradient_labels, "label_storages", lambda tensor, text: found.append(tensor) if text == GRADIENT_TEXT else None
    )
    gradient, sum_of_them = Tensor(), Tensor()

    class Parameter:
        grad = gradient

    class Optimizer:
        def get_gradient_for_reduction(self, parameter: Parameter) -> object:
            return parameter.grad

    parameter = Parameter()
    vars(parameter)["grad_accum"] = sum_of_them
    target = Target(("module",), "Optimizer", "get_gradient_for_reduction", callback=Callback.ZERO_GRADIENT)
    place = Place(Optimizer, "get_gradient_for_reduction")
    place.claim("test", target, "module")
    assert Optimizer().get_gradient_for_reduction(parameter) is gradient
    assert found == [gradient, gradient, sum_of_them]
    assert place.release("test")
    assert Optimizer().get_gradient_for_reduction(parameter) is gradient
    assert len(found) == 3


def test_gradients_that_wait_for_their_exchange(monkeypatch: pytest.MonkeyPatch) -> None:
    """Summed up in the type of the exchange, or as the whole parameter has them; a parameter that was not gathered has none."""
    found: list[object] = []
    monkeypatch.setattr(
        gradient_labels, "label_storages", lambda tensor, text: found.append(tensor) if text == GRADIENT_TEXT else None
    )
    summed, own = Tensor(), Tensor()
    group = SimpleNamespace(
        fsdp_params=[
            SimpleNamespace(unsharded_accumulated_grad=summed, _unsharded_param=SimpleNamespace(grad=None)),
            SimpleNamespace(unsharded_accumulated_grad=None, _unsharded_param=SimpleNamespace(grad=own)),
            SimpleNamespace(unsharded_accumulated_grad=None),
        ]
    )
    gradient_labels.label_sharded_gradients(None, (group,), {})
    assert found == [summed, own]
