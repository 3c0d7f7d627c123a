"""Lines of ms-swift's Megatron pages as printed, on tiny folders under the real names: trained in parts, merged, read by transformers and peft."""
import json
import os
import random
import pathlib
import runpy
import shlex
import shutil
import subprocess

import pytest
from layouts_testing import SHAPE, many_experts, tied_with_head_norms
from parallel_testing import environment, hone_binary, sentence

MODEL = "Qwen/Qwen3-30B-A3B-Instruct-2507"
# examples/megatron/mcore_bridge/lora/moe.sh: LoRA on everything, experts included, expert parallel over two cards.
EXPERTS_OVER_TWO = """NPROC_PER_NODE=2
megatron sft --model Qwen/Qwen3-30B-A3B-Instruct-2507 --load_safetensors true --save_safetensors true --merge_lora false
    --dataset swift/Chinese-Qwen3-235B-2507-Distill-data-110k-SFT#2000 swift/self-cognition#1000 --load_from_cache_file true --tuner_type lora --lora_rank 8 --lora_alpha 32
    --target_modules all-linear --split_dataset_ratio 0.01 --moe_permute_fusion true --expert_model_parallel_size 2 --moe_grouped_gemm true --moe_shared_expert_overlap true
    --moe_aux_loss_coeff 1e-3 --micro_batch_size 8 --global_batch_size 16 --recompute_granularity full --recompute_method uniform --recompute_num_layers 1 --max_epochs 1 --finetune true
    --cross_entropy_loss_fusion true --lr 1e-4 --lr_warmup_fraction 0.05 --min_lr 1e-5 --save megatron_output/Qwen3-30B-A3B-Instruct-2507 --eval_interval 200 --save_interval 200
    --max_length 2048 --num_workers 8 --dataset_num_proc 8 --no_save_optim true --no_save_rng true --sequence_parallel true --moe_expert_capacity_factor 2 --attention_backend flash
    --model_author swift --model_name swift-robot"""

# examples/megatron/sft.sh: the quick start, full tuning, tensor parallel over two cards.
QUICK_START = """PYTORCH_CUDA_ALLOC_CONF='expandable_segments:True' NPROC_PER_NODE=2 CUDA_VISIBLE_DEVICES=0,1
megatron sft --model Qwen/Qwen2.5-7B-Instruct --load_safetensors true --save_safetensors true
    --dataset 'AI-ModelScope/alpaca-gpt4-data-zh#500' 'AI-ModelScope/alpaca-gpt4-data-en#500' 'swift/self-cognition#500' --tensor_model_parallel_size 2 --sequence_parallel true
    --micro_batch_size 16 --global_batch_size 16 --recompute_granularity full --recompute_method uniform --recompute_num_layers 1 --finetune true --cross_entropy_loss_fusion true
    --lr 1e-5 --lr_warmup_fraction 0.05 --min_lr 1e-6 --max_epochs 1 --save megatron_output/Qwen2.5-7B-Instruct --save_interval 100 --max_length 2048
    --system 'You are a helpful assistant.' --num_workers 4 --no_save_optim true --no_save_rng true --dataset_num_proc 4 --model_author swift --model_name swift-robot"""
# The pages' Qwen2.5-14B on eight cards: two replicas, tensor parallel over four.
EIGHT_CARDS = """NPROC_PER_NODE=8
megatron sft --model Qwen/Qwen2.5-14B-Instruct --dataset 'AI-ModelScope/alpaca-gpt4-data-zh#500' --tensor_model_parallel_size 4 --sequence_parallel true --micro_batch_size 1 --global_batch_size 16
    --recompute_granularity full --recompute_method uniform --recompute_num_layers 1 --train_iters 2 --eval_iters -1 --finetune true --cross_entropy_loss_fusion true --lr 1e-5
    --lr_warmup_fraction 0.05 --min_lr 1e-6 --save megatron_output/Qwen2.5-14B-Instruct --save_interval 100 --packing true --max_length 512 --num_workers 4 --dataset_num_proc 8
    --no_save_optim true --no_save_rng true --attention_backend flash"""
