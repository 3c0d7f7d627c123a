"""Advantages under the names of older scripts."""
from .advantage import Advantage, GRPOAdvantage, RLOOAdvantage

__all__ = ["Advantage", "GRPOAdvantage", "RLOOAdvantage", "compute_advantages", "compute_advantages_rloo"]

compute_advantages = GRPOAdvantage()
compute_advantages_rloo = RLOOAdvantage()
