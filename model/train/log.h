/* log.h: JSON lines, one object each, flushed as it ends. Without a file nothing is written, and nothing
 * needs to ask.
 *
 * Records, by "kind":
 *   run     "options" (every flag), model shape, "parameters", corpus sizes, "flops_per_token" (flops.h), device ("device_flops": its peak, if
 *           known), versions
 *   resume  "step", "path": of the checkpoint that the training goes on from
 *   checkpoint "step", "path", "seconds" that it took
 *   step    "step" (from 1), "loss" and "grad_norm" (also as "..._hex": C's hexadecimal form, all bits), "lr",
 *           "skipped" (with --skip-outliers), "tokens_per_s", "mfu" (the model's FLOPs as a share of the device's peak
 *           rate, if that is known: peak_rate.h), "left_s" (seconds for the steps that are left), "ms" (from the end of the
 *           step before), "device_ms" (by the device's clock, from the step's first operation to its last), "launches" (operations issued to the device: kernels, products, copies, memsets, graphs), "device_bytes" and "peak_bytes" (allocated by the trainer when the step had been issued; at most so far)
 *   eval    "step", "loss" (nats per token), "loss_hex", "tokens"
 *   choices "step", "examples", "accuracy", "accuracy_norm" (choices.h)
 *   sample  "prompt", "text" (a byte above 127 as the code point of that number)
 *   final   "steps", "held_out_loss", "held_out_loss_hex", "peak_bytes", "peak_by_kind" (an object: gpu.h's kinds of memory
 *           when the peak was reached), "seconds", "state_hash" (parameters.h); after SIGTERM without a held-out loss
 *   dry_run (alone) "parameters", "flops_per_token", "tokens_per_step", "peak_bytes", "peak_by_kind", "saved_by_layer" (an
 *           object: bytes of what each layer keeps for the backward pass, by name), "saved_bytes" (of all layers)
 * A number that is not finite is null.
 */
#ifndef EBB_MODEL_LOG_H
#define EBB_MODEL_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct json_log {
    FILE *file; /* NULL: write nothing */
    const char *path;
    bool first; /* no comma before the next field */
} json_log_t;

/* path may be NULL. `append`: to what is there. A file that cannot be written ends the program, exit code 2. */
void log_open(json_log_t *log, const char *path, bool append);
void log_close(json_log_t *log);

void log_begin(json_log_t *log, const char *kind);
void log_end(json_log_t *log);

void log_object_begin(json_log_t *log, const char *key);
void log_object_end(json_log_t *log);

void log_count(json_log_t *log, const char *key, uint64_t value);
void log_real(json_log_t *log, const char *key, double value);
/* "<key>" and "<key>_hex" */
void log_exact(json_log_t *log, const char *key, double value);
void log_text(json_log_t *log, const char *key, const char *text);
void log_bytes(json_log_t *log, const char *key, const unsigned char *text, size_t length);
/* `literal` as it is: a number's text */
void log_literal(json_log_t *log, const char *key, const char *literal);

#endif
