"""PPO's advantages, losses and gradients of given completions, compared with trl's own trainer in a separate process (ask_trl_ppo.py); score scaling and the KL coefficient with trl 0.9's formulas."""
import json
import os
import random
import subprocess
import sys

import pytest
import torch

from train_testing import ROOT, policy_trace, small_tokenizer

BASE = dict(temperature=0.7, drift=0.3, kl_coef=0.05, kl_estimator="k1", whiten_rewards=False, gamma=1.0, lam=0.95, missing_eos_penalty=None, cliprange=0.2, cliprange_value=0.2, vf_coef=0.1)
CASES = [{}, {"kl_estimator": "k3", "whiten_rewards": True, "gamma": 0.98, "lam": 0.8, "missing_eos_penalty": 1.5}, {"cliprange": 0.05, "cliprange_value": 0.05, "vf_coef": 0.7, "kl_coef": 0.5, "drift": 0.6}]


@pytest.fixture(scope="module")
def models(model_folder, tmp_path_factory):
    """A critic of the policy's shape, and a reference that is another model."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification

    folder, tokenizer = tmp_path_factory.mktemp("ppo"), small_tokenizer()
    config = AutoConfig.from_pretrained(model_folder)
    config.num_labels, config.pad_token_id = 1, tokenizer.pad_token_id
    for name, kind, seed in (("reference", AutoModelForCausalLM, 1), ("value", AutoModelForSequenceClassification, 2)):
        torch.manual_seed(seed)
        kind.from_config(config).float().save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    return {"model": str(model_folder), "reference": str(folder / "reference"), "value_model": str(folder / "value")}


@pytest.fixture(scope="module")
def asked(models):
    """Completions of several lengths; some do not end, and two are as long as the longest."""
    rng, eos = random.Random(0), small_tokenizer().eos_token_id
    prompts = [[rng.randrange(3, 300) for _ in range(rng.randint(2, 6))] for _ in range(8)]
    answers = [[rng.randrange(3, 300) for _ in range(count)] for count in (3, 5, 9, 1, 4, 9, 7, 2)]
    for answer in answers[:5]:
        answer[-1] = eos
    return [{**models, "prompts": prompts, "answers": answers, "scores": [0.5, -1, 2, 0.3, -0.2, 1, 0.1, -3], **BASE, **case} for case in CASES]


@pytest.fixture(scope="module")
def trls(asked, tmp_path_factory):
    path = tmp_path_factory.mktemp("asked") / "asked.json"
    path.write_text(json.dumps(asked))
    environment = {**os.environ, "PYTHONPATH": str(ROOT / ".venv/trl-ppo"), "TRL_EXPERIMENTAL_SILENCE": "1"}
    done = subprocess.run([sys.executable, ROOT / "tests/train/ask_trl_ppo.py", path], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def trajectories_of(case, theirs):
    """What trl found before it estimated advantages, without its padding."""
    return [{"logps": theirs["logprobs"][i][:tokens], "ref_logps": theirs["ref_logprobs"][i][:tokens], "values": theirs["values"][i][:states], "score": theirs["scores"][i]}
            for i, (tokens, states) in enumerate(zip(theirs["tokens"], theirs["states"]))]


def test_advantages_and_returns_are_trls(hone, asked, trls, tmp_path):
    wanted = [{**{key: case[key] for key in ("kl_coef", "kl_estimator", "whiten_rewards", "gamma", "lam")}, "trajectories": trajectories_of(case, theirs)} for case, theirs in zip(asked, trls)]
    for case, found, theirs in zip(asked, policy_trace(hone, tmp_path, experience=wanted)["experience"], trls):
        assert theirs["tokens"] == [len(answer) for answer in case["answers"]] and sum(theirs["states"]) > sum(theirs["tokens"])
        for i, (tokens, states) in enumerate(zip(theirs["tokens"], theirs["states"])):
            assert found["advantages"][i] == pytest.approx(theirs["advantages"][i][:tokens], rel=1e-4, abs=1e-5), (case, i)
            assert found["returns"][i] == pytest.approx(theirs["returns"][i][:states], rel=1e-4, abs=1e-5), (case, i)


def batch_of(case, theirs):
    """The completions end to end, with trl's experience of them."""
    tokens, states = theirs["tokens"], theirs["states"]

    def spread(rows, counts, fill=0.0):
        out = []
        for prompt, answer, row, count in zip(case["prompts"], case["answers"], rows, counts):
            out += [fill] * (len(prompt) - 1) + row[:count] + [fill] * (len(answer) + 1 - count)
        return out

    ones = [[1.0] * count for count in states]
    return {"tokens": [t for p, a in zip(case["prompts"], case["answers"]) for t in p + a],
            "targets": [t for p, a in zip(case["prompts"], case["answers"]) for t in [-100] * (len(p) - 1) + a + [-100]],
            "lengths": [len(p) + len(a) for p, a in zip(case["prompts"], case["answers"])], "grades": [[sum(tokens) / sum(states), 0.0]] * len(tokens), "rows": list(range(len(tokens))),
            "policy_logps": spread(theirs["logprobs"], tokens), "reference_logps": spread(theirs["ref_logprobs"], tokens), "notes": {},
            "experience": spread(theirs["advantages"], tokens) + spread(theirs["returns"], states) + spread(theirs["values"], states) + spread(ones, states)}


