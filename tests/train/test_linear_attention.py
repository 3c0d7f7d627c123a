"""Training models with gated delta nets (Qwen3-Next, Qwen3.5): the losses of transformers and peft, files, stopping and going on."""
import json
import shutil

import pytest
import torch
from test_resume import digest, weights
from train_testing import plain_steps, rlhf_runner, small_tokenizer, steps_of, texts_of

STEPS, RATE, BATCH = 12, 1e-3, 2
FAMILIES = ["qwen3_next", "qwen3_5"]
CARRIED = "mtp.fc.weight"


@pytest.fixture(scope="module")
def hybrids(tmp_path_factory):
    """Three gated delta nets and a layer with attention, with experts and without; a head that predicts more tokens."""
    from safetensors.torch import load_file, save_file
    from transformers import AutoModelForCausalLM, Qwen3_5TextConfig, Qwen3NextConfig

    fast = small_tokenizer()
    sizes = dict(vocab_size=len(fast), hidden_size=32, intermediate_size=64, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=16, max_position_embeddings=512,
                 linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8, linear_value_head_dim=12, eos_token_id=fast.eos_token_id)
    made = {}
    for name, config in {"qwen3_next": Qwen3NextConfig(**sizes, tie_word_embeddings=False, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24, shared_expert_intermediate_size=40),
                         "qwen3_5": Qwen3_5TextConfig(**sizes, tie_word_embeddings=True)}.items():
        made[name] = tmp_path_factory.mktemp("hybrid") / name
        torch.manual_seed(0)
        AutoModelForCausalLM.from_config(config).float().save_pretrained(made[name])
        fast.save_pretrained(made[name])
        tensors = load_file(made[name] / "model.safetensors")
        save_file({**tensors, CARRIED: torch.arange(6.0).reshape(2, 3)}, made[name] / "model.safetensors", {"format": "pt"})
    return made


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    return texts_of(tmp_path_factory.mktemp("texts"), STEPS * BATCH)


@pytest.fixture(scope="module")
def long_texts(tmp_path_factory):
    """Of one to four chunks of 64 positions, so that gradients cross the states between chunks."""
    return texts_of(tmp_path_factory.mktemp("long_texts"), STEPS * BATCH, words=(40, 200))


def reference(model, tokenizer, rows, trained):
    """Each row alone: transformers' own recurrence on a CPU does not end at the boundaries of packed rows."""
    model.train()
    optimizer = torch.optim.AdamW(trained, lr=RATE, betas=(0.9, 0.999), eps=1e-8, weight_decay=0)
    losses = []
    for step in range(STEPS):
        total, targets = 0, 0
        for row in rows[step * BATCH:(step + 1) * BATCH]:
            tokens = torch.tensor([tokenizer(row).input_ids + [tokenizer.eos_token_id]])
            logits = model(input_ids=tokens).logits[0, :-1]
            total = total + torch.nn.functional.cross_entropy(logits, tokens[0, 1:], reduction="sum")
            targets += tokens.shape[1] - 1
        (total / targets).backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total.item() / targets)
    return losses


@pytest.mark.parametrize("family, recompute", [("qwen3_next", "true"), ("qwen3_5", "false")])
def test_full_tuning_follows_transformers(sft, hybrids, long_texts, tmp_path, family, recompute):
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM, AutoTokenizer

    path, rows = long_texts
    run = sft(tmp_path / "run", model=hybrids[family], dataset=path, tuner_type="full", gradient_checkpointing=recompute, **plain_steps(STEPS, BATCH, RATE))
    assert run.code == 0, run.err
    model = AutoModelForCausalLM.from_pretrained(hybrids[family], dtype=torch.float32)
    assert run.losses() == pytest.approx(reference(model, AutoTokenizer.from_pretrained(hybrids[family]), rows, list(model.parameters())), rel=2e-4)
    # What was trained is what transformers reads, under the names of the folder it came from.
    saved = run.folder / f"checkpoint-{STEPS}"
    stored, first = load_file(saved / "model.safetensors"), load_file(hybrids[family] / "model.safetensors")
    assert set(stored) == set(first) and torch.equal(stored[CARRIED], first[CARRIED])
    trained = AutoModelForCausalLM.from_pretrained(saved, dtype=torch.float32).state_dict()
    for name, value in model.state_dict().items():
        assert (trained[name] - value).abs().max() < 5e-3, name


@pytest.mark.parametrize("family", FAMILIES)
def test_adapters_are_those_of_peft(sft, hone, hybrids, texts, tmp_path, family):
    """`all-linear` adapts every linear layer but the head; the merged folder computes what PEFT does with the adapter."""
    import peft
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM

    run = sft(tmp_path / "run", model=hybrids[family], dataset=texts[0], tuner_type="lora", lora_rank=4, target_modules="all-linear", packing="true", max_length=96,
              **plain_steps(4, BATCH, 1e-2))
    assert run.code == 0, run.err
    adapter = run.folder / "checkpoint-4"
    base = AutoModelForCausalLM.from_pretrained(hybrids[family], dtype=torch.float32).eval()
    layers = {name for name, module in base.named_modules() if isinstance(module, torch.nn.Linear) and name != "lm_head"}
    assert set(load_file(adapter / "adapter_model.safetensors")) == {f"base_model.model.{name}.lora_{side}.weight" for name in layers for side in "AB"}
    done = hone("export", "--adapters", adapter, "--merge_lora", "true", "--output_dir", tmp_path / "merged")
    assert done.returncode == 0, done.stderr
    assert CARRIED in load_file(tmp_path / "merged" / "model.safetensors")
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged", dtype=torch.float32).eval()
    tokens = torch.arange(5, 75).reshape(1, -1) % 90
    with torch.no_grad():
        ours, before = merged(tokens).logits, base(tokens).logits
        assert (ours - before).abs().max() > 1e-2
        if family == "qwen3_5":  # for experts, PEFT replaces the targets of an adapter
            theirs = peft.PeftModel.from_pretrained(base, adapter).eval()(tokens).logits
            assert (ours - theirs).abs().max() < 1e-4 * theirs.abs().max()


