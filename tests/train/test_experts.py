"""Training mixtures of experts: the losses of transformers and peft, the balance loss in both dialects, stopping and going on."""
import json

import pytest
import torch
from test_resume import digest
from train_testing import plain_steps, small_tokenizer, steps_of, texts_of

STEPS, RATE, BATCH, COEFFICIENT = 20, 1e-3, 2, 0.5


@pytest.fixture(scope="module")
def mixtures(tmp_path_factory):
    """Qwen3-MoE with a dense layer, and Qwen2-MoE with its shared expert."""
    from transformers import AutoModelForCausalLM, Qwen2MoeConfig, Qwen3MoeConfig

    fast = small_tokenizer()
    sizes = dict(vocab_size=len(fast), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=512,
                 tie_word_embeddings=False, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24, eos_token_id=fast.eos_token_id)
    made = {}
    for name, config in {"qwen3_moe": Qwen3MoeConfig(**sizes, head_dim=8, norm_topk_prob=True),
                         "qwen2_moe": Qwen2MoeConfig(**sizes, shared_expert_intermediate_size=40, mlp_only_layers=[0])}.items():
        made[name] = tmp_path_factory.mktemp("mixture") / name
        torch.manual_seed(0)
        AutoModelForCausalLM.from_config(config).float().save_pretrained(made[name])
        fast.save_pretrained(made[name])
    return made


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    return texts_of(tmp_path_factory.mktemp("texts"), STEPS * BATCH)


def settings(**more):
    return plain_steps(STEPS, BATCH, RATE, **more)


def reference(model, tokenizer, rows, trained, coefficient):
    """Padded batches, as transformers' own loss and balance have them."""
    model.train()
    optimizer = torch.optim.AdamW(trained, lr=RATE, betas=(0.9, 0.999), eps=1e-8, weight_decay=0)
    losses, balances = [], []
    for step in range(STEPS):
        ids = [tokenizer(row).input_ids + [tokenizer.eos_token_id] for row in rows[step * BATCH:(step + 1) * BATCH]]
        longest = max(map(len, ids))
        tokens = torch.tensor([row + [0] * (longest - len(row)) for row in ids])
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in ids])
        out = model(input_ids=tokens, attention_mask=mask, labels=tokens.masked_fill(mask == 0, -100), output_router_logits=True)
        out.loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(out.loss.item())
        balances.append(out.aux_loss.item())
    return losses, balances


@pytest.mark.parametrize("family, recompute, experts", [("qwen3_moe", "true", "grouped_mm"), ("qwen2_moe", "false", "eager")])
def test_full_tuning_follows_transformers(sft, mixtures, texts, tmp_path, family, recompute, experts):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    path, rows = texts
    run = sft(tmp_path / "run", model=mixtures[family], dataset=path, tuner_type="full", router_aux_loss_coef=COEFFICIENT, gradient_checkpointing=recompute,
              experts_impl=experts, **settings())
    assert run.code == 0, run.err
    model = AutoModelForCausalLM.from_pretrained(mixtures[family], dtype=torch.float32)
    model.router_aux_loss_coef = COEFFICIENT
    losses, balances = reference(model, AutoTokenizer.from_pretrained(mixtures[family]), rows, list(model.parameters()), COEFFICIENT)
    assert run.losses() == pytest.approx(losses, rel=2e-4)
    assert [event["aux_loss"] for event in run.log() if "aux_loss" in event] == pytest.approx(balances, rel=1e-3)
    # What was trained is what transformers reads, under the names of the folder it came from.
    from safetensors.torch import load_file

    saved = run.folder / f"checkpoint-{STEPS}"
    assert set(load_file(saved / "model.safetensors")) == set(load_file(mixtures[family] / "model.safetensors"))
    trained = AutoModelForCausalLM.from_pretrained(saved, dtype=torch.float32).state_dict()
    for name, value in model.state_dict().items():
        assert (trained[name] - value).abs().max() < 5e-3, name


