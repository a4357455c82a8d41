/* bench_kernels: time, GB/s and GFLOP/s of every kernel of the trainer, by CUDA events.
 *
 *     bench_kernels [B T C H V [dropout]]      without arguments: the two shapes that the project measures
 * itself by
 *
 * Bytes are what an operation must at least read and write once, operations what it must compute (attention:
 * the causal half only). The best of several runs is printed: on a shared machine it is the one that was
 * disturbed least.
 */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "kernels.h"

typedef struct shape {
    int B, T, C, H, V;
    double rate;
} shape_t;

/* Tensors of the largest size that any operation needs; what they hold does not matter, as long as it is
 * finite. */
typedef struct tensors {
    float *a, *b, *c, *d; /* [N,4C] or [B,H,T,T] or [N,V] each */
    float *parameters[4]; /* [12CC] */
    float *vectors[4];    /* [4C] */
    float *rows[3];       /* [N*H] */
    int *tokens, *first, *order;
    int classes;
    void *scratch;
    size_t parameter_count;
} tensors_t;

static void check(cudaError_t error, const char *what)
{
    if (error != cudaSuccess) {
        fprintf(stderr, "bench_kernels: %s: %s\n", what, cudaGetErrorString(error));
        exit(1);
    }
}
#define CHECK(call) check((call), #call)

