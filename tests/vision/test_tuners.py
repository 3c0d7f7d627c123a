"""Every tuner on a model that sees images: what it adapts or adds is in the language model unless another part is named."""
import json
import subprocess

import pytest
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file

from media_runs import HONE, losses, sft, swift, write_rows
from vision_models import write_vision_model

TUNERS = {
    "lora": (),
    "longlora": (),
    "adalora": ("--adalora_init_r", 6, "--adalora_target_r", 2, "--adalora_tinit", 1, "--adalora_tfinal", 1),
    "vera": ("--vera_rank", 8),
    "boft": ("--boft_block_size", 4),
    "fourierft": ("--fourier_n_frequency", 60),
    "adapter": ("--adapter_length", 8),
    "reft": ("--reft_rank", 3),
}


def make(family, tmp_path_factory):
    place = tmp_path_factory.mktemp(family)
    (place / "model").mkdir()
    rows = []
    for name, color in {"red": (220, 30, 30), "blue": (30, 60, 220)}.items():
        Image.new("RGB", (60, 50), color).save(place / f"{name}.png")
        rows.append({"messages": [{"role": "user", "content": "<image>Color?"}, {"role": "assistant", "content": name}], "images": [str(place / f"{name}.png")]})
    return write_vision_model(place / "model", family), write_rows(place / "rows.jsonl", rows * 2), rows


@pytest.fixture(scope="module", params=["qwen2_5_vl", "qwen3_vl"])
def made(request, tmp_path_factory):
    return make(request.param, tmp_path_factory)


@pytest.mark.parametrize("tuner", TUNERS)
def test_a_tuner_changes_the_language_model(made, tmp_path, tuner):
    sft(made, tmp_path / "run", "--tuner_type", tuner, *TUNERS[tuner], "--gradient_accumulation_steps", 1)
    checkpoint = tmp_path / "run" / "checkpoint-4"
    adapter = checkpoint / "default" if (checkpoint / "default").exists() else checkpoint
    names = [name for name in load_file(adapter / "adapter_model.safetensors") if "vera_A" not in name and "vera_B" not in name]
    assert names and all("language_model.layers." in name for name in names), names
    assert (tmp_path / "run" / "checkpoint-4" / "README.md").read_text().count("pipeline_tag: image-text-to-text") == 1
    answers = swift("infer", "--model", made[0], "--adapters", checkpoint, "--val_dataset", made[1], "--max_new_tokens", 2, "--temperature", 0, "--torch_dtype", "float32",
                    "--result_path", tmp_path / "answers.jsonl")
    assert len((tmp_path / "answers.jsonl").read_text().splitlines()) == 4, answers


def test_lisa_trains_layers_of_the_language_model(made, tmp_path):
    sft(made, tmp_path / "run", "--tuner_type", "full", "--lisa_activated_layers", 1, "--lisa_step_interval", 1, "--gradient_accumulation_steps", 1)
    before, after = load_file(made[0] / "model.safetensors"), load_file(tmp_path / "run" / "checkpoint-4" / "model.safetensors")
    changed = [name for name in before if not torch.equal(before[name], after[name])]
    assert changed and not any("visual." in name for name in changed), changed


@pytest.mark.parametrize("tuner", ["adapter", "reft"])
def test_a_tuner_of_the_language_model_says_that_it_is_frozen(made, tmp_path, tuner):
    done = subprocess.run([HONE.with_name("swift"), "sft", "--model", made[0], "--dataset", made[1], "--tuner_type", tuner, "--freeze_llm", "true", "--freeze_vit", "false",
                           "--output_dir", tmp_path], capture_output=True, text=True)
    assert done.returncode == 2 and f"{tuner} changes the language model, which freeze_llm freezes" in done.stderr, done.stderr


