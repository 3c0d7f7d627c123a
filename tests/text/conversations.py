"""Random conversations of every shape chat templates meet."""
import random

TEXTS = [
    "Hello!", "你好，世界", "emoji 👩‍👩‍👧 ok 🚀", "  padded  ", "line one\nline two\n", "<b>&\"quotes\"'</b>", "a\\b\t{}", "",
    "<think>\nhm\n</think>\n\nanswer", "2 + 2 = 4", "<tool_call>x</tool_call>", "Привет", "مرحبا",
]
TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "Weather of a city — 天气", "parameters": {
        "type": "object", "properties": {"city": {"type": "string", "description": "the city"},
                                          "unit": {"type": "string", "enum": ["c", "f"]},
                                          "days": {"type": ["integer", "null"], "description": "how many", "default": 3}},
        "required": ["city"]}}},
    {"type": "function", "function": {"name": "search", "description": "Finds things", "parameters": {
        "type": "object", "properties": {"query": {"type": "string", "description": "words"},
                                          "tags": {"type": "array", "items": {"type": "string"}, "description": "tags"},
                                          "deep": {"type": "object", "properties": {"x": {"type": "number", "description": "x"}}}}},
        "return": {"type": "object", "description": "what was found"}}},
    {"type": "function", "function": {"name": "now", "description": "The time", "parameters": {"type": "object", "properties": {}}}},
]
ARGUMENTS = [{"city": "北京", "unit": "c", "days": 2}, {"query": "a \"b\"", "tags": ["x", "y"], "deep": {"x": 1.5}}, {}, {"flag": True, "none": None}]


def content(rng, parts_allowed):
    text = rng.choice(TEXTS)
    if not parts_allowed or rng.random() < 0.75:
        return text
    parts = [{"type": "text", "text": text}]
    if rng.random() < 0.3:
        parts.insert(0, {"type": "image"})
    if rng.random() < 0.3:
        parts.append({"type": "text", "text": rng.choice(TEXTS)})
    return parts


def assistant(rng, with_tools):
    message = {"role": "assistant", "content": content(rng, rng.random() < 0.3)}
    if rng.random() < 0.3:
        message["reasoning_content"] = rng.choice(TEXTS)
    if with_tools and rng.random() < 0.6:
        calls = []
        for i in range(rng.choice([1, 1, 2])):
            arguments = rng.choice(ARGUMENTS)
            name = rng.choice(TOOLS)["function"]["name"]
            function = {"name": name, "arguments": arguments if rng.random() < 0.7 else '{"city": "Paris"}'}
            calls.append({"type": "function", "id": f"call{i:05d}", "function": function})
        message["tool_calls"] = calls
        message["content"] = rng.choice(["", None, message["content"]])
    return message


def conversation(rng):
    messages = []
    with_tools = rng.random() < 0.5
    parts = rng.random() < 0.3
    if rng.random() < 0.5:
        messages.append({"role": rng.choice(["system", "system", "developer"]), "content": content(rng, parts)})
    for _ in range(rng.randint(1, 4)):
        messages.append({"role": "user", "content": content(rng, parts)})
        reply = assistant(rng, with_tools)
        messages.append(reply)
        for call in reply.get("tool_calls", []):
            answer = {"role": "tool", "content": rng.choice(['{"ok": true}', "22 度", "plain"]), "name": call["function"]["name"]}
            answer["tool_call_id"] = call["id"]
            messages.append(answer)
        if reply.get("tool_calls"):
            messages.append({"role": "assistant", "content": rng.choice(TEXTS)})
    if rng.random() < 0.7 and messages[-1]["role"] == "assistant":
        messages.append({"role": "user", "content": content(rng, parts)})
    if rng.random() < 0.05:
        rng.shuffle(messages)
    return messages


def request(seed):
    rng = random.Random(seed)
    result = {"messages": conversation(rng), "add_generation_prompt": rng.random() < 0.5}
    if rng.random() < 0.5:
        result["tools"] = rng.sample(TOOLS, rng.randint(1, 3))
    if rng.random() < 0.2:
        result["documents"] = [{"title": "Doc", "text": "内容"}, {"title": "Two", "text": "b"}]
    variables = {"bos_token": "<s>", "eos_token": "</s>"}
    if rng.random() < 0.5:
        variables["enable_thinking"] = rng.random() < 0.5
    if rng.random() < 0.5:      # what one published template insists on
        variables |= {"functions": "[]", "datetime": "2025-01-01"}
    for name, choices in {"thinking": [True, False], "reasoning_effort": ["low", "high"], "custom_tools": [None],
                          "tools_in_user_message": [True, False], "date_string": ["1 Jan 2025"], "xml_tools": [None],
                          "preserve_thinking": [True]}.items():
        if rng.random() < 0.15:
            variables[name] = rng.choice(choices)
    result["vars"] = variables
    return result
