"""The screen: what it shows in 80 columns and 24 lines, and what its keys do."""

from __future__ import annotations

import asyncio
import importlib.util
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from msmemscope.live.followed_capture import FollowedCapture
from tests.fakes.event_log_builder import CPU, HOST, PTA, RESERVED, STATE_OPEN, STEP, Event, EventLogBuilder

if TYPE_CHECKING:
    from msmemscope.live.screen import LiveApp

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("textual") is None, reason="needs the package textual: pip install 'msmemscope[live]'"
)

HOSTILE = "\x1b[31m[bold]red[/bold] [link=x]\u202e"
MIB = 1 << 20


def running_log(root: Path, process_id: int | None = None) -> EventLogBuilder:
    """A log of this process, with two pools, names that are markup, and steps."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    process_id = process_id or os.getpid()
    log = EventLogBuilder(root, process_id=process_id, state=STATE_OPEN, header_fields={"process_start_ticks": ticks})
    log.fact("argument", "python")
    log.fact("argument", f"train{HOSTILE}.py")
    small = log.python_stack(
        (log.code("/home/me/[red]small.py", "[i]f\x1b", 7), 0), (log.code("/home/me/main.py", "run", 1), 0)
    )
    large = log.python_stack((log.code("/home/me/large.py", "load", 9), 0))
    name = log.string(f"aten.{HOSTILE}")
    for number in range(4):
        for _ in range(5):
            log.malloc(0x1000, 1024, python_stack_id=small, name_id=name)
        block = log.malloc(0x8000, 8 * MIB, python_stack_id=large)
        log.add(STEP, size=number + 1)
        log.free(block, 0x8000, 8 * MIB)
    log.malloc(0x8000, 3 * MIB, python_stack_id=large)
    log.malloc(0x9000, 64, pool=PTA, device=0)
    log.add(RESERVED, size=2 * MIB, pool=PTA, device=0)
    log.write()
    return log


def shown(app: LiveApp) -> str:
    """The letters on the screen."""
    return "\n".join(strip.text.rstrip() for strip in app.screen._compositor.render_strips())


def on_screen(
    roots: list[Path], act: Callable[[Any, LiveApp], Awaitable[None]], size: tuple[int, int] = (80, 24)
) -> LiveApp:
    """Run the screen on captures, and do something with it once it shows the first one."""
    from msmemscope.live.screen import LiveApp

    app = LiveApp([FollowedCapture(root) for root in roots], 0, 0.1)

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await until(pilot, lambda: app._found is not None)
            await act(pilot, app)

    asyncio.run(run())
    assert app.fault is None
    assert app.return_code in {0, None}
    return app


async def until(pilot: Any, holds: Callable[[], bool]) -> None:
    """Wait for what the thread that reads brings."""
    for _ in range(200):
        await pilot.pause(0.02)
        if holds():
            return
    pytest.fail("it never came")


def test_all_of_it_in_80_columns(tmp_path: Path) -> None:
    """Names are shown as text, and what could steer the terminal is not; the keys stand in the last line."""

    async def act(pilot: Any, app: LiveApp) -> None:
        await until(pilot, lambda: "large.py" in shown(app))
        lines = shown(app).splitlines()
        text = "\n".join(lines)
        assert len(lines) == 24
        assert max(map(len, lines)) <= 80
        assert not {"\x1b", "\u202e"} & set(text)
        assert "[bold]red[/bold] [link=x]" in lines[0]
        assert "running" in lines[0]
        assert "4 steps (msmemscope.step())" in lines[1]
        assert "/home/me/[red]small.py(7): [i]f\N{REPLACEMENT CHARACTER}" in text
        assert "aten.\N{REPLACEMENT CHARACTER}[31m[bo" in text
        host = next(line for line in lines if "cpu (HOST)" in line)
        assert host.startswith("> ")
        assert host.split()[3:] == ["3.02", "MiB", "-", "8.02", "MiB", "+5.00", "KiB", "21"]
        assert "2.00 MiB" in next(line for line in lines if "npu:0 (PTA)" in line)
        assert "owners: HOST" in text
        assert lines[-1].startswith("q quit  p pause  s sort: bytes  d next pool")
        assert lines[-1].endswith("? help")

    on_screen([running_log(tmp_path).directory], act)


def test_keys(tmp_path: Path) -> None:
    """Sort, next pool, stack, help, pause, and new events that are shown when it goes on."""
    log = running_log(tmp_path)

    def first_line(app: LiveApp) -> str:
        lines = shown(app).splitlines()
        return lines[next(number for number, line in enumerate(lines) if line.rstrip().endswith("line")) + 1]

    async def act(pilot: Any, app: LiveApp) -> None:
        await until(pilot, lambda: "large.py" in shown(app))
        assert "large.py" in first_line(app)
        await pilot.press("s")
        await until(pilot, lambda: "small.py" in first_line(app))
        assert "s sort: blocks" in shown(app)
        await pilot.press("enter")
        await until(pilot, lambda: "innermost first" in shown(app))
        assert "/home/me/main.py(1): run" in shown(app)
        assert "operator: aten.\N{REPLACEMENT CHARACTER}[31m[bold]red[/bold]" in shown(app)
        await pilot.press("escape", "question_mark")
        await until(pilot, lambda: "the program goes on" in shown(app))
        await pilot.press("escape", "d")
        await until(pilot, lambda: "> npu:0 (PTA)" in shown(app))
        assert "(no call site)" in shown(app)
        await pilot.press("d")
        await until(pilot, lambda: "> cpu (HOST)" in shown(app))
        await pilot.press("p")
        await until(pilot, lambda: "PAUSED" in shown(app))
        log.malloc(0x1000, 1 << 30)
        log.write()
        await pilot.pause(0.5)
        assert "1.00 GiB" not in shown(app)
        await pilot.press("p")
        await until(pilot, lambda: "1.00 GiB" in shown(app))
        assert "PAUSED" not in shown(app)
        await pilot.press("q")

    on_screen([log.directory], act)


def test_the_end_of_the_program(tmp_path: Path) -> None:
    """It is said, with what to type next."""
    log = running_log(tmp_path)

    async def act(pilot: Any, app: LiveApp) -> None:
        log.state = 2
        # As a program writes it: in place, and what is being read is not cut off.
        with (log.log / "process.header").open("r+b") as header:
            header.write(log.contents()["process.header"])
        await until(pilot, lambda: "has ended" in shown(app) and "next: msmemscope report" in shown(app))

    on_screen([log.directory], act)


def test_one_of_several_is_chosen(tmp_path: Path) -> None:
    """With up, down and enter; c asks again."""
    first, second = running_log(tmp_path / "a"), running_log(tmp_path / "b", process_id=7)

    async def act(pilot: Any, app: LiveApp) -> None:
        await until(pilot, lambda: "process 7" in shown(app))
        await pilot.press("down", "enter")
        await until(pilot, lambda: "(process 7)" in shown(app))
        assert "c process" in shown(app)
        await pilot.press("c")
        await until(pilot, lambda: f"process {os.getpid()}" in shown(app))
        await pilot.press("escape")
        await until(pilot, lambda: "(process 7)" in shown(app))

    on_screen([first.directory, second.directory], act)


def test_a_capture_that_goes_away(tmp_path: Path) -> None:
    """One line, and the screen stays."""
    log = running_log(tmp_path)

    async def act(pilot: Any, app: LiveApp) -> None:
        log.directory.rename(tmp_path / "elsewhere")
        await until(pilot, lambda: "holds no event log" in shown(app))
        assert "cpu (HOST)" in shown(app)

    on_screen([log.directory], act)


def test_what_is_read_last_can_come_when_the_screens_are_gone(tmp_path: Path) -> None:
    """The program has ended its screens, and messages that wait are still handed to it."""
    from msmemscope.live.screen import LiveApp

    log = running_log(tmp_path)
    app = LiveApp([FollowedCapture(log.directory)], 0, 0.1)

    async def run() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            await until(pilot, lambda: "cpu (HOST)" in shown(app))
            screens = app.screen_stack
            app._screen_stack.clear()  # as it is while the app closes
            app.on_resize()
            app._screen_stack.extend(screens)

    asyncio.run(run())


def test_a_fault_of_ours_ends_the_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told when the terminal is a terminal again."""
    from msmemscope.live.screen import LiveApp

    log = running_log(tmp_path)
    capture = FollowedCapture(log.directory)
    monkeypatch.setattr(capture, "now", lambda: 1 // 0)
    app = LiveApp([capture], 0, 0.1)

    async def run() -> None:
        async with app.run_test(size=(80, 24)) as pilot:
            await until(pilot, lambda: app.fault is not None)

    asyncio.run(run())
    assert isinstance(app.fault, ZeroDivisionError)


@pytest.mark.parametrize("size", [(40, 10), (200, 60)])
def test_other_sizes(size: tuple[int, int], tmp_path: Path) -> None:
    """Nothing breaks where there is little room, and much room is used."""
    log = running_log(tmp_path)
    log.events[0].append(Event(10**6, 54, size=1 << 40, device=CPU, pool=HOST, name_id=log.string("posix_memalign")))
    log.write()

    async def act(pilot: Any, app: LiveApp) -> None:
        await until(pilot, lambda: "1 attempt to allocate failed" in shown(app))
        assert max(map(len, shown(app).splitlines())) <= size[0]

    on_screen([log.directory], act, size)


def test_without_colour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR: no letter has a colour of its own, what matters is bold or reversed."""
    monkeypatch.setenv("NO_COLOR", "1")
    log = running_log(tmp_path)

    async def act(pilot: Any, app: LiveApp) -> None:
        await until(pilot, lambda: "large.py" in shown(app))
        styles = [
            segment.style for strip in app.screen._compositor.render_strips() for segment in strip if segment.style
        ]
        assert any(style.bold for style in styles)
        colours = {colour.name for style in styles for colour in (style.color, style.bgcolor) if colour is not None}
        assert colours <= {"default"}, colours

    on_screen([log.directory], act)
