#!/usr/bin/env python3
"""Trains a small GPT-2 of random weights with the Trainer of transformers, which uses accelerate.

    pip install transformers accelerate
    torchrun --nproc-per-node=2 trainer_example.py
"""
import argparse
import tempfile

import torch
import torch.distributed as dist
from transformers import (GPT2Config, GPT2LMHeadModel, PrinterCallback, Trainer,
                          TrainerCallback, TrainingArguments)

from steplog import StepLog
from transformer import CONTEXT, VOCABULARY, load_text


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="r2ccl", help="r2ccl or gloo")
    parser.add_argument("--text", default="/usr/share/common-licenses", help="a file or a folder")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=4, help="rows on each rank")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", help="a file for a line of JSON per step; %%r: the rank")
    return parser.parse_args()


class Record(TrainerCallback):
    """Passes each loss that the Trainer logs to the record of the run."""

    def __init__(self, log):
        self.log = log

    def on_log(self, args, state, control, logs=None, **others):
        if logs and "loss" in logs:
            self.log.step(state.global_step - 1, float(logs["loss"]))


def train(args):
    rows = load_text(args.text).unfold(0, CONTEXT, CONTEXT)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_positions=CONTEXT, n_embd=64,
                                       n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0))
    log = StepLog(args.record, dist.get_rank())
    with tempfile.TemporaryDirectory() as folder:
        # On CPU accelerate knows no backend but gloo and MPI by name. It takes the group that
        # exists, so init_process_group comes first.
        settings = TrainingArguments(
            folder, use_cpu=True, max_steps=args.steps, per_device_train_batch_size=args.batch,
            learning_rate=3e-3, seed=args.seed, logging_steps=1, save_strategy="no", report_to=[],
            disable_tqdm=True, dataloader_pin_memory=False)
        trainer = Trainer(model, settings, callbacks=[Record(log)],
                          train_dataset=[{"input_ids": row, "labels": row} for row in rows])
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    log.weights(trainer.model)


def main():
    args = arguments()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)  # the order of sums inside a rank depends on the number of threads
    if args.backend == "r2ccl":
        import r2ccl  # noqa: F401 (the import makes the backend known to torch)
    dist.init_process_group(args.backend)
    train(args)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
