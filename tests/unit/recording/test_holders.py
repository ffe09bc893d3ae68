"""Which of several chains to a block counts."""

from __future__ import annotations

from msmemscope.model.events import EventKind
from msmemscope.model.holders import HANDLED_EXCEPTION
from msmemscope.recording.holders import block_holders, block_holders_at
from tests.fakes.traces import Trace

OF_ERROR = f"{HANDLED_EXCEPTION} -> forward.before"


def test_a_search_follows_each_failure() -> None:
    """It saw the variables as they were; who asks about the end of the run gets what was found last."""
    trace = Trace()
    cache, batch, late = (trace.malloc(size, f"/app/serve.py({size}): serve") for size in (100, 200, 300))
    trace.holder(cache, "serve.cache[0]")
    trace.holder(batch, "serve.batch")
    failure = trace.add(EventKind.OOM, size=1000)
    trace.holder(cache, "serve.cache[1]")
    trace.holder(cache, OF_ERROR)
    trace.holder(late, OF_ERROR)
    recording = trace.recording()
    assert dict(block_holders(recording).select("malloc_sequence", "held_by").iter_rows()) == {
        cache: OF_ERROR, batch: "serve.batch", late: OF_ERROR
    }  # fmt: skip
    assert dict(block_holders_at(recording, failure).select("malloc_sequence", "held_by").iter_rows()) == {
        cache: "serve.cache[1]", batch: "serve.batch", late: OF_ERROR
    }  # fmt: skip
