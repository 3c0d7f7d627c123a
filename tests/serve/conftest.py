"""Fixtures of this folder; what tests import lives in serve_testing.py, whose name no other folder has."""
from serve_testing import endless, serve, server  # noqa: F401
