"""Rewards, advantages and policy losses of given completions, compared with math-verify, trl and formulas in torch; with ms-swift's own functions in tests/compat/test_peer_grpo.py."""
import random
import re
from collections import defaultdict
from types import SimpleNamespace

import pytest
import torch
from train_testing import policy_trace
from transformers import AutoModelForCausalLM

OBJECTIVES = ["grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "real", "fipo"]
ESTIMATORS = ["grpo", "rloo", "reinforce_plus_plus"]
SCALES = ["group", "none", "batch", "gdpo"]
LONGEST, GENERATIONS = 20, 2

BOXED = ["42", "42.0", r"\frac{1}{2}", r"\dfrac{2}{4}", r"50\%", "50%", "0.5", "50", "1,000", "1{,}000", r"\{1,2\}", "1,2", "x=5", "5", r"2\sqrt{3}", r"\sqrt{12}", r"5\text{ cm}", "5 cm", "x^2+2x+1", r"\pi/2",
         r"90^\circ", "[0,1)", "[0,1]", r"(-\infty,2)\cup(3,\infty)", r"1\frac{1}{2}", r"\$5", "-3", "3.14", "3.1415926", "0.333333", "0.3333", "10^3", r"2 \times 10^{3}", r"x \le 3", "y=2x+1", "2x+1",
         r"\frac{x}{y}", r"\sin(0)", "5!", r"3 \cdot 4", "", r"\log_2 8", r"\ln e", r"|{-3}|", r"\binom{4}{2}", "1.50", r"\pm 2", "2,-2", r"1 \text{ or } 2", r"7\,\mathrm{m/s}", "3:2", r"\frac{-3}{4}", r"-\frac{3}{4}",
         "(x+1)(x+1)", r"\sqrt[3]{8}", "2^{10}", "1024", r"\frac{\sqrt{3}}{2}", r"\tfrac{1}{3}", "a", "b"]
GOLD = ["42", "$42$", "0.5", "50%", "50", "1000", r"$\{2,1\}$", "$2,1$", "5", "$x=5$", r"$\sqrt{12}$", "3.4641", r"$(x+1)^2$", r"$\frac{\pi}{2}$", "90", "$[0,1)$", r"$(-\infty,2)\cup(3,\infty)$", "1.5", "-3", r"$\pi$", "1/3",
        "2000", r"$x\leq 3$", "$y=2x+1$", "$x/y$", "0", "120", "12", "1", "3", "6", r"$\pm 2$", "7", r"$-\frac{3}{4}$", "2", "1024", r"$\frac{\sqrt{3}}{2}$", "no number", "$b$"]
TEXTS = [("the answer is 42", "42"), ("<answer>42</answer>", "42"), ("<answer>it is 42 apples</answer>", "42"), ("<answer>3 plus 4 is 7</answer>", "7"), ("final answer is $7$.", "7"), ("The answer is $7$", "7"), ("$7$", "7"),
         (r"first \boxed{1} then \boxed{2}", "2"), (r"so $\boxed{1}$ and later $\boxed{2}$", "2"), (r"<answer>\frac{3}{4}</answer>", "0.75"), ("<answer>3/4</answer>", "$0.75$"), (r"<answer>$\frac{3}{4}$</answer>", "3/4"),
         ("<answer>1,000</answer>", "1000"), ("<answer>1.000</answer>", "1"), ("<answer>50%</answer>", "0.5"), ("<answer>-7</answer>", "-7"), ("<answer>x=7</answer>", "7"), ("<answer>7 or 8</answer>", "8"),
         (r"<answer>\boxed{7}</answer>", r"\boxed{7}"), (r"so $x=3$. Therefore the final answer is $\boxed{\frac{3}{4}}$", r"$\frac{3}{4}$"), ("<answer>4</answer>", "<answer>4</answer>"), ("", "1")]


def judged_by_math_verify(text, solution):
    """ms-swift's accuracy reward."""
    from latex2sympy2_extended import NormalizationConfig
    from math_verify import LatexExtractionConfig, parse, verify

    def tagged(words):
        found = re.search(r"<answer>(.*?)</answer>", words, re.DOTALL)
        return found and found.group(1).strip()

    gold = parse(tagged(solution) or solution, extraction_mode="first_match", parsing_timeout=None)
    if not gold:
        return 0.0
    marked = [LatexExtractionConfig(normalization_config=NormalizationConfig(nits=False, malformed_operators=False, basic_latex=True, boxed=True, units=True), boxed_match_priority=0, try_extract_without_anchor=False)]
    inside = tagged(text)
    answer = parse(inside, extraction_mode="first_match", parsing_timeout=None) if inside is not None else parse(text, extraction_config=marked, extraction_mode="first_match", parsing_timeout=None)
    return float(verify(gold, answer, timeout_seconds=None))


def test_accuracy_is_math_verifys(hone, tmp_path):
    rng = random.Random(3)
    pairs = TEXTS + [(f"so \\boxed{{{answer}}}.", gold) for answer in BOXED for gold in GOLD if rng.random() < 0.12]
    pairs += [(f"so \\boxed{{{gold.strip('$')}}}.", gold) for gold in GOLD]
    rows = [{"text": text, "solution": solution} for text, solution in pairs]
    ours = policy_trace(hone, tmp_path, rewards=[{"functions": ["accuracy"], "rows": rows}])["rewards"][0]["MathAccuracy"]
    differing = [(text, solution, mine) for (text, solution), mine in zip(pairs, ours) if mine != judged_by_math_verify(text, solution)]
    assert sum(ours) > 50 and not differing


def expected_advantages(rewards, weights, generations, estimator, scale):
    """ms-swift's compute_advantages."""
    totals = (rewards * weights).nansum(1)
    grouped = totals.view(-1, generations)
    spread = lambda values: values.repeat_interleave(generations)  # noqa: E731
    advantages = totals - spread(grouped.mean(1))
    if estimator == "rloo":
        advantages = advantages * generations / (generations - 1)
    if scale == "gdpo" and estimator != "reinforce_plus_plus":
        total = torch.zeros_like(totals)
        for column, weight in enumerate(weights):
            values = rewards[:, column].view(-1, generations)
            mean = values.nanmean(1, keepdim=True)
            count = (~values.isnan()).sum(1, keepdim=True)
            deviation = (((values - mean) ** 2).nanmean(1, keepdim=True) * count / (count - 1)).sqrt()
            total += weight * torch.nan_to_num((values - mean) / (deviation + 1e-8), nan=0.0).view(-1)
        return (total - total.mean()) / (total.std() + 1e-8)
    measured = advantages if estimator == "reinforce_plus_plus" else totals
    if scale == "batch":
        advantages = advantages / (measured.std() + 1e-4)
    if scale == "group":
        advantages = advantages / (spread(measured.view(-1, generations).std(1)) + 1e-4)
    return advantages


def test_advantages_of_every_estimator_and_scale(hone, tmp_path):
    torch.manual_seed(1)
    rewards = torch.randn(12, 3, dtype=torch.double)
    rewards[2, 1] = rewards[3, 1] = rewards[7, 2] = float("nan")
    rewards[8:12] = rewards[8]
    weights = torch.tensor([1.0, 0.5, 2.0], dtype=torch.double)
    listed = [[None if value != value else value for value in row] for row in rewards.tolist()]
    cases = [(e, s) for e in range(3) for s in range(4)]
    asked = [{"rewards": listed, "weights": weights.tolist(), "generations": 4, "estimator": e, "scale": s} for e, s in cases]
    for (e, s), found in zip(cases, policy_trace(hone, tmp_path, advantages=asked)["advantages"]):
        wanted = expected_advantages(rewards, weights, 4, ESTIMATORS[e], SCALES[s])
        torch.testing.assert_close(torch.tensor(found["advantages"], dtype=torch.double), wanted, rtol=1e-9, atol=1e-9, msg=f"{ESTIMATORS[e]} {SCALES[s]}")
        assert found["metrics"]["frac_reward_zero_std"] == pytest.approx(1 / 3)
        assert found["metrics"]["rewards/1/mean"] == pytest.approx(rewards[:, 1].nanmean().item())


class Answers:
    """Random answers to random prompts, as padded rows for torch and end to end for hone."""

    def __init__(self, folder):
        torch.manual_seed(0)
        rng = random.Random(0)
        self.folder, self.model = str(folder), AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        self.prompts = [[rng.randrange(3, 300) for _ in range(rng.randint(2, 6))] for _ in range(4)]
        self.answers = [[rng.randrange(3, 300) for _ in range(rng.randint(3, 9))] for _ in range(4)]
        self.longest = max(map(len, self.answers))
        self.mask = torch.tensor([[1] * len(a) + [0] * (self.longest - len(a)) for a in self.answers])
        self.advantages = torch.tensor([1.2, -0.7, 0.4, -1.1])
        self.cut = torch.tensor([False, False, True, False])
        with torch.no_grad():
            now, _ = self.logps(0.9)
        self.old = now + 0.3 * torch.randn_like(now)
        self.reference = now + 0.3 * torch.randn_like(now)
        self.sampled = now + 0.3 * torch.randn_like(now)

    def logps(self, temperature):
        """Of each answer's tokens, and the entropies there."""
        rows, entropies = [], []
        for prompt, answer in zip(self.prompts, self.answers):
            logits = self.model(torch.tensor([prompt + answer])).logits[0, len(prompt) - 1:-1] / temperature
            every = logits.log_softmax(-1)
            pad = (0, self.longest - len(answer))
            rows.append(torch.nn.functional.pad(every.gather(1, torch.tensor(answer)[:, None])[:, 0], pad))
            entropies.append(torch.nn.functional.pad(-(every.exp() * every).sum(-1), pad))
        return torch.stack(rows), torch.stack(entropies).detach()

    def batch(self, sampled=False):
        def spread(values):
            return [x for prompt, answer, row in zip(self.prompts, self.answers, values.tolist()) for x in [0.0] * (len(prompt) - 1) + row[:len(answer)] + [0.0]]

        return {"tokens": [t for prompt, answer in zip(self.prompts, self.answers) for t in prompt + answer],
                "targets": [t for prompt, answer in zip(self.prompts, self.answers) for t in [-100] * (len(prompt) - 1) + answer + [-100]],
                "lengths": [len(prompt) + len(answer) for prompt, answer in zip(self.prompts, self.answers)],
                "grades": [[a, float(c), self.mask.sum().item() / 4, GENERATIONS] for a, c in zip(self.advantages.tolist(), self.cut.tolist())],
                "rows": [0, 0, 1, 1], "policy_logps": spread(self.old), "reference_logps": spread(self.reference), "rollout_logps": spread(self.sampled) if sampled else None, "notes": {}}


@pytest.fixture(scope="module")
def answers(model_folder):
    return Answers(model_folder)


def trl_loss(answers, objective, level, delta, beta, temperature=0.9):
    """trl's own loss, given what its trainer would have computed before."""
    from trl import GRPOTrainer

    logps, entropies = answers.logps(temperature)
    args = SimpleNamespace(delta=delta, use_bias_correction_kl=False, sapo_temperature_pos=1.0, sapo_temperature_neg=1.05, steps_per_generation=1)
    accelerator = SimpleNamespace(num_processes=1, gather=lambda x: x, reduce=lambda x, reduction: x, gather_for_metrics=lambda x: x)
    stub = SimpleNamespace(_get_per_token_logps_and_entropies=lambda *a, **k: (logps, entropies, None), aux_loss_enabled=False, top_entropy_quantile=1.0, off_policy_mask_threshold=None,
                           importance_sampling_level=level, beta=beta, args=args, loss_type=objective, epsilon_low=0.2, epsilon_high=1.1 if objective == "cispo" else 0.25, use_vllm=False, accelerator=accelerator,
                           model=SimpleNamespace(training=True), current_gradient_accumulation_steps=1, max_completion_length=LONGEST, _entropy_bonus_enabled=False, _metrics={"train": defaultdict(list)})
    inputs = {"prompt_ids": torch.zeros(4, 1, dtype=torch.long), "prompt_mask": torch.ones(4, 1), "completion_ids": torch.zeros_like(answers.mask), "completion_mask": answers.mask, "advantages": answers.advantages,
              "old_per_token_logps": answers.old, "ref_per_token_logps": answers.reference, "num_items_in_batch": answers.mask.sum()}
    return GRPOTrainer._compute_loss(stub, answers.model, inputs)


def gradient_norms(model, loss):
    model.zero_grad()
    loss.backward(retain_graph=True)
    return {name: parameter.grad.norm().item() for name, parameter in model.named_parameters() if parameter.grad is not None}


def test_losses_and_gradients_are_trls(hone, answers, tmp_path):
    cases = [(o, level, delta, beta) for o in OBJECTIVES[:6] for level, delta, beta in (("token", None, 0.04), ("sequence", 1.2, 0.0))]
    asked = [{"objective": OBJECTIVES.index(o), "level": ["token", "sequence"].index(level), "temperature": 0.9, "clip_above": 1.1 if o == "cispo" else 0.25, "reference_weight": beta, "max_answer": LONGEST,
              **({"ratio_cap": delta} if delta else {}), "batch": answers.batch()} for o, level, delta, beta in cases]
    for case, found in zip(cases, policy_trace(hone, tmp_path, model=answers.folder, losses=asked)["losses"]):
        wanted = trl_loss(answers, *case)
        assert found["loss"] == pytest.approx(wanted.item(), rel=1e-5, abs=1e-6), case
        norms = gradient_norms(answers.model, wanted)
        assert all(found["gradients"][name] == pytest.approx(norm, rel=1e-4, abs=1e-6) for name, norm in norms.items()), case


def test_masks_and_the_remaining_losses(hone, answers, tmp_path):
    base = {"temperature": 0.7, "max_answer": LONGEST, "batch": answers.batch()}
    asked = [{**base, "objective": 0, "leave_out_cut": True}, {**base, "objective": 0, "top_entropy": 0.4, "report_entropy": True}, {**base, "objective": 0, "level": 2},
             {**base, "objective": 6}, {**base, "objective": 0, "farthest_bad_answer": 0.0}, {**base, "objective": 7, "fipo_clip_above_only": False}]
    found = policy_trace(hone, tmp_path, model=answers.folder, losses=asked)["losses"]
    logps, entropies = answers.logps(0.7)
    mask, advantages = answers.mask.float(), answers.advantages[:, None].expand_as(logps)
    ratio = (logps - answers.old).exp()

    def clipped(ratio):
        return -torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)

    def by_answer(losses, mask):
        return ((losses * mask).sum(1) / mask.sum(1).clamp(min=1)).mean()

    whole = mask * (~answers.cut)[:, None]
    threshold = torch.quantile(entropies[answers.mask.bool()], 0.6)
    means = (entropies * mask).sum(1) / mask.sum(1)
    ratio_s = ((((logps - answers.old) * mask).sum(1) / mask.sum(1))[:, None])
    scores = (ratio_s[:, 0] / 0.5).view(-1, GENERATIONS)  # each group has one good answer, at its first place
    real = (torch.log1p(scores[:, 1].exp()) + torch.log1p((-scores[:, 0]).exp())).mean()
    later = (torch.arange(answers.longest)[None] - torch.arange(answers.longest)[:, None]).clamp(min=-1)  # how far each token is after another
    decay = torch.where(later >= 0, 2 ** (-later / 32), 0.0)
    influence = (((logps - answers.old).detach() * mask) @ decay.T).exp().clamp(0.8, 1.2)
    kept = ~((-ratio_s[:, 0] > 0) & (answers.advantages < 0))
    wanted = [by_answer(clipped(ratio), whole), by_answer(clipped(ratio) * (entropies >= threshold), mask), by_answer(clipped((logps - logps.detach() + ratio_s.detach()).exp()), mask), real,
              by_answer(clipped(ratio), mask * kept[:, None]), (clipped(ratio) * influence * mask).sum() / mask.sum()]
    for index, (mine, theirs) in enumerate(zip(found, wanted)):
        assert mine["loss"] == pytest.approx(theirs.item(), rel=1e-5, abs=1e-6), index
        norms = gradient_norms(answers.model, theirs)
        assert all(mine["gradients"][name] == pytest.approx(norm, rel=1e-4, abs=1e-6) for name, norm in norms.items()), index
    assert found[1]["metrics"]["entropy/threshold"] == pytest.approx(threshold.item(), rel=1e-5)
    assert found[1]["metrics"]["entropy/mean"] == pytest.approx(means.mean().item(), rel=1e-5)
    assert found[1]["metrics"]["entropy/max"] == pytest.approx(means.max().item(), rel=1e-5)



