"""Images outside SFT: the vendors' clients at a server, preference rows, KTO, LLaMA-Factory's YAML as its guide prints it, preview."""
import base64
import json
import math
import sys

import anthropic
import openai
import pytest
from PIL import Image
from safetensors.torch import load_file
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from media_runs import losses, run, write_rows
from vision_models import ROOT

sys.path.insert(0, str(ROOT / "tests" / "serve"))
from serve_testing import Server  # noqa: E402



@pytest.fixture(scope="module")
def place(tmp_path_factory, folders):
    """A model, pictures of two colours, and rows for every method."""
    place = tmp_path_factory.mktemp("methods")
    (place / "model").symlink_to(folders("qwen3_vl", tie=False))
    for name, colour, size in (("red", (220, 30, 30), (70, 64)), ("blue", (30, 60, 220), (96, 40))):
        Image.new("RGB", size, colour).save(place / f"{name}.png")
    question = [{"role": "user", "content": "<image>Colour?"}]
    answered = lambda word: [*question, {"role": "assistant", "content": word}]
    pairs = [{"messages": answered(a), "rejected_response": b, "images": [str(place / f"{a}.png")]} for a, b in (("red", "blue"), ("blue", "red"))]
    labels = [{"messages": answered(word), "label": word == name, "images": [str(place / f"{name}.png")]} for name in ("red", "blue") for word in ("red", "blue")]
    for name, rows in (("pairs", pairs), ("labels", labels)):
        write_rows(place / f"{name}.jsonl", rows)
    return place


def rlhf(place, out, kind, data, batch, *words):
    run("swift", "rlhf", "--rlhf_type", kind, "--model", place / "model", "--dataset", place / data, "--torch_dtype", "float32", "--tuner_type", "lora",
        "--freeze_vit", "false", "--freeze_aligner", "false", "--max_steps", 3, "--per_device_train_batch_size", batch, "--gradient_accumulation_steps", 4 // batch,
        "--learning_rate", "1e-2", "--lora_dropout", 0, "--logging_steps", 1, "--split_dataset_ratio", 0, "--dataset_shuffle", "false", "--train_dataloader_shuffle", "false",
        "--save_strategy", "no", "--add_version", "false", "--output_dir", out, *words)
    return losses(out)


def test_preference_pairs_have_images(place, tmp_path):
    found = rlhf(place, tmp_path / "dpo", "dpo", "pairs.jsonl", 2)
    assert found[0] == pytest.approx(math.log(2), abs=1e-6) and found[-1] < found[0] - 0.01  # the policy begins as the reference


def test_rejected_conversations_have_their_own_images(place):
    """As ms-swift reads them: `rejected_images` beside a response, alone, or beside messages, and parts of the messages themselves."""
    red, blue = str(place / "red.png"), str(place / "blue.png")
    asked = {"role": "user", "content": "<image>Colour?"}
    chosen, rejected = ([asked, {"role": "assistant", "content": word}] for word in ("red", "blue"))
    part = [{"role": "user", "content": [{"type": "image", "image": blue}, {"type": "text", "text": "Colour?"}]}, rejected[1]]
    write_rows(place / "own.jsonl", [
        {"messages": chosen, "rejected_response": "blue", "images": [red], "rejected_images": [blue]},
        {"messages": chosen, "images": [red], "rejected_images": [blue]},  # the pair differs in its images alone
        {"messages": chosen, "rejected_messages": rejected, "images": [red], "rejected_images": [blue]},
        {"messages": [{"role": "user", "content": "Colour?"}, chosen[1]], "rejected_messages": rejected, "rejected_images": [blue]},
        {"messages": chosen, "rejected_messages": part, "images": [red]},
        {"messages": chosen, "rejected_messages": rejected, "images": [red], "rejected_images": 3},
        {"messages": chosen, "images": [red], "rejected_images": [red]},  # no difference at all
        {"messages": chosen, "rejected_response": "blue", "images": [red]}])
    shown = run("hone", "preview", "rlhf", "--rlhf_type", "dpo", "--model", place / "model", "--dataset", place / "own.jsonl", "--rows", 9)
    halves = [part.partition("\n") for part in ("\n" + shown).split("tokens a row")[0].split("\nrow ")[1:]]
    seen = [(head.split()[1], [name for name in ("red", "blue") if f"image {place}/{name}.png" in body]) for head, _, body in halves]
    images = [pair[1] for pair in seen]
    assert [pair[0] for pair in seen] == ["chosen", "rejected"] * 6, shown
    assert images == [["red"], ["blue"]] * 3 + [[], ["blue"], ["red"], ["blue"], ["red"], ["red"]], shown
    assert "usable 6, invalid 2" in shown and '"rejected_images"' in shown and "the rejected response equals the chosen one" in shown, shown


