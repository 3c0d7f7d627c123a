"""A small model with its own vocabulary, a dataset, and a way to run `swift sft` and `llamafactory-cli train` on them."""
import json
import os
import pathlib
import random
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHATML = (
    "{%- for m in messages -%}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor -%}"
    "{%- if add_generation_prompt -%}<|im_start|>assistant\n{% endif -%}"
)
WORDS = "red green blue one two three cat dog bird runs sleeps sings under over near the a small big house river tree".split()


# Waiting threads that spin are slow when tests share the cores.
ENVIRONMENT = {**{k: v for k, v in os.environ.items() if k != "HONE_FAULT"}, "NO_COLOR": "1", "OMP_WAIT_POLICY": "passive"}


def hone_binary():
    return pathlib.Path(os.environ.get("HONE_BIN", ROOT / "build/bin/hone"))


def rlhf_words(base, model, rows, folder, settings):
    """A `hone rlhf` command; settings beat those of `base`, and a list gives an option several values."""
    listed = {"model": model, "dataset": rows, "output_dir": folder, **base, **settings}
    return [str(hone_binary()), "rlhf", *(str(part) for key, value in listed.items() for part in ([f"--{key}", *value] if isinstance(value, list) else [f"--{key}", value]))]


def rlhf_runner(base, model, rows):
    """Runs of one method on a model and rows: in `count` processes, with a fault where one is named."""
    def run(folder, count=1, fault=None, **settings):
        environment = {**ENVIRONMENT, **processes(count), **({"HONE_FAULT": fault} if fault else {})}
        words = rlhf_words(base, model, settings.pop("dataset", rows), folder, settings)
        return Run(subprocess.run(words, capture_output=True, text=True, env=environment, timeout=300), folder)

    return run


def sentence(rng, length):
    return " ".join(rng.choice(WORDS) for _ in range(length))


def texts_of(folder, count, words=(4, 24)):
    """Bare texts of so many words, as rows that are learnt from the first token on: their file, and the texts."""
    rng = random.Random(5)
    rows = [sentence(rng, rng.randint(*words)) for _ in range(count)]
    path = folder / "texts.jsonl"
    path.write_text("".join(json.dumps({"messages": [{"role": "assistant", "content": row}]}) + "\n" for row in rows))
    return path, rows


def plain_steps(steps, batch, rate, **more):
    """Settings of a run that a plain loop over the rows in their order repeats."""
    return dict(verb="pt", max_steps=steps, per_device_train_batch_size=batch, learning_rate=rate, lr_scheduler_type="constant", weight_decay=0, adam_beta2=0.999,
                max_grad_norm=1.0, save_steps=1000, dataset_shuffle="false", train_dataloader_shuffle="false", **more)


def small_tokenizer():
    """Byte-level BPE of 400 tokens, ChatML."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    rng = random.Random(0)
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([sentence(rng, 12) for _ in range(200)], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=CHATML)


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    """Qwen2 of a few thousand weights, float32, byte-level BPE, ChatML."""
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    folder = tmp_path_factory.mktemp("model") / "qwen2-mini"
    fast = small_tokenizer()
    torch.manual_seed(0)
    config = Qwen2Config(vocab_size=len(fast), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                         num_key_value_heads=2, max_position_embeddings=512, tie_word_embeddings=True, eos_token_id=fast.eos_token_id)
    Qwen2ForCausalLM(config).float().save_pretrained(folder)
    fast.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def dataset(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "train.jsonl"
    rng = random.Random(1)
    with open(path, "w") as file:
        for _ in range(64):
            row = [{"role": "system", "content": "answer"}, {"role": "user", "content": sentence(rng, rng.randint(2, 9))},
                   {"role": "assistant", "content": sentence(rng, rng.randint(3, 14))}]
            file.write(json.dumps({"messages": row}) + "\n")
    return path


class Run:
    """A finished process: its exit code, what it printed, and the folder it wrote."""

    def __init__(self, process, folder):
        self.code, self.out, self.err, self.folder = process.returncode, process.stdout, process.stderr, folder

    def log(self, name="logging.jsonl"):
        return [json.loads(line) for line in (self.folder / name).read_text().splitlines()]

    def losses(self):
        return [event["loss"] for event in self.log() if "loss" in event and "log_history" not in event]

    def checkpoints(self):
        return sorted(int(p.name.split("-")[1]) for p in self.folder.glob("checkpoint-*") if p.name.split("-")[1].isdigit())


def steps_of(run):
    """What a run that succeeded logged of its steps."""
    assert run.code == 0, run.err
    return [event for event in run.log() if "grad_norm" in event]


def policy_trace(hone, tmp_path, **asked):
    """What `hone policy-trace` computes of a file of requests."""
    path = tmp_path / "asked.json"
    path.write_text(json.dumps(asked))
    done = hone("policy-trace", path)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def processes(count):
    return {"NPROC_PER_NODE": str(count), "OMP_NUM_THREADS": "1"} if count > 1 else {}


def command(model, dataset, folder, **options):
    settings = dict(model=model, dataset=dataset, output_dir=folder, add_version="false", torch_dtype="float32", tuner_type="lora",
                    max_steps=6, per_device_train_batch_size=2, gradient_accumulation_steps=1, learning_rate="1e-3", logging_steps=1,
                    save_steps=3, lora_dropout=0, split_dataset_ratio=0, seed=7, max_length=256)
    settings.update(options)
    return [str(part) for key, value in settings.items() for part in (f"--{key}", value)]


@pytest.fixture
def sft(model_folder, dataset):
    """sft(folder, max_steps=8, fault="checkpoint.before_rename:kill", …) runs `hone sft` to its end."""
    if not hone_binary().exists():
        pytest.fail(f"{hone_binary()} is not built; make test builds it")

    def run(folder, fault=None, verb="sft", count=1, env=None, **options):
        environment = {**ENVIRONMENT, **(env or {})}
        environment.update({"HONE_FAULT": fault} if fault else {}, **processes(count))
        words = [str(hone_binary()), verb, *command(options.pop("model", model_folder), options.pop("dataset", dataset), folder, **options)]
        return Run(subprocess.run(words, capture_output=True, text=True, env=environment, timeout=300), pathlib.Path(folder))

    return run
