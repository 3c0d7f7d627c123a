"""Metrics logged with the loss: the loss per channel compared with transformers, and sequence accuracy."""
import json
import subprocess

import pytest

from train_testing import ENVIRONMENT, hone_binary


@pytest.fixture(scope="module")
def channelled(dataset, tmp_path_factory):
    path = tmp_path_factory.mktemp("channels") / "rows.jsonl"
    with open(path, "w") as file:
        for i, line in enumerate(dataset.read_text().splitlines()):
            row = json.loads(line)
            if i % 3:
                row["channel"] = "ab"[i % 2]
            file.write(json.dumps(row) + "\n")
    return path


def expected_losses(model_folder, rows):
    """Mean loss per labelled token and channel, of the ids and labels that hone prepared."""
    import torch
    from transformers import AutoModelForCausalLM

    words = [str(hone_binary()), "preview", "--model", str(model_folder), "--dataset", str(rows), "--format", "jsonl", "--rows", "64"]
    shown = subprocess.run(words, capture_output=True, text=True, env=ENVIRONMENT, timeout=300)
    assert shown.returncode == 0, shown.stderr
    channels = [json.loads(line).get("channel", "None") for line in rows.read_text().splitlines()]
    model = AutoModelForCausalLM.from_pretrained(model_folder).eval()
    sums = {}
    for line in shown.stdout.splitlines():
        row = json.loads(line)
        with torch.no_grad():
            logits = model(torch.tensor([row["ids"]])).logits[0, :-1]
        labels = torch.tensor(row["labels"][1:])
        loss = torch.nn.functional.cross_entropy(logits, labels, reduction="sum", ignore_index=-100).item()
        total = sums.setdefault(channels[row["row"]], [0.0, 0])
        total[0] += loss
        total[1] += int((labels != -100).sum())
    return {f"loss_{name}": total / count for name, (total, count) in sums.items()}


