"""Folders that transformers and peft wrote, shaped as ms-swift and LLaMA-Factory leave them: weights are used, pickles are refused, args.json is read by rule."""
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_models import tiny_model

ROOT = Path(__file__).resolve().parents[2]

WRITER = r"""
import json, sys, pathlib
import torch, transformers, peft
model_folder, out = sys.argv[1:3]
torch.manual_seed(0)
def save(model, folder, name):
    folder.mkdir(parents=True)
    model.save_pretrained(folder)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
    torch.save(optimizer.state_dict(), folder / "optimizer.pt")
    torch.save({}, folder / "scheduler.pt")
    (folder / "trainer_state.json").write_text(json.dumps({"global_step": 4, "epoch": 0.25, "max_steps": 4, "log_history": []}))
    tokenizer = transformers.AutoTokenizer.from_pretrained(model_folder)
    if name == "full": tokenizer.save_pretrained(folder)
    ids = torch.arange(5, 25)[None]
    return model(input_ids=ids).logits[0].tolist()
base = lambda: transformers.AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
adapted = peft.get_peft_model(base(), peft.LoraConfig(r=4, lora_alpha=16, target_modules=["q_proj", "down_proj"], task_type="CAUSAL_LM"))
for name, parameter in adapted.named_parameters():
    if "lora_B" in name: torch.nn.init.normal_(parameter, std=0.1)
whole = base()
for parameter in whole.parameters(): parameter.data += 0.01 * torch.randn_like(parameter)
out = pathlib.Path(out)
json.dump({"lora": save(adapted.eval(), out / "lora" / "checkpoint-4", "lora"), "full": save(whole.eval(), out / "full" / "checkpoint-4", "full")}, open(out / "logits.json", "w"))
"""


@pytest.fixture(scope="module")
def peer(tmp_path_factory):
    folder = tmp_path_factory.mktemp("peer")
    tiny_model(folder / "model")
    done = subprocess.run([sys.executable, "-c", WRITER, folder / "model", folder], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = [{"messages": [{"role": "user", "content": f"hi {i}"}, {"role": "assistant", "content": f"hello {i}"}]} for i in range(6)]
    (folder / "d.jsonl").write_text("\n".join(map(json.dumps, rows)))
    # What ms-swift writes next to its checkpoints, as far as it is read back.
    args = {"model": str(folder / "model"), "model_type": "qwen2", "tuner_type": "lora", "task_type": "causal_lm", "torch_dtype": "float32", "template": "chatml", "system": "Be brief.",
            "truncation_strategy": "right", "use_chat_template": True, "dataset": [str(folder / "d.jsonl")], "split_dataset_ratio": 0.5, "data_seed": 7, "learning_rate": 0.5,
            "max_length": 77, "swift_version": "4.6.0", "rank": -1, "hub_token": None}
    (folder / "lora" / "checkpoint-4" / "args.json").write_text(json.dumps(args))
    return folder


def logits(hone, model, tmp_path, *more):
    (tmp_path / "ids.json").write_text(json.dumps({"sequences": [list(range(5, 25))], "labels": [list(range(5, 25))]}))
    done = hone("logits", "--model", model, "--input", tmp_path / "ids.json", "--output", tmp_path / "out.safetensors", *more)
    assert done.returncode == 0, done.stderr
    from safetensors.torch import load_file
    return load_file(tmp_path / "out.safetensors")


@pytest.mark.parametrize("kind", ["lora", "full"])
def test_weights_mean_the_same(hone, peer, tmp_path, kind):
    import torch
    checkpoint = peer / kind / "checkpoint-4"
    found = logits(hone, peer / "model", tmp_path, "--adapters", checkpoint) if kind == "lora" else logits(hone, checkpoint, tmp_path)
    wanted = torch.tensor(json.loads((peer / "logits.json").read_text())[kind])
    assert torch.allclose(found["logits"], wanted, atol=2e-4, rtol=1e-4)


def train(program, peer, out, *more):
    return program("sft", "--model", peer / "model", "--dataset", peer / "d.jsonl", "--max_steps", "5", "--gradient_accumulation_steps", "1", "--add_version", "false",
                   "--report_to", "none", "--output_dir", out, *more)


def test_resuming_explains_pickles(swift, peer, tmp_path):
    done = train(swift, peer, tmp_path / "o", "--resume_from_checkpoint", peer / "lora" / "checkpoint-4")
    assert done.returncode == 4 and "pickle" in done.stderr and "--resume_only_model true" in done.stderr


def test_its_weights_can_be_trained_on(swift, peer, tmp_path):
    for more in (["--resume_from_checkpoint", peer / "lora" / "checkpoint-4", "--resume_only_model", "true", "--lora_rank", "4", "--lora_alpha", "16",
                  "--target_modules", "q_proj", "down_proj"], ["--adapters", peer / "lora" / "checkpoint-4"]):
        out = tmp_path / str(len(more))
        done = train(swift, peer, out, *more)
        assert done.returncode == 0, done.stderr
        assert json.loads((out / "checkpoint-5" / "adapter_config.json").read_text())["r"] == 4


def test_llama_factory_continues_its_adapter(factory, peer, tmp_path):
    (tmp_path / "dataset_info.json").write_text(json.dumps({"d": {"file_name": str(peer / "d.jsonl"), "formatting": "sharegpt", "columns": {"messages": "messages"}, "tags": {
        "role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant"}}}))
    done = factory("train", f"model_name_or_path={peer / 'model'}", f"adapter_name_or_path={peer / 'lora' / 'checkpoint-4'}", "stage=sft", "do_train=true", "finetuning_type=lora", "dataset=d",
                   f"dataset_dir={tmp_path}", "template=qwen", f"output_dir={tmp_path / 'o'}", "max_steps=2", "per_device_train_batch_size=1", "report_to=none")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "o" / "adapter_model.safetensors").exists() and (tmp_path / "o" / "trainer_log.jsonl").exists()


