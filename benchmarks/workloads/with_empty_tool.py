"""Runs `with_empty_tool.py WORD...` with a tool preloaded that does nothing with what torch_npu reports of its pools."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path


def main() -> None:
    """Compile the tool, and become the command."""
    library = Path(tempfile.mkdtemp(dir=Path.cwd())) / "libascend_kernel_hook.so"
    source = Path(__file__).with_name("empty_mstx_tool.cpp")
    subprocess.run(["c++", "-std=c++17", "-O2", "-fPIC", "-shared", "-o", library, source], check=True)
    before = os.environ.get("LD_PRELOAD", "")
    os.environ["LD_PRELOAD"] = ":".join(filter(None, [before, str(library)]))
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606 - the command is ours


if __name__ == "__main__":
    main()
