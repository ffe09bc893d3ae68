"""Blocks that are older than the hooks are followed once: tensors of the allocator, and no mapped file."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.targets import environment

pytestmark = pytest.mark.torch

PROGRAM = """
import sys
import tempfile
import torch

class Wrapped(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, arguments=(), keywords=None):
        raise RuntimeError("a method of the program was called")

old = torch.ones(1 << 20)
view = old[5:]
wrapped = torch.ones(1 << 18).as_subclass(Wrapped)
sparse = torch.eye(3).to_sparse()
meta = torch.empty(1 << 20, device="meta")
with tempfile.NamedTemporaryFile() as file:
    mapped = torch.from_file(file.name, shared=True, size=1 << 20)
    import msmemscope
    from msmemscope import _native
    from msmemscope.capture.older_blocks import follow_older_blocks
    from msmemscope.capture.session import session
    from msmemscope.model.devices import DEVICE_CPU
    from msmemscope.model.pools import Pool

    session.writes_results = False
    msmemscope.config(output=sys.argv[1])
    young = torch.ones(1 << 19)
    first = follow_older_blocks()
    bytes_known = _native.live_bytes(Pool.HOST, DEVICE_CPU)
    again = follow_older_blocks()
    del young
    print(first > 1, again, bytes_known >> 20, _native.live_bytes(Pool.HOST, DEVICE_CPU) >> 20)
    msmemscope.start()
    print(follow_older_blocks())
    del old, view
    print(_native.live_bytes(Pool.HOST, DEVICE_CPU) >> 20)
    msmemscope.stop()
"""


def test_older_tensors_are_followed_once(tmp_path: object) -> None:
    """4 MiB, 1 MiB and 2 MiB of a younger one; views are of one storage, and frees are seen."""
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, check=False, env=environment()
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.split("\n")[:3] == ["True 0 7 5", "0", "1"]


def test_settings_that_are_refused_do_not_stay() -> None:
    """Whoever catches the error can start with the defaults, and choose others later."""
    program = (
        "import msmemscope\n"
        "from msmemscope.capture.session import session\n"
        "session.writes_results = False\n"
        "try:\n    msmemscope.config(level='nonsense')\n"
        "except ValueError:\n    print('refused')\n"
        "msmemscope.config(events='alloc,free')\nmsmemscope.stop()\nprint(sorted(one.value for one in session.config.events))\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, env=environment()
    )
    assert (run.returncode, run.stderr, run.stdout) == (0, "", "refused\n['alloc', 'free']\n")
