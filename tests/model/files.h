/* files.h: data files made by the tests, in a folder of their own that files_clean() removes. */
#ifndef EBB_TESTS_MODEL_FILES_H
#define EBB_TESTS_MODEL_FILES_H

#include <stddef.h>
#include <stdint.h>

/* The path of a file of that name in the tests' folder. */
const char *files_path(char path[256], const char *name);
void files_clean(void);
int files_teardown(void **state); /* of a group of tests */

void files_write(const char *path, const void *bytes, size_t count);
/* All of it; the caller frees it. */
unsigned char *files_read(const char *path, size_t *count);

/* llm.c's token shard of tokens of 2 or 4 bytes. */
void files_shard(const char *path, const uint32_t *tokens, size_t count, int token_bytes);

/* llm.c's tokenizer file, version 1 or 2, of these texts; `end` ends a text (version 2). */
void files_tokenizer(const char *path, uint32_t version, const char *const *texts, uint32_t count,
                     uint32_t end);

/* A shard of 4000 tokens, " once upon a time" again and again, and the tokenizer of its 12 tokens: their paths. */
void files_story(char data[256], char tokenizer[256]);

/* llm.c's questions: `count` examples of 2 to 4 completions with tokens below `vocab`, drawn from `seed`. */
void files_choices(const char *path, uint64_t seed, int count, int vocab);

/* A whole state file: of the fields "step" 100, "lr" 0.5, "tensors" {10, 20, 30}, "m.0" {0, 1, ...}. */
enum { FILES_STATE_FLOATS = 301 };
void files_state(const char *path);

/* A whole safetensors file: an F32 matrix, a BF16 vector, an empty tensor, and one of no dimensions. */
void files_safetensors(const char *path);

/* The n-th of a seed's 32-bit draws below `bound`. */
uint32_t files_draw(uint64_t seed, uint64_t n, uint32_t bound);

#endif
