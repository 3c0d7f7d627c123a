"""hone in Python: fine-tune and sample language models with the program's own trainer and engine.

    import hone
    model = hone.Model("models/nano")
    loader = hone.DataLoader(hone.Dataset("data/demo.jsonl", hone.Template(model)), batch_size=8)
    trainer = hone.Trainer(model, hone.LoraConfig(rank=16), learning_rate=2e-3, total_steps=5 * len(loader))
    for batch in loader.batches(epochs=5):
        print(trainer.train_step(batch)["loss"])
    print(hone.Sampler(model).chat("Who trained you?"))

`python -m hone sft …` is the program. Names are imported when they are first used, so that the program starts at once.
"""
import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

# Read by torch's libraries when they are loaded; the program makes the same settings. OpenMP threads that spin while they wait cost several times
# the work's own time as soon as anything else uses the cores; oneDNN keeps code for many shapes.
if "torch" not in sys.modules:
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "2000")
    os.environ.setdefault("LRU_CACHE_CAPACITY", "64")
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")

from .errors import CheckpointError, DataError, Error, NonFiniteError, OutOfMemoryError, OutOfSpaceError, UsageError

if TYPE_CHECKING:
    from . import rewards
    from .data import Batch, DataLoader, Dataset, Template
    from .device_mesh import DeviceMesh
    from .library import set_log_level, version
    from .model import Model
    from .sampler import Completion, Sampler, SamplingParams
    from .trainer import LoraConfig, Trainer

_HOMES = {"Batch": "data", "DataLoader": "data", "Dataset": "data", "Template": "data", "DeviceMesh": "device_mesh", "Model": "model", "Completion": "sampler", "Sampler": "sampler",
          "SamplingParams": "sampler", "LoraConfig": "trainer", "Trainer": "trainer", "set_log_level": "library", "version": "library"}
__all__ = ["Batch", "CheckpointError", "Completion", "DataError", "DataLoader", "Dataset", "DeviceMesh", "Error", "LoraConfig", "Model", "NonFiniteError",
           "OutOfMemoryError", "OutOfSpaceError", "Sampler", "SamplingParams", "Template", "Trainer", "UsageError", "rewards", "set_log_level", "version"]


def __getattr__(name: str) -> Any:
    if name == "rewards":
        return importlib.import_module(".rewards", __name__)
    if name not in _HOMES:
        raise AttributeError(f"module 'hone' has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return __all__
