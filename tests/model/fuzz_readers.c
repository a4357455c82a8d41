/* fuzz_readers.c: the readers of safetensors and state files, driven by libFuzzer (clang): an input is a whole file.
 *
 *     cmake -DEBB_LIBFUZZER=ON ... && ninja fuzz_safetensors fuzz_state
 *     bin/fuzz_state -max_total_time=60 fuzz/state
 *
 * The build puts a whole file into the folders fuzz/safetensors and fuzz/state (fuzz_seeds.c), from which the fuzzer starts: of
 * bytes at random hardly any get past the first field. READER_SAFETENSORS or READER_STATE says which. test_readers.c has a short form with inputs of its own, which every run of the tests
 * does. A file is read to its end, whatever it holds; the sanitizers and the bounds below judge. One thread. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "model/files/safetensors.h"
#include "model/files/state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#ifdef READER_SAFETENSORS
static void read_all(const char *path)
{
    safetensors_t file;
    fault_t fault;
    if (!safetensors_open(&file, "--init", path, &fault))
        return;
    for (size_t i = 0; i < file.count; i++) {
        const stored_t *tensor = &file.tensors[i];
        if (safetensors_find(&file, tensor->name) == NULL)
            abort();
        float *values = malloc((size_t)tensor->count * sizeof *values + 1);
        if (values != NULL)
            (void)safetensors_read(&file, tensor, 0, (size_t)tensor->count, values, &fault);
        free(values);
    }
    safetensors_close(&file);
}
#else
/* The fields of files_state(). */
static void read_all(const char *path)
{
    state_file_t state;
    fault_t fault;
    uint64_t counts[3], count;
    double real;
    float floats[301];
    if (state_open(&state, path, &fault) && state_get_count(&state, "step", &count, &fault) &&
        state_get_real(&state, "lr", &real, &fault) &&
        state_get_counts(&state, "tensors", counts, 3, &fault) &&
        state_get_floats(&state, "m.0", floats, 301, &fault))
        (void)state_end(&state, &fault);
    state_close(&state);
}
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    static char path[64];
    if (fd < 0) {
        fd = memfd_create("input", 0);
        if (fd < 0)
            abort();
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    read_all(path);
    return 0;
}
