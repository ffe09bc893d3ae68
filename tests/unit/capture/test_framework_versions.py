"""Versions of frameworks and the ranges of the tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msmemscope.capture.frameworks.registry import find_automatic_sets, find_hook_sets, known_frameworks
from msmemscope.capture.frameworks.targets import HookType
from msmemscope.capture.frameworks.versions import fitting, is_in_range, version_numbers
from msmemscope.errors import ConfigurationError

NUMBERS = st.lists(st.integers(0, 40), min_size=1, max_size=4).map(tuple)


def text_of(numbers: tuple[int, ...]) -> str:
    """A version as it is written."""
    return ".".join(map(str, numbers))


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("2.13.0", (2, 13)),
        ("2.13.0+cpu", (2, 13)),
        ("v0.11.0", (0, 11)),
        ("0.11.0rc1", (0, 11)),
        ("0.23.0.post1", (0, 23)),
        ("2.14.0a0", (2, 14)),
        ("2.14.0a0+git1b2c3d4", (2, 14)),
        ("2.14a0.3", (2, 14)),
        ("0.7.0.dev20250101", (0, 7)),
        ("0.12.1", (0, 12, 1)),
        (" 2.6 ", (2, 6)),
        ("0", (0,)),
        ("0.0", (0,)),
    ],
)
def test_the_numbers_of_a_version(text: str, numbers: tuple[int, ...]) -> None:
    """Prefixes, local parts and suffixes do not count, nor do zeros at the end."""
    assert version_numbers(text) == numbers


@pytest.mark.parametrize("text", ["", "main", "v", "+cpu", ".1", "²"])
def test_what_is_no_version(text: str) -> None:
    """It is refused, not taken for 0."""
    with pytest.raises(ValueError, match="not a version"):
        version_numbers(text)


@pytest.mark.parametrize(
    ("versions", "inside", "outside"),
    [
        ("2.6+", ["2.6", "2.6.0", "2.6.0a0", "2.10", "3.0"], ["2.5.9", "2.5", "1.13", "2"]),
        ("2.6-2.9", ["2.6", "2.9", "2.9.1", "2.9.99", "2.7.0+cpu"], ["2.5.1", "2.10", "2.10.0a0", "3.0"]),
        ("2.6-2.9.1", ["2.9.7"], ["2.10"]),
        ("1-2", ["1.0", "2.9"], ["3.0", "0.9"]),
        ("0.11-0.11", ["0.11.0", "0.11.2"], ["0.12", "0.10.9"]),
        ("0.7.0", ["0.7", "0.7.0", "0.7.0.post1"], ["0.7.1", "0.70"]),
        ("*", ["0.0.1", "99"], []),
    ],
)
def test_ranges(versions: str, inside: list[str], outside: list[str]) -> None:
    """A range with an end includes all patch releases of the last minor version."""
    assert [text for text in inside if not is_in_range(version_numbers(text), versions)] == []
    assert [text for text in outside if is_in_range(version_numbers(text), versions)] == []


@given(version=NUMBERS, first=NUMBERS)
def test_and_later_is_the_order_of_versions(version: tuple[int, ...], first: tuple[int, ...]) -> None:
    """`X+` is what a comparison of versions of equal length says."""
    length = max(len(version), len(first))
    padded = [numbers + (0,) * (length - len(numbers)) for numbers in (version, first)]
    assert is_in_range(version_numbers(text_of(version)), f"{text_of(first)}+") == (padded[0] >= padded[1])


@given(version=NUMBERS, first=NUMBERS, last=NUMBERS)
def test_a_closed_range_is_part_of_the_open_one(
    version: tuple[int, ...], first: tuple[int, ...], last: tuple[int, ...]
) -> None:
    """`A-B` holds what is in `A+` and, when B itself is, nothing of the minor version after B."""
    numbers = version_numbers(text_of(version))
    closed = is_in_range(numbers, f"{text_of(first)}-{text_of(last)}")
    assert not closed or is_in_range(numbers, f"{text_of(first)}+")
    minor = (last[0], last[1] if len(last) > 1 else 0)
    if closed and len(last) > 1:
        assert (*version, 0)[:2] <= minor


@given(st.text(alphabet="0123456789.vab+-rc ", max_size=12))
def test_any_text_is_a_version_or_refused(text: str) -> None:
    """Nothing else comes out of it."""
    try:
        numbers = version_numbers(text)
    except ValueError:
        return
    assert numbers
    assert all(number >= 0 for number in numbers)


def test_an_exact_range_counts_alone() -> None:
    """Otherwise all that contain the version count together."""
    ranges = ("2.6+", "2.7.1", "*", "2.6-2.9")
    assert fitting(version_numbers("2.7.1"), ranges) == ("2.7.1",)
    assert fitting(version_numbers("2.7.2"), ranges) == ("2.6+", "*", "2.6-2.9")
    assert fitting(version_numbers("2.10"), ranges) == ("2.6+", "*")
    assert fitting(version_numbers("2.5"), ranges) == ("*",)


@pytest.mark.parametrize(
    ("framework", "version", "component", "hook_type", "ranges"),
    [
        ("vllm_ascend", "0.11.0", "worker", "decompose", ["0.11+", "0.11-0.11"]),
        ("vllm_ascend", "11.0", "worker", "decompose", ["0.11+", "0.11-0.11"]),
        ("vllm_ascend", "v0.11.0rc2", "worker", "snapshot", ["0.11+"]),
        ("vllm_ascend", "0.23.0.post1", "worker", "decompose", ["0.11+", "0.23+"]),
        ("verl", "0.7.0", "TaskRunner", "snapshot", ["0.7.0"]),
        ("verl", "0.9.1", "TaskRunner", "snapshot", ["0.9+"]),
        ("verl", "0.9.1", "worker", "snapshot", ["0.9+"]),
        ("mindspeed_llm", "0.12.1", "training", "snapshot", ["0.12.1"]),
        ("pytorch", "2.6.0", "fsdp1", "decompose", ["2.6+"]),
        ("pytorch", "2.9.1+cpu", "fsdp2", "decompose", ["2.6-2.9"]),
        ("pytorch", "2.13.0+cpu", "fsdp2", "decompose", ["2.10+"]),
    ],
)
def test_what_is_known(framework: str, version: str, component: str, hook_type: str, ranges: list[str]) -> None:
    """The versions of the documents, in all their spellings."""
    assert [each.versions for each in find_hook_sets(framework, version, component, hook_type)] == ranges


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ("sglang", "0.11.0", "worker", "decompose"),
            "framework: not known: 'sglang' (accepted: pytorch, deepspeed, vllm, vllm_ascend, verl, mindspeed_llm)",
        ),
        (
            ("pytorch", "2.10", "fsdp", "decompose"),
            "component: not known for pytorch: 'fsdp' (accepted: fsdp1, fsdp2, ddp, autograd, compile, checkpoint)",
        ),
        (
            ("verl", "0.7.0", "TaskRunner", "decompose"),
            "hook_type: not known for verl TaskRunner: 'decompose' (accepted: snapshot)",
        ),
        (
            ("pytorch", "2.5.1", "fsdp2", "decompose"),
            "version: not known for pytorch fsdp2: '2.5.1' (accepted: 2.6-2.9, 2.10+)",
        ),
        (
            ("vllm_ascend", "0.9.1", "worker", "snapshot"),
            "version: not known for vllm_ascend worker: '0.9.1' (accepted: 0.11+, 11.0)",
        ),
        (
            ("verl", "main", "TaskRunner", "snapshot"),
            "version: not known for verl TaskRunner: 'main' (accepted: 0.7.0, 0.9+)",
        ),
        (
            ("verl", 0.7, "TaskRunner", "snapshot"),
            "version: not known for verl TaskRunner: '0.7' (accepted: 0.7.0, 0.9+)",
        ),
        (
            (None, "1", "worker", "snapshot"),
            "framework: not known: 'None' (accepted: pytorch, deepspeed, vllm, vllm_ascend, verl,",
        ),
    ],
)
def test_what_is_not_known_is_refused_with_what_is(words: tuple[str, str, str, str], message: str) -> None:
    """The error is a ValueError too, for callers who know nothing of ours."""
    with pytest.raises(ConfigurationError) as raised:
        find_hook_sets(*words)
    assert str(raised.value).startswith(message)
    assert isinstance(raised.value, ValueError)


def test_automatic_labels_take_every_component_of_a_version() -> None:
    """Both kinds of FSDP, and of several ranges of one component those that contain the version."""
    pytorch = next(each for each in known_frameworks() if each.name == "pytorch")
    found = find_automatic_sets(pytorch, "2.9.0", HookType.DECOMPOSE)
    of_every_version = [("ddp", "2.3+"), ("autograd", "2.3+")]
    assert [(each.component, each.versions) for each in found] == [
        ("fsdp1", "2.6+"), ("fsdp2", "2.6-2.9"), *of_every_version,
    ]  # fmt: skip
    older = find_automatic_sets(pytorch, "2.5.0", HookType.DECOMPOSE)
    assert [(each.component, each.versions) for each in older] == of_every_version
    assert find_automatic_sets(pytorch, "2.2.0", HookType.DECOMPOSE) == ()
    newer = find_automatic_sets(pytorch, "2.13.0", HookType.DECOMPOSE)
    assert [each.component for each in newer] == ["fsdp1", "fsdp2", "ddp", "autograd", "compile", "checkpoint"]


def test_the_tables_can_be_read() -> None:
    """Every range is one, and no table names a target twice."""
    for framework in known_frameworks():
        for hook_set in framework.hook_sets:
            assert hook_set.framework == framework.name
            is_in_range((1,), hook_set.versions)
            names = [(module, each.class_name, each.function) for each in hook_set.targets for module in each.modules]
            assert len(names) == len(set(names))
            for each in hook_set.targets:
                wants_labels = bool(each.labels) or each.callback is not None
                assert wants_labels == (hook_set.hook_type is HookType.DECOMPOSE)
                assert each.is_snapshot == (hook_set.hook_type is HookType.SNAPSHOT)
