/* report_text.c: see report_text.h. */
#include "cli/report/report_text.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Bytes of the character that begins here; 0: it is none (RFC 3629). */
static unsigned character(const unsigned char *c)
{
    const unsigned n = *c < 0x80                 ? 1
                       : *c >= 0xc2 && *c < 0xe0 ? 2
                       : *c >= 0xe0 && *c < 0xf0 ? 3
                       : *c >= 0xf0 && *c < 0xf5 ? 4
                                                 : 0;
    for (unsigned i = 1; i < n; i++)
        if ((c[i] & 0xc0) != 0x80)
            return 0;
    const bool overlong = (*c == 0xe0 && c[1] < 0xa0) || (*c == 0xf0 && c[1] < 0x90);
    const bool none = (*c == 0xed && c[1] >= 0xa0) || (*c == 0xf4 && c[1] >= 0x90);
    return overlong || none ? 0 : n;
}

void ebb_text_write(FILE *out, const char *text)
{
    fputc('"', out);
    for (const unsigned char *c = (const unsigned char *)text; *c;) {
        const unsigned n = character(c);
        if (!n)
            fputs("\\ufffd", out);
        else if (*c < 0x20 || *c == 0x7f || strchr("<>&\"\\", *c))
            fprintf(out, "\\u%04x", *c);
        else
            fwrite(c, 1, n, out);
        c += n ? n : 1;
    }
    fputc('"', out);
}

void ebb_text_write_number(FILE *out, double number)
{
    fprintf(out, "%.15g", number);
}

void ebb_text_short_name(const char *name, char out[EBB_TEXT_NAME])
{
    const char *from = name;
    size_t length = strlen(name);
    if (!strncmp(name, "_Z", 2)) {
        const char *at = name + 2 + (name[2] == 'N');
        while (*at >= '1' && *at <= '9') { /* <length><identifier>, of nested names one after another */
            char *end;
            const unsigned long n = strtoul(at, &end, 10);
            if (n > strlen(end))
                break;
            from = end;
            length = n;
            at = end + n;
            if (name[2] != 'N')
                break;
        }
    }
    length = length < EBB_TEXT_NAME - 1 ? length : EBB_TEXT_NAME - 1;
    memcpy(out, from, length);
    out[length] = 0;
}

/* ---- each once ---- */

static uint32_t hash(const char *text)
{
    uint32_t h = 2166136261u; /* FNV-1a */
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 16777619u;
    return h;
}

static uint32_t *find(const ebb_text_list_t *l, const char *text)
{
    uint32_t i = hash(text) & (l->slots - 1);
    while (l->slot[i] && strcmp(l->text[l->slot[i] - 1], text))
        i = (i + 1) & (l->slots - 1);
    return &l->slot[i];
}

static bool grow(ebb_text_list_t *l)
{
    const uint32_t slots = l->slots ? 2 * l->slots : 64;
    char **grown = realloc(l->text, slots / 2 * sizeof *grown);
    uint32_t *slot = calloc(slots, sizeof *slot);
    if (grown)
        l->text = grown;
    if (!grown || !slot) {
        free(slot);
        return false;
    }
    free(l->slot);
    l->slot = slot;
    l->slots = slots;
    l->room = slots / 2;
    for (uint32_t i = 0; i < l->count; i++)
        *find(l, l->text[i]) = i + 1;
    return true;
}

uint32_t ebb_text_number(ebb_text_list_t *l, const char *text)
{
    if (l->count == l->room && !grow(l))
        return UINT32_MAX;
    uint32_t *slot = find(l, text);
    if (!*slot) {
        if (!(l->text[l->count] = strdup(text)))
            return UINT32_MAX;
        *slot = ++l->count;
    }
    return *slot - 1;
}

void ebb_text_list_write(const ebb_text_list_t *l, FILE *out)
{
    fputc('[', out);
    for (uint32_t i = 0; i < l->count; i++) {
        fputs(i ? "," : "", out);
        ebb_text_write(out, l->text[i]);
    }
    fputc(']', out);
}

void ebb_text_list_free(ebb_text_list_t *l)
{
    for (uint32_t i = 0; i < l->count; i++)
        free(l->text[i]);
    free(l->text);
    free(l->slot);
    *l = (ebb_text_list_t){0};
}
