/* Algorithms: what the heuristic proposes, split-K with its workspace and counters, configuration and checks. This program has
 * its own dlsym, as a preloaded layer would, and watches launches and memsets. */
#define _GNU_SOURCE
#include "lt_test.h"

#include "../watch.h"

/* watching */

static lookup_fn real_lookup;
static __typeof__(cuLaunchKernel) *real_launch;
static __typeof__(cuMemsetD32Async) *real_memset;
enum { WORKSPACE = 9, COUNTERS = 10 }; /* arguments of a split-K launch */
static struct {
    int launches, memsets;
    void *workspace, *counters; /* of the last launch */
    const char *last;
} seen;

static CUresult watched_launch(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                               unsigned bz, unsigned shared, CUstream stream, void **params, void **extra)
{
    const char *name = NULL;
    size_t offset, size;
    cuFuncGetName(&name, f);
    seen.launches++;
    seen.last = name;
    if (cuFuncGetParamInfo(f, COUNTERS, &offset, &size) == CUDA_SUCCESS && size == 8) {
        memcpy(&seen.workspace, params[WORKSPACE], 8);
        memcpy(&seen.counters, params[COUNTERS], 8);
    }
    return real_launch(f, gx, gy, gz, bx, by, bz, shared, stream, params, extra);
}

static CUresult watched_memset(CUdeviceptr p, unsigned value, size_t count, CUstream stream)
{
    seen.memsets++;
    return real_memset(p, value, count, stream);
}

static CUresult watched_lookup(const char *name, void **out, int version, cuuint64_t flags,
                               CUdriverProcAddressQueryResult *status)
{
    CUresult result = real_lookup(name, out, version, flags, status);
    if (!strcmp(name, "cuLaunchKernel")) {
        memcpy(&real_launch, out, sizeof real_launch);
        *out = (void *)(uintptr_t)watched_launch;
    } else if (!strcmp(name, "cuMemsetD32Async")) {
        memcpy(&real_memset, out, sizeof real_memset);
        *out = (void *)(uintptr_t)watched_memset;
    }
    return result;
}

__attribute__((visibility("default"))) void *dlsym(void *object, const char *name)
{
    void *symbol = libc_dlsym(object, name);
    if (!address_is_in(__builtin_return_address(0), "libcublasLt") || strcmp(name, "cuGetProcAddress_v2"))
        return symbol;
    memcpy(&real_lookup, &symbol, sizeof real_lookup);
    return (void *)(uintptr_t)watched_lookup;
}

/* tests */

enum { ROOM = 64 << 20 };
static void *workspace;

/* A weight gradient: little output, long k. */
static const product_t gradient = {
    .m = 96, .n = 80, .k = 4096, .tb = CUBLAS_OP_T, .in = CUDA_R_16BF, .out = CUDA_R_32F, .alpha = 1};
/* A layer: much output. */
static const product_t layer = {
    .m = 1024, .n = 1024, .k = 256, .ta = CUBLAS_OP_T, .in = CUDA_R_16BF, .out = CUDA_R_16BF, .alpha = 1};

static int splits_of(const cublasLtMatmulHeuristicResult_t *result)
{
    int32_t splits = 0;
    size_t written = 0;
    BLAS_OK(cublasLtMatmulAlgoConfigGetAttribute(&result->algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &splits,
                                                 sizeof splits, &written));
    assert_int_equal(written, sizeof splits);
    return splits;
}

static uint32_t scheme_of(const cublasLtMatmulHeuristicResult_t *result)
{
    uint32_t scheme = 99;
    BLAS_OK(cublasLtMatmulAlgoConfigGetAttribute(&result->algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
                                                 &scheme, sizeof scheme, NULL));
    return scheme;
}