static float *floats(size_t n, double size)
{
    float *device, *const host = malloc(n * sizeof *host);
    if (!host)
        exit(1);
    uint64_t state = 1;
    for (size_t i = 0; i < n; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        host[i] = (float)(((double)(state >> 11) / 4503599627370496.0 - 1.0) * size);
    }
    CHECK(cudaMalloc((void **)&device, n * sizeof *device));
    CHECK(cudaMemcpy(device, host, n * sizeof *device, cudaMemcpyHostToDevice));
    free(host);
    return device;
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

static tensors_t make_tensors(const shape_t *s)
{
    const size_t N = (size_t)s->B * (size_t)s->T, C = (size_t)s->C, V = (size_t)s->V, H = (size_t)s->H;
    const size_t n = larger(larger(4 * N * C, N * V), larger(N * H * (size_t)s->T, V * C));
    tensors_t t = {.parameter_count = 12 * C * C};
    t.a = floats(n, 1);
    t.b = floats(n, 1);
    t.c = floats(n, 1);
    t.d = floats(n, 1);
    for (int i = 0; i < 4; i++) {
        t.parameters[i] = floats(t.parameter_count, 0.1);
        t.vectors[i] = floats(4 * C, 1);
    }
    for (int i = 0; i < 3; i++)
        t.rows[i] = floats(N * H, 1);
    make_tokens(&t, (int)N, s->V);
    CHECK(cudaMalloc(&t.scratch, larger(larger(column_sum_scratch((int)N, 4 * s->C),
                                               layernorm_backward_scratch((int)N, s->C)),
                                        attention_backward_scratch(DTYPE_FP32, HEADS_OF(s)))));
    return t;
}

static void free_tensors(tensors_t *t)
{
    void *const all[] = {t->a,
                         t->b,
                         t->c,
                         t->d,
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
                         t->vectors[0],
                         t->vectors[1],
                         t->vectors[2],
                         t->vectors[3]};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        CHECK(cudaFree(all[i]));
}

/* One operation. `floats`: numbers moved; `flops`: operations. */
typedef struct operation {
    const char *name;
    void (*run)(const shape_t *, const tensors_t *);
    double floats, flops;
} operation_t;

#define OPERATION(name) static void run_##name(const shape_t *s, const tensors_t *t)
#define DROP            ((dropout_t){(float)s->rate, 1, 2, NULL})
#define ROWS            (s->B * s->T)
#define HEADS           HEADS_OF(s)

OPERATION(embedding_forward)
{
    CHECK(embedding_forward(DTYPE_FP32, t->a, t->tokens, t->b, t->c, s->B, s->T, s->C, DROP, NULL));
}
OPERATION(embedding_backward)
{
    const token_index_t index = {t->tokens, t->first, t->order, t->classes};
    CHECK(embedding_backward(DTYPE_FP32, t->a, t->b, t->c, index, s->B, s->T, s->C, DROP, 0, NULL));
}
OPERATION(layernorm_forward)
{
    CHECK(layernorm_forward(DTYPE_FP32, t->a, t->rows[0], t->rows[1], t->b, t->vectors[0], t->vectors[1],
                            1e-5f, ROWS, s->C, NULL));
}
OPERATION(residual_layernorm)
{
    CHECK(residual_layernorm_forward(DTYPE_FP32, t->a, t->d, t->rows[0], t->rows[1], t->b, t->c,
                                     t->vectors[2], t->vectors[0], t->vectors[1], 1e-5f, ROWS, s->C, DROP,
                                     NULL));
}
OPERATION(layernorm_backward)
{
    CHECK(layernorm_backward(DTYPE_FP32, t->a, t->vectors[2], t->vectors[3], NULL, t->d, t->b, t->c,
                             t->rows[0], t->rows[1], t->vectors[0], ROWS, s->C, 0, t->scratch, NULL));
}
OPERATION(residual_backward)
{
    CHECK(residual_backward(DTYPE_FP32, t->a, t->vectors[2], t->b, ROWS, s->C, DROP, 0, t->scratch, NULL));
}
OPERATION(bias_forward)
{
    CHECK(bias_forward(DTYPE_FP32, t->d, t->vectors[0], ROWS, 3 * s->C, NULL));
}
OPERATION(column_sum)
{
    CHECK(column_sum(DTYPE_FP32, t->vectors[2], t->a, ROWS, 3 * s->C, 0, t->scratch, NULL));
}
OPERATION(bias_gelu_forward)
{
    CHECK(bias_gelu_forward(DTYPE_FP32, t->a, t->b, t->vectors[0], ROWS, 4 * s->C, NULL));
}
OPERATION(bias_gelu_backward)
{
    CHECK(bias_gelu_backward(DTYPE_FP32, t->a, t->vectors[2], t->b, t->c, t->vectors[0], ROWS, 4 * s->C, 0,
                             t->scratch, NULL));
}
OPERATION(attention_forward)
{
    CHECK(attention_forward(DTYPE_FP32, t->a, t->rows[0], t->b, HEADS, DROP, NULL));
}
OPERATION(attention_backward)
{
    CHECK(attention_backward(DTYPE_FP32, t->d, t->c, t->a, t->rows[0], t->b, HEADS, DROP, t->scratch, NULL));
}
OPERATION(attention_split)
{
    CHECK(attention_split(DTYPE_FP32, t->a, t->b, t->c, t->d, HEADS, NULL));
}
OPERATION(attention_merge)
{
    CHECK(attention_merge(DTYPE_FP32, t->d, t->a, t->b, t->c, HEADS, NULL));
}
OPERATION(causal_softmax_forward)
{
    CHECK(causal_softmax_forward(DTYPE_FP32, t->a, t->d, t->b, 0.1f, s->B, s->H, s->T, DROP, NULL));
}
OPERATION(causal_softmax_backward)
{
    CHECK(causal_softmax_backward(DTYPE_FP32, t->d, t->c, t->a, 0.1f, s->B, s->H, s->T, DROP, NULL));
}
OPERATION(cross_entropy)
{
    CHECK(cross_entropy(DTYPE_FP32, t->c, t->rows[0], t->c, t->tokens, ROWS, s->V, 1, NULL));
}
OPERATION(sum)
{
    CHECK(sum(t->rows[1], t->a, (size_t)ROWS, 1, 0, NULL));
}
OPERATION(sum_squares)
{
    (void)s;
    CHECK(sum_squares(t->scratch, t->parameters[3], t->parameter_count, NULL));
    CHECK(gradient_scale(t->rows[1], t->scratch, sum_squares_partials(t->parameter_count), 1, NULL));
}
OPERATION(adamw)
{
    (void)s;
    const adamw_t options = {1e-3f, 0.9f, 0.95f, 1e-8f, 0.1f, 5, 0, 0, 0, NULL};
    CHECK(adamw(t->parameters[0], t->parameters[1], t->parameters[2], NULL, t->parameters[3],
                t->parameter_count, t->parameter_count, t->rows[1], options, NULL));
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
        CHECK(cudaEventRecord(begin, NULL));
        o->run(s, t);
        CHECK(cudaEventRecord(end, NULL));
        CHECK(cudaEventSynchronize(end));
        CHECK(cudaEventElapsedTime(&ms[i], begin, end));
    }
    CHECK(cudaEventDestroy(begin));
    CHECK(cudaEventDestroy(end));
    qsort(ms, RUNS, sizeof *ms, by_time);
    printf("%-24s %9.3f ms  (median %9.3f)  %7.1f GB/s", o->name, (double)ms[0], (double)ms[RUNS / 2],
           4e-6 * o->floats / (double)ms[0]);
    if (o->flops > 0)
        printf("  %7.1f GFLOP/s", 1e-6 * o->flops / (double)ms[0]);
    printf("\n");
}

