/* Kernels and their launches that come from a header. */
#include "check.h"
#include "header_kernel.cuh"

int main()
{
    array<int> x(32);
    fill_and_double(x.device, 21);
    x.down();
    for (int i = 0; i < 32; i++)
        CHECK(x[i] == 42);
}
