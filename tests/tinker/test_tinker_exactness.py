"""Training through the server is `hone sft`, and runs that share a pass are runs that train alone."""
import json
import subprocess

import pytest
from serve_testing import BINARY
from tinker import types
from tinker_testing import ALICE, BOB, MODEL, ROOT, TEXTS, datum, rows

STEPS = 5
ADAM = types.AdamParams(learning_rate=2e-3, beta1=0.9, beta2=0.95, eps=1e-8, weight_decay=0.01, grad_clip_norm=1.0)


def hone(*words):
    done = subprocess.run([str(word) for word in (BINARY, *words)], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_losses_equal_the_command_line(server, tmp_path):
    """The same rows from the same start: what `hone sft` logs as the mean over labeled tokens is the sum with weights of one share each."""
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(json.dumps({"messages": [{"role": "user", "content": f"Question {i}?"}, {"role": "assistant", "content": text}]}) + "\n" for i, text in enumerate(TEXTS)))
    seen = [json.loads(line) for line in hone("preview", "--model", MODEL, "--dataset", data, "--format", "jsonl", "--ids", "--rows", len(TEXTS)).splitlines()]
    assert len(seen) == len(TEXTS)
    labeled = sum(label != -100 for row in seen for label in row["labels"])
    batch = [datum(row["ids"][:-1], [max(label, 0) for label in row["labels"][1:]], weights=[(label != -100) / labeled for label in row["labels"][1:]]) for row in seen]
    client = server.service().create_lora_training_client(base_model=MODEL, rank=8, seed=5, train_unembed=False).result()
    start = server.archive(client.save_weights_for_sampler("start").result().path, tmp_path / "start")
    steps = [(client.forward_backward(batch, "cross_entropy"), client.optim_step(ADAM)) for _ in range(STEPS)]
    ours = [(forward.result().metrics["loss:sum"], update.result().metrics["grad_norm"]) for forward, update in steps]
    hone("sft", "--model", MODEL, "--adapters", start, "--dataset", data, "--output_dir", tmp_path / "run", "--add_version", "false", "--torch_dtype", "float32", "--split_dataset_ratio", 0,
         "--max_steps", STEPS, "--per_device_train_batch_size", len(TEXTS), "--gradient_accumulation_steps", 1, "--learning_rate", 2e-3, "--lr_scheduler_type", "constant", "--warmup_ratio", 0,
         "--adam_beta2", 0.95, "--weight_decay", 0.01, "--max_grad_norm", 1.0, "--logging_steps", 1, "--lora_dropout", 0)
    logged = [event for event in map(json.loads, (tmp_path / "run/logging.jsonl").read_text().splitlines()) if "loss" in event and "log_history" not in event]
    assert [loss for loss, _ in ours] == pytest.approx([event["loss"] for event in logged], rel=2e-6)
    assert [norm for _, norm in ours] == pytest.approx([event["grad_norm"] for event in logged], rel=1e-4)
    assert ours[-1][0] < 0.7 * ours[0][0]


def test_runs_that_share_passes_equal_runs_alone(server, tokenizer):
    """Four runs of two tenants, of different ranks and layers, sent at once."""
    data = [datum(tokens, targets, weights=[1.0] * len(targets)) for tokens, targets in rows(tokenizer)]
    kinds = [(ALICE, dict(rank=4)), (BOB, dict(rank=16, train_unembed=False)), (ALICE, dict(rank=8, train_mlp=False)), (BOB, dict(rank=32, train_attn=False))]

    def losses(chosen):
        clients = [(server.service(key).create_lora_training_client(base_model=MODEL, seed=settings["rank"], **settings).result(), data[i:] + data[:i]) for i, (key, settings) in chosen]
        steps = [[client.forward_backward(rows_of, "cross_entropy") for client, rows_of in clients] + [client.optim_step(ADAM) for client, _ in clients] for _ in range(3)]
        return [[step[i].result().metrics["loss:sum"] for step in steps] for i in range(len(clients))]

    together = losses(list(enumerate(kinds)))
    for i, kind in enumerate(kinds):
        alone = losses([(i, kind)])[0]
        assert together[i] == pytest.approx(alone, rel=1e-6)
        assert alone[-1] < alone[0]
