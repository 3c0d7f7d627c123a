"""`megatron` of ms-swift's pages: its options become those of swift, with Megatron's defaults, or are refused with a reason."""
import json
import os
import subprocess

import pytest

# Qwen2.5-14B of the quick start and Qwen3-30B-A3B's LoRA, without what only names data and folders.
PAGE = ("--tensor_model_parallel_size 4 --sequence_parallel true --micro_batch_size 1 --global_batch_size 16 --recompute_granularity full --recompute_method uniform "
        "--recompute_num_layers 1 --num_train_epochs 3 --lr 1e-5 --lr_warmup_fraction 0.05 --min_lr 1e-6 --save_interval 100 --no_save_optim true --no_save_rng true "
        "--cross_entropy_loss_fusion true --packing true --max_length 8192 --num_workers 4 --dataset_num_proc 8 --finetune true --attention_backend flash").split()


@pytest.fixture
def megatron(hone, tmp_path):
    def run(*words, processes=8, command="sft"):
        return subprocess.run([hone.path.parent / "megatron", command, *words], capture_output=True, text=True, cwd=tmp_path,
                              env={**os.environ, "NPROC_PER_NODE": str(processes), "NO_COLOR": "1"}, timeout=60)
    return run


def shown(done):
    assert done.returncode == 0, done.stderr
    return {name: entry["value"] for name, entry in json.loads(done.stdout).items()}


def test_a_line_of_the_pages(megatron):
    done = megatron("--model", "Qwen/Qwen2.5-14B-Instruct", "--dataset", "rows.jsonl", *PAGE, "--show_config", "true", "--log_format", "json")
    values = shown(done)
    expected = dict(tensor_parallel_size=4, sequence_parallel=True, per_device_train_batch_size=1, gradient_accumulation_steps=8, gradient_checkpointing=True, learning_rate=1e-5,
                    lr_scheduler_type="megatron", lr_scheduler_kwargs={"min_lr": 1e-6, "warmup_fraction": 0.05}, save_steps=100, save_only_model=True, tuner_type="full", weight_decay=0.1, adam_beta2=0.95, packing=True, use_distributed_optimizer=True)
    assert {name: values[name] for name in expected} == expected
    assert values["output_dir"].endswith("megatron_output/Qwen2.5-14B-Instruct")
    for ignored in ("cross_entropy_loss_fusion", "attention_backend", "no_save_rng"):
        assert f"--{ignored} has no effect" in done.stderr


def test_a_line_with_stages(megatron):
    """The quick start's line with a pipeline instead of more ranks to a layer: micro-batches are those of one copy."""
    stages = "--pipeline_model_parallel_size 2 --tensor_model_parallel_size 2 --context_parallel_size 2 --cp_comm_type a2a+p2p --virtual_pipeline_model_parallel_size 2".split()
    values = shown(megatron("--model", "Qwen/Qwen2.5-14B-Instruct", "--dataset", "rows.jsonl", *PAGE[2:], *stages, "--show_config", "true", "--log_format", "json"))
    expected = dict(pipeline_parallel_size=2, tensor_parallel_size=2, context_parallel_size=2, cp_comm_type="a2a+p2p", virtual_pipeline_parallel_size=2, gradient_accumulation_steps=16)
    assert {name: values[name] for name in expected} == expected


