"""The model of the caching allocator against the real one of torch.cuda: every block's place, on machines with a CUDA device."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.support.allocator_runs import CUDA_SETTINGS, NAMES, compare, real_run, run_cuda_programs

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="this machine has no CUDA device"),
]
CASES: Final = {
    f"{name}-{settings}": {"program": name, **given, "seed": 7}
    for name in NAMES
    for settings, given in CUDA_SETTINGS.items()
}


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the history and counters of each case."""
    folder = tmp_path_factory.mktemp("histories")
    assert not run_cuda_programs(folder, CASES, in_order=True)
    return folder


@pytest.mark.parametrize("name", NAMES)
def test_every_allocation_as_the_real_allocator(histories: Path, name: str) -> None:
    """Under the settings of the run: the address of each block, and what is reserved."""
    for settings in CUDA_SETTINGS:
        run = real_run(histories, f"{name}-{settings}", CASES[f"{name}-{settings}"])
        if name == "pools" and run.allocations.pool_count == 1:
            pytest.skip("entries of the history of this torch do not name their pool")
        assert run.followed.failure is None, settings
        assert run.allocations.count > 50
        assert run.same_share == 1.0, settings


@pytest.mark.parametrize("name", ["training", "serving", "paged", "appending", "accumulating", "embeddings", "longer"])
def test_other_settings_as_a_real_run(histories: Path, name: str) -> None:
    """Of jobs whose blocks do not have the same sizes, so that addresses, which are the driver's, break few ties."""
    recorded = real_run(histories, f"{name}-default", CASES[f"{name}-default"])
    for settings in CUDA_SETTINGS:
        found = compare(recorded, real_run(histories, f"{name}-{settings}", CASES[f"{name}-{settings}"]))
        assert found.equal == found.compared > 60, settings
