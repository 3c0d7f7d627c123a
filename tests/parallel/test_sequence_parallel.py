"""Sequences that lie on several processes train as if they lay on one: by heads, by a ring, by both, with and without sharding."""
import json
import random

import pytest
from parallel_testing import GLOBAL_BATCH, ROWS, assert_same_training, sentence


@pytest.fixture(scope="module")
def two_heads(tmp_path_factory, model_folder):
    """Two query heads that share one key head: four processes make a ring of two in addition."""
    import torch
    from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

    folder = tmp_path_factory.mktemp("two-heads")
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    torch.manual_seed(1)
    Qwen2ForCausalLM(Qwen2Config(vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
                                 max_position_embeddings=512, tie_word_embeddings=False, eos_token_id=tokenizer.eos_token_id)).float().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("world, options, shape", [
    (2, {}, "heads over 2, a ring of 1"),
    (4, dict(deepspeed="zero3"), "heads over 4, a ring of 1"),  # two key heads are repeated for four processes
    (3, {}, "heads over 1, a ring of 3"),
])
def test_one_sequence_on_all_processes(train, reference, tmp_path, dataset, world, options, shape):
    """Evaluations too: each row counts once, however many processes hold a part of it."""
    measured = dict(val_dataset=dataset, eval_strategy="epoch", per_device_eval_batch_size=3)
    run = train(tmp_path, world, tuner_type="lora", sequence_parallel_size=world, per_device_train_batch_size=GLOBAL_BATCH, **options, **measured)
    one = reference("lora", 1, **measured)
    assert_same_training(run, one)
    assert shape in run.err
    ours, theirs = ([event for event in each.log() if "eval_loss" in event] for each in (run, one))
    assert len(ours) == len(theirs) == 2
    for event, other in zip(ours, theirs):
        assert [event[key] for key in ("eval_loss", "eval_token_acc")] == pytest.approx([other[key] for key in ("eval_loss", "eval_token_acc")], abs=1e-5)
        assert round(event["eval_samples_per_second"] * event["eval_runtime"]) == ROWS


def test_heads_and_ring_at_once(train, reference, tmp_path, two_heads):
    options = dict(model=two_heads, adam_epsilon="1e-5")  # with less, the sign of a gradient that is all rounding moves a weight
    run = train(tmp_path, 4, tuner_type="full", sequence_parallel_size=4, per_device_train_batch_size=GLOBAL_BATCH, **options)
    assert_same_training(run, reference("full", 1, **options))
    assert "heads over 2, a ring of 2" in run.err


def test_packed_rows_on_a_ring(train, reference, tmp_path):
    """Several conversations in a row, of lengths that no three processes share evenly: none sees another's."""
    packed = dict(packing="true", max_length=61, num_train_epochs=3)
    run = train(tmp_path, 3, tuner_type="lora", sequence_parallel_size=3, per_device_train_batch_size=GLOBAL_BATCH, **packed)
    assert_same_training(run, reference("lora", 1, **packed))


def test_beside_data_parallelism(train, reference, tmp_path):
    run = train(tmp_path, 4, tuner_type="full", sequence_parallel_size=2, per_device_train_batch_size=GLOBAL_BATCH // 2, deepspeed="zero1")
    assert_same_training(run, reference("full", 1))


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    path, rng = tmp_path_factory.mktemp("pairs") / "pairs.jsonl", random.Random(5)
    with path.open("w") as file:
        for _ in range(ROWS):
            talk = [{"role": "user", "content": sentence(rng, rng.randint(2, 6))}, {"role": "assistant", "content": sentence(rng, rng.randint(3, 9))}]
            file.write(json.dumps({"messages": talk, "rejected_response": sentence(rng, rng.randint(3, 9))}) + "\n")
    return path


@pytest.fixture(scope="module")
def judged(pairs):
    """The answers of pairs as rows of KTO, good ones and bad ones in turn."""
    path = pairs.with_name("judged.jsonl")
    rows = [json.loads(line) for line in pairs.read_text().splitlines()]
    path.write_text("".join(json.dumps({"messages": row["messages"], "label": i % 2 == 0}) + "\n" for i, row in enumerate(rows)))
    return path


@pytest.mark.parametrize("world, options", [
    (2, dict(rlhf_type="rm", tuner_type="lora", center_rewards_coefficient=0.1)),
    (2, dict(rlhf_type="kto", tuner_type="lora", beta=0.5)),
    (2, dict(rlhf_type="dpo", tuner_type="lora", ld_alpha=0.5)),
    (3, dict(rlhf_type="dpo", tuner_type="full", rpo_alpha=0.1, deepspeed="zero1")),  # the reference is a second model
    (2, dict(rlhf_type="orpo", tuner_type="lora")),
], ids=["rm", "kto", "dpo, lora, weighed by length", "dpo, full, on a ring", "orpo"])
def test_answers_that_are_split_are_compared_as_whole_ones(train, pairs, judged, tmp_path, world, options):
    """In evaluations as well; each pair, or row of KTO, counts once."""
    rows = judged if options["rlhf_type"] == "kto" else pairs
    shared = dict(verb="rlhf", dataset=rows, val_dataset=rows, eval_strategy="epoch", per_device_eval_batch_size=3, per_device_train_batch_size=GLOBAL_BATCH)
    run, one = (train(tmp_path / name, count, **shared, **options, **more) for name, count, more in (("split", world, dict(sequence_parallel_size=world)), ("one", 1, {})))
    assert run.code == 0 and one.code == 0, run.err + one.err
    for ours, theirs in zip(run.log(), one.log()):
        for key in ("loss", "grad_norm", "rewards/margins", "rewards/accuracies", "logps/chosen", "logits/rejected", "nll_loss", "kl", "center_rewards_loss", "eval_loss", "eval_rewards/margins"):
            assert ours.get(key) == pytest.approx(theirs.get(key), rel=1e-4, abs=1e-5) if key in theirs else key not in ours, (key, ours, theirs)
    assert any("eval_loss" in event for event in one.log())


def test_completions_are_split_when_they_train(train, pairs, tmp_path):
    """Two ranks write them, each a part, and compute every sequence together."""
    shared = dict(verb="rlhf", dataset=pairs, rlhf_type="grpo", reward_funcs="soft_overlong", soft_max_length=12, soft_cache_length=6, max_completion_length=10, num_generations=4, beta=0.04,
                  temperature=1, max_steps=3, per_device_train_batch_size=GLOBAL_BATCH)
    run, one = (train(tmp_path / name, count, **shared, **more) for name, count, more in (("split", 2, dict(sequence_parallel_size=2)), ("one", 1, {})))
    assert run.code == 0 and one.code == 0, run.err + one.err
    for ours, theirs in zip(run.log(), one.log()):
        for key in ("loss", "grad_norm", "reward", "kl", "completions/mean_length", "clip_ratio/region_mean"):
            assert ours.get(key) == pytest.approx(theirs.get(key), rel=1e-4, abs=1e-5) if key in theirs else key not in ours, (key, ours, theirs)
    assert any(event.get("reward") for event in one.log())


@pytest.mark.parametrize("options", [dict(enable_channel_loss="true"), dict(acc_strategy="seq")], ids=lambda options: [*options][0])
def test_what_follows_whole_answers_is_refused(train, tmp_path, options):
    done = train(tmp_path, 2, sequence_parallel_size=2, **options)
    assert done.code == 2 and "sequence_parallel_size" in done.err and [*options][0] in done.err
