"""The dashboard and the rules of the examples ask for figures and labels that there are."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from msmemscope.cli.commands import command_named
from msmemscope.cli.verb_parser import parser_of
from tests.support.recorded_runs import write_run

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("prometheus_client") is None, reason="needs pip install 'msmemscope[metrics]'"
)
yaml: Any = pytest.importorskip("yaml")

FOLDER: Final = Path(__file__).parents[3] / "examples" / "prometheus"


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """The labels of each figure; some have no sample in this run."""
    from msmemscope.live.metrics import CaptureMetrics

    capture = write_run(tmp_path_factory.mktemp("run"))
    return {
        sample: {*family._labelnames}
        for family in CaptureMetrics(lambda: [capture]).collect()
        for sample in (family.name, f"{family.name}_total")
    }


def expressions() -> Iterator[tuple[str, str]]:
    """Each expression, with the text that names its labels."""
    dashboard = json.loads((FOLDER / "grafana-dashboard.json").read_text(encoding="utf-8"))
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield target["expr"], target["legendFormat"]
    for variable in dashboard["templating"]["list"][1:]:
        yield variable["query"], f"{{{{{variable['name']}}}}}"
    rules = yaml.safe_load((FOLDER / "alert-rules.yaml").read_text(encoding="utf-8"))
    for rule in rules["groups"][0]["rules"]:
        yield rule["expr"], rule["annotations"]["summary"]


def test_each_figure_and_label_is_there(labels: dict[str, set[str]]) -> None:
    """Names in expressions are those of figures; labels in texts are those of all figures of the expression."""
    asked = list(expressions())
    assert len(asked) > 12
    for expression, text in asked:
        names = set(re.findall(r"msmemscope_\w+", expression))
        assert names
        assert names <= labels.keys()
        wanted = set(re.findall(r"{{ *(?:\$labels\.)?(\w+) *}}", text)) | set(re.findall(r"(\w+)=~", expression))
        assert wanted <= set.intersection(*(labels[name] for name in names)), expression
        assert expression.count("(") == expression.count(")")


def test_each_alert_says_what_to_type_next() -> None:
    """A command of ours, about the folder of the run."""
    rules = yaml.safe_load((FOLDER / "alert-rules.yaml").read_text(encoding="utf-8"))
    for rule in rules["groups"][0]["rules"]:
        command, verb, *arguments = rule["annotations"]["next"].split()
        assert command == "msmemscope"
        parser_of(command_named(verb)).parse_args(arguments)
