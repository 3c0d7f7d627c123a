"""Runs with images: processes with and without images, adapters through PEFT, generation compared with transformers."""
import json
import re
import subprocess

import peft
import pytest
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file
from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil
from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from media_runs import HONE, run, sft, swift, write_rows
from vision_models import GEMMA_PROCESSOR, INTERN_PROCESSOR, as_hub_experts, write_vision_model

COLOURS = {"red": (220, 30, 30), "green": (30, 170, 40), "blue": (30, 60, 220)}


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """By family: a model, and rows of which every other one is text alone."""
    made = {}

    def make(family):
        if family not in made:
            made[family] = model_and_rows(tmp_path_factory.mktemp("runs") / family, family)
        return made[family]

    return make


def model_and_rows(folder, family):
    folder.mkdir()
    write_vision_model(folder, family)
    if family == "qwen3_vl_moe":
        as_hub_experts(folder)
    rows = []
    for number, (name, colour) in enumerate(COLOURS.items()):
        path = folder.parent / f"{name}.png"
        Image.new("RGB", (60 + number, 50), colour).save(path)
        rows.append({"messages": [{"role": "user", "content": "<image>Colour?"}, {"role": "assistant", "content": name}], "images": [str(path)]})
        rows.append({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "hello"}]})
    return folder, write_rows(folder.parent / "rows.jsonl", rows), rows


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl"])
def test_ranks_without_images_wait_for_nobody(models, tmp_path, family):
    made = models(family)
    whole = ("--tuner_type", "full", "--freeze_vit", "false", "--freeze_aligner", "false", "--save_strategy", "no", "--gradient_accumulation_steps")
    losses = [[float(loss) for loss in re.findall(r"'loss': ([\d.]+)", text)] for text in (
        sft(made, tmp_path / "one", *whole, 2), sft(made, tmp_path / "two", *whole, 1, NPROC_PER_NODE="2"),
        sft(made, tmp_path / "sharded", *whole, 1, "--deepspeed", "zero3", NPROC_PER_NODE="2"))]
    assert len(losses[0]) == 3
    assert losses[1] == pytest.approx(losses[0], rel=1e-5) and losses[2] == pytest.approx(losses[0], rel=1e-5)


def test_towers_alone_train_beside_rows_of_text(models, tmp_path):
    """A batch of text reaches no parameter that trains: its gradient is zero, in one process, in two, and where parameters are sharded."""
    made = models("qwen2_5_vl")
    towers = ("--tuner_type", "lora", "--freeze_llm", "true", "--freeze_vit", "false", "--freeze_aligner", "false", "--lora_dropout", 0, "--save_strategy", "no",
              "--gradient_accumulation_steps")
    losses = [[float(loss) for loss in re.findall(r"'loss': ([\d.]+)", text)] for text in (
        sft(made, tmp_path / "one", *towers, 2), sft(made, tmp_path / "two", *towers, 1, NPROC_PER_NODE="2"),
        sft(made, tmp_path / "sharded", *towers, 1, "--deepspeed", "zero3", NPROC_PER_NODE="2"), sft(made, tmp_path / "alone", *towers, 1))]
    assert [len(found) for found in losses] == [3, 3, 3, 6]
    assert losses[1] == pytest.approx(losses[0], rel=1e-5) and losses[2] == pytest.approx(losses[0], rel=1e-5)


def loaded(folder):
    model, seen = transformers.AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32, output_loading_info=True)
    assert not seen["missing_keys"] and not seen["unexpected_keys"] and not seen["mismatched_keys"], seen
    return model


PARTS = {"qwen2_5_vl": (".visual.blocks.", ".visual.merger."), "qwen3_vl_moe": (".visual.blocks.", ".visual.merger.", ".visual.deepstack_merger_list."),
         "internvl": (".vision_tower.encoder.", ".multi_modal_projector."), "gemma3": (".vision_tower.encoder.",)}  # its projector is not a linear layer


