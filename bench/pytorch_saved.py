#!/usr/bin/env python3
"""What eager PyTorch saves for the backward pass of one layer of the model in pytorch_gpt2.py, and what a step takes at its peak,
for compare_saved.sh.

torch.autograd.graph.saved_tensors_hooks sees every tensor that an operation keeps. Parameters are left out, a storage counts
once, and for the layer in which it is saved first. The profiler's memory events are every allocation and free of a step; what that
grows by from a batch to one twice as large is its tokens'. Prints one JSON object: bytes for each token and channel, in all and by the
operation that saved them; bytes for each token at the peak.
"""

import argparse
import json

import torch

import pytorch_gpt2


def saved_by_layers(model, tokens, targets):
    """For each block: [(bytes of the storage, shape and type of the tensor)]."""
    parameters = {p.untyped_storage().data_ptr() for p in model.parameters()}
    seen, kept, layers, now = set(), [], [[] for _ in model.blocks], [None]

    def pack(tensor):
        storage = tensor.untyped_storage()
        key = storage.data_ptr()
        kept.append(tensor)  # so that no other tensor takes the address
        if now[0] is not None and key not in parameters and key not in seen:
            layers[now[0]].append((storage.nbytes(), f"{str(tensor.dtype).split('.')[1]}{list(tensor.shape)}"))
        seen.add(key)
        return tensor

    for index, block in enumerate(model.blocks):
        block.register_forward_pre_hook(lambda *_, index=index: now.__setitem__(0, index))
        block.register_forward_hook(lambda *_: now.__setitem__(0, None))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(tokens, targets)
    return layers


def peak_bytes(model, optimizer, batch, context):
    """Bytes allocated in a step at once, at most, beyond what is there before it."""
    tokens = torch.randint(256, (batch, context))

    def step():
        loss = model(tokens, tokens)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(model.parameters()), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    step()  # moments are there from the first step on
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        step()
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    now = most = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in dict(layers=3, width=256, heads=4, context=256, batch=2).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--dtype", choices=("fp32", "bf16"), default="fp32")
    o = parser.parse_args()
    model = pytorch_gpt2.GPT2(o.layers, o.width, o.heads, o.context, dropout=o.dropout)
    if o.dtype == "bf16":
        model = model.to(torch.bfloat16)
    tokens = torch.randint(256, (o.batch, o.context))
    saved = saved_by_layers(model, tokens, tokens)[1]
    optimizer, _ = pytorch_gpt2.adamw(model, 1e-3)
    few = max(1, o.batch // 4)  # it grows evenly
    once, twice = (peak_bytes(model, optimizer, batch, o.context) for batch in (few, 2 * few))
    each = o.batch * o.context * o.width
    print(json.dumps({
        "torch": torch.__version__, "dtype": o.dtype, "dropout": o.dropout, "context": o.context,
        "bytes": round(sum(size for size, _ in saved) / each, 2),
        "peak_bytes_a_token": round((twice - once) / (few * o.context)),
        "tensors": [{"bytes": round(size / each, 2), "tensor": what} for size, what in saved],
    }))


if __name__ == "__main__":
    main()
