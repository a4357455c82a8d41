/* Arrays of a thread's own, indexed by what is not known to the compiler, and alloca-like structures passed by address. */
#include "check.h"

struct stack {
    int top, values[16];
};

__device__ __noinline__ void push(stack *s, int x)
{
    s->values[s->top++] = x;
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
}