static void proposals_respect_the_workspace(void **state)
{
    (void)state;
    problem_t q = problem_new(&gradient);
    cublasLtMatmulHeuristicResult_t results[8];
    int count = propose(&q, ROOM, 8, results);
    assert_true(count >= 3);
    assert_true(splits_of(&results[0]) > 1);
    size_t most = 0;
    int whole = 0;
    for (int i = 0; i < count; i++) {
        assert_int_equal(results[i].state, CUBLAS_STATUS_SUCCESS);
        assert_int_equal(splits_of(&results[i]) > 1, results[i].workspaceSize > 0);
        assert_true(results[i].wavesCount > 0);
        most = results[i].workspaceSize > most ? results[i].workspaceSize : most;
        whole += splits_of(&results[i]) == 1;
    }
    assert_int_equal(whole, 1);
    assert_true(most <= ROOM);
    assert_int_equal(propose(&q, 0, 8, results), 1);
    assert_int_equal(splits_of(&results[0]), 1);
    count = propose(&q, most - 1, 8, results);
    for (int i = 0; i < count; i++)
        assert_true(results[i].workspaceSize < most);
    assert_int_equal(propose(&q, ROOM, 1, results), 1);
    problem_free(&q);
    problem_t big = problem_new(&layer);
    assert_true(propose(&big, ROOM, 8, results) >= 1);
    assert_int_equal(splits_of(&results[0]), 1); /* enough tiles as it is */
    problem_free(&big);
}

static void preference_filters_schemes_waves_and_ids(void **state)
{
    (void)state;
    problem_t q = problem_new(&gradient);
    cublasLtMatmulHeuristicResult_t results[8];
    cublasLtMatmulPreference_t preference;
    const uint64_t bytes = ROOM, no_implementation = 0;
    const uint32_t in_place = CUBLASLT_REDUCTION_SCHEME_INPLACE, limited = CUBLASLT_SEARCH_LIMITED_BY_ALGO_ID;
    const float tiny = 1e-6f;
    int count = 0;
#define PREFER(what, value)                                                                                  \
    BLAS_OK(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_##what, &(value),          \
                                                 sizeof(value)))
#define ASK()                                                                                                \
    cublasLtMatmulAlgoGetHeuristic(lt, q.operation, q.a.layout, q.b.layout, q.c.layout, q.d.layout,          \
                                   preference, 8, results, &count)
    BLAS_OK(cublasLtMatmulPreferenceCreate(&preference));
    PREFER(MAX_WORKSPACE_BYTES, bytes);
    PREFER(REDUCTION_SCHEME_MASK, in_place);
    BLAS_OK(ASK());
    for (int i = 0; i < count; i++)
        assert_true(scheme_of(&results[i]) == CUBLASLT_REDUCTION_SCHEME_NONE ||
                    scheme_of(&results[i]) == CUBLASLT_REDUCTION_SCHEME_INPLACE);
    int ids[4], id_count = 0;
    BLAS_OK(cublasLtMatmulAlgoGetIds(lt, CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, CUDA_R_16BF, CUDA_R_32F,
                                     CUDA_R_32F, 4, ids, &id_count));
    assert_int_equal(id_count, 2);
    PREFER(SEARCH_MODE, limited);
    for (int i = 0; i < id_count; i++) {
        BLAS_OK(cublasLtMatmulAlgoInit(lt, CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, CUDA_R_16BF,
                                       CUDA_R_32F, CUDA_R_32F, ids[i], &results[0].algo));
        BLAS_OK(ASK());
        assert_true(count > 0);
        for (int r = 0; r < count; r++) {
            int32_t id = -1;
            BLAS_OK(cublasLtMatmulAlgoConfigGetAttribute(&results[r].algo, CUBLASLT_ALGO_CONFIG_ID, &id,
                                                         sizeof id, NULL));
            assert_int_equal(id, ids[i]);
        }
    }
    const uint32_t best = CUBLASLT_SEARCH_BEST_FIT;
    PREFER(SEARCH_MODE, best);
    PREFER(MAX_WAVES_COUNT, tiny);
    assert_int_equal(ASK(), CUBLAS_STATUS_NOT_SUPPORTED);
    assert_int_equal(count, 0);
    const float any = 0;
    PREFER(MAX_WAVES_COUNT, any);
    PREFER(IMPL_MASK, no_implementation);
    assert_int_equal(ASK(), CUBLAS_STATUS_NOT_SUPPORTED);
    BLAS_OK(cublasLtMatmulPreferenceDestroy(preference));
    problem_free(&q);
}

