"""Scripts of Twinkle's cookbook as published, each to its end at small size, where HONE_TWINKLE_COOKBOOK names the folder cookbook of a checkout."""
import io
import os
import subprocess
import sys
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from PIL import Image

from python_environment import PACKAGES, RAY, ROOT, fill_hub, make_small_model, own_environment, write_rows
from workers import free_port, made_once

sys.path.append(str(ROOT / "tests/vision"))
from vision_models import write_vision_model  # noqa: E402

COOKBOOK = os.environ.get("HONE_TWINKLE_COOKBOOK", "")
pytestmark = pytest.mark.skipif(not COOKBOOK, reason="HONE_TWINKLE_COOKBOOK names no folder")
DENSE, EXPERTS, NAMED = "ms://Qwen/Qwen3-4B", "ms://Qwen/Qwen3-30B-A3B", "ms://Qwen/Qwen3-0.6B"
COGNITION = "--dataset-id ms://swift/self-cognition --lr 1e-4 --train-samples 16 --eval-samples 8 --log-interval 2 --eval-interval 2 --batch-size 4 --output-dir out"
WARMUP = "--gradient-accumulation-steps 2 --scheduler-cls CosineWarmupScheduler --num-warmup-steps 2 --adapter-name default"
PAIRS = (f"--model-id {DENSE} --dataset-id ms://hjh0119/shareAI-Llama3-DPO-zh-en-emoji --batch-size 4 --gradient-accumulation-steps 2 --lr 1e-4 --beta 0.1 --sft-weight 1.0 "
         "--loss-type sigmoid --max-length 512 --save-steps 100")
ANSWERS = "--sampler-gpus 1 --num-generations 2 --max-tokens 16 --batch-size 2 --mini-batch-size 4 --micro-batch-size 2 --max-steps 2"
TEACHER = f"--student-model-id {NAMED} --teacher-model-id ms://Qwen/Qwen2.5-7B-Instruct --model-gpus 1 --sampler-gpus 1 --max-steps 2 --gkd-topk 8"
# Script, processes of torchrun (0: it makes its own by Ray), settings, what is written smaller in the script itself, and what it says at its end.
SCRIPTS = {
    "megatron/ascend/tp_npu.py": (8, "", {}, "step 10/10"),
    "megatron/ascend/tp_moe_npu.py": (8, "", {}, "step 10/10"),
    "megatron/ascend/tp_moe_cp_npu.py": (8, "", {}, "step 10/10"),
    "megatron/tp.py": (2, f"--model-id {DENSE} --template-cls Template --dp-size 1 --pp-size 1 --cp-size 1 --tp-size 2 {COGNITION}", {}, "Eval metric"),
    "megatron/tp_moe.py": (4, f"--model-id {EXPERTS} --template-cls Qwen3_5Template --dp-size 2 --tp-size 2 --pp-size 1 --ep-size 2 --sequence-parallel {COGNITION}", {}, "Eval metric"),
    "transformers/fsdp2.py": (2, f"--model-id {DENSE} --template-cls Qwen3_5Template --fsdp-size 2 --dp-size 1 {WARMUP} {COGNITION}", {}, "step 4 of 4"),
    "transformers/sp_fsdp_dense.py": (2, f"--model-id {DENSE} --template-cls Qwen3_5Template --dp-size 1 --fsdp-size 2 --ulysses-size 2 {WARMUP} {COGNITION}", {}, "step 2 of 4"),
    "transformers/ep_fsdp2_lora_qwen3_5_moe.py": (2, "--model-id {hub}/models/Qwen/Qwen3-30B-A3B --template-cls Qwen3_5Template --max-length 512 --fsdp-size 2 --dp-size 1 --ep-size 2 "
                                                  f"--max-grad-norm 1.0 --lora-r 8 --lora-alpha 32 --enable-ep 1 {WARMUP} {COGNITION}", {}, "Saved final adapter"),
    "mm/fsdp2.py": (2, "--model-id ms://Qwen/Qwen2.5-VL-3B-Instruct --dataset-id ms://AI-ModelScope/LaTeX_OCR --template-cls Qwen2_5VLTemplate --dp-size 2 --batch-size 2 --lr 1e-4 "
                    f"{WARMUP} --train-samples 8 --eval-samples 4 --eval-interval 2 --log-interval 2", {}, "Eval metric"),
    "rl/dpo/dpo_full.py": (0, f"{PAIRS} --strategy native_fsdp --model-gpus 2 --ref-model-gpus 1",
                           {"range(6000)": "range(8)", "fsdp_size=2, dp_size=2": "fsdp_size=2, dp_size=1", "dp_size=4": "dp_size=1"}, "Total steps: 2"),
    "rl/dpo/dpo_lora.py": (0, f"{PAIRS} --strategy native_fsdp --model-gpus 2 --adapter-name default", {"range(6000)": "range(8)", "dp_size=8": "dp_size=2"}, "Total steps: 2"),
    "rl/dpo/dpo_multi_lora.py": (0, f"{PAIRS} --model-gpus 2 --adapter-name default_0", {"range(50)": "range(8)"}, "Total steps: 2"),
    "rl/gkd/gkd_off_policy.py": (0, f"{TEACHER} --batch-size 4", {}, "training completed"),
    "rl/gkd/gkd_on_policy.py": (0, f"{TEACHER} --batch-size 2 --max-tokens 16 --num-samples 1", {}, "training completed"),
    "rl/grpo/grpo.py": (0, f"--model-id {NAMED} --model-gpus 1 {ANSWERS} --save-steps 2", {}, "completed"),
    "rl/grpo/grpo_mm.py": (0, f"--model-id ms://Qwen/Qwen2.5-VL-3B-Instruct --model-gpus 1 {ANSWERS} --save-steps 2", {"ms://AI-ModelScope/OlympiadBench": "ms://AI-ModelScope/OlympiadBench-MM"}, "completed"),
}


