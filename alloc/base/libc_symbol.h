/* libc_symbol.h: functions of libc that libebb.so exports under the same names, as it exports dlsym: found in libc's own symbol table, because
 * a look-up by name would find ours. Any thread, also before libc is set up. */
#ifndef EBB_LIBC_SYMBOL_H
#define EBB_LIBC_SYMBOL_H

/* NULL: libc has none. */
void *ebb_libc_function(const char *name);

/* dlsym as libc has it. */
void *ebb_real_dlsym(void *handle, const char *name);

/* What follows the last slash. */
const char *ebb_base_name(const char *path);

#endif
