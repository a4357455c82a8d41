/* PyTorch that maps its memory itself is told, once, that ebb cannot help it; others are not, also where PyTorch is loaded: NCCL. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda.h>
#include <dlfcn.h>

typedef CUresult create_t(CUmemGenericAllocationHandle *, size_t, const CUmemAllocationProp *);

static CUresult create_itself(CUmemGenericAllocationHandle *out, size_t bytes,
                              const CUmemAllocationProp *prop)
{
    const CUresult result = cuMemCreate(out, bytes, prop, 0);
    return result ? result : cuMemRelease(*out);
}

static int create_and_release(create_t *create)
{
    CUcontext context;
    CUmemGenericAllocationHandle handle;
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUdeviceptr p;
    if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
        cuMemAlloc(&p, 4096))
        return 1;
    for (int i = 0; i < 2; i++)
        if (create(&handle, 2 << 20, &prop))
            return 2;
    return 0;
}

/* How often the word is in what a process of its own says: it loads the library, if any, which creates, or the process itself does. */
static int count_in_child(const char *word, const char *library, bool itself)
{
    char text[8192] = "";
    int ends[2], status, count = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (!child) {
        dup2(ends[1], STDERR_FILENO);
        void *object = *library ? dlopen(library, RTLD_NOW) : NULL;
        create_t *create = itself   ? create_itself
                           : object ? (create_t *)dlsym(object, "create_segment")
                                    : NULL;
        _exit((*library && !object) || !create ? 3 : create_and_release(create));
    }
    close(ends[1]);
    for (ssize_t got, at = 0; (got = read(ends[0], text + at, sizeof text - 1 - (size_t)at)) > 0;)
        at += got;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 0);
    for (const char *at = text; (at = strstr(at, word)); at++)
        count++;
    return count;
}

static void pytorch_with_segments_of_its_own_is_told_once(void **state)
{
    (void)state;
    assert_int_equal(count_in_child("expandable_segments", C10_CUDA, false), 1);
    assert_int_equal(count_in_child("expandable_segments", C10_CUDA, true), 0);
    assert_int_equal(count_in_child("expandable_segments", "", true), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pytorch_with_segments_of_its_own_is_told_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
