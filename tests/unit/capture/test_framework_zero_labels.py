"""Which tensors of an optimizer of DeepSpeed's ZeRO are labelled as gradients, on stand-ins of its objects."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from msmemscope.capture.frameworks import zero_labels
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
    monkeypatch.setattr(zero_labels, "label_storages", lambda tensor, _text: found.append(tensor))
    bucket, flat, part, other = Tensor(), Tensor(), Tensor(), Tensor()
    optimizer = SimpleNamespace(
        ipg_buckets={"bfloat16": SimpleNamespace(buffer=[bucket])},
        grad_partitions_flat_buffer=flat,
        averaged_gradients={0: [part], 1: None},
        bit16_groups_flat=[other],
    )
    zero_labels.label_gradients(None, (optimizer,), {})
    assert found == [bucket, flat, part]


def test_a_gradient_is_labelled_where_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hooked method is called as before, and gives what it gave."""
    found: list[object] = []
    monkeypatch.setattr(
        zero_labels, "label_storages", lambda tensor, text: found.append(tensor) if text == GRADIENT_TEXT else None
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
