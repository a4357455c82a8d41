/* pytorch.c: see pytorch.h. */
#include "cli/pytorch.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BACKEND "backend:cudaMallocAsync"

/* Up to the comma that ends a setting: lists in brackets have commas of their own. */
static size_t setting_length(const char *at)
{
    int depth = 0;
    size_t n = 0;
    for (; at[n] && (at[n] != ',' || depth > 0); n++)
        depth += (at[n] == '[') - (at[n] == ']');
    return n;
}

static bool has_key(const char *setting, size_t length, const char *key)
{
    while (length && *setting == ' ')
        setting++, length--;
    const size_t n = strlen(key);
    return length > n && !strncmp(setting, key, n) && (setting[n] == ':' || setting[n] == ' ');
}

/* True: there was room. */
static bool append(char *out, size_t room, const char *text, size_t length)
{
    const size_t at = strlen(out), comma = at > 0;
    if (at + comma + length >= room)
        return false;
    snprintf(out + at, room - at, "%s%.*s", comma ? "," : "", (int)length, text);
    return true;
}

int ebb_pytorch_merge(const char *settings, char *out, size_t room, char *dropped, size_t dropped_room)
{
    *out = *dropped = 0;
    bool good = append(out, room, BACKEND, strlen(BACKEND));
    for (const char *at = settings; *at && good;) {
        const size_t n = setting_length(at);
        if (has_key(at, n, "backend") || has_key(at, n, "expandable_segments")) {
            if (n != strlen(BACKEND) || strncmp(at, BACKEND, n))
                good = append(dropped, dropped_room, at, n);
        } else if (n) {
            good = append(out, room, at, n);
        }
        at += n + (at[n] == ',');
    }
    return good;
}

static void configure(const char *variable, const char *settings, bool say)
{
    char value[4096], dropped[4096];
    if (!ebb_pytorch_merge(settings, value, sizeof value, dropped, sizeof dropped)) {
        fprintf(stderr, "ebb: %s is too long; left as it is\n", variable);
        return;
    }
    if (*dropped && say)
        fprintf(stderr, "ebb: %s: %s goes, for " BACKEND " (--keep-allocator leaves it)\n", variable,
                dropped);
    setenv(variable, value, 1);
}

void ebb_pytorch_configure(void)
{
    const char *old = getenv("PYTORCH_CUDA_ALLOC_CONF"), *new = getenv("PYTORCH_ALLOC_CONF");
    char *first = strdup(old ? old : new ? new : ""), *second = strdup(new ? new : old ? old : "");
    if (first && second) {
        configure("PYTORCH_CUDA_ALLOC_CONF", first, old);
        configure("PYTORCH_ALLOC_CONF", second, new);
    }
    free(first);
    free(second);
}
