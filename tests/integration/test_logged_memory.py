"""Figures of memory in what trainers log to: real files of TensorBoard, and a real store of MLflow."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.integration.test_integrations_trainers import needs, needs_lightning, needs_transformers, run_python

pytestmark = [pytest.mark.torch, needs("tensorboard", "mlflow", "sqlalchemy")]

READERS = """
def of_tensorboard(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = {}
    for file in sorted(Path(folder).rglob("events.out.*")):
        events = EventAccumulator(str(file)).Reload()
        for tag in events.Tags()["scalars"]:
            found.setdefault(tag, []).extend([one.step, one.value] for one in events.Scalars(tag))
    return found

def of_mlflow():
    import mlflow

    client = mlflow.MlflowClient()
    found = {}
    for run in client.search_runs([one.experiment_id for one in client.search_experiments()]):
        for name in run.data.metrics:
            history = client.get_metric_history(run.info.run_id, name)
            found.setdefault(name, []).extend([one.step, one.value] for one in history)
    return found
"""

BEGIN = """
import json, os, sys
from pathlib import Path
import torch
folder = sys.argv[1]
os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{folder}/mlflow.db"
sys.path.insert(0, {examples!r})
"""

WITH_TRANSFORMERS = """
import train_with_transformers as example
from transformers import Trainer, TrainingArguments
from msmemscope.integrations.transformers import MsmemscopeCallback

class LargeModel(example.Model):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Parameter(torch.zeros(4 << 20))

    def forward(self, values, labels):
        outputs = super().forward(values, labels)
        return {**outputs, "loss": outputs["loss"] + self.table.mean()}

os.environ["TENSORBOARD_LOGGING_DIR"] = folder
data = [{"values": torch.randn(64), "labels": torch.randn(1)} for _ in range(16)]
settings = TrainingArguments(
    folder, num_train_epochs=2, per_device_train_batch_size=2, logging_steps=2, eval_strategy="epoch",
    save_strategy="no", report_to=["tensorboard", "mlflow"], use_cpu=True,
)
callback = MsmemscopeCallback(log_memory=LOG_MEMORY, device="cpu", output=folder + "/output")
trainer = Trainer(LargeModel(), settings, train_dataset=data, eval_dataset=data[:4], callbacks=[callback])
trainer.train()
returned = sorted(trainer.evaluate())
"""

WITH_LIGHTNING = """
import train_with_lightning as example
import lightning
from lightning.pytorch.loggers import MLFlowLogger, TensorBoardLogger
from torch.utils.data import DataLoader
from msmemscope.integrations.lightning import MsmemscopeCallback

data = DataLoader(torch.randn(8, 64), batch_size=1)
trainer = lightning.Trainer(
    max_epochs=1, log_every_n_steps=2, accelerator="cpu",
    callbacks=[MsmemscopeCallback(log_memory=LOG_MEMORY, device="cpu", output=folder + "/output")],
    logger=[TensorBoardLogger(folder), MLFlowLogger(tracking_uri=os.environ["MLFLOW_TRACKING_URI"])],
    enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
)
trainer.fit(example.Module(), data, data)
returned = []
"""

END = """
with open("/proc/self/status") as status:
    resident = {line.split()[0]: int(line.split()[1]) / 1024 for line in status if line.startswith("Vm")}
found = {"tensorboard": of_tensorboard(folder), "mlflow": of_mlflow(), "returned": returned}
Path(folder, "found.json").write_text(json.dumps(found | {"resident": resident["VmRSS:"], "peak": resident["VmHWM:"]}))
"""

MEMORY = {"memory/host_resident_mib", "memory/host_max_resident_mib", "memory/host_cpu_tensors_mib"}


Curves: TypeAlias = "dict[str, list[tuple[int, float]]]"
"""Steps and values, by the name of the figure."""


@dataclass(frozen=True)
class Logged:
    """The figures that a program has logged, and the truth about it."""

    tensorboard: Curves
    mlflow: Curves
    returned: list[str]
    """The names of what `evaluate()` returned."""
    resident: float
    """MiB at the end, as the kernel says; likewise `peak`."""
    peak: float


def run_program(tmp_path: Path, training: str, *, log_memory: bool) -> Logged:
    """Train, and return what was logged."""
    examples = Path(__file__).parents[2] / "examples" / "integrations"
    program = tmp_path / "program.py"
    begin = BEGIN.replace("{examples!r}", repr(str(examples)))
    program.write_text(READERS + begin + training.replace("LOG_MEMORY", str(log_memory)) + END)
    run = run_python(tmp_path, program, tmp_path, is_warm=False)
    assert run.returncode == 0, run.stderr
    return Logged(**json.loads((tmp_path / "found.json").read_text()))


@needs_transformers
def test_transformers_logs_memory(tmp_path: Path) -> None:
    """Each of its logs has the figures: of 16 steps each second, of both evaluations, and of the end."""
    found = run_program(tmp_path, WITH_TRANSFORMERS, log_memory=True)
    names = {f"train/{name}" for name in MEMORY}
    assert names <= set(found.tensorboard)
    assert {name.removeprefix("train/") for name in found.mlflow} >= MEMORY
    resident = dict(found.tensorboard["train/memory/host_resident_mib"])
    assert set(resident) == set(range(2, 17, 2))
    assert resident[16] == pytest.approx(found.resident, rel=0.25)
    # 16 MiB of weights, and from the first step on as much for gradients and twice for the optimizer's state.
    tensors = dict(found.tensorboard["train/memory/host_cpu_tensors_mib"])
    assert tensors[2] >= 48
    assert tensors[2] < 160
    assert not [name for name in found.returned if "memory" in name]
    assert "epoch" in found.returned


@needs_lightning
def test_lightning_logs_memory(tmp_path: Path) -> None:
    """Each second step has the figures, numbered as Lightning numbers its charts."""
    found = run_program(tmp_path, WITH_LIGHTNING, log_memory=True)
    for curves in (found.tensorboard, found.mlflow):
        assert set(curves) >= MEMORY
        assert [step for step, _ in curves["memory/host_resident_mib"]] == [1, 3, 5, 7]
        last = curves["memory/host_max_resident_mib"][-1][1]
        assert last <= found.peak + 0.1
        assert last >= 0.5 * found.peak


@needs_transformers
def test_memory_is_logged_on_request_only(tmp_path: Path) -> None:
    """Without the option, what is logged is what the trainer logs alone."""
    found = run_program(tmp_path, WITH_TRANSFORMERS, log_memory=False)
    assert found.tensorboard
    assert not [name for name in (*found.tensorboard, *found.mlflow) if "memory" in name]
