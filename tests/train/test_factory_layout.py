"""`llamafactory-cli train x.yaml`: the files its users know, and continuing by typing the same command again."""
import json
import signal
import subprocess

import pytest
from train_testing import ENVIRONMENT, hone_binary


@pytest.fixture
def train(model_folder, dataset, tmp_path):
    program = hone_binary().with_name("llamafactory-cli")
    if not program.exists():
        pytest.fail(f"{program} is not built; make test builds it")
    tags = {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant", "system_tag": "system"}
    entry = {"file_name": dataset.name, "formatting": "sharegpt", "columns": {"messages": "messages"}, "tags": tags}
    (dataset.parent / "dataset_info.json").write_text(json.dumps({"mini": entry}))

    def run(fault=None, **changes):
        settings = dict(model_name_or_path=str(model_folder), stage="sft", do_train=True, finetuning_type="lora", lora_target="all", dataset="mini",
                        dataset_dir=str(dataset.parent), template="qwen", cutoff_len=256, output_dir=str(tmp_path / "out"), logging_steps=1,
                        save_steps=4, per_device_train_batch_size=4, learning_rate=1e-3, max_steps=8, plot_loss=True, lr_scheduler_type="constant")
        (tmp_path / "run.yaml").write_text(json.dumps({**settings, **changes}))
        environment = {**ENVIRONMENT, **({"HONE_FAULT": fault} if fault else {})}
        return subprocess.run([program, "train", tmp_path / "run.yaml"], capture_output=True, text=True, env=environment, timeout=300)

    return run


def test_files_and_results(train, tmp_path):
    done = train(val_size=0.1, eval_strategy="steps", eval_steps=4)  # transformers' arguments turn do_eval on with it
    assert done.returncode == 0, done.stderr
    out = tmp_path / "out"
    for name in ("adapter_model.safetensors", "adapter_config.json", "tokenizer.json", "trainer_log.jsonl", "trainer_state.json",
                 "train_results.json", "eval_results.json", "training_loss.png", "README.md"):
        assert (out / name).exists(), name
    results = json.loads((out / "all_results.json").read_text())
    assert {"train_loss", "train_runtime", "train_samples_per_second", "train_steps_per_second", "total_flos", "epoch", "eval_loss"} <= results.keys()
    assert json.loads((out / "eval_results.json").read_text())["epoch"] == results["epoch"]
    events = [json.loads(line) for line in (out / "trainer_log.jsonl").read_text().splitlines()]
    assert {"current_steps", "total_steps", "loss", "lr", "epoch", "percentage", "elapsed_time", "remaining_time"} <= events[0].keys()
    assert "***** train metrics *****" in done.stdout and "***** eval metrics *****" in done.stdout


def test_the_same_command_continues_a_killed_run(train, tmp_path):
    killed = train(fault="checkpoint.before_rename:kill:2")
    assert killed.returncode == -signal.SIGKILL
    again = train()
    assert again.returncode == 0, again.stderr
    assert "resuming from" in again.stderr and "checkpoint-4" in again.stderr
    steps = [json.loads(line)["current_steps"] for line in (tmp_path / "out/trainer_log.jsonl").read_text().splitlines()]
    assert steps[-5:-1] == [5, 6, 7, 8]


def test_a_finished_model_without_checkpoints_is_not_written_over(train, tmp_path):
    assert train(save_strategy="no").returncode == 0
    refused = train(save_strategy="no")
    assert refused.returncode == 2 and "overwrite_output_dir" in refused.stderr
    assert train(save_strategy="no", overwrite_output_dir=True).returncode == 0


def test_packs_are_made_of_n_rows_at_a_time(train, tmp_path):
    def packs(rows):
        done = train(neat_packing=True, preprocessing_batch_size=rows, num_train_epochs=1, max_steps=-1, per_device_train_batch_size=1, save_strategy="no", overwrite_output_dir=True)
        assert done.returncode == 0, done.stderr
        return json.loads((tmp_path / "out/trainer_state.json").read_text())["global_step"]

    together, by_eight, alone = packs(1000), packs(8), packs(1)
    assert alone == 64 and together < by_eight and by_eight == 8 * (by_eight // 8), "eight rows of this data fill one pack, or the same number each time"
    assert train(neat_packing=True, preprocessing_batch_size=0).returncode == 2


def test_a_second_stage_trains_what_its_file_says(train, tmp_path):
    """The folder of an earlier run holds its args.json; LLaMA-Factory's training takes only the weights."""
    assert train(finetuning_type="full", lora_target=None, max_steps=2, plot_loss=False).returncode == 0
    full, second = tmp_path / "out", tmp_path / "second"
    done = train(model_name_or_path=str(full), output_dir=str(second), max_steps=2, plot_loss=False)
    assert done.returncode == 0, done.stderr
    assert (second / "adapter_model.safetensors").exists() and not (second / "model.safetensors").exists()
    assert json.loads((second / "args.json").read_text())["tuner_type"] == "lora"

    refused = train(finetuning_type="full", lora_target=None, adapter_name_or_path=str(second), output_dir=str(tmp_path / "third"))
    assert refused.returncode == 2 and "finetuning_type full" in refused.stderr, refused.stderr


def test_probabilities_need_interleaved_datasets(train):
    refused = train(interleave_probs="1.0")
    assert refused.returncode == 2 and "interleave_probs" in refused.stderr and "mix_strategy interleave_under" in refused.stderr


def test_early_stopping_without_evaluation_is_warned_of(train):
    done = train(early_stopping_steps=2, max_steps=1, plot_loss=False)
    assert done.returncode == 0 and "--early_stopping_steps has no effect: nothing is evaluated" in done.stderr, done.stderr


def test_a_metric_that_evaluations_lack_is_refused_with_those_they_have(train):
    done = train(val_size=0.2, eval_strategy="steps", eval_steps=1, metric_for_best_model="accuracy", max_steps=2, plot_loss=False)
    assert done.returncode == 2 and "evaluation reports no eval_accuracy" in done.stderr, done.stderr
    assert "it reports eval_loss" in done.stderr and "eval_token_acc" in done.stderr
