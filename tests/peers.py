"""Runs ms-swift and LLaMA-Factory if HONE_PEERS_PYTHON names Python programs (separated by ":") whose environments have them.

A test that uses one has @pytest.mark.peer("swift"), ("llamafactory") or ("tinker_cookbook"); if it is missing, the test is skipped before its fixtures are made."""
import functools
import os
import subprocess

import pytest


@functools.cache
def find_python(module):
    for python in filter(None, os.environ.get("HONE_PEERS_PYTHON", "").split(":")):
        if subprocess.run([python, "-c", f"import importlib.util,sys; sys.exit(importlib.util.find_spec('{module}') is None)"]).returncode == 0:
            return python
    return None


def python_with(module):
    return find_python(module) or pytest.skip(f"HONE_PEERS_PYTHON names no Python with {module}")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    for mark in item.iter_markers("peer"):
        python_with(mark.args[0])
