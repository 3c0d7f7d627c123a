"""Low-memory optimizers, initializations that change the base, selective recomputation and half precision, in full runs."""
import json

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from test_resume import digest, weights


def same_end(sft, tmp_path, **options):
    whole = sft(tmp_path / "whole", **options)
    assert whole.code == 0, whole.err
    rest = sft(tmp_path / "rest", resume_from_checkpoint=whole.folder / "checkpoint-3", **options)
    assert rest.code == 0, rest.err
    assert rest.losses() == whole.losses()[3:]
    assert weights(rest.folder / "checkpoint-6") == weights(whole.folder / "checkpoint-6")
    assert digest(rest.folder / "checkpoint-6", "hone_state.safetensors") == digest(whole.folder / "checkpoint-6", "hone_state.safetensors")
    return whole


@pytest.mark.parametrize("options", [
    dict(optim="apollo_adamw", optim_args="rank=4,scale_type=channel,update_proj_gap=2"),
    dict(optim="badam", optim_args="switch_interval=2"),
    dict(optim="badam", optim_args="switch_interval=2,switch_mode=random", torch_dtype="bfloat16"),
    dict(optim="badam", optim_args="mode=ratio,switch_interval=2"),
    dict(optim="adam_mini"),
], ids=["apollo", "badam", "badam-bf16", "badam-ratio", "adam-mini"])
def test_low_memory_optimizers_continue_bit_for_bit(sft, model_folder, tmp_path, options):
    whole = same_end(sft, tmp_path, tuner_type="full", **options)
    before, after = load_file(model_folder / "model.safetensors"), load_file(whole.folder / "checkpoint-6/model.safetensors")
    name = "model.layers.0.mlp.up_proj.weight"
    assert not torch.equal(before[name].to(after[name].dtype), after[name])


def test_badam_names_each_block_once(sft, tmp_path):
    run = sft(tmp_path / "run", tuner_type="full", optim="badam", optim_args="verbose=1,switch_interval=2", max_steps=3)
    assert run.code == 0 and [run.err.count(f"BAdam trains model.layers.{layer}.*") for layer in (0, 1)] == [1, 1], run.err


@pytest.mark.parametrize("keys", [
    {"use_apollo": True, "apollo_rank": 8, "apollo_layerwise": True, "pure_bf16": True}, {"use_badam": True, "badam_mode": "layer", "badam_switch_interval": 2},
    {"use_badam": True, "badam_mode": "ratio"}, {"use_adam_mini": True}, {"use_galore": True, "galore_layerwise": True, "galore_rank": 8}],
    ids=["apollo", "badam", "badam-ratio", "adam-mini", "galore"])
def test_llama_factory_keys(factory, model_folder, dataset, tmp_path, keys):
    (tmp_path / "dataset_info.json").write_text(json.dumps({"rows": {"file_name": str(dataset), "formatting": "sharegpt", "columns": {"messages": "messages"},
                                                                     "tags": {"role_tag": "role", "content_tag": "content", "user_tag": "user",
                                                                              "assistant_tag": "assistant", "system_tag": "system"}}}))
    settings = {"model_name_or_path": str(model_folder), "stage": "sft", "do_train": True, "finetuning_type": "full", "dataset": "rows", "dataset_dir": str(tmp_path),
                "template": "qwen", "output_dir": str(tmp_path / "out"), "max_steps": 4, "logging_steps": 1, "per_device_train_batch_size": 2,
                "learning_rate": 1e-3, "plot_loss": False, **keys}
    (tmp_path / "run.yaml").write_text(json.dumps(settings))
    done = factory("train", tmp_path / "run.yaml")
    assert done.returncode == 0, done.stderr
    settings["finetuning_type"] = "lora"
    (tmp_path / "run.yaml").write_text(json.dumps({**settings, "output_dir": str(tmp_path / "other")}))
    if "use_adam_mini" not in keys:
        refused = factory("train", tmp_path / "run.yaml")
        assert refused.returncode == 2 and "finetuning_type full" in refused.stderr, refused.stderr


def tokens_and_logits(hone, folder, model, *more):
    rows = [[5, 9, 300, 42, 7, 7, 120], [3, 61]]
    (folder / "tokens.json").write_text(json.dumps({"sequences": rows}))
    done = hone("logits", "--model", model, "--input", folder / "tokens.json", "--output", folder / "logits.safetensors", "--torch_dtype", "float32", *more)
    assert done.returncode == 0, done.stderr
    return rows, load_file(folder / "logits.safetensors")["logits"]


def peft_logits(model, rows):
    with torch.no_grad():
        return torch.cat([model(input_ids=torch.tensor([row])).logits[0] for row in rows])


@pytest.mark.parametrize("direction,scale", [("ArB2r", "stable"), ("ArBr", "gd"), ("A2rBr", "unit"), ("random", "weights")])
def test_lora_ga_adapter_means_the_same_everywhere(sft, hone, model_folder, tmp_path, direction, scale):
    options = dict(init_weights="lora-ga", lora_ga_direction=direction, lora_ga_scale=scale, lora_rank=4, lora_alpha=8, lora_ga_iters=3)
    whole = same_end(sft, tmp_path, **options) if direction == "ArB2r" else sft(tmp_path / "whole", **options)
    assert whole.code == 0, whole.err
    checkpoint = whole.folder / "checkpoint-6"
    rows, ours = tokens_and_logits(hone, tmp_path, model_folder, "--adapters", checkpoint)
    base = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
    assert (ours - peft_logits(base, rows)).abs().max() > 1e-4
    peer = PeftModel.from_pretrained(base, checkpoint / "converted/default").eval()
    torch.testing.assert_close(ours, peft_logits(peer, rows), rtol=1e-4, atol=1e-4)
    merged = hone("export", "--model", model_folder, "--adapters", checkpoint, "--merge_lora", "true", "--output_dir", tmp_path / "merged")
    assert merged.returncode == 0, merged.stderr
    torch.testing.assert_close(tokens_and_logits(hone, tmp_path, tmp_path / "merged")[1], ours, rtol=1e-4, atol=1e-4)


