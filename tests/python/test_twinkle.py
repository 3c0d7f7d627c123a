"""hone.twinkle: scripts that say `import twinkle`, alone, under torchrun's variables, on a Ray cluster and on emulated NPUs."""
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from python_environment import BINARY, NANO, PACKAGES, RAY, ROOT, fill_hub, own_environment, run, write_rows
from workers import free_port, made_once

HERE = Path(__file__).parent
CHECKS = re.findall(r"^def (check_\w+)", (HERE / "twinkle_checks.py").read_text(), re.M)
TEACH = """
import sys
from safetensors.torch import load_file, save_file
file = sys.argv[1] + "/model.safetensors"
weights = load_file(file)
weights["model.norm.weight"] *= 1.3  # it is surer than the student
save_file(weights, file, {"format": "pt"})
"""


@pytest.fixture(scope="session")
def results(tmp_path_factory, python):
    def make(folder):
        beside = f"{PACKAGES}:{ROOT / '.venv/twinkle'}"
        done = subprocess.run([python, HERE / "twinkle_checks.py", folder / "checks"], capture_output=True, text=True, timeout=600,
                              env=own_environment(PYTHONPATH=beside), cwd=folder)
        (folder / "output.txt").write_text(done.stdout + done.stderr)

    folder = made_once(tmp_path_factory, "twinkle checks", make)
    found = folder / "checks/results.json"
    return json.loads(found.read_text()) if found.exists() else {}, (folder / "output.txt").read_text()


@pytest.mark.parametrize("name", CHECKS)
def test_check(results, name):
    found, output = results
    assert found.get(name, f"the process ended before it\n{output[-3000:]}") == "ok", found.get(name, output[-3000:])


def prompt(system, question):
    return [{"role": "system", "content": system}, {"role": "user", "content": question}]


SETTINGS = ["--torch_dtype", "float32", "--lora_rank", 8, "--lora_alpha", 32, "--lora_dropout", 0, "--learning_rate", "1e-3", "--weight_decay", 0.01, "--adam_beta2", 0.999,
            "--gradient_accumulation_steps", 1, "--warmup_ratio", 0, "--lr_scheduler_type", "cosine", "--dataset_shuffle", "false", "--train_dataloader_shuffle", "false",
            "--split_dataset_ratio", 0, "--logging_steps", 1, "--add_version", "false"]


def steps_of(python, hub, folder, *words):
    """The steps that a command of hone reports."""
    run(python, "-m", "hone", *words, *SETTINGS, "--output_dir", folder, env=own_environment(MODELSCOPE_CACHE=str(hub)))
    return [step for step in map(json.loads, (folder / "logging.jsonl").read_text().splitlines()) if "loss" in step]


@pytest.fixture(scope="session")
def hub(tmp_path_factory):
    """A cache of ModelScope's that holds the guide's names: a small model under the large one's, and a dataset."""
    def make(folder):
        fill_hub(folder)
        write_rows(folder / "preferences.jsonl", lambda question, answer: {"messages": [*prompt("You are a helpful assistant.", question), {"role": "assistant", "content": answer}],
                                                                           "rejected_response": "No idea."})
        write_rows(folder / "solved.jsonl", lambda question, answer: {"messages": [*prompt("Solve it.", question), {"role": "assistant", "content": answer}]})
        write_rows(folder / "datasets/modelscope/competition_math/train.jsonl", lambda question, answer: {"problem": question, "solution": answer})
        write_rows(folder / "messages.jsonl", lambda question, answer: {"messages": [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]})

    return made_once(tmp_path_factory, "twinkle hub", make)


@pytest.fixture(scope="session")
def expected(tmp_path_factory, python, hub):
    """Losses and norms of `hone sft` with the settings of scripts/sft.py."""
    def make(folder):
        steps = steps_of(python, hub, folder / "sft", "sft", "--model", "Qwen/Qwen2.5-7B-Instruct", "--dataset", hub / "messages.jsonl", "--max_steps", 4, "--per_device_train_batch_size", 8)
        (folder / "steps.json").write_text(json.dumps(steps))

    return json.loads((made_once(tmp_path_factory, "twinkle expected", make) / "steps.json").read_text())


def result_of(output):
    found = re.findall(r"RESULT (.*)", output)
    assert found, output[-3000:]
    return json.loads(found[-1])


def assert_same(result, expected):
    assert len(result["losses"]) == len(expected) == 4
    for loss, norm, step in zip(result["losses"], result["norms"], expected):
        assert abs(loss - step["loss"]) < 1e-5 and abs(norm / step["grad_norm"] - 1) < 1e-3, (result, expected)


def settings(hub, **more):
    return own_environment(PYTHONPATH=str(PACKAGES), MODELSCOPE_CACHE=str(hub), OMP_NUM_THREADS="1", **RAY, **more)


def run_script(python, name, folder, env, *before, words=()):
    done = subprocess.run([*before, python, "-m", "hone.twinkle", HERE / "scripts" / name, *map(str, words)], capture_output=True, text=True, timeout=600, cwd=folder, env=env)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout + done.stderr


def test_one_process_is_hone_sft(python, hub, expected, tmp_path):
    result = result_of(run_script(python, "sft.py", tmp_path, settings(hub, MODE="local")))
    assert_same(result, expected)
    assert (tmp_path / result["folder"] / "adapter_config.json").exists()


