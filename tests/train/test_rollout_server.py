"""Rollout servers: completions from other processes are those of the engine inside, weights follow, and a server that dies is replaced, waited for, or ends the run."""
import contextlib
import json
import re
import shutil
import signal
import subprocess
import threading
import time

import pytest
import workers

from train_testing import ENVIRONMENT, ROOT, hone_binary, rlhf_runner, steps_of

BASE = dict(rlhf_type="grpo", reward_funcs="soft_overlong", soft_cache_length=15, max_completion_length=16, num_generations=4, per_device_train_batch_size=8, learning_rate="5e-3", torch_dtype="float32",
            max_steps=3, logging_steps=1, save_strategy="no", seed=7, add_version="false", split_dataset_ratio=0, max_length=256, lora_dropout=0)


class RolloutServer:
    """A running `hone rollout`, or another verb, on a port that it keeps."""

    def __init__(self, model, verb="rollout", port=None, fault=None, slices=1, more=(), environment={}):
        self.model, self.verb, self.port, self.slices, self.more = model, verb, port or workers.free_port(), slices, more
        self.environment = environment
        self.url = f"http://127.0.0.1:{self.port}"
        self.start(fault)

    def start(self, fault=None):
        words = [hone_binary(), self.verb, "--model", self.model, "--torch_dtype", "float32", "--port", self.port, "--log_interval", "-1", "--vllm_tensor_parallel_size", self.slices, *self.more]
        self.process = subprocess.Popen([str(word) for word in words], env={**ENVIRONMENT, **self.environment, **({"HONE_FAULT": fault} if fault else {})}, stderr=subprocess.PIPE, text=True)
        self.lines, self.ready = [], threading.Event()
        threading.Thread(target=self._read, args=(self.process,), daemon=True).start()
        assert self.ready.wait(60), "".join(self.lines)

    def _read(self, process):
        for line in process.stderr:
            self.lines.append(line)
            if "is served at" in line:
                self.ready.set()

    def stop(self):
        self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def serving(*servers):
    try:
        yield servers
    finally:
        for server in servers:
            server.stop()


@pytest.fixture
def grpo(model_folder, dataset):
    return rlhf_runner(BASE, model_folder, dataset)


def served(*servers, **more):
    return dict(vllm_mode="server", vllm_server_base_url=[server.url for server in servers], vllm_server_timeout=30, **more)


def same_course(one, other, tolerance):
    assert len(one) == len(other) > 0
    for a, b in zip(one, other):
        for key in ("loss", "grad_norm", "reward", "kl", "completions/mean_length"):
            assert a[key] == pytest.approx(b[key], rel=tolerance, abs=tolerance / 100 if key in ("loss", "kl") else 0), (key, a, b)


def test_servers_generate_what_the_engine_inside_would(grpo, model_folder, tmp_path):
    """An adapter on one server and on two, from one process, two, and two that share the weights out; all weights on a server of their own; log-probabilities are the trainer's. Two of the servers and one of the runs are tensor parallel."""
    inside = grpo(tmp_path / "inside", log_rollout_offpolicy_metrics="true")
    assert inside.code == 0, inside.err
    alone, other, whole = (RolloutServer(model_folder, slices=slices) for slices in (1, 2, 2))
    with serving(alone, other, whole):
        both = dict(count=2, per_device_train_batch_size=4)
        for name, settings in (("one", served(alone, log_completions="true")), ("two", dict(served(alone, other), **both)), ("zero3", dict(served(alone), deepspeed="zero3", **both)),
                               ("fsdp", dict(served(other), fsdp="full_shard", **both)), ("tensor parallel", dict(served(other), count=2, tensor_parallel_size=2))):
            run = grpo(tmp_path / name, **settings)
            assert run.code == 0, run.err
            same_course(steps_of(inside), steps_of(run), 2e-4)
            for step in steps_of(run):
                assert step["sampling/sampling_logp_difference/max"] < 1e-4 and step["sampling/importance_sampling_ratio/mean"] == pytest.approx(1, abs=1e-4)
                assert step["rollout/staleness"] == 0 and step["rollout/server_failures"] == 0 and 0 < step["rollout/push_bytes"] < 1e6
        assert "rollout_correction/kl" in steps_of(inside)[0] and "rollout/staleness" not in steps_of(inside)[0]
        tables = [json.loads(line) for line in (tmp_path / "one/completions.jsonl").read_text().splitlines()]
        assert [set(table["weights_version"]) for table in tables] == [{1}, {2}, {3}]
        full = dict(tuner_type="full", learning_rate="1e-3")
        inside = grpo(tmp_path / "inside-full", **full)
        for name, layout in (("full", {}), ("full, tensor parallel", dict(count=2, tensor_parallel_size=2))):
            run = grpo(tmp_path / name, **full, **layout, **served(whole, rollout_importance_sampling_mode="token_truncate"))
            assert run.code == 0, run.err
            same_course(steps_of(inside), steps_of(run), 2e-4)
        assert steps_of(run)[-1]["sampling/sampling_logp_difference/max"] < 1e-4 and steps_of(run)[-1]["rollout_correction/ess"] == pytest.approx(1, abs=1e-4)
        mixed = grpo(tmp_path / "mixed", **served(alone), **full)  # it follows an adapter
        assert mixed.code == 1 and "follows an adapter" in mixed.err, mixed.err


