"""A model of Hugging Face's layout, its adapter, and the steps of its training."""
from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from .... import model as models
from ....errors import UsageError, require
from ....device_mesh import DeviceMesh as Processes
from ....trainer import LoraConfig, Trainer
from ... import loss as losses
from ... import processor as processors
from ... import template as templates
from ...batches import Rows, join_outputs
from ...data_format import ModelOutput
from ...infra import remote_class, remote_function, state
from ...loss import CrossEntropyLoss, Loss
from ...metric import Metric
from ...platform import DeviceMesh
from ...processor import InputProcessor
from ...processes import check_mesh, processes_of
from ...template import Template
from ...utils import construct, local_name, not_supported
from ..files import SavedModel
from ..lora import lora_config
from ..optimizer_group import OptimizerGroup
from ..rates import Rates
from ..skeleton import check_config, module_tree
from .moe.router_replay import RouterReplayAction, take_action

_DTYPES = {"bf16": None, "no": "float32"}  # of mixed_precision: weights as the files have them, or whole ones
_NO_MATTER = ("attn_implementation", "trust_remote_code", "device_map", "low_cpu_mem_usage", "use_cache", "tokenizer_id", "revision")


@remote_class()
class TransformersModel(SavedModel):
    """A language model that trains step by step, on the processes of its mesh."""

    _measures = False  # whether forward_only computes the loss, too

    def __init__(self, model_cls: Any = None, model_id: str | None = None, config: Any = None, device_mesh: DeviceMesh | None = None,
                 mixed_precision: str = "bf16", strategy: str = "accelerate", ddp_config: Any = None, fsdp_config: Any = None,
                 grad_scaler_config: Any = None, memory_efficient_init: bool = False, **kwargs: Any) -> None:
        if model_id is None:
            raise not_supported("a model out of a config", "name its folder or id with model_id")
        require(mixed_precision in _DTYPES, "mixed_precision", mixed_precision, "bf16 or no")
        dtype = kwargs.pop("torch_dtype", kwargs.pop("dtype", None))
        self._router_replay = bool(kwargs.pop("enable_router_replay", False))
        unknown = sorted(set(kwargs) - set(_NO_MATTER))
        if unknown:
            raise not_supported(f"TransformersModel's {unknown[0]}", "leave it out")
        self.model_id = model_id
        self.device_mesh = device_mesh
        check_mesh(device_mesh)
        dtype = _DTYPES[mixed_precision] if dtype in (None, "auto") else str(dtype).removeprefix("torch.")
        self._model = models.Model(local_name(model_id), dtype=dtype)
        if config is not None:
            check_config(config, self._model.folder)
        self._trainer: Trainer | None = None
        self.optimizer_group: dict[str, OptimizerGroup] = {"": OptimizerGroup(template=Template(model_id))}
        self._last: tuple[Rows, dict[str, Any]] | None = None

    @cached_property
    def _processes(self) -> Processes | None:
        """Those that train together; they meet when the first of them needs the others, and the optimizer is known."""
        rates = self._group({}).rates
        return processes_of(self.device_mesh, rates is not None and rates.needs_whole_matrices)

    @cached_property
    def model(self) -> Any:
        """The modules as transformers has them, without weights."""
        return module_tree(self._model.folder)

    # What trains and how.

    def _group(self, kwargs: dict[str, Any]) -> OptimizerGroup:
        name = kwargs.pop("adapter_name", None) or next(iter(self.optimizer_group))
        if name not in self.optimizer_group:
            raise UsageError(f"adapter_name is {name!r}", f"the model has {', '.join(map(repr, self.optimizer_group))}")
        group = self.optimizer_group[name]
        group.gradient_accumulation_steps = kwargs.pop("gradient_accumulation_steps", None) or group.gradient_accumulation_steps
        return group

    def _make_trainer(self) -> Trainer:
        if self._trainer is None:
            group = self._group({})
            self._trainer = Trainer(self._model, group.adapter_config or "full", seed=state.seed, mesh=self._processes, freeze_vit=False, freeze_aligner=False,
                                    **group.optimizer_rates().settings)
        return self._trainer

    @remote_function(dispatch="all")
    def add_adapter_to_model(self, adapter_name: str, config_or_dir: Any, gradient_accumulation_steps: int = 1, **kwargs: Any) -> None:
        """LoRA by peft's configuration, or an adapter's folder to continue with. A model has one adapter."""
        if self._trainer is not None or list(self.optimizer_group) != [""]:
            raise not_supported(f"a second adapter ({adapter_name!r}) on one model", "load the model once more; hone serve-tinker trains many at once")
        group = self.optimizer_group.pop("")
        if isinstance(config_or_dir, (str, os.PathLike)):
            saved = json.loads(Path(config_or_dir, "adapter_config.json").read_text())
            group.adapter_config = LoraConfig(rank=saved["r"], alpha=saved["lora_alpha"], dropout=saved["lora_dropout"], adapters=[os.fspath(config_or_dir)])
        else:
            group.adapter_config = lora_config(config_or_dir, self._model.parameters())
        group.adapter_name, group.gradient_accumulation_steps = adapter_name, gradient_accumulation_steps
        self.optimizer_group[adapter_name] = group

    @remote_function(dispatch="all")
    def set_optimizer(self, optimizer_cls: Any = "AdamW", **kwargs: Any) -> None:
        """AdamW by class or name, with lr, weight_decay, betas and eps."""
        group = self._group(kwargs)  # which takes the adapter's name out of them
        group.rates = Rates(optimizer_cls, **kwargs)

    @remote_function(dispatch="all")
    def set_lr_scheduler(self, scheduler_cls: Any, **kwargs: Any) -> None:
        """Any scheduler of torch, LinearWarmupScheduler, CosineWarmupScheduler, or default (Megatron's cosine)."""
        group = self._group(kwargs)
        group.optimizer_rates().set_schedule(scheduler_cls, **kwargs)

    @remote_function(dispatch="all")
    def set_loss(self, loss_cls: Any, **kwargs: Any) -> None:
        """A loss by instance, class or name."""
        group = self._group(kwargs)
        group.loss_instance = construct(loss_cls, Loss, losses, **kwargs)

    @remote_function(dispatch="all")
    def set_template(self, template_cls: Any, **kwargs: Any) -> None:
        """What encodes rows that are conversations."""
        group = self._group(kwargs)
        group.template = construct(template_cls, Template, templates, **{**kwargs, "model_id": self.model_id})

    @remote_function(dispatch="all")
    def set_processor(self, processor_cls: Any, **kwargs: Any) -> None:
        """Taken for the sake of scripts: hone puts sequences end to end by itself."""
        self._group(kwargs)
        made = construct(processor_cls, InputProcessor, processors, **kwargs)
        if type(made).__call__ is not InputProcessor.__call__:
            raise not_supported(f"the processor {type(made).__name__}", "change the rows before they are passed to the model")

    @remote_function(dispatch="all")
    def add_metric(self, metric_cls: Any, is_training: bool | None = None, **kwargs: Any) -> None:
        """Another metric, by class or instance; it sees labels and log-probabilities."""
        from ... import metric

        group = self._group(kwargs)
        group.metrics.append(construct(metric_cls, Metric, metric, device_mesh=self.device_mesh, process_group=None, **kwargs))

    @remote_function(dispatch="all")
    def apply_patch(self, patch_cls: Any, **kwargs: Any) -> None:
        """hone's models are not torch modules."""
        raise not_supported(f"the patch {getattr(patch_cls, '__name__', patch_cls)}", "leave it out")

    # Passes.

    def _rows(self, inputs: Any, group: OptimizerGroup, action: RouterReplayAction | None = None) -> Rows:
        return Rows.of(inputs, group.template, replays=action is RouterReplayAction.REPLAY_FORWARD)

    @remote_function(dispatch="slice_dp", collect=join_outputs)
    def forward_only(self, *, inputs: Any, disable_lora: bool = False, **kwargs: Any) -> ModelOutput:
        """Log-probabilities of the labels, without gradients; `disable_lora`: of the model beneath the adapter. With `router_replay_action` RECORD also
        `routed_experts`, [rows, tokens, layers with experts, experts of a token]."""
        group = self._group(kwargs)
        action = take_action(kwargs, self._router_replay, may_record=True)
        rows = self._rows(inputs, group, action)
        temperature = kwargs.get("temperature", 1.0)
        routed = None
        if action is RouterReplayAction.RECORD:
            if disable_lora or group.rates is None:
                raise not_supported("RouterReplayAction.RECORD of a model that does not train", "record with the adapter, after set_optimizer()")
            packed, routed = self._make_trainer().routed_logprobs(rows.batch, temperature)
        elif disable_lora and group.adapter_config is not None:
            packed = self._make_trainer().base_logprobs(rows.batch, temperature)
        elif group.rates is not None:
            packed = self._make_trainer().evaluated_logprobs(rows.batch, temperature)
        else:
            packed = self._model.logprobs(rows.batch, temperature)
        outputs = ModelOutput(logps=rows.padded(packed).cpu()[:len(rows.features)])
        if routed is not None:
            outputs["routed_experts"] = rows.padded(routed, -1).cpu()[:len(rows.features)]
        self._last = rows, {"outputs": outputs, "training": False}
        if self._measures and not disable_lora and type(group.loss_instance) is CrossEntropyLoss:
            self._measure(group, {})
        return outputs

    @remote_function(dispatch="slice_dp", collect=join_outputs)
    def forward(self, *, inputs: Any, **kwargs: Any) -> ModelOutput:
        """Log-probabilities whose loss calculate_loss() computes, for backward()."""
        group = self._group(kwargs)
        rows = self._rows(inputs, group, take_action(kwargs, self._router_replay))
        outputs = rows.outputs(self._make_trainer(), group.loss_instance, kwargs, kwargs.get("temperature", 1.0))
        self._last = rows, {"outputs": outputs, "training": True}
        return ModelOutput(**{name: value.detach().cpu() for name, value in outputs.items() if value is not None})

    @remote_function(dispatch="slice_dp", collect="mean")
    def calculate_loss(self, **kwargs: Any) -> float:
        """The loss of the last forward or forward_only."""
        group = self._group(kwargs)
        return self._measure(group, kwargs)

    def _measure(self, group: OptimizerGroup, extra: Mapping[str, Any]) -> float:
        if self._last is None:
            raise UsageError("there is no pass to compute a loss of", "call forward() first")
        rows, last = self._last
        last["loss"], last["items"] = rows.loss(group.loss_instance, last["outputs"], extra)
        value: float = float(last["loss"].detach()) / max(last["items"], 1)
        last["outputs"]["loss"] = value
        if not last["training"]:
            group.evaluation.add_pass({"loss": value}, last["items"])
        return value

    @remote_function(dispatch="all")
    def backward(self, **kwargs: Any) -> None:
        """The gradients of what calculate_loss() computed."""
        group = self._group(kwargs)
        if self._last is None or "loss" not in self._last[1]:
            raise UsageError("there is no loss", "call forward() and calculate_loss() first")
        rows, last = self._last
        self._make_trainer().backward(last["loss"], last["items"])
        self._last = None
        group.cur_step += 1
        group.figures.add_pass({"loss": last["outputs"]["loss"]}, last["items"])

    @remote_function(dispatch="slice_dp", collect=join_outputs)
    def forward_backward(self, *, inputs: Any, micro_batch_size: int | None = None, **kwargs: Any) -> ModelOutput:
        """Adds the gradients of rows, `micro_batch_size` at a time, and returns their `loss` and, unless that is cross entropy alone, `logps`. What else
        the loss needs is given by name: advantages, old_logps, ref_logps, ref_outputs …"""
        group = self._group(kwargs)
        kwargs.pop("task", None)
        action = take_action(kwargs, self._router_replay)
        trainer = self._make_trainer()
        plain = type(group.loss_instance) is CrossEntropyLoss and not group.loss_instance.dft and not group.metrics
        parts = list(self._rows(inputs, group, action).split(micro_batch_size, kwargs))
        items, passes = 1.0, []
        if plain:
            figures = trainer.forward_backward([rows.batch for rows, _ in parts])
        else:
            total = items = 0.0
            for rows, extra in parts:
                outputs = rows.outputs(trainer, group.loss_instance, extra, extra.pop("temperature", 1.0))
                loss, count = rows.loss(group.loss_instance, outputs, extra)
                trainer.backward(loss, count)
                total, items = total + float(loss.detach()), items + count
                if outputs["logps"] is not None:
                    passes.append(ModelOutput(logps=outputs["logps"].detach().cpu()[:len(rows.features)]))
                for metric in group.metrics:
                    metric.accumulate({"labels": rows.labels}, outputs, **extra)
            figures = {"loss": total / max(items, 1)}
        group.cur_step += 1
        group.figures.add_pass(figures, items)
        return ModelOutput(**{"logps": None, **(join_outputs(passes) if passes else {}), "loss": figures["loss"]})

    # Updates. Before enough passes were made they do nothing.

    @remote_function(dispatch="all", collect="first")
    def clip_grad_norm(self, max_grad_norm: float = 1.0, norm_type: int = 2, **kwargs: Any) -> float | None:
        """Scales gradients down to a norm, and returns the one that they had."""
        group = self._group(kwargs)
        require(norm_type == 2, "norm_type", norm_type, "2")
        if not group.update_is_due():
            return None
        norm = self._make_trainer().clip_grad_norm(max_grad_norm)
        group.figures.add_update(norm)
        return norm

    @remote_function(dispatch="all")
    def step(self, optim_params: Mapping[str, Any] | None = None, **kwargs: Any) -> None:
        """Updates the weights."""
        group = self._group(kwargs)
        if group.update_is_due():
            rate = (optim_params or {}).get("lr", group.optimizer_rates().learning_rate)
            self._make_trainer().step(rate)
            group.optimizer_rates().updated()

    @remote_function(dispatch="all")
    def zero_grad(self, **kwargs: Any) -> None:
        """Forgets the gradients."""
        if self._group(kwargs).update_is_due():
            self._make_trainer().zero_grad()

    @remote_function(dispatch="all")
    def lr_step(self, **kwargs: Any) -> None:
        """The next rate."""
        group = self._group(kwargs)
        if group.update_is_due():
            group.optimizer_rates().advance()

    @remote_function(dispatch="all", collect="first")
    def clip_grad_and_step(self, max_grad_norm: float = 1.0, norm_type: int = 2, **kwargs: Any) -> float | None:
        """clip_grad_norm, step, zero_grad and lr_step."""
        norm: float | None = self.clip_grad_norm(max_grad_norm, norm_type, **kwargs)
        self.step(**kwargs)
        self.zero_grad(**kwargs)
        self.lr_step(**kwargs)
        return norm

    # Figures.

    @remote_function(dispatch="all", collect="first", lazy_collect=False)
    def calculate_metric(self, is_training: bool = True, **kwargs: Any) -> dict[str, Any]:
        """The figures since the last call."""
        group = self._group(kwargs)
        rate = group.rates.learning_rate if group.rates else 0.0
        own = group.figures if is_training else group.evaluation
        metrics = group.metrics if is_training else []
        self._add_up([own, *metrics])
        figures = own.report(rate, group.cur_step // group.gradient_accumulation_steps)
        for metric in metrics:
            figures |= metric.calculate()
            metric.reset()
        return figures

    def _add_up(self, metrics: list[Metric]) -> None:
        """What processes gathered, on all of them: of those that compute the same rows the first one's counts."""
        if self._trainer is None or self._processes is None:
            return
        texts = self._processes.gather(json.dumps([self._processes.data_rank, *(metric.sums() for metric in metrics)]))
        found = {rank: sums for rank, *sums in reversed([json.loads(text) for text in texts])}
        for number, metric in enumerate(metrics):
            known = [sums[number] for sums in found.values() if sums[number]]
            if known:
                metric.take_sums({name: (max if name.startswith("max_") else sum)(each.get(name, 0.0) for each in known)
                                  for name in {name for each in known for name in each}})

    @remote_function(dispatch="all", collect="first", lazy_collect=False)
    def get_train_configs(self, **kwargs: Any) -> str:
        """What trains and how, as text."""
        group = self._group(kwargs)
        lines = [f"model: {self._model!r}", f"adapter: {group.adapter_config or 'none, all weights train'}",
                 f"gradient accumulation steps: {group.gradient_accumulation_steps}", f"loss: {type(group.loss_instance).__name__}"]
        if group.rates:
            lines += [f"optimizer: {group.rates.settings}", f"lr scheduler: {group.rates.schedule_name}"]
        return "\n".join(lines)

    @property
    def hone_model(self) -> models.Model:
        """The model itself, for what else hone can do."""
        return self._model

