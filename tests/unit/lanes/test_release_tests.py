"""The lane of torch_npu's release tests counts outcomes, and complains about wrong ones."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.lanes import release_tests
from tests.lanes.release_tests import DISABLED, DisabledTests, FileResult, read_plan, read_results, table
from tests.support.nightly import nightly

FILE = "npu/test_copy.py"


def lines(*written: dict[str, str]) -> list[str]:
    """The lines that a process wrote."""
    return [json.dumps(line) for line in written]


def result(*listed: str, **outcomes: Any) -> FileResult:
    """The results of a file whose tests have these outcomes."""
    tests = {f"{FILE}::{name}": outcome for name, outcome in outcomes.items()}
    return FileResult(FILE, {f"{FILE}::{name}" for name in listed}, tests, dict.fromkeys(tests, "why"))


def test_a_process_that_ends_in_a_test_fails_it_and_is_not_complete() -> None:
    """The test that was begun and has no outcome is the one that ended the process."""
    found = FileResult(FILE, set())
    written = lines({"started": "a"}, {"test": "a", "outcome": "passed"}, {"started": "b"})
    assert not read_results(written, found)
    assert found.outcomes == {"a": "passed", "b": "failed"}
    assert "ended in it" in found.details["b"]


def test_a_process_that_ran_all_is_complete() -> None:
    """Its last line says so, and what it wrote of a failure is kept."""
    found = FileResult(FILE, set())
    written = lines({"started": "a"}, {"test": "a", "outcome": "failed", "detail": "1 != 2"}, {"complete": "yes"})
    assert read_results(written, found)
    assert (found.outcomes, found.details) == ({"a": "failed"}, {"a": "1 != 2"})


def test_a_listed_test_that_fails_is_one_that_cannot_pass() -> None:
    """It has a column of its own and is no complaint."""
    counted = result("b", a="passed", b="failed", c="skipped", d="disabled")
    assert counted.counts() == {"passed": 1, "cannot pass": 1, "skipped": 1, "disabled": 1}
    assert counted.complaints() == []


def test_a_test_that_is_not_listed_may_not_fail() -> None:
    """It fails the lane, with the reason."""
    assert result(a="failed").complaints() == [f"{FILE}::a: why"]


@pytest.mark.parametrize("outcome", ["passed", "skipped", "disabled"])
def test_a_listed_test_has_to_fail(outcome: str) -> None:
    """The list stays true: a test that no longer fails has to leave it."""
    (complaint,) = result("a", a=outcome).complaints()
    assert complaint == f"{FILE}::a: listed as one that cannot pass, but {outcome}"


def test_a_listed_test_has_to_be_there() -> None:
    """So does one that the file does not have."""
    (complaint,) = result("gone").complaints()
    assert complaint.endswith("not there")


def test_the_share_is_of_those_that_ran() -> None:
    """Skipped and disabled tests are neither passed nor failed."""
    results = [result("b", a="passed", b="failed", c="skipped"), result(a="passed", b="failed", d="disabled")]
    *_, total, share = table(results, 20)
    assert total.split() == ["in", "total", "2", "1", "1", "1", "1"]
    assert share == "of 4 tests that ran, 50.0% passed"


@nightly
@pytest.mark.torch
def test_each_kind_of_end_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure of any phase fails a test; one that is expected to fail passes by failing."""
    pytest.importorskip("torch")
    tests = """
        import unittest, pytest
        def test_passes(): pass
        def test_fails(): assert 1 == 2
        def test_skips(): pytest.skip("why")
        @pytest.mark.xfail
        def test_fails_as_expected(): assert False
        @pytest.fixture
        def broken(): yield; raise OSError("behind it")
        def test_fails_behind_itself(broken): pass
        def test_is_left_out(): assert False
        class TestOlder(unittest.TestCase):
            @unittest.expectedFailure
            def test_passes_unexpectedly(self): pass
    """
    (tmp_path / "test_some.py").write_text(textwrap.dedent(tests), encoding="utf-8")
    (tmp_path / DISABLED).parent.mkdir()
    (tmp_path / DISABLED).write_text("{}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(release_tests, "device_computes", lambda: True)
    results = tmp_path / "results.jsonl"
    release_tests.run_here(
        {"file": "test_some.py", "only": [], "leave": ["test_some.py::test_is_left_out"], "results": str(results)}
    )
    found = FileResult("test_some.py", set())
    assert read_results(results.read_text(encoding="utf-8").splitlines(), found)
    assert {test.partition("::")[2]: outcome for test, outcome in found.outcomes.items()} == {
        "test_passes": "passed", "test_fails": "failed", "test_skips": "skipped", "test_fails_as_expected": "passed",
        "test_fails_behind_itself": "failed", "TestOlder::test_passes_unexpectedly": "failed",
    }  # fmt: skip
    assert found.details["test_some.py::test_fails"] == "assert 1 == 2"


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "owner", "is_disabled"),
    [
        ("test_add_npu_float64", "TestMathPRIVATEUSE1", True),
        ("test_add_npu_float64", "TestMathNPU", True),
        ("test_add_npu_float32", "TestMathPRIVATEUSE1", False),
        ("test_add_npu_float64", "TestOther", False),
        ("test_mul_cpu_float16", "TestMathCPU", True),  # all data types and devices are meant
    ],
)
def test_disabled_tests_are_known_by_name_and_class(name: str, owner: str, is_disabled: bool) -> None:  # noqa: FBT001
    """As torch_npu itself matches them: the beginning of the class, and the name with or without device and data type."""
    pytest.importorskip("torch")
    disabled = DisabledTests(["test_add_npu_float64 (__main__.TestMathPRIVATEUSE1)", "test_mul (__main__.TestMath)"])
    item: Any = SimpleNamespace(name=name, parent=SimpleNamespace(name=owner))
    assert (item in disabled) == is_disabled


def test_the_plan_names_each_file_and_each_test_once() -> None:
    """And a test only of files that are run, with a reason."""
    plan = read_plan()
    tests = [*(test for limit in plan.limits for test in limit.tests), *plan.too_large]
    assert len(plan.files) == len(set(plan.files))
    assert len(tests) == len(set(tests))
    assert {test.partition("::")[0] for test in tests} <= set(plan.files)
    assert all(limit.reason and limit.whose in {"test", "torch_npu", "CANN", "virtual NPU"} for limit in plan.limits)


def test_without_the_tests_it_says_where_they_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The message has the commit and how to get it."""
    assert release_tests.main(tmp_path, []) == 2
    words = capsys.readouterr().err
    assert str(DISABLED) in words
    assert release_tests.RELEASE in words
    assert "hint: " in words