def test_two_processes_with_shards_are_hone_sft(python, hub, expected, tmp_path):
    port, ranks = free_port(), []
    for rank in range(2):
        env = settings(hub, MODE="local", RANK=str(rank), WORLD_SIZE="2", LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        ranks.append(subprocess.Popen([python, "-m", "hone.twinkle", HERE / "scripts/sft.py", "--fsdp-size", "2"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                      cwd=tmp_path, env=env))
    outputs = [rank.communicate(timeout=300)[0] for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], outputs
    result = result_of(outputs[0])
    assert_same(result, expected)
    assert 0 < float(result["evaluation"]["loss"]) < expected[-1]["loss"], result


def test_four_workers_of_ray_on_emulated_npus_are_hone_sft(python, hub, expected, tmp_path):
    output = run_script(python, "sft.py", tmp_path, settings(hub), BINARY, "emulate-npu")
    assert_same(result_of(output), expected)
    assert "TransformersModel: dp 2 x fsdp 2" in output and "device='npu:0'" in output, output


def test_preferences_in_two_stages_are_hone_rlhf(python, hub, tmp_path):
    words = ["--model-id", "ms://Qwen/Qwen3-4B", "--dataset-id", "ms://hjh0119/shareAI-Llama3-DPO-zh-en-emoji", "--batch-size", 4, "--lr", "1e-3", "--beta", 0.1, "--max-length", 512]
    output = run_script(python, "dpo.py", tmp_path, settings(hub), words=words)
    assert "vpp 2: a process has one stage" in output
    found = result_of(output)
    expected = steps_of(python, hub, tmp_path / "dpo", "rlhf", "--rlhf_type", "dpo", "--model", "Qwen/Qwen3-4B", "--dataset", hub / "preferences.jsonl", "--beta", 0.1, "--max_steps", 4,
                        "--per_device_train_batch_size", 4)
    assert len(found) == len(expected) == 4
    for step, wanted in zip(found, expected):
        assert abs(step["loss"] - wanted["loss"]) < 1e-4 and abs(step["grad_norm"] / wanted["grad_norm"] - 1) < 1e-2, (found, expected)
        assert abs(float(step["rewards/margins"]) - wanted["rewards/margins"]) < 1e-3 and abs(float(step["logps/chosen"]) - wanted["logps/chosen"]) < 0.1, (step, wanted)
    assert (tmp_path / "output/dpo/adapter_model.safetensors").exists()


def test_distillation_is_hone_rlhf(python, hub, tmp_path):
    teacher = tmp_path / "teacher"
    shutil.copytree(NANO, teacher)
    run(python, "-c", TEACH, teacher, env=own_environment(PYTHONPATH=str(PACKAGES)))
    words = ["--student-model-id", "ms://Qwen/Qwen3-0.6B", "--teacher-model-id", teacher, "--gkd-topk", 8, "--gkd-beta", 0.3, "--batch-size", 4, "--micro-batch-size", 3, "--max-steps", 3,
             "--lr", "1e-3"]
    found = result_of(run_script(python, "gkd.py", tmp_path, settings(hub), words=words))
    expected = steps_of(python, hub, tmp_path / "gkd", "rlhf", "--rlhf_type", "gkd", "--model", "Qwen/Qwen3-0.6B", "--teacher_model", teacher, "--dataset", hub / "solved.jsonl", "--beta", 0.3,
                        "--gkd_logits_topk", 8, "--lmbda", 0, "--temperature", 1, "--max_steps", 3, "--per_device_train_batch_size", 4)
    assert len(found) == len(expected) == 3
    for step, wanted in zip(found, expected):
        assert abs(step["loss"] - wanted["loss"]) < 1e-4 and abs(step["grad_norm"] / wanted["grad_norm"] - 1) < 1e-2, (found, expected)
    merged = tmp_path / "output/gkd"
    assert (merged / "model.safetensors").exists() and not (merged / "adapter_config.json").exists()


def test_the_cookbooks_script_teaches(python, tmp_path):
    for name in ("models", "data"):
        (tmp_path / name).symlink_to(ROOT / name)
    done = subprocess.run([python, ROOT / "cookbook/python/twinkle_sft.py"], capture_output=True, text=True, cwd=tmp_path, env=own_environment(PYTHONPATH=str(PACKAGES)))
    assert done.returncode == 0, done.stderr
    losses = [float(loss) for loss in re.findall(r"'loss': '([\d.]+)'", done.stderr)]
    assert len(losses) == 8 and losses[-1] < losses[0] / 2, losses
    assert (tmp_path / done.stdout.strip() / "adapter_model.safetensors").exists()


def test_a_remote_class_of_the_scripts_own_trains_with_grpo(python, hub, tmp_path):
    env = settings(hub, TWINKLE_MODEL_ID=str(NANO), DATASET="ms://modelscope/competition_math")
    steps = result_of(run_script(python, "grpo.py", tmp_path, env))
    assert len(steps) == 2
    for step in steps:
        assert step["lazy"] and step["rows"] == 4 and len(step["loss"]) == 2 and set(step["rewards"][1:]) <= {-1.0, 1.0}, step
        assert all(norm > 0 for norm in step["norm"]), step


def test_an_installed_twinkle_is_named(python, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import twinkle\nprint(twinkle.__name__)\n")
    env = own_environment(PYTHONPATH=f"{PACKAGES}:{ROOT / '.venv/twinkle'}")
    done = subprocess.run([python, "-m", "hone.twinkle", script], capture_output=True, text=True, env=env)
    assert done.returncode == 2 and "a twinkle is installed already" in done.stderr and ".venv/twinkle" in done.stderr
    assert run(python, "-m", "hone.twinkle", "--replace", script, env=env) == "hone.twinkle\n"
