"""A short training whose library saves checkpoints, or goes on from the last one; prints what the client noticed.
Arguments: the library, and `resume` in a later run."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from laneway.client.runtime import client
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

STEPS = 4


def data() -> TensorDataset:
    return TensorDataset(torch.randn(64, 64), torch.randint(10, (64,)))


def lightning(resume: bool) -> None:
    import pytorch_lightning

    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)

    class Classifier(pytorch_lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(64, 10)

        def training_step(self, batch: Any, index: int) -> Any:
            return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self) -> Any:
            return torch.optim.AdamW(self.parameters())

    trainer = pytorch_lightning.Trainer(
        max_steps=2 * STEPS if resume else STEPS,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        accelerator="cpu",
        callbacks=[pytorch_lightning.callbacks.ModelCheckpoint("lightning", "last", every_n_train_steps=2)],
    )
    trainer.fit(Classifier(), DataLoader(data(), 8), ckpt_path="lightning/last.ckpt" if resume else None)


def hugging_face(resume: bool) -> None:
    import transformers

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = nn.Linear(64, 10)

        def forward(self, inputs: Any, labels: Any) -> Any:
            return {"loss": nn.functional.cross_entropy(self.net(inputs), labels)}

    arguments = transformers.TrainingArguments(
        "hugging-face",
        max_steps=2 * STEPS if resume else STEPS,
        save_steps=2,
        per_device_train_batch_size=8,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )
    rows = [{"inputs": inputs, "labels": label} for inputs, label in data()]
    trainer = transformers.Trainer(Net(), arguments, train_dataset=rows)
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train(resume_from_checkpoint=resume)


def main() -> None:
    began_at = time.time()
    {"lightning": lightning, "hugging-face": hugging_face}[sys.argv[1]](sys.argv[2:] == ["resume"])
    saved_work = client().guard.progress.saved_work
    print(
        json.dumps(
            {
                "trains": saved_work.trained_since is not None,
                "saved": saved_work.saved_at is not None and saved_work.saved_at > began_at,
                "loaded": saved_work.loaded_from is not None and saved_work.loaded_from < began_at,
            }
        ),
        flush=True,
    )


if __name__ == "__main__":
    main()
