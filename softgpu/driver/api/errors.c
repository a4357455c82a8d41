/* errors.c: names and texts of errors. */
#include "softgpu/driver/sg.h"

// clang-format off
#define ERRORS(E) \
    E(CUDA_SUCCESS, "no error") \
    E(CUDA_ERROR_INVALID_VALUE, "invalid argument") \
    E(CUDA_ERROR_OUT_OF_MEMORY, "out of memory") \
    E(CUDA_ERROR_NOT_INITIALIZED, "the driver is not initialised") \
    E(CUDA_ERROR_DEINITIALIZED, "the driver is shutting down") \
    E(CUDA_ERROR_PROFILER_DISABLED, "the profiler is disabled") \
    E(CUDA_ERROR_PROFILER_NOT_INITIALIZED, "the profiler is not initialised") \
    E(CUDA_ERROR_PROFILER_ALREADY_STARTED, "the profiler runs already") \
    E(CUDA_ERROR_PROFILER_ALREADY_STOPPED, "the profiler does not run") \
    E(CUDA_ERROR_STUB_LIBRARY, "the driver library is a stub") \
    E(CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER, "the call wants a newer driver") \
    E(CUDA_ERROR_DEVICE_UNAVAILABLE, "the device is not available") \
    E(CUDA_ERROR_NO_DEVICE, "no CUDA-capable device") \
    E(CUDA_ERROR_INVALID_DEVICE, "invalid device ordinal") \
    E(CUDA_ERROR_DEVICE_NOT_LICENSED, "no licence for the device") \
    E(CUDA_ERROR_INVALID_IMAGE, "the module image is invalid") \
    E(CUDA_ERROR_INVALID_CONTEXT, "no valid context") \
    E(CUDA_ERROR_CONTEXT_ALREADY_CURRENT, "the context is current already") \
    E(CUDA_ERROR_MAP_FAILED, "mapping failed") \
    E(CUDA_ERROR_UNMAP_FAILED, "unmapping failed") \
    E(CUDA_ERROR_ARRAY_IS_MAPPED, "the array is mapped") \
    E(CUDA_ERROR_ALREADY_MAPPED, "mapped already") \
    E(CUDA_ERROR_NO_BINARY_FOR_GPU, "no kernels for this device in the module") \
    E(CUDA_ERROR_ALREADY_ACQUIRED, "acquired already") \
    E(CUDA_ERROR_NOT_MAPPED, "not mapped") \
    E(CUDA_ERROR_NOT_MAPPED_AS_ARRAY, "not mapped as an array") \
    E(CUDA_ERROR_NOT_MAPPED_AS_POINTER, "not mapped as a pointer") \
    E(CUDA_ERROR_ECC_UNCORRECTABLE, "memory error that could not be corrected") \
    E(CUDA_ERROR_UNSUPPORTED_LIMIT, "unsupported limit") \
    E(CUDA_ERROR_CONTEXT_ALREADY_IN_USE, "the context is in use") \
    E(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, "peer access is not supported") \
    E(CUDA_ERROR_INVALID_PTX, "invalid PTX") \
    E(CUDA_ERROR_INVALID_GRAPHICS_CONTEXT, "invalid graphics context") \
    E(CUDA_ERROR_NVLINK_UNCORRECTABLE, "link error that could not be corrected") \
    E(CUDA_ERROR_JIT_COMPILER_NOT_FOUND, "there is no compiler at run time") \
    E(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, "unsupported version of PTX") \
    E(CUDA_ERROR_JIT_COMPILATION_DISABLED, "compiling at run time is disabled") \
    E(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, "unsupported share of the device") \
    E(CUDA_ERROR_UNSUPPORTED_DEVSIDE_SYNC, "kernels cannot wait for their kernels here") \
    E(CUDA_ERROR_CONTAINED, "memory error that was contained") \
    E(CUDA_ERROR_INVALID_SOURCE, "invalid kernel source") \
    E(CUDA_ERROR_FILE_NOT_FOUND, "file not found") \
    E(CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND, "a shared object lacks a symbol") \
    E(CUDA_ERROR_SHARED_OBJECT_INIT_FAILED, "a shared object failed to initialise") \
    E(CUDA_ERROR_OPERATING_SYSTEM, "an operating system call failed") \
    E(CUDA_ERROR_INVALID_HANDLE, "invalid handle") \
    E(CUDA_ERROR_ILLEGAL_STATE, "illegal state") \
    E(CUDA_ERROR_LOSSY_QUERY, "the question has lost part of its answer") \
    E(CUDA_ERROR_NOT_FOUND, "named symbol not found") \
    E(CUDA_ERROR_NOT_READY, "not ready") \
    E(CUDA_ERROR_ILLEGAL_ADDRESS, "a kernel or copy accessed memory that is not accessible") \
    E(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "too many resources requested for launch") \
    E(CUDA_ERROR_LAUNCH_TIMEOUT, "a kernel took too long") \
    E(CUDA_ERROR_LAUNCH_INCOMPATIBLE_TEXTURING, "a launch with another texturing mode") \
    E(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, "peer access is enabled already") \
    E(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, "peer access is not enabled") \
    E(CUDA_ERROR_PRIMARY_CONTEXT_ACTIVE, "the primary context is in use") \
    E(CUDA_ERROR_CONTEXT_IS_DESTROYED, "the context is destroyed") \
    E(CUDA_ERROR_ASSERT, "an assertion of a kernel failed") \
    E(CUDA_ERROR_TOO_MANY_PEERS, "too many peers") \
    E(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "part of the host memory is registered already") \
    E(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "the host memory is not registered") \
    E(CUDA_ERROR_HARDWARE_STACK_ERROR, "a kernel ran out of stack") \
    E(CUDA_ERROR_ILLEGAL_INSTRUCTION, "a kernel met an illegal instruction") \
    E(CUDA_ERROR_MISALIGNED_ADDRESS, "a kernel used a misaligned address") \
    E(CUDA_ERROR_INVALID_ADDRESS_SPACE, "a kernel used an address of the wrong space") \
    E(CUDA_ERROR_INVALID_PC, "a kernel jumped to where no code is") \
    E(CUDA_ERROR_LAUNCH_FAILED, "a kernel failed") \
    E(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, "too many blocks for a cooperative launch") \
    E(CUDA_ERROR_TENSOR_MEMORY_LEAK, "a kernel left tensor memory allocated") \
    E(CUDA_ERROR_NOT_PERMITTED, "not permitted here") \
    E(CUDA_ERROR_NOT_SUPPORTED, "not supported") \
    E(CUDA_ERROR_SYSTEM_NOT_READY, "the system is not ready") \
    E(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "library and kernel driver do not match") \
    E(CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, "the compatibility package does not support the device") \
    E(CUDA_ERROR_MPS_CONNECTION_FAILED, "no connection to the MPS server") \
    E(CUDA_ERROR_MPS_RPC_FAILURE, "a call of the MPS server failed") \
    E(CUDA_ERROR_MPS_SERVER_NOT_READY, "the MPS server is not ready") \
    E(CUDA_ERROR_MPS_MAX_CLIENTS_REACHED, "the MPS server has too many clients") \
    E(CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED, "the MPS server has too many connections") \
    E(CUDA_ERROR_MPS_CLIENT_TERMINATED, "the MPS server has ended the client") \
    E(CUDA_ERROR_CDP_NOT_SUPPORTED, "kernels cannot launch kernels here") \
    E(CUDA_ERROR_CDP_VERSION_MISMATCH, "another version of launching from kernels") \
    E(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "not permitted while a stream is capturing") \
    E(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "an error has invalidated the capture") \
    E(CUDA_ERROR_STREAM_CAPTURE_MERGE, "two captures would become one") \
    E(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "the stream has not begun a capture") \
    E(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, "a stream was not joined to the capture that it forked from") \
    E(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, "a dependency from outside of the capture") \
    E(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "a dependency on the legacy default stream would arise") \
    E(CUDA_ERROR_CAPTURED_EVENT, "the event was recorded in a capture") \
    E(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "another thread has begun the capture") \
    E(CUDA_ERROR_TIMEOUT, "timeout") \
    E(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, "the graph cannot be updated so") \
    E(CUDA_ERROR_EXTERNAL_DEVICE, "an external device failed") \
    E(CUDA_ERROR_INVALID_CLUSTER_SIZE, "invalid cluster size") \
    E(CUDA_ERROR_FUNCTION_NOT_LOADED, "the function is not loaded") \
    E(CUDA_ERROR_INVALID_RESOURCE_TYPE, "invalid type of resource") \
    E(CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION, "invalid configuration of resources") \
    E(CUDA_ERROR_KEY_ROTATION, "keys are being rotated") \
    E(CUDA_ERROR_UNKNOWN, "unknown error")
// clang-format on

static const struct {
    CUresult code;
    const char *name, *text;
} errors[] = {
#define ROW(code, text) {code, #code, text},
    ERRORS(ROW)
#undef ROW
};

static CUresult describe_error(CUresult error, const char **out, bool text)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (errors[i].code == error) {
            *out = text ? errors[i].text : errors[i].name;
            return CUDA_SUCCESS;
        }
    *out = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

SG_EXPORT CUresult cuGetErrorString(CUresult error, const char **out)
{
    return describe_error(error, out, true);
}

SG_EXPORT CUresult cuGetErrorName(CUresult error, const char **out)
{
    return describe_error(error, out, false);
}
