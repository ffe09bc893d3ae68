"""Whose turns count as steps, of several optimizers or modules that take turns."""

from __future__ import annotations

import weakref

from msmemscope.capture.implied_steps import Leader


class Thing:
    """An optimizer, or the parameter that it is known by."""


def test_turns_are_those_of_the_first() -> None:
    """Whatever the other does in between; a new one for the same parameter is the same."""
    leader, first, other = Leader(), Thing(), Thing()
    keys = Thing(), Thing()
    turns = [leader.is_turn(*each) for each in 3 * [(first, keys[0]), (other, keys[1])]]
    assert turns == [True, False] * 3
    anew = Thing()
    assert leader.is_turn(anew, keys[0])
    del first
    assert not leader.is_turn(other, keys[1])


def test_another_takes_over() -> None:
    """Where it runs three times and the first does not, and at once where the first is gone."""
    leader, first, other, third = Leader(), Thing(), Thing(), Thing()
    assert leader.is_turn(first, first)
    assert [leader.is_turn(other, other) for _ in range(4)] == [False, False, True, True]
    assert not leader.is_turn(first, first)
    del other
    assert leader.is_turn(third, third)


def test_a_parameter_gets_no_weak_reference() -> None:
    """Torch swaps no tensor that has one."""
    leader, optimizer, parameter, another = Leader(), Thing(), Thing(), Thing()
    leader.is_turn(optimizer, parameter)
    leader.is_turn(optimizer, another)
    assert not weakref.getweakrefs(parameter)
    assert not weakref.getweakrefs(another)
