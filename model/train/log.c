#include "model/train/log.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "model/base/check.h"

void log_open(json_log_t *log, const char *path, bool append)
{
    *log = (json_log_t){.path = path};
    if (path == NULL)
        return;
    log->file = fopen(path, append ? "a" : "w");
    if (log->file == NULL)
        usage_error("--log %s: %s", path, strerror(errno));
}

void log_close(json_log_t *log)
{
    if (log->file != NULL && (ferror(log->file) | fclose(log->file)) != 0)
        fatal("--log %s: not written to its end; is the disk full?", log->path);
    *log = (json_log_t){0};
}

static void put_string(json_log_t *log, const unsigned char *text, size_t length)
{
    fputc('"', log->file);
    for (size_t i = 0; i < length; i++) {
        if (text[i] == '"' || text[i] == '\\')
            fprintf(log->file, "\\%c", text[i]);
        else if (text[i] < 0x20 || text[i] >= 0x7f)
            fprintf(log->file, "\\u%04x", text[i]);
        else
            fputc(text[i], log->file);
    }
    fputc('"', log->file);
}

/* Comma and key; false if there is no file. */
static bool put_key(json_log_t *log, const char *key)
{
    if (log->file == NULL)
        return false;
    if (!log->first)
        fputs(", ", log->file);
    log->first = false;
    put_string(log, (const unsigned char *)key, strlen(key));
    fputs(": ", log->file);
    return true;
}

void log_begin(json_log_t *log, const char *kind)
{
    if (log->file == NULL)
        return;
    fputc('{', log->file);
    log->first = true;
    log_text(log, "kind", kind);
}

void log_end(json_log_t *log)
{
    if (log->file == NULL)
        return;
    fputs("}\n", log->file);
    fflush(log->file);
}

void log_object_begin(json_log_t *log, const char *key)
{
    if (!put_key(log, key))
        return;
    fputc('{', log->file);
    log->first = true;
}

void log_object_end(json_log_t *log)
{
    if (log->file == NULL)
        return;
    fputc('}', log->file);
    log->first = false;
}

void log_count(json_log_t *log, const char *key, uint64_t value)
{
    if (put_key(log, key))
        fprintf(log->file, "%llu", (unsigned long long)value);
}

void log_real(json_log_t *log, const char *key, double value)
{
    if (!put_key(log, key))
        return;
    if (isfinite(value))
        fprintf(log->file, "%.9g", value);
    else
        fputs("null", log->file);
}

void log_exact(json_log_t *log, const char *key, double value)
{
    char hex_key[64], hex[64];
    log_real(log, key, value);
    snprintf(hex_key, sizeof hex_key, "%s_hex", key);
    snprintf(hex, sizeof hex, "%a", value);
    log_text(log, hex_key, hex);
}

void log_text(json_log_t *log, const char *key, const char *text)
{
    log_bytes(log, key, (const unsigned char *)text, strlen(text));
}

void log_bytes(json_log_t *log, const char *key, const unsigned char *text, size_t length)
{
    if (put_key(log, key))
        put_string(log, text, length);
}

void log_literal(json_log_t *log, const char *key, const char *literal)
{
    if (put_key(log, key))
        fputs(literal, log->file);
}