def test_adapters_on_experts_follow_peft(sft, mixtures, texts, tmp_path):
    import peft
    from transformers import AutoModelForCausalLM, AutoTokenizer

    path, rows = texts
    torch.manual_seed(3)
    base = AutoModelForCausalLM.from_pretrained(mixtures["qwen3_moe"], dtype=torch.float32)
    base.router_aux_loss_coef = 0
    model = peft.get_peft_model(base, peft.LoraConfig(r=4, lora_alpha=16, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM", init_lora_weights="gaussian",
                                                      target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]))
    model.save_pretrained(tmp_path / "start")
    run = sft(tmp_path / "run", model=mixtures["qwen3_moe"], dataset=path, adapters=tmp_path / "start", **settings())
    assert run.code == 0, run.err
    losses, _ = reference(model, AutoTokenizer.from_pretrained(mixtures["qwen3_moe"]), rows, [p for p in model.parameters() if p.requires_grad], 0)
    assert run.losses() == pytest.approx(losses, rel=2e-4)
    assert not any("aux_loss" in event for event in run.log())


@pytest.mark.parametrize("options", [
    dict(tuner_type="full", router_aux_loss_coef=0.01),
    dict(tuner_type="lora", target_parameters='["mlp.experts.gate_up_proj", "mlp.experts.down_proj", "mlp.gate.weight"]'),
], ids=["full", "lora"])
def test_continued_equals_uninterrupted(sft, mixtures, tmp_path, options):
    whole = sft(tmp_path / "whole", model=mixtures["qwen2_moe"], **options)
    assert whole.code == 0, whole.err
    rest = sft(tmp_path / "rest", model=mixtures["qwen2_moe"], resume_from_checkpoint=whole.folder / "checkpoint-3", **options)
    assert rest.code == 0, rest.err
    assert rest.losses() == whole.losses()[3:]
    if options["tuner_type"] == "lora":
        from transformers import AutoModelForCausalLM

        linear = {name.split(".")[-1] for name, module in AutoModelForCausalLM.from_pretrained(mixtures["qwen2_moe"]).named_modules() if isinstance(module, torch.nn.Linear)}
        config = json.loads((rest.folder / "checkpoint-6/adapter_config.json").read_text())
        assert set(config["target_modules"]) == linear - {"lm_head"}  # all-linear: neither experts nor routers
    for name in ("adapter_model.safetensors" if options["tuner_type"] == "lora" else "model.safetensors", "hone_state.safetensors"):
        assert digest(rest.folder / "checkpoint-6", name) == digest(whole.folder / "checkpoint-6", name)


def test_llamafactory_spells_the_coefficient_and_layers_its_own_way(factory, mixtures, tmp_path):
    """Targets that name experts' layers mean the stacked parameters, in the shapes that peft gives them."""
    import peft
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM

    data, named = tmp_path / "data", ["q_proj", "gate_proj", "up_proj", "down_proj", "gate"]
    data.mkdir()
    (data / "rows.json").write_text(json.dumps([{"instruction": "one two", "output": "three cat dog"}] * 4))
    (data / "dataset_info.json").write_text(json.dumps({"rows": {"file_name": "rows.json"}}))
    done = factory("train", "--stage", "sft", "--do_train", "true", "--model_name_or_path", mixtures["qwen3_moe"], "--dataset", "rows", "--dataset_dir", data, "--template", "qwen",
                   "--finetuning_type", "lora", "--lora_target", ",".join(named), "--output_dir", tmp_path / "out", "--moe_aux_loss_coef", "0.3", "--max_steps", "1",
                   "--logging_steps", "1", "--overwrite_output_dir", "true")
    assert done.returncode == 0, done.stderr
    assert any("aux_loss" in event for event in json.loads((tmp_path / "out/trainer_state.json").read_text())["log_history"])
    base = AutoModelForCausalLM.from_pretrained(mixtures["qwen3_moe"], dtype=torch.float32)
    peer = peft.get_peft_model(base, peft.LoraConfig(r=8, lora_alpha=16, target_modules=named, task_type="CAUSAL_LM"))
    peer.save_pretrained(tmp_path / "peer")
    shapes = [{name: tensor.shape for name, tensor in load_file(tmp_path / folder / "adapter_model.safetensors").items()} for folder in ("out", "peer")]
    assert shapes[0] == shapes[1]
    configs = [json.loads((tmp_path / folder / "adapter_config.json").read_text()) for folder in ("out", "peer")]
    assert configs[0]["rank_pattern"] == configs[1]["rank_pattern"] and configs[0]["alpha_pattern"] == configs[1]["alpha_pattern"]


