"""GRPO end to end: a model learns a simple reward, resumes exactly, trains identically on two processes, uses a reward server, and stops on a signal."""
import json
import signal
import subprocess
import threading

import pytest

from local_server import Handler, serving
from train_testing import ENVIRONMENT, Run, processes, rlhf_runner, rlhf_words, steps_of

BASE = dict(rlhf_type="grpo", reward_funcs="soft_overlong", soft_cache_length=15, max_completion_length=16, num_generations=4, per_device_train_batch_size=8, learning_rate="5e-3", torch_dtype="float32",
            max_steps=6, logging_steps=1, save_steps=3, seed=7, add_version="false", split_dataset_ratio=0, max_length=256)


@pytest.fixture
def grpo(model_folder, dataset):
    return rlhf_runner(BASE, model_folder, dataset)


def same_course(one, other, tolerance):
    assert len(one) == len(other) > 0
    for a, b in zip(one, other):
        for key in ("loss", "grad_norm", "reward", "kl", "completions/mean_length"):  # a step that makes no rollout has no rewards to log
            # Where ratios are 1, losses are sums of advantages that come to nothing, and divergences are squares of small numbers.
            nothing = tolerance / 100 if key in ("loss", "kl") else 0
            assert (key in a) == (key in b) and a.get(key, 0) == pytest.approx(b.get(key, 0), rel=tolerance, abs=nothing), (key, a, b)


def steps_written_down(folder):
    return [json.loads(line)["step"][0] for line in (folder / "completions.jsonl").read_text().splitlines()]


def test_short_answers_are_learnt_and_written_down(grpo, tmp_path):
    run = grpo(tmp_path / "run", max_steps=18, num_generations=8, per_device_train_batch_size=32, tuner_type="full", log_completions="true", log_entropy="true", save_strategy="no")
    assert run.code == 0 and "  reward " in run.err, run.err
    steps = steps_of(run)
    first, last = (sum(step["reward"] for step in part) / 4 for part in (steps[:4], steps[-4:]))
    assert first < -0.8 and last > -0.4
    assert steps[-1]["completions/mean_length"] < steps[0]["completions/mean_length"]
    assert steps[-1]["completions/empty_ratio"] > 0  # the shortest answers are empty ones, and the run continues
    for key in ("reward_std", "frac_reward_zero_std", "rewards/SoftOverlong/mean", "rewards/SoftOverlong/std", "kl", "clip_ratio/region_mean", "completions/clipped_ratio", "completions/max_length", "entropy/mean"):
        assert key in steps[0], key
    tables = [json.loads(line) for line in (tmp_path / "run/completions.jsonl").read_text().splitlines()]
    assert [table["step"][0] for table in tables] == [str(i + 1) for i in range(18)]
    for table in tables:
        assert {len(column) for column in table.values()} == {32}
        step = steps[int(table["step"][0]) - 1]
        assert sum(table["SoftOverlong"]) / 32 == pytest.approx(step["reward"], abs=1e-6)
        assert table["completion"].count("") / 32 == pytest.approx(step["completions/empty_ratio"], abs=1e-6)
        for begin in range(0, 32, 8):
            assert sum(table["advantages"][begin:begin + 8]) == pytest.approx(0, abs=1e-6)


def test_a_resumed_run_is_the_uninterrupted_one(grpo, tmp_path, figure):
    """Answers of a rollout are used in four steps here, and the run is cut between them, after it wrote down more than its checkpoint knows."""
    settings = dict(num_iterations=2, steps_per_generation=2, loss_type="dapo", max_steps=6, save_steps=3, log_completions="true")
    whole = grpo(tmp_path / "whole", **settings)
    cut = grpo(tmp_path / "cut", fault="checkpoint.after_rename:kill", **settings)
    if cut.code == 0:
        pytest.fail("the run was not cut")
    written = (tmp_path / "whole/completions.jsonl").read_text()
    with open(tmp_path / "cut/completions.jsonl", "a") as file:
        file.write(written.splitlines()[1] + '\n{"step": ["9"')
    resumed = grpo(tmp_path / "cut", resume_from_checkpoint=tmp_path / "cut/checkpoint-3", **settings)
    assert whole.code == 0 and resumed.code == 0, whole.err + resumed.err
    same_course(steps_of(whole)[3:], steps_of(resumed)[-3:], 0)
    assert (tmp_path / "cut/completions.jsonl").read_text() == written and steps_written_down(tmp_path / "cut") == ["1", "5"]
    figure("grpo: cut between two uses of a rollout, the same course with tolerance 0")