@pytest.mark.parametrize("words, message", [
    ("--train_iters 3 --pipeline_model_parallel_size 2 --microbatch_group_size_per_vp_stage 4", "as large as the pipeline has ranks"),
    ("--train_iters 3 --context_parallel_size 2 --cp_comm_type ring", "expected one of p2p"),
    ("--global_batch_size 6 --micro_batch_size 4 --train_iters 3", "--global_batch_size 6 is not a multiple"),
    ("--train_iters 3 --fp8_format e5m2", "expected e4m3 or hybrid"),
    ("--train_iters 3 --mcore_model somewhere", "checkpoints of mcore are not read"),
    ("--train_iters 3 --optimizer lion", "--optimizer is lion"),
    ("--train_iters 3 --optimizer muon --muon_coefficient_type quintic", "the same coefficients: simple"),
    ("--train_iters 3 --optimizer muon --muon_tp_mode blockwise", "full matrices: duplicated"),
    ("--train_iters 3 --optimizer muon --muon_fp32_matmul_prec high", "in bf16: medium"),
    ("--train_iters 3 --optimizer muon --muon_split_qkv false", "matrices of their own"),
    ("--train_iters 3 --calculate_per_token_loss false", "mean over its labeled tokens"),
    ("--train_iters 3 --finetune false", "no checkpoint to resume from"),
    ("--train_iters 3 --min_lr low", "--min_lr is \"low\""),
    ("--train_iters 3 --recompute_modules layernorm", "only attention and MLPs"),
    ("--lr 1e-4", "give --num_train_epochs or --train_iters"),
    ("--train_iters 3 --tensor_modle_parallel_size 2", "unknown"),
])
def test_what_cannot_be_done_is_reported(megatron, words, message):
    done = megatron("--model", "m", "--dataset", "rows.jsonl", *words.split(), "--show_config", "true", processes=1)
    assert done.returncode == 2 and message in done.stderr, done.stderr


def test_a_line_of_preferences(megatron):
    """ms-swift's DPO of Qwen3-30B-A3B, without what only names data and folders."""
    line = ("--rlhf_type dpo --tensor_model_parallel_size 4 --expert_tensor_parallel_size 1 --expert_model_parallel_size 8 --moe_aux_loss_coeff 1e-3 --micro_batch_size 1 --global_batch_size 4 "
            "--num_train_epochs 1 --finetune true --optimizer_cpu_offload true --use_precision_aware_optimizer true --optimizer_offload_fraction 1 --beta 0.1 --rpo_alpha 0.1 --loss_type sigmoid "
            "--calculate_per_token_loss false")
    values = shown(megatron("--model", "Qwen/Qwen3-30B-A3B-Instruct-2507", "--dataset", "rows.jsonl", *line.split(), "--show_config", "true", "--log_format", "json", command="rlhf"))
    expected = dict(rlhf_type="dpo", tensor_parallel_size=4, expert_parallel_size=8, expert_tensor_parallel_size=1, router_aux_loss_coef=1e-3, gradient_accumulation_steps=2, rpo_alpha=0.1, moe_router_dtype="fp32")
    assert {name: values[name] for name in expected} == expected


@pytest.mark.parametrize("words, expected", [
    ("--target_modules all-linear", dict(target_modules=["all-linear"], target_parameters=["all-experts"])),
    ("--target_modules linear_qkv linear_proj all-router", dict(target_modules=["linear_qkv", "linear_proj"], target_parameters=["all-routers"])),
])
def test_what_is_adapted(megatron, words, expected):
    values = shown(megatron("--model", "m", "--dataset", "rows.jsonl", "--tuner_type", "lora", "--train_iters", "3", *words.split(), "--show_config", "true", "--log_format", "json"))
    assert {name: values[name] for name in expected} == expected


@pytest.mark.parametrize("name, is_shared", [("muon", False), ("dist_muon", True)])
def test_replicas_share_the_state_of_dist_muon(megatron, name, is_shared):
    line = f"--model m --dataset rows.jsonl --train_iters 3 --optimizer {name} --muon_momentum 0.95 --muon_use_nesterov true --muon_tp_mode distributed --muon_coefficient_type simple --use_distributed_optimizer true"
    done = megatron(*line.split(), "--show_config", "true", "--log_format", "json")
    values = shown(done)
    assert (values["optim"], values["use_distributed_optimizer"]) == ("muon", is_shared)
    assert values["optim_args"] == "momentum=0.95, nesterov=true, ns_steps=5, scale=1"
    assert ("--use_distributed_optimizer true has no effect with --optimizer muon" in done.stderr) != is_shared


