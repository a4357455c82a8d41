/* default_device.cuh: -default-device: functions without one of CUDA's words are the device's. */
#pragma clang force_cuda_host_device begin
