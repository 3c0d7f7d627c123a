"""The pieces of a training step."""
from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .data import Batch, DataLoader, require_batch
from .errors import UsageError, require, require_type
from .library import _hone
from .model import Model

if TYPE_CHECKING:
    import torch

    from .device_mesh import DeviceMesh


@dataclass
class LoraConfig:
    """What LoRA attaches; defaults are those of `hone sft`."""

    rank: int = 8
    alpha: float = 32.0
    dropout: float = 0.05
    target_modules: str | Sequence[str] = ("all-linear",)
    target_parameters: Sequence[str] = ()  # ends of names: weights of all experts, stacked (mlp.experts.down_proj)
    modules_to_save: Sequence[str] = ()
    use_rslora: bool = False
    use_dora: bool = False
    init_weights: str = "true"
    adapters: Sequence[str] = field(default=())  # folders: the last is trained on, those before it are merged

    def __post_init__(self) -> None:
        for name in ("target_modules", "target_parameters", "modules_to_save", "adapters"):
            if isinstance(value := getattr(self, name), str):  # one name, as in peft
                setattr(self, name, (value,))


class Trainer:
    """Trains a model by steps that the caller writes: `forward_backward`, `clip_grad_norm`, `step`, `lr_step`, `zero_grad`.

    Numbers are those of `hone sft` with the same settings. A model has one trainer.
    """

    def __init__(self, model: Model, tuner: LoraConfig | str = LoraConfig(), *, learning_rate: float | None = None, total_steps: int = 0,
                 lr_scheduler: str | None = None, warmup_steps: float = 0, warmup_ratio: float = 0, optimizer: str = "adamw_torch",
                 weight_decay: float = 0.1, adam_beta1: float = 0.9, adam_beta2: float = 0.95, adam_epsilon: float = 1e-8,
                 gradient_checkpointing: bool = True, master_weights: bool = False, seed: int = 42, mesh: DeviceMesh | None = None,
                 freeze_llm: bool = False, freeze_vit: bool = True, freeze_aligner: bool = True) -> None:
        """`tuner`: a LoraConfig, or "full". `learning_rate` None: 1e-4, of full tuning 1e-5. `total_steps` is how long the schedule lasts;
        `lr_scheduler` None: cosine, and constant without `total_steps`. `mesh`: processes that train together; each makes the same calls with
        rows of its own, and losses, gradients and norms are those of all. `freeze_llm`, `freeze_vit` and `freeze_aligner`: parts of a model
        with towers that do not train, as in `hone sft`."""
        require_type(model, Model, "model", "a hone.Model")
        full = tuner == "full"
        if isinstance(tuner, LoraConfig):
            require_type(tuner.rank, (int, np.integer), "rank", "1 or more")
            require(tuner.rank >= 1, "rank", tuner.rank, "1 or more")
            require(tuner.alpha > 0, "alpha", tuner.alpha, "a number above 0")
            require(0 <= tuner.dropout < 1, "dropout", tuner.dropout, "a number from 0 to below 1")
        elif not full:
            raise UsageError(f"tuner is {tuner!r}", 'expected a LoraConfig or "full"')
        require(learning_rate is None or 0 <= learning_rate < float("inf"), "learning_rate", learning_rate, "a number, 0 or more")
        require(seed >= 0, "seed", seed, "0 or more")
        for name, beta in (("adam_beta1", adam_beta1), ("adam_beta2", adam_beta2)):
            require(0 <= beta < 1, name, beta, "a number from 0 to below 1")
        for name, value in (("adam_epsilon", adam_epsilon), ("weight_decay", weight_decay), ("warmup_steps", warmup_steps)):
            require(0 <= value < float("inf"), name, value, "a number, 0 or more")
        require(0 <= warmup_ratio <= 1, "warmup_ratio", warmup_ratio, "a number from 0 to 1")
        if lr_scheduler is None:
            lr_scheduler = "cosine" if total_steps > 0 else "constant"
        if total_steps <= 0 and lr_scheduler not in ("constant", "constant_with_warmup", "inverse_sqrt"):
            raise UsageError(f"lr_scheduler is {lr_scheduler} and total_steps is {total_steps}", "say how many steps the schedule lasts")
        lora = {**asdict(tuner), "rank": int(tuner.rank)} if isinstance(tuner, LoraConfig) else {}
        adapters = list(lora.pop("adapters", ()))
        self.model = model
        settings = {"tuner": "full" if full else "lora", "lora": lora, "adapters": [os.fspath(folder) for folder in adapters],
                    "learning_rate": learning_rate if learning_rate is not None else 1e-5 if full else 1e-4, "total_steps": total_steps,
                    "lr_scheduler": lr_scheduler, "warmup_steps": warmup_steps, "warmup_ratio": warmup_ratio, "optimizer": optimizer,
                    "weight_decay": weight_decay, "adam_beta1": adam_beta1, "adam_beta2": adam_beta2, "adam_epsilon": adam_epsilon,
                    "gradient_checkpointing": gradient_checkpointing, "master_weights": master_weights, "seed": seed, "freeze_llm": freeze_llm,
                    "freeze_vit": freeze_vit, "freeze_aligner": freeze_aligner}
        settings["args"] = {"model": model.folder, **{name: value for name, value in settings.items() if name not in ("lora", "adapters")}}
        self._trainer = _hone.Trainer.make(model._model, json.dumps(settings), mesh._processes if mesh else None)

    def __repr__(self) -> str:
        return f"Trainer({self.model!r}, step {self.global_step}, {self._trainer.summary})"

    def forward_backward(self, batch: Batch | Sequence[Batch]) -> dict[str, float]:
        """Adds the gradients of a batch, or of several micro-batches; returns their mean loss and metrics such as token_acc.

        Called more than once before a step, the gradient is that of the mean over the labeled tokens of all calls.
        """
        return self._trainer.forward_backward(_batches(batch), True)

    def evaluate(self, batch: Batch | Sequence[Batch]) -> dict[str, float]:
        """The mean loss and metrics, without gradients and dropout."""
        return self._trainer.forward_backward(_batches(batch), False)

    def logprobs(self, batch: Batch, temperature: float = 1.0) -> torch.Tensor:
        """log p(target) of every position, float32 [tokens], 0 where there is no target, with a gradient: for a loss of your own, which
        `backward` takes."""
        require_batch(batch)
        _require_temperature(temperature)
        return self._trainer.logprobs(batch._batch, temperature)

    def evaluated_logprobs(self, batch: Batch, temperature: float = 1.0) -> torch.Tensor:
        """The same without gradients and dropout."""
        require_batch(batch)
        _require_temperature(temperature)
        return self._trainer.evaluated_logprobs(batch._batch, temperature)

    def routed_logprobs(self, batch: Batch, temperature: float = 1.0) -> tuple[torch.Tensor, torch.Tensor]:
        """`evaluated_logprobs`, and the experts that each token chose, int64 [tokens, layers with experts, experts of a token]: as `routed_experts` of rows
        they are taken again in another pass. Not with pipeline stages (`pp`)."""
        require_batch(batch)
        _require_temperature(temperature)
        return self._trainer.routed_logprobs(batch._batch, temperature)

    def logits(self, batch: Batch, token_ids: torch.Tensor | None = None) -> torch.Tensor:
        """Logits of every position with a gradient, float32 [tokens, vocabulary], or of the tokens that `token_ids` names for each position,
        int64 [tokens, k]: those of the others are never all there. For distillation, and losses that look beyond the targets."""
        require_batch(batch)
        if token_ids is None:
            return self._trainer.logits(batch._batch)
        return self._trainer.token_logits(batch._batch, token_ids)

    def base_logprobs(self, batch: Batch, temperature: float = 1.0) -> torch.Tensor:
        """Those of the model beneath the adapter that trains, without gradients: what a reference says."""
        require_batch(batch)
        _require_temperature(temperature)
        return self._trainer.base_logprobs(batch._batch, temperature)

    def backward(self, loss: torch.Tensor, num_items: float = 1) -> None:
        """Adds the gradients of a loss of your own, out of `logprobs` or `logits`: a sum over `num_items`, by which it is divided with those of
        other calls. Processes that compute the same rows (`sp`, `cp`, `tp`, `pp`) all pass the same loss."""
        require(0 <= num_items < float("inf"), "num_items", num_items, "a number, 0 or more")  # 0: this process has no rows
        self._trainer.backward(loss, num_items)

    def clip_grad_norm(self, max_norm: float = 1.0) -> float:
        """Scales gradients down to `max_norm` and returns the norm they had."""
        return self._trainer.clip_grad_norm(max_norm)

    def step(self, learning_rate: float | None = None) -> bool:
        """Updates the weights by the schedule's rate or the one given. False: a gradient is not finite, and nothing changed."""
        require(learning_rate is None or 0 <= learning_rate < float("inf"), "learning_rate", learning_rate, "a number, 0 or more")
        return self._trainer.step(learning_rate)

    def zero_grad(self) -> None:
        """Forgets the gradients."""
        self._trainer.zero_grad()

    def lr_step(self) -> None:
        """The next rate of the schedule."""
        self._trainer.lr_step()

    def train_step(self, batch: Batch | Sequence[Batch], max_grad_norm: float = 1.0) -> dict[str, float]:
        """All of the above in their order, one update: what `hone sft` does. Metrics with grad_norm and learning_rate."""
        metrics = self.forward_backward(batch)
        metrics["grad_norm"] = self.clip_grad_norm(max_grad_norm)
        metrics["learning_rate"] = self.learning_rate
        self.step()
        self.lr_step()
        self.zero_grad()
        return metrics

    @property
    def learning_rate(self) -> float:
        """The rate of the next step."""
        return self._trainer.learning_rate

    @property
    def global_step(self) -> int:
        """Steps so far."""
        return self._trainer.global_step

    def parameters(self) -> dict[str, torch.Tensor]:
        """What trains, by the names of the files; the tensors themselves, with their gradients."""
        return dict(self._trainer.trainable())

    def state(self) -> dict[str, Any]:
        """Step, rate and the optimizer's tensors (not copies)."""
        return {"global_step": self.global_step, "learning_rate": self.learning_rate, "optimizer": dict(self._trainer.optimizer_state())}

    def save(self, folder: str | os.PathLike[str], loader: DataLoader | None = None) -> str:
        """Writes `folder`/checkpoint-STEP, whole or not at all, and returns its path: an adapter as PEFT has it or a full model, and what
        `load` needs, with the position of `loader`. `hone infer --adapters` reads it."""
        return self._trainer.save(os.fspath(folder), loader._loader if loader else None)

    def save_weights(self, folder: str | os.PathLike[str]) -> None:
        """Writes what trained into `folder` itself, an adapter as PEFT has it or a full model, without what `load` needs."""
        self._trainer.save_weights(os.fspath(folder))

    def load(self, checkpoint: str | os.PathLike[str], loader: DataLoader | None = None) -> None:
        """Continues exactly where a trainer of the same settings was when it saved."""
        self._trainer.load(os.fspath(checkpoint), loader._loader if loader else None)


def _require_temperature(temperature: float) -> None:
    require(0 < temperature < float("inf"), "temperature", temperature, "a number above 0")


def _batches(batch: Batch | Sequence[Batch]) -> list[Any]:
    batches = [batch] if isinstance(batch, (Batch, Mapping, str)) or not isinstance(batch, Iterable) else list(batch)
    if not batches:
        raise UsageError("there are no batches", "give one or more")
    for each in batches:
        require_batch(each)
    return [each._batch for each in batches]
