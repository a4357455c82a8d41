/* softgpu/host.h: host code of a .cu file. Here it is compiled and never run: nvcc's object has the one that runs. */
#ifndef SOFTGPU_HOST_H
#define SOFTGPU_HOST_H

namespace softgpu
{
/* What `kernel<<<grid, block>>>(...)` in the source becomes. */
struct never_launched {
    template <typename... Args> void operator()(Args &&...) const
    {
    }
};
template <typename... Args> never_launched launch_configuration(Args &&...)
{
    return {};
}
} // namespace softgpu

/* What cuda_runtime.h has for nvcc only: functions that take a variable or a kernel by name. */
namespace softgpu
{
template <typename... Args> static inline cudaError_t never_run(Args &&...)
{
    return cudaSuccess;
}
} // namespace softgpu
#define cudaMemcpyToSymbol(...)                            softgpu::never_run(__VA_ARGS__)
#define cudaMemcpyFromSymbol(...)                          softgpu::never_run(__VA_ARGS__)
#define cudaMemcpyToSymbolAsync(...)                       softgpu::never_run(__VA_ARGS__)
#define cudaMemcpyFromSymbolAsync(...)                     softgpu::never_run(__VA_ARGS__)
#define cudaGetSymbolAddress(...)                          softgpu::never_run(__VA_ARGS__)
#define cudaGetSymbolSize(...)                             softgpu::never_run(__VA_ARGS__)
#define cudaLaunchKernel(...)                              softgpu::never_run(__VA_ARGS__)
#define cudaLaunchKernelEx(...)                            softgpu::never_run(__VA_ARGS__)
#define cudaLaunchCooperativeKernel(...)                   softgpu::never_run(__VA_ARGS__)
#define cudaFuncSetAttribute(...)                          softgpu::never_run(__VA_ARGS__)
#define cudaFuncGetAttributes(...)                         softgpu::never_run(__VA_ARGS__)
#define cudaFuncSetCacheConfig(...)                        softgpu::never_run(__VA_ARGS__)
#define cudaOccupancyMaxActiveBlocksPerMultiprocessor(...) softgpu::never_run(__VA_ARGS__)
#define cudaOccupancyMaxPotentialBlockSize(...)            softgpu::never_run(__VA_ARGS__)

#endif