/* Every proposal computes the same product; the split ones to other bits, but the same ones each time. */
static void every_proposal_matches_the_reference(void **state)
{
    (void)state;
    const cublasLtEpilogue_t epilogues[] = {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
                                            CUBLASLT_EPILOGUE_DGELU, CUBLASLT_EPILOGUE_RELU_AUX};
    for (int e = 0; e < 4; e++)
        for (int batch = 0; batch < 3; batch++) {
            product_t p = gradient;
            cublasLtMatmulHeuristicResult_t results[8];
            p.epilogue = epilogues[e];
            p.beta = batch == 1 ? 0.5f : 0;
            p.batch = batch == 1 ? 0 : 2;
            p.tables = batch == 2;
            p.k = e ? 700 : p.k;
            problem_t q = problem_new(&p);
            const int count = propose(&q, ROOM, 8, results);
            assert_true(count >= 2);
            problem_free(&q);
            for (int i = 0; i < count; i++)
                run_product(&p, &results[i].algo, workspace, results[i].workspaceSize);
        }
}

/* In the schemes' order, launches: one and one memset at the stream's first, one, one and the adding up. */
static void counters_reset_themselves(void **state)
{
    (void)state;
    problem_t q = problem_new(&gradient);
    cublasLtMatmulHeuristicResult_t results[8];
    cudaStream_t stream;
    const int count = propose(&q, ROOM, 8, results);
    int split = 0;
    while (split < count && scheme_of(&results[split]) != CUBLASLT_REDUCTION_SCHEME_INPLACE)
        split++;
    assert_true(split < count);
    array_t first = array_new(CUDA_R_32F, q.d.array.count, 0);
    uint32_t counters[64];
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int round = 0; round < 20; round++) {
        /* Whatever is in the workspace, also what the program has left there. */
        OK(cudaMemsetAsync(workspace, round % 2 ? 0xff : 0x01, 1 << 20, stream));
        memset(&seen, 0, sizeof seen);
        BLAS_OK(matmul(&q, &results[split].algo, workspace, results[split].workspaceSize, stream));
        assert_int_equal(seen.launches, 1);
        assert_string_equal(seen.last, "softgpu_gemm_splitk");
        assert_int_equal(seen.memsets, round == 0);
        assert_in_range((uintptr_t)seen.workspace, (uintptr_t)workspace,
                        (uintptr_t)workspace + results[split].workspaceSize);
        OK(cudaStreamSynchronize(stream));
        OK(cudaMemcpy(counters, seen.counters, sizeof counters, cudaMemcpyDeviceToHost));
        for (int i = 0; i < 64; i++)
            assert_int_equal(counters[i], 0);
        download(&q.d.array);
        if (round == 0)
            memcpy(first.host, q.d.array.host, q.d.array.count * 4);
        assert_memory_equal(first.host, q.d.array.host, q.d.array.count * 4);
    }
    check_result(&q);
    OK(cudaStreamDestroy(stream));
    array_free(&first);
    problem_free(&q);
}

/* The other scheme: two launches, no counters. */
static void parts_are_added_up_by_a_second_kernel(void **state)
{
    (void)state;
    problem_t q = problem_new(&gradient);
    cublasLtMatmulHeuristicResult_t results[8];
    const int count = propose(&q, ROOM, 8, results);
    int apart = 0;
    while (apart < count && scheme_of(&results[apart]) != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)
        apart++;
    assert_true(apart < count);
    memset(&seen, 0, sizeof seen);
    BLAS_OK(matmul(&q, &results[apart].algo, workspace, ROOM, NULL));
    assert_int_equal(seen.launches, 2);
    assert_int_equal(seen.memsets, 0);
    assert_string_equal(seen.last, "softgpu_splitk_reduce");
    assert_null(seen.counters);
    check_result(&q);
    problem_free(&q);
}

