"""hone convert-config: the native command it prints does the same, to the last bit of the weights."""
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def lines(tmp_path, out):
    shared = ["max_steps=2", "logging_steps=1"]
    yaml = ROOT / "cookbook" / "factory" / "sft.yaml"
    return {
        "llamafactory-cli": ["llamafactory-cli", "train", yaml, f"output_dir={out}", f"dataset_dir={ROOT / 'data'}", f"model_name_or_path={ROOT / 'models' / 'nano'}", *shared],
        "accelerate": ["accelerate", "launch", "--num_processes", "1", "src/train.py", yaml, f"output_dir={out}", f"dataset_dir={ROOT / 'data'}",
                       f"model_name_or_path={ROOT / 'models' / 'nano'}", *shared],
        "swift": ["swift", "sft", "--model", ROOT / "models" / "nano", "--dataset", ROOT / "data" / "demo.jsonl", "--train_type", "lora", "--lora_dropout_p", "0.1", "--max_steps", "2",
                  "--add_version", "false", "--output_dir", out, "--system", "It's short.", "--report_to", "none"],
    }


@pytest.mark.parametrize("program", ["llamafactory-cli", "accelerate", "swift"])
def test_the_native_command_trains_the_same(hone, swift, factory, accelerate, tmp_path, program):
    programs = {"llamafactory-cli": factory, "accelerate": accelerate, "swift": swift}
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    done = programs[program](*lines(tmp_path, theirs)[program][1:])
    assert done.returncode == 0, done.stderr
    printed = hone("convert-config", *lines(tmp_path, ours)[program])
    assert printed.returncode == 0, printed.stderr
    words = shlex.split(printed.stdout)
    environment = dict(word.split("=", 1) for word in words[: words.index("hone")])
    done = hone(*words[words.index("hone") + 1:], env=environment)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr, done.stderr
    adapter = "adapter_model.safetensors" if program != "swift" else "checkpoint-2/adapter_model.safetensors"
    assert (theirs / adapter).read_bytes() == (ours / adapter).read_bytes()


def test_a_file_alone_is_enough(hone):
    done = hone("convert-config", ROOT / "cookbook" / "factory" / "sft.yaml")
    assert done.returncode == 0 and done.stdout.startswith("hone sft --model models/nano") and "--dialect factory" in done.stdout


def test_what_has_no_effect_is_left_out_and_named(hone):
    done = hone("convert-config", "swift", "sft", "--model", "m", "--dataset", "d", "--tuner_backend", "unsloth")
    assert "unsloth" not in done.stdout and "tuner_backend" in done.stderr
