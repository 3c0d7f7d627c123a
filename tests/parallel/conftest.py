"""Fixtures of this folder; what tests import lives in parallel_testing.py, whose name no other folder has."""
from hosts_testing import hosts  # noqa: F401
from parallel_testing import dataset, model_folder, reference, train  # noqa: F401