# examples/models/qwen3_vl/mcore.sh: LoRA on a vision-language model with experts, tensor parallel over two cards, experts over eight.
PICTURES_ON_EIGHT_CARDS = """PYTORCH_CUDA_ALLOC_CONF='expandable_segments:True' NPROC_PER_NODE=8 IMAGE_MAX_TOKEN_NUM=1024 CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7
megatron sft --model Qwen/Qwen3-VL-235B-A22B-Instruct --save_safetensors true --dataset 'AI-ModelScope/LaTeX_OCR:human_handwrite#20000' --load_from_cache_file true --split_dataset_ratio 0.01
    --tuner_type lora --lora_rank 8 --lora_alpha 32 --target_modules all-linear --moe_permute_fusion true --tensor_model_parallel_size 2 --expert_tensor_parallel_size 1
    --expert_model_parallel_size 8 --moe_grouped_gemm true --moe_shared_expert_overlap true --moe_aux_loss_coeff 1e-6 --micro_batch_size 1 --global_batch_size 4 --recompute_granularity full
    --recompute_method uniform --recompute_num_layers 1 --num_train_epochs 1 --finetune true --cross_entropy_loss_fusion true --lr 1e-4 --lr_warmup_fraction 0.05 --min_lr 1e-5
    --output_dir megatron_output/Qwen3-VL-235B-A22B-Instruct --eval_steps 200 --save_steps 200 --max_length 2048 --packing true --dataloader_num_workers 8 --dataset_num_proc 8
    --no_save_optim true --no_save_rng true --sequence_parallel true --attention_backend flash"""

# examples/megatron/seq_cls/lora/train.sh: a classifier with experts, packed, and the merged model next to the adapter.
CLASSES_OVER_TWO = """PYTORCH_CUDA_ALLOC_CONF='expandable_segments:True' NPROC_PER_NODE=2 CUDA_VISIBLE_DEVICES=0,1
megatron sft --model Qwen/Qwen3-30B-A3B-Instruct-2507 --save_safetensors true --merge_lora true --dataset DAMO_NLP/jd:cls --load_from_cache_file true --split_dataset_ratio 0.01 --tuner_type lora
    --lora_rank 8 --lora_alpha 32 --target_modules all-linear all-router --packing true --expert_model_parallel_size 2 --moe_permute_fusion true --moe_grouped_gemm true --moe_shared_expert_overlap true
    --moe_aux_loss_coeff 1e-6 --sequence_parallel true --micro_batch_size 1 --global_batch_size 2 --recompute_granularity full --recompute_method uniform --recompute_num_layers 1 --finetune true
    --cross_entropy_loss_fusion true --lr 1e-4 --lr_warmup_fraction 0.05 --min_lr 1e-5 --num_train_epochs 1 --output_dir megatron_output/classes --eval_steps 200 --save_steps 200 --max_length 2048
    --task_type seq_cls --num_labels 2 --dataloader_num_workers 4 --no_save_optim true --no_save_rng true --dataset_num_proc 4"""
# examples/megatron/rlhf/gkd/multi_turn.sh: a student over two cards plays two turns.
TURNS_ON_FOUR_CARDS = """CUDA_VISIBLE_DEVICES=0,1,2,3 NPROC_PER_NODE=4 PYTORCH_CUDA_ALLOC_CONF='expandable_segments:True'
megatron rlhf --rlhf_type gkd --model Qwen/Qwen3.5-2B --teacher_model Qwen/Qwen3.5-4B --tuner_type lora --dataset 'AI-ModelScope/NuminaMath-TIR#2000' --tensor_model_parallel_size 2 --lmbda 1 --beta 0.5
    --temperature 1.0 --torch_dtype bfloat16 --micro_batch_size 2 --global_batch_size 16 --num_train_epochs 1 --lr 5e-6 --logging_steps 5 --max_length 2048 --max_completion_length 1024
    --attention_backend flash --use_vllm true --vllm_mode colocate --vllm_gpu_memory_utilization 0.3 --vllm_tensor_parallel_size 1 --vllm_max_model_len 4096 --sleep_level 1 --offload_teacher_model true
    --recompute_granularity selective --finetune --no_save_optim --no_save_rng --enable_thinking false --loss_scale last_round --multi_turn_scheduler math_tip_trick --max_turns 2
    --truncation_strategy delete --padding_free true --sequence_parallel true --output_dir output --save_steps 200 --save_total_limit 2 --vllm_server_pass_dataset true --remove_unused_columns false"""