def test_llama_pro_expands_the_language_model(made, tmp_path):
    """The expanded model starts where the old one is, transformers reads it, and only its new blocks are trained."""
    folder = made[0]
    sft(made, tmp_path / "run", "--tuner_type", "llamapro", "--llamapro_num_new_blocks", 2, "--gradient_accumulation_steps", 1)
    sft(made, tmp_path / "still", "--tuner_type", "full", "--learning_rate", 0, "--gradient_accumulation_steps", 1, "--save_strategy", "no")
    assert losses(tmp_path / "run")[0] == pytest.approx(losses(tmp_path / "still")[0], abs=1e-5)
    checkpoint = tmp_path / "run" / "checkpoint-4"
    config = json.loads((checkpoint / "config.json").read_text())
    assert config["text_config"]["num_hidden_layers"] == 6 and len(config["text_config"].get("layer_types") or range(6)) == 6
    assert "num_hidden_layers" not in config and "vocab_size" not in config
    model, seen = transformers.AutoModelForImageTextToText.from_pretrained(checkpoint, dtype=torch.float32, output_loading_info=True)
    assert not seen["missing_keys"] and not seen["unexpected_keys"] and not seen["mismatched_keys"], seen
    before = transformers.AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).state_dict()
    old = {0: 0, 1: 1, 2: 3, 3: 4}  # the numbers of the old blocks in the expanded model
    after = model.state_dict()
    for name, value in before.items():
        if "language_model.layers." in name:
            head, rest = name.split("language_model.layers.")
            number, rest = rest.split(".", 1)
            name = f"{head}language_model.layers.{old[int(number)]}.{rest}"
        assert torch.equal(after[name], value), name
    assert after["model.language_model.layers.2.mlp.down_proj.weight"].abs().max() > 0


def test_blocks_between_deepstack_layers_are_refused(tmp_path_factory, tmp_path):
    made = make("qwen3_vl", tmp_path_factory)
    done = subprocess.run([HONE.with_name("swift"), "sft", "--model", made[0], "--dataset", made[1], "--tuner_type", "llamapro", "--llamapro_num_new_blocks", "4",
                           "--output_dir", tmp_path], capture_output=True, text=True)
    assert done.returncode == 2 and "deepstack features" in done.stderr and "llamapro_num_new_blocks" in done.stderr, done.stderr


def test_llama_factory_s_expanded_blocks_with_lora(made, tmp_path):
    rows = [{**row, "conversations": [{"from": {"user": "human", "assistant": "gpt"}[turn["role"]], "value": turn["content"]} for turn in row["messages"]]} for row in made[2]]
    write_rows(tmp_path / "rows.jsonl", rows)
    (tmp_path / "dataset_info.json").write_text(json.dumps({"rows": {"file_name": "rows.jsonl", "formatting": "sharegpt", "columns": {"messages": "conversations", "images": "images"}}}))
    (tmp_path / "run.yaml").write_text(json.dumps({
        "model_name_or_path": str(made[0]), "stage": "sft", "do_train": True, "finetuning_type": "lora", "use_llama_pro": True, "freeze_trainable_layers": 2, "dataset": "rows",
        "dataset_dir": str(tmp_path), "template": "qwen2_vl", "output_dir": str(tmp_path / "out"), "max_steps": 1, "per_device_train_batch_size": 2, "plot_loss": False}))
    done = subprocess.run([HONE.with_name("llamafactory-cli"), "train", tmp_path / "run.yaml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    names = list(load_file(tmp_path / "out" / "adapter_model.safetensors"))
    assert names and all("language_model.layers.1." in name or "language_model.layers.3." in name for name in names), names


def test_rates_of_frozen_parts_have_no_effect(made, tmp_path):
    said = sft(made, tmp_path / "frozen", "--tuner_type", "lora", "--vit_lr", "1e-5", "--aligner_lr", "1e-5", "--gradient_accumulation_steps", 4, "--save_strategy", "no")
    assert said.count("vit_lr has no effect") == 1 and said.count("aligner_lr has no effect") == 1, said
    said = sft(made, tmp_path / "some", "--tuner_type", "lora", "--freeze_vit", "false", "--vit_lr", "1e-5", "--gradient_accumulation_steps", 4, "--save_strategy", "no")
    assert "has no effect" not in said, said
