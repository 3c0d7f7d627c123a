"""Argument forms of both worlds, and where each value came from."""
import json

import pytest


def resolved(done):
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def config(program, *words, **kwargs):
    return resolved(program(*words, "--show_config", "--log_format", "json", **kwargs))


def values(program, *words, **kwargs):
    return {name: entry["value"] for name, entry in config(program, *words, **kwargs).items()}


def test_forms_of_one_value(hone):
    for words in (["--learning_rate", "1e-3"], ["--learning_rate=1e-3"], ["--learning-rate", "0.001"], ["--learning-rate=1.0e-3"]):
        assert values(hone, "sft", *words)["learning_rate"] == 1e-3


@pytest.mark.parametrize("words, expected", [
    (["--streaming"], True), (["--streaming", "true"], True), (["--streaming", "yes"], True), (["--streaming", "1"], True), (["--streaming=T"], True),
    (["--streaming", "false"], False), (["--streaming", "0"], False), (["--no_streaming"], False), (["--no-streaming"], False)])
def test_flags(swift, words, expected):
    assert values(swift, "sft", *words)["streaming"] is expected


def test_lists(hone, factory):
    assert values(hone, "sft", "--dataset", "a.jsonl#5", "b:c", "d")["dataset"] == ["a.jsonl#5", "b:c", "d"]
    assert values(factory, "train", "--dataset", "identity, alpaca_en_demo")["dataset"] == ["identity", "alpaca_en_demo"]
    assert values(hone, "sft", "--dataset", "a,b.jsonl")["dataset"] == ["a,b.jsonl"]


def test_negative_numbers_are_values(hone):
    assert values(hone, "sft", "--max_steps", "-1", "--seed", "7") ["max_steps"] == -1


def test_json_values(hone):
    kwargs = values(hone, "sft", "--lr_scheduler_kwargs", '{"min_lr": 1e-6}')["lr_scheduler_kwargs"]
    assert kwargs == {"min_lr": 1e-6}


@pytest.mark.parametrize("text, size", [("2GB", 2_000_000_000), ("512MiB", 512 * 1024**2), ("1.5G", 1_500_000_000), ("1024", 1024)])
def test_sizes(hone, text, size):
    assert values(hone, "sft", "--max_shard_size", text)["max_shard_size"] == size


def test_old_names_of_swift(swift):
    for name in ("tuner_type", "train_type", "sft_type"):
        assert values(swift, "sft", f"--{name}", "full")["tuner_type"] == "full"
    assert values(swift, "sft", "--model_id_or_path", "x")["model"] == "x"


def test_unique_prefixes_only_in_swift(swift, hone):
    assert values(swift, "sft", "--learning_ra", "1e-3")["learning_rate"] == 1e-3
    assert swift("sft", "--lora_", "8").returncode == 2  # several
    assert values(swift, "sft", "--stream", "true")["streaming"] is False  # a name of its own: that of `swift infer`
    assert hone("sft", "--learning_ra", "1e-3").returncode == 2


def test_defaults_differ_by_front_end(swift, factory):
    ours, theirs = values(swift, "sft"), values(factory, "train")
    expected = {"lora_alpha": (32, 16), "lora_dropout": (0.05, 0), "weight_decay": (0.1, 0), "adam_beta2": (0.95, 0.999),
                "lr_scheduler_type": ("cosine", "linear"), "per_device_train_batch_size": (1, 8), "logging_steps": (5, 500),
                "learning_rate": (1e-4, 5e-5), "gradient_accumulation_steps": (16, 1), "gradient_checkpointing": (True, True),
                "max_length": (None, 2048), "dataloader_num_workers": (1, 0)}
    assert {name: (ours[name], theirs[name]) for name in expected} == expected


def test_automatic_values(hone):
    full = config(hone, "sft", "--tuner_type", "full", "--per_device_train_batch_size", "4")
    assert full["learning_rate"]["value"] == 1e-5 and full["learning_rate"]["source"] == "auto"
    assert full["gradient_accumulation_steps"]["value"] == 4
    assert values(hone, "sft", env={"NPROC_PER_NODE": 4})["gradient_accumulation_steps"] == 4
    assert values(hone, "sft", "--val_dataset", "v.jsonl")["eval_strategy"] == "steps"
    assert values(hone, "sft")["eval_strategy"] == "no"


def test_pt_has_its_own_defaults(hone):
    pt = values(hone, "pt")
    assert (pt["use_chat_template"], pt["loss_scale"], pt["stage"]) == (False, "all", "pt")


