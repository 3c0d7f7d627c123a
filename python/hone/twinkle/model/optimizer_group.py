"""What belongs to an adapter that trains."""
from __future__ import annotations

from dataclasses import dataclass, field

from ...errors import UsageError
from ...trainer import LoraConfig
from ..loss import CrossEntropyLoss, Loss
from ..metric import Metric, TrainFigures
from ..template import Template
from .rates import Rates


@dataclass
class OptimizerGroup:
    """What belongs to the adapter that trains."""

    adapter_name: str = ""
    adapter_config: LoraConfig | None = None
    gradient_accumulation_steps: int = 1
    cur_step: int = 0  # passes so far
    rates: Rates | None = None
    loss_instance: Loss = field(default_factory=CrossEntropyLoss)
    template: Template | None = None
    figures: TrainFigures = field(default_factory=TrainFigures)
    evaluation: TrainFigures = field(default_factory=TrainFigures)
    metrics: list[Metric] = field(default_factory=list)

    def optimizer_rates(self) -> Rates:
        """The optimizer's settings and schedule, which must be there by now."""
        if self.rates is None:
            raise UsageError("the model has no optimizer", "call set_optimizer('AdamW', lr=…) first")
        return self.rates

    def update_is_due(self) -> bool:
        """Whether the passes since the last update are as many as an update takes."""
        return self.cur_step > 0 and self.cur_step % self.gradient_accumulation_steps == 0