def test_a_server_that_dies_in_mid_rollout(grpo, model_folder, tmp_path):
    undisturbed = grpo(tmp_path / "inside")
    stays, dies = RolloutServer(model_folder), RolloutServer(model_folder, fault="rollout.generate:kill:2")
    with serving(stays, dies):
        replaced = grpo(tmp_path / "replaced", **served(stays, dies))
        assert replaced.code == 0 and replaced.err.count("does not answer") == 1 and dies.url in replaced.err and "the others take its completions" in replaced.err, replaced.err
        assert dies.process.wait(10) == -signal.SIGKILL
        same_course(steps_of(undisturbed), steps_of(replaced), 2e-4)
        assert [step["rollout/server_failures"] for step in steps_of(replaced)] == [0, 1, 1]

        dies.start(fault="rollout.generate:kill:2")  # alone, and back after a while: it has none of the weights then
        restart = threading.Thread(target=lambda: (dies.process.wait(60), time.sleep(1), dies.start()))
        restart.start()
        waited = grpo(tmp_path / "waited", **served(dies))
        restart.join()
        assert waited.code == 0 and "the run waits for it" in waited.err and f"{dies.url} is back" in waited.err, waited.err
        same_course(steps_of(undisturbed), steps_of(waited), 2e-4)

        dies.stop()
        dies.start(fault="rollout.generate:kill:2")
        gone = grpo(tmp_path / "gone", **{**served(dies), "vllm_server_timeout": 1}, save_steps=100, save_strategy="steps")
        assert gone.code == 1 and "no rollout server answers any more" in gone.err and "--resume_from_checkpoint" in gone.err, gone.err
        assert json.loads((tmp_path / "gone/checkpoint-1/trainer_state.json").read_text())["global_step"] == 1


def test_a_server_with_another_model_is_noticed(dataset, tmp_path):
    """Of the same shape, so that its weights are accepted. And a run counts its weights from a number of its own, which another run on the same server does not have by chance."""
    from safetensors.torch import load_file, save_file
    shutil.copytree(ROOT / "models/nano", tmp_path / "other")
    tensors = load_file(tmp_path / "other/model.safetensors")
    tensors["model.embed_tokens.weight"] = tensors["model.embed_tokens.weight"].roll(1, 0)
    save_file(tensors, tmp_path / "other/model.safetensors", {"format": "pt"})
    plain = {key: value for key, value in BASE.items() if key != "num_generations"}
    runs = [rlhf_runner({**plain, "max_steps": 1, **method}, ROOT / "models/nano", dataset)
            for method in (dict(num_generations=4), dict(rlhf_type="ppo", gradient_accumulation_steps=1, num_ppo_epochs=1))]
    words = "the completions are another model's"
    with serving(RolloutServer(ROOT / "models/nano"), RolloutServer(tmp_path / "other")) as (same, other):
        for run in runs:
            good, bad = run(tmp_path / "good", **served(same)), run(tmp_path / "bad", **served(other))
            assert good.code == 0 and words not in good.err, good.err
            assert bad.code == 0 and words in bad.err and "the --model of this run" in bad.err, bad.err
        status, answer = post(same.url + "/generate/", {"prompts": [[1]], "weights_version": 1})
        assert status == 409 and int(re.search(r"are version (\d+)", answer["error"]["message"])[1]) > 10**6, answer


