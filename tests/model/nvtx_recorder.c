/* nvtx_recorder.c: a tool that NVTX loads (NVTX_INJECTION64_PATH): it appends "name{" where a range is pushed
 * and "}" where one is popped to the file that NVTX_RECORDER_FILE names. */
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>

static FILE *file;
static int depth;

static int NVTX_API push(const char *name)
{
    fprintf(file, "%s{", name);
    fflush(file);
    return depth++;
}

static int NVTX_API pop(void)
{
    fputc('}', file);
    fflush(file);
    return --depth;
}

int NVTX_API InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_export_table);

/* NVTX calls it once, before the first range. 0: the tool does not want to be used. */
int NVTX_API InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_export_table)
{
    const NvtxExportTableCallbacks *callbacks = get_export_table(NVTX_ETID_CALLBACKS);
    const char *path = getenv("NVTX_RECORDER_FILE");
    NvtxFunctionTable table;
    unsigned int count = 0;
    if (callbacks == NULL || path == NULL ||
        callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &table, &count) == 0 ||
        count <= NVTX_CBID_CORE_RangePop || (file = fopen(path, "w")) == NULL)
        return 0;
    *table[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)push;
    *table[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)pop;
    return 1;
}
