/* libc_symbol.h: functions of libc that libebb.so exports under the same names, as it exports dlsym: found in libc's own symbol table, because
 * a look-up by name would find ours. Any thread, also before libc is set up. */
#ifndef EBB_LIBC_SYMBOL_H
#define EBB_LIBC_SYMBOL_H

/* As libc has them; NULL before ebb_libc_find. The entries of hook/dlsym.c jump to these. */
typedef struct ebb_libc {
    void *(*dlsym)(void *handle, const char *name);
    void *(*dlvsym)(void *handle, const char *name, const char *version);
} ebb_libc_t;
extern ebb_libc_t ebb_libc __attribute__((visibility("hidden")));

/* Fills ebb_libc. Threads that do so at once find the same. */
void ebb_libc_find(void);
/* libc's dlsym, found if need be. */
void *ebb_real_dlsym(void *handle, const char *name);

/* What follows the last slash. */
const char *ebb_base_name(const char *path);

#endif
