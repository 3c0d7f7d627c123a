"""GRPO's rewards, advantages and losses compared with ms-swift's own functions (HONE_PEERS_PYTHON)."""
import json
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "train"))
from test_peer_parsers import ask, model  # noqa: E402, F401
from test_policy_losses import ESTIMATORS, OBJECTIVES, SCALES, Answers, gradient_norms  # noqa: E402
from train_testing import policy_trace  # noqa: E402

LEVELS = ["token", "sequence", "sequence_token"]
CORRECTIONS = [None, "token_truncate", "token_mask", "sequence_truncate", "sequence_mask"]
TEXTS = ["<think>a</think> <answer>b</answer>", "<think>a</think><answer>b</answer>\n", "x<think>a</think><answer>b</answer>", "<think></think>x</think>\n<answer></answer>", "<think>a</think>Action: b\nAction Input: c",
         "<think>a</think>Action: b", "", "a b a b a", "One two one TWO\u3000one two", "word"]
CALLED = ['Action: add\nAction Input: {"a": 1, "b": 2}', 'Thought: x\nAction: add\nAction Input: {"b": 2.0, "a": 1}\nObservation:', 'Action: add\nAction Input: {"a": 1}', 'Action: add\nAction Input: {"a": 1, "b": 3}', "Action: add",
          "Action: add\nAction Input: {}<|im_end|>", "Action: search\nAction Input: the red house near the river", "Action: search\nAction Input: a red house. near the big river.", "Action: search\nAction Input: b c d e f g h i red k",
          "Action: search\nAction Input: b c d e f g h red", "Action: search\nAction Input:", 'Action: search\nAction Input: "red"', "Action: search\nAction Input: [1]", "Action: search\nAction Input: [1]\n", "no call", "",
          "Action: one\nAction Input: 1\nAction: add\nAction Input: {}", "Action Input: {}", "Action: search\nAction Input: ...", "Action: add Action Input: {\"a\": {\"c\": [1]}}", "Action: add\nAction Input: {'a': 1}"]
TOKENS = [0, 5, 34, 35, 50, 64, 80, 1, 2, 3]


def advantage_cases():
    torch.manual_seed(2)
    table = torch.randn(12, 2, dtype=torch.double).tolist()
    table[3][1] = table[4][0] = None
    return [{"rewards": table, "weights": [1.0, 0.5], "generations": 4, "estimator": e, "scale": s, "beta": 0.1, "divergences": torch.rand(12).tolist()} for e in ESTIMATORS for s in SCALES]


def loss_cases(answers):
    with torch.no_grad():
        logps, entropies = answers.logps(0.9)
    common = {"logps": logps.tolist(), "entropies": entropies.tolist(), "mask": answers.mask.tolist(), "cut": answers.cut.tolist(), "old": answers.old.tolist(), "reference": answers.reference.tolist(),
              "advantages": answers.advantages.tolist(), "generations": 2, "max_answer": 20}
    cases = [{**common, "objective": o, "level": level, "beta": beta, "clip_above": 1.1 if o == "cispo" else 0.25} for o in OBJECTIVES for level, beta in (("token", 0.04), ("sequence", 0.0), ("sequence_token", 0.1))]
    plain = {**common, "objective": "grpo", "level": "token", "beta": 0.04, "clip_above": 0.25}
    drifting = [{**plain, "sampled": answers.sampled.tolist(), "correction": mode, "correction_threshold": 1.15, **more} for mode in CORRECTIONS for more in ({}, {"leave_out_cut": True})]
    return cases + drifting + [{**plain, "leave_out_cut": True}, {**plain, "top_entropy": 0.3}, {**plain, "farthest_bad_answer": 0.0}, {**plain, "ratio_cap": 1.1}, {**plain, "objective": "fipo", "fipo_clip_above_only": False}]


