/* checkpoint.h: the whole of a training on the disk, so that it goes on from there as if it had never stopped: the same
 * bits of every later loss, and of the model in the end.
 *
 * A checkpoint is a folder (folder.h) with the model (model.safetensors and config.json, weights.h: what `transformers`
 * loads), state.bin, and the optimizer's state in one or more shards (state.h). Fields of state.bin, in this order:
 *
 *   the model                    uint64 family (0 GPT-2, 1 Llama), layers, width, heads, kv_heads, hidden, context, vocab,
 *                                tied; double norm_eps, rope_theta, rope_factor; uint64 dtype (0 fp32, 1 bf16)
 *   with adapters                double lora_alpha; uint64 base: a hash of the frozen weights as --init's file has them; 0
 *                                without --init
 *   the place                    uint64 step: optimizer steps done; sequences: training sequences taken, which is the
 *                                number of the next one (data.h); micro_batches: done, which chooses dropout's masks; shards
 *   random numbers               uint64 seed
 *   the data                     uint64 data: dataset_fingerprint()
 *   the settings                 uint64 steps, batch, accumulate; double lr, warmup, lr_final; uint64 schedule (0 cosine,
 *                                1 constant, 2 linear, 3 wsd); double cooldown, beta1, beta2, eps, decay,
 *                                decay_embeddings, clip, skip_outliers; uint64 rounding (0 nearest, 1
 *                                stochastic); double dropout
 *   the model's tensors          uint64 tensors: a hash of each one in model.safetensors, in the layout's order; of those that
 *                                are not in the file 0
 *   past losses and norms        float outliers[OUTLIER_FLOATS]: as kernels.h has them; zeros if none are skipped
 *   the shards                   uint64 ends[shards]: the last checksum of each
 *
 * and of shard number k, from 0 on, of n:
 *   which one                    uint64 step, shard (k), shards (n)
 *   for each trained group g     float master.g (bf16 only: the fp32 values), m.g, v.g: as parameters.h has them; of the group the elements
 *                                that parameters_shard() gives rank k of n
 *
 * With adapters (layout.h) the model is in adapter_model.safetensors and adapter_config.json, what PEFT loads, and holds them alone:
 * the frozen weights are those of --init, which a resumed training must be given again.
 *
 * With --compress there is another file of each rank (feedback.h).
 *
 * There is one shard, or with --zero one for each rank, which writes it; rank 0 writes all else. What is read may have been written by any number
 * of ranks, with any --zero.
 *
 * A resumed training must have the model, the seed and the data of the checkpoint. Settings may differ, which is
 * told on stderr: then it goes on from the same place, in another way.
 */
#ifndef EBB_MODEL_FILES_CHECKPOINT_H
#define EBB_MODEL_FILES_CHECKPOINT_H

#include <stdint.h>

#include "model/base/fault.h"
#include "model/files/folder.h"
#include "model/layers/transformer.h"
#include "model/options/options.h"

/* Where a training is. */
typedef struct place {
    uint64_t step, sequences, micro_batches;
    uint64_t shards; /* of the checkpoint that it was read from */
} place_t;

typedef struct checkpoint {
    const options_t *options; /* borrowed */
    uint64_t data;            /* fingerprint */
    uint64_t base;            /* with adapters: hash of --init's weights; 0: they are the seed's */
    const tensor_t *past;     /* borrowed: the optimizer's, for outliers; may be empty */
    int end;                  /* the token that ends a text, for config.json */
} checkpoint_t;

/* Writes a complete checkpoint of `place` into options->checkpoint and removes what --keep does not keep. Everything
 * issued must be done or on the model's stream. Waits. Every rank calls it; `path` is rank 0's. */
bool checkpoint_save(const checkpoint_t *checkpoint, transformer_t *model, place_t place, folder_path_t path,
                     fault_t *fault);

/* Finds what options->resume means: a checkpoint, the newest one in a folder of them, or with "" the newest one in
 * options->checkpoint, where there need be none (*found is false then). Refuses to write into a folder that has later
 * checkpoints than the one found, or any if nothing is resumed: they would be taken for this training's. */
bool checkpoint_find(const options_t *options, bool *found, folder_path_t path, fault_t *fault);

/* Fills the model's parameters and moments from a checkpoint, and says where that was. Waits. */
bool checkpoint_load(const checkpoint_t *checkpoint, const char *path, transformer_t *model, place_t *place,
                     fault_t *fault);

/* What --compress has lost (feedback.h), once all ranks are known to go on from this place. Waits for all of them. */
bool checkpoint_load_lost(const char *path, transformer_t *model, const place_t *place, fault_t *fault);

/* Fills the model's parameters, its adapters or all else, from safetensors (weights.h); moments stay zero. *hash, unless NULL: goes on
 * over what the file has. `flag` begins messages. Waits. */
bool checkpoint_init(const char *flag, const char *path, transformer_t *model, bool adapters, uint64_t *hash,
                     fault_t *fault);

/* A model to generate with: where its weights (weights.h) and its config.json are. `given` is a checkpoint, or a folder
 * of them, of which the newest is taken; or safetensors, file or folder, that have a config.json beside them. */
bool checkpoint_find_model(const char *given, folder_path_t weights, folder_path_t config, fault_t *fault);

/* The same of adapters: a checkpoint, or a folder of them; or a folder with PEFT's two files. */
bool checkpoint_find_adapters(const char *given, folder_path_t weights, folder_path_t config, fault_t *fault);

#endif
