"""Measured costs of layouts: memory of each process and bytes sent, compared with theory."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import time

import pytest
from parallel_testing import environment, hone_binary, words
from processes import Started

LAYERS, HIDDEN, INTERMEDIATE = 64, 128, 512


@pytest.fixture(scope="module")
def deep_model(tmp_path_factory, model_folder):
    """64 blocks, so that one is small compared with all; tied embedding with a small vocabulary."""
    import torch
    from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

    folder = tmp_path_factory.mktemp("deep")
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    config = Qwen2Config(vocab_size=len(tokenizer), hidden_size=HIDDEN, intermediate_size=INTERMEDIATE, num_hidden_layers=LAYERS, num_attention_heads=4,
                         num_key_value_heads=4, max_position_embeddings=512, tie_word_embeddings=True, eos_token_id=tokenizer.eos_token_id)
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(config).float()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder, 4 * model.num_parameters(), 4 * sum(p.numel() for p in model.model.layers[0].parameters())


def settings(model, data, folder, world, **options):
    more = dict(tuner_type="full", max_steps=4, num_train_epochs=1, save_strategy="no", max_length=128, per_device_train_batch_size=1)
    more.update(options)
    return words(model, data, folder, world, **more)


def anonymous_peak(model, data, folder, world, verb="sft", **options):
    """Most private memory of any process of the run, mapped files not counted."""
    folder.mkdir()
    run = Started([hone_binary(), verb, *settings(model, data, folder / "run", world, **options)], environment(world), folder / "log.txt")
    peak = 0
    while run.process.poll() is None:
        for pid in (run.ranks().values() if world > 1 else [run.process.pid]):
            try:
                status = pathlib.Path(f"/proc/{pid}/status").read_text()
                peak = max(peak, int(re.search(r"RssAnon:\s+(\d+)", status)[1]) * 1024)
            except (OSError, TypeError):
                continue
        time.sleep(0.01)
    assert run.process.returncode == 0, run.text()
    return peak


def test_memory_of_each_process(deep_model, model_folder, dataset, tmp_path):
    model, weights, block = deep_model
    program = anonymous_peak(model_folder, dataset, tmp_path / "empty", 4)  # what a process needs without a model to speak of
    alone = anonymous_peak(model, dataset, tmp_path / "one", 1) - program
    state = 4 * weights  # weights, gradients, two moments
    assert alone == pytest.approx(state, rel=0.25)
    zero3 = anonymous_peak(model, dataset, tmp_path / "zero3", 4, deepspeed="zero3") - program
    assert zero3 <= 0.3 * alone + block, (zero3, alone, block)
    zero2 = anonymous_peak(model, dataset, tmp_path / "zero2", 4, deepspeed="zero2") - program
    assert zero2 == pytest.approx(weights + 3 * weights / 4, rel=0.15)
    zero1 = anonymous_peak(model, dataset, tmp_path / "zero1", 4, deepspeed="zero1", gradient_accumulation_steps=2) - program
    assert zero1 == pytest.approx(2 * weights + 3 * weights / 4, rel=0.15)  # whole gradients of the passes before, and own sums
    print({name: round(size / state, 3) for name, size in dict(one=alone, zero1=zero1, zero2=zero2, zero3=zero3).items()})


def test_tensor_parallel_rollouts_hold_no_full_model(deep_model, model_folder, dataset, tmp_path):
    """Frozen shards are copies of a half, with LoRA next to them; a gathered model would add all weights."""
    model, weights, _ = deep_model
    rollouts = dict(verb="rlhf", rlhf_type="grpo", tuner_type="lora", lora_rank=1, reward_funcs="soft_overlong", soft_max_length=12, soft_cache_length=6, num_generations=2,
                    per_device_train_batch_size=2, max_completion_length=8, max_steps=2, vllm_max_num_seqs=2, tensor_parallel_size=2)
    program, spread = (anonymous_peak(each, dataset, tmp_path / name, 2, **rollouts) for name, each in (("empty", model_folder), ("deep", model)))
    assert spread - program < weights, (spread, program, weights)
    print(f"{(spread - program) / weights:.2f} of the weights")


def loopback_bytes(line, env):
    """Runs `line` in a separate network; returns the bytes over its loopback and the program's output."""
    if subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode or not shutil.which("ip"):
        pytest.skip("no network namespaces here")
    script = 'ip link set lo up && "$@" >&2; code=$?; cat /proc/net/dev; exit $code'
    done = subprocess.run(["unshare", "-n", "bash", "-c", script, "bash", *map(str, line)], capture_output=True, text=True, env=env, timeout=300)
    assert done.returncode == 0, done.stderr
    return int(re.search(r"lo:\s*(\d+)", done.stdout)[1]), done.stderr


