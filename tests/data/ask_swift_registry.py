"""Runs inside a Python that has ms-swift: writes what its registries know to argv[1]."""
import json
import os
import sys

os.environ.setdefault("LOG_LEVEL", "ERROR")
from swift.agent_template import agent_template_map  # noqa: E402
from swift.loss_scale import loss_scale_map  # noqa: E402
from swift.model import MODEL_MAPPING  # noqa: E402
from swift.template import TEMPLATE_MAPPING  # noqa: E402

models = [{"id": id, "architectures": meta.architectures, "template": str(group.template or meta.template), "sees": bool(meta.is_multimodal)}
          for meta in MODEL_MAPPING.values() for group in meta.model_groups for model in group.models for id in {model.ms_model_id, model.hf_model_id} if id]
json.dump({"models": models, "templates": sorted(map(str, TEMPLATE_MAPPING)), "agents": sorted(agent_template_map), "loss_scales": sorted(loss_scale_map)}, open(sys.argv[1], "w"))