def test_two_processes_train_as_one(grpo, tmp_path):
    full = dict(tuner_type="full", learning_rate="1e-3", max_steps=4, save_steps=2)
    few = dict(target_modules="q_proj", max_steps=2, save_strategy="no")  # an engine could join all other layers
    for settings, others in ((full, (("ddp", {}), ("zero3", {"deepspeed": "zero3"}))), (few, (("few-zero3", {"deepspeed": "zero3"}),))):
        alone = grpo(tmp_path / f"alone-{others[0][0]}", **settings)
        assert alone.code == 0, alone.err
        for name, more in others:
            both = grpo(tmp_path / name, count=2, per_device_train_batch_size=4, **settings, **more)
            assert both.code == 0, both.err
            same_course(steps_of(alone), steps_of(both), 2e-4)
    for name, folder, settings in (("spread", "alone-ddp", dict(count=2, per_device_train_batch_size=4)), ("gathered", "ddp", {})):
        uninterrupted = steps_of(Run(subprocess.CompletedProcess([], 0, "", ""), tmp_path / folder))
        resumed = grpo(tmp_path / folder, resume_from_checkpoint=tmp_path / folder / "checkpoint-2", **full, **settings)
        assert resumed.code == 0, (name, resumed.err)
        same_course(uninterrupted[2:4], steps_of(resumed)[-2:], 2e-4)


def test_layers_that_rest_during_a_rollout_train_later(grpo, model_folder, tmp_path):
    from safetensors.torch import load_file

    run = grpo(tmp_path / "run", tuner_type="full", lisa_activated_layers=1, lisa_step_interval=1, max_steps=6, save_steps=6)
    assert run.code == 0, run.err
    before, after = (load_file(folder / "model.safetensors") for folder in (model_folder, tmp_path / "run/checkpoint-6"))
    still = [name for name, weight in before.items() if name in after and weight.equal(after[name])]
    assert len(after) > 20 and not still


def test_groups_stay_whole_where_they_are_compared(grpo, dataset, tmp_path):
    run = grpo(tmp_path / "run", count=2, loss_type="real", max_steps=1, per_device_train_batch_size=4, val_dataset=dataset, eval_steps=1, num_generations_eval=2, per_device_eval_batch_size=1, do_eval="true", eval_strategy="steps", save_strategy="no")
    assert run.code == 0, run.err
    assert any("eval_loss" in event and "eval_reward" in event for event in run.log())


class Judge(Handler):
    asked, answer = [], None

    def do_POST(self):
        question = self.question()
        Judge.asked.append(question)
        body = (Judge.answer or (lambda q: json.dumps([float(len(text)) if i % 3 else None for i, text in enumerate(q["completions"])])))(question).encode()
        self.reply(200, body)


@pytest.fixture
def judge():
    Judge.asked, Judge.answer = [], None
    with serving(Judge) as address:
        yield address + "/lengths"


def test_rewards_of_ones_own(grpo, judge, tmp_path, dataset):
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({**json.loads(line), "solution": str(i)}) + "\n" for i, line in enumerate(dataset.read_text().splitlines())))
    longer = tmp_path / "longer.jsonl"  # than any prompt of the training, and one that fills the context
    longer.write_text("".join(json.dumps({"messages": [{"role": "user", "content": " ".join(["the"] * words)}], "solution": "0"}) + "\n" for words in (5, 300, 900)))
    # All answers to the first prompt are worth the same: they make way for those to another.
    Judge.answer = lambda q: json.dumps([0.1 if len(Judge.asked) == 1 and i < 4 else len(text) + i if i % 3 else None for i, text in enumerate(q["completions"])])
    run = grpo(tmp_path / "run", dataset=rows, reward_funcs=["format", judge], reward_weights=[1, 0.5], max_steps=2, log_completions="true", dynamic_sample="true", val_dataset=longer, eval_steps=2, per_device_eval_batch_size=64,
               advantage_estimator="rloo", max_length=2048, do_eval="true")
    assert run.code == 0, run.err
    assert "longer.jsonl:3: row too long" in run.err and "no room for a completion" in run.err
    question, another = Judge.asked[:2]
    assert len(question["prompts"]) == len(question["completions"]) == len(question["tokens"]) == len(question["columns"]["solution"]) == 8
    assert question["prompts"][0][-1]["role"] == "user" and question["columns"]["solution"][0].isdigit()
    step = steps_of(run)[0]
    assert step["reward"] == pytest.approx(0.5 * step["rewards/lengths/mean"] * 5 / 8, rel=1e-5)  # of eight answers it has nothing to say about three
    assert any("eval_reward" in event and "eval_rewards/lengths/mean" in event for event in run.log())
    table = json.loads((tmp_path / "run/completions.jsonl").read_text().splitlines()[0])
    assert table["lengths"][2] is None and table["lengths"][0] == len(table["completion"][0]) + 4
    for place, prompt in ((0, question["prompts"][4]), (4, another["prompts"][0])):
        assert prompt[-1]["content"] in table["prompt"][place] and len(set(table["prompt"][place:place + 4])) == 1
    assert step["frac_reward_zero_std"] == 0
    # Rewards that are all the same, or none, are remarked upon once.
    for worth in (1.0, None):
        Judge.answer = lambda q: json.dumps([worth] * len(q["completions"]))
        run = grpo(tmp_path / "even", dataset=rows, reward_funcs=[judge], max_steps=4, save_strategy="no", overwrite_output_dir="true")
        assert run.code == 0 and run.err.count("all advantages are zero") == 1, run.err
    Judge.answer = lambda q: json.dumps([1e300] * len(q["completions"]))
    run = grpo(tmp_path / "huge", dataset=rows, reward_funcs=[judge], max_steps=1, save_strategy="no")
    assert run.code == 1 and "the reward lengths of a completion for " in run.err and "is 1e+300" in run.err, run.err
    # One of two processes is told nonsense in the second rollout: both leave, with the first step saved.
    Judge.asked = []
    Judge.answer = lambda q: json.dumps(list(range(len(q["completions"])))) if len(Judge.asked) < 4 else "nonsense"
    run = grpo(tmp_path / "bad", count=2, dataset=rows, reward_funcs=[judge], max_steps=3, save_steps=100)
    assert run.code == 1 and "no JSON" in run.err, run.err
    assert json.loads((tmp_path / "bad/checkpoint-1/trainer_state.json").read_text())["global_step"] == 1


