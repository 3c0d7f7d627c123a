"""hone.DeviceMesh: a loop of one's own over several processes has the numbers of one, with hone's loss and with Python's."""
import json
import subprocess
from pathlib import Path

import pytest

from python_environment import make_small_model, own_environment
from workers import free_port, made_once

SCRIPT = Path(__file__).parent / "scripts/mesh.py"
MESHES = [{"pp": 2}, {"dp": 2, "ep": 2}, {"tp": 2}, {"cp": 2}, {"fsdp": 2}]


@pytest.fixture(scope="session")
def experts(tmp_path_factory):
    """A small model with experts, four layers and the demo's tokenizer."""
    def make(folder):
        make_small_model(folder, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=24)

    return made_once(tmp_path_factory, "a model with experts", make)


def run_mesh(python, sizes, model, folder):
    count = 1
    for name, size in sizes.items():
        count *= 1 if name == "ep" else size
    port = str(free_port())
    ranks = [subprocess.Popen([python, SCRIPT, json.dumps(sizes), model], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder,
                              env=own_environment(RANK=str(rank), WORLD_SIZE=str(count), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(count), MASTER_ADDR="127.0.0.1",
                                                  MASTER_PORT=port, OMP_NUM_THREADS="1")) for rank in range(count)]
    outputs = [rank.communicate(timeout=300)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0] * count, "\n".join(output[-3000:] for output in outputs)
    return json.loads(outputs[0].split("RESULT ")[-1])


@pytest.fixture(scope="session")
def alone(tmp_path_factory, python, experts):
    def make(folder):
        (folder / "result.json").write_text(json.dumps(run_mesh(python, {"dp": 1}, experts, folder)))

    return json.loads((made_once(tmp_path_factory, "a mesh of one", make) / "result.json").read_text())


@pytest.mark.parametrize("sizes", MESHES, ids=lambda sizes: " x ".join(f"{name} {size}" for name, size in sizes.items()))
def test_the_numbers_of_one_process(python, experts, alone, tmp_path, sizes):
    result = run_mesh(python, sizes, experts, tmp_path)
    expected = list(alone["found"])
    if "tp" in sizes:  # without the loss of logits
        expected = expected[:7]
        result["found"] = result["found"][:7]
    assert len(result["found"]) == len(expected)
    for got, wanted in zip(result["found"], expected):
        for value, other in zip(got, wanted):
            assert abs(value - other) < 1e-4 * max(abs(other), 1), (sizes, result["found"], expected)
    names = {file.name for file in (tmp_path / result["adapter"]).iterdir()}
    assert {"adapter_model.safetensors", "adapter_config.json"} <= names, names


def test_a_mesh_of_other_sizes_is_refused(python):
    done = subprocess.run([python, "-c", "import hone; hone.DeviceMesh(dp=2)"], capture_output=True, text=True, env=own_environment())
    assert done.returncode == 1 and "the mesh has 2 places and WORLD_SIZE is 1" in done.stderr
