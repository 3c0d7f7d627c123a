"""Mistakes in files rather than options: found before anything is loaded, named with file and place."""
import json
import shlex
import shutil
import socket
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NANO = ROOT / "models/nano"


@pytest.fixture
def rows(tmp_path):
    """40 rows, of which the 5th, 17th and 33rd are broken."""
    good = json.dumps({"messages": [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]})
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(('{"messages": 3}' if i in (5, 17, 33) else good) + "\n" for i in range(1, 41)))
    return path


@pytest.mark.parametrize("seed", range(4))
def test_strict_stops_at_the_first_bad_row_of_the_file(hone, rows, tmp_path, seed):
    done = hone("sft", "--model", NANO, "--dataset", rows, "--strict", "true", "--data_seed", str(seed), "--output_dir", tmp_path / "out")
    assert done.returncode == 3 and f"{rows}:5: " in done.stderr, done.stderr


def test_eval_steps_without_validation_data_says_that_it_does_nothing(hone, rows, tmp_path):
    for asked, message in ((["--eval_steps", "2"], "--eval_steps has no effect"), (["--eval_strategy", "steps", "--eval_steps", "1000"], "--eval_strategy has no effect")):
        done = hone("sft", "--model", NANO, "--dataset", rows, *asked, "--max_steps", "1", "--output_dir", tmp_path / "out")
        assert done.returncode == 0, done.stderr
        assert message in done.stderr and done.stderr.count("has no effect") == 1, done.stderr


def test_options_of_packing_and_mixing_without_either_are_named(hone, rows, tmp_path):
    line = ["sft", "--model", NANO, "--max_steps", "1", "--output_dir", tmp_path / "out", "--dataset", rows]
    done = hone(*line, "--packing_length", "64", "--interleave_prob", "1.0")
    assert done.returncode == 0, done.stderr
    for message in ("--packing_length has no effect without --packing true", "--interleave_prob has no effect with fewer than two datasets"):
        assert done.stderr.count(message) == 1, done.stderr
    done = hone(*line, rows, "--packing", "true", "--packing_length", "64", "--max_length", "64", "--interleave_prob", "0.5", "0.5")
    assert done.returncode in (0, 3) and "no effect" not in done.stderr, done.stderr


def test_resizing_for_added_tokens_has_an_effect(factory, tmp_path):
    file = tmp_path / "export.yaml"
    file.write_text(f"model_name_or_path: {NANO}\ntemplate: qwen\nadd_tokens: foo\nresize_vocab: true\nexport_dir: {tmp_path}/out\n")
    done = factory("export", file)
    assert done.returncode == 0 and "no effect" not in done.stderr, done.stderr


def test_an_adapter_of_a_relative_base_is_usable_from_another_folder(swift, rows, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    shutil.copytree(NANO, tmp_path / "models/base")
    done = swift("sft", "--model", "models/base", "--dataset", rows, "--max_steps", "1", "--output_dir", "out", "--add_version", "false", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "out/checkpoint-1/adapter_config.json").read_text())["base_model_name_or_path"] == str(tmp_path / "models/base")
    for words in (["infer", "--val_dataset", f"{rows}#1", "--max_new_tokens", "1"], ["merge-lora"]):
        done = swift(*words, "--adapters", "../out/checkpoint-1", cwd=tmp_path / "elsewhere")
        assert done.returncode == 0 and "was trained on" not in done.stderr, done.stderr


def test_one_row_cannot_be_split(hone, rows, tmp_path):
    done = hone("sft", "--model", NANO, "--dataset", f"{rows}#1", "--split_dataset_ratio", "0.5", "--output_dir", tmp_path / "out")
    assert done.returncode == 2 and "nothing is left to train on after 1 of 1 row for validation" in done.stderr, done.stderr