def test_rejected_conversations_have_their_own_tools(place):
    tool = lambda name: [{"type": "function", "function": {"name": name, "description": "d", "parameters": {"type": "object", "properties": {}}}}]
    chosen, rejected = ([{"role": "user", "content": "Colour?"}, {"role": "assistant", "content": word}] for word in ("red", "blue"))
    write_rows(place / "tools.jsonl", [
        {"messages": chosen, "rejected_response": "blue", "tools": tool("paint"), "rejected_tools": json.dumps(tool("draw"))},
        {"messages": chosen, "tools": tool("paint"), "rejected_tools": tool("draw")},  # the pair differs in its tools alone
        {"messages": chosen, "rejected_response": "blue", "tools": tool("paint")},
        {"messages": chosen, "rejected_messages": rejected, "tools": tool("paint")},  # as in ms-swift, only rejected_tools are theirs
        {"messages": chosen, "rejected_messages": rejected, "tools": tool("paint"), "rejected_tools": tool("draw")},
        {"messages": chosen, "rejected_response": "blue", "rejected_tools": "no list"}])
    shown = run("hone", "preview", "rlhf", "--rlhf_type", "dpo", "--model", place / "model", "--dataset", place / "tools.jsonl", "--rows", 9)
    halves = ("\n" + shown).split("tokens a row")[0].split("\nrow ")[1:]
    seen = [[name for name in ("paint", "draw") if f'"{name}"' in half] for half in halves]
    assert seen == [["paint"], ["draw"], ["paint"], ["draw"], ["paint"], ["paint"], ["paint"], [], ["paint"], ["draw"]], shown
    assert "usable 5, invalid 1" in shown and '"rejected_tools" is not JSON text' in shown, shown


def test_samples_keep_their_images(place, tmp_path):
    """Rows that differ in their images alone are different questions."""
    asked = [{"role": "user", "content": "<image>Colour?"}]
    write_rows(tmp_path / "rows.jsonl", [{"messages": asked, "images": [str(place / f"{name}.png")]} for name in ("red", "blue")] + [{"messages": [{"role": "user", "content": "<video>?"}], "videos": [[str(place / "red.png")] * 4]}])
    words = ["swift", "sample", "--model", place / "model", "--dataset", tmp_path / "rows.jsonl", "--dataset_shuffle", "false", "--num_return_sequences", 2, "--max_new_tokens", 4, "--output_dir", tmp_path]
    run(*words, "--output_file", "samples.jsonl")
    found = [json.loads(line) for line in (tmp_path / "samples.jsonl").read_text().splitlines()]
    assert [row.get("images") for row in found] == [[str(place / "red.png")]] * 2 + [[str(place / "blue.png")]] * 2 + [None] * 2
    assert found[4]["videos"] == [[str(place / "red.png")] * 4] and len({row["id"] for row in found}) == 3
    shown = run("hone", "preview", "--model", place / "model", "--dataset", tmp_path / "samples.jsonl", "--rows", 6)
    assert "usable 6, invalid 0" in shown and f"image {place}/blue.png" in shown, shown


