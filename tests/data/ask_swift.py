"""Runs inside a Python that has ms-swift: encodes the rows of argv[1] with it and writes ids and labels to argv[2]."""
import functools
import json
import os
import sys

os.environ.setdefault("LOG_LEVEL", "ERROR")
from swift.model import get_processor  # noqa: E402
from swift.template import get_template  # noqa: E402

get_processor = functools.cache(get_processor)


def encode(template, row):
    inputs = {"messages": row["messages"]}
    if row.get("tools"):
        inputs["tools"] = row["tools"]
    if "rejected" in row:
        inputs["rejected_messages"] = row["rejected"]
        if row.get("tools"):
            inputs["rejected_tools"] = row["tools"]
    inputs.update(row.get("extra", {}))
    if row.get("prompt"):
        template.set_mode("transformers")
        return {"ids": template.encode(inputs)["input_ids"]}
    template.set_mode("rlhf" if "rejected" in row else "train")
    out = template.encode(inputs)
    if "rejected" in row:
        return {"ids": out["chosen_input_ids"], "labels": out["chosen_labels"], "rejected_ids": out["rejected_input_ids"],
                "rejected_labels": out["rejected_labels"]}
    parts = out if isinstance(out, list) else [out]
    return {"ids": [p["input_ids"] for p in parts], "labels": [p["labels"] for p in parts],
            "loss_scale": [p.get("loss_scale") or [] for p in parts]}


def template_of(request):
    config = request["config"]
    processor = get_processor(request["model"], model_type=request["model_type"])
    from swift.template.register import TEMPLATE_MAPPING
    meta = TEMPLATE_MAPPING[config["template"]]
    loss_scale = config.get("loss_scale", "default")
    if meta.is_thinking and meta.non_thinking_prefix and "ignore_empty_think" not in loss_scale:
        loss_scale += "+ignore_empty_think"  # what the command line adds for hybrid models
    return get_template(
        processor, config.get("system"), config.get("max_length") or None, template_type=config["template"],
        truncation_strategy={"drop": "raise"}.get(config.get("truncation", "drop"), config.get("truncation")),
        agent_template=config.get("tool_format") or None, use_chat_template=config.get("use_chat_template", True),
        loss_scale=loss_scale, enable_thinking=config.get("enable_thinking"), preserve_thinking=config.get("preserve_thinking"))


answers = []
for request in json.load(open(sys.argv[1])):
    template = template_of(request)
    rows = []
    for row in request["rows"]:
        try:
            rows.append(encode(template, json.loads(json.dumps(row))))
        except Exception as problem:  # a refusal is an answer too
            rows.append({"error": repr(problem)})
    answers.append(rows)
json.dump(answers, open(sys.argv[2], "w"))
