/* thrust::sort, by radix for integers. */
#include "check.h"

#include <algorithm>

#include <thrust/device_vector.h>
#include <thrust/sort.h>

int main()
{
    std::vector<int> host(500);
    for (size_t i = 0; i < host.size(); i++)
        host[i] = (int)(i * 7919 % 10007) - 5000;
    thrust::device_vector<int> x(host.begin(), host.end());
    thrust::sort(x.begin(), x.end());
    std::sort(host.begin(), host.end());
    for (size_t i = 0; i < host.size(); i++)
        CHECK(x[i] == host[i]);
}
