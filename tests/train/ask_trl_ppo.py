"""Results of trl's own PPOTrainer on given completions, as JSON. trl dropped PPO after 1.12, which is installed separately, so this runs in a separate process.

    PYTHONPATH=.venv/trl-ppo python ask_trl_ppo.py asked.json
"""
import json
import sys
import tempfile

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer
from trl.experimental.ppo import PPOConfig, PPOTrainer, ppo_trainer

REWARD, WHITEN = ppo_trainer.get_reward, ppo_trainer.masked_whiten


def padded(rows, value):
    longest = max(map(len, rows))
    return torch.tensor([row + [value] * (longest - len(row)) for row in rows])


def main(asked):
    tokenizer = AutoTokenizer.from_pretrained(asked["model"], padding_side="left")
    load = dict(dtype=torch.float32)
    policy, reference = (AutoModelForCausalLM.from_pretrained(asked[name], **load) for name in ("model", "reference"))
    value, reward = (AutoModelForSequenceClassification.from_pretrained(asked["value_model"], num_labels=1, **load) for _ in range(2))
    prompts, answers, pad = asked["prompts"], asked["answers"], tokenizer.pad_token_id
    responses = padded(answers, pad)
    noise = torch.Generator().manual_seed(3)

    def rolled_out(model, queries, *_):
        """The given completions, with log-probabilities that have drifted a little from the policy's."""
        rows = torch.cat([queries, responses], 1)
        logits = ppo_trainer.forward(model, rows, pad).logits[:, queries.shape[1] - 1:-1] / (asked["temperature"] + 1e-7)
        return rows, logits + asked["drift"] * torch.randn(logits.shape, generator=noise)

    def judged(model, rows, pad, context):
        values, scores, lengths = REWARD(model, rows, pad, context)
        if model is reward:
            return values, torch.tensor(asked["scores"]), lengths
        return values + asked["drift"] * torch.randn(values.shape, generator=noise), scores, lengths

    found = {"losses": [], "gradients": []}

    def whitened(values, mask, shift_mean=True):
        frame = sys._getframe(1).f_locals
        result = WHITEN(values, mask, shift_mean)
        if shift_mean:
            local = {name: frame[name].tolist() for name in ("logprobs", "ref_logprobs", "values", "returns", "scores")}
            found.update(local, advantages=torch.masked_fill(result, ~mask, 0).tolist(), tokens=mask.sum(1).tolist(), states=(~frame["padding_mask_p1"]).sum(1).tolist())
        return result

    ppo_trainer.batch_generation, ppo_trainer.get_reward, ppo_trainer.masked_whiten = rolled_out, judged, whitened
    ppo_trainer.np.random.permutation = lambda count: list(range(count))
    with tempfile.TemporaryDirectory() as folder:
        config = PPOConfig(output_dir=folder, per_device_train_batch_size=len(answers), gradient_accumulation_steps=1, num_ppo_epochs=1, total_episodes=len(answers), response_length=responses.shape[1],
                           temperature=asked["temperature"], kl_coef=asked["kl_coef"], kl_estimator=asked["kl_estimator"], whiten_rewards=asked["whiten_rewards"], gamma=asked["gamma"], lam=asked["lam"],
                           missing_eos_penalty=asked["missing_eos_penalty"], cliprange=asked["cliprange"], cliprange_value=asked["cliprange_value"], vf_coef=asked["vf_coef"], stop_token="eos", num_sample_generations=0,
                           learning_rate=0.0, use_cpu=True, bf16=False, gradient_checkpointing=False, report_to=[], save_strategy="no", disable_tqdm=True, seed=1)
        rows = Dataset.from_dict({"input_ids": prompts})
        trainer = PPOTrainer(args=config, processing_class=tokenizer, model=policy, ref_model=reference, reward_model=reward, value_model=value, train_dataset=rows, eval_dataset=rows)
        trainer.dataloader = [{"input_ids": torch.tensor([[pad] * (max(map(len, prompts)) - len(row)) + row for row in prompts])}]
        plain_backward = trainer.accelerator.backward

        def backward(loss, **more):
            plain_backward(loss, **more)
            found["losses"].append(loss.item())
            found["gradients"].append({name: parameter.grad.norm().item() for name, parameter in trainer.model.named_parameters() if parameter.grad is not None})

        trainer.accelerator.backward = backward
        logged = []
        trainer.log = lambda metrics, *_: logged.append(metrics)
        trainer.train()
    found["metrics"] = logged[0]
    return found


if __name__ == "__main__":
    answer = [main(each) for each in json.load(open(sys.argv[1]))]
    print("\n" + json.dumps(answer))
