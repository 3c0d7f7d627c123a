"""Fixtures of this folder; what tests import lives in tinker_testing.py, whose name no other folder has."""
from tinker_testing import server, tokenizer  # noqa: F401
