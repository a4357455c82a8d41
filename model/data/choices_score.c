#include "model/data/choices.h"

#include <stdlib.h>

/* A row of a call: one completion behind its context. */
typedef struct row {
    int example, completion;
    int length;          /* inputs */
    int scored, counted; /* the losses that count: from `scored` on, so many */
} row_t;

typedef struct scorer {
    const choices_t *choices;
    choices_model_t model;
    choices_score_t *score;
    int *inputs, *targets; /* own [B,T] */
    float *losses;         /* owns [B,T] */
    row_t *rows;           /* owns [B] */
    int row_count;
    double sums[CHOICES_MOST], means[CHOICES_MOST]; /* of the example that is being judged */
} scorer_t;

/* Token k of a context and a completion behind it. */
static int token_of(const example_t *example, int completion, int k)
{
    return k < example->context_length ? example->context[k]
                                       : example->tokens[completion][k - example->context_length];
}

static row_t row_of(const example_t *example, int number, int completion, int T)
{
    int tokens = example->context_length + example->lengths[completion];
    row_t row = {.example = number, .completion = completion};
    row.length = tokens - 1 < T ? tokens - 1 : T;
    row.counted = example->lengths[completion] < row.length ? example->lengths[completion] : row.length;
    row.scored = row.length - row.counted;
    return row;
}

/* The last row.length + 1 tokens, at the place [width] of the inputs and targets; the rest is filled up. */
static void lay_out(const example_t *example, row_t row, int *inputs, int *targets, int width)
{
    int tokens = example->context_length + example->lengths[row.completion];
    int skipped = tokens - (row.length + 1);
    for (int t = 0; t < width; t++) {
        bool inside = t < row.length;
        inputs[t] = inside ? token_of(example, row.completion, skipped + t) : 0;
        targets[t] = inside ? token_of(example, row.completion, skipped + t + 1) : 0;
    }
}

static int largest(const double *values, int count)
{
    int best = 0;
    for (int i = 1; i < count; i++)
        if (values[i] > values[best])
            best = i;
    return best;
}

/* After an example's last completion: is the best one right? */
static void judge(scorer_t *scorer, const example_t *example)
{
    scorer->score->examples++;
    scorer->score->right += largest(scorer->sums, example->completions) == example->right;
    scorer->score->right_norm += largest(scorer->means, example->completions) == example->right;
}

/* Runs the rows collected so far, and judges the examples that end among them. */
static void flush(scorer_t *scorer)
{
    int width = 0;
    for (int r = 0; r < scorer->row_count; r++)
        width = width > scorer->rows[r].length ? width : scorer->rows[r].length;
    for (int r = 0; r < scorer->row_count; r++) {
        example_t example = choices_example(scorer->choices, scorer->rows[r].example);
        lay_out(&example, scorer->rows[r], scorer->inputs + r * width, scorer->targets + r * width, width);
    }
    if (scorer->row_count > 0)
        scorer->model.losses(scorer->model.context, scorer->inputs, scorer->targets, scorer->row_count, width,
                             scorer->losses);
    for (int r = 0; r < scorer->row_count; r++) {
        row_t row = scorer->rows[r];
        double sum = 0;
        for (int t = row.scored; t < row.scored + row.counted; t++)
            sum -= scorer->losses[r * width + t];
        scorer->sums[row.completion] = sum;
        scorer->means[row.completion] = sum / row.counted;
        example_t example = choices_example(scorer->choices, row.example);
        if (row.completion == example.completions - 1)
            judge(scorer, &example);
    }
    scorer->row_count = 0;
}

static void ask(scorer_t *scorer, int number)
{
    example_t example = choices_example(scorer->choices, number);
    for (int i = 0; i < example.completions; i++) {
        scorer->rows[scorer->row_count++] = row_of(&example, number, i, scorer->model.T);
        if (scorer->row_count == scorer->model.B)
            flush(scorer);
    }
}

bool choices_evaluate(const choices_t *choices, choices_model_t model, int most, choices_score_t *score,
                      fault_t *fault)
{
    size_t rows = (size_t)model.B * (size_t)model.T;
    scorer_t scorer = {.choices = choices, .model = model, .score = score};
    *score = (choices_score_t){0};
    scorer.inputs = calloc(rows, sizeof *scorer.inputs);
    scorer.targets = calloc(rows, sizeof *scorer.targets);
    scorer.losses = calloc(rows, sizeof *scorer.losses);
    scorer.rows = calloc((size_t)model.B, sizeof *scorer.rows);
    bool good =
        scorer.inputs != NULL && scorer.targets != NULL && scorer.losses != NULL && scorer.rows != NULL;
    if (good) {
        for (int i = 0; i < choices->count && (most == 0 || i < most); i++)
            ask(&scorer, i);
        flush(&scorer);
    } else {
        fault_write(fault, "no memory to evaluate choices in batches of %d x %d tokens", model.B, model.T);
    }
    free(scorer.inputs);
    free(scorer.targets);
    free(scorer.losses);
    free(scorer.rows);
    return good;
}
