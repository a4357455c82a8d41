/* Inline PTX: operands, predicates, special registers, memory. */
#include "check.h"

__global__ void run(unsigned *out, const unsigned *in)
{
    unsigned lane, sum, picked, loaded;
    unsigned long long wide;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    asm("add.u32 %0, %1, %2;" : "=r"(sum) : "r"(lane), "n"(100));
    asm("{\n .reg .pred p;\n setp.gt.u32 p, %1, 10;\n selp.u32 %0, %2, %3, p;\n}" : "=r"(picked) : "r"(lane), "r"(sum), "r"(7u));
    asm("mad.wide.u32 %0, %1, %2, %3;" : "=l"(wide) : "r"(lane), "r"(0x10000000u), "l"(5ull));
    asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(loaded) : "l"(in + lane) : "memory");
    asm volatile("st.global.u32 [%0], %1;" ::"l"(out + 3 * lane), "r"(picked) : "memory");
    out[3 * lane + 1] = (unsigned)(wide >> 8);
    out[3 * lane + 2] = loaded;
}

int main()
{
    array<unsigned> out(96), in(32);
    for (unsigned i = 0; i < 32; i++)
        in[i] = ~i;
    in.up();
    run<<<1, 32>>>(out.device, in.device);
    out.down();
    for (unsigned i = 0; i < 32; i++) {
        CHECK(out[3 * i] == (i > 10 ? i + 100 : 7));
        CHECK(out[3 * i + 1] == (unsigned)((i * 0x10000000ull + 5) >> 8) && out[3 * i + 2] == ~i);
    }
}
