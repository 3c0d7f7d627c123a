"""Changes of a run to its model: a longer context, new tokens, missing weights; compared with transformers."""
import json
import subprocess

import pytest

from train_testing import ENVIRONMENT, hone_binary

TOKENS = ["<|scene|>", "<|/scene|>"]


def run(program, *words, **settings):
    arguments = [str(part) for key, value in settings.items() for part in (f"--{key}", *(value if isinstance(value, list) else [value]))]
    return subprocess.run([hone_binary().with_name(program), *words, *arguments], capture_output=True, text=True, env=ENVIRONMENT, timeout=120)


@pytest.fixture(scope="module")
def peers():
    import transformers

    return transformers


@pytest.mark.parametrize("scaling,extra", [("yarn", {"max_model_len": 2000}), ("linear", {"max_model_len": 1025}), ("dynamic", {"max_model_len": 1024}),
                                           ('{"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}', {})])
def test_a_stretched_context_is_transformers(peers, model_folder, tmp_path, scaling, extra):
    question = "the small cat runs under the big house near the river " * 3
    (tmp_path / "rows.jsonl").write_text(json.dumps({"query": question}) + "\n")
    done = run("hone", "infer", model=model_folder, val_dataset=tmp_path / "rows.jsonl", result_path=tmp_path / "out.jsonl", template_backend="jinja", logprobs="true",
               top_logprobs=3, max_new_tokens=4, temperature=0, torch_dtype="float32", rope_scaling=scaling, **extra)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "out.jsonl").read_text())["logprobs"]["content"]
    import torch
    config = peers.AutoConfig.from_pretrained(model_folder)
    changed = json.loads(scaling) if scaling.startswith("{") else {"rope_type": scaling, "factor": float(-(-extra["max_model_len"] // 512))}
    config.rope_parameters = {**changed, "rope_theta": config.rope_parameters["rope_theta"], "original_max_position_embeddings": 512}
    config.max_position_embeddings = extra.get("max_model_len", 2048)
    model, tokenizer = peers.AutoModelForCausalLM.from_pretrained(model_folder, config=config), peers.AutoTokenizer.from_pretrained(model_folder)
    ids = tokenizer.apply_chat_template([{"role": "user", "content": question}], add_generation_prompt=True, return_tensors="pt", return_dict=True)["input_ids"]
    out = model.generate(ids, max_new_tokens=4, do_sample=False, output_scores=True, return_dict_in_generate=True)
    plain = peers.AutoModelForCausalLM.from_pretrained(model_folder)(ids).logits[0, -1]
    for position, scores in zip(found, out.scores):
        expected = torch.log_softmax(scores[0], -1).topk(3).values.tolist()
        assert [one["logprob"] for one in position["top_logprobs"]] == pytest.approx(expected, abs=1e-4)
    if scaling != "dynamic":  # which only acts beyond the context
        assert not torch.allclose(plain, out.scores[0][0], atol=1e-4)


def test_a_scaling_is_kept_by_checkpoints_and_merges(peers, sft, model_folder, tmp_path):
    scaled = dict(rope_scaling="yarn", max_model_len=1024)
    whole = sft(tmp_path / "whole", tuner_type="full", max_steps=1, save_steps=1, **scaled)
    assert whole.code == 0, whole.err
    lora = sft(tmp_path / "lora", max_steps=1, save_steps=1, **scaled)
    merged = run("hone", "export", adapters=lora.folder / "checkpoint-1", merge_lora="true", output_dir=tmp_path / "merged")
    assert merged.returncode == 0, merged.stderr
    for folder in (whole.folder / "checkpoint-1", tmp_path / "merged"):
        config = peers.AutoConfig.from_pretrained(folder)
        assert config.max_position_embeddings == 1024 and config.rope_parameters["rope_type"] == "yarn" and config.rope_parameters["factor"] == 2.0


def test_llamafactory_stretches_to_its_cutoff(peers, model_folder, tmp_path):
    (tmp_path / "dataset_info.json").write_text(json.dumps({"rows": {"file_name": "rows.json"}}))
    (tmp_path / "rows.json").write_text(json.dumps([{"instruction": "a", "input": "", "output": "b"}] * 4))
    settings = dict(model_name_or_path=model_folder, stage="sft", do_train="true", finetuning_type="full", dataset="rows", dataset_dir=tmp_path, template="qwen",
                    max_steps=1, per_device_train_batch_size=1, output_dir=tmp_path / "out")
    done = run("llamafactory-cli", "train", **settings, cutoff_len=1300, rope_scaling="linear")
    assert done.returncode == 0, done.stderr
    config = peers.AutoConfig.from_pretrained(tmp_path / "out")
    assert config.max_position_embeddings == 1536 and config.rope_parameters["factor"] == 3.0
    short = run("llamafactory-cli", "train", **{**settings, "output_dir": tmp_path / "short"}, cutoff_len=256, rope_scaling="linear")
    assert short.returncode == 0 and "ignored" in short.stderr


def test_new_tokens_start_as_transformers_starts_them(peers, sft, model_folder, tmp_path):
    import torch
    done = sft(tmp_path / "run", tuner_type="full", max_steps=1, save_steps=1, learning_rate=0, weight_decay=0, new_special_tokens=TOKENS[0])
    assert done.code == 0, done.err
    folder = done.folder / "checkpoint-1"
    tokenizer, model = peers.AutoTokenizer.from_pretrained(folder), peers.AutoModelForCausalLM.from_pretrained(folder)
    base, peer = peers.AutoTokenizer.from_pretrained(model_folder), peers.AutoModelForCausalLM.from_pretrained(model_folder)
    base.add_special_tokens({"additional_special_tokens": TOKENS[:1]})
    peer.resize_token_embeddings((len(base) + 127) // 128 * 128)
    assert tokenizer.encode("a" + TOKENS[0]) == base.encode("a" + TOKENS[0]) and TOKENS[0] not in tokenizer.decode(tokenizer.encode("a" + TOKENS[0]), skip_special_tokens=True)
    ours, theirs = model.get_input_embeddings().weight, peer.get_input_embeddings().weight
    assert ours.shape == theirs.shape
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-3)


def test_new_tokens_survive_an_adapter_and_its_merge(peers, model_folder, dataset, tmp_path):
    (tmp_path / "tokens.txt").write_text("\n".join(TOKENS))
    done = run("swift", "sft", model=model_folder, dataset=dataset, output_dir=tmp_path / "run", add_version="false", max_steps=2, save_steps=2,
               gradient_accumulation_steps=1, modules_to_save=["embed_tokens", "lm_head"], new_special_tokens=tmp_path / "tokens.txt", torch_dtype="float32")
    assert done.returncode == 0, done.stderr
    checkpoint = tmp_path / "run/checkpoint-2"
    (tmp_path / "rows.jsonl").write_text(json.dumps({"query": TOKENS[0] + "the cat"}) + "\n")
    answers = []
    merged = run("swift", "export", adapters=checkpoint, merge_lora="true", output_dir=tmp_path / "merged")
    assert merged.returncode == 0, merged.stderr
    for index, source in enumerate([{"adapters": checkpoint}, {"model": tmp_path / "merged"}]):
        told = run("swift", "infer", **source, val_dataset=tmp_path / "rows.jsonl", result_path=tmp_path / f"{index}.jsonl", max_new_tokens=8, temperature=0)
        assert told.returncode == 0, told.stderr
        answers.append(json.loads((tmp_path / f"{index}.jsonl").read_text())["response"])
    assert answers[0] == answers[1]
    tokenizer, model = peers.AutoTokenizer.from_pretrained(tmp_path / "merged"), peers.AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    assert len(tokenizer.encode("".join(TOKENS))) == 2 and model.config.vocab_size % 128 == 0 and model.get_input_embeddings().weight.shape[0] == model.config.vocab_size


def test_llamafactory_trains_the_rows_of_new_tokens(peers, model_folder, tmp_path):
    from safetensors.torch import load_file
    (tmp_path / "dataset_info.json").write_text(json.dumps({"rows": {"file_name": "rows.json"}}))
    (tmp_path / "rows.json").write_text(json.dumps([{"instruction": TOKENS[0], "input": "", "output": "a cat runs"}] * 4))
    (tmp_path / "tokens.yaml").write_text(f'"{TOKENS[0]}": "a small cat"\n"{TOKENS[1]}": "the big house"\n')
    done = run("llamafactory-cli", "train", model_name_or_path=model_folder, stage="sft", do_train="true", finetuning_type="lora", dataset="rows", dataset_dir=tmp_path,
               template="qwen", max_steps=1, per_device_train_batch_size=1, output_dir=tmp_path / "out", new_special_tokens_config=tmp_path / "tokens.yaml",
               init_special_tokens="desc_init", learning_rate=0)
    assert done.returncode == 0, done.stderr
    tokenizer = peers.AutoTokenizer.from_pretrained(tmp_path / "out")
    base = peers.AutoModelForCausalLM.from_pretrained(model_folder).get_input_embeddings().weight
    weights = load_file(tmp_path / "out/adapter_model.safetensors")
    (embedding,) = [value for name, value in weights.items() if "embed_tokens" in name]
    assert embedding.shape[0] % 64 == 0 and any("lm_head" in name for name in weights)
    described = base[tokenizer.encode("a small cat")].mean(0)
    assert embedding[tokenizer.convert_tokens_to_ids(TOKENS[0])].tolist() == pytest.approx(described.tolist(), abs=1e-6)


def test_missing_weights_are_initialized_on_request(peers, model_folder, sft, tmp_path):
    import shutil

    import torch
    from safetensors.torch import load_file, save_file
    folder = tmp_path / "holes"
    shutil.copytree(model_folder, folder)
    weights = load_file(folder / "model.safetensors")
    lost = "model.layers.1.mlp.up_proj.weight"
    save_file({name: value for name, value in weights.items() if name != lost}, folder / "model.safetensors", metadata={"format": "pt"})
    refused = sft(tmp_path / "refused", model=folder, tuner_type="full", max_steps=1)
    assert refused.code == 4 and lost in refused.err
    for way in ("zero", "orthogonal", "kaiming_uniform"):
        done = sft(tmp_path / way, model=folder, tuner_type="full", max_steps=1, save_steps=1, learning_rate=0, init_strategy=way)
        assert done.code == 0, done.err
        value = load_file(done.folder / "checkpoint-1/model.safetensors")[lost].float()
        if way == "zero":
            assert value.abs().max() == 0
        elif way == "orthogonal":
            torch.testing.assert_close(value.T @ value, torch.eye(value.shape[1]), atol=1e-4, rtol=0)
        else:
            assert 0 < value.abs().max() <= (6 / (1.01 * value.shape[0])) ** 0.5


def test_ollama_gets_a_template_that_says_what_hone_says(model_folder, tmp_path):
    done = run("swift", "export", model=model_folder, to_ollama="true", output_dir=tmp_path / "ollama", template="qwen2_5")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "ollama/Modelfile").read_text()
    assert text.startswith(f"FROM {model_folder}\n") and 'PARAMETER stop "<|im_end|>"' in text
    body = text.split('TEMPLATE """')[1].split('"""')[0]
    assert "{{ if .System }}<|im_start|>system\n{{ .System }}" in body and "<|im_start|>user\n{{ .Prompt }}<|im_end|>\n<|im_start|>assistant\n{{ .Response }}" in body


def test_the_whole_model_goes_where_device_map_says(model_folder, sft, tmp_path):
    assert sft(tmp_path / "cpu", max_steps=1, device_map="cpu").code == 0
    assert sft(tmp_path / "parts", max_steps=1, device_map='{"model.layers.0": "cpu", "": "cpu"}').code == 0
    for map, word in (('{"model.layers.0": 0, "model.layers.1": 1}', "on 0; found: cpu"), ('{"model.layer.0": "cpu", "": "cpu"}', 'is not a module of'),
                      ("spread", "device \"spread\" is not here"), ("[0, 1]", "expected auto, balanced")):
        refused = sft(tmp_path / "refused", max_steps=1, device_map=map)
        assert refused.code == 2 and word in refused.err, refused.err