def test_mistakes_show_before_the_model_is_loaded(grpo, tmp_path, judge, dataset):
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text("{}")
    for settings, complaint in ((dict(num_generations=3), "does not divide into groups"), (dict(reward_funcs="speed"), "no reward called speed"), (dict(reward_funcs="repetion"), "did you mean repetition;"), (dict(reward_funcs="accuracy"), "no column \"solution\""),
                                (dict(reward_weights=[1, 2]), "2 weights for 1 reward"), (dict(temperature=0), "would be the same"), (dict(reward_funcs="http://example.com/x"), "--remote_rewards"),
                                (dict(vllm_mode="server"), "needs a rollout server"), (dict(external_plugins="x.py"), "there is no such file"), (dict(loss_type="real", per_device_train_batch_size=2, gradient_accumulation_steps=2), "no full groups"),
                                (dict(do_train="false", do_eval="true", val_dataset=dataset), "scored during training"),
                                (dict(max_completion_length=0), "--max_completion_length is 0"), (dict(reward_model=adapter), f"--reward_model MODEL --reward_adapters {adapter}")):
        run = grpo(tmp_path / "run", max_steps=1, **settings)
        assert run.code in (2, 3, 4) and complaint in run.err, (settings, run.code, run.err)


def test_a_limit_beyond_the_context_is_named_as_it_was_typed(grpo, tmp_path):
    for name in ("max_completion_length", "max_new_tokens"):
        settings = {"max_completion_length": None, name: 100000}
        run = grpo(tmp_path / name, max_steps=1, num_generations=2, per_device_train_batch_size=2, stop_words=["e", "a", "o", "t", " "], **settings)
        assert run.code == 0 and f"--{name} 100000: the model's context of" in run.err, run.err


def test_rows_without_a_solution_are_left_out_before_training(grpo, tmp_path):
    rows = [{"messages": [{"role": "user", "content": f"Say {i}"}], **({"solution": "1"} if i < 6 else {"solution": None} if i < 7 else {})} for i in range(8)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = grpo(tmp_path / "run", dataset=tmp_path / "rows.jsonl", reward_funcs="accuracy", max_steps=4)
    assert run.code == 0 and "skipped 2 of 8 rows (missing columns: 2)" in run.err and 'rows.jsonl:7: missing columns: "solution" is null, which the reward accuracy compares' in run.err, run.err


@pytest.mark.parametrize("sent, code, more", [(signal.SIGINT, 130, {}), (signal.SIGTERM, 75, dict(sleep_level=1))], ids=["ctrl-c while answers are written", "a scheduler's signal while the engine sleeps"])
def test_a_signal_in_the_second_rollout_keeps_the_first_step(grpo, model_folder, dataset, tmp_path, judge, sent, code, more):
    """Its answers are being written; or they are written, the engine sleeps, and the judge does not answer."""
    reached, signalled = threading.Event(), threading.Event()

    def slow(question):
        if len(Judge.asked) >= 2:
            reached.set()
            if more:
                signalled.wait(120)
        return json.dumps([float(len(text)) for text in question["completions"]])

    Judge.answer = slow
    settings = dict(reward_funcs=[judge], max_steps=100000, save_steps=100000, lr_scheduler_type="constant", warmup_ratio=0, **more)
    process = subprocess.Popen(rlhf_words(BASE, model_folder, dataset, tmp_path / "run", settings), env={**ENVIRONMENT}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert reached.wait(120)
    process.send_signal(sent)
    _, err = process.communicate(timeout=120)
    signalled.set()
    assert process.returncode == code, err
    run = Run(subprocess.CompletedProcess([], code, "", err), tmp_path / "run")
    (step,) = run.checkpoints()
    settings.update(max_steps=step + 1)
    resumed = grpo(tmp_path / "run", resume_from_checkpoint=tmp_path / f"run/checkpoint-{step}", **settings)
    whole = grpo(tmp_path / "whole", **settings)
    assert resumed.code == 0 and whole.code == 0, resumed.err + whole.err
    same_course(steps_of(whole), steps_of(resumed), 0)
