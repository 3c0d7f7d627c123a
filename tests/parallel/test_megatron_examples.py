"""Lines of ms-swift's Megatron pages as printed, on tiny folders under the real names: trained in parts, merged, read by transformers and peft."""
import json
import os
import random
import shlex
import shutil
import subprocess

import pytest
from layouts_testing import many_experts
from parallel_testing import environment, hone_binary, sentence

MODEL = "Qwen/Qwen3-30B-A3B-Instruct-2507"
# examples/megatron/mcore_bridge/lora/moe.sh: LoRA on everything, experts included, dealt out over two cards.
EXPERTS_OVER_TWO = """NPROC_PER_NODE=2
megatron sft --model Qwen/Qwen3-30B-A3B-Instruct-2507 --load_safetensors true --save_safetensors true --merge_lora false
    --dataset swift/Chinese-Qwen3-235B-2507-Distill-data-110k-SFT#2000 swift/self-cognition#1000 --load_from_cache_file true --tuner_type lora --lora_rank 8 --lora_alpha 32
    --target_modules all-linear --split_dataset_ratio 0.01 --moe_permute_fusion true --expert_model_parallel_size 2 --moe_grouped_gemm true --moe_shared_expert_overlap true
    --moe_aux_loss_coeff 1e-3 --micro_batch_size 8 --global_batch_size 16 --recompute_granularity full --recompute_method uniform --recompute_num_layers 1 --max_epochs 1 --finetune true
    --cross_entropy_loss_fusion true --lr 1e-4 --lr_warmup_fraction 0.05 --min_lr 1e-5 --save megatron_output/Qwen3-30B-A3B-Instruct-2507 --eval_interval 200 --save_interval 200
    --max_length 2048 --num_workers 8 --dataset_num_proc 8 --no_save_optim true --no_save_rng true --sequence_parallel true --moe_expert_capacity_factor 2 --attention_backend flash
    --model_author swift --model_name swift-robot"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory, models):
    """A folder where the names of the page are folders."""
    root, rng = tmp_path_factory.mktemp("checkout"), random.Random(4)
    shutil.copytree(models(many_experts), root / MODEL)
    for name, count in (("Chinese-Qwen3-235B-2507-Distill-data-110k-SFT", 40), ("self-cognition", 24)):
        folder = root / "swift" / name
        folder.mkdir(parents=True)
        rows = [{"messages": [{"role": "user", "content": sentence(rng, 4)}, {"role": "assistant", "content": sentence(rng, 8)}]} for _ in range(count)]
        (folder / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return root


def run(root, line, *more):
    words = shlex.split(line)
    settings = dict(word.split("=", 1) for word in words if "=" in word and not word.startswith("-"))
    words = [word for word in words if word not in {f"{key}={value}" for key, value in settings.items()}]
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
