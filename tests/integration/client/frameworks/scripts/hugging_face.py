"""Hugging Face: the Trainer with accumulation, evaluation, a data worker and activation checkpointing, and a
loop with accelerate."""

from __future__ import annotations

import argparse
import os
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
from accelerate import Accelerator
from exact import has_session, say
from torch.utils.data import DataLoader, Dataset, get_worker_info
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments


class Sentences(Dataset[dict[str, Any]]):
    def __init__(self, count: int, length: int) -> None:
        generator = torch.Generator().manual_seed(count)
        self.words = torch.randint(100, (count, length), generator=generator)
        self.labels = self.words[:, 0] % 3

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, index: int) -> dict[str, Any]:
        assert get_worker_info() is None or not has_session()
        return {"input_ids": self.words[index], "labels": self.labels[index]}


def model() -> Any:
    torch.manual_seed(1)
    size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 2}
    return BertForSequenceClassification(BertConfig(vocab_size=100, num_labels=3, **size))


def with_trainer(kind: str, steps: int, length: int) -> None:
    net = model()
    arguments = TrainingArguments(
        "output",
        max_steps=steps,
        per_device_train_batch_size=8,
        gradient_accumulation_steps=2 if kind == "trainer" else 1,
        gradient_checkpointing=kind == "checkpointing",
        eval_strategy="steps" if kind == "trainer" else "no",
        eval_steps=steps // 2,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        dataloader_num_workers=1 if kind == "trainer" else 0,
        dataloader_pin_memory=False,
        disable_tqdm=True,
        seed=1,
    )
    trainer = Trainer(
        net, arguments, train_dataset=Sentences(256, length), eval_dataset=Sentences(16, length)
    )
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
    entries = trainer.state.log_history
    losses = [entry[name] for entry in entries for name in ("loss", "eval_loss") if name in entry]
    say(kind, losses, net.parameters(), steps=trainer.state.global_step)


def with_accelerate(steps: int, length: int) -> None:
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    net = model()
    optimizer = torch.optim.AdamW(net.parameters())
    loader = DataLoader(Sentences(8 * 2 * steps, length), batch_size=8)
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    losses = []
    for batch in loader:
        with accelerator.accumulate(net):
            loss = net(**batch).loss
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
    say("accelerate", losses, net.parameters(), steps=len(losses) // 2)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kinds", nargs="+")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--length", type=int, default=16)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    transformers.utils.logging.set_verbosity_error()
    for kind in arguments.kinds:
        if kind == "accelerate":
            with_accelerate(arguments.steps, arguments.length)
        else:
            with_trainer(kind, arguments.steps, arguments.length)


if __name__ == "__main__":
    main()
