"""ms-swift's schedulers and environments in a plugin file: what they may do, and what happens when they fail."""
import json
import sys

import pytest
from train_testing import ROOT
from turn_testing import ask, caller, completions, grpo, rlhf  # noqa: F401

SCHEDULERS = '''
from swift.plugin.multi_turn import MultiTurnScheduler, multi_turns
from swift.rollout import Env, envs
from swift.rewards import ORM, orms


class Again(MultiTurnScheduler):
    """As ms-swift's documents have it: a message of the user that asks for more, then a continued answer."""
    def check_finished(self, infer_request, response_choice, current_turn):
        assert infer_request.data_dict['solution'] == '7' and infer_request.messages[-1]['content'].endswith(response_choice.message.content)
        return current_turn >= self.max_turns  # however long an answer was

    def step(self, infer_request, response_choice, current_turn):
        if current_turn == 1:
            infer_request.messages.append({'role': 'user', 'content': 'Again!'})
        else:
            infer_request.messages[-1]['content'] = infer_request.messages[-1]['content'] + ' Hmm,'
        return {'infer_request': infer_request, 'rollout_infos': {'steps': current_turn}}


class Broken(MultiTurnScheduler):
    def step(self, infer_request, response_choice, current_turn):
        kind = infer_request.data_dict['kind']
        if kind == 'crash': import os; os.abort()
        if kind == 'loop': import time; time.sleep(60)
        if kind == 'raise': raise ValueError('this one')
        if kind == 'rewrite': infer_request.messages[0]['content'] = 'other'
        if kind == 'none': return None
        if kind == 'silent': infer_request.messages.append({'role': 'user'})
        if kind == 'half': infer_request.messages.append({'role': 'user', 'content': '\\ud800'})
        infer_request.messages.append({'role': 'user', 'content': 'more'})
        return {'infer_request': infer_request}


class Runs(MultiTurnScheduler):
    async def run(self, infer_request, request_config, **kwargs):
        pass


class Guess(Env):
    async def reset(self, config):
        self.left, self.crashes = 2, config.data_dict.get('kind') == 'crash'
        return f"Guess {config.data_dict['solution']}", {}, 'You play.'

    async def step(self, action):
        if self.crashes: import os; os.abort()
        self.left -= 1
        return f'{self.left} left', 0.5, self.left == 0, {}

    async def close(self):
        pass


class Steps(ORM):
    def __call__(self, completions, rollout_infos, messages, **kwargs):
        assert all(m[-1]['content'] == c for m, c in zip(messages, completions))
        return [info.get('steps', 0) for info in rollout_infos]


multi_turns['again'], multi_turns['broken'], multi_turns['runs'] = Again, Broken, Runs
envs['guess'] = Guess
orms['steps'] = Steps
'''


def plugin(tmp_path):
    (tmp_path / "turns.py").write_text(SCHEDULERS)
    return dict(external_plugins=tmp_path / "turns.py", plugin_python=sys.executable)


def test_a_scheduler_replies_and_continues(grpo, tmp_path):
    run = grpo(ask("one and one", solution="7"), multi_turn_scheduler="again", max_turns=3, reward_funcs="steps", **plugin(tmp_path))
    assert run.code == 0, run.err
    table = completions(run)
    assert run.log()[0]["num_turns"] == 3 and set(table["Steps"]) == {2.0}
    assert all("<|im_end|>\n<|im_start|>user\nAgain!<|im_end|>\n<|im_start|>assistant\n" in text for text in table["prompt"])
    assert all(" Hmm," in text for text in table["completion"])


def test_an_environment_writes_the_prompt_and_gives_rewards(grpo, tmp_path):
    run = grpo(ask("unused", solution="7"), gym_env="guess", reward_funcs="accuracy", **plugin(tmp_path))
    assert run.code == 0, run.err
    table = completions(run)
    assert set(table["gym_reward"]) == {1.0} and run.log()[0]["rewards/gym_reward/mean"] == 1
    assert all("You play." in text and "Guess 7" in text and "1 left" in text and "unused" not in text for text in table["prompt"])


def test_environments_that_end_with_the_worker_are_counted(grpo, tmp_path):
    rows = [ask("one and one", solution="7", kind=kind) for kind in ("fine", "crash")]
    run = grpo(*rows, gym_env="guess", reward_funcs="accuracy", per_device_train_batch_size=4, dataset_shuffle="false", train_dataloader_shuffle="false", **plugin(tmp_path))
    assert run.code == 0 and ":2: it was killed by signal 6" in run.err, run.err
    assert "lost the environments of 1 episodes with its worker; they end at turn 1 (2 such so far)" in run.err  # the other answer to the same row
    assert "lost the environments of 2 episodes with its worker; they end at turn 2 (4 such so far)" in run.err
    assert completions(run)["gym_reward"] == [0.5, 0.5, None, None] and run.log()[0]["plugins/failures"] == 1


