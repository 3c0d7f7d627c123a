"""Rewards as ms-swift's plugin files register them, run by a worker process; and what happens when they fail."""
import json
import subprocess
import sys
import time

import pytest
from train_testing import ROOT, hone_binary

PLUGIN = '''
import asyncio
from typing import List
from swift.llm import PtEngine, RequestConfig
from swift.plugin import ORM, AsyncORM, orms
from swift.plugin.multi_turn import MultiTurnScheduler, multi_turns
from swift.rewards import ORM as NewORM, orms as new_orms
from swift.llm.infer.protocol import ChatCompletionResponse, ChatCompletionResponseChoice, ChatMessage
from swift.plugin.prm import PRM, prms
from swift.utils import get_logger

assert orms is new_orms and ORM is NewORM
logger = get_logger()


class Turns(MultiTurnScheduler):
    pass


multi_turns['turns'] = Turns


class LengthReward(ORM):
    def __call__(self, completions, solution, **kwargs) -> List[float]:
        assert kwargs['messages'][0][-1]['content'] == completions[0]
        print('garbage on the screen')
        return [len(text) + number for text, number in zip(completions, solution)]


class LaterReward(AsyncORM):
    async def __call__(self, completions, **kwargs):
        await asyncio.sleep(0)
        return [None if 'skip' in text else self.args.beta for text in completions]


class OldReward(ORM):
    def __init__(self, num_generations):
        self.number = num_generations

    def __call__(self, completions, **kwargs):
        return [self.number] * len(completions)


def plain(completions, **kwargs):
    return [0.5] * len(completions)


def broken(completions, **kwargs):
    import os, time
    for text in completions:
        if 'crash' in text: os.abort()
        if 'loop' in text: time.sleep(60)
        if 'raise' in text: raise ValueError('this\\none')
        if 'garbage' in text: os.write(4, b'not json\\n')
        if 'short' in text: return []
        if 'child' in text: (os.fork() or time.sleep(600))
        if 'twin' in text: os.fork()
    return [1.0] * len(completions)


class StepReward(PRM):  # as ms-swift's sampling calls it
    def __call__(self, infer_requests, ground_truths, **kwargs):
        return [[1.0, len(request.messages[-1]['content']) / 4] if truth else 0.5 for request, truth in zip(infer_requests, ground_truths)]


class ChatReward:  # its first generation
    def infer(self, infer_requests, request_config=None):
        return [ChatCompletionResponse(choices=[ChatCompletionResponseChoice(message=ChatMessage(role='assistant', content=str(len(request['messages']))))]) for request in infer_requests]


prms['steps'] = StepReward
prms['chat'] = ChatReward
orms['length'] = LengthReward
orms['later'] = LaterReward
orms['old'] = OldReward
orms['plain'] = plain
orms['broken'] = broken
'''


@pytest.fixture
def plugin(tmp_path):
    (tmp_path / "plugin.py").write_text(PLUGIN)
    return tmp_path / "plugin.py"


def ask(hone, tmp_path, plugin, names, completions, timeout=20, **more):
    """What the rewards say about completions, through the hidden command that traces policies."""
    settings = {"files": [str(plugin)], "python": sys.executable, "timeout": timeout, "arguments": {"beta": 0.25, "num_generations": 4}, **more}
    rows = [{"text": text, "solution": number} for number, text in enumerate(completions)]
    (tmp_path / "asked.json").write_text(json.dumps({"rewards": [{"functions": names, "plugins": settings, "rows": rows}]}))
    done = hone("policy-trace", tmp_path / "asked.json")
    return done, json.loads(done.stdout)["rewards"][0] if done.returncode == 0 else None


def test_classes_coroutines_and_functions_give_rewards(hone, tmp_path, plugin):
    done, found = ask(hone, tmp_path, plugin, ["length", "later", "old", "plain", "format", "steps", "chat"], ["four", "skip it", "数"])
    assert done.returncode == 0, done.stderr
    assert found == {"LengthReward": [4.0, 8.0, 3.0], "LaterReward": [0.25, None, 0.25], "OldReward": [4.0] * 3, "plain": [0.5] * 3, "Format": [0.0] * 3, "StepReward": [0.5, 1.0, 0.25], "ChatReward": [1.0] * 3}
    assert "garbage on the screen" in done.stderr and "gives no reward (NaN or None) for 1 of 3" in done.stderr


@pytest.mark.parametrize("word, why", [("crash", "signal 6"), ("loop", "longer than 2 seconds"), ("raise", "ValueError: this one at"), ("garbage", "not JSON")])
def test_a_row_that_breaks_the_plugin_is_named_and_has_no_reward(hone, tmp_path, plugin, word, why):
    done, found = ask(hone, tmp_path, plugin, ["broken"], ["fine", word, "fine"], timeout=2)
    assert done.returncode == 0, done.stderr
    assert found == {"broken": [1.0, None, 1.0]}
    assert f"failed on the completion for row:2: " in done.stderr and why in done.stderr


