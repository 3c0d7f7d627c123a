"""Commands and models beyond plain text training, on an NVIDIA GPU compared with the CPU: run by `make test-gpu`."""
import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
import workers
from PIL import Image
from tiny_models import tiny_model

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/vision"))
from vision_models import write_vision_model  # noqa: E402

pytestmark = pytest.mark.skipif(not Path("/dev/nvidia0").exists(), reason="no NVIDIA GPU")
NANO, GPU = ROOT / "models/nano", "cuda:0"
TRAINING = ["--torch_dtype", "float32", "--lora_dropout", 0, "--add_version", "false", "--split_dataset_ratio", 0, "--save_strategy", "no", "--per_device_train_batch_size", 2,
            "--gradient_accumulation_steps", 1, "--learning_rate", "1e-3", "--max_steps", 3, "--logging_steps", 1, "--report_to", "none"]
RUNS = {
    "classes": ["--model", NANO, "--dataset", ROOT / "data/classes.jsonl", "--task_type", "seq_cls", "--num_labels", 2],
    "embedding": ["--model", NANO, "--dataset", ROOT / "data/candidates.jsonl", "--task_type", "embedding", "--loss_type", "infonce"],
    "reranker": ["--model", NANO, "--dataset", ROOT / "data/candidates.jsonl", "--task_type", "reranker", "--loss_type", "listwise_reranker"],
    "qlora-nf4": ["--model", NANO, "--dataset", ROOT / "data/demo.jsonl", "--quant_method", "bnb", "--quant_bits", 4],
    "qlora-int8": ["--model", NANO, "--dataset", ROOT / "data/demo.jsonl", "--quant_method", "bnb", "--quant_bits", 8],
}


def losses(hone, folder, device, words):
    done = hone("sft", *TRAINING, *words, "--device", device, "--output_dir", folder)
    assert done.returncode == 0, done.stderr[-3000:]
    return [line["loss"] for line in map(json.loads, (folder / "logging.jsonl").read_text().splitlines()) if "grad_norm" in line]


def expect_the_cpus_losses(hone, folder, words, tolerance=2e-3):
    expected, found = (losses(hone, folder / device[:3], device, words) for device in ("cpu", GPU))
    assert len(found) == 3 and found == pytest.approx(expected, rel=tolerance, abs=1e-4)


