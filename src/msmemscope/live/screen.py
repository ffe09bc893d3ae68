"""The screen of `msmemscope live`: it shows a `FollowedCapture` once a second, and has keys to look around.

All texts are set without markup: names come from the observed program.
"""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import DataTable, OptionList, Static

from msmemscope.errors import EventLogError
from msmemscope.live.screen_text import KEYS, SORTS, ScreenText, capture_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from msmemscope.live.followed_capture import FollowedCapture
    from msmemscope.live.snapshot import ProcessNow, SiteInUse


class Updated(Message):
    """There is something new to show."""

    def __init__(self, found: ProcessNow) -> None:
        self.found = found
        super().__init__()


class Unreadable(Message):
    """The capture cannot be read any more."""

    def __init__(self, error: EventLogError) -> None:
        self.error = error
        super().__init__()


class TextScreen(ModalScreen[None]):
    """A text over the screen, until a key closes it.

    Args:
        heading: The first line.
        lines: The lines below it.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter,question_mark", "dismiss", "close")]

    def __init__(self, heading: str, lines: Sequence[str]) -> None:
        self._text = Text(heading, "bold").append("\n\n").append(Text("\n".join(lines)))
        super().__init__()

    def compose(self) -> ComposeResult:
        """Make the widgets."""
        with VerticalScroll(classes="over"):
            yield Static(self._text, markup=False)


class ChoiceScreen(ModalScreen[int]):
    """Lets one of several processes be chosen.

    Args:
        lines: One per process.
        chosen: The one that is shown now.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss", "close")]

    def __init__(self, lines: Sequence[str], chosen: int) -> None:
        self._lines = lines
        self._chosen = chosen
        super().__init__()

    def compose(self) -> ComposeResult:
        """Make the widgets."""
        choices = OptionList(*(Text(line) for line in self._lines), classes="over", markup=False)
        choices.highlighted = self._chosen
        yield choices

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Return which was chosen."""
        self.dismiss(event.option_index)


class LiveApp(App[None]):
    """Follows one process at a time.

    Args:
        captures: Of the processes that can be chosen.
        chosen: Which is shown first.
        interval_s: Seconds between two looks.
    """

    ENABLE_COMMAND_PALETTE = False
    # Colours are those of the terminal, light or dark; important text is bold or reversed, which needs none.
    CSS = """
    Screen { background: ansi_default; color: ansi_default; }
    Static { height: auto; }
    #heading, #keys { text-style: bold; height: 1; }
    #remarks { max-height: 4; }
    #pools { max-height: 7; }
    #sites { height: 1fr; background: ansi_default; color: ansi_default; }
    #sites > .datatable--header { background: ansi_default; color: ansi_default; text-style: bold; }
    #sites > .datatable--cursor { background: ansi_default; color: ansi_default; text-style: reverse; }
    #sites > .datatable--hover { background: ansi_default; }
    TextScreen, ChoiceScreen { align: center middle; }
    .over { width: 90%; height: auto; max-height: 90%; border: solid ansi_default; padding: 0 1;
            background: ansi_default; color: ansi_default; }
    OptionList > .option-list--option-highlighted { background: ansi_default; color: ansi_default; text-style: reverse; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q,ctrl+c", "quit", "quit", priority=False),
        Binding("p", "pause", "pause"),
        Binding("s", "sort", "sort"),
        Binding("d", "next_pool", "next pool"),
        Binding("c", "choose", "choose process"),
        Binding("question_mark", "help", "help"),
    ]

    def __init__(self, captures: Sequence[FollowedCapture], chosen: int, interval_s: float) -> None:
        super().__init__(ansi_color=True)
        self._captures = captures
        self._chosen = chosen
        self._interval_s = interval_s
        self._is_paused = False
        self._sort = 0
        self._pool_name = ""
        self._found: ProcessNow | None = None
        self._shown_sites: list[SiteInUse] = []
        self._unreadable = ""
        self._wake = threading.Event()
        self._is_ending = False
        self.fault: BaseException | None = None
        """An error in reading the capture that nobody foresaw."""

    def compose(self) -> ComposeResult:
        """Make the widgets, from top to bottom."""
        for name in ("heading", "progress", "host", "remarks", "pools", "history", "owners"):
            yield Static(id=name, markup=False)
        yield DataTable(id="sites", cursor_type="row", zebra_stripes=False)
        yield Static(id="keys", markup=False)

    def on_mount(self) -> None:
        """Begin to read."""
        self._table().focus()
        self.run_worker(self._follow, thread=True, exit_on_error=False)
        self._show()
        if len(self._captures) > 1:
            self.action_choose()

    def on_unmount(self) -> None:
        """Stop reading."""
        self._is_ending = True
        self._wake.set()

    def on_resize(self) -> None:
        """Lay out again."""
        self._show()

    def on_updated(self, message: Updated) -> None:
        """Show what is new."""
        self._found = message.found
        self._show()

    def on_unreadable(self, message: Unreadable) -> None:
        """Say that nothing more will come."""
        self._unreadable = message.error.message
        self._show()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Show the stack of a call site."""
        if event.cursor_row < len(self._shown_sites):
            site = self._shown_sites[event.cursor_row]
            self.push_screen(TextScreen(*ScreenText.stack(site)))

    def action_pause(self) -> None:
        """Show nothing new until it is asked for again; reading goes on, so that nothing is missed."""
        self._is_paused = not self._is_paused
        self._show()
        self._wake.set()

    def action_sort(self) -> None:
        """Order call sites by something else."""
        self._sort = (self._sort + 1) % len(SORTS)
        self._show()

    def action_next_pool(self) -> None:
        """Show the next pool."""
        names = [pool.name for pool in self._found.pools] if self._found else []
        if names:
            place = names.index(self._pool_name) if self._pool_name in names else 0
            self._pool_name = names[(place + 1) % len(names)]
            self._show()

    def action_choose(self) -> None:
        """Let another process be chosen."""
        lines = [capture_line(capture) for capture in self._captures]
        self.push_screen(ChoiceScreen(lines, self._chosen), self._choose)

    def action_help(self) -> None:
        """Say what the keys do."""
        self.push_screen(TextScreen("Keys", [f"{key:<6} {text}" for key, text in KEYS]))

    def _choose(self, chosen: int | None) -> None:
        if chosen is not None and chosen != self._chosen:
            self._chosen = chosen
            self._found, self._unreadable, self._pool_name = None, "", ""
            self._show()
            self._wake.set()

    def _follow(self) -> None:
        """Read on, in a thread of its own, until the end."""
        try:
            while not self._is_ending:
                chosen = self._chosen
                capture = self._captures[chosen]
                with contextlib.suppress(_ChosenAnotherError):
                    self._look(capture, chosen)
                # Where more is there than was read, it is read at once.
                self._wake.wait(0.0 if capture.is_behind else self._interval_s)
                self._wake.clear()
        except Exception as error:  # noqa: BLE001 - told once the terminal is a terminal again
            self.fault = error
            self.call_from_thread(self.exit)

    def _look(self, capture: FollowedCapture, chosen: int) -> None:
        try:
            capture.refresh(self._interval_s)
            if not self._is_paused:
                found = capture.now()
                if chosen != self._chosen:
                    raise _ChosenAnotherError
                self.post_message(Updated(found))
        except EventLogError as error:
            self.post_message(Unreadable(error))

    def _table(self) -> DataTable[Text]:
        return self.query_one("#sites", DataTable)

    def _show(self) -> None:
        """Set all texts."""
        # The last piece read may come when the screens are gone, or what is on them.
        if not self.is_mounted or not self.screen_stack or not self.screen_stack[0].query("#heading"):
            return
        text = ScreenText(self._found, self.size.width, self._pool_name)
        several = len(self._captures) > 1
        lines = {
            "heading": text.heading(),
            "progress": text.progress(),
            "host": text.host(),
            "remarks": text.remarks(self._unreadable),
            "pools": text.pools(),
            "history": text.history(),
            "owners": text.owners(),
            "keys": text.keys(sort=SORTS[self._sort].word, is_paused=self._is_paused, has_several=several),
        }
        for name, content in lines.items():
            line = self.screen_stack[0].query_one(f"#{name}", Static)
            line.update(content)
            line.display = bool(content)
        self._show_sites(text)

    def _show_sites(self, text: ScreenText) -> None:
        table: DataTable[Text] = self.screen_stack[0].query_one("#sites", DataTable)
        row = table.cursor_row
        self._shown_sites = text.sites(SORTS[self._sort])
        table.clear(columns=True)
        for heading in text.site_headings():
            table.add_column(heading)
        for site in self._shown_sites:
            table.add_row(*text.site_cells(site))
        if self._shown_sites:
            table.move_cursor(row=min(row, len(self._shown_sites) - 1), animate=False)


class _ChosenAnotherError(Exception):
    """Another process was chosen meanwhile: this is about the one before."""
