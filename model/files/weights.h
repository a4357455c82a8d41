/* weights.h: a model's parameters in safetensors files, under the names and with the shapes that Hugging Face's
 * `transformers` gives them, and the config.json that goes with them. Host only.
 *
 * Names are the layout's (layout.h); those of GPT-2 begin with "transformer." but for lm_head.weight, as
 * GPT2LMHeadModel has it; when reading, that beginning may be missing, as in files of GPT2Model. A tied head is not
 * stored. GPT-2's Conv1D matrices are stored as [in,out], all others as [out,in].
 *
 * Adapters (layout.h) have a file of their own, in PEFT's form, with an adapter_config.json.
 *
 * One group of parameters is in memory at a time.
 */
#ifndef EBB_MODEL_FILES_WEIGHTS_H
#define EBB_MODEL_FILES_WEIGHTS_H

#include <stdint.h>
#include <stdio.h>

#include "model/base/fault.h"
#include "model/base/layout.h"
#include "model/files/safetensors.h"

/* Fetches a group's values [groups[group].count], or takes them. */
typedef void (*weights_fetch_fn)(void *context, int group, float *values);
typedef void (*weights_take_fn)(void *context, int group, const float *values);

/* Writes all tensors, of adapters or of all else, as `element` (F32 or BF16). hashes[tensor_count]: one of the values of each that
 * is written, as a reader of the file will see them. */
bool weights_write(const char *path, const layout_t *layout, bool adapters, element_t element,
                   weights_fetch_fn fetch, void *context, uint64_t *hashes, fault_t *fault);

/* Reads all tensors, of adapters or of all else, from `path`: a file, or a folder with model.safetensors or with several files and
 * model.safetensors.index.json, which says which tensor is where. Tensors that the model does not have are passed over.
 * `flag` begins messages. hashes may be NULL. */
bool weights_read(const char *flag, const char *path, const layout_t *layout, bool adapters,
                  weights_take_fn take, void *context, uint64_t *hashes, fault_t *fault);

/* The JSON in a file, which is closed; NULL: there is none in it, or more than 256 MiB. */
struct cJSON *json_read(FILE *file);

/* ---- config.c ---- */

/* Writes the config.json that makes `transformers` load the model: its class, shape and `element`; `dropout` of a
 * training (GPT-2); `end`, the token that ends a text. On the disk when it returns. */
bool config_write(const char *path, const shape_t *shape, element_t element, double dropout, int end,
                  fault_t *fault);

/* Reads a config.json: the shape, and the type in which the weights are stored. What the trainer's models cannot do is
 * refused: other families, activations, biases, or positions. `flag` begins messages. */
bool config_read(const char *flag, const char *path, shape_t *shape, element_t *element, fault_t *fault);

/* Writes the adapter_config.json that makes PEFT load the layout's adapters onto the model that lies in `base`. On the disk when
 * it returns. */
bool adapter_config_write(const char *path, const layout_t *layout, const char *base, fault_t *fault);

/* Reads one: rank, alpha and targets, which the caller frees. Other methods than LoRA, and variants whose arithmetic is another, are
 * refused. Dropout is passed over. `flag` begins messages. */
bool adapter_config_read(const char *flag, const char *path, lora_t *lora, fault_t *fault);

#endif
