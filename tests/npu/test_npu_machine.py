"""doctor, devices, docker-run and npu-smi on emulated cards; the guides' own Python check; HCCL through torch.distributed."""
import json
import re
import shlex
import sys
from pathlib import Path

import pytest
from workers import free_port

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("first", ["import torch", "import ctypes; ctypes.CDLL('libascendcl.so', ctypes.RTLD_GLOBAL)"], ids=["torch_first", "cann_first"])
def test_verify_npu(npu_python, first):
    code = """import torch, torch_npu
print(torch.npu.is_available())
print(torch.npu.device_count())
print((torch.ones(2).npu() + 1).cpu().tolist())
import re
print(*{line.split()[-1] for line in open('/proc/self/maps') if re.match('lib(g|i)?omp', line.rpartition('/')[2])}, sep=' and ')"""
    done = npu_python("-c", first + "\n" + code)
    *_, available, cards, sum_of_ones, openmp = done.stdout.splitlines()
    assert (available, cards, sum_of_ones) == ("True", "8", "[2.0, 2.0]"), done.stdout + done.stderr[-2000:]
    assert openmp.startswith("/") and " and " not in openmp, f"torch, torch_npu and the emulated CANN use different OpenMP runtimes: {openmp}"


@pytest.mark.parametrize("settings", ["expandable_segments:False", "expandable_segments:True"], ids=["blocks", "virtual"])
def test_memory_of_a_card_is_limited(npu_python, settings):
    code = """import torch, torch_npu
ones = [torch.ones(n << 20, device='npu') for n in (3, 30)]
print(sum(o.sum() for o in ones).item() == 33 << 20)
try: torch.empty(2 << 30, dtype=torch.uint8, device='npu')
except RuntimeError as e: print('out of memory' in str(e))
print(torch.npu.mem_get_info()[1] >> 20)"""
    done = npu_python("-c", code, env={"HONE_EMULATED_HBM": 1024, "PYTORCH_NPU_ALLOC_CONF": settings})
    assert done.stdout.splitlines()[-3:] == ["True", "True", "1024"], done.stderr[-2000:]


def test_host_cannot_touch_device_memory(npu_python):
    done = npu_python("-c", "import ctypes, torch, torch_npu; a = torch.ones(4, device='npu'); torch.npu.synchronize(); ctypes.string_at(a.data_ptr(), 4); print('read')")
    assert done.returncode == 139 and "read" not in done.stdout


def test_collectives(emulated):
    port = free_port()
    script = Path(__file__).with_name("collectives.py")
    line = " & ".join(f"RANK={r} LOCAL_RANK={r} {shlex.quote(sys.executable)} -W ignore {script}" for r in range(2))
    done = emulated(["sh", "-c", line + " & wait"], env={"WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port})
    lines = set(done.stdout.splitlines())
    for rank in range(2):
        for expected in (f"{rank} all_reduce [1.0, 3.0, 5.0, 7.0]", f"{rank} all_reduce_max_bf16 [1.0, 2.0, 3.0, 4.0]",
                         f"{rank} all_gather [0.0, 1.0, 2.0, 3.0, 1.0, 2.0, 3.0, 4.0]", f"{rank} broadcast [1.0, 2.0, 3.0, 4.0]"):
            assert expected in lines, done.stdout + done.stderr[-2000:]
    assert {"0 reduce_scatter [1.0, 3.0]", "1 reduce_scatter [5.0, 7.0]", "0 all_to_all [0.0, 1.0, 1.0, 2.0]", "1 recv [0.0, 1.0, 2.0, 3.0]"} <= lines


def test_doctor(npu):
    done = npu("hone", "doctor")
    for subject in (r"✓ +NPU driver +25\.5\.0", r"✓ +CANN +9\.1\.0", r"✓ +torch_npu +2\.13\.0", r"✓ +NPU available +npu:0 \(Ascend910B3\), 8 visible",
                    r"✓ +NPU computation", r"✓ +fused operators +npu_fusion_attention", r"✓ +Megatron layouts +tensor, pipeline, context and expert parallel over\s+HCCL"):
        assert re.search(subject, done.stdout), done.stdout + done.stderr


def test_doctor_checks_the_cann_version(npu, tmp_path):
    (tmp_path / "ascend_toolkit_install.info").write_text("version=8.0.0\n")
    (tmp_path / "lib64").symlink_to(ROOT / "build/lib/cann")
    done = npu("hone", "doctor", env={"ASCEND_HOME_PATH": tmp_path})
    assert done.returncode == 1 and re.search(r"✗ +CANN and torch_npu", done.stdout) and "built for CANN 9.1.0" in done.stdout, done.stdout


@pytest.mark.parametrize("soc, model, memory", [("910B3", "Ascend 910B3", 64), ("910_9391", "Ascend910", 64), ("310P3", "Ascend 310P3", 24)])
def test_devices(npu, soc, model, memory):
    done = npu("hone", "devices", "--format", "json", env={"HONE_EMULATED_SOC": soc, "HONE_EMULATED_NPUS": 4})
    cards = [row for row in json.loads(done.stdout) if row["name"].startswith("npu")]
    assert [card["name"] for card in cards] == ["npu:0", "npu:1", "npu:2", "npu:3"]
    assert all(card["model"] == model and card["memory_total"] == memory << 30 and card["healthy"] for card in cards)


def test_links(npu):
    matrix = json.loads(npu("hone", "devices", "-t", "topo", "--format", "json", env={"HONE_EMULATED_NPUS": 2}).stdout)
    assert matrix["devices"] == ["npu:0", "npu:1"] and matrix["links"] == [["X", "HCCS"], ["HCCS", "X"]] and all(matrix["cpus"])


def test_docker_run(npu):
    done = npu("hone", "docker-run", "hone", "version")
    assert done.returncode == 0 and done.stdout.startswith("docker run") and done.stdout.rstrip().endswith("hone version")