def test_moments_in_bfloat16(megatron):
    """examples/megatron/fp8/llm.sh of ms-swift."""
    line = "--model m --dataset rows.jsonl --train_iters 3 --fp8_format e4m3 --fp8_recipe blockwise --fp8_param_gather true --use_precision_aware_optimizer true --exp_avg_dtype bf16 --exp_avg_sq_dtype bf16"
    done = megatron(*line.split(), "--show_config", "true", "--log_format", "json")
    values = shown(done)
    assert (values["exp_avg_dtype"], values["exp_avg_sq_dtype"], values["fp8"]) == ("bf16", "bf16", True)
    refused = megatron(*line.split(), "--main_grads_dtype", "bf16", "--show_config", "true")
    assert refused.returncode == 2 and "add up in float32; leave it out" in refused.stderr


def test_settings_of_another_optimizer_are_named(megatron):
    done = megatron(*"--model m --dataset rows.jsonl --train_iters 3 --optimizer adam --muon_momentum 0.95 --sgd_momentum 0.8 --show_config true --log_format json".split())
    assert shown(done)["optim"] == "adamw_torch"
    for name, optimizer in (("muon_momentum", "muon"), ("sgd_momentum", "sgd")):
        assert f"--{name} has no effect without --optimizer {optimizer}" in done.stderr


def test_a_generation_is_counted_in_updates(megatron):
    line = "--rlhf_type grpo --num_train_epochs 1 --micro_batch_size 2 --global_batch_size 64 --steps_per_generation 2 --reward_funcs accuracy --offload_bridge false"
    values = shown(megatron("--model", "m", "--dataset", "rows.jsonl", *line.split(), "--show_config", "true", "--log_format", "json", command="rlhf"))
    assert (values["gradient_accumulation_steps"], values["steps_per_generation"]) == (4, 8)


def test_resumes_from_a_folder_of_the_hub(megatron, tmp_path):
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved/adapter_config.json").write_text("{}")
    line = "--model m --dataset rows.jsonl --tuner_type lora --train_iters 3 --mcore_adapter saved --show_config true --log_format json"
    assert shown(megatron(*line.split()))["adapters"] == ["saved"]
    assert shown(megatron(*line.split(), "--finetune", "false"))["resume_from_checkpoint"].endswith("saved")


@pytest.mark.parametrize("words, message", [
    ("--to_hf true --output_dir o", "nothing to write"),
    ("--model m --mcore_adapter a --to_hf true --output_dir o", "checkpoints of mcore are not read"),
])
def test_what_is_not_exported_is_reported(megatron, words, message):
    done = megatron(*words.split(), command="export", processes=1)
    assert done.returncode == 2 and message in done.stderr, done.stderr


@pytest.mark.parametrize("words, expected, notes", [
    ("--model a/m --to_mcore true --tensor_model_parallel_size 2", dict(model="a/m", output_dir="m-mcore", merge_lora=False), ["--to_mcore: the folder has the hub's format", "--tensor_model_parallel_size has no effect"]),
    ("--model a/m --to_hf true --save o", dict(output_dir="o"), []),
    ("--model m --adapters a --to_hf true --output_dir o", dict(adapters=["a"], merge_lora=True), []),
    ("--model m --adapters a --to_hf true --merge_lora false --output_dir o", dict(adapters=["a"], merge_lora=False, to_peft_format=True), []),
    ("--model m --to_hf true --fp8_format e4m3 --fp8_recipe blockwise --output_dir o", dict(quant_method="fp8"), []),
])
def test_what_is_exported(hone, words, expected, notes):
    done = hone("check-args", "-", stdin=json.dumps(["megatron", "export", *words.split()]) + "\n")
    values = json.loads(done.stdout)["values"]
    assert {name: values[name] for name in expected} == expected
    assert all(note in done.stderr for note in notes), done.stderr


