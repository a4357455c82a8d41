#!/usr/bin/env python3
"""Hugging Face's Trainer as its users start it, with a model from its config (random weights): nothing here but arguments and a data set. run.sh takes
it for models named trainer-*. Prints one JSON object (result.py): losses as the Trainer logs them, a hash of these and of all that was trained."""

import argparse
import os
import tempfile

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")  # with two, the Trainer takes nn.DataParallel

import torch  # noqa: E402
from result import state_of, tell  # noqa: E402
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PrinterCallback, Trainer, TrainerCallback, TrainingArguments, set_seed


class Tokens(torch.utils.data.Dataset):
    """Random texts, the same in each run."""

    def __init__(self, o, count):
        generator = torch.Generator().manual_seed(o.seed)
        self.tokens = torch.randint(o.vocab, (count, o.context), generator=generator)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, i):
        return {"input_ids": self.tokens[i], "labels": self.tokens[i]}


class Evaluations(TrainerCallback):
    """Losses of evaluations are part of the result, too."""

    def __init__(self):
        self.losses = []

    def on_evaluate(self, args, state, control, metrics, **kwargs):
        self.losses.append(metrics["eval_loss"])


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    for name, value in {"layers": 2, "width": 192, "heads": 3, "context": 32, "batch": 96, "vocab": 512, "steps": 30, "warmup": 16, "accumulate": 1,
                        "evaluate": 0, "save": 0, "workers": 0, "lora": 0, "seed": 1}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--model", choices=["trainer-gpt2", "trainer-llama"], default="trainer-gpt2")
    parser.add_argument("--precision", choices=["fp32", "bf16", "fp16"], default="fp32")
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--mode", choices=["eager", "checkpoint", "compile"], default="eager")
    return parser.parse_args()


def make_model(o):
    if o.model == "trainer-gpt2":
        model = GPT2LMHeadModel(GPT2Config(n_layer=o.layers, n_embd=o.width, n_head=o.heads, n_positions=o.context, vocab_size=o.vocab, resid_pdrop=o.dropout,
                                           embd_pdrop=o.dropout, attn_pdrop=o.dropout, bos_token_id=0, eos_token_id=0, use_cache=False))
    else:
        model = LlamaForCausalLM(LlamaConfig(num_hidden_layers=o.layers, hidden_size=o.width, num_attention_heads=o.heads, num_key_value_heads=o.heads,
                                             intermediate_size=3 * o.width, max_position_embeddings=o.context, vocab_size=o.vocab, use_cache=False))
    if o.lora:
        from peft import LoraConfig, get_peft_model

        targets = ["c_attn", "c_proj", "c_fc"] if o.model == "trainer-gpt2" else ["q_proj", "v_proj", "up_proj"]
        model = get_peft_model(model, LoraConfig(r=o.lora, lora_dropout=o.dropout, target_modules=targets, fan_in_fan_out=o.model == "trainer-gpt2"))
    return model


def main():
    o = parse_arguments()
    set_seed(o.seed)
    evaluations = Evaluations()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, max_steps=o.steps, per_device_train_batch_size=o.batch, per_device_eval_batch_size=o.batch, logging_steps=1,
            gradient_accumulation_steps=o.accumulate, gradient_checkpointing=o.mode == "checkpoint", torch_compile=o.mode == "compile",
            bf16=o.precision == "bf16", fp16=o.precision == "fp16", use_cpu=o.device == "cpu", dataloader_num_workers=o.workers, report_to=[],
            disable_tqdm=True, eval_strategy="steps" if o.evaluate else "no", eval_steps=o.evaluate or None, save_strategy="steps" if o.save else "no",
            save_steps=o.save or 500, seed=o.seed)
        trainer = Trainer(model=make_model(o), args=arguments, train_dataset=Tokens(o, o.batch * o.accumulate * 8),
                          eval_dataset=Tokens(o, 2 * o.batch) if o.evaluate else None, callbacks=[evaluations])
        trainer.remove_callback(PrinterCallback)  # only the result is on stdout
        trainer.train()
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    tell(o.model, losses, [*trainer.model.parameters(), *state_of(trainer.optimizer)], o, mode=o.mode, evaluations=evaluations.losses)


if __name__ == "__main__":
    main()
