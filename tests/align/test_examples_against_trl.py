"""Rows of tokens, masks and packing beside what TRL's trainers prepare of the same data."""

from __future__ import annotations

import copy
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gradwright as gw
from gradwright.align import TokenRow, examples, pack
from gradwright.models.huggingface.tokenizer import PretrainedTokenizer
from tests.align.chat_templates import CHATML, STYLES
from tests.align.texts import conversation, text, theirs, tokenizer

pytest.importorskip("trl", minversion="1.16")
datasets = pytest.importorskip("datasets")

from trl import DPOTrainer, KTOTrainer, RewardTrainer, SFTTrainer, pack_dataset  # noqa: E402
from trl.trainer.dpo_trainer import DataCollatorForPreference  # noqa: E402
from trl.trainer.sft_trainer import DataCollatorForLanguageModeling  # noqa: E402

EOS = 2
ROWS = 12


@pytest.fixture(scope="module", autouse=True)
def quiet() -> Any:
    datasets.disable_progress_bars()
    yield
    datasets.enable_progress_bars()


def prepared(
    trainer: Any,
    rows: list[dict[str, Any]],
    template: str | None,
    *,
    bos: bool = False,
    **args: Any,
) -> Any:
    """Return what a trainer of TRL makes of rows before it trains."""
    other = theirs(template, bos=bos)
    given = {"dataset_num_proc": None, "dataset_text_field": "text", "assistant_only_loss": False}
    given |= {"max_length": None, "truncation_mode": "keep_start", "shuffle_dataset": False}
    settings = SimpleNamespace(**{**given, **args})
    me = SimpleNamespace(_tokenizer=other, chat_template=None, calculate_KL=False)
    me.completion_only_loss = args.get("completion_only_loss", True)
    data, name = datasets.Dataset.from_list(rows), "eval"
    if trainer is SFTTrainer:
        return SFTTrainer._prepare_dataset(me, data, other, settings, False, None, name).to_list()
    return trainer._prepare_dataset(me, data, other, settings, name).to_list()


def pairs(seed: int, chat: bool) -> list[dict[str, Any]]:
    """Return prompts with a chosen and a rejected completion, and what they cost."""
    rng, rows = np.random.default_rng(seed), []
    for i in range(ROWS):
        prompt: Any = conversation(rng, 1 + i % 3, "user") if chat else text(rng, 6)
        both = [text(rng, 5) + end for end in "+-"]
        if chat:
            both = [[{"role": "assistant", "content": said}] for said in both]
        rows.append({"prompt": prompt, "chosen": both[0], "rejected": both[1]})
    if not chat:  # the end of the prompt merges with one completion and not with the other
        rows[0] = {"prompt": "it th", "chosen": "ree cats", "rejected": " dog"}
    return rows


def same(rows: Any, wanted: list[dict[str, Any]]) -> None:
    assert len(rows) == len(wanted) > ROWS // 2
    for row, other in zip(rows, wanted, strict=True):
        assert list(row.tokens) == other["input_ids"]
        assert row.labels == other["labels"]


@pytest.mark.parametrize("mode", ["keep_start", "keep_end"])
@pytest.mark.parametrize("completion_only", [True, False])
@pytest.mark.parametrize("chat", [False, True])
def test_prompts_and_completions(chat: bool, completion_only: bool, mode: str) -> None:
    rows = [{"prompt": r["prompt"], "completion": r["chosen"]} for r in pairs(1, chat)]
    template, most = (CHATML if chat else None), 64 if chat else 14
    wanted = prepared(
        *(SFTTrainer, rows, template),
        completion_only_loss=completion_only,
        max_length=most,
        truncation_mode=mode,
    )
    found = examples(
        *(rows, "completion", tokenizer()),
        template=template,
        eos=EOS,
        max_length=most,
        truncation=mode,
        completion_only_loss=completion_only,
    )
    same(found.rows, wanted)
    assert any(note.fate == "cut" for note in found.report.notes)


@pytest.mark.parametrize("style", STYLES)
def test_assistant_masks_in_conversations(style: str) -> None:
    rng = np.random.default_rng(4)
    rows = [{"messages": conversation(rng, 2 + 2 * (i % 2), "assistant")} for i in range(ROWS)]
    template = STYLES[style].replace("bos_token", "'<bos>'").replace("eos_token", "'<eos>'")
    wanted = prepared(SFTTrainer, rows, template, assistant_only_loss=True)
    settings = {"template": template, "assistant_only_loss": True}
    same(examples(rows, "text", tokenizer(), **settings).rows, wanted)
    for row in rows:  # the same conversations as prompts and completions
        *row["prompt"], last = row.pop("messages")
        row["completion"] = [last]
    wanted = prepared(SFTTrainer, rows, template, assistant_only_loss=True)
    same(examples(rows, "completion", tokenizer(), **settings).rows, wanted)


