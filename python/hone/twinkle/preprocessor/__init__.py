"""Rows of datasets to trajectories."""
from .base import DataFilter, Preprocessor
from .llm import (AlpacaProcessor, CompetitionMathGRPOProcessor, CompetitionMathProcessor, EmojiDPOProcessor, GSM8KProcessor,
                  SelfCognitionProcessor)

__all__ = ["AlpacaProcessor", "CompetitionMathGRPOProcessor", "CompetitionMathProcessor", "DataFilter", "EmojiDPOProcessor", "GSM8KProcessor",
           "Preprocessor", "SelfCognitionProcessor"]
