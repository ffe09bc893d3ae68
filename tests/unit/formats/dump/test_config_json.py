"""config.json says what the settings were, in the form that MindStudio's tools know."""

from __future__ import annotations

import json

import pytest

from msmemscope.configuration import Analysis, CollectionItem, CollectMode, Config, DataFormat, Level, LogLevel
from msmemscope.formats.dump.config_json import config_text
from msmemscope.model.place import Place


def test_default_settings() -> None:
    """Bits, numbers and names are those of the specification; our own settings stand beside them in words."""
    content = json.loads(config_text(Config(output="/x", devices=("cpu",)), Place()))
    settings = content.pop("settings")
    assert settings["events"] == "alloc,free,launch"
    assert settings["output"] == "/x"
    assert content == {
        "SelectedStepList": {"stepCount": 0, "stepIdList": [0, 0, 0, 0, 0]},
        "analysisType": 1, "cStackDepth": 0, "collectAllNpu": False, "collectCpu": True, "collectMode": 0,
        "dataFormat": 0, "dumpEventType": 7, "enableCStack": False, "enableCompare": False, "enablePyStack": False,
        "eventType": 7, "isEffective": True, "levelType": 1, "logLevel": 1, "npuSlots": 0, "oomTopK": 10, "outputDir": "/x",
        "pyStackDepth": 50,
        "watchConfig": {"end": "", "fullContent": False, "isWatched": False, "outputId": 4294967295, "start": ""},
    }  # fmt: skip


def test_everything_set() -> None:
    """Each setting has its bit."""
    config = Config(
        devices=("npu:0", "npu:31"), events=frozenset(CollectionItem), level=frozenset(Level), steps=(2, 5),
        analysis=frozenset(Analysis), collect_mode=CollectMode.DEFERRED, data_format=DataFormat.DB,
        log_level=LogLevel.ERROR, native_stack=True, native_stack_depth=9,
    )  # fmt: skip
    content = json.loads(config_text(config, Place()))
    assert content["npuSlots"] == 0x80000001
    assert content["eventType"] == 63
    assert content["levelType"] == 3
    assert content["analysisType"] == 15
    assert content["SelectedStepList"] == {"stepCount": 2, "stepIdList": [2, 5, 0, 0, 0]}
    assert [content[key] for key in ("collectMode", "dataFormat", "logLevel", "cStackDepth")] == [1, 1, 2, 9]
    assert not content["collectCpu"]


@pytest.mark.parametrize(
    ("watch", "expected"),
    [
        ("op0:1,op1,full-content", ("op0", 1, "op1", True)),
        ("op1", ("", 4294967295, "op1", False)),
        ("auto", ("", 4294967295, "", False)),
    ],
)
def test_watched_memory(watch: str, expected: tuple[object, ...]) -> None:
    """The operators of `--watch`, and which output."""
    content = json.loads(config_text(Config(watch=watch), Place()))
    found = content["watchConfig"]
    assert found.pop("isWatched") is True
    assert tuple(found[key] for key in ("start", "outputId", "end", "fullContent")) == expected
    assert content["settings"]["watch"] == watch


def test_all_npus() -> None:
    """`npu` stands for every slot."""
    content = json.loads(config_text(Config(devices=("npu",)), Place()))
    assert content["collectAllNpu"] is True
    assert content["npuSlots"] == 0xFFFFFFFF


def test_layout_of_the_file() -> None:
    """Keys in alphabetical order, four blanks of indentation."""
    lines = config_text(Config(), Place()).splitlines()
    assert lines[:2] == ["{", '    "SelectedStepList": {']
    keys = [line.split('"')[1] for line in lines if line.startswith('    "')]
    assert keys == sorted(keys)
