/* report_text.h: texts and numbers of other programs in what a report writes. */
#ifndef EBB_REPORT_TEXT_H
#define EBB_REPORT_TEXT_H

#include <stdint.h>
#include <stdio.h>

/* A JSON string, quotes included, that may also stand in a <script>: what is no UTF-8 becomes U+FFFD, and what HTML could take for
 * a tag is escaped. */
void ebb_text_write(FILE *out, const char *text);

/* A number of nanoseconds or bytes, as short as it is exact. */
void ebb_text_write_number(FILE *out, double number);

/* The name of a kernel for people: of a mangled C++ name its last identifier, without namespaces and arguments. */
enum { EBB_TEXT_NAME = 128 };
void ebb_text_short_name(const char *name, char out[EBB_TEXT_NAME]);

/* Texts, each of them once, numbered in the order in which they came. Zeroed at first. */
typedef struct ebb_text_list {
    char **text; /* owned */
    uint32_t *slot, count, room, slots;
} ebb_text_list_t;
/* Its number; UINT32_MAX: no memory. */
uint32_t ebb_text_number(ebb_text_list_t *list, const char *text);
void ebb_text_list_write(const ebb_text_list_t *list, FILE *out);
void ebb_text_list_free(ebb_text_list_t *list);

#endif
