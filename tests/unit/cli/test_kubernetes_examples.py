"""The manifests of the examples: their commands are commands of ours, and KubeRay's schema accepts its resource."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Any

import pytest

from msmemscope.cli.arguments import LaunchRequest, parse_command_line
from msmemscope.cli.commands import VERBS, command_named
from msmemscope.cli.verb_parser import parser_of
from msmemscope.units import parse_size_bytes

yaml: Any = pytest.importorskip("yaml")

FOLDER = Path(__file__).parents[3] / "examples" / "kubernetes"
SCHEMAS = "KUBERAY_CRDS"
"""Variable: the folder of KubeRay's definitions of its resources, ray-operator/config/crd/bases of its repository."""


def documents(name: str) -> list[Any]:
    """The resources of a manifest."""
    return list(yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8")))


def test_the_training_job_is_launched_as_it_stands() -> None:
    """Options of ours, `--`, and the program behind it."""
    _, job = documents("train-and-gather.yaml")
    (container,) = job["spec"]["template"]["spec"]["containers"]
    command, *arguments = container["command"]
    request = parse_command_line(arguments, verbs=VERBS)
    assert command == "msmemscope"
    assert isinstance(request, LaunchRequest)
    assert request.program[0] == "torchrun"
    assert [one.option.name for one in request.given] == ["output", "gather", "sample-ranks", "role"]


def test_figures_are_offered_as_it_stands() -> None:
    """One container writes where the other reads, as the same user, and neither has a privilege."""
    (deployment,) = documents("serve-with-metrics.yaml")
    pod = deployment["spec"]["template"]["spec"]
    server, metrics = pod["containers"]
    request = parse_command_line(server["command"][1:], verbs=VERBS)
    assert isinstance(request, LaunchRequest)
    assert request.program == ("python", "server.py")
    (output,) = [one.value for one in request.given if one.option.name == "output"]
    command, verb, *arguments = metrics["command"]
    asked = parser_of(command_named(verb)).parse_args(arguments)
    assert command == "msmemscope"
    assert asked.what == str(output)
    assert asked.prometheus.rpartition(":")[2] == str(metrics["ports"][0]["containerPort"])
    assert {mount["mountPath"] for one in (server, metrics) for mount in one["volumeMounts"]} == {asked.what}
    assert pod["securityContext"]["runAsNonRoot"]
    assert not any("securityContext" in one for one in (server, metrics))
    assert not {"hostPID", "shareProcessNamespace", "hostNetwork"} & set(pod)


def test_the_answer_is_asked_for_as_it_stands() -> None:
    """A verb with values that it takes; where it writes, a volume is mounted."""
    (job,) = documents("answer-with-kuberay.yaml")
    command, verb, *arguments = shlex.split(job["spec"]["entrypoint"])
    asked = parser_of(command_named(verb)).parse_args(arguments)
    assert command == "msmemscope"
    assert parse_size_bytes(asked.capacity, option="--capacity") == 64 << 30
    (container,) = job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"]
    (mount,) = container["volumeMounts"]
    assert {Path(asked.output).parent, Path(asked.summaries).parent, Path(asked.cache).parent} == {
        Path(mount["mountPath"])
    }


@pytest.mark.skipif(SCHEMAS not in os.environ, reason=f"{SCHEMAS} names no folder with KubeRay's definitions")
def test_the_schema_of_kuberay_accepts_the_job() -> None:
    """Every field is known and has a value that it may have."""
    jsonschema: Any = pytest.importorskip("jsonschema")
    definition = yaml.safe_load((Path(os.environ[SCHEMAS]) / "ray.io_rayjobs.yaml").read_text(encoding="utf-8"))
    (schema,) = [one["schema"] for one in definition["spec"]["versions"] if one["name"] == "v1"]
    (job,) = documents("answer-with-kuberay.yaml")
    jsonschema.validate(job, without_unknown_fields(schema["openAPIV3Schema"]))


def without_unknown_fields(schema: Any) -> Any:
    """The schema as `kubectl --validate=strict` takes it; by itself it lets fields pass that it does not know."""
    if isinstance(schema, list):
        return [without_unknown_fields(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    strict = {key: without_unknown_fields(one) for key, one in schema.items()}
    is_open = "additionalProperties" in schema or schema.get("x-kubernetes-preserve-unknown-fields")
    if schema.get("type") == "object" and "properties" in schema and not is_open:
        strict["additionalProperties"] = False
    return strict
