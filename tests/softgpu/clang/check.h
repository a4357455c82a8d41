/* What the programs here share: each uses one feature of CUDA, compares what its kernels compute with the host, and exits with 1 where it
 * differs. They are ordinary CUDA: nvcc compiles them too. */
#ifndef CLANG_CHECK_H
#define CLANG_CHECK_H

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <cuda_runtime.h>

#define CHECK(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                          \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

#define OK(call)                                                                                             \
    do {                                                                                                     \
        const cudaError_t error_ = (call);                                                                   \
        if (error_ != cudaSuccess) {                                                                         \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(error_));       \
            exit(1);                                                                                         \
        }                                                                                                    \
    } while (0)

/* After a launch. */
#define FINISH()                                                                                             \
    do {                                                                                                     \
        OK(cudaGetLastError());                                                                              \
        OK(cudaDeviceSynchronize());                                                                         \
    } while (0)

/* An array in device memory, zeros at first, and its copy on the host. */
template <typename T> struct array {
    explicit array(size_t n) : host(n)
    {
        OK(cudaMalloc(&device, n * sizeof(T)));
        OK(cudaMemset(device, 0, n * sizeof(T)));
    }
    ~array()
    {
        cudaFree(device);
    }
    void up()
    {
        OK(cudaMemcpy(device, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
    }
    void down()
    {
        FINISH();
        OK(cudaMemcpy(host.data(), device, host.size() * sizeof(T), cudaMemcpyDeviceToHost));
    }
    T &operator[](size_t i)
    {
        return host[i];
    }
    std::vector<T> host;
    T *device;
};

static inline bool near(double a, double b, double relative)
{
    return a == b || std::fabs(a - b) <= relative * (std::fabs(a) + std::fabs(b)) + 1e-30;
}

#endif
