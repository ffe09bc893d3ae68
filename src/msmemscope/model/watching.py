"""Words about watched memory that both the observed process and the analysis know."""

from __future__ import annotations

from typing import Final

OPTIMIZERS_FACT: Final = "watch.optimizers"
"""Key of the fact that optimizers are asked for their parameters: logs of earlier versions do not have it."""
TRAINED_FACT: Final = "watch.trained"
"""Key of the facts about watched tensors that an optimizer has: the number of the watch."""
