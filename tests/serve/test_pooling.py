"""Pooling models on the server: classes, scores, reranking and embeddings equal to transformers."""
import json
import shutil

import pytest
import torch

from field_testing import refuse_wrong_fields
from serve_testing import MODEL, Server

PLAIN = ("--use_chat_template", "false")


def classifier(folder, labels):
    from transformers import AutoModelForSequenceClassification, AutoTokenizer
    torch.manual_seed(labels)
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    model = AutoModelForSequenceClassification.from_pretrained(MODEL, num_labels=labels, pad_token_id=tokenizer.pad_token_id, dtype=torch.float32)
    model.score.weight.data.normal_(0, 0.3)
    model.save_pretrained(folder)
    for file in MODEL.iterdir():
        if file.name.startswith(("tokenizer", "vocab", "merges", "chat_template", "special_tokens")):
            shutil.copy(file, folder / file.name)
    return tokenizer, model.eval()


def answer(server, path, body, status=200):
    code, _, text = server.post(path, body)
    assert code == status, text
    return json.loads(text)


def test_classes_by_chat_and_by_route(tmp_path):
    tokenizer, model = classifier(tmp_path / "model", 3)
    texts = ["the cat sleeps", "one two three", "red and blue"]
    with torch.no_grad():
        wanted = [model(**tokenizer([text], return_tensors="pt")).logits[0].softmax(0) for text in texts]
    server = Server(*PLAIN, model=tmp_path / "model")
    try:
        found = answer(server, "/v1/classify", {"input": texts})["data"]
        assert [row["label"] for row in found] == [row.argmax().item() for row in wanted]
        assert [value for row in found for value in row["probs"]] == pytest.approx(torch.cat(wanted).tolist(), abs=1e-4)
        chat = answer(server, "/v1/chat/completions", {"messages": [{"role": "user", "content": texts[0]}], "logprobs": True, "top_logprobs": 2})["choices"][0]
        assert chat["message"]["content"] == wanted[0].argmax().item()
        assert chat["logprobs"]["content"][0]["logprobs"] == pytest.approx(wanted[0].max().log().item(), abs=1e-3)
        assert refuse_wrong_fields(server, ["/v1/classify"]) > 10
        assert "is not a generative model" in answer(server, "/v1/completions", {"prompt": "the"}, 400)["error"]["message"]
        assert "reranker" in answer(server, "/v1/rerank", {"query": "a", "documents": ["b"]}, 400)["error"]["message"]
    finally:
        server.stop()


def test_a_reranker_ranks_and_scores(tmp_path):
    tokenizer, model = classifier(tmp_path / "model", 1)
    query, documents = "who sleeps? ", ["the cat", "nobody at all", "a river"]
    with torch.no_grad():
        scores = [model(torch.tensor([tokenizer(query).input_ids + tokenizer(text).input_ids + [tokenizer.eos_token_id]])).logits[0, 0].sigmoid().item() for text in documents]
    server = Server(*PLAIN, "--task_type", "reranker", model=tmp_path / "model")
    try:
        ranked = answer(server, "/v1/rerank", {"query": query, "documents": documents, "top_n": 2})["results"]
        order = sorted(range(3), key=lambda i: -scores[i])
        assert refuse_wrong_fields(server, ["/v1/rerank", "/v1/score"]) > 20
        assert [row["index"] for row in ranked] == order[:2] and ranked[0]["document"]["text"] == documents[order[0]]
        assert [row["relevance_score"] for row in ranked] == pytest.approx([scores[i] for i in order[:2]], abs=1e-4)
        pairs = answer(server, "/v1/score", {"text_1": query, "text_2": documents})["data"]
        assert [row["score"] for row in pairs] == pytest.approx(scores, abs=1e-4)
    finally:
        server.stop()


def test_reward_models_of_both_kinds_score_texts(tmp_path):
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM
    tokenizer, model = classifier(tmp_path / "scores", 1)
    writer = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
    head = {"v_head.summary.weight": torch.randn(1, writer.config.hidden_size) * 0.3, "v_head.summary.bias": torch.tensor([0.5])}
    shutil.copytree(MODEL, tmp_path / "values")
    save_file(head, tmp_path / "values/value_head.safetensors")
    texts = ["the cat sleeps", "one two three four"]
    ids = [torch.tensor([tokenizer(text, add_special_tokens=False).input_ids]) for text in texts]
    with torch.no_grad():
        wanted = {"scores": [model(text).logits.item() for text in ids],
                  "values": [(writer(text, output_hidden_states=True).hidden_states[-1][0, -1] @ head["v_head.summary.weight"][0] + 0.5).item() for text in ids]}
    for name, options in {"scores": (), "values": ("--task_type", "seq_cls", "--num_labels", "1", "--torch_dtype", "float32")}.items():
        server = Server(*PLAIN, *options, model=tmp_path / name)
        try:
            found = answer(server, "/v1/score/evaluation", {"model": name, "messages": texts})
            assert found["object"] == "score.evaluation" and found["scores"] == pytest.approx(wanted[name], abs=1e-4)
            chat = answer(server, "/v1/chat/completions", {"messages": [{"role": "user", "content": texts[0]}]})
            assert chat["choices"][0]["message"]["content"] == pytest.approx(wanted[name][0], abs=1e-4)
            if name == "scores":
                assert refuse_wrong_fields(server, ["/v1/score/evaluation"]) > 10
        finally:
            server.stop()


def test_embeddings_of_an_embedding_model_read_the_template():
    from transformers import AutoModelForCausalLM, AutoTokenizer
    tokenizer, model = AutoTokenizer.from_pretrained(MODEL), AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
    server = Server("--task_type", "embedding", "--template", "jinja", "--torch_dtype", "float32")
    try:
        found = answer(server, "/v1/embeddings", {"input": "the cat sleeps"})["data"][0]["embedding"]
        ids = tokenizer.apply_chat_template([{"role": "user", "content": "the cat sleeps"}], add_generation_prompt=True, return_tensors="pt", return_dict=True)["input_ids"]
        with torch.no_grad():
            wanted = torch.nn.functional.normalize(model.model(ids).last_hidden_state[0, -1], dim=0)
        assert found == pytest.approx(wanted.tolist(), abs=1e-4)
    finally:
        server.stop()
