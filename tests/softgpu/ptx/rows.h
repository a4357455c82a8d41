/* rows.h: instructions, one a row, against a reference in C. A row is ROW(text, registers, ulps, expression): in the text D, A, B, C
 * are registers, whose sizes the letters say in that order: h 16 bits, w 32, l 64, f 32 as a float, g 64
 * as a double, b 16 as f16, e 16 as bf16, u and v 32 as a pair of these, m 64 as a pair of floats, p a predicate. Where a NaN is wanted, any
 * is right. The expression is of a, b, c, uint64_t; ulps: how far a float may be off.
 * Every second row runs under a guard. */
#ifndef PTX_ROWS_H
#define PTX_ROWS_H

#include <stdint.h>
#include <string.h>

#define W(x)  ((uint32_t)(x))
#define SW(x) ((int32_t)(uint32_t)(x))
#define H(x)  ((uint16_t)(x))
#define SH(x) ((int16_t)(uint16_t)(x))
#define SL(x) ((int64_t)(x))

static inline float F(uint64_t x)
{
    float f;
    uint32_t w = W(x);
    memcpy(&f, &w, sizeof f);
    return f;
}
static inline double G(uint64_t x)
{
    double g;
    memcpy(&g, &x, sizeof g);
    return g;
}
static inline uint64_t FB(float f)
{
    uint32_t w;
    memcpy(&w, &f, sizeof w);
    return w;
}
static inline uint64_t GB(double g)
{
    uint64_t w;
    memcpy(&w, &g, sizeof w);
    return w;
}

typedef struct row {
    const char *text, *registers;
    double ulps;
} row_t;

/* Random numbers, from PTX_SEED, in the long form (tests/run.sh --full) from the time; which seed it is is printed. */
void rows_seed(void);
uint64_t rows_draw(void);

/* `reference(row, a, b, c)`: the expression. Fails at the first row that differs. */
void rows_run(const row_t *rows, uint32_t count,
              uint64_t (*reference)(uint32_t row, uint64_t a, uint64_t b, uint64_t c));

#define ROW_ENTRY(text, registers, ulps, ...) {text, registers, ulps},
#define ROW_CASE(text, registers, ulps, ...)                                                                 \
    if (row == at++)                                                                                         \
        return (uint64_t)(__VA_ARGS__);
#define ROWS(name, list)                                                                                     \
    static const row_t name##_rows[] = {list(ROW_ENTRY)};                                                    \
    static uint64_t name##_reference(uint32_t row, uint64_t a, uint64_t b, uint64_t c)                       \
    {                                                                                                        \
        uint32_t at = 0;                                                                                     \
        (void)a;                                                                                             \
        (void)b;                                                                                             \
        (void)c;                                                                                             \
        list(ROW_CASE) return 0;                                                                             \
    }                                                                                                        \
    static void name(void **state)                                                                           \
    {                                                                                                        \
        (void)state;                                                                                         \
        rows_run(name##_rows, sizeof name##_rows / sizeof *name##_rows, name##_reference);                   \
    }

#endif
