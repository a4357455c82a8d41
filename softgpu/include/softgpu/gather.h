/* softgpu/gather.h: what a kernel library has once: its table, and what kernels call by names that g++ gives. For the
 * generated <target>.index.cpp alone. */
#ifndef SOFTGPU_GATHER_H
#define SOFTGPU_GATHER_H

#include <vector>

#include "softgpu/device.h"

extern "C" __attribute__((visibility("default"))) softgpu_kernel_table_t softgpu_kernel_table;
softgpu_kernel_table_t softgpu_kernel_table = {SOFTGPU_ABI_VERSION, 0, nullptr, 0, nullptr};

namespace softgpu
{
struct gathered {
    std::vector<const softgpu_kernel_t *> kernels;
    std::vector<softgpu_unit_t> units;
};

static gathered &all()
{
    static gathered g;
    return g;
}

static inline void add_unit(const softgpu_unit_t &unit)
{
    all().kernels.insert(all().kernels.end(), unit.kernels, unit.kernels + unit.kernel_count);
    all().units.push_back(unit);
}

static inline void publish()
{
    softgpu_kernel_table.kernel_count = (uint32_t)all().kernels.size();
    softgpu_kernel_table.kernels = all().kernels.data();
    softgpu_kernel_table.unit_count = (uint32_t)all().units.size();
    softgpu_kernel_table.units = all().units.data();
}
} // namespace softgpu

/* A device-side assert ends the kernel, not the process. The kernels' calls find this one, not libc's. */
extern "C" __attribute__((visibility("hidden"), noreturn)) void
__assert_fail(const char *what, const char *file, unsigned line, const char *) noexcept
{
    if (softgpu::services)
        softgpu::services->fail(710 /* CUDA_ERROR_ASSERT */, what, {file, line});
    __builtin_trap();
}

#endif
