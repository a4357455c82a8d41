/* measure_sgemm.c: how fast cublasSgemm is for the products of a transformer step. Not a test: `measure_sgemm
 * [repetitions]` prints GFLOP/s per product (best of the repetitions) and for the sum of all. The rule for
 * tiles in softgpu/blas/gemm_launch.c was chosen with it.
 */
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CHECK(call)                                                                                          \
    do {                                                                                                     \
        int status_ = (int)(call);                                                                           \
        if (status_) {                                                                                       \
            fprintf(stderr, "%s: %d\n", #call, status_);                                                     \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

enum { LARGEST = 2048 * 1024 };
static cublasHandle_t handle;
static float *a, *b, *c;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds of the fastest repetition. */
static double measure(cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, int repetitions)
{
    const float one = 1, zero = 0;
    double best = 1e9;
    for (int i = 0; i < repetitions; i++) {
        double start = now();
        CHECK(cublasSgemm(handle, ta, tb, m, n, k, &one, a, ta == CUBLAS_OP_N ? m : k, b,
                          tb == CUBLAS_OP_N ? k : n, &zero, c, m));
        CHECK(cudaStreamSynchronize(NULL));
        double seconds = now() - start;
        best = seconds < best ? seconds : best;
    }
    return best;
}

/* One linear layer on `rows` rows: y = x W^T, dx = dy W, dW = dy^T x, row-major, which are TN, NN and NT to
 * cuBLAS. */
static void measure_layer(int rows, int in, int out, int repetitions, double *flop, double *seconds)
{
    const double work = 2.0 * rows * in * out;
    const double times[3] = {measure(CUBLAS_OP_T, CUBLAS_OP_N, out, rows, in, repetitions),
                             measure(CUBLAS_OP_N, CUBLAS_OP_N, in, rows, out, repetitions),
                             measure(CUBLAS_OP_N, CUBLAS_OP_T, in, out, rows, repetitions)};
    printf("%5d x %4d -> %4d  y %6.1f  dx %6.1f  dW %6.1f GFLOP/s\n", rows, in, out, 1e-9 * work / times[0],
           1e-9 * work / times[1], 1e-9 * work / times[2]);
    *flop += 3 * work;
    *seconds += times[0] + times[1] + times[2];
}

int main(int argc, char **argv)
{
    static const int layers[][3] = {{2048, 256, 768}, {2048, 256, 256}, {2048, 256, 1024}, {2048, 1024, 256},
                                    {1024, 128, 384}, {1024, 128, 128}, {1024, 128, 512},  {1024, 512, 128}};
    const int repetitions = argc > 1 ? atoi(argv[1]) : 50;
    double flop = 0, seconds = 0;
    float *host = malloc(LARGEST * sizeof *host);
    if (!host)
        return 1;
    for (int i = 0; i < LARGEST; i++)
        host[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    CHECK(cublasCreate(&handle));
    CHECK(cudaMalloc((void **)&a, LARGEST * sizeof *a));
    CHECK(cudaMalloc((void **)&b, LARGEST * sizeof *b));
    CHECK(cudaMalloc((void **)&c, LARGEST * sizeof *c));
    CHECK(cudaMemcpy(a, host, LARGEST * sizeof *a, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(b, host, LARGEST * sizeof *b, cudaMemcpyHostToDevice));
    for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++)
        measure_layer(layers[i][0], layers[i][1], layers[i][2], repetitions, &flop, &seconds);
    printf("sum: %.1f GFLOP/s, %.2f ms\n", 1e-9 * flop / seconds, 1e3 * seconds);
    free(host);
    return 0;
}
