/* bench_roof: what one thread of this CPU can do while all others do the same: the two lines of a roofline (Williams,
 * Waterman, Patterson, CACM 52(4), 2009).
 *
 *     bench_roof [threads]      default: the number of cores
 *
 * Prints JSON: fp32 operations per second of multiply-adds on registers, and bytes per second of a[i] = b[i] + s * c[i], with
 * arrays much larger than the caches and with arrays as large as the tensors of a small model. Times are those of the
 * threads, so that what else the machine does is left out; of several runs the fastest counts.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#if defined(__AVX512F__)
#define WIDTH 16
#elif defined(__AVX__)
#define WIDTH 8
#else
#define WIDTH 4
#endif
typedef float vec __attribute__((vector_size(4 * WIDTH)));

enum {
    REGISTERS = 12, /* chains of multiply-adds: two units with a latency of 4 or 5 cycles */
    ROUNDS = 5000000,
    RUNS = 5,
    LARGE = 16 << 20, /* floats of each array */
    SMALL = 1 << 19,
    MOST_THREADS = 256
};

typedef struct roof {
    double operations, large_bytes, small_bytes; /* a second */
    float sink;
    pthread_barrier_t *together;
} roof_t;

static double thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double multiply_adds(float *sink)
{
    vec x[REGISTERS], a, b;
    for (int i = 0; i < WIDTH; i++)
        a[i] = 0.999f, b[i] = *sink;
#pragma GCC unroll 16
    for (int r = 0; r < REGISTERS; r++)
        x[r] = b + (float)r;
    const double begin = thread_seconds();
    for (long i = 0; i < ROUNDS; i++) {
#pragma GCC unroll 16
        for (int r = 0; r < REGISTERS; r++)
            x[r] = x[r] * a + b;
        __asm__ volatile("" ::: "memory");
    }
    const double seconds = thread_seconds() - begin;
#pragma GCC unroll 16
    for (int r = 0; r < REGISTERS; r++)
        *sink += x[r][0];
    return 2.0 * REGISTERS * WIDTH * ROUNDS / seconds;
}

static double triad(float *restrict a, const float *restrict b, const float *restrict c, long n, long rounds)
{
    const double begin = thread_seconds();
    for (long round = 0; round < rounds; round++) {
        for (long i = 0; i < n; i++)
            a[i] = b[i] + 0.5f * c[i];
        __asm__ volatile("" ::"r"(a) : "memory");
    }
    return 12.0 * (double)n * (double)rounds / (thread_seconds() - begin);
}

static void *measure(void *argument)
{
    roof_t *roof = argument;
    float *memory = calloc(3 * (size_t)LARGE, sizeof *memory);
    if (memory == NULL)
        exit(1);
    for (int run = 0; run < RUNS; run++) {
        pthread_barrier_wait(roof->together);
        const double operations = multiply_adds(&roof->sink);
        pthread_barrier_wait(roof->together);
        const double large = triad(memory, memory + LARGE, memory + 2 * LARGE, LARGE, 1);
        const double small = triad(memory, memory + SMALL, memory + 2 * SMALL, SMALL, LARGE / SMALL);
        roof->operations = operations > roof->operations ? operations : roof->operations;
        if (run > 0) { /* the first one has the pages made */
            roof->large_bytes = large > roof->large_bytes ? large : roof->large_bytes;
            roof->small_bytes = small > roof->small_bytes ? small : roof->small_bytes;
        }
    }
    free(memory);
    return NULL;
}

int main(int argc, char **argv)
{
    static roof_t roofs[MOST_THREADS];
    pthread_t threads[MOST_THREADS];
    pthread_barrier_t together;
    long count = argc > 1 ? atol(argv[1]) : sysconf(_SC_NPROCESSORS_ONLN);
    count = count < 1 ? 1 : count > MOST_THREADS ? MOST_THREADS : count;
    pthread_barrier_init(&together, NULL, (unsigned)count);
    for (long i = 0; i < count; i++) {
        roofs[i].together = &together;
        if (pthread_create(&threads[i], NULL, measure, &roofs[i]))
            return 1;
    }
    roof_t mean = {0};
    for (long i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
        mean.operations += roofs[i].operations / (double)count;
        mean.large_bytes += roofs[i].large_bytes / (double)count;
        mean.small_bytes += roofs[i].small_bytes / (double)count;
    }
    printf("{\"threads\":%ld,\"gflops\":%.1f,\"memory_gb_s\":%.2f,\"cache_gb_s\":%.2f}\n", count,
           1e-9 * mean.operations, 1e-9 * mean.large_bytes, 1e-9 * mean.small_bytes);
    return 0;
}
