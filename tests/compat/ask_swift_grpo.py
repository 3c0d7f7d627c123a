"""Run by a Python with ms-swift: its rewards, advantages and losses for the inputs of a JSON file."""
import json
import math
import sys
from collections import defaultdict
from types import SimpleNamespace

import torch
from swift.rewards.orm import CosineReward, Format, ReactORM, ReActFormat, RepetitionPenalty, SoftOverlong
from swift.rl_core.advantage import compute_advantages, compute_reward_metrics
from swift.rlhf_trainers.grpo_trainer import GRPOTrainer

asked = json.loads(open(sys.argv[1]).read())


def rewards(texts, tokens):
    args = SimpleNamespace(repetition_n_grams=2, repetition_max_penalty=-1.0, soft_cache_length=30, soft_max_length=64, cosine_min_len_value_wrong=-0.5, cosine_max_len_value_wrong=0.0, cosine_min_len_value_correct=1.0,
                           cosine_max_len_value_correct=0.5, cosine_max_len=64)
    ids = [[0] * count for count in tokens]
    wrong = CosineReward(args, accuracy_orm=lambda completions, solution, **_: [0.0] * len(completions))
    return {"Format": Format()(texts), "ReActFormat": ReActFormat()(texts), "RepetitionPenalty": RepetitionPenalty(args)(texts), "SoftOverlong": SoftOverlong(args)(texts, response_token_ids=ids),
            "CosineReward": wrong(texts, [""] * len(texts), response_token_ids=ids)}


def advantages(case):
    table = torch.tensor([[math.nan if value is None else value for value in row] for row in case["rewards"]], dtype=torch.double)
    weights = torch.tensor(case["weights"], dtype=torch.double)
    kl = torch.tensor(case["divergences"], dtype=torch.double)
    found, totals = compute_advantages(table, weights, case["generations"], case["estimator"], case["scale"], kl_in_reward=True, beta=case["beta"], kl_values=kl)
    metrics = compute_reward_metrics(totals, table, [str(i) for i in range(len(weights))], case["generations"], case["scale"])
    return {"advantages": found.tolist(), "reward": metrics.reward_mean, "reward_std": metrics.reward_std, "frac_reward_zero_std": metrics.frac_reward_zero_std}


def loss(case):
    """The loss and its gradient by the log-probabilities of the answers' tokens, which are given."""
    logps = torch.tensor(case["logps"], requires_grad=True)
    mask = torch.tensor(case["mask"], dtype=torch.bool)
    args = SimpleNamespace(log_entropy=False, top_entropy_quantile=case.get("top_entropy", 1.0), delta=case.get("ratio_cap"))
    stub = SimpleNamespace(
        model=SimpleNamespace(training=True), args=args, compute_entropy="top_entropy" in case, top_entropy_quantile=args.top_entropy_quantile, overlong_filter=case.get("leave_out_cut", False), beta=case["beta"], kl_in_reward=False,
        rollout_importance_sampling_mode=case.get("correction"), rollout_importance_sampling_threshold=case.get("correction_threshold"), log_rollout_offpolicy_metrics="sampled" in case, disable_rollout_importance_sampling=False, importance_sampling_level=case["level"], loss_type=case["objective"], _has_teacher=False,
        off_policy_sequence_mask_delta=case.get("farthest_bad_answer"), epsilon_low=0.2, epsilon_high=case["clip_above"], tau_pos=1.0, tau_neg=1.05, real_tau=0.5, fipo_gamma=2 ** (-1 / 32), fipo_clip_range=0.2,
        fipo_clip_high_only=case.get("fipo_clip_above_only", True), fipo_safety_threshold=4.0, num_generations=case["generations"], max_completion_length=case["max_answer"], sdar_loss_coef=0, chord_sft_iterator=None,
        accelerator=SimpleNamespace(num_processes=1, gather_for_metrics=lambda x: x), _metrics={"train": defaultdict(list)}, model_accepts_loss_kwargs=True, compute_loss_func=None)
    stub._get_per_token_logps_and_entropies = lambda *a, **k: (logps, torch.tensor(case["entropies"]))
    for name in ("_compute_fipo_influence", "_undo_gradient_accumulation_scaling", "_compute_off_policy_sequence_mask", "_get_rollout_is_correction", "_apply_rollout_importance_sampling",
                 "_compute_sequence_level_ratios", "_compute_rollout_offpolicy_metrics", "_compute_is_correction_metrics"):
        setattr(stub, name, getattr(GRPOTrainer, name).__get__(stub))
    batch = SimpleNamespace(completion_mask=mask, truncated_mask=torch.tensor(case["cut"]), ref_per_token_logps=torch.tensor(case["reference"]), advantages=torch.tensor(case["advantages"])[:, None].expand_as(logps),
                            old_per_token_logps=torch.tensor(case["old"]), rollout_per_token_logps=torch.tensor(case["sampled"]) if "sampled" in case else None, num_items_in_batch=mask.sum(), teacher_per_token_logps=None)
    value, metrics = GRPOTrainer._compute_loss_and_metrics(stub, None, {}, batch)
    value.backward()
    clipping = metrics.get("clipping", {})
    drift = {name: value.item() for name, value in metrics.get("rollout_correction", {}).items()}
    return {"loss": value.item(), "gradient": logps.grad.tolist(), "kl": metrics.get("kl"), "region": clipping.get("region_clip_mean"), "drift": drift}


def calls(pairs):
    return ReactORM()([text for text, _ in pairs], [solution for _, solution in pairs])


answer = {"calls": calls(asked["calls"]), "rewards": rewards(asked["texts"], asked["tokens"]), "advantages": [advantages(case) for case in asked["advantages"]], "losses": [loss(case) for case in asked["losses"]]}
open(sys.argv[2], "w").write(json.dumps(answer))
