"""Experts that take no more tokens than they have room for drop the rest by Megatron's rule, alone and dealt out, in training and evaluation."""
import json

import pytest
from layouts_testing import assert_same, many_experts, settings

FACTOR = 0.75
DROPPING = dict(tuner_type="full", moe_expert_capacity_factor=FACTOR, per_device_train_batch_size=1)  # a row is a micro-batch: capacities are those of any layout


def test_experts_that_are_dealt_out_drop_the_same(train, models, tmp_path):
    one, run = (train(tmp_path / str(world), world, expert_parallel_size=world, **settings(models(many_experts), **DROPPING, gradient_accumulation_steps=8 // world)) for world in (1, 2))
    assert_same(run, one)


@pytest.mark.parametrize("policy", ["probs", "position"])
def test_the_rule_is_megatrons(train, models, dataset, tmp_path, policy):
    """transformers' loss, its routers' weights multiplied by the mask of mcore's apply_router_token_dropping; what is learnt and what is evaluated is the same row."""
    import math

    import torch
    import transformers
    from transformers.models.qwen3_moe import modeling_qwen3_moe as family
    text = " ".join(message["content"] for line in dataset.read_text().splitlines()[:3] for message in json.loads(line)["messages"])
    row = tmp_path / "row.jsonl"
    row.write_text(json.dumps({"messages": [{"role": "assistant", "content": text}]}) + "\n")
    run = train(tmp_path / "run", verb="pt", dataset=row, **settings(models(many_experts), **DROPPING, moe_token_drop_policy=policy) |
                dict(max_steps=1, val_dataset=row, eval_strategy="steps", eval_steps=1, learning_rate=0, per_device_eval_batch_size=1))
    assert run.code == 0, run.err
    model = transformers.AutoModelForCausalLM.from_pretrained(models(many_experts), dtype=torch.float32).eval()
    routed = family.Qwen3MoeTopKRouter.forward
    dropped = []

    def dropping(router, hidden):
        logits, weights, experts = routed(router, hidden)
        gates = torch.zeros(experts.shape[0], router.num_experts).scatter(1, experts, weights)
        chosen = gates > 0
        capacity = math.ceil(experts.numel() / router.num_experts * FACTOR)
        kept = (gates if policy == "probs" else chosen.float()).sort(dim=0, descending=True, stable=True).indices[:capacity]
        mask = torch.zeros_like(chosen).scatter(0, kept, True).gather(1, experts)
        dropped.append(int((~mask).sum()))
        return logits, weights * mask, experts

    tokenizer = transformers.AutoTokenizer.from_pretrained(models(many_experts))
    ids = torch.tensor([tokenizer(text).input_ids + [tokenizer.eos_token_id]])
    family.Qwen3MoeTopKRouter.forward = dropping
    try:
        theirs = model(ids, labels=ids).loss.item()
    finally:
        family.Qwen3MoeTopKRouter.forward = routed
    assert sum(dropped) > 0
    assert run.losses() == pytest.approx([theirs], abs=1e-5)
    assert [event["eval_loss"] for event in run.log() if "eval_loss" in event] == pytest.approx([theirs], abs=1e-5)
