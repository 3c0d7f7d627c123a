"""Preference training as in Twinkle's guide: a policy in two pipeline stages, a remote reference whose outputs are never fetched. Prints the losses."""
import json

from peft import LoraConfig

import twinkle
from twinkle import DeviceGroup, DeviceMesh, get_logger
from twinkle.cli import CLI
from twinkle.dataloader import DataLoader
from twinkle.dataset import Dataset, DatasetMeta
from twinkle.loss import DPOLoss
from twinkle.metric import DPOMetric
from twinkle.model import MegatronModel
from twinkle.preprocessor import EmojiDPOProcessor
from twinkle.processor import InputProcessor

args = CLI.from_args()
MODEL, BETA = args.model.model_id, args.loss.beta


def create_dataset():
    dataset = Dataset(DatasetMeta(args.dataset.dataset_id, data_slice=range(16)))
    dataset.set_template("Template", model_id=MODEL, max_length=args.template.max_length)
    dataset.map(EmojiDPOProcessor, init_args={"system": "You are a helpful assistant."})
    dataset.encode(load_from_cache_file=True)
    return dataset


def pairs(batch):
    return [{**{name: value for name, value in row.items() if name not in ("positive", "negative")}, **row[side]} for row in batch for side in ("positive", "negative")]


def main():
    groups = [DeviceGroup(name="policy", ranks=[0, 1], device_type="GPU"), DeviceGroup(name="reference", ranks=[2], device_type="GPU")]
    mesh = DeviceMesh.from_sizes(world_size=2, dp_size=1, pp_size=2, vpp_size=2)
    twinkle.initialize(mode="ray", nproc_per_node=3, groups=groups)
    dataloader = DataLoader(dataset=create_dataset, batch_size=args.training.batch_size, min_batch_size=args.training.batch_size, device_mesh=mesh)
    policy = MegatronModel(model_id=MODEL, device_mesh=mesh, remote_group="policy", mixed_precision="no", variable_seq_lengths=True)
    policy.add_adapter_to_model("default", LoraConfig(target_modules="all-linear", r=8, lora_alpha=32))
    policy.set_optimizer("default", lr=args.optimizer.learning_rate, weight_decay=0.01, adapter_name="default")
    policy.set_lr_scheduler("default", lr_decay_steps=len(dataloader), adapter_name="default")
    policy.set_loss(DPOLoss(beta=BETA, loss_type=args.loss.loss_type, reference_free=False, sft_weight=0.0))
    policy.add_metric(DPOMetric, beta=BETA)
    policy.set_processor(InputProcessor, padding_free=True)
    policy.set_template("Template", model_id=MODEL)
    reference = MegatronModel(model_id=MODEL, device_mesh=DeviceMesh.from_sizes(world_size=1, dp_size=1), remote_group="reference", mixed_precision="no")
    reference.set_processor(InputProcessor)
    reference.set_template("Template", model_id=MODEL)
    found = []
    for batch in dataloader:
        rows = pairs(batch)
        outputs = reference.forward_only(inputs=rows)
        assert callable(outputs)
        base = policy.forward_only(inputs=rows, disable_lora=True)
        assert abs(base()["logps"] - outputs()["logps"]).max() < 1e-3
        loss = policy.forward_backward(inputs=rows, ref_outputs=outputs)()["loss"]
        norm = policy.clip_grad_and_step()()
        found.append({**policy.calculate_metric(is_training=True), "loss": loss, "grad_norm": norm})
    policy.save("dpo", output_dir="output")
    get_logger().info("done")
    print("RESULT", json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