# examples/megatron/fp8/llm.sh: full tuning of a folder in FP8 with products in fp8 and AdamW's moments in bfloat16, tensor parallel over two cards, experts over eight.
FP8_ON_EIGHT_CARDS = """PYTORCH_CUDA_ALLOC_CONF='expandable_segments:True' NPROC_PER_NODE=8 CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7
megatron sft --model Qwen/Qwen3-30B-A3B-Instruct-2507-FP8 --save_safetensors true --fp8_recipe blockwise --fp8_format e4m3 --fp8_param_gather true
    --dataset 'swift/Chinese-Qwen3-235B-2507-Distill-data-110k-SFT#2000' 'swift/self-cognition#1000' --load_from_cache_file true --tensor_model_parallel_size 2 --expert_model_parallel_size 8
    --moe_permute_fusion true --moe_grouped_gemm true --moe_shared_expert_overlap true --moe_aux_loss_coeff 1e-6 --micro_batch_size 4 --global_batch_size 16 --recompute_granularity full
    --recompute_method uniform --recompute_num_layers 1 --num_train_epochs 1 --finetune true --cross_entropy_loss_fusion true --lr 1e-5 --lr_warmup_fraction 0.05 --min_lr 1e-6
    --output_dir megatron_output/Qwen3-30B-A3B-Instruct-2507-FP8 --eval_steps 200 --save_steps 200 --max_length 2048 --dataloader_num_workers 8 --dataset_num_proc 8 --no_save_optim true --no_save_rng true
    --sequence_parallel true --moe_expert_capacity_factor 2 --use_precision_aware_optimizer true --exp_avg_dtype bf16 --exp_avg_sq_dtype bf16 --attention_backend flash --model_author swift
    --model_name swift-robot"""

# examples/megatron/grpo/moe_colocate_lora.sh: rollouts in the processes that train, LoRA on a model with experts, in every kind of parallelism at once.
ROLLOUTS_ON_EIGHT_CARDS = """CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 NPROC_PER_NODE=8 PYTORCH_CUDA_ALLOC_CONF='expandable_segments:True'
megatron rlhf --rlhf_type grpo --model Qwen/Qwen3-30B-A3B-Instruct-2507 --save_safetensors true --merge_lora false --context_parallel_size 2 --tensor_model_parallel_size 2 --expert_model_parallel_size 4
    --pipeline_model_parallel_size 2 --dataset open-r1/DAPO-Math-17k-Processed --num_train_epochs 1 --global_batch_size 64 --micro_batch_size 2 --steps_per_generation 2 --num_generations 8
    --reward_funcs accuracy format --use_vllm true --vllm_mode colocate --vllm_gpu_memory_utilization 0.3 --vllm_tensor_parallel_size 4 --vllm_max_model_len 16384 --max_length 8192
    --max_completion_length 8192 --tuner_type lora --lr 5e-5 --bf16 true --beta 0.00 --importance_sampling_level sequence --epsilon 3e-4 --epsilon_high 4e-4 --dynamic_sample false
    --overlong_filter true --loss_type grpo --sleep_level 2 --offload_model true --offload_bridge false --offload_optimizer true --logging_steps 1 --recompute_granularity selective --finetune
    --dataloader_num_workers 8 --dataset_num_proc 8 --no_save_optim --no_save_rng --attention_backend flash --temperature 1.0 --padding_free true --sequence_parallel true --log_completions true
    --report_to wandb"""