def test_servers_of_other_kinds(grpo, model_folder, tmp_path):
    with serving(RolloutServer(model_folder, verb="deploy")) as (fixed,):
        refused = grpo(tmp_path / "refused", **served(fixed))
        assert refused.code == 2 and "its weights are fixed" in refused.err and "--vllm_server_type openai" in refused.err, refused.err
        sampled = grpo(tmp_path / "sampled", **served(fixed), vllm_server_type="openai", max_steps=2)
        assert sampled.code == 0 and "sampling/sampling_logp_difference/mean" not in steps_of(sampled)[0], sampled.err
        assert grpo(tmp_path / "no", **served(fixed), vllm_server_type="openai", rollout_importance_sampling_mode="token_mask").code == 2
    with serving(RolloutServer(model_folder, more=["--multi_turn_scheduler", "math_tip_trick", "--max_turns", 3, "--external_plugins", "plugin.py", "--vllm_use_async_engine", "true"])) as (turning,):  # ms-swift's pair
        assert "--external_plugins is accepted without effect: the trainer runs the turns" in "".join(turning.lines)
        single = grpo(tmp_path / "single", **served(turning))
        assert single.code == 2 and "--multi_turn_scheduler math_tip_trick, and this run has none" in single.err, single.err
        several = grpo(tmp_path / "several", **served(turning), multi_turn_scheduler="math_tip_trick", max_turns=2, max_steps=1)
        assert 'no column "solution"' in several.err, several.err  # which the turns need
    absent = grpo(tmp_path / "absent", **{**served(fixed), "vllm_server_timeout": 0})
    assert absent.code == 1 and "does not answer" in absent.err and not (tmp_path / "absent/checkpoint-1").exists()
    for settings, complaint in ((dict(async_generate="true"), "needs a rollout server"), (dict(vllm_mode="colocate", vllm_server_host="h"), "colocate"), (dict(vllm_server_base_url="nowhere"), "not the address"),
                                (dict(vllm_server_host=["a", "b"], vllm_server_port=[1, 2, 3], vllm_mode="server"), "a port for each host")):
        run = grpo(tmp_path / "mistake", **settings)
        assert run.code == 2 and complaint in run.err, (settings, run.err)


def test_the_next_rollout_is_generated_while_this_one_trains(grpo, model_folder, tmp_path):
    with serving(RolloutServer(model_folder)) as (server,):
        settings = dict(served(server), max_steps=6, save_steps=3, save_strategy="steps", log_completions="true")
        ahead = grpo(tmp_path / "ahead", async_generate="true", **settings)
        none, plain = grpo(tmp_path / "none", async_generate="true", async_max_lag=0, **settings), grpo(tmp_path / "plain", **settings)
        assert ahead.code == 0 and none.code == 0 and plain.code == 0, ahead.err + none.err + plain.err
        course = steps_of(ahead)
        assert [step["rollout/staleness"] for step in course] == [0, 1, 1, 1, 1, 1]
        same_course(steps_of(none), steps_of(plain), 0)
        assert (tmp_path / "none/completions.jsonl").read_text() == (tmp_path / "plain/completions.jsonl").read_text()
        resumed = grpo(tmp_path / "ahead", async_generate="true", resume_from_checkpoint=tmp_path / "ahead/checkpoint-3", **settings)
        assert resumed.code == 0, resumed.err
        same_course(course[3:], steps_of(resumed)[-3:], 0)


def post(url, body, kind="application/json"):
    import urllib.error
    import urllib.request

    request = urllib.request.Request(url, data=body if isinstance(body, bytes) else json.dumps(body).encode(), headers={"Content-Type": kind})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as answer:
        return answer.code, json.loads(answer.read())


