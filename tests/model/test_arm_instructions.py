"""Matrix kernels for Arm's newer instructions (I8MM, BF16, SVE), which a machine may lack, on an emulated processor that has them all."""
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OPS_TEST = Path(os.environ.get("HONE_BIN", ROOT / "build/bin/hone")).parents[1] / "ops_test"


def test_matrix_kernels_on_a_processor_with_every_instruction():
    if os.uname().machine != "aarch64":
        pytest.skip("the programs here are not for Arm")
    if not shutil.which("qemu-aarch64-static"):
        pytest.fail("qemu-aarch64-static is not installed; make setup-tests")
    command = ["qemu-aarch64-static", "-cpu", "max,sve-default-vector-length=32", OPS_TEST, "--gtest_filter=Arm*:FourBitKernels.*"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0 and re.search(r"\[  PASSED  \] [5-9]", done.stdout), done.stdout[-3000:] + done.stderr[-2000:]
    assert "SKIPPED" not in done.stdout