@pytest.mark.parametrize("words, expected", [
    ("--tuner_type lora", dict(merge_lora=True)),  # ms-swift's default
    ("--tuner_type lora --merge_lora false", dict(merge_lora=False)),
    ("--tuner_type lora --save_safetensors false", dict(merge_lora=False)),
    ("--tuner_type full --merge_lora true", dict(merge_lora=False)),
    ("--eval_iters 50 --vit_lr 1e-5 --aligner_lr 2e-5", dict(eval_iters=50, vit_lr=1e-5, aligner_lr=2e-5)),
    ("--eval_iters -1", dict(eval_iters=None)),
    ("--eval_iters 0", dict(eval_strategy="no")),
    ("--recompute_granularity full --recompute_method uniform --recompute_num_layers 4", dict(gradient_checkpointing=True, recompute_num_layers=None)),
    ("--recompute_granularity full --recompute_method block --recompute_num_layers 4", dict(gradient_checkpointing=True, recompute_num_layers=4)),
    ("--recompute_modules core_attn moe", dict(gradient_checkpointing=True, recompute_granularity="selective", recompute_modules="mlp")),
    ("--recompute_granularity selective", dict(gradient_checkpointing=False)),
    ("--lr_decay_style WSD --lr_wsd_decay_iters 2 --lr_wsd_decay_style linear --lr_warmup_iters 1 --lr_warmup_init 1e-7 --lr_decay_iters 3",
     dict(lr_scheduler_type="megatron", lr_scheduler_kwargs=dict(decay_style="WSD", wsd_decay_steps=2, wsd_decay_style="linear", warmup_steps=1, warmup_init=1e-7, decay_steps=3))),
])
def test_what_options_become(megatron, words, expected):
    values = shown(megatron("--model", "m", "--dataset", "rows.jsonl", "--train_iters", "3", *words.split(), "--show_config", "true", "--log_format", "json", processes=1))
    assert {name: values[name] for name in expected} == expected


def test_another_schedule_leaves_out_megatrons(megatron):
    done = megatron("--model", "m", "--dataset", "rows.jsonl", "--train_iters", "3", *"--lr_scheduler_type linear --min_lr 1e-6 --lr_decay_style cosine --show_config true --log_format json".split(), processes=1)
    values = shown(done)
    assert values["lr_scheduler_type"] == "linear" and not values["lr_scheduler_kwargs"]
    assert all(f"--{name} has no effect with --lr_scheduler_type" in done.stderr for name in ("min_lr", "lr_decay_style")), done.stderr


# examples/yaml/megatron/sft.yaml of ms-swift, shortened, and examples/ray/gkd/multi_turn_colocate.yaml.
SFT_FILE = """ENV:
  MAX_PIXELS: '1003520'
  NPROC_PER_NODE: '4'
model: Qwen/Qwen3.5-35B-A3B
tuner_type: lora
target_modules: all-linear
dataset:
  - 'AI-ModelScope/alpaca-gpt4-data-zh#500'
  - 'swift/self-cognition#500'
merge_lora: true
micro_batch_size: 1
global_batch_size: 4
num_train_epochs: 1
lr: 1e-4
expert_model_parallel_size: 4
recompute_granularity: full
"""
RAY_FILE = """rlhf_type: gkd
model: Qwen/Qwen3.5-0.8B
teacher_model: Qwen/Qwen3.5-2B
dataset:
  - 'AI-MO/NuminaMath-TIR#2000'
global_batch_size: 16
num_train_epochs: 1
multi_turn_scheduler: math_tip_trick
colocate_groups: [[train, rollout]]
train:
  gpus: 4
  tuner_type: lora
  tensor_model_parallel_size: 2
  output_dir: megatron_output/gkd_multi_turn_ray
rollout:
  gpus: 4
  vllm_tensor_parallel_size: 2
"""


