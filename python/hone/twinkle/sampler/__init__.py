"""Samplers. hone's engine answers under each of Twinkle's names."""
from .engine import Sampler, TorchSampler, VLLMSampler, vLLMSampler

__all__ = ["Sampler", "TorchSampler", "VLLMSampler", "vLLMSampler"]
