"""`hone preview`: the table of lengths, bad rows summed up, a file that was cut short."""
import json
import pathlib

MODEL = pathlib.Path(__file__).resolve().parents[2] / "models/nano"


def preview(hone, path):
    done = hone("preview", "--model", MODEL, "--dataset", path)
    assert done.returncode == 0, done.stderr
    return done


def test_percentiles_are_lengths_that_enough_rows_do_not_exceed(hone, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps({"query": "q", "response": "a " * count}) + "\n" for count in (1, 40)))
    table = next(line.split() for line in preview(hone, rows).stdout.splitlines() if line.startswith("all "))
    least, _, p50, p95, most = table[1:6]
    assert p50 == least and p95 == most and int(least) < int(most)


def test_every_bad_row_is_counted_and_the_first_are_named(hone, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text('{"query": "q", "response": "a"}\n' + "broken\n" * 12)
    out = preview(hone, rows).stdout
    assert "rows looked at 13, usable 1, bad 12" in out and "rows.jsonl:2: broken JSON" in out and "… and 2 more" in out


def test_rows_of_models_that_judge_are_shown_with_their_grades(hone, tmp_path):
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"query": "q", "label": 1, "positive_messages": [[{"role": "assistant", "content": "yes"}]], "negative_messages": [[{"role": "assistant", "content": "no"}]]}) + "\n")

    def shown(*task):
        done = hone("preview", "--model", MODEL, "--dataset", rows, "--format", "jsonl", "--task_type", *task)
        assert done.returncode == 0, done.stderr
        return [(row["text"], row.get("grades")) for row in map(json.loads, done.stdout.splitlines())]

    (only, grades), = shown("seq_cls", "--num_labels", "2")
    assert "q<" in only and grades == [1]
    ranked = shown("reranker")
    assert [grades for _, grades in ranked] == [[1], [0]] and all("q<" in text for text, _ in ranked) and "no<" in ranked[1][0]
    anchor, positive, negative = shown("embedding")
    assert anchor[1] is None and "yes<" in positive[0] and "q" not in negative[0].split("\n")[1]
    done = hone("preview", "--model", MODEL, "--dataset", rows, "--task_type", "seq_cls")
    assert done.returncode == 2 and "--num_labels" in done.stderr


def test_a_list_without_its_end_is_said_to_be_cut_short(hone, tmp_path):
    rows = tmp_path / "rows.json"
    rows.write_text('[{"query": "q", "response": "a"}')
    assert "rows.json: the list of rows is not closed" in preview(hone, rows).stderr
    rows.write_text('[{"query": "q", "response": "a"}]\n')
    assert "not closed" not in preview(hone, rows).stderr
