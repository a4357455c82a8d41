/* bench_kernels: time, GB/s and GFLOP/s of every kernel of the trainer and of its products with their epilogues, by CUDA events.
 *
 *     bench_kernels [B T C H V [dropout]] [fp32|bf16]    without a shape: the two that the project measures itself by; without a type: both
 *
 * Bytes are what an operation must at least read and write once, operations what it must compute (attention: the causal half only):
 * beside the rate of the memory and the peak of the device they tell how far a kernel is from its bound. The best of several runs is
 * printed: on a shared machine it is the one that was disturbed least. What a device or a shape does not allow is left out: matrix
 * instructions, which BF16 alone has, and products whose rows are not a multiple of 16 bytes.
 */
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/base/gpu.h"
#include "model/kernels/kernels.h"
#include "model/layers/linear.h"
#include "model/train/peak_rate.h"

typedef struct shape {
    int B, T, C, H, V;
    double rate;
    dtype_t type;
} shape_t;

/* Tensors of the largest size that any operation needs; what they hold does not matter, as long as it is finite. a ... d and
 * `vectors` have the run's type, the rest is fp32. */
typedef struct tensors {
    void *a, *b, *c, *d;  /* [N,4C] or [B,H,T,T] or [V,C] each; d also [N,V] */
    void *vectors[3];     /* [4C] */
    float *wide;          /* [N,V], [B,H,T,T] or [V,C] */
    float *parameters[4]; /* [12CC] */
    float *sums[2];       /* [4C] or [T,C] */
    float *rows[3];       /* [N*H] */
    int *tokens, *first, *order;
    int classes;
    void *scratch;
    size_t parameter_count;
    gpu_t *gpu;
} tensors_t;

static void check(cudaError_t error, const char *what)
{
    if (error != cudaSuccess) {
        fprintf(stderr, "bench_kernels: %s: %s\n", what, cudaGetErrorString(error));
        exit(1);
    }
}
#define CHECK(call) check((call), #call)

/* Numbers of up to `size` either way: some thousands from the host, and copies of them. */
static void *numbers(dtype_t type, size_t n, double size)
{
    enum { SOME = 65536 };
    static float some[SOME];
    const size_t each = dtype_bytes(type), bytes = n * each;
    uint64_t state = 1;
    char *device;
    for (size_t i = 0; i < SOME; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        some[i] = (float)(((double)(state >> 11) / 4503599627370496.0 - 1.0) * size);
    }
    if (type == DTYPE_BF16) /* the upper halves */
        for (size_t i = 0; i < SOME; i++)
            memcpy((char *)some + 2 * i, (char *)&some[i] + 2, 2);
    CHECK(cudaMalloc((void **)&device, bytes));
    size_t done = bytes < SOME * each ? bytes : SOME * each;
    CHECK(cudaMemcpy(device, some, done, cudaMemcpyHostToDevice));
    for (size_t more; done < bytes; done += more) {
        more = bytes - done < done ? bytes - done : done;
        CHECK(cudaMemcpy(device + done, device, more, cudaMemcpyDeviceToDevice));
    }
    return device;
}

static float *floats(size_t n, double size)
{
    return numbers(DTYPE_FP32, n, size);
}

static int *ints(const int *host, size_t n)
{
    int *device;
    CHECK(cudaMalloc((void **)&device, n * sizeof *device));
    CHECK(cudaMemcpy(device, host, n * sizeof *device, cudaMemcpyHostToDevice));
    return device;
}

