"""Run by a Python with ms-swift: the rounds of its thinking_tips_scheduler for given completions, and the prompts that its template renders for them."""
import asyncio
import json
import sys
from types import SimpleNamespace

import swift.rollout.multi_turn as multi_turn
from swift.infer_engine.protocol import RolloutInferRequest
from swift.model import get_processor
from swift.template import get_template

asked = json.loads(open(sys.argv[1]).read())
template = get_template(get_processor(asked["model"], model_type="qwen3"), template_type="qwen3", enable_thinking=True)
template.set_mode("transformers")


class Engine:
    """Answers with the given completions, and keeps the prompts that it would have read."""
    template = template

    def __init__(self, completions):
        self.completions, self.prompts = list(completions), []

    async def infer_async(self, request, config, **kwargs):
        self.prompts.append(template.encode({"messages": [dict(message) for message in request.messages]})["input_ids"])
        message = SimpleNamespace(content=self.completions[len(self.prompts) - 1])
        return SimpleNamespace(choices=[SimpleNamespace(message=message, finish_reason="stop", token_ids=[], logprobs=None)], id="")


multi_turn.RolloutOutput = lambda **fields: fields  # a response without token ids is enough here
answers = []
for episode in asked["episodes"]:
    engine = Engine(episode["completions"])
    right = episode["right"]
    scheduler = multi_turn.ThinkingModelTipsScheduler(infer_engine=engine, max_turns=asked["max_turns"], acc_function=lambda completions, solutions: [float(completions[0] in right)])
    request = RolloutInferRequest(messages=episode["messages"], data_dict={"solution": ""})
    rounds = asyncio.run(scheduler.run(request, None))
    answers.append({"rounds": len(rounds), "prompts": engine.prompts})
open(sys.argv[2], "w").write(json.dumps(answers))
