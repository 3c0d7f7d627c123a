"""Losses of rows with ms-swift's template, model and loss. Arguments: a JSON file with {model, rows, task, loss, labels} each, the output file."""
import json
import sys


def loss_of(case):
    import torch
    from swift.loss import loss_map
    from swift.model import get_model_processor
    from swift.template import get_template
    model, processor = get_model_processor(case["model"], load_model=True, model_type="qwen2", task_type=case["task"], torch_dtype=torch.float32, num_labels=case["labels"])
    template = get_template(processor, template_type="qwen2_5")
    template.set_mode("train")
    template.task_type, template.model = case["task"], model
    data = template.data_collator([template.encode(row) for row in case["rows"]])
    labels = data.pop("labels")
    inputs = {name: data[name] for name in ("input_ids", "attention_mask", "position_ids") if name in data}
    with torch.no_grad():
        if not case["loss"]:
            return model(**inputs, labels=labels).loss.item()
        return loss_map[case["loss"]](None, type("NoTrainer", (), {})())(model(**inputs), labels).item()


if __name__ == "__main__":
    json.dump([loss_of(case) for case in json.load(open(sys.argv[1]))], open(sys.argv[2], "w"))
