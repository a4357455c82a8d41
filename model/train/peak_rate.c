#include "model/train/peak_rate.h"

#include <stddef.h>
#include <string.h>

/* In TFLOP/s; 0: the device has no such products. Names as the driver gives them.
 *
 * A100, A30, A40, A10, L40S, L40, L4, T4, H100 NVL, H200 NVL, GH200, RTX A6000, RTX 6000 Ada: their data sheets. H100 SXM
 * and PCIe: "NVIDIA H100 Tensor Core GPU Architecture" (2022), table 2; H200: data sheet, the same chip and clocks as H100
 * SXM. B200: "NVIDIA Blackwell Architecture Technical Brief" (HGX B200). GeForce: the architecture whitepapers GA102 (RTX
 * 3090), Ada (RTX 4090) and RTX Blackwell (RTX 5090), appendix tables, "BF16 with FP32 accumulate".
 * Volta is not here: CUDA 13 does not run on it. */
static const struct {
    const char *name;
    double bf16, fp32;
} devices[] = {
    {"NVIDIA B200", 2250, 80},
    {"NVIDIA GH200 480GB", 989.4, 66.9},
    {"NVIDIA GH200 120GB", 989.4, 66.9},
    {"NVIDIA H200", 989.4, 66.9},
    {"NVIDIA H200 NVL", 835.5, 60},
    {"NVIDIA H100 80GB HBM3", 989.4, 66.9}, /* SXM */
    {"NVIDIA H100 PCIe", 756, 51.2},
    {"NVIDIA H100 NVL", 835.5, 60},
    {"NVIDIA A100-SXM4-40GB", 312, 19.5},
    {"NVIDIA A100-SXM4-80GB", 312, 19.5},
    {"NVIDIA A100-PCIE-40GB", 312, 19.5},
    {"NVIDIA A100 80GB PCIe", 312, 19.5},
    {"NVIDIA A30", 165, 10.3},
    {"NVIDIA A40", 149.7, 37.4},
    {"NVIDIA A10", 125, 31.2},
    {"NVIDIA L40S", 362.05, 91.6},
    {"NVIDIA L40", 181.05, 90.5},
    {"NVIDIA L4", 121, 30.3},
    {"Tesla T4", 0, 8.1},
    {"NVIDIA RTX A6000", 154.8, 38.7},
    {"NVIDIA RTX 6000 Ada Generation", 364.25, 91.1},
    {"NVIDIA GeForce RTX 3090", 71, 35.6},
    {"NVIDIA GeForce RTX 4090", 165.2, 82.6},
    {"NVIDIA GeForce RTX 5090", 209.5, 104.8},
};

double peak_rate(const char *device_name, dtype_t dtype)
{
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        if (strcmp(devices[i].name, device_name) == 0)
            return 1e12 * (dtype == DTYPE_BF16 ? devices[i].bf16 : devices[i].fp32);
    return 0;
}
