"""The peers' own parsers resolve a sample of command lines to the same values.

HONE_PEERS_PYTHON names one or more Python programs (separated by ":") whose environments have ms-swift 4.6 and/or llamafactory 0.9.5.
"""
import json
import os
import pathlib
import subprocess

import pytest
from peers import python_with
from tiny_models import tiny_model
from workers import made_once

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent


def ask(module, script, questions, tmp_path):
    python = python_with(module)
    (tmp_path / "question.json").write_text(json.dumps(questions))
    done = subprocess.run([python, HERE / script, tmp_path / "question.json", tmp_path / "answer.json"], capture_output=True, text=True, cwd=tmp_path,
                          env={**os.environ, "DISABLE_VERSION_CHECK": "1", "PYTHONWARNINGS": "ignore", "HF_HUB_OFFLINE": "1"})
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads((tmp_path / "answer.json").read_text())


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(made_once(tmp_path_factory, "the tiny qwen2 of the peers", tiny_model))


def same(a, b):
    if isinstance(a, (int, float)) and isinstance(b, (int, float)) and not isinstance(a, bool) and not isinstance(b, bool):
        return abs(a - b) <= 1e-12 * max(1, abs(a))
    if a == "auto" or b is None:  # decided later, by one or the other
        return True
    if a in (None, "", []) and b in ("", [], {}):
        return True
    return a == b or str(a).lower() == str(b).lower()


def differences(answer, peer, keys):
    return {ours: (answer["values"][ours], peer[theirs]) for ours, theirs in keys.items() if theirs in peer and not same(answer["values"][ours], peer[theirs])}


SWIFT_KEYS = """lora_rank lora_alpha lora_dropout target_modules num_train_epochs max_steps learning_rate gradient_accumulation_steps per_device_train_batch_size
per_device_eval_batch_size weight_decay adam_beta1 adam_beta2 lr_scheduler_type warmup_ratio logging_steps logging_first_step save_steps eval_steps eval_strategy save_strategy
gradient_checkpointing seed data_seed split_dataset_ratio dataset_shuffle val_dataset_shuffle streaming shuffle_buffer_size dataset_num_proc dataloader_num_workers max_length
truncation_strategy loss_scale use_chat_template packing strict tuner_type lora_bias init_weights use_dora use_rslora save_total_limit max_grad_norm max_new_tokens temperature
create_checkpoint_symlink add_version save_only_model metric_for_best_model greater_is_better""".split()

SWIFT = [
    "", "--tuner_type full", "--per_device_train_batch_size 3", "--learning_rate 2e-5 --lr_scheduler_type constant --warmup_ratio 0.05", "--split_dataset_ratio 0.1 --save_steps 20",
    "--split_dataset_ratio 0.1 --save_strategy epoch", "--lora_rank 16 --lora_alpha 8 --target_modules q_proj v_proj --lora_dropout 0", "--packing true --max_length 128 --attn_impl flash_attn",
    "--num_train_epochs 1 --max_steps 7 --save_total_limit 2 --logging_steps 1", "--gradient_checkpointing false --seed 7 --data_seed 8", "--streaming true --max_steps 5",
    "--no_logging_first_step", "--loss_scale last_round --truncation_strategy left --max_length 64", "--gradient_accumulation_steps 2 --per_device_eval_batch_size 4",
    "--use_rslora true --use_dora true --init_weights gaussian --lora_bias all",
]


@pytest.mark.peer("swift")
def test_ms_swift(resolve, model, tmp_path):
    data = tmp_path / "d.jsonl"
    data.write_text(json.dumps({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}) + "\n")
    lines = [["sft", "--model", model, "--model_type", "qwen2", "--template", "qwen", "--dataset", str(data), "--torch_dtype", "float32", "--output_dir", str(tmp_path / "o"), *extra.split()]
             for extra in SWIFT]
    peers, answers = ask("swift", "ask_swift.py", lines, tmp_path), resolve([["swift", *line] for line in lines])
    compared = 0
    for extra, peer, answer in zip(SWIFT, peers, answers):
        if "error" in peer:
            continue  # refused for what the machine lacks (flash-attn); hone needs none of it
        assert "error" not in answer, (extra, answer)
        found = differences(answer, peer, {key: key for key in SWIFT_KEYS})
        assert not found, (extra, found)
        compared += 1
    assert compared >= len(SWIFT) * 2 / 3, [peer.get("error") for peer in peers]


