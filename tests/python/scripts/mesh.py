"""mesh.py SIZES MODEL: a loop of one's own on a mesh, with hone's loss, then with losses that Python computes. Prints losses and norms."""
import json
import sys
from pathlib import Path

import hone

import torch

DEMO = Path(__file__).resolve().parents[3] / "data/demo.jsonl"
sizes = json.loads(sys.argv[1])
mesh = hone.DeviceMesh(**sizes)
model = hone.Model(sys.argv[2], dtype="float32")
rows = [json.loads(line) for line in DEMO.read_text().splitlines()]
dataset = hone.Dataset(rows, hone.Template(model))
trainer = hone.Trainer(model, hone.LoraConfig(rank=4, dropout=0), learning_rate=1e-2, mesh=mesh)
found = []


def rows_of(step):
    """Four rows of the update, shared out."""
    return [dataset[4 * step + row] for row in range(4)][mesh.data_rank::mesh.data_size]


def batch_of(step):
    return hone.Batch.from_rows(rows_of(step))


def some_experts(tokens):
    """Two of four experts for each token in each of four layers, whatever the routers say."""
    first = torch.arange(tokens)[:, None] + torch.arange(4)
    return torch.stack([first % 4, (first + 1 + first // 4 % 3) % 4], -1)


def total(value):
    """The sum over those with rows of their own."""
    shares = dict(json.loads(text) for text in mesh.gather(json.dumps([mesh.data_rank, value])))
    return sum(shares.values())


def update(loss):
    found.append([loss, trainer.clip_grad_norm(1.0)])
    trainer.step()
    trainer.zero_grad()


for step in range(2):  # two micro-batches, which pass through stages at the same time
    update(trainer.forward_backward([batch_of(2 * step), batch_of(2 * step + 1)])["loss"])
for step in (4, 5):  # squared log-probabilities
    batch = batch_of(step)
    loss = trainer.logprobs(batch).square().sum()
    trainer.backward(loss, batch.num_targets)
    update(total(float(loss.detach())) / total(batch.num_targets))
batch = batch_of(6)
found.append([total(float(trainer.evaluated_logprobs(batch).sum())), total(float(trainer.base_logprobs(batch).sum()))])
if "pp" in sizes:
    try:
        trainer.routed_logprobs(batch)
    except hone.UsageError as error:
        assert "pipeline stages" in error.message
        found.append([])
else:
    recorded, experts = trainer.routed_logprobs(batch)
    assert torch.allclose(recorded, trainer.evaluated_logprobs(batch), atol=1e-6) and len(experts) == len(recorded)
    digits = experts.flatten(1).double() @ torch.arange(1.0, experts[0].numel() + 1).double()
    found.append([total(float(recorded.sum())), total(float((digits * (batch.input_ids + 1)).sum()))])
replayed = hone.Batch.from_rows([{**row, "routed_experts": some_experts(len(row["input_ids"]) - 3)} for row in rows_of(6)])
if "pp" not in sizes:
    used = trainer.routed_logprobs(replayed)[1]
    given = replayed.routed_experts >= 0
    assert given.any() and (used[given] == replayed.routed_experts[given]).all() and (used >= 0).all()
loss = trainer.logprobs(replayed).square().sum()
trainer.backward(loss, replayed.num_targets)
found.append([total(float(loss.detach())), trainer.clip_grad_norm(1e9)])
trainer.zero_grad()
if "tp" in sizes:  # whose head is sharded
    try:
        trainer.logits(batch)
    except hone.UsageError as error:
        assert "tensor parallel" in error.message
else:  # of three tokens at each position, and of all
    ids = (batch.input_ids[:, None] + torch.arange(3)) % model.vocab_size
    losses = []
    for read in (lambda: trainer.logits(batch, ids).mul(torch.tensor([1.0, -2.0, 0.5])).square().sum(), lambda: trainer.logits(batch).logsumexp(-1).sum()):
        losses.append(read())
        if "fsdp" in sizes:  # shards are there for one pass
            trainer.backward(losses[-1], len(batch.input_ids))
    if "fsdp" not in sizes:
        trainer.backward(sum(losses), 2 * len(batch.input_ids))
    update(total(float(sum(losses).detach())) / total(2 * len(batch.input_ids)))
found.append([trainer.evaluate(batch)["loss"], 0.0])
folder = Path(f"saved-{'-'.join(map(str, sizes.values()))}")
trainer.save_weights(folder)
again = trainer.save("state")
trainer.load(again)
found.append([trainer.evaluate(batch)["loss"], 0.0])
if "cp" in sizes:  # the model that it leaves has whole sequences again
    expected = trainer.evaluated_logprobs(batch)
    del trainer
    assert torch.allclose(model.logprobs(batch), expected, atol=1e-5)
if mesh.rank == 0:
    print("RESULT", json.dumps({"found": found, "adapter": str(folder), "state": again}), flush=True)
