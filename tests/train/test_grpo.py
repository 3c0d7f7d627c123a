"""GRPO as a whole: a model learns a simple reward, resumes exactly, trains the same on two processes, listens to a reward behind an address, and leaves when it is told to."""
import http.server
import json
import signal
import subprocess
import threading

import pytest

from train_testing import ENVIRONMENT, Run, hone_binary, processes

BASE = dict(rlhf_type="grpo", reward_funcs="soft_overlong", soft_cache_length=15, max_completion_length=16, num_generations=4, per_device_train_batch_size=8, learning_rate="5e-3", torch_dtype="float32",
            max_steps=6, logging_steps=1, save_steps=3, seed=7, add_version="false", split_dataset_ratio=0, max_length=256)


def words_of(model, rows, folder, settings):
    listed = {"model": model, "dataset": rows, "output_dir": folder, **BASE, **settings}
    return [str(hone_binary()), "rlhf", *(str(part) for key, value in listed.items() for part in ([f"--{key}", *value] if isinstance(value, list) else [f"--{key}", value]))]


@pytest.fixture
def grpo(model_folder, dataset):
    def run(folder, count=1, fault=None, **settings):
        environment = {**ENVIRONMENT, **processes(count), **({"HONE_FAULT": fault} if fault else {})}
        return Run(subprocess.run(words_of(model_folder, settings.pop("dataset", dataset), folder, settings), capture_output=True, text=True, env=environment, timeout=300), folder)

    return run


def steps_of(run):
    return [event for event in run.log() if "grad_norm" in event]


def same_course(one, other, tolerance):
    assert len(one) == len(other) > 0
    for a, b in zip(one, other):
        for key in ("loss", "grad_norm", "reward", "kl", "completions/mean_length"):  # a step that makes no rollout has no rewards to log
            assert (key in a) == (key in b) and a.get(key, 0) == pytest.approx(b.get(key, 0), rel=tolerance, abs=tolerance), (key, a, b)


def test_short_answers_are_learnt_and_written_down(grpo, tmp_path):
    run = grpo(tmp_path / "run", max_steps=18, num_generations=8, per_device_train_batch_size=32, tuner_type="full", log_completions="true", log_entropy="true", save_strategy="no")
    assert run.code == 0, run.err
    steps = steps_of(run)
    first, last = (sum(step["reward"] for step in part) / 4 for part in (steps[:4], steps[-4:]))
    assert first < -0.8 and last > -0.4
    assert steps[-1]["completions/mean_length"] < steps[0]["completions/mean_length"]
    for key in ("reward_std", "frac_reward_zero_std", "rewards/SoftOverlong/mean", "rewards/SoftOverlong/std", "kl", "clip_ratio/region_mean", "completions/clipped_ratio", "completions/max_length", "entropy/mean"):
        assert key in steps[0], key
    tables = [json.loads(line) for line in (tmp_path / "run/completions.jsonl").read_text().splitlines()]
    assert [table["step"][0] for table in tables] == [str(i + 1) for i in range(18)]
    for table in tables:
        assert {len(column) for column in table.values()} == {32}
        assert sum(table["SoftOverlong"]) / 32 == pytest.approx(steps[int(table["step"][0]) - 1]["reward"], abs=1e-6)
        for begin in range(0, 32, 8):
            assert sum(table["advantages"][begin:begin + 8]) == pytest.approx(0, abs=1e-6)


def test_a_resumed_run_is_the_uninterrupted_one(grpo, tmp_path):
    """Answers of a rollout are used in four steps here, and the run is cut between them."""
    settings = dict(num_iterations=2, steps_per_generation=2, loss_type="dapo", max_steps=6, save_steps=3)
    whole = grpo(tmp_path / "whole", **settings)
    cut = grpo(tmp_path / "cut", fault="checkpoint.after_rename:kill", **settings)
    if cut.code == 0:
        pytest.fail("the run was not cut")
    resumed = grpo(tmp_path / "cut", resume_from_checkpoint=tmp_path / "cut/checkpoint-3", **settings)
    assert whole.code == 0 and resumed.code == 0, whole.err + resumed.err
    same_course(steps_of(whole)[3:], steps_of(resumed)[-3:], 0)


def test_two_processes_train_as_one(grpo, tmp_path):
    alone = grpo(tmp_path / "alone", max_steps=3, tuner_type="full", learning_rate="1e-3")
    assert alone.code == 0, alone.err
    for name, more in (("ddp", {}), ("zero3", {"deepspeed": "zero3"})):
        both = grpo(tmp_path / name, count=2, max_steps=3, per_device_train_batch_size=4, tuner_type="full", learning_rate="1e-3", **more)
        assert both.code == 0, both.err
        same_course(steps_of(alone), steps_of(both), 2e-4)


