"""Every way to spread a run over processes gives the losses and weights of one process on the same global batches."""
import json
import random

import pytest
from parallel_testing import assert_same_training, sentence, small_tokenizer
from workers import made_once

STRATEGIES = {
    "ddp": {},
    "zero1": dict(deepspeed="zero1"),
    "zero2": dict(deepspeed="zero2"),
    "zero3": dict(deepspeed="zero3"),
    "shard_grad_op": dict(fsdp="shard_grad_op auto_wrap"),
}
# Each pair of tuner and accumulation on 2 and on 4 processes, with and without recomputation.
LAYOUTS = [("lora", 3, 2, True), ("full", 1, 2, False), ("lora", 1, 4, False), ("full", 3, 4, True)]


@pytest.mark.parametrize("tuner, accumulation, world, recompute", LAYOUTS)
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_equals_one_process(train, reference, tmp_path, strategy, tuner, accumulation, world, recompute):
    run = train(tmp_path, world, tuner_type=tuner, gradient_accumulation_steps=accumulation, gradient_checkpointing=str(recompute).lower(), **STRATEGIES[strategy])
    assert_same_training(run, reference(tuner, accumulation))


def test_offload(train, reference, tmp_path):
    assert_same_training(train(tmp_path, 2, tuner_type="full", deepspeed="zero3_offload"), reference("full", 1))


@pytest.mark.parametrize("tuner", ["lora", "full"])
def test_hybrid_sharding(train, reference, tmp_path, tuner):
    run = train(tmp_path, 4, tuner_type=tuner, fsdp="full_shard", parallelism_config='{"dp_replicate_size": 2, "dp_shard_size": 2}')
    assert_same_training(run, reference(tuner, 1))
    assert "dp 2 x fsdp 2" in run.err


@pytest.mark.parametrize("least, units", [(3000, None), (10**9, 0)])
def test_units_by_size(train, reference, tmp_path, least, units):
    """Every large module is gathered by itself, or none is and the whole model is there for as long as a pass takes."""
    run = train(tmp_path, 2, tuner_type="full", gradient_accumulation_steps=3, fsdp="full_shard auto_wrap", fsdp_min_num_params=least)
    assert_same_training(run, reference("full", 3))
    output = next(line for line in run.err.splitlines() if "units of at least" in line)
    count = int(output.split("gathered in ")[1].split()[0])
    assert count == 0 if units == 0 else count > 4, output


def test_a_launched_world_of_one_is_spread_too(train, reference, tmp_path):
    run = train(tmp_path, 1, tuner_type="full", gradient_accumulation_steps=3, fsdp="full_shard", env=dict(RANK=0, WORLD_SIZE=1, LOCAL_RANK=0))
    assert_same_training(run, reference("full", 3))
    assert "ZeRO-3" in run.err


@pytest.mark.parametrize("strategy", ["zero2", "zero3"])
def test_half_precision_adds_up_every_pass(train, reference, tmp_path, strategy):
    """float16 has float32 masters, which take the gradients of each pass: as many as one process adds up."""
    half = dict(torch_dtype="float16", learning_rate="1e-4")
    run, one = train(tmp_path, 2, tuner_type="full", gradient_accumulation_steps=3, **half, **STRATEGIES[strategy]), reference("full", 3, **half)
    assert run.code == 0, run.err
    for key, tolerance in (("loss", 0.01), ("grad_norm", 0.03)):
        ours, theirs = ([event[key] for event in each.log() if key in event] for each in (run, one))
        assert ours == pytest.approx(theirs, rel=tolerance)


@pytest.mark.parametrize("strategy", ["ddp", "zero3"])
def test_layers_that_take_turns(train, reference, tmp_path, strategy):
    """LISA: a layer that rests has no gradient on any process, and its optimizer rests with it."""
    lisa = dict(lisa_activated_layers=1, lisa_step_interval=2)
    assert_same_training(train(tmp_path, 2, tuner_type="full", **lisa, **STRATEGIES[strategy]), reference("full", 1, **lisa))


