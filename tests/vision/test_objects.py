"""Boxes and names of what is in images: written as ms-swift's templates write them, in the coordinates that the model sees."""

import transformers
from PIL import Image

from media_runs import trace

OBJECTS = {"ref": ["a cat", "a dog"], "bbox": [[100, 45, 20, 9], [150, 90]], "image_id": [0, 1]}
QUESTION, ANSWER = "<image><image>Where is <ref-object>? <bbox>?", "<ref-object> at <bbox> <bbox>"


def box(values, size, target):
    """ms-swift's normalize_bbox, corners in order."""
    if len(values) == 4:
        values = [min(values[0], values[2]), min(values[1], values[3]), max(values[0], values[2]), max(values[1], values[3])]
    return [int(round(value / size[i % 2] * target[i % 2])) for i, value in enumerate(values)]


def boxed(tmp_path, model, objects, **asked):
    row = {"messages": [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": ANSWER}], "images": [str(tmp_path / "a.png"), str(tmp_path / "b.png")],
           "objects": objects}
    return trace(model, tmp_path, [row], **asked)


def test_boxes_and_names(folders, tmp_path):
    model = folders("qwen2_5_vl")
    Image.new("RGB", (150, 90)).save(tmp_path / "a.png")
    Image.new("RGB", (300, 120)).save(tmp_path / "b.png")
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    sizes, seen = [(150, 90), (300, 120)], [(140, 84), (308, 112)]  # 28 pixels are a cell
    legacy = [lambda name: f"<|object_ref_start|>{name}<|object_ref_end|>", lambda values: "<|box_start|>" + ",".join(f"({x},{y})" for x, y in zip(values[::2], values[1::2])) + "<|box_end|>"]
    cases = [({}, seen, legacy, OBJECTS), ({"norm_bbox": "norm1000"}, [(1000, 1000)] * 2, legacy, OBJECTS), ({"plain_boxes": True}, seen, [str, str], OBJECTS),
             ({}, seen, legacy, {"ref": OBJECTS["ref"], "bbox": [[0.5, 0.25], [0.1, 0.2, 0.3, 0.4]], "bbox_type": "norm1"})]
    for asked, targets, (name, write), objects in cases:
        done, batch = boxed(tmp_path, model, objects, template="qwen2_5_vl", **asked)
        assert done.returncode == 0, done.stderr
        text = tokenizer.decode(batch["tokens"])
        places = [(1, 1)] * 2 if objects.get("bbox_type") else sizes
        ids = objects.get("image_id", [0, 0])
        first, second = (write(box(values, places[i], targets[i])) for values, i in zip(objects["bbox"], ids))
        assert f"Where is {name('a cat')}? {first}?<|im_end|>" in text and f"{name('a dog')} at {second} <bbox><|im_end|>" in text, text
    for objects, reason in (({"bbox": [[1, 2, 3]]}, "expected [x1, y1, x2, y2]"), ({"bbox": [[1, 2]], "image_id": [7]}, "image_id 7"), ({"bbox": 3}, "not a list"), ([], "expected an object")):
        done, _ = boxed(tmp_path, model, objects, template="qwen2_5_vl")
        assert done.returncode == 3 and reason in done.stderr, done.stderr