def test_files_of_options(hone, tmp_path):
    """The first word, or --config; what the command line says takes precedence. A file for Ray names its processes."""
    def run(*words):
        settings = {key: value for key, value in os.environ.items() if key not in ("NPROC_PER_NODE", "NNODES", "WORLD_SIZE", "RANK")}
        return subprocess.run([hone.path.parent / "megatron", *words, "--show_config", "true", "--log_format", "json"], capture_output=True, text=True, cwd=tmp_path, env={**settings, "NO_COLOR": "1"}, timeout=60)

    (tmp_path / "sft.yaml").write_text(SFT_FILE)
    (tmp_path / "ray.yaml").write_text(RAY_FILE)
    values = shown(run("sft", "sft.yaml", "--lr", "2e-4"))
    expected = dict(dataset=["AI-ModelScope/alpaca-gpt4-data-zh#500", "swift/self-cognition#500"], learning_rate=2e-4, expert_parallel_size=4, gradient_accumulation_steps=1, merge_lora=True, gradient_checkpointing=True)
    assert {name: values[name] for name in expected} == expected
    values = shown(run("rlhf", "--use_ray", "true", "--config", "ray.yaml"))
    expected = dict(rlhf_type="gkd", tensor_parallel_size=2, gradient_accumulation_steps=8, tuner_type="lora", multi_turn_scheduler="math_tip_trick")
    assert {name: values[name] for name in expected} == expected
    (tmp_path / "ray.yaml").write_text(RAY_FILE.replace("colocate_groups: [[train, rollout]]\n", ""))
    apart = run("rlhf", "--use_ray", "true", "--config", "ray.yaml")
    assert apart.returncode == 2 and "rollout has 4 devices of its own" in apart.stderr and "start hone rollout" in apart.stderr, apart.stderr


# examples/megatron/qwen3_moe_full.yaml of LLaMA-Factory, without what names data and folders.
MCA_FILE = """model_name_or_path: Qwen/Qwen3-30B-A3B-Instruct-2507
do_train: true
stage: sft
finetuning_type: full
dataset: alpaca_en_demo
cutoff_len: 4096
template: qwen3_nothink
per_device_train_batch_size: 1
gradient_accumulation_steps: 8
bf16: true
tensor_model_parallel_size: 1
sequence_parallel: false
pipeline_model_parallel_size: 4
bias_activation_fusion: true
apply_rope_fusion: true
use_distributed_optimizer: true
overlap_param_gather: true
overlap_grad_reduce: true
moe_grouped_gemm: true
moe_token_dispatcher_type: alltoall
expert_model_parallel_size: 2
recompute_granularity: full
"""


def test_files_of_llama_factory_for_megatron(factory, tmp_path):
    """With use_mca or USE_MCA its keys are allowed in addition to the file's own; without, they are unknown."""
    path = tmp_path / "moe.yaml"
    path.write_text(MCA_FILE)
    asked = [path, f"output_dir={tmp_path}", "show_config=true", "log_format=json"]
    for done in (factory("train", *asked, "use_mca=true", "moe_aux_loss_coeff=0.01"), factory("train", *asked, "moe_aux_loss_coeff=0.01", env={"USE_MCA": "1"})):
        values = shown(done)
        assert (values["pipeline_parallel_size"], values["expert_parallel_size"], values["router_aux_loss_coef"], values["gradient_accumulation_steps"]) == (4, 2, 0.01, 8)
        assert "bias_activation_fusion is accepted without effect: hone chooses its own kernels" in done.stderr and "moe_grouped_gemm is accepted" in done.stderr
    without = factory("train", *asked)
    assert without.returncode == 2 and 'unknown key "' in without.stderr, without.stderr
    refused = factory("train", *asked, "use_mca=true", "weight_decay_incr_style=cosine")
    assert refused.returncode == 2 and "weight_decay_incr_style is cosine: weight decay is constant" in refused.stderr, refused.stderr
