/* heuristic.c: which algorithm suits a product. From its shape alone: neither the machine nor the number of workers
 * may change which bits a program gets.
 *
 * A product with a small D and a long k has few tiles: then k is worth splitting. That is the case of a layer's weight
 * gradient, and the first choice wherever the workspace allows it; otherwise the split forms come second.
 */
#include "softgpu/cublaslt/lt.h"

enum { ENOUGH_TILES = 8, SPLIT_BLOCKS = 16, SHORTEST_PART = 256 };

/* How many parts of k keep SPLIT_BLOCKS blocks busy, each long enough to be worth its overhead. */
static int good_splits(const gemm_call_t *call)
{
    int splits = 1;
    while (splits * 2 <= LT_MOST_SPLITS && gemm_tile_count(call) * splits < SPLIT_BLOCKS &&
           call->k / (splits * 2) >= SHORTEST_PART)
        splits *= 2;
    return splits;
}

typedef struct candidate {
    int id, splits;
    uint32_t scheme;
} candidate_t;

enum { CANDIDATES = 4 };

/* In order of preference. Splits of 1 stand for a candidate that there is not. */
static void list_candidates(const gemm_call_t *call, candidate_t list[CANDIDATES])
{
    const int splits = gemm_may_split(call) && call->m && call->n ? good_splits(call) : 1;
    const int is_worth_it = splits > 1 && gemm_tile_count(call) < ENOUGH_TILES;
    const candidate_t whole = {LT_WHOLE, 1, CUBLASLT_REDUCTION_SCHEME_NONE},
                      in_place = {LT_SPLIT, splits, CUBLASLT_REDUCTION_SCHEME_INPLACE},
                      apart = {LT_SPLIT, splits, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE},
                      fewer = {LT_SPLIT, splits / 2, CUBLASLT_REDUCTION_SCHEME_INPLACE};
    int i = 0;
    if (!is_worth_it)
        list[i++] = whole;
    list[i++] = in_place;
    list[i++] = apart;
    if (is_worth_it)
        list[i++] = whole;
    list[i] = fewer;
}

static int suits(const gemm_call_t *call, const lt_algorithm_t *algorithm, const lt_preference_t *preference,
                 const cublasLtMatmulHeuristicResult_t *result)
{
    if (call->splits > 1 && !(preference->scheme_mask & algorithm->scheme))
        return 0;
    return result->workspaceSize <= preference->workspace_bytes &&
           !(lt_implementation(algorithm) & ~preference->implementations) &&
           (preference->waves == 0 || result->wavesCount <= preference->waves);
}

int lt_choose(const lt_operation_t *operation, const lt_layouts_t *layouts, const lt_preference_t *preference,
              int only_id, int most, cublasLtMatmulHeuristicResult_t *results)
{
    candidate_t candidates[CANDIDATES];
    gemm_call_t plan;
    int count = 0;
    if (lt_plan(operation, layouts, &plan) != CUBLAS_STATUS_SUCCESS)
        return 0;
    list_candidates(&plan, candidates);
    for (int i = 0; i < CANDIDATES && count < most; i++) {
        gemm_call_t call = plan;
        cublasLtMatmulHeuristicResult_t result = {0};
        lt_algorithm_t *algorithm = (lt_algorithm_t *)(void *)&result.algo;
        if ((candidates[i].id == LT_SPLIT && candidates[i].splits < 2) ||
            (only_id >= 0 && only_id != candidates[i].id))
            continue;
        lt_algorithm_init(algorithm, candidates[i].id, operation, layouts);
        algorithm->splits = candidates[i].splits;
        algorithm->scheme = candidates[i].scheme;
        if (lt_apply(algorithm, operation, layouts, &call) != CUBLAS_STATUS_SUCCESS)
            continue;
        lt_describe(&call, &result);
        if (suits(&call, algorithm, preference, &result))
            results[count++] = result;
    }
    return count;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference_handle, int requested,
                                              cublasLtMatmulHeuristicResult_t results[], int *returned)
{
    const lt_layouts_t layouts = {(void *)a, (void *)b, (void *)c, (void *)d};
    const lt_preference_t *preference = (void *)preference_handle;
    gemm_call_t call;
    int only_id = -1;
    if (!lt_context(handle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (requested <= 0 || !results || !returned || !preference)
        return CUBLAS_STATUS_INVALID_VALUE;
    *returned = 0;
    cublasStatus_t status = lt_plan((void *)operation, &layouts, &call);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    if (preference->search_mode == CUBLASLT_SEARCH_LIMITED_BY_ALGO_ID) {
        const lt_algorithm_t *given = (const void *)&results[0].algo;
        if (given->magic != LT_ALGORITHM)
            return CUBLAS_STATUS_INVALID_VALUE;
        only_id = given->id;
    } else if (preference->search_mode != CUBLASLT_SEARCH_BEST_FIT) {
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    *returned = lt_choose((void *)operation, &layouts, preference, only_id, requested, results);
    return *returned ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}
