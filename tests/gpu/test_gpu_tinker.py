"""Tenants of `hone serve-tinker` on an NVIDIA GPU: adapters of different ranks and layers in one pass. `make test-gpu` runs this where there is one."""
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "serve"))
from tenants import expect_runs_together_as_alone  # noqa: E402

pytestmark = pytest.mark.skipif(not Path("/dev/nvidia0").exists(), reason="no NVIDIA GPU")


@pytest.mark.parametrize("dtype, tolerance", [("float32", 2e-5), ("bfloat16", 2e-2)])
def test_runs_of_different_ranks_equal_runs_alone(tmp_path, dtype, tolerance):
    expect_runs_together_as_alone(tmp_path, "cuda:0", dtype, tolerance)
