/* norm.cu: layer normalisation and RMS normalisation, forward and backward. Rows of N elements, a block for each. */
#include "block.h"

using namespace compute;

namespace at::native {
namespace {

/* Of a row: its mean (rms: 0) and the reciprocal of its standard deviation (rms: of the root of its mean square). */
template <bool rms, typename T> __device__ void moments(const T *x, int64_t N, float eps, float &mean, float &rstd)
{
    mean = 0;
    if (!rms) {
        float part = 0;
        for (int64_t j = rank(); j < N; j += threads())
            part += float(x[j]);
        mean = over_block<sum>(part) / N;
    }
    float part = 0;
    for (int64_t j = rank(); j < N; j += threads()) {
        const float away = float(x[j]) - mean;
        part += away * away;
    }
    rstd = rsqrtf(over_block<sum>(part) / N + eps);
}

template <typename T>
__device__ void normalize(const T *x, int64_t N, float mean, float rstd, const T *gamma, const T *beta, T *y)
{
    for (int64_t j = rank(); j < N; j += threads()) {
        float value = (float(x[j]) - mean) * rstd;
        if (gamma)
            value *= float(gamma[j]);
        if (beta)
            value += float(beta[j]);
        y[j] = T(value);
    }
}

template <typename T, typename T_ACC, bool rms>
__global__ void vectorized_layer_norm_kernel(int N, T_ACC eps, const T *X, const T *gamma, const T *beta, T_ACC *mean, T_ACC *rstd, T *Y)
{
    const int64_t row = blockIdx.x;
    float of_mean, of_rstd;
    moments<rms>(X + row * N, N, eps, of_mean, of_rstd);
    normalize(X + row * N, N, of_mean, of_rstd, gamma, rms ? nullptr : beta, Y + row * N);
    if (rank() == 0) {
        if (!rms)
            mean[row] = of_mean;
        rstd[row] = of_rstd;
    }
}

template <typename T, typename T_ACC, bool rms>
__global__ void RowwiseMomentsCUDAKernel(int64_t N, T_ACC eps, const T *X, T_ACC *mean, T_ACC *rstd)
{
    const int64_t row = blockIdx.x;
    float of_mean, of_rstd;
    moments<rms>(X + row * N, N, eps, of_mean, of_rstd);
    if (rank() == 0) {
        if (!rms)
            mean[row] = of_mean;
        rstd[row] = of_rstd;
    }
}

template <typename T, typename T_ACC, bool rms>
__global__ void LayerNormForwardCUDAKernel(int64_t N, const T *X, const T_ACC *mean, const T_ACC *rstd, const T *gamma, const T *beta, T *Y)
{
    const int64_t row = blockIdx.x;
    normalize(X + row * N, N, rms ? 0 : mean[row], rstd[row], gamma, rms ? nullptr : beta, Y + row * N);
}

/* With g = dY * gamma and h = (X - mean) * rstd: dX = rstd * (g - [mean of g] - h * mean of g*h), the bracket not for rms. */
template <typename T, typename T_ACC, bool rms>
__device__ void grad_input(const T *dY, const T *X, const T_ACC *mean, const T_ACC *rstd, const T *gamma, T *dX, int N)
{
    const int64_t row = blockIdx.x;
    const float of_mean = rms ? 0 : mean[row], of_rstd = rstd[row];
    dY += row * N, X += row * N, dX += row * N;
    float part = 0, part_h = 0;
    for (int j = rank(); j < N; j += threads()) {
        const float g = float(dY[j]) * (gamma ? float(gamma[j]) : 1);
        part += g;
        part_h += g * (float(X[j]) - of_mean) * of_rstd;
    }
    const float of_g = rms ? 0 : over_block<sum>(part) / N, of_gh = over_block<sum>(part_h) / N;
    for (int j = rank(); j < N; j += threads()) {
        const float g = float(dY[j]) * (gamma ? float(gamma[j]) : 1);
        dX[j] = T(of_rstd * (g - of_g - (float(X[j]) - of_mean) * of_rstd * of_gh));
    }
}

template <typename T, typename T_ACC, bool rms>
__global__ void layer_norm_grad_input_kernel(const T *dY, const T *X, const T_ACC *mean, const T_ACC *rstd, const T *gamma, T *dX, int N)
{
    grad_input<T, T_ACC, rms>(dY, X, mean, rstd, gamma, dX, N);
}

template <typename T, typename T_ACC, bool rms>
__global__ void layer_norm_grad_input_kernel_vectorized(const T *dY, const T *X, const T_ACC *mean, const T_ACC *rstd, const T *gamma, T *dX, int N)
{
    grad_input<T, T_ACC, rms>(dY, X, mean, rstd, gamma, dX, N);
}

/* Columns of the M rows: blocks along y take turns at `rows` rows, and each has a row of results. Threads of one column lie along y. */
template <bool rms, typename T, typename T_ACC>
__device__ __noinline__ void gamma_beta(unsigned rows, int64_t M, int64_t N, const T *dY, const T *X, const T_ACC *mean, const T_ACC *rstd, T *dg, T *db)
{
    __shared__ float part_g[1024], part_b[1024];
    const int64_t column = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    float of_g = 0, of_b = 0;
    for (int64_t first = int64_t(blockIdx.y) * rows; first < M && column < N; first += int64_t(gridDim.y) * rows)
        for (int64_t i = first + threadIdx.y; i < first + rows && i < M; i += blockDim.y) {
            const float dy = float(dY[i * N + column]);
            of_g += dy * (float(X[i * N + column]) - (rms ? 0 : mean[i])) * rstd[i];
            of_b += dy;
        }
    part_g[rank()] = of_g;
    part_b[rank()] = of_b;
    __syncthreads();
    if (threadIdx.y || column >= N)
        return;
    for (unsigned i = 1; i < blockDim.y; i++) {
        of_g += part_g[threadIdx.x + i * blockDim.x];
        of_b += part_b[threadIdx.x + i * blockDim.x];
    }
    if (dg)
        dg[blockIdx.y * N + column] = T(of_g);
    if (db && !rms)
        db[blockIdx.y * N + column] = T(of_b);
}

template <typename T, typename T_ACC, unsigned block_x, unsigned block_y, unsigned rows, bool partial, bool whole, bool rms>
__global__ void GammaBetaBackwardCUDAKernelTemplate(int64_t M, int64_t N, const T *dY, const T *X, const T_ACC *mean, const T_ACC *rstd, T *dg, T *db)
{
    gamma_beta<rms>(rows, M, N, dY, X, mean, rstd, dg, db);
}

#define OF_ROWS(T, rms)                                                                                                                     \
    template __global__ void vectorized_layer_norm_kernel<T, float, rms>(int, float, const T *, const T *, const T *, float *, float *, T *); \
    template __global__ void RowwiseMomentsCUDAKernel<T, float, rms>(int64_t, float, const T *, float *, float *);                          \
    template __global__ void LayerNormForwardCUDAKernel<T, float, rms>(int64_t, const T *, const float *, const float *, const T *,         \
                                                                       const T *, T *);                                                     \
    template __global__ void layer_norm_grad_input_kernel<T, float, rms>(const T *, const T *, const float *, const float *, const T *, T *, \
                                                                         int);                                                              \
    template __global__ void layer_norm_grad_input_kernel_vectorized<T, float, rms>(const T *, const T *, const float *, const float *,     \
                                                                                    const T *, T *, int);

OF_ROWS(float, false)
OF_ROWS(float, true)
OF_ROWS(c10::Half, false)
OF_ROWS(c10::Half, true)
OF_ROWS(c10::BFloat16, false)
OF_ROWS(c10::BFloat16, true)

#define OF_COLUMNS_AS(T, y, rows, partial, whole, rms)                                                                                       \
    template __global__ void GammaBetaBackwardCUDAKernelTemplate<T, float, 32, y, rows, partial, whole, rms>(                               \
        int64_t, int64_t, const T *, const T *, const float *, const float *, T *, T *);
#define OF_COLUMNS_WHOLE(T, y, rows, partial)                                                                                                \
    OF_COLUMNS_AS(T, y, rows, partial, false, false)                                                                                        \
    OF_COLUMNS_AS(T, y, rows, partial, false, true)                                                                                         \
    OF_COLUMNS_AS(T, y, rows, partial, true, false)                                                                                         \
    OF_COLUMNS_AS(T, y, rows, partial, true, true)
#define OF_COLUMNS_OF(T, y, rows)                                                                                                            \
    OF_COLUMNS_WHOLE(T, y, rows, false)                                                                                                     \
    OF_COLUMNS_WHOLE(T, y, rows, true)
#define OF_COLUMNS(T)                                                                                                                        \
    OF_COLUMNS_OF(T, 1, 8)                                                                                                                  \
    OF_COLUMNS_WHOLE(T, 1, 32, true)                                                                                                        \
    OF_COLUMNS_OF(T, 8, 64)                                                                                                                 \
    OF_COLUMNS_OF(T, 16, 128)                                                                                                               \
    OF_COLUMNS_OF(T, 32, 256)

OF_COLUMNS(float)
OF_COLUMNS(c10::Half)
OF_COLUMNS(c10::BFloat16)

} // namespace
} // namespace at::native
