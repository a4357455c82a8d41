/* Virtual time against closed forms, on the profile H100-SXM: 66.9 fp32 and 989.4 bf16 TFLOP/s, 3350 GB/s of memory, a link
 * of 55 GB/s each way. A kernel takes 2 us more than its work, a copy 1.5, a call of the API takes the host 2 us.
 */
#include "scheduler_test.h"

enum { CALL = 2000, KERNEL = 2000, COPY = 1500, MIB = 1 << 20 };

static int64_t ceil_div(double work, double per_ns)
{
    double ns = work / per_ns;
    return (int64_t)ns + ((double)(int64_t)ns < ns);
}

/* Each body leaves its times here. */
typedef struct times {
    int64_t ns[8];
} times_t;

static times_t run(void (*body)(void *), const char *slowdown_percent)
{
    times_t first, again;
    memset(&first, 0, sizeof first);
    setenv("SOFTGPU_PROFILE", "H100", 1);
    setenv("SOFTGPU_MEMORY", "1G", 1);
    setenv("SOFTGPU_COPY_SLOWDOWN", slowdown_percent, 1);
    again = first;
    run_seeded(1, body, &first, sizeof first);
    run_seeded(2, body, &again, sizeof again);
    assert_memory_equal(&first, &again, sizeof first);
    return first;
}

static void spend(CUstream s, CUfunction f, double operations, int kind, double bytes)
{
    LAUNCH(s, f, &operations, &kind, &bytes);
}

/* ---- single ops ---- */

static void kernels_alone(void *out)
{
    times_t *t = out;
    CUstream s = new_stream(0);
    CUfunction f = kernel("spend");
    CUevent e[5];
    for (int i = 0; i < 5; i++)
        e[i] = new_event();
    /* The first keeps the device busy until all of it is queued: what follows is back to back. */
    spend(s, f, 66.9e3 * 1e6, 0, 0);
    OK(cuEventRecord(e[0], s));
    spend(s, f, 66.9e3 * 5000, 0, 0);
    OK(cuEventRecord(e[1], s));
    spend(s, f, 1e9, 2, 1);
    OK(cuEventRecord(e[2], s));
    spend(s, f, 1, 0, 123456789);
    OK(cuEventRecord(e[3], s));
    spend(s, f, 0, 0, 0);
    OK(cuEventRecord(e[4], s));
    OK(cuStreamSynchronize(s));
    for (int i = 0; i < 4; i++)
        t->ns[i] = elapsed_ns(e[i], e[i + 1]);
}

static void kernel_takes_the_longer_of_arithmetic_and_memory(void **state)
{
    (void)state;
    times_t t = run(kernels_alone, "0");
    assert_int_equal(t.ns[0], KERNEL + 5000);
    assert_int_equal(t.ns[1], KERNEL + ceil_div(1e9, 989.4e3));
    assert_int_equal(t.ns[2], KERNEL + ceil_div(123456789, 3350));
    assert_int_equal(t.ns[3], KERNEL);
}

/* What a launch of 1000 * 7 blocks with one argument, 0, takes. */
static int64_t launch_ns(CUfunction f)
{
    CUstream s = new_stream(0);
    CUevent a = new_event(), b = new_event();
    CUdeviceptr p = 0;
    spend(s, kernel("spend"), 66.9e3 * 1e6, 0, 0);
    OK(cuEventRecord(a, s));
    OK(cuLaunchKernel(f, 1000, 7, 1, 256, 1, 1, 0, s, (void *[]){&p}, NULL));
    OK(cuEventRecord(b, s));
    OK(cuStreamSynchronize(s));
    return elapsed_ns(a, b);
}

static void undeclared_kernel(void *out)
{
    times_t *t = out;
    t->ns[0] = launch_ns(kernel("undeclared"));
}

static void undeclared_cost_follows_from_the_number_of_threads(void **state)
{
    (void)state;
    assert_int_equal(run(undeclared_kernel, "0").ns[0], KERNEL + ceil_div(8.0 * 7000 * 256, 3350));
}