def shown(program, *words):
    done = program(*words, "--show_config", "true", "--log_format", "json")
    assert done.returncode == 0, done.stderr
    return {name: setting["value"] for name, setting in json.loads(done.stdout).items()}


def test_which_keys_of_args_json_are_read(swift, peer):
    checkpoint = peer / "lora" / "checkpoint-4"
    plain = shown(swift, "infer", "--adapters", checkpoint)
    assert plain["model"] == str(peer / "model") and plain["template"] == "chatml" and plain["system"] == "Be brief." and plain["truncation_strategy"] == "right"
    assert plain["dataset"] == [] and plain["max_length"] is None
    given = shown(swift, "infer", "--adapters", checkpoint, "--system", "Mine.", "--template", "qwen")
    assert given["system"] == "Mine." and given["template"] == "qwen"
    data = shown(swift, "infer", "--adapters", checkpoint, "--load_data_args", "true")
    assert data["dataset"] == [str(peer / "d.jsonl")] and data["split_dataset_ratio"] == 0.5 and data["data_seed"] == 7
    without = shown(swift, "infer", "--adapters", checkpoint, "--load_args", "false")
    assert without["model"] == str(peer / "model")  # adapter_config.json says so too
    assert without["system"] is None and without["template"] in (None, "auto")
    training = shown(swift, "sft", "--adapters", checkpoint, "--model", "m", "--dataset", "d")
    assert training["system"] is None


def test_secrets_are_not_written(swift, peer, tmp_path):
    done = train(swift, peer, tmp_path / "o", "--hub_token", "hf_secret")
    assert done.returncode == 0, done.stderr
    assert "hf_secret" not in (tmp_path / "o" / "args.json").read_text()


@pytest.mark.parametrize("method, bits", [("hqq", 4), ("quanto", 8), ("eetq", 8), ("bnb", 4)])
def test_an_adapter_of_a_rounded_base_is_merged_into_the_whole_one(swift, hone, peer, tmp_path, method, bits):
    import torch
    done = train(swift, peer, tmp_path / "o", "--quant_method", method, "--quant_bits", str(bits), "--learning_rate", "1e-2")
    assert done.returncode == 0, done.stderr
    adapter = tmp_path / "o" / "checkpoint-5"
    assert json.loads((adapter / "args.json").read_text())["quant_method"] == method
    merged = swift("export", "--adapters", adapter, "--merge_lora", "true", "--output_dir", tmp_path / "merged")
    assert merged.returncode == 0, merged.stderr
    whole = logits(hone, tmp_path / "merged", tmp_path)["logits"]
    assert torch.allclose(whole, logits(hone, peer / "model", tmp_path, "--adapters", adapter)["logits"], atol=2e-2)
    answers = swift("infer", "--adapters", adapter, "--merge_lora", "true", "--val_dataset", peer / "d.jsonl", "--max_new_tokens", "2", "--result_path", tmp_path / "answers.jsonl")
    assert answers.returncode == 0 and len((tmp_path / "answers.jsonl").read_text().splitlines()) == 6, answers.stderr


def test_llama_factory_merges_into_no_rounded_base(factory, peer, tmp_path):
    words = ["export", f"model_name_or_path={peer / 'model'}", "template=qwen", "quantization_bit=4", f"export_dir={tmp_path / 'o'}"]
    done = factory(*words, f"adapter_name_or_path={peer / 'lora' / 'checkpoint-4'}")
    assert done.returncode == 2 and "cannot be merged into a quantized model" in done.stderr and not (tmp_path / "o").exists(), done.stderr
    alone = factory(*words)
    assert alone.returncode == 0 and "quantization_bit has no effect" in alone.stderr, alone.stderr