def test_what_a_server_is_sent_is_checked(model_folder):
    import torch
    from safetensors.torch import load_file, save
    from transformers import AutoModelForCausalLM

    with serving(RolloutServer(model_folder), RolloutServer(model_folder, verb="deploy")) as (server, fixed):
        update, prompt = server.url + "/update_weights/?version={}&part={}&parts={}", [5, 6, 7, 8]
        for path, body, status in (("/update_weights/?version=1&part=0&parts=1", b"", 400), ("/update_weights/?version=1", b"", 400), ("/update_weights/?version=1&part=2&parts=2", b"", 400),
                                   ("/update_weights/?version=1&part=1&parts=2", save({"x": torch.zeros(1)}), 409), ("/update_weights/?version=1&part=0&parts=1", save({"x": torch.zeros(1)}), 400),
                                   ("/update_weights/?version=1&part=0&parts=1", save({"model.norm.weight": torch.zeros(3)}), 400),
                                   ("/generate/", {"prompts": []}, 400), ("/generate/", {"prompts": [[1], "x"]}, 400), ("/generate/", {"prompts": [[10**6]]}, 400), ("/generate/", {"prompts": [[1]], "seeds": [1, 2]}, 400),
                                   ("/generate/", {"prompts": [[1]], "seeds": [-1]}, 400), ("/generate/", {"prompts": [[1]], "weights_version": 4}, 409)):
            found, answer = post(server.url + path, body, "application/octet-stream" if isinstance(body, bytes) else "application/json")
            assert found == status and answer["error"]["message"], (path, found, answer)
        assert post(fixed.url + "/update_weights/?version=1&part=0&parts=1", save({"x": torch.zeros(1)}))[0] == 403

        torch.manual_seed(3)
        model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
        weights = {name: value + 0.02 * torch.randn_like(value) for name, value in load_file(model_folder / "model.safetensors").items()}
        names = sorted(weights)
        halves = [{name: weights[name] for name in part} for part in (names[:5], names[5:])]
        for index, part in enumerate(halves):
            assert post(update.format(7, index, 2), save(part))[0] == 200
        status, answer = post(server.url + "/generate/", {"prompts": [prompt, prompt], "seeds": [1, 2], "temperature": 0.7, "max_tokens": 12, "weights_version": 7})
        assert status == 200 and {version for row in answer["weights_versions"] for version in row} == {7}
        model.load_state_dict(weights, strict=False)
        for ids, logprobs in zip(answer["completion_ids"], answer["logprobs"]):
            wanted = (model(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1:-1] / 0.7).log_softmax(-1).gather(1, torch.tensor(ids)[:, None])[:, 0]
            torch.testing.assert_close(torch.tensor(logprobs), wanted.detach(), rtol=0, atol=1e-4)
        assert re.search(r"POST /generate/ 200", "".join(server.lines))


def test_a_tensor_parallel_server_follows_lora_and_dora(model_folder):
    import torch
    from safetensors.torch import save
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(model_folder, dtype=torch.float32)
    layer, prompt = "model.layers.0.self_attn.q_proj", [5, 6, 7, 8]
    projection = model.get_submodule(layer)
    base = projection.weight.detach().clone()
    a, config = torch.randn(4, projection.in_features), dict(peft_type="LORA", r=4, lora_alpha=8, target_modules=["q_proj"])
    with serving(RolloutServer(model_folder, slices=2)) as (server,):
        def push(version, b, magnitude=None, **more):
            tensors = {layer + ".lora_A.weight": a, layer + ".lora_B.weight": b, **({} if magnitude is None else {layer + ".lora_magnitude_vector": magnitude})}
            return post(f"{server.url}/update_weights/?version={version}&part=0&parts=1", save(tensors, metadata={"adapter_config": json.dumps({**config, **more})}))

        def generates_with(version, b, magnitude=None):
            status, answer = post(server.url + "/generate/", {"prompts": [prompt], "temperature": 1, "max_tokens": 8, "weights_version": version})
            assert status == 200, answer
            projection.weight.data = base + 2 * b @ a
            if magnitude is not None:
                projection.weight.data *= (magnitude / projection.weight.data.norm(dim=1))[:, None]
            ids = torch.tensor(answer["completion_ids"][0])
            wanted = model(torch.tensor([prompt + ids.tolist()])).logits[0, len(prompt) - 1:-1].log_softmax(-1).gather(1, ids[:, None])[:, 0]
            torch.testing.assert_close(torch.tensor(answer["logprobs"][0]), wanted.detach(), rtol=0, atol=1e-4)

        first, second = torch.randn(2, projection.out_features, 4)
        for version, b in ((1, first), (2, second)):
            assert push(version, b)[0] == 200
            generates_with(version, b)
        magnitude = torch.rand(projection.out_features) + 0.5
        assert push(3, first, magnitude, use_dora=True)[0] == 200
        generates_with(3, first, magnitude)
        assert push(4, first)[0] == 200
        generates_with(4, first)
