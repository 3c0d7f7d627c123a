"""Runs inside a Python that has LLaMA-Factory: encodes the rows of argv[1] with it and writes ids and labels to argv[2]."""
import functools
import importlib.machinery
import json
import sys
import types

try:
    import torchaudio  # noqa: F401  imported by the peer for audio only
except Exception:
    stub = types.ModuleType("torchaudio")
    stub.__spec__ = importlib.machinery.ModuleSpec("torchaudio", None)
    sys.modules["torchaudio"] = stub

from llamafactory.data.processor import PairwiseDatasetProcessor, PretrainDatasetProcessor, SupervisedDatasetProcessor  # noqa: E402
from llamafactory.data.template import TEMPLATES, get_template_and_fix_tokenizer  # noqa: E402
from llamafactory.hparams import DataArguments  # noqa: E402
from transformers import AutoTokenizer  # noqa: E402
import copy  # noqa: E402

ROLES = {"user": "user", "assistant": "assistant", "tool": "observation", "tool_call": "function"}


def parts_of(row):
    messages = row["messages"]
    system = messages[0]["content"] if messages[0]["role"] == "system" else ""
    talk = [{"role": ROLES[m["role"]], "content": m["content"]} for m in messages if m["role"] != "system"]
    return system, talk


def encode(request, row, processor_of):
    config = request["config"]
    if config.get("pretraining"):
        out = processor_of(PretrainDatasetProcessor).preprocess_dataset({"_prompt": [[{"content": row["messages"][0]["content"]}]]})
        return {"ids": out["input_ids"], "labels": out["input_ids"]}
    system, talk = parts_of(row)
    if "rejected" in row:
        _, other = parts_of({"messages": row["rejected"]})
        ids = processor_of(PairwiseDatasetProcessor)._encode_data_example(talk[:-1], [talk[-1], other[-1]], system, row.get("tools", ""), [], [], [])
        return dict(zip(["ids", "labels", "rejected_ids", "rejected_labels"], ids))
    ids, labels = processor_of(SupervisedDatasetProcessor)._encode_data_example(talk[:-1], talk[-1:], system, row.get("tools", ""), [], [], [])
    return {"ids": [ids], "labels": [labels]}


@functools.cache
def load(folder):
    return AutoTokenizer.from_pretrained(folder)


def answer(request):
    config = request["config"]
    tokenizer = load(request["model"])
    before = (tokenizer.eos_token, tokenizer.pad_token, tokenizer.chat_template)  # a template changes them for good
    arguments = DataArguments(
        template=config.get("template") or None, cutoff_len=config.get("max_length", 2048), train_on_prompt=config.get("train_on_prompt", False),
        mask_history=config.get("mask_history", False), default_system=config.get("system"), tool_format=config.get("tool_format") or None,
        enable_thinking=config.get("enable_thinking", True), preserve_thinking=config.get("preserve_thinking", False))
    saved = {name: copy.deepcopy(t) for name, t in TEMPLATES.items() if name == arguments.template}
    template = get_template_and_fix_tokenizer(tokenizer, arguments)
    rows = []
    for row in request["rows"]:
        try:
            rows.append(encode(request, row, lambda kind: kind(template=template, tokenizer=tokenizer, processor=None, data_args=arguments)))
        except Exception as problem:  # a refusal is an answer too
            rows.append({"error": repr(problem)})
    TEMPLATES.update(saved)
    tokenizer.eos_token, tokenizer.pad_token, tokenizer.chat_template = before
    return rows


json.dump([answer(request) for request in json.load(open(sys.argv[1]))], open(sys.argv[2], "w"))