@pytest.mark.peer("swift")
def test_everything_is_what_ms_swift_computes(hone, model, tmp_path):  # noqa: F811
    answers = Answers(model)
    advantages, losses = advantage_cases(), loss_cases(answers)
    theirs = ask("swift", "ask_swift_grpo.py", {"texts": TEXTS, "tokens": TOKENS, "calls": [(text, solution) for text in CALLED for solution in CALLED], "advantages": advantages, "losses": losses}, tmp_path)
    keys = ("max_answer", "leave_out_cut", "top_entropy", "farthest_bad_answer", "ratio_cap", "fipo_clip_above_only", "clip_above", "correction_threshold")
    ours = policy_trace(hone, tmp_path, model=answers.folder,
                 rewards=[{"functions": ["format", "react_format", "repetition", "soft_overlong", "cosine"], "max_answer": 64, "soft_margin": 30, "repetition_words": 2,
                           "rows": [{"text": text, "tokens": count, "solution": "1"} for text, count in zip(TEXTS, TOKENS)]},
                          {"functions": ["toolbench"], "rows": [{"text": text, "solution": solution} for text in CALLED for solution in CALLED]}],
                 advantages=[{**case, "estimator": ESTIMATORS.index(case["estimator"]), "scale": SCALES.index(case["scale"])} for case in advantages],
                 losses=[{**{k: case[k] for k in keys if k in case}, "objective": OBJECTIVES.index(case["objective"]), "level": LEVELS.index(case["level"]), "reference_weight": case["beta"], "temperature": 0.9,
                          "correction": CORRECTIONS.index(case.get("correction")), "report_drift": "sampled" in case, "batch": answers.batch(sampled="sampled" in case)} for case in losses])
    assert ours["rewards"][1]["ReactORM"] == theirs["calls"] and 20 < sum(theirs["calls"]) < 200
    for name, scores in theirs["rewards"].items():
        assert ours["rewards"][0][name] == pytest.approx(scores), name
    for case, mine, wanted in zip(advantages, ours["advantages"], theirs["advantages"]):
        assert mine["advantages"] == pytest.approx(wanted["advantages"], rel=1e-6, abs=1e-8), (case["estimator"], case["scale"])
        assert all(mine["metrics"][key] == pytest.approx(wanted[key]) for key in ("reward", "reward_std", "frac_reward_zero_std"))
    for case, mine, wanted in zip(losses, ours["losses"], theirs["losses"]):
        where = {key: case[key] for key in ("objective", "level", *keys) if key in case}
        assert mine["loss"] == pytest.approx(wanted["loss"], rel=2e-5, abs=1e-6), where
        logps, _ = answers.logps(0.9)
        norms = gradient_norms(answers.model, (logps * torch.tensor(wanted["gradient"])).sum())
        assert all(mine["gradients"][name] == pytest.approx(norm, rel=2e-4, abs=1e-6) for name, norm in norms.items()), where
        assert bool(wanted["drift"]) == ("sampled" in case)
        for key, value in wanted["drift"].items():
            assert mine["metrics"][f"rollout_correction/{key}"] == pytest.approx(value, rel=1e-4, abs=1e-6), (where, key)
        for key, metric in (("kl", "kl"), ("region", "clip_ratio/region_mean")):
            assert wanted[key] is None or mine["metrics"][metric] == pytest.approx(wanted[key], rel=1e-4, abs=1e-6), where


@pytest.mark.peer("swift")
def test_plugins_get_the_arguments_that_ms_swift_gives(hone, tmp_path):
    (tmp_path / "plugin.py").write_text("from swift.rewards import orms\ndef names(completions, **kwargs):\n    raise ValueError(' '.join(sorted(['completions', *kwargs])))\norms['names'] = names\n")
    rewards = {"functions": ["names"], "plugins": {"files": [str(tmp_path / "plugin.py")], "python": sys.executable, "timeout": 20}, "rows": [{"text": "b"}]}
    (tmp_path / "asked.json").write_text(json.dumps({"rewards": [rewards]}))
    given = hone("policy-trace", tmp_path / "asked.json").stderr.split("ValueError: ")[1].split(" at ")[0].split()
    assert set(ask("swift", "ask_swift_rewards.py", {}, tmp_path)) <= set(given)
