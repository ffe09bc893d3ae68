"""Exports without names: nothing that a program calls its own is left, and every number is the same."""

from __future__ import annotations

import gzip
import re
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from msmemscope.analysis.owners.decomposition import owned_blocks
from msmemscope.cli.main import main
from msmemscope.formats.attributes import PAIR_SCHEMA
from msmemscope.formats.export.export_formats import EXPORT_FORMATS
from msmemscope.formats.export.redaction import Redaction, redacted_recording
from msmemscope.formats.reading import load
from msmemscope.model.attributes import AttributeKey
from msmemscope.model.events import EventKind
from msmemscope.recording.call_sites import call_sites
from tests.fakes.event_log_builder import (
    ATEN_END,
    ATEN_START,
    FUNCTION_CALL,
    MARK,
    NO_DEVICE,
    STEP,
    EventLogBuilder,
)
from tests.support.recorded_runs import with_dumps

if TYPE_CHECKING:
    from pathlib import Path

    from msmemscope.recording import Recording

NAMES = (
    "Quetzal", "Zanzibar", "Xylograph", "Vermicelli", "Tarantella", "Ocarina", "Kumquat", "Jabberwock", "Wolpertinger", "Zorblax",
    "Yggdrasil",
)  # fmt: skip
"""Of a folder, arguments, marks, files, functions, libraries, labels, modules, kernels, settings."""
TORCH = "/home/Quetzal/lib/python3.11/site-packages/torch/nn/modules/linear.py"


pytestmark = pytest.mark.usefixtures("current_folder")


def _run(root: Path, *, scale: int = 1) -> Path:
    """A run that keeps a block in each step, all of whose names are planted."""
    log = EventLogBuilder(root / "Quetzal")
    log.fact("argument", "/opt/Xylograph/python")
    log.fact("executable", "/opt/Xylograph/python")
    log.fact("message", "Xylograph")
    log.fact("unobserved.torch_operators", "Zorblax")
    log.fact("setting.output", "/home/Quetzal")
    log.fact("setting.watch", "Zorblax")
    log.fact("Zorblax", "1")
    torch_frame = (log.code(TORCH, "forward", 5), 0)
    inductor = (log.code("/tmp/torchinductor_Quetzal/ab/cd.py", "call", 5), 0)
    library = (log.code("/opt/site-packages/Quetzal/metrics.py", "Ocarina", 3), 0)
    keeping = log.python_stack(
        torch_frame, inductor, library, (log.code("/home/Quetzal/Tarantella.py", "Ocarina", 11), 0)
    )
    holding = log.python_stack((log.code("/home/Quetzal/Tarantella.py", "Ocarina", 22), 0))
    log.module("/usr/lib/Kumquat.so", 0x1000, 0x2000, load_bias=0x1000)
    log.module("/usr/lib/libtorch_cpu.so", 0x3000, 0x4000, load_bias=0x3000)
    native = log.native_stack(0x3500, 0x1500)
    log.add(FUNCTION_CALL, name_id=log.string("Tarantella.py(1): Ocarina"), device=NO_DEVICE, extra=2_000)
    about = log.attributes((AttributeKey.OPERATOR, "Vermicelli"), (AttributeKey.DTYPE, "float32"))
    address = 0x10000
    for step in range(1, 7):
        log.add(MARK, name_id=log.string(f"Vermicelli {step % 2}"))
        log.add(EventKind.KERNEL_LAUNCH, name_id=log.string("Wolpertinger_kernel"))
        log.add(ATEN_START, name_id=log.string("aten.mm"))
        kept = log.malloc(address, scale * 4096, python_stack_id=keeping, native_stack_id=native, attribute_id=about)
        log.owner(kept, "1Jabberwock", "5Jabberwock")
        held = log.malloc(0x1000, 1 << 16, python_stack_id=holding)
        log.owner(held, "3model@weight", "4(Yggdrasil.blocks.0)")
        log.add(ATEN_END, name_id=log.string("aten.mm"))
        log.add(ATEN_START, name_id=log.string("torch._ops.aten.addmm.default"))
        log.add(ATEN_END, name_id=log.string("torch._ops.aten.addmm.default"))
        log.free(held, 0x1000, 1 << 16)
        log.add(STEP, size=step)
        address += 1 << 20
    return log.write()


