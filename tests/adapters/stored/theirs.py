"""``python -m tests.adapters.stored.theirs``: what adapters 1.3 and LyCORIS 4.1 give, into files.

``make oracle-adapters`` runs it in an environment of its own, for adapters 1.3 wants an older
transformers than the other tests. The tiny Llama, its adapters and all tokens are drawn by name
(``given.py``), so that the files hold outputs alone:

    bottleneck.npz  for each preset its logits, its loss, the gradients of what it trains, and the
                    losses of five steps of AdamW
    dylora.npz      of a linear map y, dA and dB at each rank, as LyCORIS counts blocks and as
                    Valipour et al. (2023) count ranks, each with and without frozen leading parts

The paper's own layer is in no package: it is written out here as its appendix has it, in which
each factor is multiplied by √(r/b).
"""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import nn

from . import given

FOLDER = Path(__file__).parent
Array = np.ndarray[Any, Any]


def main() -> None:
    torch.set_num_threads(1)
    for name, found in (("bottleneck", bottlenecks()), ("dylora", dylora())):
        np.savez_compressed(FOLDER / f"{name}.npz", **found)
        print(f"{name}.npz: {len(found)} arrays, {(FOLDER / f'{name}.npz').stat().st_size} bytes")


def filled(module: nn.Module) -> None:
    """Give every parameter the value that is drawn for its name."""
    with torch.no_grad():
        for name, p in module.named_parameters():
            p.copy_(torch.from_numpy(given.drawn(name, tuple(p.shape))))


# -- bottleneck adapters ---------------------------------------------------------------------------


def bottlenecks() -> dict[str, Array]:
    """Return outputs, gradients and losses of each preset on the tiny Llama."""
    import adapters
    from transformers import LlamaConfig, LlamaForCausalLM

    found: dict[str, Array] = {}
    for preset in given.BOTTLENECKS:
        model = LlamaForCausalLM(LlamaConfig(**given.LLAMA, attn_implementation="eager"))
        adapters.init(model)
        model.add_adapter("a", config=preset)
        model.train_adapter("a")
        filled(model)
        model.eval()
        look, *batches = torch.from_numpy(given.tokens())
        out = model(input_ids=look, labels=look)
        out.loss.backward()
        trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
        found[f"{preset}/logits"] = out.logits.detach().numpy()
        found |= {f"{preset}/grad/{n}": p.grad.numpy().copy() for n, p in trained.items()}
        optimizer = torch.optim.AdamW(trained.values(), given.LEARNING_RATE, weight_decay=0.01)
        losses = [out.loss.item()]
        for batch in batches:
            optimizer.zero_grad()
            loss = model(input_ids=batch, labels=batch).loss
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        found[f"{preset}/losses"] = np.array(losses)
    return found


# -- DyLoRA ----------------------------------------------------------------------------------------


def dylora() -> dict[str, Array]:
    """Return y, dA and dB at each number of blocks of LyCORIS, and at each rank of the paper's."""
    x, dy = (torch.from_numpy(array) for array in given.inputs())
    found: dict[str, Array] = {}
    for b in range(given.RANK // given.BLOCK):
        found |= _named(f"lycoris/{b + 1}", *_of_lycoris(x, dy, b))
    for b in range(1, given.RANK + 1):
        for frozen in (False, True):
            found |= _named(f"paper/{b}/{frozen}", *_of_the_paper(x, dy, b, frozen))
    return found


def _named(name: str, y: torch.Tensor, da: torch.Tensor, db: torch.Tensor) -> dict[str, Array]:
    return {f"{name}/{n}": t.detach().numpy() for n, t in (("y", y), ("dA", da), ("dB", db))}


def _factors() -> tuple[torch.Tensor, torch.Tensor, nn.Linear]:
    """Return A, B and the map that they change."""
    a = torch.from_numpy(given.drawn("A", (given.RANK, 24))).requires_grad_()
    b = torch.from_numpy(given.drawn("B", (20, given.RANK))).requires_grad_()
    base = nn.Linear(24, 20)
    filled(base)
    return a, b, base


def _of_lycoris(x: torch.Tensor, dy: torch.Tensor, block: int) -> tuple[torch.Tensor, ...]:
    """Return the output and gradients while its draw of a block is ``block``."""
    from lycoris.modules.dylora import DyLoraModule

    a, b, base = _factors()
    module = DyLoraModule(
        "adapter", base, lora_dim=given.RANK, alpha=given.ALPHA, block_size=given.BLOCK
    )
    with torch.no_grad():
        for i, (down, up) in enumerate(zip(module.down_list, module.up_list, strict=True)):
            part = slice(i * given.BLOCK, (i + 1) * given.BLOCK)
            down.copy_(a[part])
            up.copy_(b[:, part])
    with mock.patch.object(random, "randint", lambda low, high: block):
        y = module(x)
    y.backward(dy)

    def grads(parameters: nn.ParameterList, axis: int) -> torch.Tensor:
        return torch.cat(
            [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters], axis
        )

    return y, grads(module.down_list, 0), grads(module.up_list, 1)


def _of_the_paper(
    x: torch.Tensor, dy: torch.Tensor, rank: int, frozen: bool
) -> tuple[torch.Tensor, ...]:
    a, b, base = _factors()
    a_used, b_used = a[:rank], b[:, :rank]
    if frozen:
        a_used = torch.cat([a[: rank - 1].detach(), a[rank - 1 : rank]])
        b_used = torch.cat([b[:, : rank - 1].detach(), b[:, rank - 1 : rank]], 1)
    grown = math.sqrt(given.RANK / rank)
    y = base(x) + given.ALPHA / given.RANK * (x @ (grown * a_used).T @ (grown * b_used).T)
    y.backward(dy)
    assert a.grad is not None and b.grad is not None
    return y, a.grad, b.grad


if __name__ == "__main__":
    main()