/* 48 bytes and 2 operations a thread, were `p` not 0. */
static void kernel_of_ptx(void *out)
{
    static const char ptx[] =
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry other()\n{\nret;\n}\n"
        ".visible .entry move(.param .u64 p)\n{\n.reg .pred %p<2>;\n.reg .f32 %f<5>;\n.reg .b64 %a<2>;\n"
        "ld.param.u64 %a1, [p];\nsetp.eq.u64 %p1, %a1, 0;\n@%p1 bra end;\n"
        "ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%a1];\nfma.rn.f32 %f1, %f1, %f2, %f3;\n"
        "st.global.v4.f32 [%a1+16], {%f1, %f2, %f3, %f4};\n"
        "st.global.v4.f32 [%a1+32], {%f1, %f2, %f3, %f4};\nend: ret;\n}\n";
    times_t *t = out;
    CUmodule ours;
    CUfunction f;
    CUdeviceptr p = 0;
    OK(cuModuleLoadData(&ours, ptx));
    OK(cuModuleGetFunction(&f, ours, "move"));
    OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, (void *[]){&p}, NULL)); /* compiled here */
    OK(cuCtxSynchronize());
    t->ns[0] = launch_ns(f);
}

static void kernel_of_ptx_costs_what_its_text_says(void **state)
{
    (void)state;
    assert_int_equal(run(kernel_of_ptx, "0").ns[0], KERNEL + ceil_div(48.0 * 7000 * 256, 3350));
}

static void copies_alone(void *out)
{
    times_t *t = out;
    CUstream s = new_stream(0);
    CUevent e[6];
    CUdeviceptr p = device_alloc(3 * MIB);
    void *host = pinned_alloc(3 * MIB);
    for (int i = 0; i < 6; i++)
        e[i] = new_event();
    spend(s, kernel("spend"), 66.9e3 * 1e6, 0, 0);
    OK(cuEventRecord(e[0], s));
    OK(cuMemcpyHtoDAsync(p, host, 3 * MIB, s));
    OK(cuEventRecord(e[1], s));
    OK(cuMemcpyDtoHAsync(host, p, 1000, s));
    OK(cuEventRecord(e[2], s));
    OK(cuMemcpyDtoDAsync(p, p + MIB, MIB, s));
    OK(cuEventRecord(e[3], s));
    OK(cuMemsetD32Async(p, 1, MIB / 4, s));
    OK(cuEventRecord(e[4], s));
    OK(cuEventRecord(e[5], s));
    OK(cuStreamSynchronize(s));
    for (int i = 0; i < 5; i++)
        t->ns[i] = elapsed_ns(e[i], e[i + 1]);
}

static void copy_takes_its_bytes_over_the_link_or_memory(void **state)
{
    (void)state;
    times_t t = run(copies_alone, "0");
    assert_int_equal(t.ns[0], COPY + ceil_div(3.0 * MIB, 55));
    assert_int_equal(t.ns[1], COPY + ceil_div(1000, 55));
    assert_int_equal(t.ns[2], COPY + ceil_div(2.0 * MIB, 3350));
    assert_int_equal(t.ns[3], COPY + ceil_div(MIB, 3350));
    assert_int_equal(t.ns[4], 0);
}

/* What a call, and a turn, takes is what it was. */
static void larger_work_takes_as_many_times_as_long(void **state)
{
    (void)state;
    setenv("SOFTGPU_LARGER", "40", 1);
    const times_t kernels = run(kernels_alone, "0"), copies = run(copies_alone, "0");
    unsetenv("SOFTGPU_LARGER");
    assert_int_equal(kernels.ns[0], KERNEL + 40 * 5000);
    assert_int_equal(kernels.ns[2], KERNEL + ceil_div(40 * 123456789.0, 3350));
    assert_int_equal(kernels.ns[3], KERNEL);
    assert_int_equal(copies.ns[0], COPY + ceil_div(40 * 3.0 * MIB, 55));
    assert_int_equal(copies.ns[2], COPY + ceil_div(40 * 2.0 * MIB, 3350));
}

/* ---- the host ---- */

static void host_calls(void *out)
{
    times_t *t = out;
    CUstream s = new_stream(0);
    CUevent a = new_event(), b = new_event(), c = new_event(), d = new_event();
    CUfunction f = kernel("spend");
    CUdeviceptr p = device_alloc(4);
    int value;
    OK(cuEventRecord(a, s));
    for (int i = 0; i < 10; i++)
        OK(cuStreamQuery(s));
    OK(cuEventRecord(b, s));
    spend(s, f, 66.9e3 * 1e6, 0, 0);
    OK(cuStreamSynchronize(s)); /* the host's clock goes on where the kernel ends */
    OK(cuEventRecord(c, s));
    OK(cuMemcpyDtoH(&value, p, 4)); /* waits too */
    OK(cuEventRecord(d, s));
    OK(cuStreamSynchronize(s));
    t->ns[0] = elapsed_ns(a, b);
    t->ns[1] = elapsed_ns(b, c);
    t->ns[2] = elapsed_ns(c, d);
}

