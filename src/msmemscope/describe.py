"""Labels of your own on memory: `with describe.describer(owner="..."):`, and as decorator and on tensors."""

from __future__ import annotations

from msmemscope.capture.describe import describer

__all__ = ["describer"]
