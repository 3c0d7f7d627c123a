"""Requests that the field table rejects, sent to a server route by route."""
import json

GOOD = {"/v1/chat/completions": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}, "/v1/completions": {"prompt": "hi", "max_tokens": 1},
        "/v1/embeddings": {"input": "hi"}, "/v1/messages": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}, "/tokenize": {"prompt": "hi"},
        "/detokenize": {"tokens": [1]}, "/v1/load_lora_adapter": {"lora_name": "x", "lora_path": "y"}, "/v1/unload_lora_adapter": {"lora_name": "x"},
        "/v1/responses": {"input": "hi", "max_output_tokens": 1}, "/generate/": {"prompts": [[1]], "max_tokens": 1},
        "/infer/": {"infer_requests": [{"messages": [{"role": "user", "content": "hi"}]}], "request_config": {"max_tokens": 1}}}
JUDGED = {"/v1/classify": {"input": "hi"}, "/v1/rerank": {"query": "a", "documents": ["b"]}, "/v1/score": {"text_1": "a", "text_2": "b"},
          "/v1/score/evaluation": {"messages": ["a"]}}
GOOD |= JUDGED


def wrong_values(schema):
    """Values that the table says are not allowed, written as JSON text."""
    yield from ("NaN", "Infinity", "-Infinity", "1e999", '{"a":' * 10000 + "1" + "}" * 10000)
    kinds = {schema.get("type")} | {s["type"] for s in schema.get("anyOf", [])}
    if "string" not in kinds:
        yield '"text"'
    if "boolean" not in kinds:
        yield "true"
    if not kinds & {"number", "integer"}:
        yield "5"
    if "array" not in kinds:
        yield "[1]"
    if "object" not in kinds:
        yield '{"a": 1}'
    if "minimum" in schema and abs(schema["minimum"]) < 1e15:
        yield json.dumps(schema["minimum"] - 1)
        yield json.dumps(schema["maximum"] + 1)
    if "maxLength" in schema and schema["maxLength"] < 1e6:
        yield json.dumps("x" * (schema["maxLength"] + 1))
    if "maxItems" in schema and schema["maxItems"] < 1e5:
        yield json.dumps([0] * (schema["maxItems"] + 1))
    if "maxProperties" in schema:
        yield json.dumps({f"k{i}": 1 for i in range(schema["maxProperties"] + 1)})


def refuse_wrong_fields(server, paths):
    """Every field of these routes with every value that the served table does not allow; returns how many were tried."""
    document = json.loads(server.get("/openapi.json")[2])
    assert set(document["paths"]) == set(GOOD), "each route has a good request here"
    tried = 0
    for path in sorted(paths):
        schema = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        for name, field in schema["properties"].items():
            good = {k: v for k, v in GOOD[path].items() if k != name}
            start = json.dumps(good)[:-1] + (", " if good else "")
            for value in wrong_values(field):
                status, _, body = server.post(path, f'{start}"{name}": {value}}}'.encode())
                assert 400 <= status < 500, f"{path} {name}={value[:60]}: {status} {body[:300]}"
                assert "error" in json.loads(body)
                tried += 1
        for extra in ('"unheard_of": 1}', '"model": "nano", "model": "nano"}'):
            status, _, _ = server.post(path, (json.dumps(GOOD[path])[:-1] + ", " + extra).encode())
            assert 400 <= status < 500, f"{path} {extra}"
    return tried