def _content(path: Path) -> str:
    """All that a reader can find in an export: compressed parts as what they hold, too."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    assert files
    content = bytearray()
    for file in files:
        raw = file.read_bytes()
        content += file.name.encode() + raw
        if raw.startswith(b"\x1f\x8b"):
            content += gzip.decompress(raw)
        if file.suffix == ".parquet":
            content += str(pl.read_parquet(file).rows()).encode()
    return content.decode(errors="replace").lower()


@pytest.mark.parametrize("name", EXPORT_FORMATS)
def test_no_name_is_left(name: str, tmp_path: Path, current_folder: Path) -> None:
    """In any byte of any format; without --redact they are there, so that this can fail."""
    capture = _run(tmp_path)
    assert main(["export", str(capture), "--to", name, "--redact"]) == 0
    (written,) = current_folder.iterdir()
    content = _content(written)
    assert [planted for planted in NAMES if planted.lower() in content] == []
    assert main(["export", str(capture), "--to", name, "-o", "named"]) == 0
    named = _content(current_folder / "named")
    assert [planted for planted in NAMES if planted.lower() in named] != []


@pytest.mark.parametrize("name", ["csv", "db", "torch-snapshot"])
def test_dumps_are_redacted_too(name: str, tmp_path: Path, current_folder: Path) -> None:
    """Their texts of attributes have names as well, and what they are called may be one."""
    dump = with_dumps(_run(tmp_path)).rename(tmp_path / "Zorblax.csv")
    assert main(["export", str(dump), "--to", name, "--redact"]) == 0
    (written,) = current_folder.iterdir()
    content = _content(written)
    assert [planted for planted in NAMES if planted.lower() in content] == []


def _numbers(recording: Recording) -> dict[str, Any]:
    """The numbers in the answers of the analyses."""
    owned, _ = owned_blocks(recording)
    sites = call_sites(recording, recording.blocks)
    by_site = recording.blocks.join(sites, on=["python_stack_id", "native_stack_id", "name_id"], nulls_equal=True)
    leaks, peak, owners = recording.leaks(), recording.peak(), recording.owners()
    return {
        "kinds": recording.events["kind"].value_counts(sort=True).rows(),
        "timeline": recording.timeline().drop("sequence").rows(),
        "steps": recording.steps.height,
        "owners": sorted(owned.group_by("owner").agg(pl.col("size").sum())["size"]),
        "sites": sorted(by_site.group_by("site_path").agg(pl.col("size").sum())["size"]),
        "leaks": _numeric(leaks.to_polars()),
        "peak": _numeric(peak.to_polars()),
        "decompose": _numeric(owners.to_polars()),
    }


def _numeric(table: pl.DataFrame) -> list[tuple[Any, ...]]:
    columns = [name for name, dtype in table.schema.items() if dtype.is_numeric()]
    assert columns
    assert table.height
    return sorted(table.select(columns).rows(), key=repr)


@pytest.mark.parametrize("name", ["csv", "db"])
def test_numbers_are_the_same(name: str, tmp_path: Path, current_folder: Path) -> None:
    """Totals, peaks, leaks, and sums by owner and call site, of what is exported with and without names."""
    capture = _run(tmp_path)
    assert main(["export", str(capture), f"--to={name}", "-o", "named"]) == 0
    assert main(["export", str(capture), f"--to={name}", "-o", "nameless", "--redact"]) == 0
    assert _numbers(load(current_folder / "nameless")) == _numbers(load(current_folder / "named"))


def test_numbers_of_a_redacted_recording_are_the_same(tmp_path: Path) -> None:
    """Other formats are written from it."""
    recording = load(_run(tmp_path))
    assert _numbers(redacted_recording(recording, Redaction())) == _numbers(recording)


def test_what_is_torchs_stays(tmp_path: Path) -> None:
    """Operators of aten, files of torch without the folder that they are in, words of owners."""
    redacted = redacted_recording(load(_run(tmp_path)), Redaction())
    assert {"aten.mm", "torch._ops.aten.addmm.default"} < set(redacted.strings["text"])
    stacks = "".join(redacted.python_stacks["text"])
    assert "/site-packages/torch/nn/modules/linear.py(5): forward\n" in stacks
    assert "/torchinductor_user/" in stacks
    assert any(text.startswith("libtorch_cpu.so(") for text in redacted.native_stacks["text"])
    sites = call_sites(redacted, redacted.blocks)["site"].to_list()
    line = r"file_\w+[.]py\({}\): function_\w+"
    assert any(re.fullmatch(f"/{line.format(11)}, in {line.format(3)}", site) for site in sites), sites
    owners = set(owned_blocks(redacted)[0]["owner"])
    assert any(owner.startswith("HOST@model@weight@(module_") for owner in owners)


def test_a_key_gives_the_same_tokens(tmp_path: Path, current_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In every export with it, so that two can be compared; without one, nobody can look a name up."""
    capture = _run(tmp_path)
    for output, option in (("a", "--redact-key=k1"), ("b", "--redact-key=k1"), ("c", "--redact"), ("d", "--redact")):
        assert main(["export", str(capture), "--to=flamegraph", "-o", output, option]) == 0
    a, b, c, d = ((current_folder / name).read_text() for name in "abcd")
    assert a == b
    assert len({a, c, d}) == 3
    assert main(["export", str(capture), "--to=flamegraph", "-o", "e", "--redact-key="]) == 2
    assert "--redact-key: is empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ["acme.mm", "torch._ops.acme.mm.default", "aten.mm acme", "acme::aten::mm", "atenacme"]
)
def test_operators_of_the_program_are_names(text: str) -> None:
    """Only those of the namespaces of PyTorch and torch_npu stay."""
    assert Redaction().name(text).startswith("name_")