def test_cached_datasets_keep_rows_with_images(place, tmp_path):
    """Rows with and without images, and pairs: the losses are those of the rows themselves."""
    asked = lambda tag: [{"role": "user", "content": f"{tag}Colour?"}, {"role": "assistant", "content": "red"}]
    write_rows(tmp_path / "rows.jsonl", [{"messages": asked("<image>"), "images": [str(place / "red.png")]}, {"messages": asked("")},
                                         {"messages": asked("<image>"), "images": [str(place / "blue.png")], "channel": "b"}, {"messages": asked("")}])
    for kind, rows, train in (("train", tmp_path / "rows.jsonl", ["sft"]), ("rlhf", place / "pairs.jsonl", ["rlhf", "--rlhf_type", "dpo"])):
        cache = tmp_path / f"cache_{kind}"
        run("swift", "export", "--model", place / "model", "--dataset", rows, "--to_cached_dataset", "true", "--template_mode", kind, "--split_dataset_ratio", 0,
            "--dataset_shuffle", "false", "--output_dir", cache)
        found = []
        for source in (["--dataset", rows], ["--cached_dataset", cache / "train"]):
            out = tmp_path / f"{kind}_{len(found)}"
            run("swift", *train, "--model", place / "model", *source, "--torch_dtype", "float32", "--tuner_type", "lora", "--max_steps", 3, "--per_device_train_batch_size", 2,
                "--gradient_accumulation_steps", 1, "--logging_steps", 1, "--split_dataset_ratio", 0, "--dataset_shuffle", "false", "--train_dataloader_shuffle", "false",
                "--learning_rate", "1e-2", "--lora_dropout", 0, "--save_strategy", "no", "--add_version", "false", "--output_dir", out)
            found.append(losses(out))
        assert found[0] == found[1] and len(found[0]) == 3
    lines = (tmp_path / "cache_train/train/media_rows.jsonl").read_text().splitlines()
    assert [json.loads(line)["images"] for line in lines] == [[str(place / "red.png")], [str(place / "blue.png")]]


def test_feedback_has_images(place, tmp_path):
    """Rows of a batch do not see each other's images."""
    found = rlhf(place, tmp_path / "kto", "kto", "labels.jsonl", 4)
    assert found[0] == pytest.approx(0.5, abs=1e-4) and found[-1] < found[0] - 0.001


def test_reward_models_see_images(place, tmp_path):
    """Full tuning writes a folder with a head of one score, which a second run and `infer` load."""
    found = rlhf(place, tmp_path / "rm", "rm", "pairs.jsonl", 2, "--tuner_type", "full", "--save_strategy", "steps", "--save_steps", 3, "--save_only_model", "true")
    assert found[-1] < found[0] - 0.01
    saved = tmp_path / "rm/checkpoint-3"
    assert json.loads((saved / "config.json").read_text())["num_labels"] == 1 and "score.weight" in load_file(saved / "model.safetensors")
    run("swift", "infer", "--model", saved, "--val_dataset", place / "pairs.jsonl", "--result_path", tmp_path / "scores.jsonl", "--torch_dtype", "float32")
    scores = [json.loads(line)["response"] for line in (tmp_path / "scores.jsonl").read_text().splitlines()]
    assert len(scores) == 2 and all(math.isfinite(float(score)) for score in scores)
    rewards_are_those_of_infer(place, saved, tmp_path)


def rewards_are_those_of_infer(place, judge, tmp_path):
    """A reward model sees the images of the rows whose completions it scores."""
    rows = [json.loads(line) for line in (place / "pairs.jsonl").read_text().splitlines()]
    asked, rewards = [], []
    for number, row in enumerate(rows):
        write_rows(place / "same.jsonl", [row] * 4)
        rlhf(place, tmp_path / f"grpo{number}", "grpo", "same.jsonl", 4, "--reward_model", judge, "--num_generations", 2, "--max_completion_length", 6, "--log_completions", "true")
        for line in map(json.loads, (tmp_path / f"grpo{number}/completions.jsonl").read_text().splitlines()):
            asked += [{"messages": [row["messages"][0], {"role": "assistant", "content": text}], "images": row["images"]} for text in line["completion"]]
            rewards += line[judge.name]
    run("swift", "infer", "--model", judge, "--val_dataset", write_rows(tmp_path / "asked.jsonl", asked), "--result_path", tmp_path / "judged.jsonl", "--torch_dtype", "float32")
    judged = [float(json.loads(line)["response"]) for line in (tmp_path / "judged.jsonl").read_text().splitlines()]
    assert len(judged) == len(rewards) == 24 and judged == pytest.approx(rewards, abs=2e-5)
    run("swift", "rlhf", "--rlhf_type", "rm", "--model", ROOT / "models/nano", "--dataset", ROOT / "data/preferences.jsonl", "--max_steps", 1, "--tuner_type", "full", "--output_dir", tmp_path / "text",
        "--add_version", "false", "--create_checkpoint_symlink", "true")
    with pytest.raises(AssertionError, match=r"same.jsonl:\d+: media: images for a text-only model(.|\n)*checkpoint-1 reads this row as the reward model"):
        rlhf(place, tmp_path / "blind", "grpo", "same.jsonl", 4, "--reward_model", tmp_path / "text/checkpoint-1", "--num_generations", 2, "--max_completion_length", 6)