static void host_time_is_calls_and_waits(void **state)
{
    (void)state;
    times_t t = run(host_calls, "0");
    assert_int_equal(t.ns[0], 11 * CALL);
    assert_int_equal(t.ns[1],
                     CALL + KERNEL + 1000000 + CALL); /* launch, kernel, record; the wait ran beside it */
    assert_int_equal(t.ns[2], CALL + COPY + 1 + CALL);
}

/* ---- beside each other ---- */

typedef struct overlap {
    CUstream compute, in, out;
    CUevent begin, kernel_done, in_done, out_done;
} overlap_t;

/* Everything begins at one time: behind a kernel that is still running when all is queued. */
static overlap_t overlap_begin(CUfunction f)
{
    overlap_t o = {.compute = new_stream(0),
                   .in = new_stream(0),
                   .out = new_stream(0),
                   .begin = new_event(),
                   .kernel_done = new_event(),
                   .in_done = new_event(),
                   .out_done = new_event()};
    spend(o.compute, f, 66.9e3 * 1e6, 0, 0);
    OK(cuEventRecord(o.begin, o.compute));
    OK(cuStreamWaitEvent(o.in, o.begin, 0));
    OK(cuStreamWaitEvent(o.out, o.begin, 0));
    return o;
}

static void overlap_end(const overlap_t *o, times_t *t)
{
    OK(cuEventRecord(o->kernel_done, o->compute));
    OK(cuEventRecord(o->in_done, o->in));
    OK(cuEventRecord(o->out_done, o->out));
    OK(cuCtxSynchronize());
    t->ns[0] = elapsed_ns(o->begin, o->kernel_done);
    t->ns[1] = elapsed_ns(o->begin, o->in_done);
    t->ns[2] = elapsed_ns(o->begin, o->out_done);
}

static void copy_beside_kernel(void *out)
{
    CUdeviceptr p = device_alloc(55000);
    void *host = pinned_alloc(55000);
    CUfunction f = kernel("spend");
    overlap_t o = overlap_begin(f);
    spend(o.compute, f, 66.9e3 * 10000, 0, 0);   /* 12000 ns alone */
    OK(cuMemcpyHtoDAsync(p, host, 27500, o.in)); /* 2000 */
    overlap_end(&o, out);
}

static void copy_and_kernel_overlap_entirely_without_slowdown(void **state)
{
    (void)state;
    times_t t = run(copy_beside_kernel, "0");
    assert_int_equal(t.ns[0], 12000);
    assert_int_equal(t.ns[1], COPY + 500);
}

static void copies_slow_down_kernels_as_configured(void **state)
{
    (void)state;
    times_t t = run(copy_beside_kernel, "10");
    /* 2000 ns at nine tenths, the rest at full rate. */
    assert_int_equal(t.ns[0], 2000 + (12000 - 1800));
    assert_int_equal(t.ns[1], 2000);
}

static void both_ways(void *out)
{
    CUdeviceptr p = device_alloc(2 * MIB);
    char *host = pinned_alloc(2 * MIB);
    CUfunction f = kernel("spend");
    overlap_t o = overlap_begin(f);
    spend(o.compute, f, 66.9e3 * 98000, 0, 0);
    OK(cuMemcpyHtoDAsync(p, host, 55 * 8500 - 55 * COPY, o.in));            /* 8500 ns alone */
    OK(cuMemcpyDtoHAsync(host + MIB, p + MIB, 55 * (18500 - COPY), o.out)); /* 18500 */
    overlap_end(&o, out);
}

static void both_directions_of_the_link_slow_each_other(void **state)
{
    (void)state;
    times_t t = run(both_ways, "10");
    assert_int_equal(t.ns[1], 10000);                  /* at 85 per cent all the time */
    assert_int_equal(t.ns[2], 10000 + (18500 - 8500)); /* for as long as the other one */
    /* 10000 ns at eight tenths, 10000 at nine tenths. */
    assert_int_equal(t.ns[0], 20000 + (100000 - 8000 - 9000));
}

static void a_lopsided_link_slows_each_direction_by_its_own_part(void **state)
{
    (void)state;
    setenv("SOFTGPU_LINK", "55,55,49.5,22", 1); /* out keeps nine tenths, in four */
    times_t t = run(both_ways, "0");
    assert_int_equal(t.ns[2], 20556);       /* 18500 at nine tenths */
    assert_int_equal(t.ns[1], 20556 + 278); /* 8222 of 8500 until then, the rest at full rate */
    setenv("SOFTGPU_LINK", "55,110,55,22",
           1); /* in alone 5000 ns; a fifth of that rate beside out, which keeps all of its own */
    t = run(both_ways, "0");
    unsetenv("SOFTGPU_LINK");
    assert_int_equal(t.ns[2], 18500);
    assert_int_equal(t.ns[1], 18500 + 1300);
}