def test_processes_that_a_plugin_starts_neither_answer_nor_stay(hone, tmp_path, plugin):
    done, found = ask(hone, tmp_path, plugin, ["broken", "length"], ["twin", "child", "fine"], timeout=10)  # returns although a child would hold the output for ten minutes
    assert done.returncode == 0, done.stderr
    assert found == {"broken": [1.0] * 3, "LengthReward": [4.0, 6.0, 6.0]} and "failed" not in done.stderr


def test_a_worker_ends_silently_with_its_run(tmp_path):
    (tmp_path / "slow.py").write_text(f"import pathlib, time\nfrom swift.rewards import orms\npathlib.Path('{tmp_path}/begun').touch()\ntime.sleep(0.2)\norms['slow'] = lambda completions, **kwargs: [1.0] * len(completions)\n")
    (tmp_path / "asked.json").write_text(json.dumps({"rewards": [{"functions": ["slow"], "plugins": {"files": [str(tmp_path / "slow.py")], "python": sys.executable, "timeout": 20}, "rows": [{"text": "one"}]}]}))
    run = subprocess.Popen([hone_binary(), "policy-trace", tmp_path / "asked.json"], stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "begun").exists() and run.poll() is None:
        time.sleep(0.01)
    run.kill()
    assert run.stderr.read() == ""  # of both: it ends when the worker does


def test_what_no_row_is_to_blame_for_ends_the_run(hone, tmp_path, plugin):
    done, _ = ask(hone, tmp_path, plugin, ["broken"], ["short", "short"])
    assert done.returncode == 1 and "returned 0 rewards for 2 completions" in done.stderr
    done, _ = ask(hone, tmp_path, plugin, ["broken"], ["raise", "raise"])
    assert done.returncode == 1 and "failed on every completion that was tried: ValueError: this one" in done.stderr
    done, _ = ask(hone, tmp_path, plugin, ["broken"], ["loop"] * 9, timeout=1)
    assert done.returncode == 1 and done.stderr.count("failed on the completion for row:") == 3, "three rows are enough"
    (tmp_path / "none.py").write_text("from swift.rewards import orms\norms['plain'] = lambda completions, **kwargs: None")
    done, _ = ask(hone, tmp_path, tmp_path / "none.py", ["plain"], ["x"])
    assert done.returncode == 1 and "it returned NoneType; expected a list" in done.stderr
    (tmp_path / "typo.py").write_text("def x(:")
    done, _ = ask(hone, tmp_path, tmp_path / "typo.py", ["plain"], ["x"])
    assert done.returncode == 2 and "SyntaxError: invalid syntax (typo.py, line 1)\n" in done.stderr and "--plugin_python" not in done.stderr
    done, _ = ask(hone, tmp_path, plugin, ["nosuch"], ["x"])
    assert done.returncode == 2 and "no plugin registers orms['nosuch']" in done.stderr
    done, _ = ask(hone, tmp_path, plugin, ["plain"], ["x"], python="/no/such/python")
    assert done.returncode == 2 and "--plugin_python" in done.stderr
    done, _ = ask(hone, tmp_path, plugin, ["plain"], ["x"], python="/bin/false")
    assert done.returncode == 2 and "it ended with exit code 1" in done.stderr and "--plugin_python" in done.stderr
    (tmp_path / "bad.py").write_text("import no_such_package")
    done, _ = ask(hone, tmp_path, tmp_path / "bad.py", ["plain"], ["x"])
    assert done.returncode == 2 and "No module named 'no_such_package'" in done.stderr
    (tmp_path / "large.py").write_text("from swift.rewards import orms\nwaste = bytearray(4 << 30)\norms['plain'] = len")
    done, _ = ask(hone, tmp_path, tmp_path / "large.py", ["plain"], ["x"], memory_limit=1 << 30)
    assert done.returncode == 2 and "MemoryError" in done.stderr


SEEN = '''
import json, pathlib
from swift.rewards import ORM, orms
from swift.rewards.orm import MathAccuracy


class SeenReward(ORM):
    """As ms-swift's example for thinking_tips: the last round of the trajectory counts."""

    def __init__(self, args=None, **kwargs):
        super().__init__(args)
        assert 'accuracy' in orms and orms['accuracy'] is MathAccuracy
        self.accuracy, self.cosine = MathAccuracy(), orms.get('cosine')(args)

    def __call__(self, completions, solution, request_id, **kwargs):
        state, trajectories = kwargs.pop('trainer_state'), kwargs.pop('trajectory_inputs', None)
        rewards = self.accuracy(completions, solution)
        if trajectories:
            assert rewards == [self.accuracy([trajectories[name][-1]['messages'][-1]['content']], [trajectories[name][-1]['solution']])[0] for name in request_id]
            kwargs['rounds'] = [[row['messages'] for row in trajectories[name]] for name in request_id]
        seen = dict(step=state.global_step, epoch=state.epoch, max_steps=state.max_steps, completions=completions, request_id=request_id, cosine=self.cosine(completions, solution, **kwargs), **kwargs)
        with open(pathlib.Path(__file__).with_name('seen.jsonl'), 'a') as file:
            file.write(json.dumps(seen) + chr(10))
        return [reward + 0.1 * len(text) for reward, text in zip(rewards, completions)]


class StrictReward(ORM):
    def __call__(self, completions, solution):
        return [0.0] * len(completions)


orms['seen'], orms['strict'] = SeenReward, StrictReward
'''


