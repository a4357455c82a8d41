/* compare_modes <file> <file> <name>...: two files that tests of kernels have written under EBB_TEST_DUMP (fixture.h). Tensors
 * of these names must be the same in bits, "all": those of all names except the ones that follow it; others within 1e-5 in the
 * Euclidean norm, or 2e-3 if the name ends with "(bf16)". */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 128 };
static const double tolerance = 1e-5, tolerance_bf16 = 2e-3; /* a sum may be rounded the other way */

/* The next tensor; false at the end. *values: owned by the caller. */
static bool next(FILE *file, char name[NAME], size_t *n, float **values)
{
    char line[NAME];
    if (!fgets(line, sizeof line, file))
        return false;
    char *space = strrchr(line, ' ');
    *values = NULL;
    if (!space || sscanf(space, "%zu", n) != 1 || !(*values = malloc(*n * sizeof **values + 1)) ||
        fread(*values, sizeof **values, *n, file) != *n) {
        fprintf(stderr, "a file is damaged\n");
        exit(2);
    }
    *space = 0;
    strcpy(name, line);
    return true;
}

static bool listed(const char *name, char **names)
{
    const bool all = *names && !strcmp(*names, "all");
    for (names += all; *names; names++)
        if (!strcmp(*names, name))
            return !all;
    return all;
}

static bool agree(const char *name, const float *a, const float *b, size_t n, bool bits)
{
    double error = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        if (memcmp(&a[i], &b[i], sizeof a[i]) != 0 && bits) {
            fprintf(stderr, "%s[%zu]: %a in the first file, %a in the second\n", name, i, (double)a[i],
                    (double)b[i]);
            return false;
        }
        error += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        norm += (double)a[i] * (double)a[i];
    }
    const double limit = strstr(name, "(bf16)") ? tolerance_bf16 : tolerance;
    if (sqrt(error) <= (norm > 0 ? limit * sqrt(norm) : 1e-6))
        return true;
    fprintf(stderr, "%s (%zu elements): the files differ by %.3g relative\n", name, n, sqrt(error / norm));
    return false;
}

int main(int argc, char **argv)
{
    FILE *first = argc > 2 ? fopen(argv[1], "rb") : NULL, *second = argc > 2 ? fopen(argv[2], "rb") : NULL;
    char name[NAME], other_name[NAME];
    size_t n, other_n, compared = 0;
    float *a, *b;
    bool good = true;
    if (!first || !second) {
        fprintf(stderr, "usage: compare_modes <file> <file> [all] <name>...\n");
        return 2;
    }
    while (next(first, name, &n, &a)) {
        if (!next(second, other_name, &other_n, &b) || n != other_n || strcmp(name, other_name) != 0) {
            fprintf(stderr, "%s is not in the second file\n", name);
            return 1;
        }
        good = agree(name, a, b, n, listed(name, argv + 3)) && good;
        compared += n;
        free(a);
        free(b);
    }
    if (!compared || next(second, other_name, &other_n, &b))
        good = false;
    fclose(first);
    fclose(second);
    return good ? 0 : 1;
}