/* More streams than a handle has rows of counters for, all at once, a workspace each: those left over take it for their counters. */
static void many_streams_do_not_share_counters(void **state)
{
    (void)state;
    enum { STREAMS = 40, ROUNDS = 5 };
    problem_t q[STREAMS];
    cudaStream_t streams[STREAMS];
    void *rooms[STREAMS];
    cublasLtMatmulHeuristicResult_t results[8];
    int own = 0;
    product_t p = gradient;
    p.k = 600;
    for (int s = 0; s < STREAMS; s++) {
        q[s] = problem_new(&p);
        OK(cudaStreamCreateWithFlags(&streams[s], cudaStreamNonBlocking));
    }
    propose(&q[0], ROOM, 8, results);
    assert_true(results[0].workspaceSize > 0);
    for (int s = 0; s < STREAMS; s++)
        OK(cudaMalloc(&rooms[s], results[0].workspaceSize));
    memset(&seen, 0, sizeof seen);
    for (int round = 0; round < ROUNDS; round++)
        for (int s = 0; s < STREAMS; s++) {
            OK(cudaMemsetAsync(rooms[s], 0xff, results[0].workspaceSize, streams[s]));
            BLAS_OK(matmul(&q[s], &results[0].algo, rooms[s], results[0].workspaceSize, streams[s]));
            own += seen.counters == rooms[s];
        }
    assert_in_range(own, 1 * ROUNDS, STREAMS * ROUNDS);
    OK(cudaDeviceSynchronize());
    for (int s = 0; s < STREAMS; s++) {
        download(&q[s].d.array);
        assert_memory_equal(q[s].d.array.host, q[0].d.array.host, q[0].d.array.count * 4);
    }
    check_result(&q[0]);
    for (int s = 0; s < STREAMS; s++) {
        OK(cudaStreamDestroy(streams[s]));
        OK(cudaFree(rooms[s]));
        problem_free(&q[s]);
    }
}

/* Nobody knows what a captured launch will run beside: it takes the workspace for its counters, and zeroes them itself. */
static void captured_launches_have_counters_of_their_own(void **state)
{
    (void)state;
    problem_t q = problem_new(&gradient);
    cublasLtMatmulHeuristicResult_t results[8];
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    propose(&q, ROOM, 8, results);
    assert_int_equal(scheme_of(&results[0]), CUBLASLT_REDUCTION_SCHEME_INPLACE);
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    memset(&seen, 0, sizeof seen);
    BLAS_OK(matmul(&q, &results[0].algo, workspace, results[0].workspaceSize, stream));
    assert_int_equal(seen.memsets, 1);
    assert_ptr_equal(seen.counters, workspace);
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    for (int round = 0; round < 3; round++) {
        OK(cudaMemsetAsync(workspace, 0xff, results[0].workspaceSize, stream));
        OK(cudaMemsetAsync(q.d.array.device, 0xff, q.d.array.count * 4, stream));
        OK(cudaGraphLaunch(exec, stream));
        OK(cudaStreamSynchronize(stream));
        check_result(&q);
    }
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamDestroy(stream));
    problem_free(&q);
}