def test_lora_ga_starts_where_the_base_is(sft, hone, model_folder, tmp_path):
    run = sft(tmp_path / "run", init_weights="lora-ga", lora_rank=4, learning_rate=0, max_steps=1)
    assert run.code == 0, run.err
    checkpoint = run.folder / "checkpoint-1"
    rows, ours = tokens_and_logits(hone, tmp_path, model_folder, "--adapters", checkpoint)
    base = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
    torch.testing.assert_close(ours, peft_logits(base, rows), rtol=1e-4, atol=1e-4)
    pair = load_file(checkpoint / "adapter_model.safetensors")
    assert all(tensor.abs().max() > 0 for tensor in pair.values()), "both matrices begin away from zero"


def cosines(ours, theirs):
    """Of rows that may point either way."""
    return torch.nn.functional.cosine_similarity(ours, theirs, dim=1).abs()


@pytest.mark.parametrize("direction", ["ArB2r", "ArBr", "A2rBr"])
def test_lora_ga_takes_the_directions_that_peft_takes(sft, hone, model_folder, dataset, tmp_path, direction):
    """One batch of all rows, asked of both. Lengths differ: hone's are those of the method's authors, which ms-swift uses; PEFT weighs B by the singular values."""
    from peft import LoraConfig, LoraGAConfig, get_peft_model
    from peft.tuners.lora.loraga import preprocess_loraga

    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(dataset.read_text().splitlines(keepends=True)[:6]))
    run = sft(tmp_path / "run", dataset=rows, init_weights="lora-ga", lora_ga_direction=direction, lora_ga_iters=1, lora_ga_batch_size=6, lora_rank=2, learning_rate=0, max_steps=1)
    assert run.code == 0, run.err
    shown = hone("preview", "--model", model_folder, "--dataset", rows, "--rows", 6, "--format", "jsonl")
    samples = [json.loads(line) for line in shown.stdout.splitlines()]
    assert len(samples) == 6, shown.stderr
    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)

    def train_step():
        ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(sample["ids"]) for sample in samples], batch_first=True)
        labels = torch.nn.utils.rnn.pad_sequence([torch.tensor(sample["labels"]) for sample in samples], batch_first=True, padding_value=-100)
        model(input_ids=ids, labels=labels).loss.backward()

    linear = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    config = LoraConfig(r=2, target_modules=linear, init_lora_weights="lora_ga", lora_ga_config=LoraGAConfig(direction=direction, scale="unit"))
    preprocess_loraga(model, config, train_step)
    peer = get_peft_model(model, config).state_dict()
    ours = load_file(run.folder / "checkpoint-1/adapter_model.safetensors")
    for name, matrix in ours.items():
        theirs = peer[name.replace(".weight", ".default.weight")]
        same = cosines(matrix, theirs) if "lora_A" in name else cosines(matrix.T, theirs.T)
        assert same.min() > 0.99, (name, same)


def test_recomputation_of_any_part_changes_no_loss(sft, tmp_path):
    runs = {"whole": {}, "none": dict(recompute_granularity="none"), "off": dict(gradient_checkpointing="false"),
            "attention": dict(recompute_granularity="selective"), "mlp": dict(recompute_granularity="selective", recompute_modules="mlp"),
            "first": dict(recompute_num_layers=1), "last": dict(recompute_layers=1),
            "budget": dict(activation_memory_budget=0.5), "no budget": dict(activation_memory_budget=0)}
    losses = {}
    for name, options in runs.items():
        run = sft(tmp_path / name, lora_dropout=0.1, **options)
        assert run.code == 0, run.err
        losses[name] = run.losses()
    assert all(values == losses["whole"] for values in losses.values()), losses
    wrong = sft(tmp_path / "wrong", recompute_layers=2)
    assert wrong.code == 2 and "blocks 0 to 1" in wrong.err
    both = sft(tmp_path / "both", recompute_layers=1, activation_memory_budget=0.5)
    assert both.code == 2 and "exclude each other" in both.err


def test_full_tuning_in_float16_computes_in_float16(sft, model_folder, tmp_path):
    stored = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.bfloat16)
    for item in model_folder.iterdir():
        if item.suffix != ".safetensors":
            (tmp_path / "base").mkdir(exist_ok=True)
            (tmp_path / "base" / item.name).write_bytes(item.read_bytes())
    stored.save_pretrained(tmp_path / "base")
    options = dict(model=tmp_path / "base", tuner_type="full", torch_dtype="bfloat16")
    half, brain = sft(tmp_path / "half", fp16="true", **options), sft(tmp_path / "brain", **options)
    assert half.code == brain.code == 0, half.err + brain.err
    assert load_file(half.folder / "checkpoint-6/model.safetensors")["model.norm.weight"].dtype == torch.float16
    assert half.losses() != brain.losses() and half.losses() == pytest.approx(brain.losses(), rel=0.02)


def test_plateau_says_that_it_does_not_warm_up(sft, tmp_path):
    run = sft(tmp_path / "run", lr_scheduler_type="reduce_lr_on_plateau", warmup_ratio=0.5, max_steps=2)
    assert run.code == 0 and "warmup_ratio is ignored" in run.err + run.out, run.err
