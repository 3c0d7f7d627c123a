"""The guide's commands for the models with media that it verified, as printed, on emulated cards: one card, and four with zero2, zero3 and fsdp2. The folders have the real names, below the
folder that the command runs in."""
import math
import shlex
import sys
from pathlib import Path

import pytest
from media_runs import losses, write_rows
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "vision"), str(ROOT / "tests" / "audio")]
import audio_files  # noqa: E402
from omni_models import write_omni_model  # noqa: E402
from test_ovis import write_ovis  # noqa: E402
from vision_models import as_chat_model, as_hub_experts, write_vision_model  # noqa: E402

GUIDE = """swift sft --model {model} --tuner_type lora --dataset rows.jsonl --torch_dtype bfloat16 --num_train_epochs 1 --per_device_train_batch_size 1 --per_device_eval_batch_size 1 --learning_rate 1e-4
    --lora_rank 8 --lora_alpha 32 --target_modules all-linear --freeze_vit true --gradient_accumulation_steps 1 --eval_steps 100 --save_steps 100 --save_total_limit 2 --logging_steps 1 --max_length 2048
    --output_dir output --warmup_ratio 0.05 --dataloader_num_workers 1 --add_version false"""
FOUR = ("--deepspeed zero2", "--deepspeed zero3", "--fsdp fsdp2")


def vision(family):
    return lambda folder: write_vision_model(folder, family)


def experts(folder):
    as_hub_experts(write_vision_model(folder, "qwen3_vl_moe"))


def chat_model(folder):
    source = folder.with_name("source")
    source.mkdir()
    as_chat_model(write_vision_model(source, "internvl"), folder)


MODELS = {"Qwen/Qwen2.5-VL-3B-Instruct": vision("qwen2_5_vl"), "Qwen/Qwen2.5-VL-7B-Instruct": vision("qwen2_5_vl"), "Qwen/Qwen2.5-Omni-3B": lambda folder: write_omni_model(folder, "qwen2_5_omni"),
          "Qwen/Qwen3-VL-30B-A3B-Instruct": experts, "Qwen/Qwen3-Omni-30B-A3B-Instruct": lambda folder: write_omni_model(folder, "qwen3_omni_moe"), "OpenGVLab/InternVL3-8B": chat_model,
          "AIDC-AI/Ovis2.5-2B": write_ovis}
RUNS = [*((model, "") for model in MODELS), *(("Qwen/Qwen2.5-VL-7B-Instruct", split) for split in FOUR),
        *((model, FOUR[i % 3]) for i, model in enumerate(name for name in MODELS if "2.5-VL" not in name))]


@pytest.mark.parametrize("model,split", RUNS)
def test_the_guide_s_command(npu, tmp_path, model, split):
    folder = tmp_path / model
    folder.mkdir(parents=True)
    MODELS[model](folder)
    rows = []
    for number in range(4):
        Image.new("RGB", (60 + number, 50), (60 * number, 30, 200)).save(tmp_path / f"{number}.png")
        rows.append({"messages": [{"role": "user", "content": "<image>Colour?"}, {"role": "assistant", "content": f"number {number}"}], "images": [f"{number}.png"]})
        rows.append({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "hello"}]})
        if "Omni" in model:
            audio_files.write(tmp_path / f"{number}.wav", audio_files.chirp(0.5 + number / 4, 16000), 16000)
            rows[-1] = {"messages": [{"role": "user", "content": "<audio>Long?"}, {"role": "assistant", "content": "yes"}], "audios": [f"{number}.wav"]}
    write_rows(tmp_path / "rows.jsonl", rows)
    cards = {"NPROC_PER_NODE": 4, "ASCEND_RT_VISIBLE_DEVICES": "0,1,2,3", "HONE_EMULATED_NPUS": 4} if split else {"ASCEND_RT_VISIBLE_DEVICES": 0}
    done = npu(*shlex.split(GUIDE.format(model=model)), *split.split(), env={**cards, "MIN_PIXELS": 4096, "MAX_PIXELS": 8192}, cwd=tmp_path, timeout=600)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    found = losses(tmp_path / "output")
    assert len(found) == (2 if split else 8) and all(map(math.isfinite, found)), found
    assert (tmp_path / f"output/checkpoint-{len(found)}/adapter_model.safetensors").exists()