class Judge(http.server.BaseHTTPRequestHandler):
    asked, answer = [], None

    def do_POST(self):
        question = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        Judge.asked.append(question)
        body = (Judge.answer or (lambda q: json.dumps([float(len(text)) if i % 3 else None for i, text in enumerate(q["completions"])])))(question).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def judge():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Judge)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Judge.asked, Judge.answer = [], None
    yield f"http://127.0.0.1:{server.server_port}/lengths"
    server.shutdown()


def test_rewards_of_ones_own(grpo, judge, tmp_path, dataset):
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({**json.loads(line), "solution": str(i)}) + "\n" for i, line in enumerate(dataset.read_text().splitlines())))
    run = grpo(tmp_path / "run", dataset=rows, reward_funcs=["format", judge], reward_weights=[1, 0.5], max_steps=2, log_completions="true", dynamic_sample="true", val_dataset=rows, eval_steps=2, per_device_eval_batch_size=64,
               advantage_estimator="rloo")
    assert run.code == 0, run.err
    question = Judge.asked[0]
    assert len(question["prompts"]) == len(question["completions"]) == len(question["tokens"]) == len(question["columns"]["solution"]) == 8
    assert question["prompts"][0][-1]["role"] == "user" and question["columns"]["solution"][0].isdigit()
    step = steps_of(run)[0]
    assert step["reward"] == pytest.approx(0.5 * step["rewards/lengths/mean"] * 5 / 8, rel=1e-5)  # of eight answers it has nothing to say about three
    assert any("eval_reward" in event and "eval_rewards/lengths/mean" in event for event in run.log())
    table = json.loads((tmp_path / "run/completions.jsonl").read_text().splitlines()[0])
    assert table["lengths"][0] is None and table["lengths"][1] == len(table["completion"][1])
    for answer, complaint in ((lambda q: "[1, 2]", "2 rewards for 8 completions"), (lambda q: "no", "no JSON"), (lambda q: json.dumps(["x"] * 8), "among the rewards")):
        Judge.answer = answer
        run = grpo(tmp_path / "bad", dataset=rows, reward_funcs=[judge], max_steps=1)
        assert run.code == 1 and complaint in run.err, run.err
    run = grpo(tmp_path / "gone", reward_funcs=["http://127.0.0.1:9/none"], max_steps=1)
    assert run.code == 1 and "was not given" in run.err


def test_mistakes_show_before_the_model_is_loaded(grpo, tmp_path, judge):
    for settings, complaint in ((dict(num_generations=3), "does not divide into groups"), (dict(reward_funcs="speed"), "no reward called speed"), (dict(reward_funcs="accuracy"), "no column \"solution\""),
                                (dict(reward_weights=[1, 2]), "2 weights for 1 rewards"), (dict(temperature=0), "would be the same"), (dict(reward_funcs="http://example.com/x"), "--remote_rewards"),
                                (dict(vllm_mode="server"), "rollout server"), (dict(external_plugins="x.py"), "--reward_funcs http"), (dict(loss_type="real", per_device_train_batch_size=2, gradient_accumulation_steps=2), "no whole groups"),
                                (dict(rlhf_type="ppo"), "not in this version")):
        run = grpo(tmp_path / "run", max_steps=1, **settings)
        assert run.code in (2, 3) and complaint in run.err, (settings, run.code, run.err)


def test_ctrl_c_while_answers_are_written_keeps_the_last_step(grpo, model_folder, dataset, tmp_path, judge):
    """The second rollout's answers are being written, or judged, when the signal comes."""
    reached = threading.Event()

    def slow(question):
        if len(Judge.asked) >= 2:
            reached.set()
        return json.dumps([float(len(text)) for text in question["completions"]])

    Judge.answer = slow
    settings = dict(reward_funcs=[judge], max_steps=100000, save_steps=100000)
    process = subprocess.Popen(words_of(model_folder, dataset, tmp_path / "run", settings), env={**ENVIRONMENT}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert reached.wait(120)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    run = Run(subprocess.CompletedProcess([], 130, "", err), tmp_path / "run")
    (step,) = run.checkpoints()
    Judge.answer = None
    resumed = grpo(tmp_path / "run", resume_from_checkpoint=tmp_path / f"run/checkpoint-{step}", reward_funcs=[judge], max_steps=step + 1)
    assert resumed.code == 0, resumed.err
