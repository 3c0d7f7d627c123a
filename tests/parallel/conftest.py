"""Fixtures of this folder; what tests import lives in files whose names no other folder has."""
from hosts_testing import hosts  # noqa: F401
from layouts_testing import models, one_process  # noqa: F401
from parallel_testing import dataset, model_folder, reference, train  # noqa: F401