def test_a_row_that_breaks_the_scheduler_is_named(grpo, tmp_path):
    rows = [ask("one and one", solution="7", kind=kind) for kind in ("fine", "crash", "loop", "raise", "rewrite", "none", "silent", "half")]
    run = grpo(*rows, multi_turn_scheduler="broken", max_turns=2, per_device_train_batch_size=16, dataset_shuffle="false", train_dataloader_shuffle="false", reward_timeout=2, **plugin(tmp_path))
    assert run.code == 0, run.err
    for row, why in ((2, "signal 6"), (3, "longer than 2 seconds"), (4, "ValueError: this one at"), (5, "rewrote earlier messages"), (6, "step() returned NoneType; expected a dict"), (7, "a message is not text")):
        assert any(f":{row}: " in line and why in line for line in run.err.splitlines()), (row, why, run.err)
    assert run.log()[0]["plugins/failures"] == pytest.approx(0.75) and ":8: " not in run.err
    run = grpo(rows[3], multi_turn_scheduler="broken", max_turns=2, **plugin(tmp_path))
    assert run.code == 1 and "failed on every turn: ValueError: this one" in run.err
    run = grpo(rows[0], multi_turn_scheduler="runs", **plugin(tmp_path))
    assert run.code == 2 and "overrides run()" in run.err
    run = grpo(rows[0], multi_turn_scheduler="nosuch", **plugin(tmp_path))
    assert run.code == 2 and "no plugin registers multi_turns['nosuch']" in run.err


SCALES = '''
from swift.loss_scale import LossScale, loss_scale_map


class Calls(LossScale):
    """ms-swift's own hermes, as a plugin."""
    is_binary = False

    def get_loss_scale(self, context, *, query=None, **kwargs):
        begin, end = context.find('<tool_call>'), context.find('</tool_call>')
        if begin < 0 or end < 0:
            return super().get_loss_scale(context)
        end += len('</tool_call>')
        parts = [(context[:begin], 1.0), (context[begin:end], 2.0), (context[end:], 1.0)]
        return [text for text, _ in parts if text], [weight for text, weight in parts if text]


class Broken(LossScale):
    def get_loss_scale(self, context, **kwargs):
        if 'crash' in context: import os; os.abort()
        return ['something else'], [1.0]


loss_scale_map['calls'], loss_scale_map['broken'] = Calls, Broken
'''


def test_a_loss_scale_of_a_plugin_is_the_one_it_repeats(hone, tmp_path):
    (tmp_path / "scales.py").write_text(SCALES)
    call = {"role": "tool_call", "content": '{"name": "look", "arguments": {"at": "it"}}'}
    rows = [{"messages": [{"role": "user", "content": f"Look {i}"}, call, {"role": "tool", "content": "seen"}, {"role": "assistant", "content": "I saw it."}]} for i in range(4)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def losses(scale, name, *more):
        words = ["sft", "--model", ROOT / "models/nano", "--template", "qwen2_5", "--dataset", tmp_path / "rows.jsonl", "--loss_scale", scale, "--max_steps", 2, "--logging_steps", 1, "--save_strategy", "no",
                 "--split_dataset_ratio", 0, "--tuner_type", "full", "--torch_dtype", "float32", "--per_device_train_batch_size", 2, "--output_dir", tmp_path / name, "--add_version", "false"]
        done = hone(*words, *more)
        if done.returncode != 0:
            return done, None
        steps = [json.loads(line) for line in (tmp_path / name / "logging.jsonl").read_text().splitlines()]
        return done, [step["loss"] for step in steps if "loss" in step]

    plugin = ("--external_plugins", tmp_path / "scales.py", "--plugin_python", sys.executable)
    done, own = losses("hermes", "own")
    assert done.returncode == 0, done.stderr
    _, plain = losses("default", "plain")
    done, theirs = losses("default+calls", "theirs", *plugin)
    assert done.returncode == 0, done.stderr
    assert theirs == own and own[0] != pytest.approx(plain[0], abs=1e-6)
    done, _ = losses("broken", "broken", *plugin)
    assert done.returncode == 3 and "rows.jsonl:1: " in done.stderr and "must return the parts of the text" in done.stderr
    done, _ = losses("nosuch", "nosuch", *plugin)
    assert done.returncode == 2 and "no plugin registers loss_scale_map['nosuch']" in done.stderr
