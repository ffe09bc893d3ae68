"""Sentences about watched memory: one per change that is not legitimate, and how much was looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msmemscope.model.events import device_name
from msmemscope.units import format_bytes, format_count

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST_RANGES: Final = 4
"""Ranges of bytes that a sentence lists."""
_COVERAGE: Final = "watch.coverage"
"""The fact that says how much automatic watching has looked at."""


def short_operator(name: str) -> str:
    """Returns how people are told of an operator."""
    return name.removeprefix("torch._ops.")


def change_sentence(change: Mapping[str, Any]) -> str:
    """Say what happened.

    Args:
        change: The columns of `watch_verdict.WATCH_CHANGE_SCHEMA`, without its sentence.
    """
    where = _bytes_text(change)
    called = _called(change["operator"], change["call"])
    if change["when"] == "between":
        what = _between(change, called)
    elif change["is_beside"]:
        what = f"was written by {called} beside what that may write, such as in its padding"
    elif change["verdict"] == "unknown":
        what = f"changed during {called}, of which it is not known what it may write"
    elif not change["is_exact"]:
        since = _called(change["previous"], change["previous_call"])
        what = f"changed at some time from {since} on, and was found changed during {called}"
    else:
        what = f"changed during {called}, which does not list it among its outputs"
    return f"{_subject(change)} {what}: {where}{_neighbour(change)}{_concurrent(change)}"


def _between(change: Mapping[str, Any], called: str) -> str:
    previous = _called(change["previous"], change["previous_call"])
    if not change["is_exact"]:
        return f"changed at some time from {previous} on, and was found changed before {called}"
    if change["previous"] is None:
        return f"changed outside of any operator, before {called}"
    if change["operator"] is None:
        return f"changed outside of any operator, after {previous}"
    kind = "kernel" if change["source"] == "kernel" else "operator"
    return f"changed outside of any {kind}, between {previous} and {called}"


def _called(operator: str | None, call: int | None) -> str:
    if operator is None:
        return "an unknown operator"
    return short_operator(operator) if call is None else f"{short_operator(operator)} (call {call})"


def _subject(change: Mapping[str, Any]) -> str:
    size = f"{format_bytes(change['size'])} on {device_name(change['device'])}"
    if change["watch"] == "tensor":
        return f"tensor `{change['name']}` ({size})"
    if change["watch"] == "window":
        return f"output {change['output'] or 0} of {short_operator(change['name'])} ({size})"
    if change["watch"] == "address":
        return f"memory `{change['name']}` ({size})"
    return _block("block", change["block_operator"], change["block_site"], f"{size}, {change['address']:#x}")


def _block(noun: str, operator: str | None, site: str | None, size: str) -> str:
    by = f" of {short_operator(operator)}" if operator else ""
    # Without its folders, which fill lines; the columns have them.
    at = f", allocated at {site.rpartition('/')[2]}" if site else ""
    return f"{noun}{by} ({size}{at})"


def _bytes_text(change: Mapping[str, Any]) -> str:
    pieces = (change["ranges"] or f"{change['first']}-{change['last']}").split(",")
    shown = [piece.replace("-", "..") for piece in pieces[:_MOST_RANGES] if piece != "..."]
    more = f" and more, up to {change['last']}" if len(pieces) > len(shown) else ""
    coarse = f" (known to {format_bytes(change['granularity'])})" if (change["granularity"] or 1) > 1 else ""
    return f"bytes {', '.join(shown)}{more}{coarse}"


def _neighbour(change: Mapping[str, Any]) -> str:
    if change["neighbour_address"] is None or change["is_beside"] or not change["neighbour_is_written"]:
        return ""
    size = f"{format_bytes(change['neighbour_size'] or 0)}, {change['neighbour_address']:#x}"
    block = _block("block", change["neighbour_operator"], change["neighbour_site"], size)
    return f"; likely it ran over the end of what it writes, the {block} right before"


def _concurrent(change: Mapping[str, Any]) -> str:
    count = change["concurrent"]
    if not count:
        return ""
    return f"; {format_count(count)} other {'operator' if count == 1 else 'operators'} ran at that time"


def coverage_sentences(facts: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Say how much automatic watching has looked at.

    Args:
        facts: Those of a capture.

    Returns:
        Nothing if memory was not watched automatically.
    """
    settings = facts.get("setting.watch", ())
    was_automatic = any(setting.split(",")[0] == "auto" for setting in settings)
    if _COVERAGE not in facts:
        if not was_automatic:
            return ()
        return ("Automatic watching: how much it looked at is not known, no operator ran or the process was ended.",)
    figures = {key: int(value) for key, _, value in (part.partition("=") for part in facts[_COVERAGE][-1].split(","))}
    operators, whole = figures["operators"], figures["operators_with_all_blocks"]
    looked = f"{format_bytes(figures['bytes'])} in all, at most {format_bytes(figures['most_bytes_at_once'])} at once"
    if operators == whole:
        each = f"before each of {format_count(operators)} operators"
        return (f"Automatic watching: all live blocks were looked at {each} ({looked}).",)
    rounds = f"{format_count(figures['rounds'])} times in full"
    sentence = (
        f"Automatic watching: all live blocks were looked at before {format_count(whole)} of "
        f"{format_count(operators)} operators ({looked}); before the others blocks took turns, {rounds}, so that a "
        f"change can be found some operators later. A larger --watch-budget (now {format_bytes(figures['budget'])}) "
        "looks at more."
    )
    return (sentence,)