static void configuration_is_checked(void **state)
{
    (void)state;
    problem_t q = problem_new(&gradient);
    cublasLtMatmulHeuristicResult_t results[8], checked;
    cublasLtMatmulAlgo_t algo;
    propose(&q, ROOM, 8, results);
#define CHECK(algorithm)                                                                                     \
    cublasLtMatmulAlgoCheck(lt, q.operation, q.a.layout, q.b.layout, q.c.layout, q.d.layout, algorithm,      \
                            &checked)
    BLAS_OK(CHECK(&results[0].algo));
    assert_int_equal(checked.workspaceSize, results[0].workspaceSize);
    /* An algorithm configured by hand. */
    const int32_t five = 5, many = 1000, one = 1;
    const uint32_t in_place = CUBLASLT_REDUCTION_SCHEME_INPLACE,
                   output = CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
#define CONFIGURE(what, value)                                                                               \
    BLAS_OK(cublasLtMatmulAlgoConfigSetAttribute(&algo, CUBLASLT_ALGO_CONFIG_##what, &(value), sizeof(value)))
    BLAS_OK(cublasLtMatmulAlgoInit(lt, CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, CUDA_R_16BF, CUDA_R_32F,
                                   CUDA_R_32F, 1, &algo));
    CONFIGURE(SPLITK_NUM, five);
    assert_int_equal(CHECK(&algo), CUBLAS_STATUS_NOT_SUPPORTED); /* no scheme */
    CONFIGURE(REDUCTION_SCHEME, output);
    assert_int_equal(CHECK(&algo), CUBLAS_STATUS_NOT_SUPPORTED);
    CONFIGURE(REDUCTION_SCHEME, in_place);
    BLAS_OK(CHECK(&algo));
    BLAS_OK(matmul(&q, &algo, workspace, checked.workspaceSize, NULL));
    check_result(&q);
    assert_int_equal(matmul(&q, &algo, workspace, checked.workspaceSize - 1, NULL),
                     CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(matmul(&q, &algo, (char *)workspace + 16, ROOM - 16, NULL), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(matmul(&q, &algo, NULL, 0, NULL), CUBLAS_STATUS_INVALID_VALUE);
    CONFIGURE(SPLITK_NUM, many);
    assert_int_equal(CHECK(&algo), CUBLAS_STATUS_NOT_SUPPORTED);
    CONFIGURE(SPLITK_NUM, one);
    BLAS_OK(CHECK(&algo));
    assert_int_equal(checked.workspaceSize, 0);
    /* The id cannot be set; other types cannot be computed; what was never initialised is no algorithm. */
    assert_int_equal(cublasLtMatmulAlgoConfigSetAttribute(&algo, CUBLASLT_ALGO_CONFIG_ID, &one, sizeof one),
                     CUBLAS_STATUS_INVALID_VALUE);
    BLAS_OK(cublasLtMatmulAlgoInit(lt, CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F,
                                   CUDA_R_32F, 0, &algo));
    assert_int_equal(CHECK(&algo), CUBLAS_STATUS_INVALID_VALUE);
    memset(&algo, 0, sizeof algo);
    assert_int_equal(CHECK(&algo), CUBLAS_STATUS_INVALID_VALUE);
    assert_int_equal(cublasLtMatmulAlgoInit(lt, CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, CUDA_R_16BF,
                                            CUDA_R_16F, CUDA_R_16F, 0, &algo),
                     CUBLAS_STATUS_NOT_SUPPORTED);
    assert_int_equal(cublasLtMatmulAlgoInit(lt, CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F,
                                            CUDA_R_32F, CUDA_R_32F, 77, &algo),
                     CUBLAS_STATUS_INVALID_VALUE);
    problem_free(&q);
}

static void capabilities_can_be_asked(void **state)
{
    (void)state;
    cublasLtMatmulAlgo_t algo;
    for (int id = 0; id < 2; id++) {
        int32_t split = -1;
        uint32_t schemes = 99, epilogues = 0, alignment = 0;
        size_t written = 99;
        BLAS_OK(cublasLtMatmulAlgoInit(lt, CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16F, CUDA_R_16F, CUDA_R_32F,
                                       CUDA_R_32F, id, &algo));
#define ASK_CAPABILITY(what, value)                                                                          \
    BLAS_OK(cublasLtMatmulAlgoCapGetAttribute(&algo, CUBLASLT_ALGO_CAP_##what, &(value), sizeof(value),      \
                                              &written))
        ASK_CAPABILITY(SPLITK_SUPPORT, split);
        ASK_CAPABILITY(REDUCTION_SCHEME_MASK, schemes);
        ASK_CAPABILITY(EPILOGUE_MASK, epilogues);
        ASK_CAPABILITY(MIN_ALIGNMENT_A_BYTES, alignment);
        assert_int_equal(split, id);
        assert_int_equal(schemes != 0, id);
        assert_true(epilogues & CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
        assert_int_equal(alignment, 2);
        BLAS_OK(cublasLtMatmulAlgoCapGetAttribute(&algo, CUBLASLT_ALGO_CAP_TILE_IDS, NULL, 0, &written));
        assert_int_equal(written, 0);
        BLAS_OK(cublasLtMatmulAlgoCapGetAttribute(&algo, CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS, NULL, 0,
                                                  &written));
        assert_int_equal(written, 8);
        assert_int_equal(
            cublasLtMatmulAlgoCapGetAttribute(&algo, CUBLASLT_ALGO_CAP_SPLITK_SUPPORT, NULL, 0, NULL),
            CUBLAS_STATUS_INVALID_VALUE);
    }
}

static int setup(void **state)
{
    return lt_setup(state) || cudaMalloc(&workspace, ROOM) != cudaSuccess;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proposals_respect_the_workspace),
        cmocka_unit_test(preference_filters_schemes_waves_and_ids),
        cmocka_unit_test(every_proposal_matches_the_reference),
        cmocka_unit_test(counters_reset_themselves),
        cmocka_unit_test(parts_are_added_up_by_a_second_kernel),
        cmocka_unit_test(many_streams_do_not_share_counters),
        cmocka_unit_test(captured_launches_have_counters_of_their_own),
        cmocka_unit_test(configuration_is_checked),
        cmocka_unit_test(capabilities_can_be_asked),
    };
    return cmocka_run_group_tests(tests, setup, lt_teardown);
}
