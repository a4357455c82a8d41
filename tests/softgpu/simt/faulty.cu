/* faulty.cu: kernels with one mistake each, or none, for the reports of checked mode. Blocks have 64 threads. */
#include <cuda_runtime.h>

#define KERNEL extern "C" __global__ void

/* ---- races ---- */

KERNEL race_read_after_write(int *out)
{
    __shared__ int s[64];
    s[threadIdx.x] = 0;
    __syncthreads();
    s[threadIdx.x] = 1;
    out[threadIdx.x] = s[63 - threadIdx.x];
}

KERNEL race_write_after_read(int *out)
{
    __shared__ int s[64];
    s[threadIdx.x] = (int)threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = s[(threadIdx.x + 1) % 64];
    s[threadIdx.x] = 0;
}

KERNEL race_write_after_write(int *out)
{
    __shared__ int s;
    s = (int)threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = s;
}

/* Within a warp the shuffle is enough, between warps it is not. */
KERNEL race_between_warps(int *out)
{
    __shared__ int s[64];
    s[threadIdx.x] = 0;
    __syncthreads();
    s[threadIdx.x] = 1;
    __syncwarp();
    out[threadIdx.x] = s[threadIdx.x ^ 32];
}

KERNEL race_on_dynamic(int *out)
{
    extern __shared__ char bytes[];
    bytes[threadIdx.x] = 0;
    __syncthreads();
    bytes[threadIdx.x] = 1;
    out[threadIdx.x] = bytes[threadIdx.x ^ 1];
}

KERNEL race_with_atomic(int *out)
{
    __shared__ int s;
    if (threadIdx.x == 0)
        s = 0;
    __syncthreads();
    if (threadIdx.x == 40)
        s = 7;
    else
        atomicAdd(&s, 1);
    __syncthreads();
    out[threadIdx.x] = s;
}

/* ---- none of these is a race ---- */

KERNEL no_race(int *out)
{
    __shared__ int s[64], any;
    __shared__ unsigned char bytes[64];
    __shared__ volatile int flag;
    __shared__ int message, total;
    extern __shared__ float pool[];
    bytes[threadIdx.x] = (unsigned char)threadIdx.x; /* neighbours in a word */
    s[threadIdx.x] = 1;
    if (threadIdx.x == 0) {
        any = 0;
        flag = 0;
        total = 0;
    }
    __syncwarp();
    int v = s[threadIdx.x ^ 16] + bytes[threadIdx.x ^ 1];
    __syncwarp();
    for (int o = 16; o > 0; o /= 2) { /* a tree in a warp */
        if (threadIdx.x % 32 < (unsigned)o)
            s[threadIdx.x] += s[threadIdx.x + o];
        __syncwarp();
    }
    __syncthreads();
    if (threadIdx.x % 3 == 0)
        any = 1; /* all the same */
    pool[threadIdx.x] = 1.0f;
    if (threadIdx.x == 33) { /* message and flag */
        message = 5;
        __threadfence_block();
        flag = 1;
    }
    if (threadIdx.x == 2) {
        while (flag == 0)
            __nanosleep(10);
        __threadfence_block();
        v += message;
    }
    atomicAdd(&total, v);
    __syncthreads();
    out[threadIdx.x] = total + any + s[0] + s[32] + (int)pool[63 - threadIdx.x];
}

/* ---- aliases ---- */

/* Says that it is there, and reads as soon as it is told to, by an address that is told as well. */
KERNEL read_when_told(volatile int *flag, int *const *where, int *out)
{
    flag[0] = 1;
    while (!flag[1])
        __nanosleep(100);
    out[0] = (*where)[0];
}

KERNEL write_and_read(int *p, const int *q, int *out)
{
    p[0] = 5;
    out[0] = q[0];
}

/* ---- bounds ---- */

KERNEL behind_the_end(int *p, int n)
{
    p[threadIdx.x + n - 63] = 1;
}

KERNEL before_the_beginning(const int *p, int *out)
{
    out[threadIdx.x] = p[(int)threadIdx.x - 1];
}

KERNEL behind_shared(int *out)
{
    __shared__ int s[60];
    volatile int *const p = s;
    p[threadIdx.x] = 1;
    out[threadIdx.x] = 0;
}

KERNEL behind_dynamic(int *out, int n)
{
    extern __shared__ int words[];
    words[threadIdx.x + n - 63] = 1;
    out[threadIdx.x] = 0;
}

__device__ int small_table[8];
KERNEL behind_variable(int *out, int at)
{
    out[threadIdx.x] = small_table[at];
}

KERNEL misaligned(char *p)
{
    *(int *)(p + 2) = 1;
}

KERNEL local_of_another_thread(int *out)
{
    __shared__ int *where;
    int mine = 5;
    if (threadIdx.x == 0)
        where = &mine;
    __syncthreads();
    out[threadIdx.x] = *where;
    __syncthreads();
}

/* ---- what was never written ---- */

KERNEL uninitialised_shared(int *out)
{
    __shared__ int s[64];
    if (threadIdx.x != 17)
        s[threadIdx.x] = 1;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x];
}

KERNEL copy_ints(int *to, const int *from)
{
    to[blockIdx.x * blockDim.x + threadIdx.x] = from[blockIdx.x * blockDim.x + threadIdx.x];
}

/* Structs are copied with their padding. */
struct padded {
    char c;
    double d;
    int i;
};
KERNEL copy_structs(padded *to, const padded *from, int make)
{
    __shared__ padded s[64];
    if (make) {
        s[threadIdx.x].c = 'x';
        s[threadIdx.x].d = 1;
        s[threadIdx.x].i = 2;
    } else {
        s[threadIdx.x] = from[threadIdx.x];
    }
    __syncthreads();
    to[threadIdx.x] = s[63 - threadIdx.x];
}

/* ---- sets ---- */

KERNEL strided(int *to, const int *from, int step)
{
    to[threadIdx.x] = from[threadIdx.x * step];
}
