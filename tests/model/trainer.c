#include "trainer.h"

#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "files.h"
#include "text.h"

#define TEXT_BYTES 60000

static char folder[64];

void trainer_path(char *path, size_t size, const char *name)
{
    if (folder[0] == '\0') {
        strcpy(folder, "/tmp/ebb-test-XXXXXX");
        assert_non_null(mkdtemp(folder));
    }
    snprintf(path, size, "%s/%s", folder, name);
}

void trainer_write(const char *path, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, count, file), count);
    assert_int_equal(fclose(file), 0);
}

void trainer_clean(void)
{
    static const char *const names[] = {"text",  "short", "log",    "out",
                                        "error", "dump",  "ranges", "stats.json"};
    for (size_t i = 0; folder[0] != '\0' && i < sizeof names / sizeof *names; i++) {
        char path[128];
        trainer_path(path, sizeof path, names[i]);
        unlink(path);
    }
    if (folder[0] != '\0')
        rmdir(folder);
    folder[0] = '\0';
}

int trainer_teardown(void **state)
{
    (void)state;
    files_clean();
    trainer_clean();
    return 0;
}

const char *trainer_text(void)
{
    static char path[128], text[TEXT_BYTES];
    trainer_path(path, sizeof path, "text");
    if (access(path, R_OK) != 0) {
        text_make(text, sizeof text, 1);
        trainer_write(path, text, sizeof text);
    }
    return path;
}

static void read_text(const char *path, char *text, size_t size)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
}

/* In the child: standard output or error into a file. */
static void redirect(int descriptor, const char *path)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || dup2(file, descriptor) < 0)
        _exit(126);
    close(file);
}

static _Noreturn void become_trainer(const char *arguments, const char *out, const char *error)
{
    char copy[2048], *list[64];
    int count = 0;
    snprintf(copy, sizeof copy, "%s", arguments);
    list[count++] = getenv("TEST_TRAINER");
    for (char *word = strtok(copy, " "); word != NULL && count < 63; word = strtok(NULL, " "))
        list[count++] = word;
    list[count] = NULL;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that fails leaves nothing running */
    redirect(STDOUT_FILENO, out);
    redirect(STDERR_FILENO, error);
    execv(list[0], list);
    _exit(127);
}

int trainer_start(const char *arguments)
{
    if (getenv("TEST_TRAINER") == NULL)
        fail_msg("TEST_TRAINER must be the path of ebb-train; ctest sets it");
    char out[128], error[128];
    trainer_path(out, sizeof out, "out");
    trainer_path(error, sizeof error, "error");
    pid_t child = fork();
    assert_int_not_equal(child, -1);
    if (child == 0)
        become_trainer(arguments, out, error);
    return child;
}

outcome_t trainer_wait(int process)
{
    outcome_t outcome = {0};
    char path[128];
    int status;
    assert_int_equal(waitpid(process, &status, 0), process);
    outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    trainer_path(path, sizeof path, "out");
    read_text(path, outcome.out, sizeof outcome.out);
    trainer_path(path, sizeof path, "error");
    read_text(path, outcome.error, sizeof outcome.error);
    return outcome;
}

outcome_t trainer_run(const char *arguments)
{
    return trainer_wait(trainer_start(arguments));
}

static const char *json_value(const char *line, const char *key)
{
    char quoted[80];
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    const char *at = strstr(line, quoted);
    return at != NULL ? at + strlen(quoted) : NULL;
}

double json_number(const char *line, const char *key)
{
    const char *value = json_value(line, key);
    char *end;
    if (value == NULL)
        return NAN;
    double number = strtod(value, &end);
    return end != value ? number : NAN;
}

bool json_text(const char *line, const char *key, char *text, size_t size)
{
    const char *value = json_value(line, key);
    text[0] = '\0';
    if (value == NULL || *value != '"')
        return false;
    snprintf(text, size, "%.*s", (int)strcspn(value + 1, "\""), value + 1);
    return true;
}

static void read_record(history_t *h, const char *line)
{
    char kind[16];
    if (!json_text(line, "kind", kind, sizeof kind))
        fail_msg("the log has a line without a kind: %s", line);
    if (strcmp(kind, "step") == 0) {
        int i = h->steps++ % TRAINER_MAX_STEPS;
        assert_int_equal((int)json_number(line, "step"), h->steps);
        h->loss[i] = json_number(line, "loss");
        h->grad_norm[i] = json_number(line, "grad_norm");
        h->rate[i] = json_number(line, "lr");
        h->device_bytes[i] = json_number(line, "device_bytes");
        h->launches[i] = json_number(line, "launches");
        assert_true(json_text(line, "loss_hex", h->loss_hex[i], sizeof h->loss_hex[i]));
        assert_true(json_text(line, "grad_norm_hex", h->grad_norm_hex[i], sizeof h->grad_norm_hex[i]));
        assert_true(relative(strtod(h->loss_hex[i], NULL), h->loss[i]) < 1e-8);
        assert_true(json_number(line, "ms") >= 0 && json_number(line, "tokens_per_s") > 0);
    } else if (strcmp(kind, "final") == 0) {
        h->final_steps = (int)json_number(line, "steps");
        h->peak_bytes = json_number(line, "peak_bytes");
        h->held_out_loss = json_number(line, "held_out_loss");
        assert_true(json_text(line, "held_out_loss_hex", h->held_out_loss_hex, sizeof h->held_out_loss_hex));
        assert_true(json_text(line, "state_hash", h->state_hash, sizeof h->state_hash));
        assert_int_equal(strlen(h->state_hash), 16);
    }
}

history_t trainer_read_log(const char *path)
{
    history_t history = {0};
    char line[4096];
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL && strchr(line, '\n') != NULL) /* or still being written */
        read_record(&history, line);
    fclose(file);
    return history;
}

history_t trainer_train(const char *arguments)
{
    char log[128], all[2048];
    trainer_path(log, sizeof log, "log");
    snprintf(all, sizeof all, "--data %s --log %s --sample 0 %s", trainer_text(), log, arguments);
    outcome_t outcome = trainer_run(all);
    if (outcome.exit_code != 0)
        fail_msg("ebb-train %s: exit code %d: %s", all, outcome.exit_code, outcome.error);

    history_t history = trainer_read_log(log);
    assert_int_not_equal(history.state_hash[0], '\0'); /* the final record was there */
    return history;
}

double relative(double a, double b)
{
    return fabs(a - b) / fmax(fabs(b), 1e-30);
}
