"""Users' data as examples: sources, kinds, and rows that are not what their columns say."""

from __future__ import annotations

import copy
import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.align import examples, prompts
from gradwright.errors import FeedError
from tests.align.chat_templates import CHATML
from tests.align.texts import tokenizer

CHARS = gw.models.CharTokenizer("abcdefghijklmnopqrstuvwxyz0123456789+=:;<> .")
EOS = CHARS.encode(";")[0]
ROWS = [
    {"prompt": "1+1=", "chosen": "2", "rejected": "3", "margin": 0.5},
    {"prompt": "2+2=", "chosen": "4", "rejected": "5", "margin": 1.5},
]
USER, REPLY = {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}
TALK = {"template": "{% for m in messages %}{{ m.content }};{% endfor %}"}


def saved(folder: Path, kind: str) -> Any:
    """Return the rows in one of the ways that data comes."""
    columns = {name: [row[name] for row in ROWS] for name in ROWS[0]}
    path = folder / f"rows.{kind}"
    if kind == "jsonl":
        path.write_text("\n".join(map(json.dumps, ROWS)) + "\n\n", "utf-8-sig")
    elif kind == "json":
        path.write_text(json.dumps(ROWS))
    elif kind == "csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(columns))
            writer.writeheader()
            writer.writerows(ROWS)
    elif kind == "parquet":
        pytest.importorskip("pandas").DataFrame(ROWS).to_parquet(path)
    else:
        make = {
            "columns": lambda: columns,
            "arrays": lambda: {name: np.array(column) for name, column in columns.items()},
            "iterable": lambda: iter(ROWS),
            "gw": lambda: gw.data.dataset(columns),
            "pandas": lambda: pytest.importorskip("pandas").DataFrame(ROWS),
            "arrow": lambda: pytest.importorskip("pyarrow").Table.from_pylist(ROWS),
            "hugging": lambda: pytest.importorskip("datasets").Dataset.from_list(ROWS),
        }
        return make[kind]()
    return path


@pytest.mark.parametrize(
    "kind",
    [
        *("jsonl", "json", "csv", "parquet", "columns", "arrays", "iterable", "gw"),
        *("pandas", "arrow", "hugging"),
    ],
)
def test_rows_are_the_same_from_every_source(kind: str, tmp_path: Path) -> None:
    found = examples(saved(tmp_path, kind), None, CHARS, eos=EOS)
    assert found == examples(ROWS, "pair", CHARS, eos=EOS)
    assert found.margin == [0.5, 1.5]


def test_messages_are_the_same_from_parquet_and_hugging_face(tmp_path: Path) -> None:
    datasets, pandas = pytest.importorskip("datasets"), pytest.importorskip("pandas")
    calls = {"role": "assistant", "content": None, "tool_calls": [{"name": "f"}]}
    rows = [{"messages": [USER, REPLY]}, {"messages": [USER, calls]}]
    template = (
        "{% for m in messages %}{{ m.content if 'content' in m else m.tool_calls[0].name }}"
        "{{ ' tool' if 'tool_calls' in m }};{% endfor %}"
    )
    wanted = examples(rows, "text", CHARS, template=template)
    assert CHARS.decode(wanted.rows[1].tokens) == "a;f tool;"
    data = datasets.Dataset.from_list(rows)
    assert examples(data, "text", CHARS, template=template) == wanted
    path = tmp_path / "rows.parquet"
    pandas.DataFrame(rows).to_parquet(path)
    for data in (path, pandas.read_parquet(path)):
        assert examples(data, "text", CHARS, template=template) == wanted


@pytest.mark.parametrize(
    ("columns", "kind"),
    [
        ({"text": "a"}, "text"),
        ({"messages": [USER, REPLY]}, "text"),
        ({"prompt": "a", "completion": "b"}, "completion"),
        ({"prompt": "a", "completion": "b", "label": True}, "label"),
        ({"prompt": "a", "chosen": "b", "rejected": "c"}, "pair"),
        ({"chosen": "ab", "rejected": "ac"}, "pair"),
        ({"prompt": "a", "answer": 3}, "prompt"),
    ],
)
def test_kinds_are_told_by_columns(columns: dict[str, Any], kind: str) -> None:
    found = examples([columns], None, CHARS, eos=EOS, **TALK)
    assert found.kind == kind and len(found) == 1
    assert repr(found) == f"<1 examples of the kind {kind!r}>"


