/* match_model.c: see match_model.h. */
#include "match_model.h"

#include <stdlib.h>
#include <string.h>

#include "ckpt/run/tracker/internal.h"

enum { WORTH_PARTIAL = 1, WORTH_EXACT = 2 };

static ebb_match_t compare(const model_operation_t *a, const model_operation_t *b)
{
    unsigned same = 0, sized = 0;
    if (a->function != b->function || a->count != b->count)
        return EBB_MATCH_EXTRA;
    for (unsigned k = 0; k < a->count; k++) {
        same += a->word[k].buffer == b->word[k].buffer;
        sized += a->word[k].buffer == b->word[k].buffer && a->word[k].bytes == b->word[k].bytes;
    }
    return sized == a->count && a->grid == b->grid ? EBB_MATCH_EXACT
           : same && 2 * same >= a->count          ? EBB_MATCH_PARTIAL
                                                   : EBB_MATCH_EXTRA;
}

/* The operations of one stream, by their indices. */
static unsigned of_stream(model_sequence_t all, unsigned stream, unsigned *index)
{
    unsigned count = 0;
    for (unsigned i = 0; i < all.count; i++)
        if (all.operation[i].stream == stream)
            index[count++] = i;
    return count;
}

static unsigned larger(unsigned a, unsigned b)
{
    return a > b ? a : b;
}

static void align_stream(model_sequence_t recorded, model_sequence_t program, unsigned stream,
                         model_match_t *out)
{
    unsigned *r = calloc(recorded.count + 1, sizeof *r), *p = calloc(program.count + 1, sizeof *p);
    const unsigned m = of_stream(recorded, stream, r), n = of_stream(program, stream, p);
    unsigned(*best)[m + 1] = calloc(n + 1, sizeof *best); /* of what begins at [program][recorded] */
    for (unsigned i = n; i-- > 0;)
        for (unsigned j = m; j-- > 0;) {
            const ebb_match_t match = compare(&recorded.operation[r[j]], &program.operation[p[i]]);
            best[i][j] = larger(best[i + 1][j], best[i][j + 1]);
            if (match)
                best[i][j] = larger(best[i][j], best[i + 1][j + 1] +
                                                    (match == EBB_MATCH_EXACT ? WORTH_EXACT : WORTH_PARTIAL));
        }
    for (unsigned i = 0, j = 0; i < n && j < m;) {
        const ebb_match_t match = compare(&recorded.operation[r[j]], &program.operation[p[i]]);
        if (match &&
            best[i][j] == best[i + 1][j + 1] + (match == EBB_MATCH_EXACT ? WORTH_EXACT : WORTH_PARTIAL))
            out[p[i++]] = (model_match_t){r[j++], match};
        else if (best[i][j] == best[i][j + 1])
            j++;
        else
            i++;
    }
    free(best);
    free(r);
    free(p);
}

void model_align(model_sequence_t recorded, model_sequence_t program, model_match_t *out)
{
    for (unsigned i = 0; i < program.count; i++)
        out[i] = (model_match_t){EBB_NONE, EBB_MATCH_EXTRA};
    for (unsigned s = 0; s < MODEL_STREAMS; s++)
        align_stream(recorded, program, s, out);
}

/* How many of the stream come between: 0 for the first one behind `from`. */
static unsigned distance(model_sequence_t recorded, unsigned stream, unsigned from, unsigned to)
{
    unsigned count = 0;
    for (unsigned i = from; i < to; i++)
        count += recorded.operation[i].stream == stream;
    return count;
}

void model_follow(model_sequence_t recorded, model_sequence_t program, model_match_t *out)
{
    unsigned behind[MODEL_STREAMS] = {0}; /* the last one that was matched */
    unsigned first[MODEL_STREAMS] = {
        0}; /* behind the last one of the program, if that may be the first of two; 0: it may not */
    unsigned extras = 0;
    for (unsigned i = 0; i < program.count; i++) {
        const unsigned s = program.operation[i].stream;
        const bool exact = out[i].match == EBB_MATCH_EXACT;
        const unsigned left_out =
            out[i].match ? distance(recorded, s, behind[s], out[i].at) : EBB_MATCH_LOOK + 1;
        const bool second = exact && first[s] && !distance(recorded, s, first[s], out[i].at);
        first[s] = 0;
        if (extras <= EBB_MATCH_STRAYS && out[i].match && (!left_out || second)) {
            behind[s] = out[i].at + 1;
            extras = 0;
            continue;
        }
        if (exact && left_out <= EBB_MATCH_LOOK)
            first[s] = out[i].at + 1;
        out[i] = (model_match_t){EBB_NONE, EBB_MATCH_EXTRA};
        extras += extras <= EBB_MATCH_STRAYS;
    }
}
