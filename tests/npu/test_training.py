"""hone on emulated NPUs compared with the CPU: the same losses, tokens and merged weights."""
import json
import os
import subprocess
import threading
from pathlib import Path

import pytest
from tiny_models import tiny_model
import workers

ROOT = Path(__file__).resolve().parents[2]
MODEL, DATA = ROOT / "models/nano", ROOT / "data/demo.jsonl"
STEPS = 4
SAME = ["--model", MODEL, "--dataset", DATA, "--max_steps", STEPS, "--logging_steps", 1, "--torch_dtype", "float32", "--lora_dropout", 0,
        "--add_version", "false", "--split_dataset_ratio", 0, "--save_steps", STEPS, "--per_device_train_batch_size", 1, "--learning_rate", "1e-3"]
FULL = ["--tuner_type", "full", "--learning_rate", "1e-4"]


def accumulate(count):
    return ["--gradient_accumulation_steps", count]


def losses(folder):
    lines = [json.loads(line) for line in (Path(folder) / "logging.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


def check(done):
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done


@pytest.fixture(scope="module")
def lora(npu, swift, tmp_path_factory):
    """A LoRA run on the CPU and one on npu:0, as folders, with the emulator's report and the log of the second."""
    folder = tmp_path_factory.mktemp("lora")
    check(swift("sft", *SAME, *accumulate(4), "--device", "cpu", "--output_dir", folder / "cpu"))
    done = check(npu("swift", "sft", *SAME, *accumulate(4), "--output_dir", folder / "npu", env={"HONE_EMULATED_REPORT": folder / "report"}))
    (folder / "log").write_text(done.stderr)
    return folder


@pytest.fixture(scope="module")
def full(swift, tmp_path_factory):
    folder = tmp_path_factory.mktemp("full")
    check(swift("sft", *SAME, *FULL, *accumulate(4), "--device", "cpu", "--output_dir", folder))
    return losses(folder)


def test_lora_curve(lora):
    assert len(losses(lora / "cpu")) == STEPS
    assert losses(lora / "npu") == pytest.approx(losses(lora / "cpu"), abs=1e-4)


def test_fused_operators_ran_and_nothing_was_missing(lora):
    report = last_report(lora / "report")
    for op in ("RmsNorm", "RotaryPositionEmbedding", "SwiGlu", "FlashAttentionVarLenScore", "FlashAttentionUnpaddingScoreGrad"):
        assert report["operators"].get("aclnn" + op), report["operators"]
    assert report["missing"] == {} and "fall back to run on the CPU" not in (lora / "log").read_text()


def test_experts(npu, swift, tmp_path):
    """A mixture's tokens are sorted, multiplied and put back by the card's own operators, forward and backward."""
    tiny_model(tmp_path / "model", "qwen3_moe")
    words = [*SAME, *FULL, *accumulate(2), "--model", tmp_path / "model", "--max_length", 128, "--router_aux_loss_coef", 0.1]
    check(swift("sft", *words, "--device", "cpu", "--output_dir", tmp_path / "cpu"))
    check(npu("swift", "sft", *words, "--output_dir", tmp_path / "npu", env={"HONE_EMULATED_REPORT": tmp_path / "report"}))
    assert losses(tmp_path / "npu") == pytest.approx(losses(tmp_path / "cpu"), abs=1e-4)
    report = last_report(tmp_path / "report")
    for op in ("MoeTokenPermute", "MoeTokenPermuteGrad", "GroupedMatmulV5", "MoeTokenUnpermute", "MoeTokenUnpermuteGrad"):
        assert report["operators"].get("aclnn" + op), report["operators"]
    assert report["missing"] == {}


def test_experts_in_host_memory(npu, tmp_path):
    """LLaMA-Factory's use_kt: experts are the CPU's, the rest is the card's; a model without experts has none to keep."""
    tiny_model(tmp_path / "model", "qwen3_moe")
    words = [ROOT / "cookbook/factory/sft.yaml", f"model_name_or_path={tmp_path / 'model'}", f"dataset_dir={ROOT / 'data'}", "max_steps=3", "logging_steps=1", "infer_dtype=float32", "bf16=false", "cutoff_len=128",
             "lora_target=all", "overwrite_output_dir=true"]
    for name, kept in (("card", "false"), ("host", "true")):
        check(npu("llamafactory-cli", "train", *words, f"output_dir={tmp_path / name}", f"use_kt={kept}", env={"ASCEND_RT_VISIBLE_DEVICES": "0", "HONE_EMULATED_REPORT": tmp_path / f"report-{name}"}))
    found = [[line["loss"] for line in map(json.loads, (tmp_path / name / "trainer_log.jsonl").read_text().splitlines()) if "loss" in line] for name in ("card", "host")]
    assert len(found[0]) == 3 and found[0] == pytest.approx(found[1], abs=1e-4)
    assert last_report(tmp_path / "report-card")["operators"].get("aclnnGroupedMatmulV5") and not last_report(tmp_path / "report-host")["operators"].get("aclnnGroupedMatmulV5")
    dense = npu("llamafactory-cli", "train", *words, f"model_name_or_path={MODEL}", f"output_dir={tmp_path / 'dense'}", "use_kt=true", env={"ASCEND_RT_VISIBLE_DEVICES": "0"})
    assert dense.returncode == 2 and "has no experts" in dense.stderr, dense.stderr


def test_completions_of_a_rollout_server(npu, swift, tmp_path):
    """A card trains, a server on the CPU writes the completions and follows the weights: the course of the CPU alone."""
    port = workers.free_port()
    words = [*SAME, "--rlhf_type", "grpo", "--dataset", ROOT / "data/prompts.jsonl", "--reward_funcs", "repetition", "--num_generations", 2, "--per_device_train_batch_size", 4, "--max_completion_length", 12, *accumulate(1),
             "--max_steps", 2, "--save_strategy", "no"]
    check(swift("rlhf", *words, "--device", "cpu", "--output_dir", tmp_path / "cpu"))
    command = [os.environ.get("HONE_BIN", ROOT / "build/bin/hone"), "rollout", "--model", MODEL, "--torch_dtype", "float32", "--device", "cpu", "--port", port, "--log_interval", -1]
    server = subprocess.Popen([str(word) for word in command], stderr=subprocess.PIPE, text=True)
    try:
        assert any("is served at" in line for line in server.stderr)
        threading.Thread(target=server.stderr.read, daemon=True).start()
        check(npu("swift", "rlhf", *words, "--vllm_mode", "server", "--vllm_server_base_url", f"http://127.0.0.1:{port}", "--output_dir", tmp_path / "npu"))
    finally:
        server.kill()
        server.wait()
    ours, theirs = ([json.loads(line) for line in (tmp_path / name / "logging.jsonl").read_text().splitlines()][:2] for name in ("npu", "cpu"))
    for one, other in zip(ours, theirs):
        assert one["reward"] == pytest.approx(other["reward"], abs=1e-6) and one["grad_norm"] == pytest.approx(other["grad_norm"], rel=1e-2, abs=1e-4) and one["rollout/push_bytes"] > 0


@pytest.mark.parametrize("method, rows", [("dpo", "preferences"), ("kto", "feedback"), ("rm", "preferences")])
def test_preferences(npu, swift, tmp_path, method, rows):
    words = [*SAME, "--rlhf_type", method, "--dataset", ROOT / f"data/{rows}.jsonl", "--per_device_train_batch_size", 4, *accumulate(1), "--save_strategy", "no"]
    check(swift("rlhf", *words, "--device", "cpu", "--output_dir", tmp_path / "cpu"))
    check(npu("swift", "rlhf", *words, "--output_dir", tmp_path / "npu"))
    assert len(losses(tmp_path / "cpu")) == STEPS
    assert losses(tmp_path / "npu") == pytest.approx(losses(tmp_path / "cpu"), abs=1e-4)


def test_rewards(npu, tmp_path):
    words = [*SAME, "--rlhf_type", "grpo", "--dataset", ROOT / "data/prompts.jsonl", "--reward_funcs", "soft_overlong", "--soft_cache_length", 15, "--max_completion_length", 16, "--num_generations", 4,
             "--per_device_train_batch_size", 8, *accumulate(1), "--max_steps", 2, "--save_strategy", "no"]
    check(npu("swift", "rlhf", *words, "--output_dir", tmp_path / "npu"))
    steps = [json.loads(line) for line in (tmp_path / "npu/logging.jsonl").read_text().splitlines()]
    assert [step["completions/mean_length"] > 0 and -1 <= step["reward"] <= 0 for step in steps if "reward" in step] == [True, True]


def test_proximal_policy_optimization(npu, tmp_path):
    words = [*SAME, "--rlhf_type", "ppo", "--dataset", ROOT / "data/prompts.jsonl", "--reward_funcs", "soft_overlong", "--soft_cache_length", 15, "--max_completion_length", 16,
             "--per_device_train_batch_size", 8, *accumulate(1), "--num_ppo_epochs", 2, "--max_steps", 4, "--save_strategy", "no"]
    check(npu("swift", "rlhf", *words, "--output_dir", tmp_path / "npu"))
    steps = [json.loads(line) for line in (tmp_path / "npu/logging.jsonl").read_text().splitlines()]
    assert [step["loss/value_avg"] > 0 and -1 <= step["reward"] <= 0 for step in steps if "reward" in step] == [True, True]


def test_distillation(npu, swift, tmp_path):
    words = [*SAME, *FULL, "--rlhf_type", "gkd", "--teacher_model", MODEL, "--lmbda", 0, "--sft_alpha", 1, "--gkd_logits_topk", 8, *accumulate(1), "--max_steps", 2, "--save_strategy", "no"]
    check(swift("rlhf", *words, "--device", "cpu", "--output_dir", tmp_path / "cpu"))
    check(npu("swift", "rlhf", *words, "--output_dir", tmp_path / "npu"))
    assert losses(tmp_path / "npu") == pytest.approx(losses(tmp_path / "cpu"), abs=1e-4)


def test_plain_operators_give_the_same_curve(npu, lora, tmp_path):
    check(npu("swift", "sft", *SAME, *accumulate(4), "--attn_impl", "eager", "--enable_npu_model_patch", "false", "--output_dir", tmp_path))
    assert losses(tmp_path) == pytest.approx(losses(lora / "cpu"), abs=1e-4)


@pytest.mark.parametrize("words", [["--use_dora", "true", "--enable_dft_loss", "true"], ["--init_weights", "pissa"], ["--init_weights", "olora"],
                                   ["--init_weights", "loftq"], ["--init_weights", "lora-ga", "--lora_rank", 4, "--optim", "sgd"],
                                   ["--quant_method", "bnb", "--quant_bits", 4, "--enable_channel_loss", "true"], ["--quant_method", "bnb", "--quant_bits", 8],
                                   ["--tuner_type", "reft"], ["--tuner_type", "longlora", "--quant_method", "hqq", "--quant_bits", 3]],
                         ids=["dora_dft", "pissa", "olora", "loftq", "lora_ga", "qlora", "eight_bits", "reft", "longlora_hqq"])
def test_ways_of_tuning(npu, tmp_path, words):
    for device in ("cpu", "npu:0"):
        check(npu("swift", "sft", *SAME, *accumulate(1), "--max_steps", 2, "--save_strategy", "no", *words, "--device", device, "--output_dir", tmp_path / device))
    tolerance = 1e-2 if "lora-ga" in words else 1e-4  # directions of a gradient that are equally strong turn with its last bits
    assert losses(tmp_path / "npu:0") == pytest.approx(losses(tmp_path / "cpu"), abs=tolerance)


def last_report(path):
    return json.loads(path.read_text().splitlines()[-1])


@pytest.mark.parametrize("level", [0, 1])
def test_queue_allocator_and_determinism(npu, lora, tmp_path, level):
    """Levels of the task queue other than the default 2, with expandable segments, and CANN set to be deterministic."""
    assert all(last_report(lora / "report")[key] for key in ("queued_preparations", "queued_launches")) and not last_report(lora / "report")["deterministic"]
    env = {"TASK_QUEUE_ENABLE": level, "PYTORCH_NPU_ALLOC_CONF": "expandable_segments:True", "HONE_EMULATED_REPORT": tmp_path / "report"}
    check(npu("swift", "sft", *SAME, *accumulate(4), "--full_determinism", "true", "--output_dir", tmp_path, env=env))
    assert losses(tmp_path) == pytest.approx(losses(lora / "cpu"), abs=1e-4)
    report = last_report(tmp_path / "report")
    assert report["queued_preparations"] == 0 and bool(report["queued_launches"]) == (level == 1) and report["deterministic"]


@pytest.mark.parametrize("soc", ["910A", "310P3", "910_9391"])
def test_other_chips(npu, lora, tmp_path, soc):
    check(npu("swift", "sft", *SAME, *accumulate(4), "--output_dir", tmp_path, env={"HONE_EMULATED_SOC": soc}))
    assert losses(tmp_path) == pytest.approx(losses(lora / "cpu"), abs=1e-4)


@pytest.mark.parametrize("words", [["--gradient_checkpointing", "true"], ["--fsdp", "full_shard", "--fsdp_config", '{"activation_cpu_offload": true}'],
                                   ["--deepspeed", "zero2_offload"]], ids=["recomputation", "activations_on_the_host", "optimizer_on_the_host"])
def test_full_tuning_with_less_memory(npu, full, tmp_path, words):
    check(npu("swift", "sft", *SAME, *FULL, *accumulate(4), *words, "--output_dir", tmp_path))
    assert losses(tmp_path) == pytest.approx(full, abs=1e-4)


@pytest.mark.parametrize("processes, words", [(4, []), (4, ["--deepspeed", "zero2"]), (4, ["--deepspeed", "zero3"]), (2, ["--deepspeed", "zero3_offload"]),
                                              (2, ["--sequence_parallel_size", "2", "--gradient_accumulation_steps", "4"]),
                                              (2, ["--pipeline_parallel_size", "2", "--decoder_last_pipeline_num_layers", "2", "--gradient_accumulation_steps", "4"]),
                                              (4, ["--pipeline_parallel_size", "2", "--decoder_last_pipeline_num_layers", "2", "--context_parallel_size", "2", "--gradient_accumulation_steps", "4"]),
                                              (4, ["--fsdp", "full_shard", "--parallelism_config", '{"dp_replicate_size": 2, "dp_shard_size": 2}'])],
                         ids=["ddp", "zero2", "zero3", "zero3_offload", "ring", "stages", "stages_and_context", "fsdp_2x2"])
def test_several_cards(npu, full, tmp_path, processes, words):
    report = tmp_path / "report"
    check(npu("swift", "sft", *SAME, *FULL, *accumulate(4 // processes), *words, "--output_dir", tmp_path / "out",
              env={"NPROC_PER_NODE": processes, "HONE_EMULATED_REPORT": report}))
    assert losses(tmp_path / "out") == pytest.approx(full, abs=1e-4)
    talked = [any(op.startswith("Hccl") for op in json.loads(line)["operators"]) for line in report.read_text().splitlines()]
    assert sum(talked) == processes


# examples/megatron/lora/dense_npu.sh, and the pages' line for eight cards with stages, without what names model, data and output.
MEGATRON_NPU = """--load_safetensors true --save_safetensors true --tuner_type lora --lora_rank 8 --lora_alpha 32 --target_modules all-linear --tensor_model_parallel_size 2 --sequence_parallel true
    --micro_batch_size 1 --global_batch_size 2 --recompute_granularity full --recompute_method uniform --recompute_num_layers 1 --finetune true --cross_entropy_loss_fusion true --lr 1e-4
    --lr_warmup_fraction 0.05 --min_lr 1e-5 --train_iters 3 --save_interval 100 --max_length 2048 --num_workers 4 --no_save_optim true --no_save_rng true --dataset_num_proc 4
    --no_gradient_accumulation_fusion true --no_masked_softmax_fusion true"""


@pytest.mark.parametrize("cards, layout", [(4, []), (8, ["--pipeline_model_parallel_size", 2, "--virtual_pipeline_model_parallel_size", 2])], ids=["tp2_dp2", "tp2_pp2_interleaved_dp2"])
def test_megatron_lines(npu, tmp_path, cards, layout):
    """As printed, over HCCL, as one process on the CPU."""
    tiny_model(tmp_path / "m", "qwen3", num_hidden_layers=4)
    words = ["megatron", "sft", "--model", tmp_path / "m", "--dataset", DATA, *MEGATRON_NPU.split(), "--torch_dtype", "float32", "--lora_dropout", 0, "--logging_steps", 1, "--add_version", "false"]
    alone = [word for word in words]
    alone[alone.index("--tensor_model_parallel_size") + 1] = 1
    check(npu(*alone, "--device", "cpu", "--output_dir", tmp_path / "one"))
    report = tmp_path / "report"
    check(npu(*words, *layout, "--output_dir", tmp_path / "cards", timeout=300, env={"NPROC_PER_NODE": cards, "HONE_EMULATED_NPUS": cards, "HONE_EMULATED_REPORT": report}))
    assert losses(tmp_path / "cards") == pytest.approx(losses(tmp_path / "one"), abs=1e-4)
    used = [json.loads(line)["operators"] for line in report.read_text().splitlines()]
    assert sum(any(name.startswith("Hccl") for name in operators) for operators in used) == cards


def test_layouts_with_the_optimizer_on_the_host(npu, tmp_path):
    """Megatron's --optimizer_cpu_offload: the losses of one process; cards update nothing, or with a fraction a part."""
    tiny_model(tmp_path / "m", "qwen3", num_hidden_layers=4)
    words = ["swift", "sft", *SAME, *FULL, "--model", tmp_path / "m"]
    check(npu(*words, *accumulate(4), "--device", "cpu", "--output_dir", tmp_path / "one"))
    for layout, fraction in ((["--tensor_parallel_size", 2], 1), (["--pipeline_parallel_size", 2], 0.5)):
        report, folder = tmp_path / f"report {fraction}", tmp_path / f"cards {fraction}"
        check(npu(*words, *accumulate(2), *layout, "--optimizer_cpu_offload", "true", "--optimizer_offload_fraction", fraction, "--output_dir", folder,
                  timeout=300, env={"NPROC_PER_NODE": 4, "HONE_EMULATED_NPUS": 4, "HONE_EMULATED_REPORT": report}))
        assert losses(folder) == pytest.approx(losses(tmp_path / "one"), abs=1e-4)
        updates = [any("Lerp" in name for name in json.loads(line)["operators"]) for line in report.read_text().splitlines()]
        assert any(updates) == (fraction < 1)


def test_experts_over_cards(npu, tmp_path):
    """Expert parallel over two cards and expert tensor parallel over two, with LoRA on experts, over HCCL: like one process on the CPU. ms-swift lists this as not working on NPUs."""
    tiny_model(tmp_path / "m", "qwen3_moe")
    words = ["swift", "sft", *SAME, "--model", tmp_path / "m", "--target_parameters", "all-experts", "--learning_rate", "1e-3"]
    check(npu(*words, *accumulate(4), "--device", "cpu", "--output_dir", tmp_path / "cpu"))
    report = tmp_path / "report"
    check(npu(*words, *accumulate(1), "--expert_parallel_size", 2, "--expert_tensor_parallel_size", 2, "--output_dir", tmp_path / "cards",
              env={"NPROC_PER_NODE": 4, "HONE_EMULATED_NPUS": 4, "HONE_EMULATED_REPORT": report}))
    assert losses(tmp_path / "cards") == pytest.approx(losses(tmp_path / "cpu"), abs=1e-4)
    used = [json.loads(line)["operators"] for line in report.read_text().splitlines()]
    assert sum(any(name.startswith("HcclAlltoAll") for name in operators) for operators in used) == 4


FSDP_2X2 = """distributed_type: FSDP
num_machines: 1
num_processes: 4
mixed_precision: 'no'
fsdp_config:
  fsdp_version: 2
  fsdp_reshard_after_forward: true
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP
  fsdp_state_dict_type: FULL_STATE_DICT
parallelism_config:
  parallelism_config_dp_replicate_size: 2
  parallelism_config_dp_shard_size: 2
  parallelism_config_tp_size: 1
"""


def test_accelerate_with_a_mesh_in_its_file(npu, tmp_path):
    (tmp_path / "fsdp.yaml").write_text(FSDP_2X2)
    factory_run(tmp_path, "alone", stage="sft", finetuning_type="full", dataset=DATA, template="qwen", gradient_accumulation_steps=4)
    factory_run(tmp_path, "mesh", stage="sft", finetuning_type="full", dataset=DATA, template="qwen")
    check(npu("llamafactory-cli", "train", tmp_path / "alone.yaml", "device=cpu"))
    done = check(npu("accelerate", "launch", "--config_file", tmp_path / "fsdp.yaml", "src/train.py", tmp_path / "mesh.yaml"))
    assert "npu mesh of 4: dp 2 x fsdp 2" in done.stderr, done.stderr[-3000:]
    assert factory_losses(tmp_path / "mesh") == pytest.approx(factory_losses(tmp_path / "alone"), abs=1e-4)


@pytest.mark.parametrize("family, config", [("qwen3", {}), ("mistral", {"sliding_window": 8})])
def test_other_families(npu, tmp_path, family, config):
    tiny_model(tmp_path / "m", family, **config)
    for device in ("cpu", "npu:0"):
        check(npu("swift", "sft", *SAME, *accumulate(1), "--model", tmp_path / "m", "--max_steps", 2, "--device", device, "--output_dir", tmp_path / device))
    assert losses(tmp_path / "npu:0") == pytest.approx(losses(tmp_path / "cpu"), abs=1e-4)


def factory_run(place, name, **own):
    """Writes NAME.yaml, a run of two steps into the folder NAME."""
    options = {"model_name_or_path": MODEL, "do_train": "true", "max_steps": 2, "logging_steps": 1, "learning_rate": "1e-4", "save_strategy": "no",
               "per_device_train_batch_size": 1, "overwrite_output_dir": "true", "infer_dtype": "float32", "output_dir": place / name, **own}
    (place / f"{name}.yaml").write_text("".join(f"{key}: {value}\n" for key, value in options.items()))
    return place / f"{name}.yaml"


def factory_losses(folder):
    lines = [json.loads(line) for line in (folder / "trainer_log.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


PT, SFT = {"stage": "pt", "cutoff_len": 64}, {"stage": "sft", "dataset": DATA, "template": "qwen"}


@pytest.mark.parametrize("own", [{**PT, "finetuning_type": "lora"}, {**PT, "finetuning_type": "full"}, {**SFT, "finetuning_type": "lora", "flash_attn": "fa2"},
                                 {**SFT, "finetuning_type": "full", "use_eaft_loss": "true"},
                                 {**SFT, "finetuning_type": "freeze", "freeze_trainable_layers": 1}], ids=lambda own: f"{own['stage']}-{own['finetuning_type']}")
def test_factory_stages_and_tuners(npu, tmp_path, own):
    text = tmp_path / "text.jsonl"
    text.write_text("".join(json.dumps({"text": f"The number {i} follows the number {i - 1}. " * 8}) + "\n" for i in range(1, 33)))
    for device in ("cpu", "npu:0"):
        check(npu("llamafactory-cli", "train", factory_run(tmp_path, device, **{"dataset": text, **own}), f"device={device}"))
    assert len(factory_losses(tmp_path / "cpu")) == 2 and factory_losses(tmp_path / "npu:0") == pytest.approx(factory_losses(tmp_path / "cpu"), abs=1e-4)


def test_dropout_follows_the_seed_and_resumes(npu, tmp_path):
    """The card's own generator: seeded by the run, kept in its checkpoints."""
    words = [*SAME, *accumulate(4), "--lora_dropout", 0.2, "--learning_rate", "1e-2", "--save_steps", 2]
    check(npu("swift", "sft", *words, "--output_dir", tmp_path / "one"))
    check(npu("swift", "sft", *words, "--output_dir", tmp_path / "two"))
    one = losses(tmp_path / "one")
    assert len(one) == STEPS and losses(tmp_path / "two") == pytest.approx(one, abs=1e-6)
    check(npu("swift", "sft", *words, "--output_dir", tmp_path / "two", "--resume_from_checkpoint", tmp_path / "one/checkpoint-2"))
    assert losses(tmp_path / "two")[-2:] == pytest.approx(one[-2:], abs=1e-6)


def answers(npu, lora, device, dtype, *words):
    place = lora / f"answers-{dtype}-{device}-{len(words)}"
    out, report = place.with_suffix(".jsonl"), place.with_suffix(".report")
    out.unlink(missing_ok=True)  # answers are added to what is there
    check(npu("swift", "infer", "--adapters", lora / "cpu/checkpoint-4", "--torch_dtype", dtype, "--stream", "false", "--temperature", 0, "--max_new_tokens",
              10, "--val_dataset", DATA, "--val_dataset_sample", 3, "--result_path", out, "--device", device, *words, env={"HONE_EMULATED_REPORT": report}))
    operators = last_report(report)["operators"] if report.exists() else {}
    return [json.loads(line)["response"] for line in out.read_text().splitlines()], operators


def test_generation_is_the_same(npu, lora):
    expected, _ = answers(npu, lora, "cpu", "float32")
    found, _ = answers(npu, lora, "npu:0", "float32")
    assert len(expected) == 3 and found == expected


def test_tokens_are_drawn_on_the_card(npu, lora):
    words = ["--temperature", 3, "--top_k", 40, "--top_p", 0.95, "--seed", 5]  # warm enough to leave the most likely ones
    found, operators = answers(npu, lora, "npu:0", "float32", *words)
    assert operators["aclnnApplyTopKTopP"] and found == answers(npu, lora, "npu:0", "float32", *words)[0]
    assert found != answers(npu, lora, "npu:0", "float32")[0]


def test_half_types_decode_by_the_inference_kernel(npu, lora):
    found, operators = answers(npu, lora, "npu:0", "bfloat16")  # in bf16 near ties may fall either way; the kernel's values are compared in operators.py
    assert all(found) and operators["aclnnFusedInferAttentionScoreV3"]


def test_merge(npu, lora):
    from safetensors.torch import load_file
    merged = []
    for device in ("cpu", "npu:0"):
        out = lora / f"merged-{device[:3]}"
        check(npu("swift", "export", "--adapters", lora / "cpu/checkpoint-4", "--merge_lora", "true", "--output_dir", out, "--device", device))
        merged.append({k: v for f in sorted(out.glob("*.safetensors")) for k, v in load_file(f).items()})
    assert merged[0].keys() == merged[1].keys()
    assert all((merged[0][k].float() - merged[1][k].float()).abs().max() < 1e-2 for k in merged[0])


def test_factory_uses_every_card_in_sight(npu, tmp_path):
    config = factory_run(tmp_path, "all", stage="sft", finetuning_type="lora", dataset=DATA, template="qwen")
    done = check(npu("llamafactory-cli", "train", config, env={"ASCEND_RT_VISIBLE_DEVICES": "0,1"}))
    assert "starting 2 processes" in done.stderr and "npu mesh of 2" in done.stderr, done.stderr[-3000:]
