"""Rows that were encoded once: training on them is training on the rows themselves."""
import json
import subprocess

import numpy
import pytest

from train_testing import ENVIRONMENT, command, hone_binary


def run(program, *words):
    return subprocess.run([hone_binary().with_name(program), *map(str, words)], capture_output=True, text=True, env=ENVIRONMENT, timeout=120)


@pytest.fixture
def cache(model_folder, dataset, tmp_path):
    done = run("swift", "export", "--model", model_folder, "--dataset", dataset, "--to_cached_dataset", "true", "--output_dir", tmp_path / "cache", "--max_length", 256,
               "--split_dataset_ratio", 0.25, "--loss_scale", "last_round", "--dataset_shuffle", "false")
    assert done.returncode == 0, done.stderr
    assert f"--cached_dataset {tmp_path}/cache/train" in done.stdout
    return tmp_path / "cache"


def test_losses_are_those_of_the_rows(sft, model_folder, dataset, cache, tmp_path):
    shared = dict(train_dataloader_shuffle="false", dataset_shuffle="false", loss_scale="last_round", eval_strategy="steps", eval_steps=2, max_steps=4)
    plain = sft(tmp_path / "plain", **{**shared, "split_dataset_ratio": 0.25})
    assert plain.code == 0, plain.err
    settings = command(model_folder, dataset, tmp_path / "cached", **shared, cached_dataset=cache / "train", cached_val_dataset=cache / "val")
    at = settings.index("--dataset")
    done = run("hone", "sft", *settings[:at], *settings[at + 2:])
    assert done.returncode == 0, done.stderr
    events = [json.loads(line) for line in (tmp_path / "cached/logging.jsonl").read_text().splitlines()]
    assert [e["loss"] for e in events if "loss" in e and "log_history" not in e] == plain.losses()
    assert [e["eval_loss"] for e in events if "eval_loss" in e] == [e["eval_loss"] for e in plain.log() if "eval_loss" in e]


def test_a_damaged_cache_is_reported(cache, model_folder, tmp_path):
    tokens = cache / "train/tokens.bin"
    tokens.write_bytes(tokens.read_bytes()[:-4])
    done = run("swift", "sft", "--model", model_folder, "--cached_dataset", cache / "train", "--output_dir", tmp_path / "out")
    assert done.returncode == 3 and "tokens.bin" in done.stderr
    none = run("swift", "sft", "--model", model_folder, "--cached_dataset", tmp_path, "--output_dir", tmp_path / "out")
    assert none.returncode == 3 and "encoded_rows.json" in none.stderr


def test_llamafactory_writes_its_tokenized_path_once_and_reads_it_then(model_folder, tmp_path):
    (tmp_path / "dataset_info.json").write_text(json.dumps({"rows": {"file_name": "rows.json"}}))
    (tmp_path / "rows.json").write_text(json.dumps([{"instruction": f"say {i}", "input": "", "output": "the cat runs " * (i + 1)} for i in range(8)]))

    def train(out):
        done = run("llamafactory-cli", "train", "--model_name_or_path", model_folder, "--stage", "sft", "--do_train", "true", "--finetuning_type", "lora", "--dataset", "rows",
                   "--dataset_dir", tmp_path, "--template", "qwen", "--cutoff_len", 128, "--max_steps", 3, "--logging_steps", 1, "--per_device_train_batch_size", 2,
                   "--tokenized_path", tmp_path / "tokens", "--val_size", 0.25, "--output_dir", tmp_path / out, "--disable_shuffling", "true")
        assert done.returncode == 0, done.stderr
        return done, [json.loads(line)["loss"] for line in (tmp_path / out / "trainer_log.jsonl").read_text().splitlines() if "loss" in json.loads(line)]

    first, losses = train("first")
    assert (tmp_path / "tokens/train").is_dir() and (tmp_path / "tokens/validation").is_dir()
    (tmp_path / "rows.json").unlink()
    second, again = train("second")
    assert again == losses and "ignored" in second.stderr


