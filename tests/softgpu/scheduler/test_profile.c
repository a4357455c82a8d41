/* SOFTGPU_PROFILE: which names there are, and what a program sees of it. */
#include "scheduler_test.h"

typedef struct seen {
    char name[80];
    int multiprocessors, major, l2;
    size_t memory;
    int64_t kernel_ns;
} seen_t;

static void look(void *out)
{
    seen_t *o = out;
    CUstream s = new_stream(0);
    CUevent a = new_event(), b = new_event();
    double operations = 1e9, bytes = 0;
    int kind = 0;
    CUfunction f = kernel("spend");
    OK(cuDeviceGetName(o->name, sizeof o->name, 0));
    OK(cuDeviceGetAttribute(&o->multiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    OK(cuDeviceGetAttribute(&o->major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    OK(cuDeviceGetAttribute(&o->l2, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 0));
    OK(cuDeviceTotalMem(&o->memory, 0));
    OK(cuEventRecord(a, s));
    LAUNCH(s, f, &operations, &kind, &bytes);
    OK(cuEventRecord(b, s));
    OK(cuStreamSynchronize(s));
    o->kernel_ns = elapsed_ns(a, b) - 2000; /* the launch's call */
}

static seen_t look_at(const char *profile)
{
    seen_t o;
    memset(&o, 0, sizeof o);
    if (profile)
        setenv("SOFTGPU_PROFILE", profile, 1);
    else
        unsetenv("SOFTGPU_PROFILE");
    run_seeded(1, look, &o, sizeof o);
    return o;
}

static void device_looks_like_the_named_gpu(void **state)
{
    (void)state;
    unsetenv("SOFTGPU_MEMORY");
    seen_t o = look_at("H200");
    assert_string_equal(o.name, "softgpu (H200)");
    assert_int_equal(o.multiprocessors, 132);
    assert_int_equal(o.major, 9);
    assert_int_equal(o.l2, 50 << 20);
    assert_int_equal(o.memory, (size_t)141 << 30);
    assert_int_equal(o.kernel_ns, 2000 + 14948); /* 1e9 / 66.9e3 = 14947.7 */
}

static void memory_can_be_chosen_apart(void **state)
{
    (void)state;
    setenv("SOFTGPU_MEMORY", "256MiB", 1);
    assert_int_equal(look_at("RTX4090").memory, 256 << 20);
    unsetenv("SOFTGPU_MEMORY");
}

static void names_are_found_in_any_spelling(void **state)
{
    (void)state;
    setenv("SOFTGPU_MEMORY", "256MiB", 1);
    assert_string_equal(look_at("rtx 4090").name, "softgpu (GeForce RTX 4090)");
    assert_string_equal(look_at("A100").name, "softgpu (A100-SXM4-80GB)");
    assert_string_equal(look_at("a100-pcie").name, "softgpu (A100 80GB PCIe)");
    assert_string_equal(look_at("A100_SXM_40GB").name, "softgpu (A100-SXM4-40GB)");
    assert_string_equal(look_at("L4").name, "softgpu (L4)"); /* not L40S */
    assert_string_equal(look_at("h100").name, "softgpu (H100 80GB HBM3)");
    unsetenv("SOFTGPU_MEMORY");
}

static void unknown_name_is_told_and_leaves_the_default(void **state)
{
    (void)state;
    int pipes[2], kept = dup(STDERR_FILENO);
    char text[1024] = "";
    assert_int_equal(pipe(pipes), 0);
    dup2(pipes[1], STDERR_FILENO);
    seen_t unknown = look_at("Voodoo2");
    dup2(kept, STDERR_FILENO);
    close(pipes[1]);
    assert_true(read(pipes[0], text, sizeof text - 1) > 0);
    close(pipes[0]);
    close(kept);
    assert_non_null(strstr(text, "Voodoo2"));
    assert_non_null(strstr(text, "H100-SXM"));
    seen_t none = look_at(NULL);
    assert_memory_equal(&unknown, &none, sizeof none);
    assert_non_null(strstr(none.name, "computed clock"));
    assert_int_equal(none.kernel_ns, 2000 + 51283); /* an A100's 19.5 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device_looks_like_the_named_gpu),
        cmocka_unit_test(memory_can_be_chosen_apart),
        cmocka_unit_test(names_are_found_in_any_spelling),
        cmocka_unit_test(unknown_name_is_told_and_leaves_the_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
