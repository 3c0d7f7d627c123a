"""Tuners other than LoRA in full runs: AdaLoRA's curve and ranks compared with peft, exact resuming, several processes, generation."""
import json

import pytest
import torch
from peft import AdaLoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from test_loss_curves import BATCH, RATE, texts  # noqa: F401
from test_resume import digest

STEPS = 14
METHODS = {
    "adalora": dict(adalora_init_r=6, adalora_target_r=2, adalora_tinit=1, adalora_tfinal=1, adalora_deltaT=2),
    "vera": dict(vera_rank=12, vera_dropout=0.1, vera_projection_prng_key=4, vera_d_initial=0.2),
    "boft": dict(boft_block_size=8, boft_n_butterfly_factor=2, boft_dropout=0.2),
    "fourierft": dict(fourier_n_frequency=60, fourier_scaling=30),
    "reft": dict(reft_rank=3, reft_layers="1", reft_layer_key="model.layers", reft_args='{"dropout": 0.05}'),
    "adapter": dict(adapter_length=8, adapter_act="relu"),
}


def adapter_file(checkpoint):
    return next(path for path in (checkpoint / "adapter_model.safetensors", checkpoint / "default/adapter_model.safetensors") if path.exists())


def test_adalora_follows_peft(sft, model_folder, texts, tmp_path):  # noqa: F811
    """Losses, weights and the ranks that are left, with the penalty and the schedule, from the same start."""
    path, rows = texts
    torch.manual_seed(3)
    config = AdaLoraConfig(init_r=6, target_r=2, tinit=2, tfinal=3, deltaT=2, beta1=0.8, beta2=0.7, orth_reg_weight=0.4, lora_alpha=16, lora_dropout=0.0,
                           total_step=STEPS, target_modules=["q_proj", "v_proj", "up_proj", "down_proj"], task_type="CAUSAL_LM")
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32), config).train()
    model.save_pretrained(tmp_path / "start", save_embedding_layers=False)
    run = sft(tmp_path / "run", dataset=path, adapters=tmp_path / "start", tuner_type="adalora", verb="pt", max_steps=STEPS, per_device_train_batch_size=BATCH,
              learning_rate=RATE, lr_scheduler_type="constant", weight_decay=0, adam_beta2=0.999, max_grad_norm=1.0, save_steps=1000, dataset_shuffle="false",
              train_dataloader_shuffle="false")
    assert run.code == 0, run.err
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=RATE, betas=(0.9, 0.999), eps=1e-8, weight_decay=0)
    losses = []
    for step in range(STEPS):
        batch = [torch.tensor([tokenizer(row).input_ids + [tokenizer.eos_token_id]]) for row in rows[step * BATCH:(step + 1) * BATCH]]
        count = sum(ids.shape[1] - 1 for ids in batch)
        parts = [model.base_model.model(input_ids=ids, labels=ids).loss * ((ids.shape[1] - 1) / count) for ids in batch]
        losses.append(sum(part.item() for part in parts))
        # peft's own forward pass adds the penalty to a loss: taken alone, as the difference.
        penalty = model(input_ids=batch[0], labels=batch[0]).loss - model.base_model.model(input_ids=batch[0], labels=batch[0]).loss
        (sum(parts) + penalty).backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        model.base_model.update_and_allocate(step + 1)
        optimizer.zero_grad()
    assert run.losses() == pytest.approx(losses, rel=1e-4)
    mine = load_file(run.folder / f"checkpoint-{STEPS}/adapter_model.safetensors")
    kept = {name: tensor.flatten() != 0 for name, tensor in mine.items() if name.endswith("lora_E")}
    theirs = {name: parameter for name, parameter in model.named_parameters() if "lora_" in name}
    assert sum(int(mask.sum()) for mask in kept.values()) == 2 * len(kept), "the budget is met"
    for name, tensor in theirs.items():
        torch.testing.assert_close(mine[name.replace(".default", "")], tensor.detach(), rtol=1e-3, atol=2e-4, msg=lambda m: f"{name}: {m}")
    # and peft reads what hone wrote
    read = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32), run.folder / f"checkpoint-{STEPS}")
    with torch.no_grad():
        torch.testing.assert_close(read(batch[0]).logits, model.eval()(batch[0]).logits, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("method", METHODS)
def test_continued_equals_uninterrupted(sft, tmp_path, method):
    options = dict(tuner_type=method, **METHODS[method])
    whole = sft(tmp_path / "whole", **options)
    assert whole.code == 0, whole.err
    rest = sft(tmp_path / "rest", resume_from_checkpoint=whole.folder / "checkpoint-3", **options)
    assert rest.code == 0, rest.err
    assert rest.losses() == whole.losses()[3:]
    ends = [run.folder / "checkpoint-6" for run in (whole, rest)]
    assert adapter_file(ends[0]).read_bytes() == adapter_file(ends[1]).read_bytes()
    assert digest(ends[0], "hone_state.safetensors") == digest(ends[1], "hone_state.safetensors")
    first, last = (load_file(adapter_file(whole.folder / f"checkpoint-{step}")) for step in (3, 6))
    assert all(not torch.equal(first[name], last[name]) for name in first if not name.startswith("base_model.vera_") and not name.endswith("rotate_layer.start")), "everything trains"
    mixed = sft(tmp_path / "mixed", resume_from_checkpoint=whole.folder / "checkpoint-3", tuner_type="lora")
    assert mixed.code == 4 and "of the kind" in mixed.err


@pytest.mark.parametrize("method,more", [("adalora", {}), ("boft", {}), ("vera", dict(deepspeed="zero2")), ("fourierft", dict(deepspeed="zero3")),
                                         ("reft", dict(deepspeed="zero3"))])
def test_two_processes_train_the_same(sft, tmp_path, method, more):
    options = {key: 0 if key.endswith("dropout") else value for key, value in METHODS[method].items() if key != "reft_args"}
    one = sft(tmp_path / "one", tuner_type=method, per_device_train_batch_size=2, **options)
    two = sft(tmp_path / "two", count=2, tuner_type=method, per_device_train_batch_size=1, **options, **more)
    assert one.code == 0 and two.code == 0, one.err + two.err
    assert two.losses() == pytest.approx(one.losses(), abs=1e-5)
    ours, theirs = (load_file(adapter_file(run.folder / "checkpoint-6")) for run in (two, one))
    for name, tensor in theirs.items():
        torch.testing.assert_close(ours[name], tensor, rtol=0, atol=1e-5, msg=lambda m: f"{name}: {m}")


def test_adalora_says_what_it_cannot(sft, tmp_path):
    refused = sft(tmp_path / "run", count=2, tuner_type="adalora", deepspeed="zero2")
    assert refused.code == 2 and "AdaLoRA" in refused.err
    short = sft(tmp_path / "run", tuner_type="adalora", adalora_tinit=4, adalora_tfinal=2)
    assert short.code == 2 and "adalora_tinit" in short.err


def test_adapters_answer_as_when_merged(sft, hone, tmp_path):
    (tmp_path / "questions.jsonl").write_text(json.dumps({"messages": [{"role": "user", "content": "red cat"}]}) + "\n")

    def answer(*words):
        done = hone("infer", *words, "--val_dataset", tmp_path / "questions.jsonl", "--max_new_tokens", 8, "--temperature", 0, "--result_path", tmp_path / "answers.jsonl",
                    env={"OMP_NUM_THREADS": 1})
        assert done.returncode == 0, done.stderr
        return json.loads((tmp_path / "answers.jsonl").read_text().splitlines()[-1])["response"]

    for method in ("boft", "reft", "adapter"):
        run = sft(tmp_path / method, tuner_type=method, learning_rate="3e-2", **METHODS[method])
        assert run.code == 0, run.err
        checkpoint = run.folder / "checkpoint-6"
        tuned = answer("--adapters", checkpoint)
        done = hone("export", "--adapters", checkpoint, "--merge_lora", "true", "--output_dir", tmp_path / f"{method}-merged")
        if method == "reft":
            assert done.returncode == 2 and "cannot be merged" in done.stderr
            config = json.loads((checkpoint / "default/adapter_config.json").read_text())
            assert (config["swift_type"], config["r"], config["layers"], config["args"]) == ("REFT", 3, [1], {"dropout": 0.05})
            assert all(name.startswith("model.layers.1.") for name in load_file(adapter_file(checkpoint)))
        elif method == "adapter":
            assert done.returncode == 2 and "cannot be merged" in done.stderr
            config = json.loads((checkpoint / "default/adapter_config.json").read_text())
            assert config["swift_type"] == "ADAPTER" and config["dim"] == 64 and config["act_layer"] == "relu"
        else:
            assert done.returncode == 0 and answer("--model", tmp_path / f"{method}-merged") == tuned


def test_oft_of_llama_factory(factory, model_folder, dataset, tmp_path):
    tags = {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant", "system_tag": "system"}
    (tmp_path / "dataset_info.json").write_text(json.dumps({"rows": {"file_name": str(dataset), "formatting": "sharegpt", "columns": {"messages": "messages"}, "tags": tags}}))
    settings = {"model_name_or_path": str(model_folder), "stage": "sft", "do_train": True, "finetuning_type": "oft", "oft_block_size": 16, "oft_target": "q_proj,up_proj",
                "module_dropout": 0.25, "dataset": "rows", "dataset_dir": str(tmp_path), "template": "qwen", "output_dir": str(tmp_path / "out"), "max_steps": 3,
                "per_device_train_batch_size": 2, "learning_rate": 1e-2, "plot_loss": False}
    (tmp_path / "run.yaml").write_text(json.dumps(settings))
    done = factory("train", tmp_path / "run.yaml", env={"OMP_NUM_THREADS": 1})
    assert done.returncode == 0, done.stderr
    config = json.loads((tmp_path / "out/adapter_config.json").read_text())
    assert config["peft_type"] == "OFT" and config["oft_block_size"] == 16 and sorted(config["target_modules"]) == ["q_proj", "up_proj"]
    assert config["module_dropout"] == 0.25
    model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32), tmp_path / "out")
    assert all(tensor.abs().max() > 0 for name, tensor in model.state_dict().items() if "oft_R" in name and name.endswith("weight"))
    both = {**settings, "oft_rank": 2, "output_dir": str(tmp_path / "other")}
    (tmp_path / "run.yaml").write_text(json.dumps(both))
    refused = factory("train", tmp_path / "run.yaml")
    assert refused.returncode == 2 and "oft_rank" in refused.stderr