@pytest.mark.parametrize("count", [1, 2])
def test_each_channel_has_its_loss(sft, model_folder, channelled, tmp_path, count):
    run = sft(tmp_path / "run", dataset=channelled, enable_channel_loss="true", max_steps=1, per_device_train_batch_size=64 // count, count=count)
    assert run.code == 0, run.err
    expected = expected_losses(model_folder, channelled)
    assert set(expected) == {"loss_a", "loss_b", "loss_None"}
    event = run.log()[0]
    assert {name: event[name] for name in expected} == pytest.approx(expected, rel=1e-4)


def test_sequence_accuracy_counts_whole_answers(sft, dataset, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text("\n".join(dataset.read_text().splitlines()[:4]) + "\n")
    run = sft(tmp_path / "run", dataset=rows, acc_strategy="seq", tuner_type="full", max_steps=60, per_device_train_batch_size=4, learning_rate="5e-3",
              save_strategy="no")
    assert run.code == 0, run.err
    events = [event for event in run.log() if "loss" in event and "log_history" not in event]
    assert all("token_acc" not in event for event in events)
    assert events[0]["seq_acc"] == 0 and events[-1]["seq_acc"] == 1
    assert all(event["seq_acc"] * 4 == round(event["seq_acc"] * 4) for event in events)


def test_entropy_weighs_tokens_as_llamafactory_weighs_them(model_folder, dataset, tmp_path):
    import torch
    from transformers import AutoModelForCausalLM

    rows = dataset.read_text().splitlines()[:4]
    (tmp_path / "rows.jsonl").write_text("\n".join(rows) + "\n")
    tags = {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant", "system_tag": "system"}
    (tmp_path / "dataset_info.json").write_text(json.dumps({"rows": {"file_name": "rows.jsonl", "formatting": "sharegpt", "columns": {"messages": "messages"}, "tags": tags}}))
    shared = ["--model_name_or_path", model_folder, "--dataset", "rows", "--dataset_dir", tmp_path, "--template", "qwen", "--cutoff_len", 256]
    run = lambda *words: subprocess.run([hone_binary().with_name("llamafactory-cli"), *map(str, words)], capture_output=True, text=True, env=ENVIRONMENT, timeout=120)
    done = run("train", *shared, "--stage", "sft", "--do_train", "true", "--finetuning_type", "full", "--output_dir", tmp_path / "out", "--max_steps", 1, "--logging_steps", 1,
               "--per_device_train_batch_size", 4, "--use_eaft_loss", "true", "--eaft_alpha", 0.7)
    assert done.returncode == 0, done.stderr
    (found,) = [json.loads(line)["loss"] for line in (tmp_path / "out/trainer_log.jsonl").read_text().splitlines() if "loss" in json.loads(line)]
    preview = [str(hone_binary()), "preview", "--dialect", "factory", *(str(w) for w in ("--model", *shared[1:])), "--format", "jsonl", "--rows", "4"]
    shown = subprocess.run(preview, capture_output=True, text=True, env=ENVIRONMENT, timeout=60)
    assert shown.returncode == 0, shown.stderr
    model, total, count = AutoModelForCausalLM.from_pretrained(model_folder).eval(), 0.0, 0
    for line in shown.stdout.splitlines():
        row = json.loads(line)
        with torch.no_grad():
            logits = model(torch.tensor([row["ids"]])).logits[0, :-1]
        labels = torch.tensor(row["labels"][1:])
        logits, labels = logits[labels != -100], labels[labels != -100]
        logps = logits.topk(20, -1).values.log_softmax(-1)
        weights = (-(logps.exp() * logps).sum(-1) / 3).pow(0.7)
        total += (torch.nn.functional.cross_entropy(logits, labels, reduction="none") * weights).sum().item()
        count += len(labels)
    assert found == pytest.approx(total / count, rel=1e-3)


def test_accuracy_of_evaluations_is_llamafactorys(model_folder, dataset, tmp_path):
    import torch
    from transformers import AutoModelForCausalLM

    (tmp_path / "rows.jsonl").write_text("\n".join(dataset.read_text().splitlines()[:6]) + "\n")
    tags = {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant", "system_tag": "system"}
    (tmp_path / "dataset_info.json").write_text(json.dumps({"rows": {"file_name": "rows.jsonl", "formatting": "sharegpt", "columns": {"messages": "messages"}, "tags": tags}}))
    shared = ["--model_name_or_path", model_folder, "--dataset_dir", tmp_path, "--template", "qwen", "--cutoff_len", 256]

    def train(metric, *options):
        out = tmp_path / metric
        words = ["train", *shared, "--dataset", "rows", "--eval_dataset", "rows", "--stage", "sft", "--do_train", "true", "--finetuning_type", "full", "--output_dir", out, "--max_steps", 4,
                 "--logging_steps", 1, "--learning_rate", "5e-3", "--eval_strategy", "steps", "--eval_steps", 2, "--save_steps", 2, "--per_device_train_batch_size", 6,
                 "--per_device_eval_batch_size", 4, "--load_best_model_at_end", "true", "--metric_for_best_model", metric, *options]
        return subprocess.run([hone_binary().with_name("llamafactory-cli"), *map(str, words)], capture_output=True, text=True, env=ENVIRONMENT, timeout=120), out

    done, out = train("eval_accuracy", "--compute_accuracy", "true", "--plot_loss", "true")
    assert done.returncode == 0, done.stderr
    history = json.loads((out / "trainer_state.json").read_text())["log_history"]
    measured = [event["eval_accuracy"] for event in history if "eval_accuracy" in event]
    assert len(measured) == 2 and not any("accuracy" in event for event in history)
    results = json.loads((out / "all_results.json").read_text())
    assert results["eval_accuracy"] == pytest.approx(max(measured))
    assert (out / "training_eval_accuracy.png").exists()

    preview = [str(hone_binary()), "preview", "--dialect", "factory", *map(str, ["--model", *shared[1:], "--dataset", "rows"]), "--format", "jsonl", "--rows", "6"]
    shown = subprocess.run(preview, capture_output=True, text=True, env=ENVIRONMENT, timeout=60)
    assert shown.returncode == 0, shown.stderr
    model, shares = AutoModelForCausalLM.from_pretrained(out).eval(), []
    for line in shown.stdout.splitlines():
        row = json.loads(line)
        with torch.no_grad():
            best = model(torch.tensor([row["ids"]])).logits[0, :-1].argmax(-1)
        labels = torch.tensor(row["labels"][1:])
        shares.append((best == labels)[labels != -100].float().mean().item())
    assert results["eval_accuracy"] == pytest.approx(sum(shares) / len(shares), abs=1e-6)
    assert results["eval_accuracy"] != pytest.approx(results["eval_token_acc"], abs=1e-6)  # rows count the same, not tokens

    missing, _ = train("accuracy")
    assert missing.returncode == 2 and "evaluation reports no eval_accuracy" in missing.stderr and "it reports eval_loss" in missing.stderr