def test_towers_train_in_full_beside_lora(place, tmp_path):
    """ms-swift's lora_llm: PEFT reads tower and aligner as modules to save, and its merge is that of hone."""
    import torch
    from peft import PeftModel, get_peft_model_state_dict
    from transformers import AutoModelForImageTextToText
    load = lambda folder: AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32)
    run("swift", "sft", "--model", place / "model", "--dataset", place / "labels.jsonl", "--torch_dtype", "float32", "--tuner_type", "lora_llm", "--max_steps", 2, "--learning_rate", "1e-3",
        "--split_dataset_ratio", 0, "--save_steps", 2, "--save_only_model", "true", "--add_version", "false", "--output_dir", tmp_path / "out")
    saved, base = tmp_path / "out/checkpoint-2", load(place / "model")
    tensors = load_file(saved / "adapter_model.safetensors")
    assert any("language_model" in name for name in tensors) and not any("visual" in name and "lora_" in name for name in tensors)
    adapted = PeftModel.from_pretrained(load(place / "model"), saved)
    assert get_peft_model_state_dict(adapted).keys() == tensors.keys()
    run("swift", "export", "--model", place / "model", "--adapters", saved, "--merge_lora", "true", "--output_dir", tmp_path / "merged")
    ours, theirs = load(tmp_path / "merged").state_dict(), adapted.merge_and_unload().state_dict()
    assert all(torch.allclose(ours[name], value, atol=1e-6) for name, value in theirs.items())
    assert all(not torch.equal(ours[name], value) for name, value in base.named_parameters() if ".visual." in name and ".bias" not in name)


