/* trainer.h: runs ebb-train as a program, and reads its log.
 *
 * The program's path is the environment variable TEST_TRAINER. Files go into a new folder, removed by
 * trainer_clean().
 */
#ifndef EBB_TESTS_MODEL_TRAINER_H
#define EBB_TESTS_MODEL_TRAINER_H

#include <stdbool.h>
#include <stddef.h>

#define TRAINER_MAX_STEPS 64

/* How a run went, and what it said. */
typedef struct outcome {
    int exit_code;                  /* -1: killed by a signal */
    char out[1 << 16], error[8192]; /* their beginnings */
} outcome_t;

/* What a run's log says. Of more steps than fit, the last ones, each at its number modulo TRAINER_MAX_STEPS.
 */
typedef struct history {
    int steps;       /* step records */
    int final_steps; /* of the final record */
    double loss[TRAINER_MAX_STEPS], grad_norm[TRAINER_MAX_STEPS], rate[TRAINER_MAX_STEPS];
    char loss_hex[TRAINER_MAX_STEPS][32], grad_norm_hex[TRAINER_MAX_STEPS][32];
    double device_bytes[TRAINER_MAX_STEPS], launches[TRAINER_MAX_STEPS];
    double peak_bytes, held_out_loss;
    char held_out_loss_hex[32], state_hash[32];
} history_t;

/* Runs it with these arguments, separated by spaces. */
outcome_t trainer_run(const char *arguments);
/* The same in two parts. */
int trainer_start(const char *arguments); /* process id */
outcome_t trainer_wait(int process);

/* Trains on the test text with these further arguments; the test fails if the run does. */
history_t trainer_train(const char *arguments);
history_t trainer_read_log(const char *path);

/* Path of the test text (60,000 bytes, seed 1), and of a file of that name in the tests' folder. */
const char *trainer_text(void);
void trainer_path(char *path, size_t size, const char *name);
void trainer_write(const char *path, const void *bytes, size_t count);
void trainer_clean(void);
int trainer_teardown(void **state); /* of a group of tests: data files (files.h), too */

/* Fields of one line of JSON. A missing number is NaN, a missing text empty. */
double json_number(const char *line, const char *key);
bool json_text(const char *line, const char *key, char *text, size_t size);

double relative(double a, double b);

#endif
