/* sort.cu: what the wheel has of CUB: pairs sorted by key, the first of each run of equal keys, running sums. Results depend on the input alone,
 * never on the grid or on what is in the kernels' temporary storage. */
#include <cstdint>

namespace at::cuda::cub {
namespace detail {
template <int size> struct alignas(size) OpaqueType {
    char data[size];
};
} // namespace detail

namespace {
template <typename T> struct SumOp {
    __device__ T operator()(T a, T b) const
    {
        return a + b;
    }
};
} // namespace
} // namespace at::cuda::cub

namespace thrust {
inline namespace THRUST_300001_SM_750_800_860_900_1000_1200_NS {
struct use_default;
template <typename T, typename, typename, typename> struct counting_iterator {
    T first;
};
} // namespace THRUST_300001_SM_750_800_860_900_1000_1200_NS
} // namespace thrust

namespace cuda::std {
inline namespace __4 {
template <typename> struct equal_to {};
} // namespace __4
} // namespace cuda::std

namespace at_cuda_detail::cub {
enum class SortOrder { Ascending, Descending };

/* Temporary storage of a scan. */
template <typename, bool> struct ScanTileState {
    void *states;
};

namespace detail {
struct identity_decomposer_t {};
struct vsmem_t {
    void *storage;
};

namespace radix {
template <typename...> struct policy_hub {
    struct Policy1000 {};
};
} // namespace radix

/* Of pairs: of few by one kernel, else by one for each eight bits or less. */
namespace radix_sort {
/* So many bits of a key from `begin`, in the order of numbers. */
template <typename Key> __device__ uint64_t bits(Key key, int begin, int digits)
{
    return (uint64_t(key) ^ 1ull << (8 * sizeof(Key) - 1)) << (64 - begin - digits) >> (64 - digits);
}

/* An element's place: how many are less, and how many equal ones are before it. */
template <typename Policy, SortOrder Order, typename Key, typename Value, typename Count, typename Decomposer>
__global__ void DeviceRadixSortSingleTileKernel(const Key *keys, Key *to_keys, const Value *values, Value *to_values, Count count, int begin, int end,
                                                Decomposer)
{
    for (Count i = Count(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
        const uint64_t own = bits(keys[i], begin, end - begin);
        Count place = 0;
        for (Count k = 0; k < count; k++) {
            const uint64_t other = bits(keys[k], begin, end - begin);
            place += other < own || (other == own && k < i);
        }
        to_keys[place] = keys[i];
        to_values[place] = values[i];
    }
}

/* By counting. One thread does all. */
template <typename Policy, SortOrder Order, typename Key, typename Value, typename Total, typename Count, typename Counter, typename Decomposer>
__global__ void DeviceRadixSortOnesweepKernel(Counter *, Counter *, Total *, const Total *, Key *to_keys, const Key *keys, Value *to_values,
                                              const Value *values, Count count, int begin, int digits, Decomposer)
{
    __shared__ Count places[256];
    if (blockIdx.x || threadIdx.x)
        return;
    for (Count &place : places)
        place = 0;
    for (Count i = 0; i < count; i++)
        places[bits(keys[i], begin, digits)]++;
    Count before = 0;
    for (Count &place : places) {
        const Count here = place;
        place = before;
        before += here;
    }
    for (Count i = 0; i < count; i++) {
        const Count place = places[bits(keys[i], begin, digits)]++;
        to_keys[place] = keys[i];
        to_values[place] = values[i];
    }
}

/* What these count is not needed above. */
template <typename Policy, SortOrder Order, typename Key, typename Total, typename Decomposer>
__global__ void DeviceRadixSortHistogramKernel(Total *, const Key *, Total, int, int, Decomposer)
{
}

template <typename Policy, typename Total> __global__ void DeviceRadixSortExclusiveSumKernel(Total *) {}

using value = at::cuda::cub::detail::OpaqueType<8>;
using total = unsigned long long;

#define OF_KEY(Key)                                                                                                                          \
    template __global__ void DeviceRadixSortSingleTileKernel<radix::policy_hub<Key, value, total>::Policy1000, SortOrder::Ascending, Key,    \
                                                             value, total, identity_decomposer_t>(                                           \
        const Key *, Key *, const value *, value *, total, int, int, identity_decomposer_t);                                                 \
    template __global__ void DeviceRadixSortOnesweepKernel<radix::policy_hub<Key, value, total>::Policy1000, SortOrder::Ascending, Key,      \
                                                           value, total, int, int, identity_decomposer_t>(                                   \
        int *, int *, total *, const total *, Key *, const Key *, value *, const value *, int, int, int, identity_decomposer_t);             \
    template __global__ void DeviceRadixSortHistogramKernel<radix::policy_hub<Key, value, total>::Policy1000, SortOrder::Ascending, Key,     \
                                                            total, identity_decomposer_t>(total *, const Key *, total, int, int,             \
                                                                                          identity_decomposer_t);                            \
    template __global__ void DeviceRadixSortExclusiveSumKernel<radix::policy_hub<Key, value, total>::Policy1000, total>(total *);

OF_KEY(int)
OF_KEY(int64_t)
} // namespace radix_sort

/* The first value that the scans below begin with. */
template <typename T, typename Iterator> struct InputValue {
    bool in_memory;
    union {
        Iterator at;
        T value;
    };
};

/* One thread does all: these scans are short. */
namespace scan {
template <typename...> struct policy_hub {
    struct Policy1000 {};
};

template <typename State> __global__ void DeviceScanInitKernel(State, int) {}
template <typename State, typename Counts> __global__ void DeviceCompactInitKernel(State, int, Counts) {}

/* Of what is before each element. */
template <typename Policy, typename In, typename Out, typename State, typename Operation, typename First, typename Count, typename T, bool inclusive,
          typename Value>
__global__ void DeviceScanKernel(In in, Out out, State, int, Operation operation, First first, Count count)
{
    static_assert(!inclusive);
    if (blockIdx.x || threadIdx.x)
        return;
    T sum = first.in_memory ? *first.at : first.value;
    for (Count i = 0; i < count; i++) {
        const T x = in[i]; /* may lie where `out` does */
        out[i] = sum;
        sum = operation(sum, x);
    }
}

using sum = at::cuda::cub::SumOp<int64_t>;

template __global__ void DeviceScanInitKernel<ScanTileState<int64_t, true>>(ScanTileState<int64_t, true>, int);
template __global__ void DeviceCompactInitKernel<ScanTileState<unsigned long long, true>, int64_t *>(ScanTileState<unsigned long long, true>, int,
                                                                                                     int64_t *);
template __global__ void DeviceScanKernel<policy_hub<int64_t, int64_t, int64_t, unsigned, sum>::Policy1000, const int64_t *, int64_t *,
                                          ScanTileState<int64_t, true>, sum, InputValue<int64_t, int64_t *>, unsigned, int64_t, false, int64_t>(
    const int64_t *, int64_t *, ScanTileState<int64_t, true>, int, sum, InputValue<int64_t, int64_t *>, unsigned);
} // namespace scan

namespace unique_by_key {
template <typename...> struct policy_hub {
    struct Policy1000 {};
};
struct VSMemHelper {};

/* Of each run of equal keys the key and the first value: here the places that are counted from `places`. */
template <typename Policy, typename Keys, typename Values, typename Out_keys, typename Out_values, typename Counts, typename State, typename Equal,
          typename Count, typename Helper>
__global__ void DeviceUniqueByKeySweepKernel(Keys keys, Values places, Out_keys out_keys, Out_values out, Counts runs, State, Equal, Count count, int,
                                             vsmem_t)
{
    if (blockIdx.x || threadIdx.x)
        return;
    int64_t found = 0;
    for (Count i = 0; i < count; i++)
        if (!i || keys[i] != keys[i - 1]) {
            out_keys[found] = keys[i];
            out[found++] = places.first + int64_t(i);
        }
    *runs = found;
}

using places = thrust::counting_iterator<int, thrust::use_default, thrust::use_default, thrust::use_default>;

template __global__ void DeviceUniqueByKeySweepKernel<policy_hub<int64_t, int>::Policy1000, const int64_t *, places, int64_t *, int64_t *, int64_t *,
                                                      ScanTileState<unsigned long long, true>, cuda::std::equal_to<void>, unsigned long long,
                                                      VSMemHelper>(const int64_t *, places, int64_t *, int64_t *, int64_t *,
                                                                   ScanTileState<unsigned long long, true>, cuda::std::equal_to<void>,
                                                                   unsigned long long, int, vsmem_t);
} // namespace unique_by_key
} // namespace detail
} // namespace at_cuda_detail::cub