@pytest.mark.parametrize("strategy", ["zero2", "zero3"])
def test_a_base_in_four_bits(train, reference, tmp_path, strategy):
    """QLoRA: codes and scales are spread like other frozen weights."""
    few_bits = dict(quant_method="bnb", quant_bits=4, bnb_4bit_use_double_quant="true")
    assert_same_training(train(tmp_path, 2, tuner_type="lora", **few_bits, **STRATEGIES[strategy]), reference("lora", 1, **few_bits))


@pytest.fixture(scope="module")
def mixture(tmp_path_factory):
    import torch
    from transformers import Qwen2MoeConfig, Qwen2MoeForCausalLM

    def make(folder):
        tokenizer = small_tokenizer()
        torch.manual_seed(0)
        Qwen2MoeForCausalLM(Qwen2MoeConfig(vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
                                           num_experts=6, num_experts_per_tok=2, moe_intermediate_size=24, shared_expert_intermediate_size=40, mlp_only_layers=[0],
                                           max_position_embeddings=512, tie_word_embeddings=False, eos_token_id=tokenizer.eos_token_id)).float().save_pretrained(folder)
        tokenizer.save_pretrained(folder)

    return made_once(tmp_path_factory, "mixture", make)


@pytest.mark.parametrize("strategy", ["zero1", "zero2", "zero3", "fsdp"])
def test_experts(train, reference, tmp_path, mixture, strategy):
    """An expert that no token of a process goes to has a gradient of zero there, and is sent as the others are. Adam makes much of
    gradients that are nearly zero, and experts of few tokens have such, which round by their company."""
    spread = STRATEGIES.get(strategy, dict(fsdp="full_shard auto_wrap"))
    assert_same_training(train(tmp_path, 2, tuner_type="full", model=mixture, **spread), reference("full", 1, model=mixture), tolerance=1e-4)


def test_adapters_of_experts(train, reference, tmp_path, mixture):
    updates = dict(model=mixture, target_parameters='["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]')
    assert_same_training(train(tmp_path, 2, tuner_type="lora", deepspeed="zero3", **updates), reference("lora", 1, **updates))


def untied_model(folder):
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    tokenizer = small_tokenizer()
    torch.manual_seed(0)
    Qwen2ForCausalLM(Qwen2Config(vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
                                 max_position_embeddings=512, tie_word_embeddings=False, eos_token_id=tokenizer.eos_token_id)).float().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_adapters_of_an_embedding(train, tmp_path):
    """Its backward pass needs the factors, which are gathered again."""
    words = dict(tuner_type="lora", target_regex=".*(embed_tokens|q_proj)", model=untied_model(tmp_path / "model"), gradient_accumulation_steps=2, num_train_epochs=1)
    assert_same_training(train(tmp_path / "run", 2, deepspeed="zero3", **words), train(tmp_path / "one", 1, save_steps=1, **words))


def test_a_head_that_one_process_has_nothing_to_teach(train, reference, tmp_path):
    """Rows whose answers are cut off: whoever has only such rows sends no gradient of the head, in the same order as the others."""
    rng = random.Random(5)
    data = tmp_path / "rows.jsonl"
    rows = [{"messages": [{"role": "user", "content": sentence(rng, 60 if i % 2 else 4)}, {"role": "assistant", "content": sentence(rng, 9)}]} for i in range(16)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    cut = dict(dataset=data, modules_to_save="lm_head", max_length=40, truncation_strategy="right", model=untied_model(tmp_path / "model"))
    assert_same_training(train(tmp_path / "run", 4, tuner_type="lora", per_device_train_batch_size=1, gradient_accumulation_steps=2, fsdp="full_shard", **cut),
                         train(tmp_path / "one", 1, tuner_type="lora", per_device_train_batch_size=4, gradient_accumulation_steps=2, **cut))