static void one_direction(void *out)
{
    CUdeviceptr p = device_alloc(2 * MIB);
    char *host = pinned_alloc(2 * MIB);
    overlap_t o = overlap_begin(kernel("spend"));
    OK(cuMemcpyHtoDAsync(p, host, 55 * 8500, o.in));
    OK(cuMemcpyHtoDAsync(p + MIB, host + MIB, 55 * 500, o.out));
    overlap_end(&o, out);
}

static void copies_of_one_direction_take_turns(void **state)
{
    (void)state;
    times_t t = run(one_direction, "0");
    assert_int_equal(t.ns[1], COPY + 8500);
    assert_int_equal(t.ns[2], COPY + 8500 + COPY + 500);
}

static void kernels_of_three_streams(void *out)
{
    times_t *t = out;
    CUfunction f = kernel("spend");
    CUstream low = new_stream(0), equal = new_stream(0), high = new_stream(-1);
    CUevent begin = new_event(), done[3] = {new_event(), new_event(), new_event()};
    spend(low, f, 66.9e3 * 1e6, 0, 0);
    OK(cuEventRecord(begin, low));
    spend(low, f, 66.9e3 * 8000, 0, 0);
    OK(cuEventRecord(done[0], low));
    spend(equal, f, 66.9e3 * 18000, 0, 0); /* its turn came before that of the second one in `low` */
    OK(cuEventRecord(done[1], equal));
    spend(high, f, 66.9e3 * 28000, 0, 0);
    OK(cuEventRecord(done[2], high));
    OK(cuCtxSynchronize());
    for (int i = 0; i < 3; i++)
        t->ns[i] = elapsed_ns(begin, done[i]);
}

static void kernels_take_turns_by_priority_then_by_queueing(void **state)
{
    (void)state;
    times_t t = run(kernels_of_three_streams, "0");
    assert_int_equal(t.ns[2], 30000);
    assert_int_equal(t.ns[0], 30000 + 10000);
    assert_int_equal(t.ns[1], 30000 + 10000 + 20000);
}

static void nothing(void *data)
{
    (void)data;
}

static void host_function_and_legacy_stream(void *out)
{
    times_t *t = out;
    CUfunction f = kernel("spend");
    CUstream blocking;
    CUevent begin = new_event(), middle = new_event(), end = new_event();
    OK(cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    spend(blocking, f, 66.9e3 * 1e6, 0, 0);
    OK(cuEventRecord(begin, blocking));
    OK(cuLaunchHostFunc(blocking, nothing, NULL));
    OK(cuEventRecord(middle, blocking));
    spend(NULL, f, 66.9e3 * 1000, 0, 0);     /* waits for the blocking stream */
    spend(blocking, f, 66.9e3 * 1000, 0, 0); /* and that for it */
    OK(cuEventRecord(end, blocking));
    OK(cuCtxSynchronize());
    t->ns[0] = elapsed_ns(begin, middle);
    t->ns[1] = elapsed_ns(middle, end);
}

static void host_functions_and_the_legacy_streams_rules_take_time(void **state)
{
    (void)state;
    times_t t = run(host_function_and_legacy_stream, "0");
    assert_int_equal(t.ns[0], 10000);
    assert_int_equal(t.ns[1], 2 * (KERNEL + 1000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernel_takes_the_longer_of_arithmetic_and_memory),
        cmocka_unit_test(undeclared_cost_follows_from_the_number_of_threads),
        cmocka_unit_test(kernel_of_ptx_costs_what_its_text_says),
        cmocka_unit_test(copy_takes_its_bytes_over_the_link_or_memory),
        cmocka_unit_test(larger_work_takes_as_many_times_as_long),
        cmocka_unit_test(host_time_is_calls_and_waits),
        cmocka_unit_test(copy_and_kernel_overlap_entirely_without_slowdown),
        cmocka_unit_test(copies_slow_down_kernels_as_configured),
        cmocka_unit_test(both_directions_of_the_link_slow_each_other),
        cmocka_unit_test(a_lopsided_link_slows_each_direction_by_its_own_part),
        cmocka_unit_test(copies_of_one_direction_take_turns),
        cmocka_unit_test(kernels_take_turns_by_priority_then_by_queueing),
        cmocka_unit_test(host_functions_and_the_legacy_streams_rules_take_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
