"""Commands beyond training on an emulated card compared with the CPU: tasks other than text generation, evaluation, sampling, export in few bits."""
import json
from pathlib import Path

import pytest
import torch
from media_runs import losses
from safetensors.torch import load_file

ROOT = Path(__file__).resolve().parents[2]
NANO, DATA = ROOT / "models/nano", ROOT / "data"
TRAINING = ["--model", NANO, "--torch_dtype", "float32", "--lora_dropout", 0, "--add_version", "false", "--split_dataset_ratio", 0, "--save_strategy", "no",
            "--per_device_train_batch_size", 2, "--gradient_accumulation_steps", 1, "--learning_rate", "1e-3", "--max_steps", 2, "--logging_steps", 1]
TASKS = {
    "classes": ["--dataset", DATA / "classes.jsonl", "--task_type", "seq_cls", "--num_labels", 2],
    "embedding": ["--dataset", DATA / "candidates.jsonl", "--task_type", "embedding", "--loss_type", "infonce"],
    "reranker": ["--dataset", DATA / "candidates.jsonl", "--task_type", "reranker", "--loss_type", "listwise_reranker"],
}


@pytest.fixture
def on(hone, npu):
    """on("npu:0", words …) runs hone there, to its end."""
    def run(device, *words, **more):
        program = hone if device == "cpu" else lambda *words, **more: npu("hone", *words, **more)
        done = program(*words, "--device", device, **more)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        return done

    return run


@pytest.mark.parametrize("task", TASKS)
def test_losses_of_tasks(on, tmp_path, task):
    for device in ("cpu", "npu:0"):
        on(device, "sft", *TRAINING, *TASKS[task], "--output_dir", tmp_path / device)
    assert len(losses(tmp_path / "cpu")) == 2 and losses(tmp_path / "npu:0") == pytest.approx(losses(tmp_path / "cpu"), abs=1e-4)


def test_results_of_benchmarks(on, tmp_path):
    def results(device):
        on(device, "eval", "--model", NANO, "--torch_dtype", "float32", "--include_path", ROOT / "cookbook/evaluation", "--eval_dataset", "capitals", "capital_answers",
           "--eval_output_dir", tmp_path / device)
        return json.loads(next((tmp_path / device).rglob("results.json")).read_text())["results"]

    assert results("npu:0") == results("cpu")


def test_samples(on, tmp_path):
    def samples(device):
        on(device, "sample", "--model", NANO, "--torch_dtype", "float32", "--dataset", f"{DATA / 'demo.jsonl'}#4", "--num_return_sequences", 2, "--temperature", 0.01,
           "--max_new_tokens", 12, "--output_dir", tmp_path, "--output_file", f"{device[:3]}.jsonl")
        return [json.loads(line)["messages"][-1]["content"] for line in (tmp_path / f"{device[:3]}.jsonl").read_text().splitlines()]

    found = samples("npu:0")
    assert len(found) == 8 and found == samples("cpu")


@pytest.mark.parametrize("method", ["gptq", "awq"])
def test_weights_are_rounded_as_on_the_cpu(on, tmp_path, method):
    """Not every code is the same: sums in another order round a few weights differently, and GPTQ moves their errors to later columns."""
    folders = [tmp_path / device for device in ("cpu", "npu:0")]
    for folder in folders:
        on(folder.name, "export", "--model", NANO, "--torch_dtype", "float32", "--quant_method", method, "--quant_bits", 4, "--group_size", 32, "--dataset", DATA / "demo.jsonl",
           "--quant_n_samples", 8, "--max_length", 64, "--output_dir", folder)
    expected, found = (load_file(folder / "model.safetensors") for folder in folders)
    assert found.keys() == expected.keys()
    packed = [name for name in expected if name.endswith("qweight")]
    codes = [torch.cat([folder[name].flatten().view(torch.uint8) for name in packed]) for folder in (found, expected)]
    same = (codes[0] & 15 == codes[1] & 15).float().mean().item()
    assert len(packed) > 20 and same > 0.8, same


def test_an_adapter_answers_with_its_quantized_base(on, tmp_path):
    on("npu:0", "sft", *TRAINING, "--dataset", DATA / "demo.jsonl", "--quant_method", "bnb", "--quant_bits", 4, "--save_strategy", "steps", "--save_steps", 2, "--output_dir", tmp_path / "run")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"query": text}) + "\n" for text in ("Who are you?", "What is the capital of France?")))
    answers = {}
    for device in ("cpu", "npu:0"):
        on(device, "infer", "--adapters", tmp_path / "run/checkpoint-2", "--val_dataset", tmp_path / "rows.jsonl", "--result_path", tmp_path / f"{device[:3]}.jsonl", "--temperature", 0,
           "--max_new_tokens", 12)
        answers[device] = [json.loads(line)["response"] for line in (tmp_path / f"{device[:3]}.jsonl").read_text().splitlines()]
    assert len(answers["cpu"]) == 2 and answers["npu:0"] == answers["cpu"]
