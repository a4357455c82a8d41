/* ebb-train: trains a transformer on text, on CUDA devices, and samples from it. See --help. */
#include <stdio.h>

#include "model/base/check.h"
#include "model/options/options.h"
#include "model/ranks/ranks.h"
#include "model/train/dry_run.h"
#include "model/train/generate.h"
#include "model/train/train.h"
#include "model/train/training.h"

/* Of several ranks the first speaks and writes. */
static void fall_silent(options_t *options)
{
    options->log = options->plot = options->dump = NULL;
    if (freopen("/dev/null", "w", stdout) == NULL)
        fatal("/dev/null cannot be opened");
}

static int train_together(options_t *options, char **argv)
{
    const world_t world = world_find();
    if (world.starter == NULL && options->gpus > 1)
        return world_start(options->gpus, argv);
    if (options->gpus > 1 && options->gpus != world.count)
        usage_error("--gpus %d: %s has started %d ranks; leave it out", options->gpus, world.starter,
                    world.count);
    if (options->graph && world.count > 1 && options->zero > 1 && options->accumulate > 1)
        usage_error("--graph: with --zero %d gradients are freed within a graph, so --accumulate must be 1",
                    options->zero);
    if (world.rank > 0)
        fall_silent(options);
    train(options, world);
    return 0;
}

int main(int argc, char **argv)
{
    options_t options;
    options_parse(&options, argc, argv);
    if (options.command != COMMAND_GENERATE) /* which knows its family only by the checkpoint */
        take_adapters(&options);
    if (options.command == COMMAND_GENERATE)
        generate(&options);
    else if (options.dry_run)
        dry_run(&options);
    else
        return train_together(&options, argv);
    return 0;
}