def run_seen(hone, tmp_path, **settings):
    (tmp_path / "seen.py").write_text(SEEN)
    rows = [{"messages": [{"role": "user", "content": f"What is {i} plus 1?"}], "solution": f"{i + 1}", "level": i, "request_id": ["same"], "prompt_id": "same", "trainer_state": "row", "_rounds": [i]} for i in range(4)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = dict(rlhf_type="grpo", model=ROOT / "models/nano", dataset=tmp_path / "rows.jsonl", num_generations=2, per_device_train_batch_size=4, max_steps=2, output_dir=tmp_path / "out", add_version="false",
                    save_strategy="no", beta=0, external_plugins=tmp_path / "seen.py", plugin_python=sys.executable, log_completions="true", **settings)
    done = hone("rlhf", *[word for name, value in settings.items() for word in (f"--{name}", value)], "--reward_funcs", "seen", "strict", "cosine")
    assert done.returncode == 0, done.stderr
    seen = [json.loads(line) for line in (tmp_path / "seen.jsonl").read_text().splitlines()]
    return seen, [json.loads(line) for line in (tmp_path / "out/completions.jsonl").read_text().splitlines()]


def test_a_reward_gets_what_ms_swift_gives(hone, tmp_path):
    seen, written = run_seen(hone, tmp_path, max_completion_length=8)
    assert [(call["step"], call["max_steps"]) for call in seen] == [(0, 2), (1, 2)] and seen[1]["epoch"] == 0.5
    for call, table in zip(seen, written, strict=True):
        assert call["cosine"] == pytest.approx(table["CosineReward"])
        assert len(set(call["request_id"])) == 4 and call["prompt_id"][0] == call["prompt_id"][1] != call["prompt_id"][2] == call["prompt_id"][3]
        assert call["is_truncated"] == [reason == "length" for reason in call["finish_reason"]]
        assert all(0 < len(ids) <= 8 and isinstance(ids[0], int) for ids in call["response_token_ids"])
        assert all((len(ids) == 8) >= cut for ids, cut in zip(call["response_token_ids"], call["is_truncated"]))
        assert call["rollout_infos"] == [{}] * 4 and call["_rounds"] == [[level] for level in call["level"]]
        assert all(name.startswith(f"request-{call['step']}-") for name in call["request_id"])  # unique also after a resume
    assert not set(seen[0]["request_id"]) & set(seen[1]["request_id"])


def test_a_reward_gets_the_rounds_of_a_trajectory(hone, tmp_path):
    seen, _ = run_seen(hone, tmp_path, multi_turn_scheduler="thinking_tips_scheduler", max_turns=2, max_completion_length=64)
    for call in seen:
        assert [infos["num_turns"] for infos in call["rollout_infos"]] == [2] * 4
        assert call["prompt_id"][0] == call["prompt_id"][1] != call["prompt_id"][2] == call["prompt_id"][3]  # though each has a last round of its own
        for rounds, messages in zip(call["rounds"], call["messages"]):
            assert len(rounds) == 2 and rounds[1] == messages and rounds[1][:2] == rounds[0] and rounds[0][-1]["role"] == "assistant"


def test_a_run_learns_from_a_plugin_and_only_when_asked(hone, tmp_path, plugin):
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps({"messages": [{"role": "user", "content": f"Count to {i}"}], "solution": i}) + "\n" for i in range(4)))
    words = ["rlhf", "--rlhf_type", "grpo", "--model", ROOT / "models/nano", "--dataset", tmp_path / "rows.jsonl", "--num_generations", 2, "--per_device_train_batch_size", 2, "--max_completion_length", 8,
             "--max_steps", 1, "--tuner_type", "lora", "--output_dir", tmp_path / "out", "--add_version", "false", "--reward_funcs", "length", "--log_completions", "true", "--save_steps", 1]
    done = hone(*words, "--external_plugins", plugin, "--plugin_python", sys.executable)
    assert done.returncode == 0, done.stderr
    line = json.loads((tmp_path / "out/logging.jsonl").read_text().splitlines()[0])
    assert any("LengthReward" in key for key in line)
    done = hone(*words)
    assert done.returncode == 2 and "no reward called length" in done.stderr
    done = hone("infer", "--adapters", tmp_path / "out/checkpoint-1", "--max_new_tokens", 2, stdin="Hello\n")  # args.json names the file: nothing runs it
    assert done.returncode == 0 and "garbage" not in done.stderr, done.stderr
