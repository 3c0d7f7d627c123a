"""What is logged beside the loss: the loss of each channel against transformers, and answers that are right from end to end."""
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