def last_states(folder, texts):
    """Of transformers: the state of the last token, of unit length; an image is read as hone reads it."""
    import torch
    from transformers import AutoModel, AutoTokenizer
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    processor = Qwen2VLImageProcessorPil(min_pixels=4096, max_pixels=16777216, patch_size=16, image_mean=[0.5] * 3, image_std=[0.5] * 3)
    found = []
    for text, picture in texts:
        inputs = {}
        if picture:
            inputs = dict(processor(images=Image.open(picture), return_tensors="pt"))
            tokens = int(inputs["image_grid_thw"].prod()) // 4
            text = f"<|vision_start|>{'<|image_pad|>' * tokens}<|vision_end|>{text}"
        ids = tokenizer(f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n", return_tensors="pt").input_ids
        kinds = (ids == tokenizer.convert_tokens_to_ids("<|image_pad|>")).long()
        with torch.no_grad():
            found.append(torch.nn.functional.normalize(model(input_ids=ids, mm_token_type_ids=kinds, **inputs).last_hidden_state[0, -1], dim=-1))
    return found


def test_embeddings_of_images(place, tmp_path):
    """ms-swift's rows: the images of an anchor, of what is like it and of what is not are columns of their own. The first loss and what `infer` gives are those of transformers."""
    import torch
    names = {name: str(place / f"{name}.png") for name in ("red", "blue")}
    ask = lambda text: [{"role": "user", "content": text}]
    rows = [{"messages": ask(f"<image>{a}?"), "images": [names[a]], "positive_messages": [ask("<image>alike")], "positive_images": [[names[a]]],
             "negative_messages": [ask("<image>other"), ask("text")], "negative_images": [[names[b]], []]} for a, b in (("red", "blue"), ("blue", "red"))]
    task = ("--model", place / "model", "--task_type", "embedding", "--torch_dtype", "float32")
    data = write_rows(tmp_path / "rows.jsonl", rows)
    run("swift", "sft", *task, "--loss_type", "infonce", "--dataset", data, "--tuner_type", "lora", "--max_steps", 1, "--per_device_train_batch_size", 2,
        "--gradient_accumulation_steps", 1, "--logging_steps", 1, "--split_dataset_ratio", 0, "--lora_dropout", 0, "--save_strategy", "no", "--add_version", "false", "--output_dir", tmp_path / "out", INFONCE_USE_BATCH="false")
    expected = []
    for a, b in (("red", "blue"), ("blue", "red")):
        anchor, *others = last_states(place / "model", [(f"{a}?", names[a]), ("alike", names[a]), ("other", names[b]), ("text", None)])
        expected.append(-float((torch.stack(others) @ anchor / 0.1).log_softmax(0)[0]))
    assert losses(tmp_path / "out") == pytest.approx([sum(expected) / len(expected)], abs=1e-4)

    run("swift", "infer", *task, "--val_dataset", data, "--result_path", tmp_path / "vectors.jsonl")
    for row, name in zip(map(json.loads, (tmp_path / "vectors.jsonl").read_text().splitlines()), names):
        assert torch.allclose(torch.tensor(row["response"]), last_states(place / "model", [(f"{name}?", names[name])])[0], atol=1e-5)

    write_rows(data, [{**rows[0], "negative_images": [[names["blue"]]]}])
    with pytest.raises(AssertionError, match="negative_images.*is a list of 1; expected 2 lists"):
        run("swift", "sft", *task, "--dataset", data, "--output_dir", tmp_path / "bad")


def test_clients_of_both_vendors_send_images(place):
    encoded = {name: base64.b64encode((place / f"{name}.png").read_bytes()).decode() for name in ("red", "blue")}
    server = Server("--torch_dtype", "float32", "--served_model_name", "eyes", model=place / "model")
    try:
        chat, claude = openai.OpenAI(base_url=server.url + "/v1", api_key="none"), anthropic.Anthropic(base_url=server.url, api_key="none")
        answers = {}
        for name, data in encoded.items():
            url = f"data:image/png;base64,{data}"
            completion = chat.chat.completions.create(model="eyes", temperature=0, max_tokens=8, messages=[{"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "Colour?"}]}])
            response = chat.responses.create(model="eyes", temperature=0, max_output_tokens=8, input=[{"role": "user", "content": [
                {"type": "input_image", "image_url": url, "detail": "auto"}, {"type": "input_text", "text": "Colour?"}]}])
            message = claude.messages.create(model="eyes", extra_body={"temperature": 0}, max_tokens=8, messages=[{"role": "user", "content": [
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}, {"type": "text", "text": "Colour?"}]}])
            answers[name] = completion.choices[0].message.content
            plain = chat.chat.completions.create(model="eyes", temperature=0, max_tokens=8, messages=[{"role": "user", "content": [
                {"type": "image", "image": url}, {"type": "text", "text": "Colour?"}]}])  # as ms-swift takes it too
            assert plain.choices[0].message.content == answers[name]
            for text, images in (("<image>Colour?", [url]), ("Colour?", [data])):  # as ms-swift's InferClient sends them
                listed = chat.chat.completions.create(model="eyes", temperature=0, max_tokens=8, messages=[{"role": "user", "content": text}], extra_body={"images": images})
                assert listed.choices[0].message.content == answers[name] and listed.usage.prompt_tokens == completion.usage.prompt_tokens
            assert response.output_text == answers[name] and message.content[0].text == answers[name]
            read = message.usage.input_tokens + message.usage.cache_read_input_tokens  # Anthropic counts what was cached apart
            assert completion.usage.prompt_tokens == response.usage.input_tokens == read
        assert answers["red"] != answers["blue"]
        with pytest.raises(openai.BadRequestError, match="image data:image/png;base64 .*: not base64") as refused:
            chat.chat.completions.create(model="eyes", messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,@"}}]}])
        assert "template" not in str(refused.value) and ":0:" not in str(refused.value)
        small = (place / "red.png").read_bytes()
        large = small[:16] + (8000).to_bytes(4, "big") * 2 + small[24:]  # says 8000 x 8000 pixels, which it has not
        with pytest.raises(openai.BadRequestError, match="maximum context length is 2048 tokens; the prompt has 16"):  # found before anything is decoded
            chat.chat.completions.create(model="eyes", messages=[{"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{base64.b64encode(large).decode()}"}}]}])
        for images, problem in ((["/etc/passwd"], r"images\[0\]: .*/etc/passwd.* is a path .* opens no files"), (["pictures/cat"], r"images\[0\]: .*pictures/cat.* is a path"),
                                (["ftp://127.0.0.1/a"], r"images\[0\]: .*ftp://127.0.0.1/a.* an address that is not read"), ([base64.b64encode(b"no picture" * 9).decode()], "image data:image/unknown;base64 .*: "), ([5], r"images\[0\]: found a number"), (["cats/red.png"], r"images\[0\]: .*cats/red.png.* opens no files"),
                                (["http://127.0.0.1/a.png"], "not fetched")):
            with pytest.raises(openai.BadRequestError, match=problem):
                chat.chat.completions.create(model="eyes", messages=[{"role": "user", "content": "<image>"}], extra_body={"images": images})
        with pytest.raises(anthropic.BadRequestError, match=r"messages\[0\]\.content\[0\]\.source: expected an object"):
            claude.messages.create(model="eyes", max_tokens=8, messages=[{"role": "user", "content": [{"type": "image", "source": "red"}]}])
        with pytest.raises(openai.BadRequestError, match="not fetched"):
            chat.responses.create(model="eyes", input=[{"role": "user", "content": [{"type": "input_image", "image_url": "http://127.0.0.1/a.png"}]}])
        with pytest.raises(anthropic.BadRequestError, match="not fetched"):
            claude.messages.create(model="eyes", max_tokens=8, messages=[{"role": "user", "content": [
                {"type": "image", "source": {"type": "url", "url": "http://127.0.0.1/a.png"}}]}])
    finally:
        server.stop()


def test_tools_and_assistants_show_images(place):
    """A GIF is read as the PNG of the same pixels is; OpenAI's messages of tools are Anthropic's tool_result."""
    for name in ("red", "blue"):
        Image.open(place / f"{name}.png").save(place / f"{name}.gif")
    encoded = lambda name: base64.b64encode((place / name).read_bytes()).decode()
    kind = lambda name: "image/" + name.rpartition(".")[2]
    part = lambda name: {"type": "image_url", "image_url": {"url": f"data:{kind(name)};base64,{encoded(name)}"}}
    seen = {"type": "text", "text": "seen"}
    called = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]}
    server = Server("--torch_dtype", "float32", "--served_model_name", "eyes", model=place / "model")
    try:
        chat, claude = openai.OpenAI(base_url=server.url + "/v1", api_key="x"), anthropic.Anthropic(base_url=server.url, api_key="x")

        def answer(*messages):
            done = chat.chat.completions.create(model="eyes", temperature=0, max_tokens=8, messages=[{"role": "user", "content": "look"}, *messages])
            return done.choices[0].message.content, done.usage.prompt_tokens

        told = lambda *parts: answer(called, {"role": "tool", "tool_call_id": "1", "content": [*parts, seen]})
        drawn = lambda *parts: answer({"role": "assistant", "content": [*parts, seen]}, {"role": "user", "content": "and?"})
        for ask in (told, drawn):
            assert ask(part("red.gif")) == ask(part("red.png")) != ask(part("blue.png"))
            assert ask(part("red.gif"))[1] > ask()[1] + 2
        message = claude.messages.create(model="eyes", max_tokens=8, extra_body={"temperature": 0}, messages=[
            {"role": "user", "content": "look"}, {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "look", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [
                {"type": "image", "source": {"type": "base64", "media_type": "image/gif", "data": encoded("red.gif")}}, seen]}]}])
        assert (message.content[0].text, message.usage.input_tokens + message.usage.cache_read_input_tokens) == told(part("red.gif"))
    finally:
        server.stop()
    write_rows(place / "gifs.jsonl", [{"messages": [{"role": "user", "content": "<image>Colour?"}], "images": [str(place / "red.gif")]}])
    run("swift", "infer", "--model", place / "model", "--val_dataset", place / "gifs.jsonl", "--result_path", place / "gifs_out.jsonl", "--torch_dtype", "float32", "--max_new_tokens", 4)
    assert json.loads((place / "gifs_out.jsonl").read_text())["images"] == [{"bytes": None, "path": str(place / "red.gif")}]


