"""Takes the pictures again that tests compare the pages with: python tests/golden/screenshots/take.py."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3]))

from tests.support.pictures import write_png
from tests.support.screenshots import KEPT, NAMES, take

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        for name, picture in take(Path(scratch)):
            if name not in NAMES:
                continue
            (KEPT / f"{name}.png").write_bytes(write_png(picture))
            sys.stdout.write(f"wrote {name}.png\n")
