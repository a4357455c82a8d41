/* json_lines.c: see json_lines.h. */
#include "cli/json_lines.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

bool ebb_lines_complain(ebb_lines_t *r, const char *format, ...)
{
    int n = snprintf(r->error, r->error_size, "line %u: ", r->number);
    va_list args;
    va_start(args, format);
    if (n > 0 && (size_t)n < r->error_size)
        vsnprintf(r->error + n, r->error_size - (size_t)n, format, args);
    va_end(args);
    return false;
}

cJSON *ebb_lines_next(ebb_lines_t *r)
{
    r->number++;
    ssize_t length = getline(&r->line, &r->room, r->in);
    if (length <= 0) {
        ebb_lines_complain(r, "the file ends too early");
        return NULL;
    }
    cJSON *o = cJSON_ParseWithLength(r->line, (size_t)length);
    if (o && cJSON_IsObject(o))
        return o;
    cJSON_Delete(o);
    ebb_lines_complain(r, "not a JSON object");
    return NULL;
}

bool ebb_lines_whole(const cJSON *item, double most, double *out)
{
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) || item->valuedouble > most ||
        item->valuedouble != floor(item->valuedouble))
        return false;
    *out = item->valuedouble;
    return true;
}

bool ebb_lines_get(ebb_lines_t *r, const cJSON *o, const char *key, double most, double *out)
{
    return ebb_lines_whole(cJSON_GetObjectItemCaseSensitive(o, key), most, out) ||
           ebb_lines_complain(r, "\"%s\" is missing or not a whole number up to %.0f", key, most);
}

bool ebb_lines_get_index(ebb_lines_t *r, const cJSON *o, const char *key, double most, uint32_t *out)
{
    double n = UINT32_MAX;
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, key);
    if (!cJSON_IsNull(item) && !ebb_lines_get(r, o, key, most, &n))
        return false;
    *out = (uint32_t)n;
    return true;
}

unsigned ebb_lines_word(const cJSON *item, const char *const *words, unsigned count)
{
    const char *text = cJSON_GetStringValue(item);
    unsigned i = 0;
    while (i < count && (!text || strcmp(text, words[i])))
        i++;
    return i;
}