def test_losses_and_gradients_are_trls(hone, models, asked, trls, tmp_path):
    wanted = [{**{key: case[key] for key in ("temperature", "cliprange", "cliprange_value", "vf_coef")}, "batch": batch_of(case, theirs)} for case, theirs in zip(asked, trls)]
    clipped = 0
    for case, found, theirs in zip(asked, policy_trace(hone, tmp_path, model=models["model"], value_model=models["value_model"], ppo=wanted)["ppo"], trls):
        assert found["loss"] == pytest.approx(theirs["losses"][0], rel=1e-4, abs=1e-6), case
        norms = theirs["gradients"][0]
        assert set(found["gradients"]) == set(norms) and len(norms) > 40
        for name, norm in norms.items():
            assert found["gradients"][name] == pytest.approx(norm, rel=1e-4, abs=1e-6), (case, name)
        for name in ("loss/policy_avg", "loss/value_avg", "policy/clipfrac_avg", "val/clipfrac_avg"):
            assert found["metrics"][name] == pytest.approx(theirs["metrics"][name], rel=1e-4, abs=1e-6), (case, name)
        clipped += theirs["metrics"]["policy/clipfrac_avg"] > 0 and theirs["metrics"]["val/clipfrac_avg"] > 0
    assert clipped > 0


def test_running_scores_and_the_adaptive_weight_of_the_divergence(hone, tmp_path):
    """trl 0.9's RunningMoments and AdaptiveKLController, which LLaMA-Factory's stage ppo uses."""
    rng = random.Random(4)
    rollouts = [[rng.gauss(3, 2) for _ in range(6)] for _ in range(4)]
    divergences = [1.0, 30.0, 6.6, 5.0]
    found = policy_trace(hone, tmp_path, experience=[{"kl_coef": 0.2, "kl_target": 6.0, "score_rollouts": rollouts, "divergences": divergences, "completions": 64}])["experience"][0]
    seen = []
    for scores, mine in zip(rollouts, found["scores"]):
        seen += scores
        every = torch.tensor(seen, dtype=torch.double)
        assert mine == pytest.approx(((torch.tensor(scores) - every.mean()) / (every.std() + torch.finfo(torch.float).eps)).tolist(), rel=1e-5, abs=1e-6)
    weight = 0.2
    for kl, mine in zip(divergences, found["kl_coefs"]):
        weight *= 1 + max(-0.2, min(0.2, kl / 6.0 - 1)) * 64 / 10000
        assert mine == pytest.approx(weight, rel=1e-12)