SYSTEM = "You are Qwen, created by Alibaba Cloud."


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    """A model whose name chooses another template than its own, and another's name on it."""
    folder = tmp_path_factory.mktemp("named")
    for name in ("Qwen2.5-0.5B-Instruct", "mixtral-own"):
        shutil.copytree(ROOT / "models/nano", folder / name)
    (folder / "d.jsonl").write_text(json.dumps({"query": "hi", "response": "hello"}) + "\n")
    return folder


def tuned(swift, named, out, *more, model="Qwen2.5-0.5B-Instruct"):
    done = swift("sft", "--model", named / model, "--dataset", named / "d.jsonl", "--max_steps", "1", "--gradient_accumulation_steps", "1", "--add_version", "false", "--report_to", "none",
                 "--split_dataset_ratio", "0", "--output_dir", out, *more)
    assert done.returncode == 0, done.stderr
    return out / "checkpoint-1", done.stderr


def told(program, *words):
    done = program(*words)
    assert done.returncode == 0, done.stderr
    return done


def previewed(hone, named, model):
    return told(hone, "preview", "--model", model, "--dataset", named / "d.jsonl")


def template_of(folder):
    return json.loads((folder / "args.json").read_text())["template"]


def test_the_template_a_name_chose_outlives_the_name(swift, hone, named, tmp_path):
    lora, output = tuned(swift, named, tmp_path / "lora")
    assert "template qwen2_5: chosen by the model's name Qwen2.5-0.5B-Instruct" in output
    full, _ = tuned(swift, named, tmp_path / "full", "--tuner_type", "full")
    bare = shutil.copytree(lora, tmp_path / "bare")
    (bare / "args.json").unlink()
    for adapter, merged in ((lora, "merged"), (bare, "merged-bare")):
        told(swift, "merge-lora", "--adapters", adapter, "--output_dir", tmp_path / merged)
    for folder in (full, tmp_path / "merged", tmp_path / "merged-bare"):
        assert template_of(folder) == "qwen2_5"
        assert SYSTEM in previewed(hone, named, folder).stdout
        assert shown(swift, "infer", "--model", folder)["template"] == "qwen2_5"
        assert shown(swift, "sft", "--model", folder, "--dataset", "d")["template"] == "qwen2_5"
        assert shown(swift, "sft", "--model", folder, "--dataset", "d", "--template", "chatml")["template"] == "chatml"
    assert template_of(lora) == "qwen2_5" and shown(swift, "infer", "--adapters", lora)["template"] == "qwen2_5"


def test_a_name_chooses_nothing_for_another_architecture(swift, hone, named, tmp_path):
    own = previewed(hone, named, ROOT / "models/nano")
    assert previewed(hone, named, named / "mixtral-own").stdout == own.stdout and "template" not in own.stderr
    lora, output = tuned(swift, named, tmp_path / "lora", model="mixtral-own")
    assert "chosen by" not in output and template_of(lora) is None
    # The model's own template outlives the run too, whatever the merged folder is called.
    told(swift, "merge-lora", "--adapters", lora, "--output_dir", tmp_path / "Qwen2.5-merged")
    assert shown(swift, "infer", "--model", tmp_path / "Qwen2.5-merged")["template"] == "jinja"
    lora, _ = tuned(swift, named, tmp_path / "asked", "--template", "jinja")
    told(swift, "merge-lora", "--adapters", lora, "--output_dir", tmp_path / "merged")
    assert shown(swift, "infer", "--model", tmp_path / "merged")["template"] == "jinja"


def test_an_adapter_alone_names_its_base(swift, named, tmp_path):
    lora, _ = tuned(swift, named, tmp_path / "lora")
    (lora / "args.json").unlink()
    for verb, adapter in (("infer", lora), ("deploy", lora), ("deploy", f"mine={lora}")):
        assert shown(swift, verb, "--adapters", adapter)["model"] == str(named / "Qwen2.5-0.5B-Instruct")
    answers = tmp_path / "answers.jsonl"
    told(swift, "infer", "--adapters", lora, "--val_dataset", named / "d.jsonl", "--max_new_tokens", "2", "--result_path", answers)
    assert len(answers.read_text().splitlines()) == 1
    config = json.loads((lora / "adapter_config.json").read_text())
    (lora / "adapter_config.json").write_text(json.dumps({**config, "base_model_name_or_path": str(tmp_path / "gone")}))
    for words in (["infer"], ["merge-lora", "--output_dir", tmp_path / "merged"]):
        done = swift(*words, "--adapters", lora)
        assert done.returncode == 2 and "is not a folder here" in done.stderr and "--model" in done.stderr
