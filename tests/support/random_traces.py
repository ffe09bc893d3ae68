"""Random recordings for tests of properties: blocks of several pools, operators, steps, ranges and marks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from msmemscope.model.devices import DEVICE_CPU, DeviceKind, device_number
from msmemscope.model.events import EventKind
from msmemscope.model.pools import Pool
from tests.fakes.traces import Trace

if TYPE_CHECKING:
    from msmemscope.recording import Recording

PLACES = [
    (Pool.PTA, 0), (Pool.PTA, 1), (Pool.CUDA, device_number(DeviceKind.CUDA, 0)), (Pool.HAL, 0), (Pool.HOST, DEVICE_CPU),
]  # fmt: skip
NAMES = ["aten.mm", "forward", 'a"b;c\n\\ <b>', "=1+1", "层"]
SITES = [
    "",
    "/home/me/train.py(3): load",
    "/home/me/model.py(9): forward\n/home/me/train.py(5): <module>",
    "odd frame;x",
]
NATIVES = ["", "/lib/libx.so(take+0x1) [0xabc]"]

actions = st.lists(
    st.tuples(
        st.sampled_from(["malloc", "malloc", "free", "operator", "step", "range", "mark", "reserved", "back"]),
        st.integers(0, 40),
        st.sampled_from(PLACES),
        st.sampled_from(NAMES),
        st.sampled_from(SITES),
    ),
    max_size=50,
)


def trace_of(run: list[tuple[str, int, tuple[Pool, int], str, str]]) -> Trace:
    """Returns the events of a random run."""
    trace = Trace()
    alive: list[int] = []
    for action, number, (pool, device), name, site in run:
        if action == "malloc":
            fields: dict[str, Any] = {"pool": pool, "device": device, "thread_id": 100 + number % 2}
            native = NATIVES[number % 2]
            alive.append(
                trace.malloc(512 + number * 300, site, operator=name * (number % 3 > 0), native=native, **fields)
            )
        elif action == "free" and alive:
            trace.free(alive.pop(number % len(alive)))
        elif action == "operator":
            for kind in (EventKind.ATEN_START, EventKind.ATEN_END)[: 1 + number % 2]:
                trace.add(kind, name_id=trace.text(name), device=device, thread_id=100 + number % 3)
        elif action == "step":
            trace.step(device=device)
        elif action == "range":
            opened = trace.begin_range(name)
            if number % 2:
                trace.mark(name)
                trace.end_range(opened)
        elif action == "mark":
            trace.mark(name, thread_id=100 + number)
        elif action == "reserved":
            trace.add(EventKind.RESERVED, size=number << 20, pool=int(pool), device=device)
        elif action == "back" and trace.rows:
            # Clocks of threads can be read in another order than the numbers of events are drawn.
            trace.rows[-1]["timestamp_ns"] -= 5_000_000
    return trace


recordings: st.SearchStrategy[Recording] = actions.map(lambda run: trace_of(run).recording())
