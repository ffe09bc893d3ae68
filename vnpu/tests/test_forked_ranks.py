"""Where the ranks of a job stand that is forked from one process."""

from __future__ import annotations

import pytest

from virtual_npu.forked_ranks import devices_of_machine, rank_variables


@pytest.mark.parametrize(
    ("count", "devices", "of_machine"),
    [(2, 8, 8), (8, 8, 8), (20, 8, 20), (32, 8, 32), (33, 8, 8), (64, 16, 16), (64, 64, 32)],
)
def test_a_job_is_on_one_machine_if_torch_npu_takes_so_many_devices(count: int, devices: int, of_machine: int) -> None:
    """It refuses more than 32."""
    assert devices_of_machine(count, devices) == of_machine


def test_every_rank_has_a_device_of_its_machine() -> None:
    """As torchrun numbers them: machine by machine, the last one with what remains."""
    places = [rank_variables(rank, 36, 16) for rank in range(36)]
    assert [int(place["RANK"]) for place in places] == list(range(36))
    assert [int(place["LOCAL_RANK"]) for place in places] == [*range(16), *range(16), *range(4)]
    assert [int(place["GROUP_RANK"]) for place in places] == [0] * 16 + [1] * 16 + [2] * 4
    assert [int(place["LOCAL_WORLD_SIZE"]) for place in places] == [16] * 32 + [4] * 4


def test_one_machine_has_the_ranks_that_there_are() -> None:
    """However many devices it has."""
    assert {rank_variables(rank, 2, 8)["LOCAL_WORLD_SIZE"] for rank in range(2)} == {"2"}
