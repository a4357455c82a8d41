#!/usr/bin/env python3
"""transformers_loads.py FOLDER [TEXT CONTEXT LOSS [TOLERANCE [ADAPTERS COPY]]]: a checkpoint of ebb-train as Hugging Face's `transformers` sees it.

Loads FOLDER with AutoModelForCausalLM, and fails if a tensor of the file has no place in the model or the other way round.
FOLDER/elements, if it is there, has lines "name transposed second last": two elements of each tensor as ebb-train holds it.
With TEXT: computes the mean loss of what ebb-train holds out of that text, as it does (model/data/data.h), and compares it with
LOSS, to a relative TOLERANCE. ADAPTERS: a checkpoint of ebb-train --lora-rank, which PEFT puts on the model first, and
writes to COPY.
"""
import os
import sys

import torch
from transformers import AutoModelForCausalLM

TOLERANCE = 2e-5  # fp32 in another order


def load(folder):
    model, report = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
        left = [key for key in report[kind] if key != "lm_head.weight" or not model.config.tie_word_embeddings]
        if left:
            sys.exit(f"{kind}: {left}")
    return model.eval().float()


def check_elements(model, path):
    parameters = dict(model.named_parameters())
    count = 0
    for line in open(path):
        name, transposed, second, last = line.split()
        tensor = parameters.get(name, parameters.get("transformer." + name)).detach()
        ours = (tensor.t() if transposed == "1" else tensor).reshape(-1)
        if not (float(ours[1]) == float(torch.tensor(float(second))) and float(ours[-1]) == float(torch.tensor(float(last)))):
            sys.exit(f"{name}: {float(ours[1])} {float(ours[-1])} instead of {second} {last}")
        count += 1
    return count


def held_out_loss(model, text, context):
    data = open(text, "rb").read()
    held = data[len(data) - len(data) // 20:]
    total = 0.0
    with torch.no_grad():
        for start in range(0, len(held) - 1, context):
            row = torch.tensor([list(held[start:start + context + 1])])
            logits = model(row[:, :-1]).logits.double()
            total += float(torch.nn.functional.cross_entropy(logits[0], row[0, 1:], reduction="sum"))
    return total / (len(held) - 1)


def with_adapters(model, adapters, copy):
    import peft
    adapted = peft.PeftModel.from_pretrained(model, adapters)
    missing = adapted.load_adapter(adapters, "again").missing_keys  # from_pretrained does not tell
    if missing := [key for key in missing if "lora_" in key]:
        sys.exit(f"missing_keys: {missing}")
    adapted.delete_adapter("again")
    adapted.save_pretrained(copy)
    return adapted.eval()


def main(folder, text=None, context=None, loss=None, tolerance=TOLERANCE, adapters=None, copy=None):
    model = load(folder)
    if adapters is not None:
        model = with_adapters(model, adapters, copy)
    if os.path.exists(folder + "/elements"):
        print(f"{type(model).__name__}: {check_elements(model, folder + '/elements')} tensors")
    if text is not None:
        theirs = held_out_loss(model, text, int(context))
        print(f"{type(model).__name__}: held-out loss {theirs:.9g}, of ebb-train {loss}")
        if not abs(theirs - float(loss)) <= float(tolerance) * abs(theirs):
            sys.exit("the losses differ")


if __name__ == "__main__":
    main(*sys.argv[1:])