@pytest.mark.parametrize("strategy, passes", [({}, 2.0), (dict(deepspeed="zero2"), 2.0), (dict(deepspeed="zero3"), 3.0), (dict(fsdp="shard_grad_op"), 2.0)])
def test_bytes_on_the_wire(deep_model, dataset, tmp_path, strategy, passes):
    """Each pass over the weights moves (n - 1) / n of them from every process: an all-reduce is two, stage 3 gathers once more."""
    model, weights, block = deep_model
    measured, output = [], ""
    for steps in (2, 6):
        line = [hone_binary(), "sft", *settings(model, dataset, tmp_path / str(steps), 2, max_steps=steps, num_train_epochs=1, **strategy)]
        total, output = loopback_bytes(line, environment(2))
        measured.append(total)
    step = (measured[1] - measured[0]) / 4 / 2  # one step of one process
    stated = int(re.search(r"each process sent (\d+) bytes a step", output)[1])
    # The block where the forward pass ends is kept for the backward pass, and so are norm and head.
    kept = block + (weights - LAYERS * block) if passes == 3.0 else 0
    theory = (passes * weights - kept) / 2
    assert stated == pytest.approx(theory, rel=0.02)
    assert step == pytest.approx(stated, rel=0.05)


BLOCKS, WIDTH, KEYS, WORDS, CHOSEN = 2, 128, 64, 384, 2  # blocks, their rows, of which keys have a half; a vocabulary; experts, all of which each token goes to
ROW, ROWS, STEPS = 256, 8, 4


@pytest.fixture(scope="module")
def even_rows(tmp_path_factory):
    """Rows of one length, a dense model, and one whose tokens go to all experts."""
    import torch
    from parallel_testing import small_tokenizer
    from transformers import Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM
    tokenizer, folder = small_tokenizer(), tmp_path_factory.mktemp("even")
    shape = dict(vocab_size=WORDS, hidden_size=WIDTH, intermediate_size=WIDTH, num_hidden_layers=BLOCKS, num_attention_heads=4, num_key_value_heads=2, head_dim=KEYS // 2,
                 max_position_embeddings=ROW, tie_word_embeddings=False, eos_token_id=tokenizer.eos_token_id)
    assert len(tokenizer) <= WORDS
    torch.manual_seed(0)
    models = {}
    for name, model in dict(dense=Qwen3ForCausalLM(Qwen3Config(**shape)),
                            mixed=Qwen3MoeForCausalLM(Qwen3MoeConfig(**shape, num_experts=CHOSEN, num_experts_per_tok=CHOSEN, moe_intermediate_size=WIDTH))).items():
        model.float().save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
        models[name] = sum(4 * weight.numel() for key, weight in model.named_parameters() if ".experts." not in key)
    word = next(word for word in ("cat", "dog", "red") if len(tokenizer(" " + word).input_ids) == 1)
    rows = folder / "rows.jsonl"
    rows.write_text((json.dumps({"messages": [{"role": "assistant", "content": " ".join([word] * (ROW - 1))}]}) + "\n") * ROWS * STEPS)
    return folder, rows, models


def volume(axis, weights):
    """Bytes that one of two processes sends in a step, in float32: a collective moves half of what it is given, and an all-reduce is two. Blocks run forward twice."""
    tokens = ROW * ROWS
    rows = 4 * tokens * WIDTH
    return {
        "tp": (12 * BLOCKS + 4) * rows / 2,  # of a block two sums in each pass, and one of the embedding and one before the head
        "sp": (12 * BLOCKS + 4) * rows / 2,  # each of them is a gather and a scatter
        "pp": rows,
        "cp": weights + BLOCKS * 4 * 2 * 4 * tokens / 2 * KEYS,  # keys and values go round in each pass, and their gradients
        "ep": weights + BLOCKS * 6 * CHOSEN * rows / 2 / 2,  # there and back in each pass, of half of the rows
        "optimizer": weights,  # gradients are scattered, weights are gathered
    }[axis]


AXES = {
    "tp": dict(tensor_parallel_size=2),
    "sp": dict(tensor_parallel_size=2, sequence_parallel="true"),
    "pp": dict(pipeline_parallel_size=2, per_device_train_batch_size=ROWS // 4, gradient_accumulation_steps=4),
    "cp": dict(context_parallel_size=2),
    "ep": dict(expert_parallel_size=2, per_device_train_batch_size=ROWS // 2),
    "optimizer": dict(use_distributed_optimizer="true", per_device_train_batch_size=ROWS // 2),
}


@pytest.mark.parametrize("axis", AXES)
def test_bytes_of_a_layout(even_rows, tmp_path, axis, figure):
    """Said and seen on the loopback: within 5 % of the formula of each axis."""
    folder, rows, models = even_rows
    name = "mixed" if axis == "ep" else "dense"
    options = {**dict(max_steps=STEPS, max_length=ROW + 8, per_device_train_batch_size=ROWS), **AXES[axis]}
    total, output = loopback_bytes([hone_binary(), "pt", *settings(folder / name, rows, tmp_path / "run", 2, **options)], environment(2))
    stated, formula = int(re.search(r"each process sent (\d+) bytes a step", output)[1]), volume(axis, models[name])
    assert f"Tokens = {ROW * ROWS * STEPS:,} in an epoch" in output
    assert stated == pytest.approx(formula, rel=0.05)
    # Before the first step copies of weights are made equal.
    assert total / 2 == pytest.approx(stated * STEPS + (models[name] / 2 if axis in ("cp", "ep") else 0), rel=0.05)
    figure(f"{axis}: {stated / formula - 1:+.1%} of the formula, {total / 2 / STEPS / stated - 1:+.1%} on the loopback")
