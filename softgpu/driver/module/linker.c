/* linker.c: cuLink*: texts of PTX become one, which is what is loaded as a module. It is compiled then, not here.
 *
 * The texts are put one behind the other, without the heads of all but the first: what one declares `.extern` another may define. Two that
 * define one name are refused, also where it is local to each. */
#include "softgpu/driver/module/module.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CUlinkState_st {
    FILE *out; /* NULL: complete */
    char *text;
    size_t bytes;
    CUlinkState next;
};

static CUlinkState states; /* guarded by sg.lock */

/* Where it is linked from; *link: NULL: it is no state. */
static CUlinkState *find_locked(CUlinkState state)
{
    CUlinkState *link = &states;
    while (*link && *link != state)
        link = &(*link)->next;
    return link;
}

static CUresult enter(CUlinkState state, bool open)
{
    SG_TRY(sg_enter_context());
    sg_lock();
    const bool good = *find_locked(state) && (!open || state->out);
    sg_unlock();
    return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

SG_EXPORT CUresult cuLinkCreate_v2(unsigned count, CUjit_option *options, void **values, CUlinkState *out)
{
    SG_TRY(sg_enter_context());
    if (!out || (count && (!options || !values)))
        return CUDA_ERROR_INVALID_VALUE;
    CUlinkState state = calloc(1, sizeof *state);
    if (!state || !(state->out = open_memstream(&state->text, &state->bytes))) {
        free(state);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sg_lock();
    state->next = states;
    states = state;
    sg_unlock();
    *out = state;
    return CUDA_SUCCESS;
}

/* Behind the directives that only the first text may have. */
static const char *skip_head(const char *at, const char *end)
{
    static const char last[] = ".address_size";
    const char *found = memmem(at, (size_t)(end - at), last, sizeof last - 1);
    if (!found)
        return at;
    found += sizeof last - 1;
    found += strspn(found, " \t");
    return found + strspn(found, "0123456789");
}

static CUresult add(CUlinkState state, const void *image, const char *name)
{
    size_t bytes;
    const char *ptx = sg_jit_is_ptx(image, &bytes) ? image : sg_fatbin_ptx(image, &bytes);
    if (!ptx) {
        sg_log(1, "cuLinkAdd*: %s is no PTX: machine code is not linked", name ? name : "an input");
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    SG_TRY(sg_jit_refuse(ptx, bytes));
    const char *end = ptx + bytes, *begin = ftell(state->out) > 0 ? skip_head(ptx, end) : ptx;
    return fprintf(state->out, "%.*s\n", (int)(end - begin), begin) > 0 ? CUDA_SUCCESS
                                                                        : CUDA_ERROR_OUT_OF_MEMORY;
}

SG_EXPORT CUresult cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t bytes,
                                    const char *name, unsigned count, CUjit_option *options, void **values)
{
    (void)type, (void)count, (void)options, (void)values;
    SG_TRY(enter(state, true));
    /* PTX may come without a zero, and whoever asks what else it is reads a header. */
    char *image = data && bytes >= 16 ? calloc(1, bytes + sizeof(Elf64_Ehdr)) : NULL;
    if (!image)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(image, data, bytes);
    const CUresult result = add(state, image, name);
    free(image);
    return result;
}

SG_EXPORT CUresult cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path, unsigned count,
                                    CUjit_option *options, void **values)
{
    (void)type, (void)count, (void)options, (void)values;
    SG_TRY(enter(state, true));
    if (!path)
        return CUDA_ERROR_INVALID_VALUE;
    char *image = sg_jit_read(path);
    const CUresult result = image ? add(state, image, path) : CUDA_ERROR_FILE_NOT_FOUND;
    free(image);
    return result;
}

/* The image is the state's, until that is destroyed. */
SG_EXPORT CUresult cuLinkComplete(CUlinkState state, void **image, size_t *bytes)
{
    SG_TRY(enter(state, true));
    if (!image)
        return CUDA_ERROR_INVALID_VALUE;
    const int failed = fclose(state->out);
    state->out = NULL;
    if (failed)
        return CUDA_ERROR_OUT_OF_MEMORY;
    SG_TRY(sg_jit_check(state->text, state->bytes));
    *image = state->text;
    if (bytes)
        *bytes = state->bytes + 1;
    return CUDA_SUCCESS;
}

SG_EXPORT CUresult cuLinkDestroy(CUlinkState state)
{
    SG_TRY(enter(state, false));
    sg_lock();
    *find_locked(state) = state->next;
    sg_unlock();
    if (state->out)
        fclose(state->out);
    free(state->text);
    free(state);
    return CUDA_SUCCESS;
}
