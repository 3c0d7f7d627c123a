"""Variables of the guides: named by doctor, and harmless where they are for devices this machine does not have."""
import json
import re
import shutil

import pytest


def test_doctor_names_every_variable_that_is_set(hone):
    set_here = {"NPROC_PER_NODE": "2", "HCCL_ANYTHING_NEW": "1", "TASK_QUEUE_ENABLE": "2", "PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True", "WANDB_MODE": "offline",
                "ASCEND_GLOBAL_LOG_LEVEL": "3", "DISABLE_VERSION_CHECK": "1", "USE_MODELSCOPE_HUB": "1", "SWIFT_PATCH_CONV3D": "1", "HF_TOKEN": "hf_secret", "CPU_AFFINITY_CONF": "2"}
    out = hone("doctor", "--env", "true", env=set_here).stdout
    for name in set_here:
        assert re.search(rf"\b{name}\b.*(supported|passed on|no effect)", out), name
    assert "hf_secret" not in out


def test_variables_of_the_reference_notes_are_known(shared, hone):
    notes = shared / "reference"
    text = (notes / "ms-swift.md").read_text() + (notes / "llama-factory.md").read_text()
    names = set(re.findall(r"`([A-Z][A-Z0-9]*_[A-Z0-9_]+)`", text)) | set("NPROC_PER_NODE NNODES NODE_RANK MASTER_ADDR MASTER_PORT FORCE_TORCHRUN".split())
    page = hone("options", "--format", "compatibility").stdout
    known = {line.split("`")[1] for line in page.split("## Environment variables")[1].splitlines() if line.startswith("| `")}
    families = tuple(name[:-1] for name in known if name.endswith("*"))
    not_variables = {"IMG_CONTEXT", "TOOL_RESULTS", "API_", "FULL_STATE_DICT", "SHARDED_STATE_DICT", "INPUT_IDS", "LABELS_IDS"}
    assert len(names) > 15
    assert not sorted(n for n in names - known - not_variables if not n.startswith(families))


@pytest.fixture
def run(hone, tmp_path):
    data = tmp_path / "d.jsonl"
    data.write_text("\n".join(json.dumps({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": f"hello {i}"}]}) for i in range(4)))
    from pathlib import Path
    model = Path(__file__).resolve().parents[2] / "models" / "nano"

    def go(program, env):
        words = ["sft", "--model", model, "--dataset", data, "--max_steps", "1", "--save_strategy", "no", "--report_to", "none", "--output_dir", tmp_path / "out", "--logging_steps", "1"]
        return program(*words, env=env)
    return go


@pytest.mark.skipif(shutil.which("npu-smi") is not None, reason="there is an NPU here")
def test_a_device_variable_of_another_family_costs_one_line(run, swift):
    done = run(swift, {"ASCEND_RT_VISIBLE_DEVICES": "0"})
    assert done.returncode == 0, done.stderr
    lines = [line for line in (done.stdout + done.stderr).splitlines() if "ASCEND_RT_VISIBLE_DEVICES" in line]
    assert len(lines) == 1 and "no such device here" in lines[0]


def test_two_processes_without_accelerators(run, swift):
    done = run(swift, {"NPROC_PER_NODE": "2", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    assert "2 processes" in done.stdout + done.stderr


@pytest.mark.parametrize("setting, range", [("MASTER_PORT=99999", "0 to 65535"), ("MASTER_PORT=-1", "0 to 65535"), ("NPROC_PER_NODE=0", "1 to 4096"), ("NPROC_PER_NODE=two", "1 to 4096"),
                                            ("NNODES=99999999999999999999", "1 to 1048576"), ("NODE_RANK=-1", "0 to 1048575"), ("WORLD_SIZE=1.5", "1 to 1048576")])
def test_a_number_beyond_its_range_is_reported_before_anything_reads_it(swift, hone, setting, range):
    words = ["sft", "--model", "nowhere", "--dataset", "nothing.jsonl"]
    name, value = setting.split("=")
    for done in (swift(*words, env={name: value}), hone("plan", setting, "swift", *words)):
        assert done.returncode == 2 and f'{name} is "{value}"' in done.stderr and f"from {range}" in done.stderr, done.stderr


def test_model_kwargs_reach_the_environment(swift):
    done = swift("sft", "--model", "m", "--dataset", "d", "--model_kwargs", "{broken", env={})
    assert done.returncode == 2 and "model_kwargs" in done.stderr
