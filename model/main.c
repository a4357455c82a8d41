/* ebb-train: trains a transformer on text, on a CUDA device, and samples from it. See --help. */
#include "model/options/options.h"
#include "model/train/dry_run.h"
#include "model/train/generate.h"
#include "model/train/train.h"

int main(int argc, char **argv)
{
    options_t options;
    options_parse(&options, argc, argv);
    if (options.command == COMMAND_GENERATE)
        generate(&options);
    else if (options.dry_run)
        dry_run(&options);
    else
        train(&options);
    return 0;
}
