"""Models with gated delta nets (Qwen3-Next, Qwen3.5) on an NVIDIA GPU compared with the CPU. Their heads of 128 are those of the published models, which the kernels are for."""
import json
import sys
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/train"), str(ROOT / "tests/vision")]
from train_testing import small_tokenizer, texts_of  # noqa: E402
from vision_models import write_vision_model  # noqa: E402

pytestmark = pytest.mark.skipif(not Path("/dev/nvidia0").exists(), reason="no NVIDIA GPU")
HEADS = dict(linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=128, linear_value_head_dim=128)
TRAINING = ["--lora_dropout", 0, "--lora_rank", 8, "--target_modules", "all-linear", "--add_version", "false", "--split_dataset_ratio", 0, "--save_strategy", "no", "--per_device_train_batch_size", 2,
            "--gradient_accumulation_steps", 1, "--learning_rate", "1e-3", "--max_steps", 6, "--logging_steps", 1, "--report_to", "none"]


@pytest.fixture(scope="module")
def hybrids(tmp_path_factory):
    """Three gated delta nets and a layer with attention: with experts, without, and with heads of 256 in attention."""
    import torch
    from transformers import AutoModelForCausalLM, Qwen3_5TextConfig, Qwen3NextConfig

    fast = small_tokenizer()
    sizes = dict(vocab_size=len(fast), hidden_size=512, intermediate_size=256, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=1024, eos_token_id=fast.eos_token_id, **HEADS)
    configs = {"qwen3_next": Qwen3NextConfig(**sizes, head_dim=64, tie_word_embeddings=False, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=64, shared_expert_intermediate_size=64),
               "qwen3_5": Qwen3_5TextConfig(**sizes, head_dim=64, tie_word_embeddings=True), "wide": Qwen3_5TextConfig(**sizes, head_dim=256, tie_word_embeddings=True)}
    made = {}
    for name, config in configs.items():
        made[name] = tmp_path_factory.mktemp("hybrid") / name
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config).float()
        with torch.no_grad():  # so that answers differ from each other
            for parameter in model.parameters():
                parameter.mul_(2 if parameter.ndim > 1 else 1)
        model.save_pretrained(made[name])
        fast.save_pretrained(made[name])
    return made


def losses(hone, folder, device, *words):
    done = hone("sft", *TRAINING, *words, "--device", device, "--output_dir", folder)
    assert done.returncode == 0, done.stderr[-3000:]
    return [line["loss"] for line in map(json.loads, (folder / "logging.jsonl").read_text().splitlines()) if "grad_norm" in line]


@pytest.mark.parametrize("tuner", [["--tuner_type", "lora"], ["--tuner_type", "full", "--packing", "true", "--max_length", 512]], ids=["lora", "full"])
@pytest.mark.parametrize("family", ["qwen3_next", "qwen3_5"])
def test_losses_are_the_cpus(hone, hybrids, tmp_path, family, tuner):
    """Texts of one to four chunks: in bfloat16, what the kernels round stays near what the CPU computes in float32."""
    path, _ = texts_of(tmp_path, 60, words=(20, 200))
    words = ["--model", hybrids[family], "--dataset", path, *tuner]
    expected = losses(hone, tmp_path / "cpu", "cpu", *words, "--torch_dtype", "float32")
    assert losses(hone, tmp_path / "gpu", "cuda:0", *words, "--torch_dtype", "float32") == pytest.approx(expected, rel=2e-3)
    rounded = losses(hone, tmp_path / "rounded", "cuda:0", *words, "--torch_dtype", "bfloat16")
    assert rounded == pytest.approx(expected, rel=3e-2)
    again = losses(hone, tmp_path / "again", "cuda:0", *words, "--torch_dtype", "bfloat16", "--gradient_checkpointing", "false")
    assert again == pytest.approx(rounded, rel=2e-2 if family == "qwen3_next" else 5e-3)  # a rounded router may choose another expert


