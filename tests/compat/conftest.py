"""Fixtures of this folder; what tests import lives in compat_testing.py, whose name no other folder has."""
from compat_testing import resolve, rows  # noqa: F401
