/* export_table.c: cuGetExportTable. Nobody outside knows the tables that NVIDIA's libraries exchange by it; there is one of this device's
 * own (softgpu/private_loader.h). */
#include "softgpu/driver/sg.h"

#include <softgpu/private_loader.h>

#include <string.h>

static CUresult load(CUlibrary *out, const char *path)
{
    return cuLibraryLoadFromFile(out, path, NULL, NULL, 0, NULL, NULL, 0);
}

SG_EXPORT CUresult cuGetExportTable(const void **table, const CUuuid *id)
{
    static const softgpu_private_loader_t loader = {load, cuLibraryGetKernel};
    static const CUuuid its_id = SOFTGPU_PRIVATE_LOADER;
    if (!table || !id)
        return CUDA_ERROR_INVALID_VALUE;
    *table = memcmp(id, &its_id, sizeof its_id) ? NULL : &loader;
    return *table ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
