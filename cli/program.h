/* program.h: a program's files, as the kernel and the loader look at them; nothing of them is run. */
#ifndef EBB_CLI_PROGRAM_H
#define EBB_CLI_PROGRAM_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* The binary that runs a program, found as execvp finds it and behind up to four scripts, each of which goes to `script`, if not
 * NULL. False: there is none; `path` is then the name that was not found. */
typedef void ebb_script_t(const char *path, const char *interpreter);
bool ebb_program_find(const char *name, char path[PATH_MAX], ebb_script_t *script);

/* A file, mapped. */
typedef struct ebb_image {
    const unsigned char *at;
    size_t bytes;
    mode_t mode;
} ebb_image_t;
bool ebb_image_open(const char *path, ebb_image_t *out);
void ebb_image_close(const ebb_image_t *image);

bool ebb_image_contains(const ebb_image_t *image, const char *text);
/* It runs with another user's rights: the loader ignores LD_PRELOAD. */
bool ebb_image_is_privileged(const ebb_image_t *image);
/* A binary that asks for no dynamic loader. */
bool ebb_image_is_static(const ebb_image_t *image);
/* The dynamic loader that it asks for; NULL: it asks for none, or is not for this kind of machine. */
const char *ebb_image_loader(const ebb_image_t *image);

#endif
