"""Decision data as ms-swift has it: rows after its preprocessor, and the loss of the first ones by its model and losses. Arguments: a JSON file, where to write."""
import json
import random
import sys


def rows_of(records, change, seed):
    import numpy as np
    from swift.dataset.preprocessor.decision import DecisionAugmentConfig, GenericDecisionPreprocessor
    preprocessor = GenericDecisionPreprocessor(augment_config=DecisionAugmentConfig(**change) if change else None)
    preprocessor._augment_rng = random.Random(int(np.random.RandomState(seed).randint(0, np.iinfo(np.int32).max)))  # load_dataset's
    rows = []
    for record in json.loads(json.dumps(records)):
        rows += preprocessor.preprocess(record) or []
    return rows


def losses_of(folder, rows, names):
    import torch
    from swift.loss import loss_map
    from swift.model import get_model_processor
    from swift.template import get_template
    model, processor = get_model_processor(folder, load_model=True, model_type="generic_decision", task_type="decision", torch_dtype=torch.float32)
    template = get_template(processor, template_type="generic_decision")
    template.set_mode("train")
    template.task_type, template.model = "decision", model
    data = template.data_collator([template.encode(row) for row in rows])
    labels = data.pop("labels")
    inputs = {name: data[name] for name in ("input_ids", "attention_mask", "position_ids", "decision_meta") if name in data}
    with torch.no_grad():
        output = model(**inputs)
        return [loss_map[name](None, type("NoTrainer", (), {})())(output, labels).item() for name in names]


if __name__ == "__main__":
    question = json.load(open(sys.argv[1]))
    rows = [rows_of(question["records"], change, question["seed"]) for change in question["changes"]]
    losses = losses_of(question["model"], rows[0][:3], question["losses"])
    json.dump({"rows": rows, "losses": losses}, open(sys.argv[2], "w"))
