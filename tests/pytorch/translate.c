/* translate.c [--flags | FILE]: PTX as C: a kernel library (softgpu/ptx/translate.h). --flags: what the C compiler is to be given. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/ptx/translate.h"

/* The caller's; NULL: it cannot be read. */
static char *read_all(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "r"), *text = NULL;
    char *out = NULL, part[4096];
    if (f && (text = open_memstream(&out, bytes)))
        for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;)
            fwrite(part, 1, n, text);
    const int failed = !text || ferror(f) || ferror(text);
    if (text)
        fclose(text);
    if (f)
        fclose(f);
    if (!failed)
        return out;
    free(out);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "--flags"))
        return puts(SG_PTX_CFLAGS) < 0;
    size_t bytes = 0;
    char *text = argc == 2 ? read_all(argv[1], &bytes) : NULL;
    if (!text) {
        fprintf(stderr, "translate [--flags | FILE]: PTX\n");
        return 2;
    }
    sg_ptx_module_t *module = NULL;
    sg_ptx_error_t error = {0};
    const char *why = NULL;
    int failed = 1;
    if (sg_ptx_is_of_nvidia(text, bytes, &why))
        fprintf(stderr, "%s: %s\n", argv[1], why);
    else if (!sg_ptx_read(text, bytes, &module, &error) ||
             !sg_ptx_translate(module, SG_PTX_WHOLE, NULL, stdout, &error))
        fprintf(stderr, "%s: %s\n", argv[1], error.text);
    else
        failed = fflush(stdout) != 0;
    sg_ptx_free(module);
    free(text);
    return failed;
}