def test_yaml_first_then_words(swift, tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text("model: x\nlearning_rate: 1e-3   # a number although YAML 1.1 calls it text\ndataset:\n  - a\n  - b\nnum_train_epochs: 2\n")
    got = config(swift, "sft", file, "--num_train_epochs", "5")
    assert got["learning_rate"] == {"value": 1e-3, "source": "file", "where": f"{file}:2"}
    assert got["dataset"]["value"] == ["a", "b"]
    assert got["num_train_epochs"] == {"value": 5.0, "source": "command line", "where": "--num_train_epochs"}


def test_config_option_anywhere(hone, tmp_path):
    file = tmp_path / "run.json"
    file.write_text('{\n  "model": "x",\n  "seed": 7\n}\n')
    got = config(hone, "sft", "--seed", "8", "--config", file)
    assert got["model"]["where"] == f"{file}:2" and got["seed"]["value"] == 8


def test_yaml_env_block(swift, tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text("ENV:\n  LOG_LEVEL: debug\nmodel: x\n")
    done = swift("sft", file, "--show_config", env={"LOG_LEVEL": "warning"})
    assert done.returncode == 0 and "LOG_LEVEL is already set" in done.stderr


def test_factory_yaml_and_overrides(factory, tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text("model_name_or_path: x\nfinetuning_type: lora\nlora_target: all\ncutoff_len: 512\nval_size: 0.1\nlearning_rate: 1.0e-4\n"
                    "disable_gradient_checkpointing: true\nflash_attn: fa2\nreport_to: none\nresume_from_checkpoint: null\n")
    got = values(factory, "train", file, "learning_rate=2e-4", "bf16=true", "lora_target=q_proj,v_proj")
    assert got["model"] == "x" and got["tuner_type"] == "lora" and got["max_length"] == 512 and got["split_dataset_ratio"] == 0.1
    assert got["gradient_checkpointing"] is False and got["attn_impl"] == "flash_attention_2" and got["report_to"] == []
    assert got["learning_rate"] == 2e-4 and got["bf16"] is True and got["target_modules"] == ["q_proj", "v_proj"]
    assert values(factory, "train", file)["target_modules"] == ["all-linear"]


def test_factory_export_size(factory):
    got = values(factory, "export", "--export_size", "5", "--export_dir", "out", "--model_name_or_path", "x")
    assert got["max_shard_size"] == 5_000_000_000 and got["output_dir"] == "out"


def test_accelerate_launch(accelerate, tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text("model_name_or_path: x\n")
    launcher = tmp_path / "fsdp.yaml"
    launcher.write_text("distributed_type: FSDP\nnum_processes: 2\n")
    got = values(accelerate, "launch", "--config_file", launcher, "--multi_gpu", "src/train.py", file)
    assert got["model"] == "x" and got["per_device_train_batch_size"] == 8


def test_environment_is_a_source(hone):
    got = config(hone, "sft", env={"USE_HF": "1", "LOG_LEVEL": "WARNING"})
    assert got["use_hf"] == {"value": True, "source": "environment", "where": "USE_HF"}
    assert got["log_level"]["value"] == "warning"


def test_checkpoint_args_are_read_back(hone, tmp_path):
    (tmp_path / "args.json").write_text(json.dumps({"model": "base", "train_type": "full", "system": "Be brief.", "dataset": ["d.jsonl"],
                                                    "split_dataset_ratio": 0.1, "torch_dtype": "bfloat16", "unknown_key": 1}))
    got = config(hone, "infer", "--adapters", tmp_path)
    assert got["model"] == {"value": "base", "source": "checkpoint", "where": str(tmp_path / "args.json")}
    assert got["tuner_type"]["value"] == "full" and got["system"]["value"] == "Be brief." and got["torch_dtype"]["value"] == "bfloat16"
    assert got["dataset"]["value"] == []
    assert config(hone, "infer", "--adapters", tmp_path, "--system", "Mine.")["system"]["value"] == "Mine."
    data = config(hone, "infer", "--adapters", tmp_path, "--load_data_args", "true")
    assert data["dataset"]["value"] == ["d.jsonl"] and data["split_dataset_ratio"]["value"] == 0.1
    assert config(hone, "infer", "--adapters", tmp_path, "--load_args", "false")["model"]["value"] is None
    assert config(hone, "sft", "--adapters", tmp_path)["model"]["value"] is None


NUMBERS = ["lora_alpha", "preprocessing_num_workers", "learning_rate", "per_device_train_batch_size", "cutoff_len", "seed", "warmup_steps", "logging_steps"]
WORDS = ["finetuning_type", "stage", "optim", "lr_scheduler_type", "lora_target", "template"]


@pytest.mark.parametrize("form", ["{}=null", "{}="])
def test_null_is_the_default(factory, form):
    usual = values(factory, "train")
    assert values(factory, "train", *[form.format(name) for name in NUMBERS + WORDS]) == usual


def test_null_takes_back_what_a_file_says(factory, swift, tmp_path):
    (tmp_path / "run.yaml").write_text("lora_alpha: 99\nlora_rank: null\nbf16: null\ndisable_gradient_checkpointing: null\n")
    usual, found = values(factory, "train"), values(factory, "train", tmp_path / "run.yaml", "lora_alpha=null")
    assert found == {**usual, "bf16": None}
    (tmp_path / "run.json").write_text(json.dumps({"per_device_train_batch_size": None, "optim": None, "target_modules": None, "bf16": None}))
    assert values(swift, "sft", tmp_path / "run.json") == values(swift, "sft")


def test_words_of_swift_2(swift, tmp_path):
    for short, whole in (("AUTO", None), ("bf16", "bfloat16"), ("fp16", "float16"), ("fp32", "float32"), ("float32", "float32")):
        assert values(swift, "sft", "--lora_dtype", short)["lora_dtype"] == whole
    assert values(swift, "sft", "--use_flash_attn", "true")["attn_impl"] == "flash_attn"
    (tmp_path / "run.json").write_text('{"use_flash_attn": true}')
    assert values(swift, "sft", tmp_path / "run.json")["attn_impl"] == "flash_attn"
    assert values(swift, "sft", "--use_flash_attn", "false")["attn_impl"] == values(swift, "sft")["attn_impl"]
    done = swift("sft", "--check_dataset_strategy", "warning", "--show_config")
    assert done.returncode == 0 and "accepted without effect" in done.stderr, done.stderr
