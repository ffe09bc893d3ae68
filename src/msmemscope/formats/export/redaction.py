"""Recordings without names, so that they can be given to others: tokens replace the names that a program gives.

A name has one token, and a token one name. So everything that is grouped, counted or summed up by names has the same
numbers as before. Names that come from PyTorch, Python, the vendors or msmemscope itself stay.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import secrets
from typing import TYPE_CHECKING, Final

import polars as pl

from msmemscope.analysis.owners.decomposition import owned_blocks
from msmemscope.formats.event_log.definitions import UNKNOWN_TEXT
from msmemscope.model.attributes import ATTRIBUTES, AttributeKey, AttributeType
from msmemscope.model.devices import KIND_NAMES
from msmemscope.model.events import OOM_SNAPSHOT_AFTER_NAME, OOM_SNAPSHOT_NAME
from msmemscope.model.owners import PROGRAM_MODULE, SEPARATOR, UNKNOWN_MODULE
from msmemscope.model.pools import POOL_WORDS
from msmemscope.recording.call_sites import is_library_frame
from msmemscope.recording.recording import STEP_RANGE_NAME
from msmemscope.recording.schema import has_attributes
from msmemscope.recording.source_lines import foreign_part, is_library_file, stack_frames

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from msmemscope.formats.dump.recorded_events import RecordedEvents
    from msmemscope.recording import Recording

_TOKEN_BYTES: Final = 6
_OUR_TEXTS: Final = frozenset({"", STEP_RANGE_NAME, OOM_SNAPSHOT_NAME, OOM_SNAPSHOT_AFTER_NAME, UNKNOWN_TEXT})
"""Names of events that mean something to us."""
_OPERATOR: Final = re.compile(
    r"(?:torch\._ops\.)?(?:aten|prim|prims|npu|c10d|_c10d_functional|quantized|profiler)(?:\.|::)\w+(?:[.:]\w+)*"
)
_LABELS: Final = re.compile(r"[1-7][^\n]*(?:\n[1-7][^\n]*)*")
"""A set of labels as it is recorded, see `model.labels`."""
_RUNTIMES: Final = frozenset(names.runtime for names in KIND_NAMES.values())
_DRIVER_MODULE: Final = re.compile(r"[A-Z0-9_]{1,32}")
_OWNER_WORDS: Final = frozenset(
    {
        *POOL_WORDS.values(), *_RUNTIMES, UNKNOWN_MODULE, PROGRAM_MODULE, "HOST", "pinned", "model", "weight", "gradient",
        "optimizer_state", "activation", "kv_cache", "program", "ops", "aten", "atb", "workspace",
    }
)  # fmt: skip
_PLAIN_FUNCTIONS: Final = frozenset({"<module>", "<lambda>", "<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>"})
_TORCH_FILE: Final = re.compile(r"/(?:site|dist)-packages/(?:torch|torch_npu|functorch)/.*")
_FOLDER_OF_USER: Final = re.compile(r"/torchinductor_[^/]+/")
_NATIVE: Final = re.compile(
    r"(?P<module>[^(]*)\((?P<symbol>.*?)(?P<offset>\+0x[0-9a-f]+)?\)(?: \[0x[0-9a-f]+\])?(?: [^\s()]+:\d+)?"
)
"""`module(symbol+0xoff) [0xaddr] file:line`; the first two tell the others."""
_LIBRARY: Final = re.compile(
    r"lib(?:c10(?:_cuda|_npu)?|torch(?:_cpu|_cuda|_python|_npu|_global_deps)?|python3\.\d+t?|stdc\+\+|gcc_s|c|m|dl|pthread"
    r"|ascendcl|ascend_hal|runtime|opapi|nnopbase|hccl|atb"
    r"|cuda|cudart|nccl|nvshmem_host|cublas(?:Lt)?|cudnn\w*|cufft|curand|cusolver|cusparse|nvjpeg)\.so[.\d]*"
)
"""Libraries that are the same everywhere, so that their symbols say nothing of a program."""
_KEPT_ATTRIBUTES: Final = frozenset(
    {
        AttributeKey.PAGE_TYPE, AttributeKey.ALLOCATION_KIND, AttributeKey.DTYPE, AttributeKey.FORMAT,
        AttributeKey.SHAPE, AttributeKey.POOL_ID, AttributeKey.STEP_SOURCE, AttributeKey.WHEN, AttributeKey.REASON,
    }
)  # fmt: skip
"""Texts that the vendors, PyTorch and we choose."""
_NAMES_OF_TEXTS: Final = [
    attribute
    for attribute in ATTRIBUTES
    if attribute.type is AttributeType.TEXT and attribute.key not in _KEPT_ATTRIBUTES
]
NAMING_SETTINGS: Final = frozenset({"output", "launch_directory", "package", "native_directory", "role", "watch"})
"""Settings whose values are names."""
_KEPT_FACTS: Final = re.compile(
    r"setting\.\w+|steps\.\w+|events\.from|process\.(?!node|role)[\w.]+|python_trace\.device"
)
_FACTS_WITHOUT_TEXT: Final = re.compile(r"(?:un)?observed\.\w+")


class Redaction:
    """Gives names their tokens.

    Args:
        key: The same key gives the same name the same token, in every recording; without one, tokens are those of this
            redaction alone. Whoever knows the key can try out names.
    """

    def __init__(self, key: str | None = None) -> None:
        self._key = hashlib.blake2b(key.encode(), digest_size=32).digest() if key else secrets.token_bytes(32)
        self._lines: dict[str, str] = {}

    def token(self, kind: str, text: str) -> str:
        """Return what stands for a text: the kind and twelve hexadecimal digits."""
        digest = hashlib.blake2b(text.encode(errors="surrogatepass"), key=self._key, digest_size=_TOKEN_BYTES)
        return f"{kind}_{digest.hexdigest()}"

    def name(self, text: str) -> str:
        """Redact the name of an event, or a set of labels."""
        if text.strip('"') in _OUR_TEXTS or _OPERATOR.fullmatch(text):
            return text
        if _LABELS.fullmatch(text):
            return "\n".join(line[0] + self.owner(line[1:]) for line in text.split("\n"))
        return self.token("name", text)

    def owner(self, text: str) -> str:
        """Redact an owner, part by part: those of a program are its own words."""
        parts = text.split(SEPARATOR)
        is_driver = parts[0] in _RUNTIMES
        return SEPARATOR.join(
            self._driver_module(part) if is_driver and place == 1 else self._owner_part(part)
            for place, part in enumerate(parts)
        )

    def _driver_module(self, text: str) -> str:
        is_of_vendor = _DRIVER_MODULE.fullmatch(text) or _LIBRARY.fullmatch(text)
        return text if is_of_vendor else self.token("library", text)

    def _owner_part(self, part: str) -> str:
        if part in _OWNER_WORDS:
            return part
        if part.startswith("(") and part.endswith(")"):
            return f"({self.token('module', part)})"
        return self.token("owner", part)

    def python_stack(self, text: str) -> str:
        """Redact a Python stack: lines stay, files and functions of the program do not."""
        return self._each_line(text, self._python_line)

    def native_stack(self, text: str) -> str:
        """Redact a native stack; what stays of a library is that it is one."""
        return self._each_line(text, self._native_line)

    def _each_line(self, text: str, redact: Callable[[str], str]) -> str:
        lines = []
        for line in text.splitlines():
            key = f"{redact.__name__}{line}"
            if key not in self._lines:
                self._lines[key] = redact(line)
            lines.append(self._lines[key])
        return "\n".join(lines) + "\n" * text.endswith("\n")

    def _python_line(self, line: str) -> str:
        frames = stack_frames(line)
        if not frames:
            return self.token("frame", line)
        (frame,) = frames
        torch = _TORCH_FILE.search(frame.file)
        if torch is not None:
            return f"{torch[0]}({frame.line}): {frame.function}"
        function = frame.function if frame.function in _PLAIN_FUNCTIONS else self.token("function", frame.function)
        installed = "/site-packages/" if is_library_file(frame.file) else "/"
        folder = _FOLDER_OF_USER.sub("/torchinductor_user/", foreign_part(frame.file) or installed)
        return f"{folder}{self.token('file', frame.file)}.py({frame.line}): {function}"

    def _native_line(self, line: str) -> str:
        match = _NATIVE.fullmatch(line)
        module, symbol = (match["module"], match["symbol"]) if match else ("", line)
        offset = (match["offset"] or "") if match else ""
        base = module.rpartition("/")[2]
        if not is_library_frame(line):
            return f"{self.token('module', module)}({self.token('symbol', symbol)}{offset})"
        if _LIBRARY.fullmatch(base):
            return f"{base}({symbol}{offset})"
        return f"at::{self.token('library', f'{module}({symbol}')}{offset}"

    def facts(self, facts: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """Keep the facts of a recording about itself that are settings and numbers."""
        kept = {key: values for key, values in facts.items() if _KEPT_FACTS.fullmatch(key)}
        for setting in NAMING_SETTINGS:
            kept.pop(f"setting.{setting}", None)
        kept.update((key, ("",) * len(values)) for key, values in facts.items() if _FACTS_WITHOUT_TEXT.fullmatch(key))
        return kept

    def attributes(self, table: pl.DataFrame) -> pl.DataFrame:
        """Redact a table of ATTRIBUTE_SCHEMA."""
        return table.with_columns(
            mapped(table[attribute.column], self._change_of(attribute.key)).alias(attribute.column)
            for attribute in _NAMES_OF_TEXTS
        )

    def pairs(self, table: pl.DataFrame) -> pl.DataFrame:
        """Redact a table of `formats.attributes.PAIR_SCHEMA`; a key that is none of ours is a name too."""
        keys = [int(attribute.key) for attribute in _NAMES_OF_TEXTS]
        is_name = pl.col("key").is_in([*keys, 0])
        is_module = pl.col("key") == int(AttributeKey.MODULE)
        return table.with_columns(
            text=pl.when(is_module)
            .then(mapped(table["text"], self._driver_module))
            .when(is_name)
            .then(mapped(table["text"], self.name))
            .otherwise("text"),
            other=mapped(table["other"], lambda text: self.token("key", text)),
        )

    def _change_of(self, key: AttributeKey) -> Callable[[str], str]:
        return self._driver_module if key == AttributeKey.MODULE else self.name

    def owners(self, table: pl.DataFrame) -> pl.DataFrame:
        """Redact the column `owner`."""
        return table.with_columns(mapped(table["owner"].cast(pl.String), self.owner).alias("owner"))


def mapped(texts: pl.Series, change: Callable[[str], str]) -> pl.Series:
    """Return texts, each different one changed once; null stays null."""
    different = texts.unique().drop_nulls().to_list()
    changed = dict(zip(different, map(change, different), strict=True))
    return texts.replace_strict(changed, default=None, return_dtype=pl.String) if changed else texts


def redacted_recording(recording: Recording, redaction: Redaction) -> Recording:
    """Return a recording with tokens in the place of names. Its owners are found before: labels tell them."""
    owned, _ = owned_blocks(recording)
    blocks = redaction.owners(owned).with_columns(mapped(owned["name"], redaction.name).alias("name"))
    # Texts of attributes are in the table of attributes, which has them with types.
    of_attributes = recording.events.filter(has_attributes())["attribute_id"].unique()
    named = recording.events["name_id"].unique()
    is_attribute = pl.col("id").is_in(of_attributes.implode()) & ~pl.col("id").is_in(named.implode())
    strings = recording.strings.filter(~is_attribute)
    return dataclasses.replace(
        recording,
        source=redaction.token("recording", recording.source),
        blocks=blocks,
        strings=strings.with_columns(mapped(strings["text"], redaction.name).alias("text")),
        python_stacks=_stacks(recording.python_stacks, redaction.python_stack),
        native_stacks=_stacks(recording.native_stacks, redaction.native_stack),
        attributes=redaction.attributes(recording.attributes),
        facts=redaction.facts(recording.facts),
        problems=(),
    )


def _stacks(stacks: pl.DataFrame, change: Callable[[str], str]) -> pl.DataFrame:
    return stacks.with_columns(mapped(stacks["text"], change).alias("text"))


class RedactedEvents:
    """The source of dump files, as `RecordedEvents`, with tokens in the place of names.

    Args:
        events: With names.
        redaction: Gives tokens.
    """

    def __init__(self, events: RecordedEvents, redaction: Redaction) -> None:
        self._events = events
        self._redaction = redaction
        # Of numbers alone.
        self.directory = events.directory
        self.header = events.header
        self.module_changes = events.module_changes
        self.event_count = events.event_count
        self.kind_counts = events.kind_counts
        self.devices = events.devices
        self.event_batches = events.event_batches

    @property
    def facts(self) -> Mapping[str, tuple[str, ...]]:
        """The facts that were noted, without names."""
        return self._redaction.facts(self._events.facts)

    def restricted_to(self, kinds: Collection[int]) -> RedactedEvents:
        """Return the same with the events of some kinds alone."""
        return RedactedEvents(self._events.restricted_to(kinds), self._redaction)

    def string_frame(self, ids: pl.Series) -> pl.DataFrame:
        """Return the texts of string ids."""
        frame = self._events.string_frame(ids)
        return frame.with_columns(mapped(frame["text"], self._redaction.name).alias("text"))

    def attribute_frame(self, ids: pl.Series) -> pl.DataFrame:
        """Return the attributes of some ids."""
        return self._redaction.attributes(self._events.attribute_frame(ids))

    def attribute_pairs(self, ids: pl.Series) -> pl.DataFrame:
        """Return the same as pairs."""
        return self._redaction.pairs(self._events.attribute_pairs(ids))

    def python_stack_text(self, stack_id: int) -> str:
        """Return the text of a Python stack."""
        return self._redaction.python_stack(self._events.python_stack_text(stack_id))

    def native_stack_text(self, stack_id: int, sequence: int = 0) -> str:
        """Return the text of a native stack, as an event of that sequence number has it."""
        return self._redaction.native_stack(self._events.native_stack_text(stack_id, sequence))

    def function_text(self, code_id: int) -> str:
        """Return what stands for a traced function."""
        return self._redaction.token("function", self._events.function_text(code_id))