def write_pictures(file, make):
    """Rows with a picture as a hub's Parquet file has them."""
    rows = []
    for number in range(8):
        picture = io.BytesIO()
        Image.new("RGB", (60 + number, 50), (20 * number, 100, 200)).save(picture, "PNG")
        rows.append(make(number, {"bytes": picture.getvalue(), "path": f"{number}.png"}))
    file.parent.mkdir(parents=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), file)


@pytest.fixture(scope="session")
def hub(tmp_path_factory):
    """A cache of ModelScope's with small models and datasets under the scripts' names."""
    def make(folder):
        fill_hub(folder)
        make_small_model(folder / "models/Qwen/Qwen3-30B-A3B", num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, norm_topk_prob=True)
        sets = folder / "datasets"
        write_rows(sets / "swift/self-cognition/train.jsonl", lambda question, answer: {"query": question, "response": "I am {{NAME}} of {{AUTHOR}}.", "tag": "en"})
        for subset in ("OE_MM_maths_zh_CEE", "OE_MM_physics_zh_CEE", "OE_TO_maths_zh_CEE"):
            write_rows(sets / "AI-ModelScope/OlympiadBench" / subset / "train.jsonl", lambda question, answer: {"question": question, "final_answer": ["2"], "context": None})
        (sets / "AI-ModelScope/OlympiadBench/README.md").write_text("as a hub has it\n")
        seen = folder / "models/Qwen/Qwen2___5-VL-3B-Instruct"
        seen.mkdir(parents=True)
        write_vision_model(seen, "qwen2_5_vl")
        write_pictures(sets / "AI-ModelScope/LaTeX_OCR/train.parquet", lambda number, picture: {"image": picture, "text": f"x^{{{number}}}"})
        for subset in ("OE_MM_maths_zh_CEE", "OE_MM_physics_zh_CEE", "OE_TO_maths_zh_CEE"):
            write_pictures(sets / "AI-ModelScope/OlympiadBench-MM" / subset / "train.parquet",
                           lambda number, picture: {"question": f"What is {number}?", "final_answer": [str(number)], "context": "Look." if number % 2 else None, "image_1": picture if "MM" in subset else None})

    return made_once(tmp_path_factory, "twinkle cookbook hub", make)


@pytest.mark.parametrize("name", SCRIPTS)
def test_script(python, hub, tmp_path, name):
    ranks, words, smaller, end = SCRIPTS[name]
    text = Path(COOKBOOK, name).read_text()
    for large, small in smaller.items():
        assert large in text, large
        text = text.replace(large, small)
    script = tmp_path / Path(name).name
    script.write_text(text)
    env = own_environment(PYTHONPATH=str(PACKAGES), MODELSCOPE_CACHE=str(hub), OMP_NUM_THREADS="1", **RAY)
    port = free_port()
    started = [subprocess.Popen([python, "-m", "hone.twinkle", script, *words.format(hub=hub).split()], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path,
                                env=env | ({} if not ranks else dict(RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1",
                                                                     MASTER_PORT=str(port)))) for rank in range(max(ranks, 1))]
    outputs = [process.communicate(timeout=600)[0] for process in started]
    assert [process.returncode for process in started] == [0] * len(started), "\n".join(outputs)[-4000:]
    assert end in outputs[0], outputs[0][-3000:]