def test_llama_pro_adds_blocks_that_begin_by_adding_nothing(sft, model_folder, tmp_path):
    run = sft(tmp_path / "run", tuner_type="llamapro", llamapro_num_new_blocks=2)
    assert run.code == 0, run.err
    still = sft(tmp_path / "still", tuner_type="full", learning_rate=0, max_steps=1)
    assert run.losses()[0] == pytest.approx(still.losses()[0], abs=1e-5), "the expanded model computes what the old one did"
    before, after = load_file(model_folder / "model.safetensors"), load_file(run.folder / "checkpoint-6/model.safetensors")
    config = json.loads((run.folder / "checkpoint-6/config.json").read_text())
    assert config["num_hidden_layers"] == 4 and len(config.get("layer_types") or range(4)) == 4
    for old, new in ((0, 0), (1, 2)):
        name = "self_attn.q_proj.weight"
        assert torch.equal(before[f"model.layers.{old}.{name}"], after[f"model.layers.{new}.{name}"]), "old blocks do not train"
    assert after["model.layers.1.mlp.down_proj.weight"].abs().max() > 0 and after["model.layers.3.self_attn.o_proj.weight"].abs().max() > 0
    model = AutoModelForCausalLM.from_pretrained(run.folder / "checkpoint-6", dtype=torch.float32)
    assert len(model.model.layers) == 4
    rest = sft(tmp_path / "rest", tuner_type="llamapro", llamapro_num_new_blocks=2, resume_from_checkpoint=run.folder / "checkpoint-3")
    assert rest.code == 0 and rest.losses() == run.losses()[3:], rest.err
    odd = sft(tmp_path / "odd", tuner_type="llamapro", llamapro_num_new_blocks=3)
    assert odd.code == 2 and "llamapro_num_new_blocks" in odd.err


def test_reft_says_what_it_cannot(sft, tmp_path):
    for options, message in ((dict(reft_layers="7"), "reft_layers"), (dict(reft_layer_key="transformer.h"), "model.layers"), (dict(reft_rank=64), "reft_rank"),
                          (dict(reft_args='{"dtype": "bf16"}'), "reft_args"), (dict(reft_intervention_type="Reft"), "reft_intervention_type")):
        done = sft(tmp_path / "run", tuner_type="reft", **options)
        assert done.code == 2 and message in done.err, (options, done.err)