@pytest.mark.parametrize("options", [dict(tuner_type="lora", lora_dropout=0.1, packing="true", max_length=96), dict(tuner_type="full", torch_dtype="bfloat16")], ids=["lora packed", "full bf16"])
def test_continued_equals_uninterrupted(sft, hybrids, texts, tmp_path, options):
    steps = {**plain_steps(4, BATCH, RATE), "save_steps": 2}
    whole = sft(tmp_path / "whole", model=hybrids["qwen3_next"], dataset=texts[0], **options, **steps)
    assert whole.code == 0, whole.err
    rest = sft(tmp_path / "rest", model=hybrids["qwen3_next"], dataset=texts[0], resume_from_checkpoint=whole.folder / "checkpoint-2", **options, **steps)
    assert rest.code == 0, rest.err
    assert rest.losses() == whole.losses()[2:]
    assert weights(rest.folder / "checkpoint-4") == weights(whole.folder / "checkpoint-4")
    assert digest(rest.folder / "checkpoint-4", "hone_state.safetensors") == digest(whole.folder / "checkpoint-4", "hone_state.safetensors")


@pytest.mark.parametrize("layout, batch", [(dict(pipeline_parallel_size=2), BATCH), (dict(expert_parallel_size=2), BATCH // 2), (dict(deepspeed="zero3"), BATCH // 2), (dict(), BATCH // 2), (dict(fsdp="full_shard"), BATCH // 2)],
                         ids=["pp 2", "ep 2", "zero3", "ddp", "fsdp"])
def test_two_processes_train_as_one(sft, hybrids, texts, tmp_path, layout, batch):
    common = dict(model=hybrids["qwen3_next"], dataset=texts[0], tuner_type="full")
    one = sft(tmp_path / "one", **common, **plain_steps(3, BATCH, RATE))
    two = sft(tmp_path / "two", count=2, **common, **layout, **plain_steps(3, batch, RATE))
    assert one.code == 0 and two.code == 0, two.err
    assert two.losses() == pytest.approx(one.losses(), rel=1e-5)


@pytest.mark.parametrize("option", ["tensor_parallel_size", "context_parallel_size", "sequence_parallel_size"])
def test_layouts_that_split_such_layers_are_refused(sft, hybrids, texts, tmp_path, option):
    run = sft(tmp_path / "run", count=2, model=hybrids["qwen3_5"], dataset=texts[0], **{option: 2}, **plain_steps(2, BATCH, RATE))
    assert run.code == 2 and "linear attention (gated delta nets)" in run.err


@pytest.mark.parametrize("family", FAMILIES)
def test_grpo_learns_from_its_own_rollouts(hybrids, dataset, tmp_path, family):
    """Recurrent states of generation and of training give the same log-probabilities, short answers are learnt, and a resumed run is the uninterrupted one."""
    grpo = rlhf_runner(dict(rlhf_type="grpo", tuner_type="full", reward_funcs="soft_overlong", soft_cache_length=15, max_completion_length=16, num_generations=8, per_device_train_batch_size=32, learning_rate="2e-2", lr_scheduler_type="constant", beta=0, torch_dtype="float32",
                            max_steps=10, logging_steps=1, save_steps=8, seed=7, add_version="false", split_dataset_ratio=0, max_length=256, log_rollout_offpolicy_metrics="true"), hybrids[family], dataset)
    whole = grpo(tmp_path / "whole")
    assert whole.code == 0, whole.err
    steps = steps_of(whole)
    assert max(abs(step["rollout_correction/log_ppl_diff_max"]) for step in steps) < 1e-4
    first, last = (sum(step["reward"] for step in part) / 3 for part in (steps[:3], steps[-3:]))
    assert first < -0.7 and last > -0.4, [step["reward"] for step in steps]
    rest = grpo(tmp_path / "rest", resume_from_checkpoint=tmp_path / "whole/checkpoint-8")
    assert rest.code == 0, rest.err
    assert [(step["loss"], step["reward"], step["grad_norm"]) for step in steps_of(rest)[-2:]] == [(step["loss"], step["reward"], step["grad_norm"]) for step in steps[-2:]]
    assert weights(rest.folder / "checkpoint-10") == weights(whole.folder / "checkpoint-10")


def test_wrong_layer_types_are_named(hone, hybrids, tmp_path):
    folder = tmp_path / "wrong"
    shutil.copytree(hybrids["qwen3_5"], folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "layer_types": ["sliding_attention"] * 4}))
    (tmp_path / "input.json").write_text('{"sequences": [[1, 2]]}')
    done = hone("logits", "--model", folder, "--input", tmp_path / "input.json", "--output", tmp_path / "out.safetensors")
    assert done.returncode == 4 and '"layer_types" has "sliding_attention"' in done.stderr
