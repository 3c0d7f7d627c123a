"""hone on emulated NPUs beside hone on the CPU: the same losses, the same tokens, the same merged weights."""
import json
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODEL, DATA = ROOT / "models/nano", ROOT / "data/demo.jsonl"
SAME = ["--model", MODEL, "--dataset", DATA, "--max_steps", 4, "--logging_steps", 1, "--torch_dtype", "float32", "--lora_dropout", 0,
        "--add_version", "false", "--split_dataset_ratio", 0, "--per_device_train_batch_size", 2, "--gradient_accumulation_steps", 2,
        "--learning_rate", "1e-3", "--save_steps", 4]


def losses(folder):
    lines = [json.loads(line) for line in (Path(folder) / "logging.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


def check(done):
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done


@pytest.fixture(scope="module")
def lora(npu, swift, tmp_path_factory):
    """One LoRA run on the CPU and one on npu:0, as folders."""
    folder = tmp_path_factory.mktemp("lora")
    check(swift("sft", *SAME, "--device", "cpu", "--output_dir", folder / "cpu"))
    check(npu("swift", "sft", *SAME, "--output_dir", folder / "npu", env={"HONE_EMULATED_REPORT": folder / "report"}))
    return folder


def test_lora_curve(lora):
    assert len(losses(lora / "cpu")) == 4
    assert losses(lora / "npu") == pytest.approx(losses(lora / "cpu"), abs=1e-4)


def test_fused_operators_ran_and_nothing_was_missing(lora):
    report = json.loads((lora / "report").read_text().splitlines()[-1])
    for op in ("RmsNorm", "RotaryPositionEmbedding", "SwiGlu", "FlashAttentionVarLenScore", "FlashAttentionUnpaddingScoreGrad"):
        assert report["operators"].get("aclnn" + op), report["operators"]
    assert report["missing"] == {}


def test_no_operator_fell_back_to_the_cpu(npu, tmp_path):
    done = check(npu("swift", "sft", *SAME, "--output_dir", tmp_path))
    assert "fall back to run on the CPU" not in done.stderr


@pytest.mark.parametrize("words", [["--tuner_type", "full", "--learning_rate", "1e-4"], ["--gradient_checkpointing", "true"],
                                   ["--attn_impl", "eager", "--enable_npu_model_patch", "false"]], ids=["full", "recompute", "plain"])
def test_other_curves(npu, swift, tmp_path, words):
    check(swift("sft", *SAME, *words, "--device", "cpu", "--output_dir", tmp_path / "cpu"))
    check(npu("swift", "sft", *SAME, *words, "--output_dir", tmp_path / "npu"))
    assert losses(tmp_path / "npu") == pytest.approx(losses(tmp_path / "cpu"), abs=1e-4)


def test_factory_pt_and_freeze(npu, factory, tmp_path):
    for stage in ({"stage": "pt", "finetuning_type": "lora"}, {"stage": "sft", "finetuning_type": "freeze", "freeze_trainable_layers": 1}):
        options = {"model_name_or_path": MODEL, "dataset": DATA, "do_train": "true", "max_steps": 3, "logging_steps": 1, "template": "default",
                   "learning_rate": "1e-4", "per_device_train_batch_size": 2, "overwrite_output_dir": "true", **stage}
        words = [f"{key}={value}" for key, value in options.items()]
        curves = []
        for device in ("cpu", "npu"):
            folder = tmp_path / f"{stage['stage']}-{device}"
            config = tmp_path / "run.yaml"
            config.write_text("\n".join(f"{k}: {v}" for k, v in {**options, "output_dir": folder}.items()) + "\n")
            check(factory("train", config, "device=cpu") if device == "cpu" else npu("llamafactory-cli", "train", config))
            lines = [json.loads(line) for line in (folder / "trainer_log.jsonl").read_text().splitlines()]
            curves.append([line["loss"] for line in lines if "loss" in line])
        assert curves[1] == pytest.approx(curves[0], abs=1e-4), words


def test_generation_is_the_same(npu, swift, lora):
    ask = ["infer", "--adapters", lora / "cpu/checkpoint-4", "--torch_dtype", "float32", "--stream", "false", "--temperature", 0, "--max_new_tokens", 12,
           "--val_dataset", DATA, "--val_dataset_sample", 3]
    answers = []
    for device in ("cpu", "npu"):
        out = lora / f"answers-{device}.jsonl"
        words = [*ask, "--result_path", out]
        check(swift(*words, "--device", "cpu") if device == "cpu" else npu("swift", *words))
        answers.append([json.loads(line)["response"] for line in out.read_text().splitlines()])
    assert len(answers[0]) == 3 and answers[0] == answers[1]


def test_merge(npu, lora):
    from safetensors.torch import load_file
    merged = []
    for device in ("cpu", "npu:0"):
        out = lora / f"merged-{device[:3]}"
        check(npu("swift", "export", "--adapters", lora / "cpu/checkpoint-4", "--merge_lora", "true", "--output_dir", out, "--device", device))
        merged.append({k: v for f in sorted(out.glob("*.safetensors")) for k, v in load_file(f).items()})
    assert merged[0].keys() == merged[1].keys()
    assert all((merged[0][k].float() - merged[1][k].float()).abs().max() < 1e-5 for k in merged[0])


@pytest.mark.parametrize("processes", [2])
def test_data_parallel(npu, swift, tmp_path, processes):
    check(swift("sft", *SAME, "--device", "cpu", "--output_dir", tmp_path / "cpu", env={"NPROC_PER_NODE": processes}))
    check(npu("swift", "sft", *SAME, "--output_dir", tmp_path / "npu", env={"NPROC_PER_NODE": processes, "HONE_EMULATED_REPORT": tmp_path / "report"}))
    assert losses(tmp_path / "npu") == pytest.approx(losses(tmp_path / "cpu"), abs=1e-4)
    reports = [json.loads(line) for line in (tmp_path / "report").read_text().splitlines()]
    assert sum("HcclAllReduce" in report["operators"] or "HcclReduceScatter" in report["operators"] for report in reports) == processes