def as_fp8(source, folder):
    """The linear layers in e4m3 with a scale for each block of 128 x 128 weights, as the hub's FP8 folders have them."""
    import torch
    from safetensors.torch import load_file, save_file
    shutil.copytree(source, folder)
    stored = {}
    for name, weight in load_file(folder / "model.safetensors").items():
        stored[name] = weight
        if weight.dim() == 2 and ".layers." in name and name.endswith("proj.weight"):
            rows, columns = (-(-size // 128) for size in weight.shape)
            scales = torch.stack([block.abs().max() / 448 for row in weight.split(128) for block in row.split(128, 1)]).view(rows, columns)
            stored[name] = (weight / scales.repeat_interleave(128, 0).repeat_interleave(128, 1)[:weight.shape[0], :weight.shape[1]]).to(torch.float8_e4m3fn)
            stored[name + "_scale_inv"] = scales
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    quantization = {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8", "weight_block_size": [128, 128]}
    (folder / "config.json").write_text(json.dumps({**config, "quantization_config": quantization}))


def dense_qwen2():
    from transformers import Qwen2Config, Qwen2ForCausalLM
    return Qwen2ForCausalLM(Qwen2Config(**{key: value for key, value in SHAPE.items() if key != "head_dim"}, tie_word_embeddings=False))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory, models):
    """A folder where the names of the page are folders."""
    root, rng = tmp_path_factory.mktemp("checkout"), random.Random(4)
    shutil.copytree(models(many_experts), root / MODEL)
    for name in ("Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-14B-Instruct"):
        shutil.copytree(models(dense_qwen2), root / name)
    for name, make in (("Qwen/Qwen3.5-2B", tied_with_head_norms), ("Qwen/Qwen3.5-4B", many_experts)):  # what they are called: the architectures are those of Qwen3
        shutil.copytree(models(make), root / name)
    for name, count in (("swift/Chinese-Qwen3-235B-2507-Distill-data-110k-SFT", 40), ("swift/self-cognition", 24), ("AI-ModelScope/alpaca-gpt4-data-zh", 32), ("AI-ModelScope/alpaca-gpt4-data-en", 8)):
        folder = root / name
        folder.mkdir(parents=True)
        rows = [{"messages": [{"role": "user", "content": sentence(rng, 4)}, {"role": "assistant", "content": sentence(rng, 8)}]} for _ in range(count)]
        (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    turns = [{"messages": [{"role": "user", "content": sentence(rng, 4)}, {"role": "assistant", "content": sentence(rng, 6)}], "solution": "7"} for _ in range(20)]
    classes = [{"messages": [{"role": "user", "content": sentence(rng, 24)}], "label": number % 2} for number in range(240)]
    for path, rows in (("DAMO_NLP/jd/cls.jsonl", classes), ("AI-ModelScope/NuminaMath-TIR/train.jsonl", turns), ("open-r1/DAPO-Math-17k-Processed/train.jsonl", turns)):
        (root / path).parent.mkdir(parents=True)
        (root / path).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return root


def run(root, line, *more):
    words = shlex.split(line)
    settings = dict(word.split("=", 1) for word in words if "=" in word and not word.startswith("-"))
    settings.pop("CUDA_VISIBLE_DEVICES", None)  # these are processes of the CPU
    words = [word for word in words if "=" not in word or word.startswith("-")]
    program = hone_binary().parent / words[0]
    return subprocess.run([program, *words[1:], *more], cwd=root, env={**environment(1), **settings, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=300)


def test_lora_on_experts_over_two_processes(checkout):
    import torch
    from peft import PeftModel
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM
    done = run(checkout, EXPERTS_OVER_TWO)
    assert done.returncode == 0, done.stderr
    saved = max((checkout / "megatron_output").rglob("checkpoint-*"), key=os.path.getmtime)
    names = load_file(saved / "adapter_model.safetensors")
    assert any("experts" in name for name in names) and any("q_proj" in name for name in names)
    tokens = torch.arange(3, 40).unsqueeze(0)
    adapted = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(checkout / MODEL, dtype=torch.float32), saved).eval()(tokens).logits

    merged = run(checkout, f"megatron export --model {MODEL} --mcore_adapter {saved} --to_hf true --merge_lora true --tensor_model_parallel_size 2 --test_convert_precision true --save merged")
    assert merged.returncode == 0, merged.stderr
    assert "--test_convert_precision has no effect" in merged.stderr
    assert torch.allclose(AutoModelForCausalLM.from_pretrained(checkout / "merged", dtype=torch.float32).eval()(tokens).logits, adapted, atol=1e-4)


def test_modules_to_save_by_megatrons_names(checkout):
    """examples/megatron/lora/new_special_tokens.sh: the embedding and the head train in full next to the adapter."""
    from safetensors.torch import load_file
    done = run(checkout, EXPERTS_OVER_TWO, "--modules_to_save", "word_embeddings", "output_layer", "--train_iters", "1", "--save", "megatron_output/saved_modules")
    assert done.returncode == 0, done.stderr
    saved = next((checkout / "megatron_output/saved_modules").rglob("checkpoint-1"))
    names = load_file(saved / "adapter_model.safetensors")
    assert any(name.endswith("embed_tokens.weight") for name in names) and any(name.endswith("lm_head.weight") for name in names), sorted(names)


# The last is examples/megatron/muon.sh.
@pytest.mark.parametrize("line, name", [(QUICK_START, "Qwen2.5-7B-Instruct"), (EIGHT_CARDS, "Qwen2.5-14B-Instruct"), (QUICK_START + " --optimizer dist_muon", "Qwen2.5-7B-Instruct")])
def test_full_tuning_of_cut_layers(checkout, line, name):
    """What the ranks wrote together is a folder that transformers reads, and it has learned."""
    import torch
    from transformers import AutoModelForCausalLM
    done = run(checkout, line)
    assert done.returncode == 0, done.stderr
    saved = max((checkout / "megatron_output" / name).rglob("checkpoint-*"), key=os.path.getmtime)
    before, after = (AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32) for folder in (checkout / "Qwen" / name, saved))
    changed = [name for (name, a), b in zip(before.named_parameters(), after.parameters()) if not torch.equal(a, b)]
    assert len(changed) == len(list(before.parameters())), set(dict(before.named_parameters())) - set(changed)


def test_an_fp8_folder_on_eight_cards(checkout):
    """What is written is no longer quantized, and transformers reads it."""
    import torch
    from transformers import AutoModelForCausalLM
    folder = checkout / "Qwen/Qwen3-30B-A3B-Instruct-2507-FP8"
    as_fp8(checkout / MODEL, folder)
    done = run(checkout, FP8_ON_EIGHT_CARDS, "--train_iters", "2")
    assert done.returncode == 0, done.stderr
    saved = next((checkout / "megatron_output" / folder.name).rglob("checkpoint-2"))
    before, after = (AutoModelForCausalLM.from_pretrained(each, dtype=torch.float32) for each in (checkout / MODEL, saved))
    changed = [(a - b).abs().max() / a.abs().max() for a, b in zip(before.parameters(), after.parameters())]
    assert 0 < max(changed) < 0.1  # rounded to e4m3, and trained for two steps


def test_a_classifier_with_experts_and_its_merged_model(checkout):
    import torch
    from peft import PeftModel
    from transformers import AutoModelForSequenceClassification
    done = run(checkout, CLASSES_OVER_TWO)
    assert done.returncode == 0, done.stderr
    merged = next((checkout / "megatron_output/classes").rglob("checkpoint-*-merged"))
    saved = merged.with_name(merged.name.removesuffix("-merged"))
    tokens = torch.arange(3, 40).unsqueeze(0)
    whole, seen = AutoModelForSequenceClassification.from_pretrained(merged, dtype=torch.float32, output_loading_info=True)
    assert not seen["missing_keys"] and not seen["unexpected_keys"] and whole.config.num_labels == 2
    base = AutoModelForSequenceClassification.from_pretrained(checkout / MODEL, num_labels=2, pad_token_id=0, dtype=torch.float32)
    adapted = PeftModel.from_pretrained(base, saved).eval()
    whole.config.pad_token_id = 0
    assert torch.allclose(whole.eval()(tokens).logits, adapted(tokens).logits, atol=1e-4)


def test_two_turns_of_a_student_over_two_cards(checkout):
    done = run(checkout, TURNS_ON_FOUR_CARDS, "--max_completion_length", "8", "--train_iters", "1", "--log_completions", "true", "--stop_words", *"aeio")  # an answer ends by itself, and is wrong
    assert done.returncode == 0, done.stderr
    event = json.loads(next((checkout / "output").rglob("logging.jsonl")).read_text().splitlines()[0])
    assert event["num_turns"] > 1 and event["loss"] > 0


def test_rollouts_on_eight_cards(checkout):
    """What has no effect is reported once, not by each of the processes."""
    done = run(checkout, ROLLOUTS_ON_EIGHT_CARDS, "--max_completion_length", "8", "--train_iters", "1", "--output_dir", "rollouts")
    assert done.returncode == 0, done.stderr
    event = json.loads(next((checkout / "rollouts").rglob("logging.jsonl")).read_text().splitlines()[0])
    assert event["completions/max_length"] == 8 and "reward" in event
    assert done.stderr.count("--offload_model is accepted without effect") == 1, done.stderr
    assert f"last_model_checkpoint: {next((checkout / 'rollouts').rglob('checkpoint-1'))}" in done.stderr


def test_exports_go_both_ways(checkout):
    """examples/megatron/export/full.sh: the folder in between is one that --mcore_model takes."""
    from safetensors.torch import load_file
    sizes = "--tensor_model_parallel_size 2 --expert_model_parallel_size 2 --pipeline_model_parallel_size 2 --test_convert_precision true"
    for line in (f"megatron export --model {MODEL} --output_dir Qwen3-30B-A3B-Instruct-2507-mcore --to_mcore true {sizes}",
                 f"megatron export --mcore_model Qwen3-30B-A3B-Instruct-2507-mcore --output_dir Qwen3-30B-A3B-Instruct-2507-hf --to_hf true {sizes}"):
        done = run(checkout, line)
        assert done.returncode == 0, done.stderr
    before, after = (load_file(next(folder.glob("*.safetensors"))) for folder in (checkout / MODEL, checkout / "Qwen3-30B-A3B-Instruct-2507-hf"))
    assert before.keys() == after.keys() and all(before[name].equal(after[name]) for name in before)


def test_pictures_and_experts_on_eight_cards(tmp_path):
    """The adapter is that of a vision-language model, on attention and experts; the merged folder is one that transformers reads."""
    import torch
    from PIL import Image
    from safetensors.torch import load_file
    from transformers import AutoModelForImageTextToText
    rng = random.Random(4)
    write_vision_model = runpy.run_path(str(pathlib.Path(__file__).resolve().parents[1] / "vision/vision_models.py"))["write_vision_model"]
    folder = tmp_path / "Qwen/Qwen3-VL-235B-A22B-Instruct"
    write_vision_model(folder, "qwen3_vl_moe", text={"num_experts": 8})
    data = tmp_path / "AI-ModelScope/LaTeX_OCR"
    data.mkdir(parents=True)
    rows = []
    for number in range(24):
        Image.effect_noise((64, 48), 90).convert("RGB").save(data / f"{number}.png")
        rows.append({"messages": [{"role": "user", "content": "<image>Using LaTeX to perform OCR on the image."}, {"role": "assistant", "content": sentence(rng, 5)}],
                     "images": [str(data / f"{number}.png")]})
    (data / "human_handwrite.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = run(tmp_path, PICTURES_ON_EIGHT_CARDS, "--train_iters", "2")  # of hundreds: the name asks for 20,000 rows
    assert done.returncode == 0, done.stderr
    saved = next((tmp_path / "megatron_output").rglob("checkpoint-2"))
    adapter = load_file(saved / "adapter_model.safetensors")
    assert any("experts" in name for name in adapter) and any("q_proj" in name for name in adapter) and not any("visual" in name for name in adapter)
    merged = run(tmp_path, f"megatron export --model Qwen/Qwen3-VL-235B-A22B-Instruct --mcore_adapter {saved} --to_hf true --merge_lora true --save merged")
    assert merged.returncode == 0, merged.stderr
    (before, _), (after, seen) = (AutoModelForImageTextToText.from_pretrained(each, dtype=torch.float32, output_loading_info=True) for each in (folder, tmp_path / "merged"))
    assert not seen["missing_keys"] and not seen["unexpected_keys"]
    changed = [name for (name, a), b in zip(before.named_parameters(), after.parameters()) if not torch.equal(a, b)]
    assert any("experts" in name for name in changed) and not any("visual" in name for name in changed)
