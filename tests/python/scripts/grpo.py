"""GRPO as Twinkle's guide goes about it: a remote class of the script's own with model and sampler side by side, and a reference elsewhere."""
import json
import os

import numpy as np
from peft import LoraConfig

import twinkle
from twinkle import DeviceMesh, get_device_placement
from twinkle.dataloader import DataLoader
from twinkle.dataset import Dataset, DatasetMeta
from twinkle.infra import DeviceGroup, remote_class, remote_function
from twinkle.model import TransformersModel
from twinkle.reward import MathReward
from twinkle.rl import compute_advantages
from twinkle.sampler import TorchSampler, VLLMSampler
from twinkle.sampler.types import SampleResponse, SamplingParams
from twinkle.weight_loader import NativeLoader

MODEL = os.environ["TWINKLE_MODEL_ID"]
GENERATIONS = 2


def merged(responses):
    return SampleResponse(sequences=[sequence for response in responses for sequence in response.sequences])


@remote_class()
class Actors:
    def __init__(self, engine_args=None, lora_config=None, adapter_name=None, **kwargs):
        self.sampler = VLLMSampler(MODEL, engine_args=engine_args, device_mesh=actor_mesh) if engine_args else TorchSampler(MODEL, device_mesh=actor_mesh)
        self.sampler.add_adapter_to_sampler(adapter_name, lora_config)
        self.sampler.set_template("Template", adapter_name=adapter_name, model_id=MODEL, max_length=512)
        self.model = TransformersModel(model_id=MODEL, remote_group="actor", device_mesh=actor_mesh)
        self.model.add_adapter_to_model(adapter_name, lora_config)
        self.model.set_loss("GRPOLoss", epsilon=0.2, beta=0.0, num_generations=GENERATIONS)
        self.model.set_optimizer("AdamW", lr=1e-2)
        self.model.set_lr_scheduler("LinearLR")
        self.model.set_template("Template", max_length=512, truncation_strategy="right")
        self.model.set_processor("GRPOLossProcessor")
        self.loader = NativeLoader()
        self.adapter_name = adapter_name

    @remote_function(collect=merged)
    def sample(self, batch, sampling_params=None):
        return self.sampler.sample(batch, sampling_params=sampling_params, adapter_name=self.adapter_name)

    @remote_function()
    def forward_backward(self, inputs, trajectories, ref_logps=None):
        return self.model.forward_backward(inputs=inputs, trajectories=trajectories, ref_logps=ref_logps)

    @remote_function()
    def update(self):
        norm = self.model.clip_grad_and_step()
        self.loader(self.model, self.sampler, self.adapter_name)
        return norm


def create_dataset():
    dataset = Dataset(DatasetMeta(os.environ["DATASET"]))
    dataset.set_template("Template", model_id=MODEL, max_length=512, truncation_strategy="right")
    dataset.map("CompetitionMathGRPOProcessor")
    dataset.check(batched=True)
    return dataset


def train():
    global actor_mesh
    actor_mesh = DeviceMesh(device_type="npu", mesh=np.array([2]), mesh_dim_names=("dp",))
    ref_mesh = DeviceMesh(device_type="npu", mesh=np.array([1]), mesh_dim_names=("dp",))
    groups = [DeviceGroup(name="actor", ranks=[0, 1], device_type="npu"), DeviceGroup(name="ref", ranks=[2], device_type="npu")]
    twinkle.initialize(mode="ray", groups=groups, nproc_per_node=3)
    dataloader = DataLoader(create_dataset, batch_size=2, remote_group="actor", device_mesh=actor_mesh)
    actors = Actors({"model": MODEL, "enable_lora": True, "max_model_len": 512}, remote_group="actor",
                    lora_config=LoraConfig(target_modules=["q_proj", "k_proj", "v_proj", "o_proj"]), adapter_name="default")
    reference = TransformersModel(model_id=MODEL, remote_group="ref", device_mesh=ref_mesh)
    reference.set_processor("InputProcessor")
    reference.set_template("Template", max_length=512)
    reward = MathReward()
    print(get_device_placement())
    report = []
    for _, batch in zip(range(2), dataloader):
        rows = [row for row in batch for _ in range(GENERATIONS)]
        answers = actors.sample(rows, SamplingParams(max_tokens=12, temperature=1.0, top_p=0.95))
        lazy = callable(answers)
        answers = answers() if lazy else answers
        trajectories = [{"messages": [*row["messages"][:-1], {"role": "assistant", "content": sequence.decoded or "?"}], "user_data": row["user_data"]}
                        for row, sequence in zip(rows, answers.sequences)]
        logps = reference.forward_only(inputs=trajectories)
        logps = (logps() if callable(logps) else logps)["logps"]
        rewards = reward(trajectories, rows)
        rewards[0] += 2.0  # so that answers differ
        for trajectory, advantage in zip(trajectories, compute_advantages(rewards, num_generations=GENERATIONS, scale="group").tolist()):
            trajectory["advantages"] = advantage
        loss = actors.forward_backward(trajectories, trajectories, list(logps))
        loss = [output["loss"] for output in (loss() if callable(loss) else loss)]
        norm = actors.update()
        report.append({"rewards": rewards, "loss": loss, "norm": norm() if callable(norm) else norm, "lazy": lazy, "rows": len(trajectories)})
    print("RESULT", json.dumps(report), flush=True)


if __name__ == "__main__":
    train()
