"""One process on several emulated cards: copies of a model side by side, and one model spread over cards."""
import json
from pathlib import Path

import pytest
from tiny_models import tiny_model

ROOT = Path(__file__).resolve().parents[2]
NANO = ROOT / "models/nano"
QUESTIONS = ["Who are you?", "hi", "What is the capital of France?", "Tell me a story."]


def answers(npu, folder, *words, model=NANO, **more):
    data, result = folder / "questions.jsonl", folder / "answers.jsonl"
    data.write_text("".join(json.dumps({"query": question}) + "\n" for question in QUESTIONS))
    result.unlink(missing_ok=True)
    done = npu("swift", "infer", "--model", model, "--torch_dtype", "float32", "--val_dataset", data, "--result_path", result, "--max_new_tokens", 12,
               "--temperature", 0, "--max_batch_size", 4, *words, **more)
    if done.returncode != 0:
        return done
    return [json.loads(line)["response"] for line in result.read_text().splitlines()], done.stderr


@pytest.fixture(scope="module")
def wanted(npu, tmp_path_factory):
    return answers(npu, tmp_path_factory.mktemp("one"), "--device", "npu:0")[0]


@pytest.mark.parametrize("words, message", [
    (["--vllm_data_parallel_size", 2], "replica 2 is on npu:1"),
    (["--vllm_pipeline_parallel_size", 2, "--device", "npu:1,0"], "replica 1 is on npu:1, npu:0"),
    (["--device_map", "balanced"], "the model is distributed over npu:0, npu:1"),
    (["--device_map", json.dumps({"": "npu:0", "model.layers.1": 1, "model.layers.2": "cpu"})], ""),
], ids=["copies", "stages", "balanced", "named"])
def test_answers_are_those_of_one_card(npu, wanted, tmp_path, words, message):
    found, log = answers(npu, tmp_path, *words, env={"HONE_EMULATED_NPUS": 2})
    assert found == wanted
    assert message in log


def test_slices_answer_as_one_card(npu, tmp_path):
    model = tmp_path / "model"
    tiny_model(model, "qwen3")
    wanted, _ = answers(npu, tmp_path, "--device", "npu:0", model=model)
    for words in (["--vllm_tensor_parallel_size", 2], ["--lmdeploy_tp", -1, "--lmdeploy_quant_policy", 0]):
        found, log = answers(npu, tmp_path, *words, model=model, env={"HONE_EMULATED_NPUS": 2})
        assert found == wanted and "replica 1 is on npu:0, npu:1" in log


def test_more_cards_than_there_are(npu, tmp_path):
    refused = answers(npu, tmp_path, "--vllm_data_parallel_size", 2, "--vllm_pipeline_parallel_size", 2, env={"HONE_EMULATED_NPUS": 2})
    assert refused.returncode == 2 and "need 4 devices; found: npu:0, npu:1" in refused.stderr


@pytest.mark.parametrize("family", ["dense", "qwen3_moe"])
def test_training_spread_over_cards_follows_the_same_curve(npu, tmp_path, family):
    """Of experts with their balance, too, which is made of layers on both cards."""
    model, more = NANO, []
    if family != "dense":
        model, more = tmp_path / "model", ["--router_aux_loss_coef", 0.5]
        tiny_model(model, family)

    def losses(name, *words):
        done = npu("swift", "sft", "--model", model, *more, "--dataset", ROOT / "data/demo.jsonl", "--torch_dtype", "float32", "--max_steps", 3, "--logging_steps", 1,
                   "--learning_rate", "1e-3", "--lora_dropout", 0, "--output_dir", tmp_path / name, "--add_version", "false", "--split_dataset_ratio", 0, *words,
                   env={"HONE_EMULATED_NPUS": 2})
        assert done.returncode == 0, done.stderr[-3000:]
        rows = [json.loads(line) for line in (tmp_path / name / "logging.jsonl").read_text().splitlines()]
        kept = [[row[key] for key in ("loss", "aux_loss") if key in row] for row in rows if "loss" in row]
        assert all(len(values) == (1 if family == "dense" else 2) for values in kept)
        return sum(kept, []), done.stderr

    one, _ = losses("one", "--device", "npu:0")
    two, log = losses("two", "--device_map", "auto")
    assert "distributed over npu:0, npu:1" in log
    assert two == pytest.approx(one, rel=1e-5) and len(one) == (3 if family == "dense" else 6)
