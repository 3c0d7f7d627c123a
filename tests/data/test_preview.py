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


def test_a_list_without_its_end_is_said_to_be_cut_short(hone, tmp_path):
    rows = tmp_path / "rows.json"
    rows.write_text('[{"query": "q", "response": "a"}')
    assert "rows.json: the list of rows is not closed" in preview(hone, rows).stderr
    rows.write_text('[{"query": "q", "response": "a"}]\n')
    assert "not closed" not in preview(hone, rows).stderr
