/* json_lines.h: reading files of one JSON object a line, with errors that name the line. For tools only: the
 * JSON library stays out of libebb.so.
 */
#ifndef EBB_JSON_LINES_H
#define EBB_JSON_LINES_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* The largest number up to which JSON numbers (doubles) are exact. */
#define EBB_LINES_EXACT 9007199254740992.0

/* Zeroed but for `in`, `error` and `error_size`, which it borrows; `line` is the reader's, to be freed at the
 * end. */
typedef struct ebb_lines {
    FILE *in;
    char *line;
    size_t room;
    unsigned number; /* of the line read last, from 1 */
    char *error;
    size_t error_size;
} ebb_lines_t;

/* Leaves "line N: ..." in `error`. Always false. */
bool ebb_lines_complain(ebb_lines_t *lines, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The next line as an object, the caller's to delete, or NULL after a complaint. */
cJSON *ebb_lines_next(ebb_lines_t *lines);

/* A whole number from 0 to `most`; no complaint. */
bool ebb_lines_whole(const cJSON *item, double most, double *out);
/* The same of a key; false after a complaint. */
bool ebb_lines_get(ebb_lines_t *lines, const cJSON *object, const char *key, double most, double *out);
/* An index up to `most`, or null: UINT32_MAX. */
bool ebb_lines_get_index(ebb_lines_t *lines, const cJSON *object, const char *key, double most,
                         uint32_t *out);

/* Which of `count` words a text is; `count` if none, or if it is no text. */
unsigned ebb_lines_word(const cJSON *item, const char *const *words, unsigned count);

#endif
