"""sparse_weights.py FILE LAYERS WIDTH HIDDEN VOCAB: weights of a Llama with as many key heads as heads, all zero, as a file of holes
(safetensors, BF16): a dry run of a large model (overhead.sh) starts from it in seconds, and the numbers don't matter."""
import json
import struct
import sys

path, layers, width, hidden, vocab = sys.argv[1], *map(int, sys.argv[2:])
shapes = {"model.embed_tokens.weight": [vocab, width], "lm_head.weight": [vocab, width], "model.norm.weight": [width]}
for i in range(layers):
    at = f"model.layers.{i}."
    shapes |= {f"{at}self_attn.{k}_proj.weight": [width, width] for k in "qkvo"}
    shapes |= {f"{at}mlp.{k}_proj.weight": [hidden, width] for k in ("gate", "up")}
    shapes |= {f"{at}mlp.down_proj.weight": [width, hidden], f"{at}input_layernorm.weight": [width],
               f"{at}post_attention_layernorm.weight": [width]}
header, end = {}, 0
for name, shape in shapes.items():
    begin, end = end, end + 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
    header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
text = json.dumps(header).encode()
with open(path, "wb") as f:
    f.write(struct.pack("<Q", len(text)) + text)
    f.truncate(8 + len(text) + end)
