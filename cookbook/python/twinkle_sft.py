"""Teaches the embedded model with Twinkle's interface: python cookbook/python/twinkle_sft.py

On four processes: torchrun --nproc_per_node 4 cookbook/python/twinkle_sft.py
"""
from peft import LoraConfig

import hone.twinkle as twinkle
from hone.twinkle import DeviceMesh, Platform, get_logger
from hone.twinkle.dataloader import DataLoader
from hone.twinkle.dataset import Dataset, DatasetMeta
from hone.twinkle.model import TransformersModel

MODEL, EPOCHS = "models/nano", 2
twinkle.initialize(mode="local", global_device_mesh=DeviceMesh.from_sizes(fsdp_size=Platform.get_world_size()))

dataset = Dataset(DatasetMeta("data/demo.jsonl"))
dataset.set_template("Template", model_id=MODEL)
dataset.encode()
dataloader = DataLoader(dataset, batch_size=8, shuffle=True)

model = TransformersModel(model_id=MODEL)
model.add_adapter_to_model("default", LoraConfig(r=16, lora_alpha=32, target_modules="all-linear"))
model.set_optimizer("AdamW", lr=2e-3)
model.set_lr_scheduler("CosineWarmupScheduler", num_warmup_steps=1, num_training_steps=EPOCHS * len(dataloader))
for _ in range(EPOCHS):
    for batch in dataloader:
        model.forward_backward(inputs=batch)
        model.clip_grad_and_step()
        get_logger().info(model.calculate_metric(is_training=True))
print(model.save("taught", output_dir="output/twinkle"))  # PEFT's files; `hone infer --adapters` reads them
