/* fuzz_seeds.c: fuzz_seeds FOLDER: makes FOLDER/safetensors/whole and FOLDER/state/whole, what the fuzzers of fuzz_readers.c
 * start from. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "files.h"

/* FOLDER/reader/whole. */
static const char *seed_path(char path[256], const char *folder, const char *reader)
{
    snprintf(path, 256, "%s/%s", folder, reader);
    if ((mkdir(folder, 0777) && errno != EEXIST) || (mkdir(path, 0777) && errno != EEXIST)) {
        perror(path);
        exit(1);
    }
    snprintf(path, 256, "%s/%s/whole", folder, reader);
    return path;
}

int main(int count, char **arguments)
{
    char path[256];
    if (count != 2) {
        fputs("usage: fuzz_seeds FOLDER\n", stderr);
        return 2;
    }
    files_safetensors(seed_path(path, arguments[1], "safetensors"));
    files_state(seed_path(path, arguments[1], "state"));
    return 0;
}
