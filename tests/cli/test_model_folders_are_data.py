"""Model, adapter and checkpoint folders are untrusted data: they cannot refer to files outside themselves."""
import json
import os
import shutil

import pytest

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "models/nano"


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(MODEL, tmp_path / "model", ignore=shutil.ignore_patterns("README.md"))
    return tmp_path / "model"


def questions(tmp_path):
    path = tmp_path / "questions.jsonl"
    path.write_text('{"messages": [{"role": "user", "content": "hi"}]}\n')
    return path


@pytest.mark.reliability(29)
@pytest.mark.parametrize("name", ["template", "system", "response_prefix", "new_special_tokens", "rope_scaling"])
def test_args_json_reads_no_file_outside_its_folder(hone, folder, tmp_path, name, figure):
    secret = tmp_path / "secret.txt"
    secret.write_text("the password is fish\n")
    (folder / "link.txt").symlink_to(secret)
    for word in (str(secret), "../secret.txt", "link.txt"):
        (folder / "args.json").write_text(json.dumps({"model": str(folder), name: [word] if name == "new_special_tokens" else word}))
        done = hone("infer", "--model", folder, "--load_args", "true", "--val_dataset", questions(tmp_path), "--max_new_tokens", "2")
        assert done.returncode == 4 and "outside this folder" in done.stderr and "fish" not in done.stderr + done.stdout, done.stderr
    if name == "template":
        (folder / "args.json").write_text(json.dumps({"template": str(secret)}))
        seen = hone("preview", "--model", folder, "--dataset", ROOT / "data/demo.jsonl")
        assert seen.returncode == 4 and "fish" not in seen.stdout, seen.stderr
    figure("args.json: 3 spellings of an outside file refused for 5 options")


def test_a_template_file_travels_with_the_checkpoint(hone, folder, tmp_path):
    template = tmp_path / "mine.jinja"
    template.write_text("{% for m in messages %}[{{ m['role'] }}] {{ m['content'] }}\n{% endfor %}{% if add_generation_prompt %}[assistant] {% endif %}")
    done = hone("sft", "--model", folder, "--dataset", ROOT / "data/demo.jsonl", "--template", template, "--max_steps", "1", "--output_dir", tmp_path / "out",
                "--add_version", "false", "--torch_dtype", "float32", "--max_length", "256")
    assert done.returncode == 0, done.stderr
    template.unlink()
    checkpoint = tmp_path / "out/checkpoint-1"
    assert json.loads((checkpoint / "args.json").read_text())["template"] == "template.jinja"
    answered = hone("infer", "--adapters", checkpoint, "--val_dataset", questions(tmp_path), "--max_new_tokens", "2")
    assert answered.returncode == 0 and "was trained on" not in answered.stderr, answered.stderr
    # A base of another name is remarked upon, and what a killed merge left is cleared away.
    config = json.loads((checkpoint / "adapter_config.json").read_text())
    (checkpoint / "adapter_config.json").write_text(json.dumps({**config, "base_model_name_or_path": "someone/another-model"}))
    answered = hone("infer", "--adapters", checkpoint, "--model", folder, "--val_dataset", questions(tmp_path), "--max_new_tokens", "2")
    assert answered.returncode == 0 and "was trained on someone/another-model" in answered.stderr, answered.stderr
    left = tmp_path / "merged.partial-4194303"
    left.mkdir()
    merged = hone("export", "--model", folder, "--adapters", checkpoint, "--merge_lora", "true", "--output_dir", tmp_path / "merged")
    assert merged.returncode == 0 and not left.exists() and (tmp_path / "merged/template.jinja").exists(), merged.stderr
    continued = hone("sft", "--model", folder, "--adapters", checkpoint, "--dataset", ROOT / "data/demo.jsonl", "--max_steps", "1", "--output_dir", tmp_path / "on")
    for done in (merged, continued):
        assert done.returncode == 0 and done.stderr.count("was trained on someone/another-model") == 1, done.stderr


@pytest.mark.reliability(29)
def test_hostile_model_files_are_refused_quickly(hone, folder, tmp_path, figure):
    config = json.loads((folder / "config.json").read_text())
    for change, message in (({"num_hidden_layers": 10**9}, "num_hidden_layers"), ({"max_position_embeddings": 2**62}, "beyond any model"),
                         ({"max_position_embeddings": 10**18}, "beyond any model"), ([], "expected an object")):
        (folder / "config.json").write_text(json.dumps({**config, **change} if change else []))
        done = hone("infer", "--model", folder, "--val_dataset", questions(tmp_path), timeout=10)
        assert done.returncode in (2, 3, 4) and message in done.stderr, done.stderr
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").unlink()
    os.mkfifo(folder / "model.safetensors")
    done = hone("infer", "--model", folder, "--val_dataset", questions(tmp_path), timeout=20)
    assert done.returncode in (3, 4) and "regular file" in done.stderr, done.stderr
    wide = tmp_path / "wide.csv"
    wide.write_text(",".join(f"c{i}" for i in range(100_000)) + "\n")
    done = hone("preview", "--model", MODEL, "--dataset", wide, timeout=20)
    assert done.returncode != 0 and "columns" in done.stderr, done.stderr
    keys = tmp_path / "keys.yaml"
    keys.write_text("".join(f"k{i}: 1\n" for i in range(200_000)))
    done = hone("sft", keys, timeout=20)
    assert done.returncode == 2 and "more than 10000 keys" in done.stderr, done.stderr
    done = hone("sft", "--model", MODEL, "--dataset", f"{ROOT}/data/demo.jsonl#1000000000", "--output_dir", tmp_path / "out", timeout=20)
    assert done.returncode == 2 and "rows after #" in done.stderr, done.stderr
    figure("8 hostile configs, files and words refused within 20 s each")


def test_passwords_in_urls_are_never_shown(hone):
    done = hone("rlhf", "--rlhf_type", "grpo", "--model", MODEL, "--dataset", ROOT / "data/demo.jsonl", "--reward_funcs", "http://me:hunter2@127.0.0.1:9/reward",
                "--show_config", "true", "--log_format", "json")
    assert "hunter2" not in done.stdout + done.stderr and "(hidden)@127.0.0.1" in done.stdout, done.stdout[:500] + done.stderr