def test_losses_with_images_are_the_cpus(hone, tmp_path):
    model = write_vision_model(tmp_path / "qwen3_5", "qwen3_5", text=HEADS)
    for i in range(6):
        Image.new("RGB", (60 + 20 * i, 90), (40 * i, 90, 200)).save(tmp_path / f"{i}.png")
    rows = [{"messages": [{"role": "user", "content": "<image>What colour is this?"}, {"role": "assistant", "content": "the colour of a test"}], "images": [str(tmp_path / f"{i}.png")]} for i in range(6)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["--model", model, "--dataset", tmp_path / "rows.jsonl", "--tuner_type", "full", "--freeze_vit", "false", "--freeze_aligner", "false", "--torch_dtype", "float32", "--max_steps", 3]
    assert losses(hone, tmp_path / "gpu", "cuda:0", *words) == pytest.approx(losses(hone, tmp_path / "cpu", "cpu", *words), rel=2e-3)


def answers(hone, folder, model, device, *words):
    data, out = folder / "questions.jsonl", folder / "answers.jsonl"
    out.unlink(missing_ok=True)  # results are appended
    data.write_text("".join(json.dumps({"messages": [{"role": "user", "content": f"{'word ' * (i % 7 * 9)}question {i}"}]}) + "\n" for i in range(24)))
    done = hone("infer", "--model", model, "--val_dataset", data, "--result_path", out, "--infer_backend", "vllm", "--device", device, "--max_new_tokens", 24, *words, env={"LOG_LEVEL": "debug"})
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line)["response"] for line in out.read_text().splitlines()], done.stderr


# Answers end at their own ends, prompts join running decodes, and three slots are used again by the sequences that follow.
@pytest.mark.parametrize("family", ["qwen3_next", "qwen3_5"])
def test_greedy_answers_are_the_cpus(hone, hybrids, tmp_path, family):
    words = ["--torch_dtype", "float32", "--temperature", 0]
    expected, _ = answers(hone, tmp_path, hybrids[family], "cpu", *words)
    found, log = answers(hone, tmp_path, hybrids[family], "cuda:0", *words)
    assert ("captured a decode step" in log) == (family == "qwen3_5"), "experts in float32 have no grouped product"
    assert found == expected
    assert answers(hone, tmp_path, hybrids[family], "cuda:0", *words, "--vllm_max_num_seqs", 3)[0] == expected


# In bfloat16 a graph replays what is launched otherwise, and heads of 256 are decoded on the tensor cores.
@pytest.mark.parametrize("family", ["qwen3_next", "qwen3_5", "wide"])
def test_replayed_decodes_are_launched_ones(hone, hybrids, tmp_path, family):
    words = ["--torch_dtype", "bfloat16", "--temperature", 0]
    found, log = answers(hone, tmp_path, hybrids[family], "cuda:0", *words)
    assert "captured a decode step" in log
    launched, log = answers(hone, tmp_path, hybrids[family], "cuda:0", *words, "--vllm_enforce_eager", "true")
    assert "captured a decode step" not in log
    assert sum(a == b for a, b in zip(found, launched)) >= len(launched) - 2  # rows that pad a batch may choose another GEMM


def test_grpo_generates_and_learns(hone, hybrids, tmp_path):
    done = hone("rlhf", "--rlhf_type", "grpo", "--model", hybrids["qwen3_5"], "--dataset", ROOT / "data/demo.jsonl", "--torch_dtype", "bfloat16", "--output_dir", tmp_path,
                "--add_version", "false", "--reward_funcs", "repetition", "--num_generations", 4, "--per_device_train_batch_size", 8, "--max_completion_length", 24, "--max_steps", 3,
                "--logging_steps", 1, "--beta", 0.04, "--report_to", "none")
    assert done.returncode == 0, done.stderr[-3000:]
    gaps = [line["kl"] for line in map(json.loads, (tmp_path / "logging.jsonl").read_text().splitlines()) if "kl" in line]
    assert len(gaps) == 3 and gaps[0] == pytest.approx(0, abs=1e-3)