def test_conversations_of_from_and_value() -> None:
    """Roles of ShareGPT are user and assistant here; TRL keeps them, so its own are named so."""
    rng, style = np.random.default_rng(6), next(iter(STYLES))
    template = STYLES[style].replace("bos_token", "'<bos>'").replace("eos_token", "'<eos>'")
    talks = [conversation(rng, 2, "assistant") for _ in range(ROWS)]
    old = {"role": "from", "content": "value"}
    rows = [{"conversations": [{old[k]: v for k, v in m.items()} for m in talk]} for talk in talks]
    given = copy.deepcopy(rows)
    for row in given:
        for message in row["conversations"]:
            said = message["from"]
            message["from"] = {"user": "human", "assistant": "gpt"}.get(said, said)
    wanted = prepared(SFTTrainer, rows, template)
    same(examples(given, None, tokenizer(), template=template).rows, wanted)
    both = [r["conversations"] for r in given]
    pairs = [{"prompt": talk[:-1], "completion": talk[-1:]} for talk in both]
    assert not examples(pairs, None, tokenizer(), template=template).report.notes


def test_texts_get_an_eos_once() -> None:
    rng = np.random.default_rng(5)
    rows = [{"text": text(rng, 9) + "it ok;" + "<eos>" * (i % 2)} for i in range(ROWS)]
    same(examples(rows, None, theirs()).rows, prepared(SFTTrainer, rows, None))


@pytest.mark.parametrize("chat", [False, True])
def test_a_bos_that_the_tokenizer_adds_stands_once(chat: bool, tmp_path: Path) -> None:
    rows = [{"prompt": r["prompt"], "completion": r["chosen"]} for r in pairs(7, chat)]
    template = STYLES["headers"]
    wanted = prepared(SFTTrainer, rows, template, bos=True)
    assert all(row["input_ids"].count(1) == 1 for row in wanted)
    other = theirs(template, bos=True)
    other.save_pretrained(tmp_path)
    for mine in (other, PretrainedTokenizer(tmp_path / "tokenizer.json")):
        same(examples(rows, "completion", mine).rows, wanted)


@pytest.mark.parametrize("mode", ["keep_start", "keep_end"])
@pytest.mark.parametrize("implicit", [False, True])
@pytest.mark.parametrize("chat", [False, True])
def test_pairs(chat: bool, implicit: bool, mode: str) -> None:
    rows = pairs(2, chat)
    if implicit:
        rows = [{n: r["prompt"] + r[n] for n in ("chosen", "rejected")} for r in rows]
    template, most = (CHATML if chat else None), 64 if chat else 14
    wanted = prepared(DPOTrainer, rows, template, max_length=most, truncation_mode=mode)
    batch = DataCollatorForPreference(0, max_length=most, truncation_mode=mode)(wanted)
    settings = {"template": template, "eos": EOS, "max_length": most, "truncation": mode}
    found = examples(rows, "pair", tokenizer(), **settings)
    mine = gw.align.collate([*found.chosen, *found.rejected])
    np.testing.assert_array_equal(mine["ids"], batch["input_ids"].numpy())
    np.testing.assert_array_equal(mine["labels"] != -100, batch["completion_mask"].numpy() != 0)


@pytest.mark.parametrize("chat", [False, True])
def test_rows_of_reward_models_are_not_cut(chat: bool) -> None:
    rows, template, most = pairs(3, chat), (CHATML if chat else None), 45 if chat else 14
    wanted = prepared(RewardTrainer, rows, template, max_length=most)
    settings = {"template": template, "eos": EOS, "max_length": most, "truncation": "drop"}
    found = examples(rows, "pair", tokenizer(), **settings)
    assert 0 < len(wanted) < ROWS
    assert [list(row.tokens) for row in found.chosen] == [row["chosen_ids"] for row in wanted]
    assert [list(row.tokens) for row in found.rejected] == [row["rejected_ids"] for row in wanted]


def test_completions_with_labels() -> None:
    rows = [
        {"prompt": r["prompt"], "completion": r["chosen"], "label": i % 3 == 0}
        for i, r in enumerate(pairs(6, False))
    ]
    wanted = prepared(KTOTrainer, rows, None)
    found = examples(rows, None, tokenizer(), eos=EOS)
    assert found.kind == "label"
    assert list(found.desirable) == [row["label"] for row in wanted]
    for row, other in zip(found.rows, wanted, strict=True):
        assert list(row.tokens[: row.n_prompt]) == other["prompt_ids"]
        assert list(row.tokens[row.n_prompt :]) == other["completion_ids"]


@pytest.mark.parametrize("strategy", ["bfd", "bfd_split", "wrapped"])
def test_packing_row_by_row(strategy: str) -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        lengths = rng.integers(0, 14, 40)
        rows = [TokenRow(rng.integers(1, 99, n).tolist(), min(1, n)) for n in lengths]
        columns: dict[str, Any] = defaultdict(list)
        for row in rows:
            columns["input_ids"].append(list(row.tokens))
            columns["labels"].append(row.labels)
        wanted = pack_dataset(datasets.Dataset.from_dict(columns), 9, strategy).to_list()
        mine = pack(rows, 9, strategy)
        assert len(mine["ids"]) == len(wanted)
        collator = DataCollatorForLanguageModeling(0, padding_free=True)
        for r, other in enumerate(wanted):
            n = len(other["input_ids"])
            assert mine["ids"][r].tolist() == other["input_ids"] + [0] * (9 - n)
            assert (mine["labels"][r, n:] == -100).all()
            if strategy == "wrapped":  # which does not tell where rows begin
                continue
            theirs_ = collator([other])
            assert mine["position_ids"][r, :n].tolist() == theirs_["position_ids"][0].tolist()
            assert mine["labels"][r, :n].tolist() == theirs_["labels"][0].tolist()
