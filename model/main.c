/* ebb-train: trains a GPT-2 style transformer on text, on a CUDA device. See --help. */
#include "model/options/options.h"
#include "model/train/dry_run.h"
#include "model/train/train.h"

int main(int argc, char **argv)
{
    options_t options;
    options_parse(&options, argc, argv);
    if (options.dry_run)
        dry_run(&options);
    else
        train(&options);
    return 0;
}
