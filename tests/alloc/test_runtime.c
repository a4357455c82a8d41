/* NVIDIA's own runtime, static and shared, on a driver that only records: every look-up that it makes without ebb,
 * it makes through ebb when that is preloaded, and what ebb answers for is given to it. */
#include <setjmp.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOST = 4096 };

typedef struct lookup {
    char name[96], by[64];
    int version;
    unsigned long long flags;
} lookup_t;

typedef struct lookups {
    lookup_t at[MOST];
    size_t count;
} lookups_t;

static const char *const intercepted[] = {
#define HOOKED(name, symbol, version, form, use) #name,
#include "alloc/base/driver_calls.h"
};

static bool is_intercepted(const char *name)
{
    for (size_t i = 0; i < sizeof intercepted / sizeof intercepted[0]; i++)
        if (!strcmp(intercepted[i], name))
            return true;
    return false;
}

static void run(const char *program, bool with_ebb, lookups_t *out)
{
    char path[] = "/tmp/ebb_lookups_XXXXXX", command[2048];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    snprintf(command, sizeof command, "RECORD_TO=%s LD_LIBRARY_PATH=%s %s%s %s", path, DRIVER_PATH,
             with_ebb ? "LD_PRELOAD=" : "", with_ebb ? EBB_LIBRARY : "", program);
    int status = system(command);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    out->count = 0;
    lookup_t l;
    while (fscanf(in, "%95s %d %llu %63s", l.name, &l.version, &l.flags, l.by) == 4) {
        assert_true(out->count < MOST);
        out->at[out->count++] = l;
    }
    fclose(in);
    unlink(path);
}

static const lookup_t *find(const lookups_t *in, const lookup_t *l)
{
    for (size_t i = 0; i < in->count; i++)
        if (!strcmp(in->at[i].name, l->name) && in->at[i].version == l->version &&
            in->at[i].flags == l->flags)
            return &in->at[i];
    return NULL;
}

static void lookups_reach_ebb(const char *program)
{
    static lookups_t alone, preloaded;
    run(program, false, &alone);
    run(program, true, &preloaded);
    assert_true(alone.count > 300); /* about 440 with CUDA 13.0 */
    for (size_t i = 0; i < alone.count; i++) {
        assert_string_not_equal(alone.at[i].by, "libebb.so");
        const lookup_t *same = find(&preloaded, &alone.at[i]);
        if (!same)
            fail_msg("%s of %d was not looked up with ebb", alone.at[i].name, alone.at[i].version);
    }
    for (size_t i = 0; i < preloaded.count; i++)
        assert_string_equal(preloaded.at[i].by, "libebb.so");
}

/* Asked with the runtime's own versions and flags. */
static void answers_are_ebbs(const char *program)
{
    static lookups_t alone;
    run(program, false, &alone);
    unsigned ours = 0;
    for (size_t i = 0; i < alone.count; i++) {
        const lookup_t *l = &alone.at[i];
        char command[2048], by[64] = "";
        if (i % 8 && !is_intercepted(l->name)) /* of the others a few will do */
            continue;
        snprintf(command, sizeof command, "LD_LIBRARY_PATH=%s LD_PRELOAD=%s %s %s %d %llu", DRIVER_PATH,
                 EBB_LIBRARY, program, l->name, l->version, l->flags);
        FILE *in = popen(command, "r");
        assert_non_null(in);
        assert_int_equal(fscanf(in, "%63s", by), 1);
        assert_int_equal(pclose(in), 0);
        if (strcmp(by, is_intercepted(l->name) ? "libebb.so" : "libcuda.so.1"))
            fail_msg("%s of %d, flags %llu, is answered by %s", l->name, l->version, l->flags, by);
        ours += is_intercepted(l->name);
    }
    assert_true(ours > 80);
}

static void static_runtime_reaches_ebb(void **state)
{
    (void)state;
    if (access(STATIC_PROGRAM, X_OK))
        skip();
    lookups_reach_ebb(STATIC_PROGRAM);
    answers_are_ebbs(STATIC_PROGRAM);
}

static void shared_runtime_reaches_ebb(void **state)
{
    (void)state;
    if (access(SHARED_PROGRAM, X_OK))
        skip();
    lookups_reach_ebb(SHARED_PROGRAM);
    answers_are_ebbs(SHARED_PROGRAM);
}

/* cuBLAS has a runtime inside that is none of the program's. */
static void runtime_inside_cublas_reaches_ebb(void **state)
{
    (void)state;
    lookups_reach_ebb(CUBLAS_PROGRAM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(static_runtime_reaches_ebb),
        cmocka_unit_test(shared_runtime_reaches_ebb),
        cmocka_unit_test(runtime_inside_cublas_reaches_ebb),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
