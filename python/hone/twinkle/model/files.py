"""A model's checkpoints, and its weights for samplers."""
from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from ...device_mesh import DeviceMesh
from ...errors import CheckpointError
from ...model import Model
from ...trainer import Trainer
from ..infra import remote_function
from ..platform import Platform
from ..utils import run_program
from .optimizer_group import OptimizerGroup

_STATE = "hone_state"  # the folder of a checkpoint that holds what a run continues with


class SavedModel:
    """What a model writes and reads. All of its processes take part. The model itself has the rest."""

    _model: Model

    @property
    def _processes(self) -> DeviceMesh | None:
        raise NotImplementedError("a model knows its processes")

    def _group(self, settings: dict[str, Any]) -> OptimizerGroup:
        raise NotImplementedError("a model has groups")

    def _make_trainer(self) -> Trainer:
        raise NotImplementedError("a model has a trainer")

    @remote_function(dispatch="all", collect="first", lazy_collect=False)
    def save(self, name: str | None = None, output_dir: str | None = None, interval: int = 1, save_optimizer: bool = False,
             consumed_train_samples: int = 0, **kwargs: Any) -> str | None:
        """Writes output_dir/name: an adapter as PEFT has it, or a full model; with `save_optimizer` also what resume_from_checkpoint needs."""
        group = self._group(kwargs)
        if group.cur_step % interval:
            return None
        folder = os.path.join(output_dir or "output", name or f"checkpoint-step-{group.cur_step}")
        trainer = self._make_trainer()
        if kwargs.pop("merge_lora", False) and group.adapter_config is not None:
            self._save_merged(folder)
        else:
            trainer.save_weights(folder)
        if save_optimizer:
            checkpoint = trainer.save(os.path.join(folder, _STATE))
            if Platform.is_master():
                facts = {"checkpoint": Path(checkpoint).name, "cur_step": group.cur_step, "rates": group.optimizer_rates().state(),
                         "consumed_train_samples": consumed_train_samples, "gradient_accumulation_steps": group.gradient_accumulation_steps}
                Path(folder, _STATE, "progress.json").write_text(json.dumps(facts))
        return folder

    def _save_merged(self, folder: str) -> None:
        """The model with its adapter in it, as hone export writes it."""
        with tempfile.TemporaryDirectory(prefix="hone-twinkle-") as own:
            adapter = self._processes.gather(own)[0] if self._processes else own
            self._make_trainer().save_weights(adapter)
            if Platform.is_master():
                run_program("export", "--model", self._model.folder, "--adapters", adapter, "--merge_lora", "true", "--output_dir", folder)
            if self._processes:
                self._processes.gather("merged")

    @remote_function(dispatch="all", collect="first", lazy_collect=False)
    def resume_from_checkpoint(self, checkpoint_dir: str, resume_only_model: bool = False, **kwargs: Any) -> dict[str, Any]:
        """Continues from what save(save_optimizer=True) wrote; returns consumed_train_samples and cur_step."""
        group = self._group(kwargs)
        progress = Path(checkpoint_dir, _STATE, "progress.json")
        if not progress.exists():
            raise CheckpointError(f"{checkpoint_dir} has no {_STATE}/progress.json", "save with save_optimizer=True; add_adapter_to_model(name, folder) takes weights alone")
        facts = json.loads(progress.read_text())
        self._make_trainer().load(progress.parent / facts["checkpoint"])
        if not resume_only_model:
            group.cur_step = facts["cur_step"]
            group.optimizer_rates().restore(facts["rates"])
        return {"consumed_train_samples": facts["consumed_train_samples"], "cur_step": facts["cur_step"]}

    @remote_function(dispatch="all", collect="first", lazy_collect=False)
    def load(self, name: str, output_dir: str | None = None, **kwargs: Any) -> None:
        """resume_from_checkpoint of output_dir/name."""
        self.resume_from_checkpoint(os.path.join(output_dir, name) if output_dir else name, **kwargs)

    @remote_function(dispatch="all", collect="first", lazy_collect=False)
    def get_state_dict(self, **kwargs: Any) -> dict[str, Any]:
        """What trains, by the names of the files, as copies on the host."""
        self._group(kwargs)
        from safetensors.torch import load

        return {name: tensor for file, content in self.export_weights().items() if file.endswith(".safetensors") for name, tensor in load(content).items()}

    @remote_function(dispatch="all", collect="first", lazy_collect=False)
    def export_weights(self, **kwargs: Any) -> dict[str, bytes]:
        """The files of what trains, by their names: for a sampler."""
        self._group(kwargs)
        with tempfile.TemporaryDirectory(prefix="hone-twinkle-") as own:
            folder = Path(self._processes.gather(own)[0] if self._processes else own)
            self._make_trainer().save_weights(folder)
            files = {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}
            if self._processes:
                self._processes.gather("read")  # no process removes what another still reads
        return files
