/* thrust: containers, transformations, reductions. */
#include "check.h"

#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/reduce.h>
#include <thrust/sequence.h>
#include <thrust/transform.h>

struct square {
    __host__ __device__ int operator()(int x) const
    {
        return x * x % 1000;
    }
};

int main()
{
    const int n = 3000;
    thrust::device_vector<int> x(n), y(n);
    thrust::sequence(x.begin(), x.end(), 3);
    thrust::transform(x.begin(), x.end(), y.begin(), square());
    long long sum = 0;
    int most = 0;
    for (int i = 0; i < n; i++) {
        sum += square()(i + 3);
        most = square()(i + 3) > most ? square()(i + 3) : most;
    }
    CHECK(thrust::reduce(y.begin(), y.end(), 0ll) == sum);
    CHECK(thrust::reduce(y.begin(), y.end(), 0, thrust::maximum<int>()) == most);
    CHECK(y[17] == square()(20));
}
