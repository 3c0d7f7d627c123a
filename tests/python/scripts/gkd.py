"""Distillation as in Twinkle's guide: a teacher returns its most likely tokens at each position, a student learns them. Prints the losses."""
import json

import torch
from peft import LoraConfig

import twinkle
from twinkle.cli import CLI
from twinkle.data_format import SamplingParams
from twinkle.dataloader import DataLoader
from twinkle.dataset import Dataset, DatasetMeta
from twinkle.loss import GKDLoss
from twinkle.model import MegatronModel
from twinkle.preprocessor import GSM8KProcessor
from twinkle.sampler import vLLMSampler
from twinkle.template import Template

args = CLI.from_args()
STUDENT, TEACHER, TOPK = args.rl.student_model_id, args.rl.teacher_model_id, args.rl.gkd_topk


def create_dataset():
    dataset = Dataset(DatasetMeta("ms://modelscope/gsm8k", subset_name="main", split="train"))
    dataset.set_template("Template", model_id=STUDENT, max_length=1024)
    dataset.map(GSM8KProcessor(system="Solve it.", add_assistant=True))
    return dataset


def teacher_output(responses):
    """What GKDLoss takes: [rows, tokens, k], rolled to where tokens are predicted."""
    longest = max(len(response.topk_prompt_logprobs) for response in responses)
    logprobs, ids = torch.zeros(len(responses), longest, TOPK), torch.zeros(len(responses), longest, TOPK, dtype=torch.long)
    for row, response in enumerate(responses):
        assert response.topk_prompt_logprobs[0] is None and response.prompt_logprobs[0] is None
        for position, tokens in enumerate(response.topk_prompt_logprobs[1:], start=1):
            logprobs[row, position] = torch.tensor([logprob for _, logprob in tokens])
            ids[row, position] = torch.tensor([token for token, _ in tokens])
    return {"teacher_topk_logprobs": logprobs.roll(-1, 1), "teacher_topk_indices": ids.roll(-1, 1)}


def main():
    twinkle.initialize(mode="local")
    student = MegatronModel(model_id=STUDENT, mixed_precision="no")
    student.add_adapter_to_model("default", LoraConfig(r=8, lora_alpha=32, target_modules="all-linear"))
    student.set_optimizer("default", lr=args.optimizer.learning_rate, weight_decay=0.01)
    student.set_lr_scheduler("default", lr_decay_steps=args.training.max_steps)
    student.set_loss(GKDLoss(beta=args.rl.gkd_beta, temperature=args.rl.gkd_temperature))
    student.set_template("Template", model_id=STUDENT)
    teacher = vLLMSampler(model_id=TEACHER, engine_args={"max_model_len": 512, "logprobs_mode": "raw_logprobs", "max_logprobs": 64, "dtype": "float32"})
    teacher.set_template(Template, model_id=TEACHER)
    found = []
    for _, batch in zip(range(args.training.max_steps), DataLoader(dataset=create_dataset, batch_size=args.training.batch_size)):
        responses = teacher.sample(batch, SamplingParams(max_tokens=0, temperature=1.0, prompt_logprobs=TOPK, num_samples=1))
        rows = [sequence.new_input_feature for response in responses for sequence in response.sequences]
        loss = student.forward_backward(inputs=rows, micro_batch_size=args.training.micro_batch_size, **teacher_output(responses))["loss"]
        found.append({"loss": loss, "grad_norm": student.clip_grad_and_step()})
    student.save("gkd", output_dir="output", merge_lora=True)
    print("RESULT", json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