@pytest.mark.parametrize("name", RUNS)
def test_losses_are_the_cpus(hone, tmp_path, name):
    expect_the_cpus_losses(hone, tmp_path, RUNS[name])


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "internvl"])
def test_losses_with_images_are_the_cpus(hone, tmp_path, family):
    model = write_vision_model(tmp_path / family, family)
    for i in range(6):
        Image.new("RGB", (60 + 20 * i, 90), (40 * i, 90, 200)).save(tmp_path / f"{i}.png")
    rows = [{"messages": [{"role": "user", "content": "<image>What colour is this?"}, {"role": "assistant", "content": "the colour of a test"}], "images": [str(tmp_path / f"{i}.png")]}
            for i in range(6)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    expect_the_cpus_losses(hone, tmp_path, ["--model", model, "--dataset", tmp_path / "rows.jsonl", "--tuner_type", "full", "--freeze_vit", "false", "--freeze_aligner", "false"])


@pytest.fixture(scope="session")
def experts(tmp_path_factory):
    return tiny_model(tmp_path_factory.mktemp("experts"), "qwen3_moe")


@pytest.mark.parametrize("words", [["--tuner_type", "full"], ["--target_modules", "all-linear", "--target_parameters", "all-experts"]], ids=["full", "lora"])
def test_losses_of_experts_are_the_cpus(hone, experts, tmp_path, words):
    expect_the_cpus_losses(hone, tmp_path, ["--model", experts, "--dataset", ROOT / "data/demo.jsonl", *words])
    exact, rounded = (losses(hone, tmp_path / dtype, GPU, ["--model", experts, "--dataset", ROOT / "data/demo.jsonl", *words, "--torch_dtype", dtype]) for dtype in ("float32", "bfloat16"))
    assert rounded == pytest.approx(exact, rel=3e-2)


def answers(hone, folder, model, device, *words, log=None):
    data, out = folder / "questions.jsonl", folder / "answers.jsonl"
    out.unlink(missing_ok=True)  # results are appended
    data.write_text("".join(json.dumps({"messages": [{"role": "user", "content": f"{'word ' * (i % 7)}question {i}"}]}) + "\n" for i in range(24)))
    done = hone("infer", "--model", model, "--val_dataset", data, "--result_path", out, "--infer_backend", "vllm", "--device", device, "--temperature", 0, "--max_new_tokens", 24, *words)
    assert done.returncode == 0, done.stderr[-3000:]
    if log:
        log.write_text(done.stderr)
    return [json.loads(line)["response"] for line in out.read_text().splitlines()]


def alike(found, expected):
    """The share of answers that are the same: with rounded numbers a near tie may fall the other way."""
    return sum(a == b for a, b in zip(found, expected, strict=True)) / len(expected)


def test_most_answers_from_a_cache_of_8_bit_floats_are_the_cpus(hone, tmp_path):
    cache = ["--vllm_engine_kwargs", json.dumps({"kv_cache_dtype": "fp8"}), "--torch_dtype", "bfloat16"]
    assert alike(answers(hone, tmp_path, NANO, GPU, *cache), answers(hone, tmp_path, NANO, "cpu", *cache)) >= 0.8


# A captured step reads no row counts on the host.
def test_experts_answer_the_same_captured_and_launched(hone, experts, tmp_path):
    def answers_and_log(*words):
        log = tmp_path / "log"
        found = answers(hone, tmp_path, experts, GPU, "--torch_dtype", "bfloat16", "--log_level", "debug", *words, log=log)
        return found, log.read_text()
    captured, log = answers_and_log()
    assert "captured a decode step" in log
    launched, log = answers_and_log("--vllm_enforce_eager", "true")
    assert "captured a decode step" not in log
    assert captured == launched


def test_evaluation_gives_the_cpus_results(hone, tmp_path):
    def results(device):
        done = hone("eval", "--model", NANO, "--torch_dtype", "float32", "--include_path", ROOT / "cookbook/evaluation", "--eval_dataset", "capitals", "capital_answers", "--device", device,
                    "--eval_output_dir", tmp_path / device[:3])
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(next((tmp_path / device[:3]).rglob("results.json")).read_text())["results"]
    assert results(GPU) == results("cpu")


def test_a_server_answers_as_the_cpus(hone, tmp_path):
    port = workers.free_port()
    question = {"model": "nano", "messages": [{"role": "user", "content": "Who are you?"}], "temperature": 0, "max_tokens": 24}

    def answer(device):
        server = subprocess.Popen([hone.path, "deploy", "--model", NANO, "--torch_dtype", "float32", "--port", str(port), "--device", device, "--served_model_name", "nano"],
                                  stdout=subprocess.DEVNULL, stderr=(tmp_path / "log").open("w"), env={**os.environ, "NO_COLOR": "1"})
        try:
            for _ in range(300):
                try:
                    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", json.dumps(question).encode(), {"Content-Type": "application/json"})
                    return json.load(urllib.request.urlopen(request, timeout=60))["choices"][0]["message"]["content"]
                except OSError:
                    assert server.poll() is None, (tmp_path / "log").read_text()[-2000:]
                    time.sleep(0.2)
            raise AssertionError((tmp_path / "log").read_text()[-2000:])
        finally:
            server.terminate()
            server.wait(30)

    assert answer(GPU) == answer("cpu")


def test_samples_are_written(hone, tmp_path):
    done = hone("sample", "--model", NANO, "--dataset", f"{ROOT / 'data/demo.jsonl'}#8", "--num_return_sequences", 4, "--max_new_tokens", 24, "--device", GPU, "--output_dir", tmp_path,
                "--output_file", "answers.jsonl")
    assert done.returncode == 0, done.stderr[-3000:]
    assert len((tmp_path / "answers.jsonl").read_text().splitlines()) == 32
