"""``python -m tests.learning.beside_trl``: DPO and SimPO by TRL's own trainers, and by ours.

They come to less in the table of ``tests.learning.alignment`` than in a reference that had code of
its own. So TRL's trainers learn the same, from the same start: pairs in the same order,
AdamW at the same rates, 100 steps of 64. Shown are the mean loss and log-probability of chosen
answers of ten steps, on both sides, and how many held-out sums either model tells rightly.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import gradwright as gw
from gradwright.models import Decoder
from tests.align import trainers_of_theirs as sides
from tests.learning import alignment
from tests.learning.addition import CODEC, END, PAD, Split, model

SEEN = ("loss", "logps/chosen")
OWN: dict[str, dict[str, Any]] = {
    "dpo": {"beta": 0.1},
    "dpo + nll": {"beta": 0.5, "loss_type": ["sigmoid", "sft"], "loss_weights": [1.0, 0.2]},
    "simpo": {"loss_type": "simpo", "beta": 2.0, "simpo_gamma": 0.5, "cpo_alpha": 0.0},
}
"""What each method is told there; here they are defaults."""
Curves = dict[str, list[float]]


def tokenizer() -> Any:
    """Return a tokenizer of theirs, a character a token."""
    from tokenizers import Regex, Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Split as Apart
    from transformers import PreTrainedTokenizerFast

    words = {c: i for i, c in enumerate(CODEC.characters)}
    inner = Tokenizer(WordLevel(words, unk_token=PAD))
    inner.pre_tokenizer = Apart(Regex("."), "isolated")
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token=END, pad_token=PAD)


def theirs(name: str, method: alignment.Method, start: Decoder, rows: Any) -> tuple[Any, Curves]:
    """Train a model of transformers by TRL; return its weights, and what each step measured."""
    import torch
    from datasets import Dataset
    from torch.utils.data import SequentialSampler
    from transformers import AutoModelForCausalLM, PrinterCallback
    from trl import DPOConfig, DPOTrainer
    from trl.experimental.cpo import CPOConfig, CPOTrainer

    base, config = (CPOTrainer, CPOConfig) if name == "simpo" else (DPOTrainer, DPOConfig)

    class InOrder(base):  # type: ignore[misc, valid-type]
        def _get_train_sampler(self, *_: Any) -> Any:
            return SequentialSampler(self.train_dataset)

    with tempfile.TemporaryDirectory() as folder:
        gw.models.save_pretrained(start, Path(folder) / "start")
        held = AutoModelForCausalLM.from_pretrained(Path(folder) / "start")
        optimizer = torch.optim.AdamW(
            held.parameters(), lr=1.0, betas=(0.9, 0.99), weight_decay=0.0
        )
        rates = torch.optim.lr_scheduler.LambdaLR(optimizer, method.rates)
        trainer = InOrder(
            held,
            args=config(
                output_dir=str(Path(folder) / "out"),
                **sides.PLAIN | {"per_device_train_batch_size": method.batch},
                **{"max_steps": method.steps, "logging_steps": 1, "save_strategy": "no"},
                **OWN[name],
            ),
            train_dataset=Dataset.from_list(rows),
            processing_class=tokenizer(),
            optimizers=(optimizer, rates),
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    found = [row for row in trainer.state.log_history if "loss" in row]
    weights = {k: v.numpy() for k, v in held.state_dict().items()}
    return weights, {seen: [row[seen] for row in found] for seen in SEEN}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.learning.beside_trl", description=__doc__
    )
    parser.add_argument("methods", nargs="*", choices=[*OWN, []], help="by default all")
    parser.add_argument("--split", type=int, required=True, help="as the table says")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    split = Split(asked.split)
    first = alignment.weights(split, asked.seed)
    for name in asked.methods or OWN:
        method = alignment.METHODS[name]
        rows = alignment.examples(method, split, asked.seed)
        here, trainer = alignment.train(method, first, split, asked.seed, shuffle=False)
        weights, there = theirs(name, method, model(first), rows)
        print(f"{name}, split {split.seed}, seed {asked.seed}: ours / TRL's")
        apart = {}
        for seen in SEEN:
            ours = np.asarray(trainer.history.steps[seen])
            apart[seen] = np.abs(ours - there[seen]).max()
            tens = zip(*(np.reshape(x, (-1, 10)).mean(1) for x in (ours, there[seen])), strict=True)
            print(f"  {seen:<13}" + "  ".join(f"{a:.3f}/{b:.3f}" for a, b in tens))
            print(f"  {'':<13}at most {apart[seen]:.1e} apart")
        other = model(first)
        gw.models.load_state_dict(other, weights)
        for who, made in (("before", model(first)), ("ours", here), ("TRL's", other)):
            seen_by = alignment.asked(made, split)
            print(f"  {who:<8} greedy {seen_by.rate():.3f}, drawn {seen_by.rate('sampled'):.3f}")


if __name__ == "__main__":
    main()
