"""hone doctor and hone sft on machines that are not as they should be: each fault is named, with its fix. The machines are folders (HONE_MACHINE_ROOT)."""
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NODES = ("davinci0", "davinci_manager", "devmm_svm", "hisi_hdc")
MOUNTS = ("usr/local/Ascend/driver/version.info", "usr/local/dcmi/libdcmi.so", "usr/local/bin/npu-smi", "etc/ascend_install.info")


@pytest.fixture
def machine(tmp_path):
    """A machine with one card, its driver, and a toolkit."""
    for path in [*(f"dev/{node}" for node in NODES), *MOUNTS]:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    (tmp_path / "usr/local/Ascend/driver/version.info").write_text("Version=25.5.0\n")
    toolkit = tmp_path / "usr/local/Ascend/ascend-toolkit/latest"
    toolkit.mkdir(parents=True)
    (toolkit / "ascend_toolkit_install.info").write_text("version=9.1.0\n")
    return tmp_path


def sourced(machine):
    toolkit = machine / "usr/local/Ascend/ascend-toolkit/latest"
    (toolkit / "lib64").mkdir()
    (toolkit / "lib64/libascendcl.so").touch()  # found by its name; nothing is loaded unless all else is sound
    return {"ASCEND_HOME_PATH": toolkit, "LD_LIBRARY_PATH": toolkit / "lib64"}


def doctor(hone, machine, env=None, **more):
    done = hone("doctor", env={"HONE_MACHINE_ROOT": machine, "NO_COLOR": "1", **(env or {})}, **more)
    return done.stdout


def found(text, subject, *what):
    lines = text.splitlines()
    start = next((i for i, line in enumerate(lines) if re.search(rf"✗ +{subject}", line)), None)
    assert start is not None, text
    around = " ".join(" ".join(lines[start:start + 6]).split())
    assert all(word in around for word in what), f"{what} not in {around}"


def test_environment_not_sourced(hone, machine):
    found(doctor(hone, machine), "CANN", "its environment is not set", "set_env.sh")


def test_toolkit_absent(hone, machine):
    (machine / "usr/local/Ascend/ascend-toolkit/latest/ascend_toolkit_install.info").unlink()
    (machine / "usr/local/Ascend/ascend-toolkit/latest").rmdir()
    found(doctor(hone, machine), "CANN", "but no toolkit", "install CANN")


def test_nodes_that_go_with_a_card(hone, machine):
    (machine / "dev/hisi_hdc").unlink()
    found(doctor(hone, machine), "NPU device files", "/dev/hisi_hdc", "hone docker-run")


def test_permission(hone, machine):
    with tempfile.TemporaryDirectory() as name:  # where somebody else may look
        place = Path(name) / "machine"
        shutil.copytree(machine, place)
        Path(name).chmod(0o755), place.chmod(0o755)
        (place / "dev/davinci0").chmod(0)
        somebody = ["setpriv", "--reuid=65534", "--clear-groups"] if os.geteuid() == 0 else []  # root may open everything
        if somebody and (not shutil.which("setpriv") or subprocess.run([*somebody, hone.path, "version"], capture_output=True).returncode):
            pytest.skip("only root can run hone here")
        done = subprocess.run([*somebody, hone.path, "doctor"], capture_output=True, text=True,
                              env={**os.environ, "HONE_MACHINE_ROOT": str(place), "NO_COLOR": "1", "HOME": name})
    found(done.stdout, "NPU device files", "may not be opened: /dev/davinci0", "HwHiAiUser")


def test_container_without_its_mounts(hone, machine):
    (machine / ".dockerenv").touch()
    (machine / "usr/local/bin/npu-smi").unlink()
    found(doctor(hone, machine), "container", "/usr/local/bin/npu-smi", "-v /usr/local/bin/npu-smi:/usr/local/bin/npu-smi:ro")


def test_driver_absent(hone, machine):
    (machine / "usr/local/Ascend/driver/version.info").unlink()
    assert re.search(r"NPU driver +no version file", doctor(hone, machine))


def test_versions_that_do_not_belong_together(hone, machine):
    env = sourced(machine)
    (machine / "usr/local/Ascend/ascend-toolkit/latest/ascend_toolkit_install.info").write_text("version=8.1.RC1\n")
    found(doctor(hone, machine, env), "CANN and torch_npu", "CANN 8.1.RC1", "built for CANN 9.1.0")
    package = machine / "packages/torch_npu"
    (package / "lib").mkdir(parents=True)
    (package / "lib/libtorch_npu.so").touch()
    (package / "version.py").write_text("__version__ = '2.7.1'\n")
    found(doctor(hone, machine, {**env, "HONE_TORCH_NPU": machine / "packages"}), "torch_npu", "does not fit libtorch", "pip install torch_npu==")


def test_libraries_that_are_not_what_they_seem(hone, machine):
    found(doctor(hone, machine, sourced(machine)), "NPU available", "could not be loaded", "hone doctor")


def test_training_reports_the_same(hone, machine, tmp_path):
    (machine / "dev/devmm_svm").unlink()
    done = hone("sft", "--model", ROOT / "models/nano", "--dataset", ROOT / "data/demo.jsonl", "--device", "npu", "--output_dir", tmp_path / "out",
                env={"HONE_MACHINE_ROOT": machine, **sourced(machine)})
    assert done.returncode == 2 and "/dev/devmm_svm is missing next to the cards" in done.stderr, done.stderr[-2000:]