/* Tokens n % V, and their index. */
static void make_tokens(tensors_t *t, int N, int V)
{
    int *const tokens = malloc(sizeof(int) * (size_t)N), *const order = malloc(sizeof(int) * (size_t)N),
               *const first = malloc(sizeof(int) * (size_t)(V + 1));
    if (!tokens || !order || !first)
        exit(1);
    t->classes = N < V ? N : V;
    int at = 0;
    for (int v = 0; v < t->classes; v++) {
        first[v] = at;
        for (int n = v; n < N; n += V) {
            tokens[n] = v;
            order[at++] = n;
        }
    }
    first[t->classes] = at;
    t->tokens = ints(tokens, (size_t)N);
    t->order = ints(order, (size_t)N);
    t->first = ints(first, (size_t)t->classes + 1);
    free(tokens);
    free(order);
    free(first);
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

#define HEADS_OF(s) ((attention_shape_t){(s)->B, (s)->T, (s)->H, (s)->H, (s)->C / (s)->H})

static tensors_t make_tensors(const shape_t *s, gpu_t *gpu)
{
    const size_t N = (size_t)s->B * (size_t)s->T, C = (size_t)s->C, V = (size_t)s->V, H = (size_t)s->H;
    const size_t n = larger(larger(4 * N * C, 4 * C * C), larger(N * H * (size_t)s->T, V * C));
    tensors_t t = {.parameter_count = 12 * C * C, .gpu = gpu};
    t.a = numbers(s->type, n, 1);
    t.b = numbers(s->type, n, 1);
    t.c = numbers(s->type, n, 1);
    t.d = numbers(s->type, larger(n, N * V), 1);
    t.wide = floats(larger(larger(N * V, N * H * (size_t)s->T), larger(V * C, 4 * C * C)), 1);
    for (int i = 0; i < 4; i++)
        t.parameters[i] = floats(t.parameter_count, 0.1);
    for (int i = 0; i < 3; i++) {
        t.vectors[i] = numbers(s->type, 4 * C, 1);
        t.rows[i] = floats(N * H, 1);
    }
    for (int i = 0; i < 2; i++)
        t.sums[i] = floats(larger(4, (size_t)s->T) * C, 1);
    make_tokens(&t, (int)N, s->V);
    size_t scratch = larger(column_sum_scratch((int)N, 4 * s->C), layernorm_backward_scratch((int)N, s->C));
    scratch = larger(scratch, rmsnorm_backward_scratch((int)N, s->C));
    scratch = larger(scratch, attention_backward_scratch(s->type, HEADS_OF(s)));
    scratch = larger(scratch, attention_tensor_backward_scratch(HEADS_OF(s)));
    CHECK(cudaMalloc(&t.scratch, larger(scratch, 4 * sum_squares_partials(t.parameter_count))));
    return t;
}

static void free_tensors(tensors_t *t)
{
    void *const all[] = {t->a,
                         t->b,
                         t->c,
                         t->d,
                         t->wide,
                         t->rows[0],
                         t->rows[1],
                         t->rows[2],
                         t->tokens,
                         t->first,
                         t->order,
                         t->scratch,
                         t->parameters[0],
                         t->parameters[1],
                         t->parameters[2],
                         t->parameters[3],
                         t->sums[0],
                         t->sums[1],
                         t->vectors[0],
                         t->vectors[1],
                         t->vectors[2]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        CHECK(cudaFree(all[i]));
}

/* When an operation can run. */
typedef enum need { ALWAYS, MATRIX, ALIGNED, BF16_ALIGNED } need_t;

/* One operation. Numbers moved, `elements` of the run's type and `floats`; `flops`: operations. */
typedef struct operation {
    const char *name;
    void (*run)(const shape_t *, const tensors_t *);
    double elements, floats, flops;
    need_t need;
} operation_t;

#define OPERATION(name) static void run_##name(const shape_t *s, const tensors_t *t)
#define DROP            ((dropout_t){(float)s->rate, 1, 2, NULL})
#define ROWS            (s->B * s->T)
#define HEADS           HEADS_OF(s)
#define TYPE            s->type
#define STREAM          t->gpu->stream

OPERATION(embedding_forward)
{
    CHECK(embedding_forward(TYPE, t->a, t->tokens, t->b, t->c, s->B, s->T, s->C, DROP, STREAM));
}
OPERATION(embedding_backward)
{
    const token_index_t index = {t->tokens, t->first, t->order, t->classes};
    CHECK(
        embedding_backward(TYPE, t->wide, t->sums[0], t->c, index, s->B, s->T, s->T, s->C, DROP, 0, STREAM));
}
OPERATION(layernorm_forward)
{
    CHECK(layernorm_forward(TYPE, t->a, t->rows[0], t->rows[1], t->b, t->vectors[0], t->vectors[1], 1e-5f,
                            ROWS, s->C, STREAM));
}
OPERATION(residual_layernorm)
{
    CHECK(residual_layernorm_forward(TYPE, t->a, t->d, t->rows[0], t->rows[1], t->b, t->c, t->vectors[2],
                                     t->vectors[0], t->vectors[1], 1e-5f, ROWS, s->C, DROP, STREAM));
}
OPERATION(layernorm_backward)
{
    CHECK(layernorm_backward(TYPE, t->a, t->sums[0], t->sums[1], NULL, t->d, t->b, t->c, t->rows[0],
                             t->rows[1], t->vectors[0], ROWS, s->C, 0, t->scratch, STREAM));
}
OPERATION(rmsnorm_forward)
{
    CHECK(rmsnorm_forward(TYPE, t->a, t->rows[1], t->b, t->vectors[0], 1e-5f, ROWS, s->C, STREAM));
}
OPERATION(rmsnorm_backward)
{
    CHECK(rmsnorm_backward(TYPE, t->a, t->sums[0], t->d, t->b, t->c, t->rows[1], t->vectors[0], ROWS, s->C, 0,
                           t->scratch, STREAM));
}
OPERATION(residual_backward)
{
    CHECK(residual_backward(TYPE, t->a, t->sums[0], t->b, ROWS, s->C, DROP, 0, t->scratch, STREAM));
}
OPERATION(bias_forward)
{
    CHECK(bias_forward(TYPE, t->d, t->vectors[0], ROWS, 3 * s->C, STREAM));
}
OPERATION(column_sum)
{
    CHECK(column_sum(TYPE, t->sums[0], t->a, ROWS, 3 * s->C, 0, t->scratch, STREAM));
}
OPERATION(bias_gelu_forward)
{
    CHECK(bias_gelu_forward(TYPE, t->a, t->b, t->vectors[0], ROWS, 4 * s->C, STREAM));
}
OPERATION(bias_gelu_backward)
{
    CHECK(bias_gelu_backward(TYPE, t->a, t->sums[0], t->b, t->c, t->vectors[0], ROWS, 4 * s->C, 0, t->scratch,
                             STREAM));
}
OPERATION(swiglu_forward)
{
    CHECK(swiglu_forward(TYPE, t->a, t->b, ROWS, 2 * s->C, STREAM));
}
OPERATION(swiglu_backward)
{
    CHECK(swiglu_backward(TYPE, t->a, t->b, t->c, ROWS, 2 * s->C, STREAM));
}
OPERATION(attention_forward)
{
    CHECK(attention_forward(TYPE, t->a, t->rows[0], t->b, HEADS, DROP, STREAM));
}
OPERATION(attention_backward)
{
    CHECK(attention_backward(TYPE, t->d, t->c, t->a, t->rows[0], t->b, HEADS, DROP, t->scratch, STREAM));
}
OPERATION(attention_tensor_forward)
{
    CHECK(attention_tensor_forward(t->a, t->rows[0], t->b, HEADS, DROP, STREAM));
}
OPERATION(attention_tensor_backward)
{
    CHECK(attention_tensor_backward(t->d, t->c, t->a, t->rows[0], t->b, HEADS, DROP, t->scratch, STREAM));
}
OPERATION(attention_split)
{
    CHECK(attention_split(TYPE, t->a, t->b, t->c, t->d, HEADS, STREAM));
}
OPERATION(attention_merge)
{
    CHECK(attention_merge(TYPE, t->d, t->a, t->b, t->c, HEADS, STREAM));
}
OPERATION(causal_softmax_forward)
{
    CHECK(causal_softmax_forward(TYPE, t->a, t->d, t->wide, 0.1f, s->B, s->H, s->T, DROP, STREAM));
}
OPERATION(causal_softmax_backward)
{
    CHECK(causal_softmax_backward(TYPE, t->d, t->wide, t->a, 0.1f, s->B, s->H, s->T, DROP, STREAM));
}
OPERATION(cross_entropy)
{
    void *const gradient = TYPE == DTYPE_FP32 ? (void *)t->wide : t->d;
    CHECK(cross_entropy(TYPE, gradient, t->rows[0], t->wide, t->tokens, ROWS, s->V, 1, STREAM));
}
OPERATION(sum)
{
    CHECK(sum(t->rows[1], t->rows[0], (size_t)ROWS, 1, 0, STREAM));
}
OPERATION(sum_squares)
{
    (void)s;
    CHECK(sum_squares(t->scratch, t->parameters[3], t->parameter_count, STREAM));
    CHECK(gradient_scale(t->rows[1], t->scratch, sum_squares_partials(t->parameter_count), 1, STREAM));
}
OPERATION(adamw)
{
    const adamw_t options = {1e-3f, 0.9f, 0.95f, 1e-8f, 0.1f, 5, 0, 0, 0, NULL};
    CHECK(adamw(t->parameters[0], t->parameters[1], t->parameters[2], TYPE == DTYPE_BF16 ? t->a : NULL,
                t->parameters[3], t->parameter_count, t->parameter_count, t->rows[1], options, STREAM));
}
/* The products of a layer, with what follows them. */
OPERATION(linear_bias)
{
    linear_forward(t->gpu, TYPE, (linear_t){ROWS, s->C, 3 * s->C}, t->a, t->b, t->c, t->vectors[0]);
}
OPERATION(linear_gelu)
{
    linear_gelu_forward(t->gpu, (linear_t){ROWS, s->C, 4 * s->C}, t->a, t->d, t->b, t->c, t->vectors[0]);
}
OPERATION(linear_input)
{
    linear_backward_input(t->gpu, TYPE, (linear_t){ROWS, s->C, 3 * s->C}, t->a, t->b, t->c);
}
OPERATION(linear_gelu_input)
{
    linear_gelu_backward_input(t->gpu, (linear_t){ROWS, 4 * s->C, s->C}, t->a, t->b, t->c, t->d);
}
OPERATION(linear_weight)
{
    linear_backward_weight(t->gpu, TYPE, (linear_t){ROWS, s->C, 4 * s->C}, t->wide, t->sums[0], t->b, t->c,
                           0);
}
OPERATION(linear_head)
{
    linear_forward_fp32(t->gpu, TYPE, (linear_t){ROWS, s->C, s->V}, t->wide, t->b, t->c);
}

static int by_time(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void measure(const operation_t *o, const shape_t *s, const tensors_t *t)
{
    enum { RUNS = 15 };
    float ms[RUNS];
    cudaEvent_t begin, end;
    CHECK(cudaEventCreate(&begin));
    CHECK(cudaEventCreate(&end));
    o->run(s, t);
    for (int i = 0; i < RUNS; i++) {
        CHECK(cudaEventRecord(begin, STREAM));
        o->run(s, t);
        CHECK(cudaEventRecord(end, STREAM));
        CHECK(cudaEventSynchronize(end));
        CHECK(cudaEventElapsedTime(&ms[i], begin, end));
    }
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
    qsort(ms, RUNS, sizeof *ms, by_time);
    const double bytes = (double)dtype_bytes(TYPE) * o->elements + 4 * o->floats;
    printf("%-26s %9.3f ms  (median %9.3f)  %7.1f GB/s", o->name, (double)ms[0], (double)ms[RUNS / 2],
           1e-6 * bytes / (double)ms[0]);
    if (o->flops > 0)
        printf("  %7.1f GFLOP/s", 1e-6 * o->flops / (double)ms[0]);
    printf("\n");
}

static bool possible(const operation_t *o, const shape_t *s, bool matrix)
{
    const bool aligned = s->C * (int)dtype_bytes(TYPE) % 16 == 0 && s->V % 8 == 0;
    switch (o->need) {
    case MATRIX:
        return matrix && TYPE == DTYPE_BF16 && (s->C / s->H == 64 || s->C / s->H == 128);
    case ALIGNED:
        return aligned;
    case BF16_ALIGNED:
        return aligned && TYPE == DTYPE_BF16;
    default:
        return true;
    }
}

static bool has_matrix_instructions(const tensors_t *t)
{
    int usable = 0;
    CHECK(matrix_instructions_usable(t->scratch, STREAM));
    CHECK(cudaStreamSynchronize(STREAM));
    CHECK(cudaMemcpy(&usable, t->scratch, sizeof usable, cudaMemcpyDeviceToHost));
    return usable;
}

static void bench(const shape_t *s, gpu_t *gpu)
{
    tensors_t t = make_tensors(s, gpu);
    const double N = (double)ROWS, C = s->C, T = s->T, V = s->V, scores = N * s->H * T,
                 p = (double)t.parameter_count;
    const double pairs =
        N * s->H * (T + 1) / 2 * (C / s->H); /* products of a causal N x T x D multiplication */
    const double lse = N * s->H;
    const operation_t operations[] = {
        {"embedding_forward", run_embedding_forward, 2 * N * C, 0, 0, ALWAYS},
        {"embedding_backward", run_embedding_backward, N * C, (2 * t.classes + T) * C, 0, ALWAYS},
        {"layernorm_forward", run_layernorm_forward, 2 * N * C, 2 * N, 0, ALWAYS},
        {"residual_layernorm", run_residual_layernorm, 4 * N * C, 2 * N, 0, ALWAYS},
        {"layernorm_backward", run_layernorm_backward, 4 * N * C, 2 * N, 0, ALWAYS},
        {"rmsnorm_forward", run_rmsnorm_forward, 2 * N * C, N, 0, ALWAYS},
        {"rmsnorm_backward", run_rmsnorm_backward, 4 * N * C, N, 0, ALWAYS},
        {"residual_backward", run_residual_backward, 2 * N * C, 0, 0, ALWAYS},
        {"bias_forward (3C)", run_bias_forward, 6 * N * C, 0, 0, ALWAYS},
        {"column_sum (3C)", run_column_sum, 3 * N * C, 0, 0, ALWAYS},
        {"bias_gelu_forward (4C)", run_bias_gelu_forward, 8 * N * C, 0, 0, ALWAYS},
        {"bias_gelu_backward (4C)", run_bias_gelu_backward, 12 * N * C, 0, 0, ALWAYS},
        {"swiglu_forward (2C)", run_swiglu_forward, 6 * N * C, 0, 0, ALWAYS},
        {"swiglu_backward (2C)", run_swiglu_backward, 10 * N * C, 0, 0, ALWAYS},
        {"attention_forward", run_attention_forward, 4 * N * C, lse, 4 * pairs, ALWAYS},
        {"attention_backward", run_attention_backward, 8 * N * C, lse, 10 * pairs, ALWAYS},
        {"attention_tensor_forward", run_attention_tensor_forward, 4 * N * C, lse, 4 * pairs, MATRIX},
        {"attention_tensor_backward", run_attention_tensor_backward, 8 * N * C, lse, 10 * pairs, MATRIX},
        {"attention_split", run_attention_split, 6 * N * C, 0, 0, ALWAYS},
        {"attention_merge", run_attention_merge, 6 * N * C, 0, 0, ALWAYS},
        {"causal_softmax_forward", run_causal_softmax_forward, scores, 0.5 * scores, 0, ALWAYS},
        {"causal_softmax_backward", run_causal_softmax_backward, 1.5 * scores, 0.5 * scores, 0, ALWAYS},
        {"cross_entropy", run_cross_entropy, N * V, N * V, 0, ALWAYS},
        {"sum (N)", run_sum, 0, N, 0, ALWAYS},
        {"gradient norm (12CC)", run_sum_squares, 0, p, 0, ALWAYS},
        {"adamw (12CC)", run_adamw, TYPE == DTYPE_BF16 ? p : 0, 7 * p, 0, ALWAYS},
        {"product, bias (3C)", run_linear_bias, 4 * N * C + 3 * C * C, 0, 6 * N * C * C, ALIGNED},
        {"product, gelu (4C)", run_linear_gelu, 9 * N * C + 4 * C * C, 0, 8 * N * C * C, BF16_ALIGNED},
        {"product, dx (3C)", run_linear_input, 4 * N * C + 3 * C * C, 0, 6 * N * C * C, ALIGNED},
        {"product, dgelu (4C)", run_linear_gelu_input, 9 * N * C + 4 * C * C, 0, 8 * N * C * C, BF16_ALIGNED},
        {"product, dw, dbias (4C)", run_linear_weight, 5 * N * C, 4 * C * C, 8 * N * C * C, ALIGNED},
        {"product, logits (V)", run_linear_head, N * C + V * C, N * V, 2 * N * C * V, ALIGNED},
    };
    const bool matrix = has_matrix_instructions(&t);
    const double peak = peak_rate(gpu->name, TYPE);
    printf("B %d  T %d  C %d  H %d  V %d  dropout %g  %s", s->B, s->T, s->C, s->H, s->V, s->rate,
           TYPE == DTYPE_BF16 ? "bf16" : "fp32");
    printf(peak > 0 ? "  peak %.1f GFLOP/s\n" : "\n", peak / 1e9);
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (possible(&operations[i], s, matrix))
            measure(&operations[i], s, &t);
    free_tensors(&t);
}

/* The types that are asked for. */
static void bench_types(shape_t s, const char *type, gpu_t *gpu)
{
    for (s.type = DTYPE_FP32; s.type <= DTYPE_BF16; s.type++)
        if (!type || !strcmp(type, s.type == DTYPE_BF16 ? "bf16" : "fp32"))
            bench(&s, gpu);
}

static int usage(void)
{
    fprintf(stderr, "usage: bench_kernels [B T C H V [dropout]] [fp32|bf16]\n");
    return 2;
}

int main(int argc, char **argv)
{
    enum { WORKSPACE_BYTES = 32 << 20 };
    const shape_t standard[] = {
        {8, 256, 256, 8, 256, 0, 0}, {8, 256, 256, 4, 256, 0, 0}, {16, 64, 128, 4, 256, 0, 0}};
    const char *type = argc > 1 ? argv[argc - 1] : NULL;
    if (type && strcmp(type, "fp32") && strcmp(type, "bf16"))
        type = NULL;
    argc -= type != NULL;
    if (argc != 1 && argc != 6 && argc != 7)
        return usage();
    shape_t s = {0};
    if (argc > 1) {
        s = (shape_t){atoi(argv[1]), atoi(argv[2]), atoi(argv[3]),
                      atoi(argv[4]), atoi(argv[5]), argc == 7 ? atof(argv[6]) : 0,
                      DTYPE_FP32};
        if (s.B < 1 || s.T < 1 || s.C < 1 || s.H < 1 || s.V < 1 || s.C % s.H ||
            s.C / s.H > ATTENTION_HEAD_MAX) {
            fprintf(stderr, "bench_kernels: B T C H V must be positive, C a multiple of H, C/H at most %d\n",
                    ATTENTION_HEAD_MAX);
            return 2;
        }
    }
    gpu_t gpu;
    gpu_open(&gpu, 0);
    linear_open(&gpu, WORKSPACE_BYTES);
    printf("%s\n", gpu.name);
    if (argc > 1)
        bench_types(s, type, &gpu);
    for (size_t i = 0; argc == 1 && i < sizeof standard / sizeof *standard; i++)
        bench_types(standard[i], type, &gpu);
    linear_close(&gpu);
    gpu_close(&gpu);
    return 0;
}