def test_columns_that_tell_no_kind_or_two_are_refused() -> None:
    for columns in ({"text": "a", "prompt": "b", "completion": "c"}, {"answer": "a"}):
        with pytest.raises(FeedError, match="do not tell what kind") as raised:
            examples([columns], None, CHARS, eos=EOS)
        assert "pair: prompt, chosen, rejected" in str(raised.value)
    with pytest.raises(FeedError, match="no column 'rejected'"):
        examples([{"prompt": "a", "chosen": "b"}], "pair", CHARS, eos=EOS)
    with pytest.raises(FeedError, match="no kind of data 'pairs'"):
        examples(ROWS, "pairs", CHARS, eos=EOS)


BAD = {
    "none": ("completion", {"prompt": None, "completion": "b"}, "'prompt': nothing"),
    "missing": ("completion", {"prompt": "a"}, "'completion': nothing"),
    "number": ("completion", {"prompt": "a", "completion": 3}, "'completion': int 3"),
    "bytes": ("completion", {"prompt": "a", "completion": b"b"}, "a bytes of 1"),
    "negative": ("completion", {"prompt": [1], "completion": [-1]}, "a list of 1"),
    "mixed": ("completion", {"prompt": "a", "completion": [REPLY]}, "prompt is text"),
    "label": ("label", {"prompt": "a", "completion": "b", "label": 1}, "'label': int 1"),
    "margin": ("pair", {**ROWS[0], "margin": float("nan")}, "'margin': float nan"),
    "no_margin": ("pair", {**ROWS[0], "margin": None}, "'margin': nothing"),
    "characters": ("text", {"text": "abÜ"}, "character 'Ü' at 2"),
    "role": ("text", {"text": [{"role": "human", "content": "a"}]}, "of the role 'human'"),
    "content": ("text", {"text": [{"role": "user", "content": 3}]}, "content of message 0 is int"),
    "no_message": ("text", {"text": [USER, "b"]}, "message 1 is the text 'b'"),
    "late_system": ("text", {"text": [USER, {"role": "system", "content": "a"}]}, "'system'"),
    "lone_tool": (
        "text",
        {"text": [{"role": "tool", "content": "a"}]},
        "is a tool's, behind 'nothing'",
    ),
    "answered": (
        "completion",
        {"prompt": [USER, REPLY], "completion": [REPLY]},
        "its last message",
    ),
    "wrong_turn": ("completion", {"prompt": [USER], "completion": [USER]}, "its first message"),
    "other_prompt": ("pair", {"chosen": [REPLY, USER], "rejected": [USER, REPLY]}, "'user'"),
    "tools": ("prompt", {"prompt": "a", "tools": "{"}, "'tools': the text '{'"),
    "variables": ("prompt", {"prompt": "a", "chat_template_kwargs": 3}, "int 3"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_row_is_named(name: str) -> None:
    kind, row, wanted = BAD[name]
    good = {
        "completion": {"prompt": "a", "completion": "b"},
        "label": {"prompt": "a", "completion": "b", "label": True},
        "pair": ROWS[0],
        "text": {"text": "a"},
        "prompt": {"prompt": "a"},
    }[kind]
    good = {n: v for n, v in good.items() if n in row or kind != "pair"}
    with pytest.raises(FeedError, match="1 row of the data cannot be read") as raised:
        examples([good, good, row], kind, CHARS, eos=EOS, **TALK)
    (fact,) = raised.value.facts
    assert fact.startswith("row 2, ") and wanted in fact and "; needed: " in fact


def test_all_bad_rows_are_counted_and_the_first_shown() -> None:
    rows = [{"prompt": "a", "completion": None if i % 2 else "b"} for i in range(40)]
    with pytest.raises(FeedError, match="20 rows of the data cannot be read") as raised:
        examples(rows, None, CHARS, eos=EOS)
    facts = raised.value.facts
    assert [fact.split(",")[0] for fact in facts[:3]] == ["row 1", "row 3", "row 5"]
    assert len(facts) == 9 and facts[-1] == "and 12 more"


def test_what_is_missing_for_all_rows_is_told_once() -> None:
    rows = [{"prompt": "a", "completion": "b"}] * 3
    with pytest.raises(FeedError, match="which token ends a completion"):
        examples(rows, None, CHARS)
    assert examples(rows, None, CHARS, add_eos=False).rows[0].tokens == CHARS.encode("ab")
    with pytest.raises(FeedError, match="no tokenizer"):
        examples(rows, None, eos=EOS)
    with pytest.raises(FeedError, match="no chat template"):
        examples([{"messages": [USER]}], None, CHARS)
    with pytest.raises(FeedError, match="does not say what the assistant"):
        examples([{"messages": [USER, REPLY]}], None, CHARS, assistant_only_loss=True, **TALK)
    with pytest.raises(FeedError, match="there are texts"):
        examples(rows, None, CHARS, eos=EOS, assistant_only_loss=True)
    with pytest.raises(FeedError, match="no setting 'max_len'"):
        examples(rows, None, CHARS, eos=EOS, max_len=4)


def test_a_margin_that_only_some_rows_have_is_a_problem() -> None:
    rows = [*ROWS, {name: ROWS[0][name] for name in ("prompt", "chosen", "rejected")}]
    with pytest.raises(FeedError) as raised:
        examples(rows, None, CHARS, eos=EOS)
    assert raised.value.facts == ["row 2, 'margin': nothing; needed: a finite number"]


def test_the_report_says_what_became_of_each_row() -> None:
    pair = {"chosen": "yes", "rejected": "no"}
    rows = [
        {"prompt": "a", **pair},
        {"prompt": "a", "chosen": "", "rejected": "no"},
        {"prompt": "a", "chosen": "b", "rejected": "b"},
        {"prompt": "a" * 20, **pair},
        {"prompt": "a" * 5, "chosen": "b" * 9, "rejected": "c"},
        {"prompt": "a", **pair},
    ]
    found = examples(rows, None, CHARS, eos=EOS, max_length=10)
    assert found.numbers == [0, 4, 5]
    assert found.report.counts() == {
        ("dropped", "empty completion"): 1,
        ("dropped", "chosen and rejected are the same"): 1,
        ("dropped", "no token left to learn"): 1,
        ("cut", "longer than 10 tokens"): 1,
    }
    assert found.report.rows("no token left to learn") == [3]
    assert str(found.report).splitlines()[0] == "6 rows read, 3 used"
    last = str(found.report).splitlines()[-1]
    assert " ".join(last.split()) == "cut 1 longer than 10 tokens row 4"


def test_tokens_that_merge_between_prompt_and_completion_are_reported() -> None:
    coder = tokenizer()
    data = [{"prompt": "it th", "completion": "ree cats"}]
    found = examples(data, None, coder, eos=2)
    assert found.report.counts() == {("kept", "tokens of prompt and completion merge"): 1}
    row = found.rows[0]
    assert coder.decode(row.tokens[: row.n_prompt]) == "it"
    assert coder.decode(row.tokens[row.n_prompt :]) == " three cats"


def test_conversations_that_do_not_end_with_eos_are_reported() -> None:
    data = [{"prompt": [USER], "completion": [REPLY]}]
    plain = examples(data, None, tokenizer(), eos=2, **TALK)
    assert plain.report.counts() == {("kept", "does not end with eos"): 1}
    ended = tokenizer().id_of("<|im_end|>")
    assert not examples(data, None, tokenizer(), eos=ended, template=CHATML).report.notes


def test_prompts_keep_their_columns_and_leave_out_what_is_too_long() -> None:
    rows = [
        {"prompt": "1+1=", "answer": 2, "label": "2", "tools": "[]"},
        {"prompt": "1" * 9, "answer": 1},
        {"prompt": "", "answer": 1},
        {"prompt": "2+2=", "hint": [1]},
    ]
    found = prompts(rows, CHARS, max_length=8)
    assert [p.text for p in found] == ["1+1=", "2+2="]
    assert [p.columns for p in found] == [
        {"answer": 2, "label": "2", "hint": None},
        {"answer": None, "label": None, "hint": [1]},
    ]
    for name in ("completions", "ended"):
        with pytest.raises(FeedError, match=f"has a column {name!r}"):
            prompts([{"prompt": "a", name: "b"}], CHARS)
    (talk,) = prompts([{"prompt": [USER]}], tokenizer(), template=CHATML)
    assert talk.text.endswith("<|im_start|>assistant\n")
    assert tokenizer().decode(talk.tokens, special=True) == talk.text
    (tokens,) = prompts([{"prompt": np.array([3, 4])}])
    assert tokens.tokens == [3, 4] and tokens.text == ""


def test_rows_of_tokens_need_no_tokenizer() -> None:
    found = examples([{"prompt": [5, 6], "completion": [7]}], None, eos=[2, 9])
    assert found.rows[0].tokens == [5, 6, 7, 2] and found.rows[0].n_prompt == 2
    found = examples([{"prompt": [5, 6], "completion": [7, 9]}], None, eos=[2, 9])
    assert found.rows[0].tokens == [5, 6, 7, 9]


FILES = {
    "rows.jsonl": ('{"prompt": "a"}\n{"prompt": ', "line 2 of rows.jsonl is not valid JSON"),
    "deep.json": ("[" * 100_000, "line 1 of deep.json is not valid JSON"),
    "rows.json": ("3", "cannot be read"),
    "rows.csv": ("prompt,completion\na\n", "line 2 of rows.csv has another number of values"),
    "list.jsonl": ("[1]\n", "row 0 of the data is a list"),
    "empty.jsonl": ("\n", "the data is empty"),
    "rows.parquet": ("PAR1", "cannot be read: file rows.parquet"),
    "rows.txt": ("a", "no file of rows"),
    "latin.jsonl": (b'{"text": "\xff"}', "cannot be read: file latin.jsonl"),
}


@pytest.mark.parametrize("name", FILES)
def test_damaged_files_are_refused(name: str, tmp_path: Path) -> None:
    held, message = FILES[name]
    (tmp_path / name).write_bytes(held if isinstance(held, bytes) else held.encode())
    with pytest.raises(FeedError, match=message):
        examples(tmp_path / name, None, CHARS, eos=EOS)


@pytest.mark.parametrize("data", [None, 3, b"a", [], {}, [3], {"a": "b"}, {"a": [1], "b": []}])
def test_what_is_no_data_is_refused(data: Any) -> None:
    with pytest.raises(FeedError):
        examples(data, None, CHARS, eos=EOS)
    with pytest.raises(FeedError, match="there is no file"):
        examples("nowhere.jsonl", None, CHARS, eos=EOS)


def test_whatever_rows_hold_is_taken_or_refused_and_stays_as_it_is() -> None:
    rng = np.random.default_rng(0)
    names = ["prompt", "completion", "chosen", "rejected", "label", "margin", "text", "messages"]
    names += ["tools", "chat_template_kwargs", "other", 3]
    values = [None, "", "a+b", "Ü", 1, -1.5, float("nan"), True, b"x", [], [1, 2], [-1], ["a"]]
    values += [[USER], [USER, REPLY], [REPLY], [{"role": 3}], [{}], {"a": 1}, {"role": "user"}]
    values += [
        [USER, 3],
        [{"role": "user", "content": [{"type": "image"}]}],
        np.arange(2),
        object(),
    ]
    taken = 0
    for _ in range(400):
        chosen = rng.permutation(len(names))[: rng.integers(0, 6)]
        plain = rng.random() < 0.5
        rows = []
        for _ in range(rng.integers(0, 4)):
            at = rng.integers(1 if plain else 0, 3 if plain else len(values), len(chosen))
            rows.append({names[c]: values[v] for c, v in zip(chosen, at, strict=True)})
        before = copy.copy(rows), repr(rows)
        kind = rng.choice(["text", "completion", "pair", "label", "prompt", ""])
        try:
            found = examples(rows, str(kind) or None, CHARS, eos=EOS, max_length=5, **TALK)
        except FeedError:
            continue
        finally:
            assert (rows, repr(rows)) == before
        taken += len(found)
        assert found.report.used == len(found) <= len(rows)
    assert taken > 10
