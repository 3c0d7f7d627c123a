"""Supervised fine-tuning as Twinkle's guide goes about it: Ray, four devices, two copies of two shards. Prints the losses."""
import json
import os

import numpy as np
from peft import LoraConfig
from torch.optim import AdamW

import twinkle
from twinkle import DeviceGroup, DeviceMesh, Platform, get_device_placement, get_logger
from twinkle.cli import CLI
from twinkle.dataloader import DataLoader
from twinkle.dataset import Dataset, DatasetMeta
from twinkle.loss import CrossEntropyLoss
from twinkle.model import TransformersModel
from twinkle.processor import InputProcessor

MODEL = "ms://Qwen/Qwen2.5-7B-Instruct"
MODE = os.environ.get("MODE", "ray")
STEPS = 4
logger = get_logger()
args = CLI.from_args()

if MODE == "ray":
    mesh = DeviceMesh(device_type="npu", mesh=np.array([[0, 1], [2, 3]]), mesh_dim_names=("dp", "fsdp"))
    groups = [DeviceGroup(name="model", ranks=[0, 1, 2, 3], device_type=Platform.get_platform().device_prefix())]
    twinkle.initialize(mode="ray", nproc_per_node=4, groups=groups, global_device_mesh=mesh, lazy_collect=False)
else:
    mesh = DeviceMesh.from_sizes(dp_size=args.infra.dp_size, fsdp_size=args.infra.fsdp_size)
    twinkle.initialize(mode="local", global_device_mesh=mesh)


def train():
    dataset = Dataset(dataset_meta=DatasetMeta("ms://modelscope/competition_math"))
    dataset.set_template("Template", model_id=MODEL)
    dataset.map("CompetitionMathProcessor")
    dataset.encode(batched=True)
    place = {"remote_group": "model"} if MODE == "ray" else {}
    dataloader = DataLoader(dataset=dataset, batch_size=8, **place)
    model = TransformersModel(model_id=MODEL, mixed_precision="no", **place)
    model.add_adapter_to_model("default", LoraConfig(target_modules="all-linear", lora_alpha=32), gradient_accumulation_steps=1)
    model.set_template("Template")
    model.set_processor(InputProcessor, padding_side="right")
    model.set_loss(CrossEntropyLoss)
    model.set_optimizer(AdamW, lr=1e-3)
    model.set_lr_scheduler("CosineWarmupScheduler", num_warmup_steps=0, num_training_steps=STEPS)
    logger.info(get_device_placement())
    logger.info(model.get_train_configs())
    losses, norms = [], []
    for _, batch in zip(range(STEPS), dataloader):
        losses.append(model.forward_backward(inputs=batch)["loss"])
        norms.append(model.clip_grad_norm(1.0))
        model.step()
        model.zero_grad()
        model.lr_step()
    outputs = model.forward_only(inputs=batch)
    model.calculate_loss()
    evaluation = {**model.calculate_metric(is_training=False), "rows": list((outputs() if callable(outputs) else outputs)["logps"].shape)}
    folder = model.save("last", output_dir="output", save_optimizer=True, consumed_train_samples=dataloader.get_state()["consumed_train_samples"])
    if twinkle.is_master():
        print("RESULT", json.dumps({"losses": losses, "norms": norms, "folder": folder, "metric": model.calculate_metric(is_training=True), "evaluation": evaluation}), flush=True)
    else:
        model.calculate_metric(is_training=True)


if __name__ == "__main__":
    train()
