"""All first screens that are kept."""

from __future__ import annotations

from typing import Final

from tests.first_screens.of_front import FRONT
from tests.first_screens.of_more import MORE
from tests.first_screens.of_reports import REPORTS
from tests.first_screens.screen import Screen

SCREENS: Final[tuple[Screen, ...]] = (*FRONT, *REPORTS, *MORE)