@pytest.fixture(scope="module")
def own_rows(tmp_path_factory):
    """Rows of the methods: prompts with answers, pairs, and classes."""
    folder, rows = tmp_path_factory.mktemp("methods"), []
    for i, words in enumerate(("red cat", "blue dog runs", "the river", "one two three")):
        rows.append({"messages": [{"role": "user", "content": words}, {"role": "assistant", "content": f"{words} near the house"}], "rejected_response": f"small {words}", "label": i % 2})
    for name, left_out in {"pairs": "label", "plain": "rejected_response"}.items():
        (folder / f"{name}.jsonl").write_text("".join(json.dumps({key: value for key, value in row.items() if key != left_out}) + "\n" for row in rows))
    return folder


METHODS = {
    "grpo": ("plain", dict(verb="rlhf", rlhf_type="grpo", reward_funcs="soft_overlong", soft_cache_length=9, max_completion_length=10, num_generations=2, beta=0, temperature=1.0)),
    "gkd": ("plain", dict(verb="rlhf", rlhf_type="gkd", lmbda=0, teacher_model="model")),
    "rm": ("pairs", dict(verb="rlhf", rlhf_type="rm")),
    "seq_cls": ("plain", dict(task_type="seq_cls", num_labels=2, problem_type="single_label_classification"))}


@pytest.mark.parametrize("method", METHODS)
def test_the_balance_is_a_part_of_every_loss(sft, mixtures, own_rows, tmp_path, method):
    """The loss is that without it plus its share, also of sequences that two processes split."""
    rows, options = METHODS[method]
    options = {**options, "model": mixtures["qwen3_moe"], "dataset": own_rows / f"{rows}.jsonl", "max_steps": 1, "per_device_train_batch_size": 4, "save_strategy": "no", "tuner_type": "full"}
    if "teacher_model" in options:
        options["teacher_model"] = mixtures["qwen3_moe"]
    (plain,), (balanced,) = (steps_of(sft(tmp_path / str(weight), **options, router_aux_loss_coef=weight)) for weight in (0, COEFFICIENT))
    assert "aux_loss" not in plain and balanced["aux_loss"] > 1 and balanced["grad_norm"] != plain["grad_norm"]
    assert balanced["loss"] == pytest.approx(plain["loss"] + COEFFICIENT * balanced["aux_loss"], abs=1e-5)
    if method == "seq_cls":
        return
    (split,) = steps_of(sft(tmp_path / "split", **options, router_aux_loss_coef=COEFFICIENT, count=2, sequence_parallel_size=2))
    for name in ("loss", "aux_loss", "grad_norm"):
        assert split[name] == pytest.approx(balanced[name], rel=1e-4, abs=1e-6), name


def test_methods_without_a_balance_say_so(sft, mixtures, own_rows, tmp_path):
    options = dict(model=mixtures["qwen3_moe"], dataset=own_rows / "plain.jsonl", router_z_loss_coef=0.01)
    for more in (dict(verb="rlhf", rlhf_type="ppo", reward_funcs="soft_overlong", soft_cache_length=9, max_completion_length=10), dict(task_type="embedding")):
        refused = sft(tmp_path / "no", **options, **more)
        assert refused.code == 2 and "--router_z_loss_coef have no effect on PPO" in refused.err, refused.err