def test_parts_of_rows_are_frames_and_what_tools_show(place):
    """One video of several frames, as ms-swift reads the part; an image in a tool's result."""
    red, blue = str(place / "red.png"), str(place / "blue.png")
    answer = {"role": "assistant", "content": "red"}
    write_rows(place / "parts.jsonl", [
        {"messages": [{"role": "user", "content": [{"type": "video", "video": [red, red, red, red]}, {"type": "text", "text": "Colour?"}]}, answer]},
        {"messages": [{"role": "user", "content": "look"}, {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "look", "input": {}}]},
                      {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "seen"}, {"type": "image", "image": blue}]}]}, answer]}])
    shown = run("hone", "preview", "sft", "--model", place / "model", "--dataset", place / "parts.jsonl", "--rows", 9)
    assert shown.count(f"2 frames of a video from {red}") == 2 and f"image {blue}" in shown and "usable 2, invalid 0" in shown, shown


YAML = """### model
model_name_or_path: {model}
image_max_pixels: 262144
video_max_pixels: 16384
trust_remote_code: true

### method
stage: sft
do_train: true
finetuning_type: full
freeze_vision_tower: true
freeze_multi_modal_projector: true
freeze_language_model: false

### dataset
dataset: mllm_demo
dataset_dir: {place}
template: qwen2_vl
cutoff_len: 2048
max_samples: 1000
preprocessing_num_workers: 16
dataloader_num_workers: 4

### output
output_dir: {place}/saves
logging_steps: 1
save_steps: 500
plot_loss: true
overwrite_output_dir: true
save_only_model: false
report_to: none

### train
per_device_train_batch_size: 1
gradient_accumulation_steps: 2
learning_rate: 1.0e-3
num_train_epochs: 3.0
lr_scheduler_type: cosine
warmup_ratio: 0.1
bf16: false
ddp_timeout: 180000000
resume_from_checkpoint: null
"""


