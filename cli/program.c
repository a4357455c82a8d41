/* program.c: see program.h. */
#include "cli/program.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

bool ebb_image_open(const char *path, ebb_image_t *out)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    struct stat s;
    void *p = MAP_FAILED;
    if (file >= 0 && !fstat(file, &s) && S_ISREG(s.st_mode) && s.st_size > 4)
        p = mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (file >= 0)
        close(file);
    if (p == MAP_FAILED)
        return false;
    *out = (ebb_image_t){.at = p, .bytes = (size_t)s.st_size, .mode = s.st_mode};
    return true;
}

void ebb_image_close(const ebb_image_t *image)
{
    munmap((void *)(uintptr_t)image->at, image->bytes);
}

bool ebb_image_contains(const ebb_image_t *image, const char *text)
{
    return memmem(image->at, image->bytes, text, strlen(text)) != NULL;
}

/* As execvp finds it. */
static bool find_file(const char *name, char out[PATH_MAX])
{
    const char *path = getenv("PATH");
    if (strchr(name, '/'))
        return realpath(name, out) != NULL;
    for (const char *at = path ? path : "/usr/bin:/bin"; *at;) {
        char candidate[PATH_MAX];
        const size_t n = strcspn(at, ":");
        snprintf(candidate, sizeof candidate, "%.*s/%s", (int)n, at, name);
        if (n && !access(candidate, X_OK) && realpath(candidate, out))
            return true;
        at += n + (at[n] == ':');
    }
    return false;
}

/* "#!/usr/bin/env python3" -> python3; "#!/bin/sh" -> /bin/sh. */
static bool interpreter_of(const ebb_image_t *image, char *out, size_t room)
{
    char line[256];
    if (image->at[0] != '#' || image->at[1] != '!')
        return false;
    snprintf(line, sizeof line, "%.*s", (int)(image->bytes - 2 < 250 ? image->bytes - 2 : 250),
             (const char *)image->at + 2);
    line[strcspn(line, "\n")] = 0;
    char *save = NULL, *word = strtok_r(line, " \t", &save);
    while (word && (strstr(word, "/env") || !strcmp(word, "-S")))
        word = strtok_r(NULL, " \t", &save);
    return word && snprintf(out, room, "%s", word) < (int)room;
}

bool ebb_program_find(const char *name, char path[PATH_MAX], ebb_script_t *script)
{
    char interpreter[256];
    ebb_image_t image;
    if (!find_file(name, path)) {
        snprintf(path, PATH_MAX, "%s", name);
        return false;
    }
    for (int depth = 0; depth < 4 && ebb_image_open(path, &image); depth++) {
        const bool is_script = interpreter_of(&image, interpreter, sizeof interpreter);
        ebb_image_close(&image);
        if (!is_script)
            break;
        if (script)
            script(path, interpreter);
        if (!find_file(interpreter, path)) {
            snprintf(path, PATH_MAX, "%s", interpreter);
            return false;
        }
    }
    return true;
}

/* ---- ELF ---- */

bool ebb_image_is_privileged(const ebb_image_t *image)
{
    return image->mode & (S_ISUID | S_ISGID);
}

const char *ebb_image_loader(const ebb_image_t *image)
{
    const Elf64_Ehdr *e = (const void *)image->at;
    if (image->bytes < sizeof *e || memcmp(e->e_ident, ELFMAG, SELFMAG) ||
        e->e_ident[EI_CLASS] != ELFCLASS64 || e->e_phoff > image->bytes ||
        (image->bytes - e->e_phoff) / sizeof(Elf64_Phdr) < e->e_phnum)
        return NULL;
    const Elf64_Phdr *p = (const void *)(image->at + e->e_phoff);
    for (unsigned i = 0; i < e->e_phnum; i++)
        if (p[i].p_type == PT_INTERP && p[i].p_offset < image->bytes &&
            p[i].p_filesz < image->bytes - p[i].p_offset && p[i].p_filesz &&
            !image->at[p[i].p_offset + p[i].p_filesz - 1])
            return (const char *)image->at + p[i].p_offset;
    return NULL;
}

bool ebb_image_is_static(const ebb_image_t *image)
{
    return image->bytes > SELFMAG && !memcmp(image->at, ELFMAG, SELFMAG) && !ebb_image_loader(image);
}