@pytest.mark.parametrize("family", PARTS)
def test_an_adapter_of_all_parts_is_peft_s(models, tmp_path, family):
    folder = models(family)[0]
    sft(models(family), tmp_path / "run", "--tuner_type", "lora", "--freeze_vit", "false", "--freeze_aligner", "false", "--gradient_accumulation_steps", 2)
    adapter = tmp_path / "run" / "checkpoint-3"
    swift("export", "--model", folder, "--adapters", adapter, "--merge_lora", "true", "--output_dir", tmp_path / "merged")
    wrapped = peft.PeftModel.from_pretrained(loaded(folder), adapter)
    saved = load_file(adapter / "adapter_model.safetensors")
    assert set(peft.get_peft_model_state_dict(wrapped)) == set(saved)
    for part in PARTS[family]:
        assert any(part in name for name in saved), part
    ours = loaded(tmp_path / "merged").state_dict()
    for name, weight in wrapped.merge_and_unload().state_dict().items():
        assert torch.allclose(ours[name], weight, atol=1e-6), name
    before, after = (load_file(at / "model.safetensors") for at in (folder, tmp_path / "merged"))
    hub = lambda name: name.replace("vision_tower.e", "vision_tower.vision_model.e").replace("vision_tower.post", "vision_tower.vision_model.post") if family == "gemma3" else name
    assert {hub(name): value.shape for name, value in before.items()} == {name: value.shape for name, value in after.items()}


@pytest.mark.parametrize("family", ["qwen3_vl_moe", "internvl"])
def test_what_trains_whole_is_what_is_not_frozen(models, tmp_path, family):
    folder = models(family)[0]
    sft(models(family), tmp_path / "run", "--tuner_type", "full", "--freeze_aligner", "false", "--gradient_accumulation_steps", 2, "--weight_decay", 0)
    before, after = loaded(folder).state_dict(), loaded(tmp_path / "run" / "checkpoint-3").state_dict()
    mergers, tower = PARTS[family][1:], ("model.visual.", "model.vision_tower.")
    for name, value in after.items():
        frozen = name.startswith(tower) and not any(part in "." + name for part in mergers)
        assert torch.equal(value, before[name]) == frozen or ".experts." in name or "embed_tokens" in name, name


# examples/megatron/multimodal/moe/lora.sh without its model, data and output: a vision MoE model, expert parallel over two cards.
MEGATRON_LINE = """--load_safetensors true --save_safetensors true --merge_lora false --load_from_cache_file true --train_type lora --lora_rank 8 --lora_alpha 32 --target_modules all-linear
    --sequence_parallel true --freeze_llm false --freeze_vit true --freeze_aligner true --packing true --expert_model_parallel_size 2 --moe_permute_fusion true
    --moe_grouped_gemm true --moe_shared_expert_overlap true --moe_aux_loss_coeff 1e-3 --micro_batch_size 1 --global_batch_size 4 --recompute_granularity full --recompute_method uniform
    --recompute_num_layers 1 --finetune true --cross_entropy_loss_fusion true --lr 1e-4 --lr_warmup_fraction 0.05 --min_lr 1e-5 --max_epochs 1 --eval_interval 200 --save_interval 200
    --vit_gradient_checkpointing true --max_length 2048 --num_workers 8 --dataset_num_proc 8 --no_save_optim true --no_save_rng true --attention_backend flash"""


def test_megatron_s_line_of_experts_that_see(models, tmp_path):
    folder, rows, _ = models("qwen3_vl_moe")
    run("megatron", "sft", "--model", folder, "--dataset", *[rows] * 4, *MEGATRON_LINE.split(), "--torch_dtype", "float32", "--save", tmp_path / "run", NPROC_PER_NODE="2")
    saved = next((tmp_path / "run").rglob("adapter_model.safetensors")).parent
    names = load_file(saved / "adapter_model.safetensors")
    assert any(".experts" in name for name in names) and not any(".visual." in name for name in names)
    assert set(peft.get_peft_model_state_dict(peft.PeftModel.from_pretrained(loaded(folder), saved))) == set(names)


