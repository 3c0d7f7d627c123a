"""What tests of several turns share: a model that calls a calculator, and runs of a method on rows of their own."""
import functools
import json
import time
import zlib

import pytest
import workers
from train_testing import ROOT, rlhf_runner

CALL = '<tool_call>\n{"name": "calculator", "arguments": {"expression": "2+3"}}\n</tool_call>'
ACTION = 'Action: calculator\nAction Input: {"expression": "4+5"}\n'
WRONG = "I think <answer>3</answer></think>\\boxed{4}"
BASE = dict(rlhf_type="grpo", reward_funcs="accuracy", num_generations=2, per_device_train_batch_size=2, max_completion_length=96, temperature=0.05, beta=0, torch_dtype="float32", tuner_type="full",
            learning_rate="1e-6", max_steps=1, logging_steps=1, save_strategy="no", add_version="false", split_dataset_ratio=0, log_completions="true")


def ask(text, **columns):
    return {"messages": [{"role": "user", "content": text}], **columns}


@pytest.fixture(scope="module")
def caller(tmp_path_factory, hone):
    """nano, which has learnt by heart to ask a calculator in both formats, and to say nothing of use to anything else."""
    def make(folder):
        hermes = [{"role": "user", "content": "two and three"}, {"role": "tool_call", "content": '{"name": "calculator", "arguments": {"expression": "2+3"}}'}, {"role": "tool", "content": "5"},
                  {"role": "assistant", "content": "\\boxed{5}"}]
        react = [{"role": "user", "content": "four and five"}, {"role": "assistant", "content": ACTION + "Observation:9\nFinal Answer: \\boxed{9}"}]
        wrong = [{"role": "user", "content": "one and one"}, {"role": "assistant", "content": WRONG}]
        (folder / "rows.jsonl").write_text("".join(json.dumps({"messages": row}) + "\n" for row in (hermes, react, wrong) * 8))
        done = hone("sft", "--model", ROOT / "models/nano", "--dataset", folder / "rows.jsonl", "--tuner_type", "full", "--torch_dtype", "float32", "--learning_rate", "2e-3", "--max_steps", 60,
                    "--per_device_train_batch_size", 6, "--gradient_accumulation_steps", 1, "--save_only_model", "true", "--output_dir", folder / "out", "--add_version", "false", "--save_steps", 60)
        assert done.returncode == 0, done.stderr

    return workers.made_once(tmp_path_factory, "caller", make) / "out/checkpoint-60"


@pytest.fixture
def rlhf(caller, tmp_path):
    """A run of a method on rows of its own."""
    def run(base, *rows, **settings):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        path = tmp_path / f"rows{zlib.crc32(text.encode())}.jsonl"  # a resumed run reads the same file
        path.write_text(text)
        done = rlhf_runner(base, caller, path)(settings.pop("folder", tmp_path / f"run{time.monotonic_ns()}"), **settings)
        return done

    return run


@pytest.fixture
def grpo(rlhf):
    return functools.partial(rlhf, BASE)


def completions(run):
    return json.loads((run.folder / "completions.jsonl").read_text().splitlines()[0])