static void bench(const shape_t *s)
{
    tensors_t t = make_tensors(s);
    const double N = (double)ROWS, C = s->C, T = s->T, scores = N * s->H * T, p = (double)t.parameter_count;
    const double pairs =
        N * s->H * (T + 1) / 2 * (C / s->H); /* products of a causal N x T x D multiplication */
    const operation_t operations[] = {
        {"embedding_forward", run_embedding_forward, 2 * N * C, 0},
        {"embedding_backward", run_embedding_backward, 2 * N * C, 0},
        {"layernorm_forward", run_layernorm_forward, 2 * N * C, 0},
        {"residual_layernorm", run_residual_layernorm, 4 * N * C, 0},
        {"layernorm_backward", run_layernorm_backward, 4 * N * C, 0},
        {"residual_backward", run_residual_backward, 2 * N * C, 0},
        {"bias_forward (3C)", run_bias_forward, 6 * N * C, 0},
        {"column_sum (3C)", run_column_sum, 3 * N * C, 0},
        {"bias_gelu_forward (4C)", run_bias_gelu_forward, 8 * N * C, 0},
        {"bias_gelu_backward (4C)", run_bias_gelu_backward, 12 * N * C, 0},
        {"attention_forward", run_attention_forward, 4 * N * C, 4 * pairs},
        {"attention_backward", run_attention_backward, 8 * N * C, 10 * pairs},
        {"attention_split", run_attention_split, 6 * N * C, 0},
        {"attention_merge", run_attention_merge, 6 * N * C, 0},
        {"causal_softmax_forward", run_causal_softmax_forward, 1.5 * scores, 0},
        {"causal_softmax_backward", run_causal_softmax_backward, 2 * scores, 0},
        {"cross_entropy", run_cross_entropy, 2 * N * s->V, 0},
        {"sum (N)", run_sum, N, 0},
        {"gradient norm (12CC)", run_sum_squares, p, 0},
        {"adamw (12CC)", run_adamw, 7 * p, 0},
    };
    printf("B %d  T %d  C %d  H %d  V %d  dropout %g\n", s->B, s->T, s->C, s->H, s->V, s->rate);
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        measure(&operations[i], s, &t);
    free_tensors(&t);
}

int main(int argc, char **argv)
{
    const shape_t standard[] = {{8, 256, 256, 8, 256, 0}, {8, 256, 256, 4, 256, 0}, {16, 64, 128, 4, 256, 0}};
    struct cudaDeviceProp properties;
    CHECK(cudaGetDeviceProperties(&properties, 0));
    printf("%s\n", properties.name);
    if (argc == 6 || argc == 7) {
        const shape_t s = {atoi(argv[1]), atoi(argv[2]), atoi(argv[3]),
                           atoi(argv[4]), atoi(argv[5]), argc == 7 ? atof(argv[6]) : 0};
        if (s.B < 1 || s.T < 1 || s.C < 1 || s.H < 1 || s.V < 1 || s.C % s.H ||
            s.C / s.H > ATTENTION_HEAD_MAX) {
            fprintf(stderr, "bench_kernels: B T C H V must be positive, C a multiple of H, C/H at most %d\n",
                    ATTENTION_HEAD_MAX);
            return 2;
        }
        bench(&s);
    } else if (argc == 1) {
        for (size_t i = 0; i < sizeof standard / sizeof *standard; i++)
            bench(&standard[i]);
    } else {
        fprintf(stderr, "usage: bench_kernels [B T C H V [dropout]]\n");
        return 2;
    }
    return 0;
}