FACTORY_KEYS = {"max_length": "cutoff_len", "lora_rank": "lora_rank", "lora_alpha": "lora_alpha", "lora_dropout": "lora_dropout", "learning_rate": "learning_rate",
                "gradient_accumulation_steps": "gradient_accumulation_steps", "per_device_train_batch_size": "per_device_train_batch_size", "weight_decay": "weight_decay",
                "adam_beta2": "adam_beta2", "num_train_epochs": "num_train_epochs", "max_steps": "max_steps", "logging_steps": "logging_steps", "save_steps": "save_steps",
                "eval_steps": "eval_steps", "eval_strategy": "eval_strategy", "packing": "packing", "streaming": "streaming", "mask_history": "mask_history",
                "train_on_prompt": "train_on_prompt", "pure_bf16": "pure_bf16", "warmup_ratio": "warmup_ratio", "seed": "seed", "split_dataset_ratio": "val_size",
                "max_new_tokens": "max_new_tokens", "temperature": "temperature", "top_p": "top_p", "top_k": "top_k", "repetition_penalty": "repetition_penalty",
                "use_rslora": "use_rslora", "use_dora": "use_dora", "pissa_iter": "pissa_iter", "freeze_trainable_layers": "freeze_trainable_layers", "plot_loss": "plot_loss",
                "neat_packing": "neat_packing", "mix_strategy": "mix_strategy", "shuffle_buffer_size": "buffer_size", "enable_thinking": "enable_thinking", "max_grad_norm": "max_grad_norm"}

FACTORY = [
    {}, {"finetuning_type": "full"}, {"lora_rank": 16}, {"lora_rank": 16, "lora_alpha": 8}, {"stage": "pt"}, {"val_size": 0.1, "eval_strategy": "steps"},
    {"val_size": 0.1, "eval_strategy": "epoch", "logging_steps": 7}, {"learning_rate": 1e-4, "warmup_ratio": 0.1}, {"neat_packing": True}, {"mask_history": True},
    {"train_on_prompt": True}, {"finetuning_type": "freeze", "freeze_trainable_layers": 3}, {"use_rslora": True, "use_dora": True}, {"pissa_init": True, "pissa_iter": 4},
    {"streaming": True, "max_steps": 5}, {"temperature": 0.1, "top_k": 0}, {"enable_thinking": False},
    # refused by both
    {"mask_history": True, "train_on_prompt": True}, {"stage": "pt", "neat_packing": True}, {"finetuning_type": "full", "adapter_name_or_path": "a"},
    {"finetuning_type": "full", "use_dora": True}, {"finetuning_type": "full", "pissa_init": True}, {"use_galore": True}, {"do_predict": True, "predict_with_generate": True},
    {"stage": "pt", "predict_with_generate": True}, {"streaming": True, "max_samples": 5, "max_steps": 5}, {"streaming": True}, {"val_size": 0.1, "eval_dataset": "d"},
    {"no_such_key": 1},
]


@pytest.mark.peer("llamafactory")
def test_llama_factory(resolve, model, tmp_path):
    base = {"model_name_or_path": model, "stage": "sft", "do_train": True, "finetuning_type": "lora", "dataset": "d", "template": "qwen", "output_dir": str(tmp_path / "o"), "report_to": "none"}
    configs = [{**base, **extra} for extra in FACTORY]
    files = []
    for number, config in enumerate(configs):
        files.append(tmp_path / f"{number}.json")
        files[-1].write_text(json.dumps(config))
    peers = ask("llamafactory", "ask_factory.py", [["train", config] for config in configs], tmp_path)
    answers = resolve([["llamafactory-cli", "train", str(path)] for path in files])
    compared = 0
    for extra, peer, answer in zip(FACTORY, peers, answers):
        if "error" in peer:
            assert "error" in answer, (extra, "only the peer refuses", peer["error"])
            continue
        assert "error" not in answer, (extra, "only hone refuses", answer)
        # The peer writes the token that packing keeps free into its options; hone keeps it free when rows are encoded.
        found = differences(answer, peer, {k: v for k, v in FACTORY_KEYS.items() if k != "max_length" or not extra.get("neat_packing")})
        assert not found, (extra, found)
        compared += 1
    assert compared >= 12, [peer.get("error") for peer in peers]
