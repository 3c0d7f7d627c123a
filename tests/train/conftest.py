"""Fixtures of this folder; what tests import lives in train_testing.py, whose name no other folder has."""
from train_testing import dataset, model_folder, sft  # noqa: F401