def test_rollouts_that_drift_are_corrected(hone, answers, tmp_path):
    """ms-swift's four modes, in its formulas; what is logged are trl's and ms-swift's names."""
    base = {"temperature": 0.9, "max_answer": LONGEST, "objective": 0, "reference_weight": 0.04, "correction_threshold": 1.15, "batch": answers.batch(sampled=True)}
    found = policy_trace(hone, tmp_path, model=answers.folder, losses=[{**base, "correction": mode} for mode in range(5)])["losses"]
    logps, _ = answers.logps(0.9)
    mask, advantages = answers.mask.float(), answers.advantages[:, None].expand_as(logps)
    ratio, moved = (logps - answers.old).exp(), (answers.reference - logps).clamp(-20, 20)
    losses = -torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages) + 0.04 * (moved.exp() - moved - 1)
    drift = (answers.old - answers.sampled) * mask
    token, sequence = drift.exp(), (drift.sum(1) / mask.sum(1)).exp()[:, None].expand_as(drift)
    weights = [torch.ones_like(token), token.clamp(max=1.15), token * (token <= 1.15), sequence.clamp(max=1.15), token * (sequence <= 1.15)]
    for mode, (mine, weight) in enumerate(zip(found, weights)):
        wanted = ((losses * weight * mask).sum(1) / mask.sum(1)).mean()
        assert mine["loss"] == pytest.approx(wanted.item(), rel=1e-5, abs=1e-6), mode
        norms = gradient_norms(answers.model, wanted)
        assert all(mine["gradients"][name] == pytest.approx(norm, rel=1e-4, abs=1e-6) for name, norm in norms.items()), mode
        applied = weight[answers.mask.bool()] if mode else token[answers.mask.bool()]
        metrics = mine["metrics"]
        assert metrics["sampling/sampling_logp_difference/max"] == pytest.approx(drift.abs().max().item(), rel=1e-5)
        assert metrics["sampling/importance_sampling_ratio/mean"] == pytest.approx(applied.mean().item(), rel=1e-5)
        assert ("rollout_correction/ess" in metrics) == (mode > 0)
    assert found[1]["metrics"]["rollout_correction/kl"] == pytest.approx((-drift.sum() / mask.sum()).item(), rel=1e-4)
    assert found[1]["metrics"]["rollout_correction/chi2_token"] == pytest.approx(((token ** 2 * mask).sum() / mask.sum()).item() - 1, rel=1e-4)