@pytest.mark.parametrize(
    "line, expected",
    [
        ("/usr/lib/libtorch_cpu.so(at::native::add+0x10) [0x1234]", "libtorch_cpu.so(at::native::add+0x10)"),
        ("/lib/libc.so.6(malloc) [0x1]", "libc.so.6(malloc)"),
        ("/lib/libpython3.11.so.1.0(vectorcall+0x2) [0x7f] descrobject.c:453", "libpython3.11.so.1.0(vectorcall+0x2)"),
        ("/opt/acme(run+0x5) [0x1] Secret.cpp:3", "module_"),
        ("/opt/libtorch_acme.so(Secret+0x1) [0x1]", "at::library_"),
        ("/opt/acme.so(run+0x5) [0x1]", "module_"),
        ("c10::get<acme::Secret>(int)", "at::library_"),
        ("anything else", "module_"),
    ],
)
def test_native_frames(line: str, expected: str) -> None:
    """A frame of a library stays one; its symbols may name types of the program."""
    redacted = Redaction().native_stack(line)
    assert redacted.startswith(expected)
    assert "acme" not in redacted
    assert "Secret" not in redacted


@pytest.mark.parametrize("module", ["RUNTIME", "libnccl.so.2", "libcudnn_ops.so.9"])
def test_modules_and_libraries_of_the_vendor_stay(module: str) -> None:
    """They say nothing of a program, as who asked for a block and in its owner."""
    assert Redaction().pairs(_module_pair(module))["text"].to_list() == [module]
    assert Redaction().owner(f"CUDA@{module}") == f"CUDA@{module}"


def test_a_library_of_the_program_is_a_name() -> None:
    """Also where it is the module that asked the driver for a block."""
    for text in (*Redaction().pairs(_module_pair("libacme.so"))["text"], Redaction().owner("CUDA@libacme.so")):
        assert "acme" not in text
        assert "library_" in text


def _module_pair(module: str) -> pl.DataFrame:
    return pl.DataFrame([{"id": 1, "key": int(AttributeKey.MODULE), "text": module}], schema=PAIR_SCHEMA)
