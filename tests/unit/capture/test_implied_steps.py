"""Whose turns count as steps, of several optimizers or modules that take turns."""

from __future__ import annotations

import weakref

from msmemscope.capture.implied_steps import Leader


class Thing:
    """An optimizer, or the parameter that it is known by."""


def test_one_turn_of_each_round_counts() -> None:
    """Whatever the others do in between; a new one for the same parameter is the same. In the first round all are new."""
    leader, first, other = Leader(), Thing(), Thing()
    keys = Thing(), Thing()
    turns = [leader.is_turn(*each) for each in 3 * [(first, keys[0]), (other, keys[1])]]
    assert turns == [True, False, False, True, False, True]
    anew = Thing()
    assert leader.is_turn(anew, keys[1])
    del other
    assert not leader.is_turn(first, keys[0])


def test_another_takes_over() -> None:
    """Where it runs three times and the leader does not, and at once where that is gone."""
    leader, first, other = Leader(), Thing(), Thing()
    assert leader.is_turn(first, first)
    assert not leader.is_turn(other, other)
    assert [leader.is_turn(first, first) for _ in range(4)] == [False, False, True, True]
    assert not leader.is_turn(other, other)
    del first
    assert leader.is_turn(other, other)


def test_one_that_was_never_seen_takes_over_at_once() -> None:
    """A program tries settings, with an optimizer for each, and keeps them all."""
    leader = Leader()
    kept = [Thing() for _ in range(20)]
    assert all(leader.is_turn(one, one) for one in kept for _ in range(2))
    once = [Thing() for _ in range(20)]
    assert sum(leader.is_turn(one, one) for one in once) == 10


def test_a_parameter_gets_no_weak_reference() -> None:
    """Torch swaps no tensor that has one."""
    leader, optimizer, parameter, another = Leader(), Thing(), Thing(), Thing()
    leader.is_turn(optimizer, parameter)
    leader.is_turn(optimizer, another)
    assert not weakref.getweakrefs(parameter)
    assert not weakref.getweakrefs(another)