def test_a_stream_has_no_share_to_hold_out(factory, rows, tmp_path):
    (tmp_path / "dataset_info.json").write_text(json.dumps({"rows": {
        "file_name": rows.name, "formatting": "sharegpt", "columns": {"messages": "messages"},
        "tags": {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant"}}}))
    file = tmp_path / "run.yaml"
    file.write_text(f"model_name_or_path: {NANO}\ntemplate: qwen\nstage: sft\ndo_train: true\nfinetuning_type: lora\ndataset: rows\n"
                    f"dataset_dir: {tmp_path}\nstreaming: true\nmax_steps: 2\nval_size: 0.1\noutput_dir: {tmp_path}/out\n")
    done = factory("train", file)
    assert done.returncode == 2 and "a stream has no length" in done.stderr, done.stderr


def test_inference_counts_the_rows_it_skips(hone, rows, tmp_path):
    done = hone("infer", "--model", NANO, "--val_dataset", rows, "--max_new_tokens", "1", "--result_path", tmp_path / "answers.jsonl")
    assert done.returncode == 3 and "skipped 3 of 40 rows" in done.stderr, done.stderr
    assert len((tmp_path / "answers.jsonl").read_text().splitlines()) == 37


@pytest.fixture
def unread(tmp_path):
    """A model folder without weights: a command that needs them would complain of that."""
    shutil.copytree(NANO, tmp_path / "model", ignore=shutil.ignore_patterns("*.safetensors"))
    return tmp_path / "model"


@pytest.mark.parametrize("words, message", [
    (["--target_modules", "q_prj"], '--target_modules: no module ends in "q_prj"'),
    (["--target_regex", "("], '--target_regex: "(" is not a regular expression'),
    (["--modules_to_save", "lm_hed"], '--modules_to_save: no module ends in "lm_hed"'),
    (["--tuner_type", "full", "--trainable_parameters", "model.block"], '--trainable_parameters: no parameter starts with "model.block"'),
    (["--optim", "adamm"], '--optim is "adamm"'),
    (["--optim_args", "beta=1"], '--optim_args: adamw_torch does not know "beta"'),
    (["--optim", "muon", "--optim_args", "nesterov=ture"], '--optim_args: nesterov is "ture", expected true or false'),
    (["--optim", "muon", "--optim_args", "ns_steps=2.5"], '--optim_args: ns_steps is "2.5", expected an integer'),
    (["--optim", "sgd", "--optim_args", "momentum=inf"], '--optim_args: momentum is "inf", expected a number'),
    (["--lr_scheduler_kwargs", '{"min": 1}'], '--lr_scheduler_kwargs: cosine does not know "min"'),
    (["--system", "prompts.txt"], "--system prompts.txt: there is no such file"),
    (["--deepspeed", "zero.json"], "--deepspeed zero.json: there is no such file"),
])
def test_misspelt_settings_are_found_before_weights_are_read(hone, unread, rows, tmp_path, words, message):
    done = hone("sft", "--model", unread, "--dataset", rows, *words, "--output_dir", tmp_path / "out", cwd=tmp_path)
    assert done.returncode == 2 and message in done.stderr, done.stderr
    assert not (tmp_path / "out").exists()


def test_modules_are_named_as_the_front_end_does(factory, hone, unread, rows, tmp_path):
    (tmp_path / "dataset_info.json").write_text(json.dumps({"rows": {"file_name": rows.name, "formatting": "sharegpt", "columns": {"messages": "messages"}}}))
    done = factory("train", "--stage", "sft", "--do_train", "true", "--model_name_or_path", unread, "--template", "qwen", "--dataset", "rows",
                   "--dataset_dir", tmp_path, "--finetuning_type", "lora", "--lora_target", "q_proj,q_prj", "--output_dir", tmp_path / "out")
    assert done.returncode == 2 and '--lora_target: no module ends in "q_prj"' in done.stderr, done.stderr
    planned = hone("plan", "swift", "sft", "--model", unread, "--dataset", rows, "--target_modules", "q_prj")
    assert planned.returncode == 2 and "no module ends in" in planned.stderr, planned.stderr


def test_a_folder_that_cannot_be_made_is_named(hone, tmp_path):
    (tmp_path / "file").write_text("")
    done = hone("infer", "--model", NANO, "--val_dataset", ROOT / "data/demo.jsonl", "--result_path", tmp_path / "file/answers.jsonl")
    assert done.returncode != 0 and done.stderr.startswith(f"error: {tmp_path}/file: Not a directory") and "hint: " in done.stderr, done.stderr


def test_a_checkpoint_that_is_not_there_names_the_newest(hone, rows, tmp_path):
    run = ["sft", "--model", NANO, "--dataset", rows, "--max_steps", "1", "--output_dir", tmp_path / "out", "--add_version", "false"]
    assert hone(*run).returncode == 0
    done = hone(*run, "--resume_from_checkpoint", tmp_path / "out/checkpoint-9")
    assert done.returncode == 4 and f"the newest checkpoint there is {tmp_path / 'out/checkpoint-1'}" in done.stderr, done.stderr


@pytest.mark.parametrize("field, value, expected", [
    ("do_sample", "yes", "true or false"), ("temperature", "warm", "a number"), ("eos_token_id", "<|im_end|>", "a token id or a list of them"),
    ("max_new_tokens", 1.5, "an integer"),
])
def test_a_generation_config_of_wrong_types_is_named(hone, tmp_path, field, value, expected):
    model = tmp_path / "model"
    shutil.copytree(NANO, model)
    (model / "generation_config.json").write_text(json.dumps({field: value}))
    done = hone("infer", "--model", model, "--val_dataset", ROOT / "data/demo.jsonl")
    assert done.returncode == 4, done.stderr
    assert f"generation_config.json: {field} is {json.dumps(value)}; expected {expected}" in done.stderr


def test_columns_that_name_no_column(hone, rows):
    done = hone("sft", "--model", NANO, "--dataset", rows, "--columns", '{"a": 1}')
    assert done.returncode == 2 and "expected an object from column to column" in done.stderr, done.stderr


@pytest.fixture(scope="module")
def run(hone, tmp_path_factory):
    """A run of two steps with checkpoints of an adapter, in ms-swift's layout."""
    folder = tmp_path_factory.mktemp("run") / "first"
    done = hone("sft", "--model", NANO, "--dataset", ROOT / "data/demo.jsonl", "--max_steps", "2", "--save_steps", "1", "--output_dir", folder)
    assert done.returncode == 0, done.stderr
    return next(folder.glob("v0-*"))


def refused(done):
    assert done.returncode in (2, 4), done.stderr
    lines = done.stderr.splitlines()
    return lines[0] + " " + lines[-1]


def test_folders_that_are_not_what_they_should_be(hone, run):
    assert "--adapters nothere: there is no such folder" in refused(hone("infer", "--adapters", "nothere"))
    assert "did you mean models/nano;" in refused(hone("infer", "--model", "models/nanoo", cwd=ROOT))
    assert "did you mean models/nano" in refused(hone("infer", "--model", "model/nano", cwd=ROOT))
    assert "no such folder" in refused(hone("infer", "--model", "./models/nanoo/x", cwd=ROOT))
    adapter = run / "checkpoint-2"
    output = refused(hone("infer", "--model", adapter))
    assert "holds an adapter, not a model" in output and f"--adapters {adapter}" in output and str(NANO) in output
    assert f"--adapters {adapter}" in refused(hone("deploy", "--model", run, "--port", "0"))
    assert f"the newest is {adapter}" in refused(hone("infer", "--adapters", run))
    assert f"the newest is {adapter}" in refused(hone("infer", "--adapters", run.parent))
    assert f"the newest checkpoint there is {adapter}" in refused(hone("infer", "--adapters", run / "checkpoint-9"))
    assert f"pass it as --model {NANO}" in refused(hone("infer", "--adapters", NANO))


def test_a_name_of_another_number_is_another_model(hone, tmp_path):
    (tmp_path / "org/model-3B").mkdir(parents=True)
    assert "not in the caches" in hone("infer", "--model", "org/model-7B", cwd=tmp_path).stderr


def test_a_run_that_fails_before_its_first_step_leaves_no_folder(hone, rows, tmp_path):
    model = tmp_path / "model"
    shutil.copytree(NANO, model)
    weights = next(model.glob("*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:-1000])
    (tmp_path / "mine").mkdir()
    for name in ("out", "mine"):
        done = hone("sft", "--model", model, "--dataset", rows, "--output_dir", tmp_path / name)
        assert done.returncode != 0, done.stderr
    assert not (tmp_path / "out").exists() and list((tmp_path / "mine").iterdir()) == []


def test_a_merged_model_has_a_card_of_its_own_and_ollama_is_named(hone, run, tmp_path):
    model = tmp_path / "base"
    shutil.copytree(NANO, model)
    (model / "README.md").write_text("# The base\n")
    done = hone("export", "--model", model, "--adapters", run / "checkpoint-2", "--merge_lora", "true", "--to_ollama", "true", "--output_dir", tmp_path / "merged")
    assert done.returncode == 0, done.stderr
    card = (tmp_path / "merged/README.md").read_text()
    assert "The base" not in card and str(run / "checkpoint-2") in card and "base_model:" in card
    assert f"ollama create my-model -f {tmp_path}/merged/Modelfile" in done.stdout


def test_the_schedule_of_the_page_works(hone, rows, tmp_path):
    """The command of docs/command-line.md that sets lr_scheduler_kwargs."""
    line = next(line for line in (ROOT / "docs/command-line.md").read_text().splitlines() if line.startswith("hone sft") and "lr_scheduler_kwargs" in line)
    words = shlex.split(line)[1:]
    words[words.index("--dataset") + 1] = str(rows)
    done = hone(*words, "--max_steps", "1", "--output_dir", tmp_path / "out", cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_a_reward_where_nothing_listens_is_known_before_the_model(hone, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{free.getsockname()[1]}/score"
    model = tmp_path / "model"
    shutil.copytree(NANO, model)
    next(model.glob("*.safetensors")).write_bytes(b"no weights")  # would be the error if they were looked at
    done = hone("rlhf", "--rlhf_type", "grpo", "--model", model, "--dataset", ROOT / "data/demo.jsonl", "--reward_funcs", address, "--num_generations", "2",
                "--per_device_train_batch_size", "2", "--output_dir", tmp_path / "out")
    assert done.returncode == 1 and f"the reward at {address} cannot be reached" in done.stderr, done.stderr


@pytest.mark.parametrize("file", ["model.safetensors", "tokenizer.json"])
def test_a_pointer_of_git_lfs_is_called_so(hone, tmp_path, file):
    shutil.copytree(NANO, tmp_path / "model")
    (tmp_path / "model" / file).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 3278912\n")
    output = hone("sft", "--model", tmp_path / "model", "--dataset", ROOT / "data/demo.jsonl", "--output_dir", tmp_path / "out")
    assert output.returncode in (3, 4) and f"model/{file}: a Git LFS pointer, not the file itself; run `git lfs pull`" in output.stderr, output.stderr


def test_a_damaged_config_is_a_bad_checkpoint(hone, tmp_path):
    shutil.copytree(NANO, tmp_path / "model")
    (tmp_path / "model/config.json").write_text('{"a": ')
    done = hone("sft", "--model", tmp_path / "model", "--dataset", ROOT / "data/demo.jsonl", "--output_dir", tmp_path / "out")
    assert done.returncode == 4 and "config.json: parse error" in done.stderr and "fetch it again" in done.stderr, done.stderr


def test_a_config_file_of_ones_own_is_a_mistake_of_the_command_line(hone, tmp_path):
    """A name that model folders use too does not make it a checkpoint."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/config.json").write_text('{"a": ')
    done = hone("sft", "--model", NANO, "--dataset", ROOT / "data/demo.jsonl", "--deepspeed", tmp_path / "conf/config.json", "--output_dir", tmp_path / "out")
    assert done.returncode == 2 and "config.json: parse error" in done.stderr and "fetch it again" not in done.stderr, done.stderr


def test_the_next_command_can_be_copied_from_a_folder_with_spaces(hone, tmp_path):
    folder = tmp_path / "my 运行"
    done = hone("sft", "--model", NANO, "--dataset", ROOT / "data/demo.jsonl", "--max_steps", "2", "--save_steps", "1", "--save_total_limit", "-1",
                "--output_dir", folder, "--add_version", "false")
    assert done.returncode == 0 and (folder / "checkpoint-1").exists(), done.stderr
    following = next(line for line in done.stdout.splitlines() if line.startswith("  next "))
    assert shlex.split(following)[-2:] == ["--adapters", str(folder / "checkpoint-2")], following
    merged = hone("merge-lora", "--adapters", folder / "checkpoint-2")
    assert shlex.split(merged.stdout.splitlines()[-1])[-1] == str(folder / "checkpoint-2-merged"), merged.stdout
