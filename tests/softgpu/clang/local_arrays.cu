/* Arrays of a thread's own, indexed by what is not known to the compiler; structures passed by address; memory by alloca. */
#include <alloca.h>

#include "check.h"

struct stack {
    int top, values[16];
};

__device__ __noinline__ void push(stack *s, int x)
{
    s->values[s->top++] = x;
}

/* Of so many words, which are all in memory before the first is read. */
__device__ int reversed(const int *in, int count)
{
    int *words = (int *)alloca(count * sizeof *words), sum = 0;
    for (int i = 0; i < count; i++)
        words[in[i] * 5 % count] = i;
    for (int i = count - 1; i >= 0; i--)
        sum = sum * 3 % 1009 + words[i];
    return sum;
}

__global__ void by_alloca(const int *in, int *out)
{
    out[threadIdx.x] = 0;
    for (int k = 0; k < 3; k++)
        out[threadIdx.x] += reversed(in, 16 + threadIdx.x % 2 * 16);
}

__global__ void run(const int *in, int *out)
{
    int count[8] = {0};
    stack s = {};
    for (int i = 0; i < 32; i++)
        count[in[(i * (threadIdx.x + 1)) % 32]]++;
    for (int k = 0; k < 8; k++)
        if (count[k] % 2)
            push(&s, k * 100 + count[k]);
    int sum = 0;
    while (s.top > 0)
        sum = sum * 3 + s.values[--s.top];
    out[threadIdx.x] = sum;
}

int main()
{
    array<int> in(32), out(32);
    for (int i = 0; i < 32; i++)
        in[i] = i * i * i % 8;
    in.up();
    run<<<1, 32>>>(in.device, out.device);
    out.down();
    for (int t = 0; t < 32; t++) {
        int count[8] = {0}, sum = 0;
        for (int i = 0; i < 32; i++)
            count[in[i * (t + 1) % 32]]++;
        for (int k = 7; k >= 0; k--)
            sum = count[k] % 2 ? sum * 3 + k * 100 + count[k] : sum;
        CHECK(out[t] == sum);
    }
    for (int i = 0; i < 32; i++)
        in[i] = i;
    in.up();
    by_alloca<<<1, 32>>>(in.device, out.device);
    out.down();
    for (int t = 0; t < 32; t++) {
        const int count = 16 + t % 2 * 16;
        int words[32], sum = 0;
        for (int i = 0; i < count; i++)
            words[i * 5 % count] = i;
        for (int i = count - 1; i >= 0; i--)
            sum = sum * 3 % 1009 + words[i];
        CHECK(out[t] == 3 * sum);
    }
}