def asked(family, row, tokenizer, image_token):
    """A row's question as transformers reads it."""
    question, inputs = row["messages"][0]["content"], {}
    if "images" in row:
        image = Image.open(row["images"][0]).convert("RGB")
        if family == "internvl":
            processor = GotOcr2ImageProcessorPil(**{k: v for k, v in INTERN_PROCESSOR.items() if k != "image_processor_type"})
            inputs["pixel_values"] = processor(images=image, crop_to_patches=True, return_tensors="pt")["pixel_values"]
            shown = f"<img>{'<IMG_CONTEXT>' * 4 * len(inputs['pixel_values'])}</img>\n"
        elif family == "gemma3":
            processor = Gemma3ImageProcessorPil(**{k: v for k, v in GEMMA_PROCESSOR.items() if k in ("size", "resample", "image_mean", "image_std")})
            inputs["pixel_values"] = processor(images=image, return_tensors="pt")["pixel_values"]
            shown = f"\n\n<start_of_image>{'<image_soft_token>' * 4}<end_of_image>\n\n"
        else:
            processor = Qwen2VLImageProcessorPil(**{"qwen2_5_vl": {"min_pixels": 3136, "max_pixels": 12845056}}.get(
                family, {"min_pixels": 4096, "max_pixels": 16777216, "patch_size": 16, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}))
            inputs = dict(processor(images=image, return_tensors="pt"))
            shown = f"<|vision_start|>{'<|image_pad|>' * (int(inputs['image_grid_thw'].prod()) // 4)}<|vision_end|>"
        question = question.replace("<image>", shown)
    if family == "gemma3":
        inputs["input_ids"] = tokenizer(f"<bos><start_of_turn>user\n{question}<end_of_turn>\n<start_of_turn>model\n", return_tensors="pt").input_ids
        return {**inputs, "token_type_ids": (inputs["input_ids"] == image_token).int()}
    system = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n" if family == "qwen2_5_vl" else ""
    inputs["input_ids"] = tokenizer(f"{system}<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n", return_tensors="pt").input_ids
    if "image_grid_thw" in inputs:
        inputs["mm_token_type_ids"] = (inputs["input_ids"] == image_token).int()
    return inputs


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen3_vl", "internvl", "gemma3"])
def test_answers_are_transformers(models, tmp_path, family):
    folder, path, rows = models(family)
    swift("infer", "--model", folder, "--val_dataset", path, "--result_path", tmp_path / "out.jsonl", "--max_new_tokens", 8, "--temperature", 0,
          "--torch_dtype", "float32", "--vllm_engine_kwargs", json.dumps({"max_num_batched_tokens": 10}) if family == "gemma3" else "{}")  # its picture is not cut, which begins in the first step
    model, tokenizer = loaded(folder), transformers.AutoTokenizer.from_pretrained(folder)
    ends = [tokenizer.convert_tokens_to_ids("<end_of_turn>" if family == "gemma3" else "<|im_end|>"), tokenizer.eos_token_id]
    for row, line in zip(rows, (tmp_path / "out.jsonl").read_text().splitlines()):
        inputs = asked(family, row, tokenizer, model.config.image_token_id)
        generated = model.generate(**inputs, max_new_tokens=8, do_sample=False, eos_token_id=ends)[0, inputs["input_ids"].shape[1]:]
        assert json.loads(line)["response"] == tokenizer.decode(generated, skip_special_tokens=True)


def test_the_terminal_asks_for_pictures_and_a_dataset_skips_bad_ones(models, tmp_path):
    folder, _, rows = models("qwen2_5_vl")
    row = next(row for row in rows if len(row.get("images", [])) == 1)
    question, (image,) = row["messages"][0]["content"], row["images"]
    long = {"messages": [{"role": "user", "content": "long " * 3000}, {"role": "assistant", "content": "x"}]}
    write_rows(tmp_path / "rows.jsonl", [{**row, "images": ["/nowhere.png"]}, long, row])
    settings = ["--model", folder, "--max_new_tokens", 8, "--temperature", 0, "--torch_dtype", "float32"]
    command = [HONE.with_name("swift"), "infer", *map(str, settings)]
    done = subprocess.run([*command, "--val_dataset", tmp_path / "rows.jsonl", "--result_path", tmp_path / "out.jsonl"], capture_output=True, text=True)
    assert done.returncode == 3 and "rows.jsonl:1: media: image /nowhere.png: no such file" in done.stderr
    assert "rows.jsonl:2: row too long: a prompt of " in done.stderr and "the model's context holds 2048" in done.stderr
    (line,) = (tmp_path / "out.jsonl").read_text().splitlines()
    for source, message in (("ftp://127.0.0.1/a.png", "image ftp://127.0.0.1/a.png: ftp:// is not read; expected http://, https://"), ("file:///nowhere.png", "image file:///nowhere.png: no such file\n")):
        write_rows(tmp_path / "other.jsonl", [{**row, "images": [source]}])
        done = subprocess.run([*command, "--val_dataset", tmp_path / "other.jsonl"], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 3 and message in done.stderr, done.stderr
    typed = f"{question}\n/nowhere.png\n{question}\n{image}\nexit\n"
    done = subprocess.run(command, input=typed.encode(), capture_output=True)  # bytes: an untrained model may write any line end
    assert done.returncode == 0 and done.stdout.count(b"Input an image path or URL <<< ") == 2 and b"no such file" in done.stdout
    assert json.loads(line)["response"].encode() in done.stdout.split(image.encode())[1]
