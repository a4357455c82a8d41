/* log.h: what ebb says, on stderr, one line at a time. Never on stdout, never more than EBB_LOG allows. */
#ifndef EBB_LOG_H
#define EBB_LOG_H

typedef enum ebb_log_level { EBB_QUIET, EBB_WARN, EBB_INFO, EBB_DEBUG } ebb_log_level_t;

extern ebb_log_level_t ebb_log_level;

void ebb_log(ebb_log_level_t level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
