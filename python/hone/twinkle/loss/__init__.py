"""Losses over rows, whose labels are -100 where nothing is learned."""
from typing import Any

from ..utils import not_supported
from .base import Loss
from .cross_entropy import ChunkedCrossEntropyLoss, CrossEntropyLoss, LigerFusedLinearCrossEntropyLoss
from .distillation import GKDLoss
from .policy import BNPOLoss, CISPOLoss, DRGRPOLoss, GRPOLoss, GSPOLoss, PPOLoss, SAPOLoss
from .preference import CPOLoss, DPOLoss, ORPOLoss, SimPOLoss

__all__ = ["BNPOLoss", "CISPOLoss", "CPOLoss", "ChunkedCrossEntropyLoss", "CrossEntropyLoss", "DPOLoss", "DRGRPOLoss", "GKDLoss", "GRPOLoss", "GSPOLoss",
           "LigerFusedLinearCrossEntropyLoss", "Loss", "ORPOLoss", "PPOLoss", "SAPOLoss", "SimPOLoss"]
_ELSEWHERE = {"InfonceLoss": "hone sft --task_type embedding", "MSELoss": "hone sft --task_type seq_cls --problem_type regression",
              "PPOValueLoss": "hone rlhf --rlhf_type ppo"}


def __getattr__(name: str) -> Any:
    if name in _ELSEWHERE:
        raise not_supported(name, f"train with {_ELSEWHERE[name]}")
    raise AttributeError(f"hone's twinkle.loss has no {name!r}")
