#!/usr/bin/env python3
"""Train nano's byte-level BPE vocabulary and write the empty model folder that `stage: pt` starts from.

    cookbook/nano/make_model.py --data .cache/nano --out .cache/nano/start
"""
import argparse
import json
import pathlib

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY = 2048
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CHAT_TEMPLATE = (
    "{%- for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}")
CONFIG = {
    "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "hidden_size": 160, "intermediate_size": 416, "num_hidden_layers": 5,
    "num_attention_heads": 5, "num_key_value_heads": 1, "max_position_embeddings": 1024, "rope_theta": 10000.0, "rms_norm_eps": 1e-6,
    "hidden_act": "silu", "initializer_range": 0.02, "tie_word_embeddings": True, "use_sliding_window": False, "attention_dropout": 0.0,
    "use_cache": True, "torch_dtype": "float32", "vocab_size": VOCABULARY,
}


def texts(folder):
    for name in ("pretrain.jsonl", "chat.jsonl"):
        for line in open(folder / name, encoding="utf-8"):
            row = json.loads(line)
            yield row["text"] if "text" in row else "\n".join(m["content"] for m in row["messages"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                       pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts(options.data), trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    options.out.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(options.out / "tokenizer.json"))
    ids = {token: tokenizer.token_to_id(token) for token in SPECIAL}
    config = CONFIG | {"bos_token_id": ids["<|endoftext|>"], "eos_token_id": ids["<|im_end|>"]}
    generation = {"eos_token_id": [ids["<|im_end|>"], ids["<|endoftext|>"]], "pad_token_id": ids["<|endoftext|>"], "do_sample": False}
    tokenizer_config = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": None, "eos_token": "<|im_end|>",
                        "pad_token": "<|endoftext|>", "model_max_length": 1024, "chat_template": CHAT_TEMPLATE,
                        "clean_up_tokenization_spaces": False}
    for name, content in (("config", config), ("generation_config", generation), ("tokenizer_config", tokenizer_config)):
        (options.out / f"{name}.json").write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    print(f"{options.out}: vocabulary {tokenizer.get_vocab_size()}")


if __name__ == "__main__":
    main()
