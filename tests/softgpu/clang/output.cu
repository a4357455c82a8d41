/* printf from a kernel reaches standard output, and a failed assertion ends the launch. */
#undef NDEBUG
#include <cassert>

#include "check.h"

__global__ void say(int n, float f, const char *word)
{
    printf("thread %d of %d: %.2f %s %llx%%\n", (int)threadIdx.x, n, f, word, 0x123456789abcull);
}

__global__ void insist(int n)
{
    assert(n == 3);
}

__global__ void say_more()
{
    printf("plain\n");
}

int main(int, char **argv)
{
    char path[512], text[512] = "";
    snprintf(path, sizeof path, "%s.printed", argv[0]);
    CHECK(freopen(path, "w", stdout));
    say_more<<<1, 1>>>();
    FINISH();
    say<<<1, 2>>>(2, 1.25f, nullptr);
    const cudaError_t printed = cudaDeviceSynchronize();
    fflush(stdout);
    FILE *f = fopen(path, "r");
    CHECK(f && fread(text, 1, sizeof text - 1, f) > 0);
    fclose(f);
    CHECK(!strncmp(text, "plain\nthread 0 of 2: 1.25 ", 26) && strstr(text, "thread 1 of 2: 1.25") && strstr(text, " 123456789abc%\n"));
    CHECK(printed == cudaSuccess);
    insist<<<1, 4>>>(3);
    FINISH();
    insist<<<1, 4>>>(4);
    CHECK(cudaDeviceSynchronize() == cudaErrorAssert);
}
