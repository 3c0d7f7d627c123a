"""Rows of datasets to trajectories."""
from .base import DataFilter, Preprocessor
from .llm import (AlpacaProcessor, CompetitionMathGRPOProcessor, CompetitionMathProcessor, EmojiDPOProcessor, GSM8KProcessor,
                  SelfCognitionProcessor)
from .olympiad_bench import OlympiadBenchProcessor

__all__ = ["AlpacaProcessor", "CompetitionMathGRPOProcessor", "CompetitionMathProcessor", "DataFilter", "EmojiDPOProcessor", "GSM8KProcessor", "OlympiadBenchProcessor",
           "Preprocessor", "SelfCognitionProcessor"]
