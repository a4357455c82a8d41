#include "model/train/generate.h"

#include <stdlib.h>

#include "model/base/check.h"
#include "model/files/weights.h"
#include "model/layers/linear.h"
#include "model/train/sample.h"
#include "model/train/training.h"

/* The given options with the shape and the type that the checkpoint has; its weights are in `weights`. */
static options_t options_of(const options_t *given, folder_path_t weights)
{
    options_t options = *given;
    folder_path_t config;
    shape_t shape;
    element_t element;
    fault_t fault;
    must(checkpoint_find_model(given->checkpoint, weights, config, &fault), &fault);
    must(config_read("--checkpoint", config, &shape, &element, &fault), &fault);
    options_set_shape(&options, &shape);
    options.dtype = element == ELEMENT_BF16 ? DTYPE_BF16 : DTYPE_FP32;
    options.batch = 1;
    options_check_shape(&options);
    take_adapters(&options);
    if (options.vocab != 256 && options.tokenizer == NULL)
        usage_error("--tokenizer FILE is missing: what the model's %d classes are; without one, 256 classes "
                    "are bytes",
                    options.vocab);
    return options;
}

void generate(const options_t *given)
{
    folder_path_t weights;
    options_t options = options_of(given, weights);
    tokenizer_t tokenizer;
    gpu_t gpu;
    transformer_t model;
    batch_ring_t ring;
    fault_t fault;
    size_t length;
    open_tokenizer(&tokenizer, &options);
    gpu_open(&gpu, options.device);
    linear_open(&gpu, workspace_bytes(&options));
    transformer_open(&model, &gpu, NULL, &options);
    must(checkpoint_init("--checkpoint", weights, &model, false, NULL, &fault), &fault);
    load_adapters(&options, &model);
    batch_ring_open(&ring, &gpu, options.context, options.vocab, 1);
    unsigned char *text = sample_text(&model, &ring, &options, &tokenizer, &length);
    sample_print(&options, text, length);
    free(text);
    batch_ring_close(&ring);
    transformer_close(&model);
    linear_close(&gpu);
    gpu_close(&gpu);
    tokenizer_close(&tokenizer);
}