def test_the_guide_s_yaml(place, folders, tmp_path):
    """examples/train_full/qwen2_5vl_full_sft.yaml with its dataset's form: sharegpt messages, images by paths below media_dir."""
    rows = [{"messages": [{"role": "user", "content": "<image>Colour?"}, {"role": "assistant", "content": name}], "images": [f"{name}.png"]} for name in ("red", "blue")]
    for name in ("red", "blue"):
        (tmp_path / f"{name}.png").write_bytes((place / f"{name}.png").read_bytes())
    (tmp_path / "mllm_demo.json").write_text(json.dumps(rows))
    (tmp_path / "dataset_info.json").write_text(json.dumps({"mllm_demo": {
        "file_name": "mllm_demo.json", "formatting": "sharegpt", "columns": {"messages": "messages", "images": "images"},
        "tags": {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant"}}}))
    (tmp_path / "sft.yaml").write_text(YAML.format(model=folders("qwen2_5_vl"), place=tmp_path))
    run("llamafactory-cli", "train", tmp_path / "sft.yaml")
    log = [json.loads(line) for line in (tmp_path / "saves" / "trainer_log.jsonl").read_text().splitlines()]
    found = [line["loss"] for line in log if "loss" in line]
    assert len(found) == 3 and found[-1] < found[0] - 0.1
    assert (tmp_path / "saves" / "training_loss.png").exists()


def test_preview_tells_sizes_and_tokens(place):
    rows = [json.loads(line) for line in run("hone", "preview", "--model", place / "model", "--dataset", place / "labels.jsonl", "--format", "jsonl").splitlines()
            if line.startswith("{")]
    assert rows[0]["images"] == [{"source": str(place / "red.png"), "size": [70, 64], "seen": [64, 64], "tiles": 1, "tokens": 4}]
    shown = run("hone", "preview", "--model", place / "model", "--dataset", place / "labels.jsonl", NO_COLOR="1")
    assert "red.png: 70 x 64 pixels, read as 64 x 64, 4 tokens" in shown and "<|image_pad|>×4" in shown


def test_preview_tells_boxes_as_the_model_is_shown_them(place, tmp_path):
    row = {"messages": [{"role": "user", "content": "<image>Where is <ref-object>?"}, {"role": "assistant", "content": "<bbox>"}], "images": [str(place / "red.png")],
           "objects": {"ref": ["the cat"], "bbox": [[7, 16, 35, 64]]}}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    ask = lambda *words: run("hone", "preview", "--model", place / "model", "--dataset", tmp_path / "rows.jsonl", *words, NO_COLOR="1")
    assert "box of the cat in image 1: [7, 16, 35, 64] is [100, 250, 500, 1000] in thousandths" in ask()
    assert "is [6, 16, 32, 64] in pixels of 64 x 64" in ask("--norm_bbox", "none")
    shown = next(json.loads(line) for line in ask("--format", "jsonl").splitlines() if line.startswith("{"))
    assert shown["boxes"] == [{"ref": "the cat", "image": 0, "given": [7, 16, 35, 64], "seen": [100, 250, 500, 1000]}]