def encoded(folder):
    """Ids and labels of every part, and the row it belongs to."""
    about = json.loads((folder / "encoded_rows.json").read_text())
    tokens = numpy.fromfile(folder / "tokens.bin", dtype=numpy.int32)
    ids, labels = tokens[:about["tokens"]], tokens[about["tokens"]:2 * about["tokens"]]
    rows, ends = numpy.fromfile(folder / "parts.bin", dtype=numpy.int64).reshape(-1, 2).T
    starts = [0, *ends[:-1]]
    return about, [(int(row), ids[a:b].tolist(), labels[a:b].tolist()) for row, a, b in zip(rows, starts, ends)]


def test_rows_of_preferences_keep_both_answers(model_folder, tmp_path):
    rows = [dict(query=f"question {i}", response=f"good answer {i}", rejected_response=f"poor {i}", label=i % 2 == 0) for i in range(5)]

    def export(name, rows, *words):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        done = run("swift", "export", "--model", model_folder, "--dataset", tmp_path / f"{name}.jsonl", "--to_cached_dataset", "true", "--output_dir", tmp_path / name, "--max_length", 256,
                   "--split_dataset_ratio", 0, "--dataset_shuffle", "false", *words)
        assert done.returncode == 0, done.stderr
        return encoded(tmp_path / name / "train")

    _, chosen = export("chosen", [dict(query=row["query"], response=row["response"]) for row in rows])
    _, rejected = export("rejected", [dict(query=row["query"], response=row["rejected_response"]) for row in rows])
    about, pairs = export("pairs", rows, "--template_mode", "rlhf")
    assert about["purpose"] == "rlhf" and pairs == [part for both in zip(chosen, rejected) for part in both]
    about, single = export("labelled", [{**row, "rejected_response": None} for row in rows], "--template_mode", "kto")
    assert about["purpose"] == "kto" and about["labels"] == [row["label"] for row in rows] and single == chosen
    margins, _ = export("margins", [{**row, "margin": i / 2} for i, row in enumerate(rows)], "--template_mode", "rlhf")
    assert "labels" not in export("again", rows, "--template_mode", "rlhf")[0] and margins["labels"] == [value for i in range(5) for value in (i / 2, None)]
    for method, name in (("kto", "labelled"), ("rm", "margins")):  # each trains from its cache as from its rows
        losses = []
        for source in (["--dataset", tmp_path / f"{name}.jsonl", "--dataset_shuffle", "false", "--split_dataset_ratio", 0], ["--cached_dataset", tmp_path / name]):
            done = run("swift", "rlhf", "--rlhf_type", method, "--model", model_folder, *source, "--train_dataloader_shuffle", "false", "--per_device_train_batch_size", 4, "--gradient_accumulation_steps", 1, "--max_steps", 2,
                       "--learning_rate", "1e-3", "--torch_dtype", "float32", "--max_length", 256, "--save_strategy", "no", "--add_version", "false", "--output_dir", tmp_path / f"{method}-{len(losses)}")
            assert done.returncode == 0, done.stderr
            steps = [json.loads(line) for line in (tmp_path / f"{method}-{len(losses)}/logging.jsonl").read_text().splitlines()[:2]]
            losses.append([step[key] for key in ("loss", "grad_norm", "rewards/chosen") for step in steps])
        assert losses[0] == pytest.approx(losses[1], rel=1e-5), method
    done = run("swift", "export", "--model", model_folder, "--dataset", tmp_path / "pairs.jsonl", "--to_cached_dataset", "true", "--output_dir", tmp_path / "pairs.jsonl/inside")
    assert done.returncode == 2 and "cannot be created" in done.stderr
    done = run("swift", "sft", "--model", model_folder, "--cached_dataset", tmp_path / "missing", "--output_dir", tmp_path / "run")
    assert done.returncode == 2 and "there is no such folder" in done.stderr
    done = run("swift", "sft", "--model", model_folder, "--cached_dataset", tmp_path / "pairs/train", "--output_dir", tmp_path / "run")
    assert done.returncode == 2 and "--template_mode rlhf" in done.stderr
