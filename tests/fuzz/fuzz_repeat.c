/* fuzz_repeat.c: see fuzz.h. A random step, repeated: at each of its places an operation, buffers that are born there, and
 * buffers that die there (some of them in the next step). After some rounds it diverges now and then: an operation more,
 * one less, another one, another size, a free that comes early or late. What happens beyond the divergence stays as it is,
 * because each place has random numbers of its own and buffers keep theirs; only operations whose buffers are not
 * there fall out, or join in when one lives longer. */
#include <stdlib.h>

#include "fuzz.h"

enum { PLACES = 48, SLOTS = 32, LATE = 3, BROUGHT = 16, SIXTEENTHS = 16, LENGTHS_CALM = 24 };

typedef struct slot {
    unsigned born, dies; /* places; dies < born: in the next step */
    unsigned words;
    uint64_t random;
    /* every > 1: lives for so many steps, and is born in those with this rest. Staggered, as many slots in a row take turns, so that each
     * step has a birth and a death there. */
    unsigned every, phase;
} slot_t;

/* A kernel that begins to write late. */
typedef struct late {
    unsigned place, from_round;
    uint64_t random;
} late_t;

/* An operand that comes from the host, and is freed behind the launch that makes something from it: a slot's first content. */
typedef struct brought {
    unsigned slot, words;
    uint64_t random;
} brought_t;

typedef struct script {
    unsigned places, first_slot, slots, rounds;
    unsigned calm, percent; /* rounds without divergences; of the places that diverge afterwards */
    uint64_t random[PLACES];
    slot_t slot[SLOTS];
    unsigned length;                    /* of this round, in sixteenths */
    unsigned evaluate_every, evaluated; /* rounds between evaluations, 0: none; places of one */
    unsigned lates, flag_slot;          /* the slot of the buffer by which they know */
    late_t late[LATE];
    unsigned brings, brought_slot; /* 0: none */
    brought_t brought[BROUGHT];
} script_t;

bool fuzz_repeats;

static uint64_t draw_seed(fuzz_worker_t *w)
{
    return (uint64_t)fuzz_below(w, 1U << 31) << 32 | fuzz_below(w, 1U << 31);
}

static script_t draw_script(fuzz_worker_t *w)
{
    static const unsigned percents[] = {0, 0, 1, 3, 10};
    script_t s = {.places = 12 + fuzz_below(w, PLACES - 12), .first_slot = w->buffers};
    const unsigned room = FUZZ_BUFFERS - w->buffers;
    s.slots = 16 + fuzz_below(w, SLOTS - 16);
    s.slots = s.slots < room ? s.slots : room;
    s.calm = fuzz_chance(w, 25) ? 4 : 14; /* a step is found after four, learned after twelve or so */
    s.rounds = s.calm + 6 + fuzz_below(w, 10);
    s.percent = percents[fuzz_below(w, 5)];
    const unsigned outlive = fuzz_chance(w, 25) ? 15 : 0; /* percent */
    for (unsigned i = 0; i < s.places; i++)
        s.random[i] = draw_seed(w);
    for (unsigned i = 0; i < s.slots; i++) {
        slot_t *b = &s.slot[i];
        b->born = fuzz_below(w, s.places);
        b->dies = fuzz_chance(w, outlive) ? fuzz_below(w, s.places)
                                          : b->born + 1 + fuzz_below(w, s.places - b->born);
        b->words = fuzz_choose_words(w, fuzz_chance(w, 75));
        b->random = draw_seed(w);
    }
    return s;
}

/* What mean programs have beyond the others. */
static void draw_more(script_t *s, fuzz_worker_t *dice)
{
    static const unsigned every[] = {0, 0, 0, 0, 0, 0, 3, 7}, lasting[] = {0, 0, 0, 0, 0, 0, 8, 25};
    const unsigned calm = 4 + fuzz_below(dice, 16), percent = lasting[fuzz_below(dice, 8)];
    const bool staggered = fuzz_chance(dice, 75);
    s->calm += calm;
    s->rounds += calm + fuzz_below(dice, 24);
    s->evaluate_every = every[fuzz_below(dice, 8)];
    s->evaluated = s->places / 4 + fuzz_below(dice, s->places / 2);
    for (unsigned i = 0, count; i < s->slots; i += count) {
        const unsigned lives = fuzz_chance(dice, percent) ? 2 + fuzz_below(dice, 3) : 1;
        s->slot[i].every = lives;
        s->slot[i].phase = fuzz_below(dice, lives);
        count = staggered && lives > 1 ? lives : 1;
        for (unsigned k = 1; k < count && i + k < s->slots; k++) {
            s->slot[i + k] = s->slot[i];
            s->slot[i + k].phase = (s->slot[i].phase + k) % lives;
        }
    }
    s->lates = fuzz_chance(dice, 40) ? 1 + fuzz_below(dice, LATE) : 0;
    for (unsigned i = 0; i < s->lates; i++)
        s->late[i] = (late_t){.place = fuzz_below(dice, s->places),
                              .from_round = s->rounds / 3 + fuzz_below(dice, s->rounds),
                              .random = draw_seed(dice)};
}

static void draw_brought(script_t *s, fuzz_worker_t *w)
{
    s->brings = 4 + fuzz_below(w, BROUGHT - 3);
    for (unsigned i = 0; i < s->brings; i++)
        s->brought[i] = (brought_t){.slot = fuzz_below(w, s->slots),
                                    .words = fuzz_choose_words(w, fuzz_chance(w, 75)),
                                    .random = draw_seed(w)};
}

/* In this round: with other sizes each time three in four are as long as the round is. */
static unsigned words_of(const script_t *s, const slot_t *b)
{
    const unsigned words = b->words / SIXTEENTHS * s->length;
    return !fuzz_lengths || b->random % 4 == 0 || !words ? b->words : words;
}

static void free_slot(fuzz_worker_t *w, unsigned index)
{
    if (w->buffer[index].address)
        fuzz_free(w, index);
}

/* A buffer that lives for several steps. */
static void renew(fuzz_worker_t *w, const script_t *s, unsigned i, unsigned round)
{
    const unsigned index = s->first_slot + i;
    w->random = s->slot[i].random;
    if (round % s->slot[i].every != s->slot[i].phase)
        return;
    free_slot(w, index);
    fuzz_allocate_at(w, index, words_of(s, &s->slot[i]));
}

/* What is born and dies at a place. `dice` decides on divergences. */
static void change_buffers(fuzz_worker_t *w, const script_t *s, unsigned place, unsigned round,
                           fuzz_worker_t *dice, unsigned percent)
{
    for (unsigned i = 0; i < s->slots; i++) {
        const slot_t *b = &s->slot[i];
        const unsigned index = s->first_slot + i;
        if (b->every > 1 && b->born == place)
            renew(w, s, i, round);
        if (b->every > 1)
            continue;
        w->random = b->random;
        if (b->dies == place && !fuzz_chance(dice, percent)) /* else late: before its next birth */
            free_slot(w, index);
        if (b->born != place)
            continue;
        free_slot(w, index);
        fuzz_allocate_at(w, index,
                         fuzz_chance(dice, percent) ? b->words + fuzz_below(dice, b->words) : words_of(s, b));
    }
}

static void operate_at(fuzz_worker_t *w, const script_t *s, unsigned place, fuzz_worker_t *dice,
                       unsigned percent)
{
    w->random = s->random[place];
    const bool diverges = fuzz_chance(dice, percent);
    const unsigned how = fuzz_below(dice, 4);
    if (diverges && how == 0) /* one less */
        return;
    if (diverges && how == 1) /* another one */
        w->random = draw_seed(dice);
    fuzz_touch(w);
    if (diverges && how == 2) { /* one more */
        w->random = draw_seed(dice);
        fuzz_touch(w);
    }
    if (diverges && how == 3) /* early */
        free_slot(w, s->first_slot + fuzz_below(dice, s->slots));
}

static void write_late(fuzz_worker_t *w, const script_t *s, unsigned place, unsigned round)
{
    for (unsigned i = 0; i < s->lates; i++) {
        const late_t *late = &s->late[i];
        if (late->place != place)
            continue;
        w->random = late->random;
        fuzz_buffer_t *flag = &w->buffer[s->flag_slot], *x = fuzz_pick(w, true);
        const unsigned stream = fuzz_below(w, w->streams);
        w->operations++;
        fuzz_arena_operation(w);
        if (x && x != flag && flag->address)
            fuzz_write_if(w, x, flag, round >= late->from_round, stream);
    }
}

static void bring(fuzz_worker_t *w, const script_t *s, unsigned place)
{
    for (unsigned i = 0; i < s->brings; i++) {
        fuzz_buffer_t *x = &w->buffer[s->first_slot + s->brought[i].slot];
        if (s->slot[s->brought[i].slot].born != place)
            continue;
        w->random = s->brought[i].random;
        const unsigned stream = fuzz_below(w, w->streams);
        fuzz_allocate_at(w, s->brought_slot, s->brought[i].words);
        w->operations++;
        fuzz_arena_operation(w);
        if (x->address && w->buffer[s->brought_slot].address)
            fuzz_bring(w, &w->buffer[s->brought_slot], x, stream);
        free_slot(w, s->brought_slot);
    }
}

/* The first part of a step alone, as an evaluation is; what it has made dies. */
static void evaluate(fuzz_worker_t *w, const script_t *s, unsigned round, fuzz_worker_t *dice)
{
    w->salt = round * 7919 + 17;
    for (unsigned place = 0; place < s->evaluated; place++) {
        change_buffers(w, s, place, round, dice, 0);
        operate_at(w, s, place, dice, 0);
    }
    for (unsigned i = 0; i < s->slots; i++)
        if (s->slot[i].every <= 1 && s->slot[i].born < s->evaluated && s->slot[i].dies > s->slot[i].born)
            free_slot(w, s->first_slot + i);
}

void fuzz_repeat(fuzz_worker_t *w)
{
    script_t s = draw_script(w);
    fuzz_worker_t *dice = calloc(1, sizeof *dice); /* only its random numbers */
    if (!dice)
        abort();
    dice->random = draw_seed(w);
    if (fuzz_lengths) { /* learned later */
        s.calm += LENGTHS_CALM;
        s.rounds += LENGTHS_CALM;
    }
    if (w->mean)
        draw_more(&s, fuzz_mean_dice(w));
    fprintf(w->out,
            "repeats %u times, %u of them undisturbed, then %u percent of places diverge; streams: %u\n",
            s.rounds, s.calm, s.percent, w->streams);
    w->slots = true;
    for (unsigned i = 0; i < s.slots; i++)
        w->buffer[w->buffers++] = (fuzz_buffer_t){.address = 0};
    s.flag_slot = w->buffers;
    if (s.lates && w->buffers < FUZZ_BUFFERS) {
        w->buffer[w->buffers++] = (fuzz_buffer_t){.address = 0};
        fuzz_allocate_at(w, s.flag_slot, 64);
    } else {
        s.lates = 0;
    }
    if (fuzz_brings && w->buffers < FUZZ_BUFFERS) {
        s.brought_slot = w->buffers;
        w->buffer[w->buffers++] = (fuzz_buffer_t){.address = 0};
        draw_brought(&s, w);
    }
    w->operations = 0;
    for (unsigned round = 0; round < s.rounds; round++) {
        const unsigned percent = round < s.calm ? 0 : s.percent;
        w->salt = round * 7919;
        if (fuzz_lengths)
            s.length = SIXTEENTHS / 4 + fuzz_below(dice, 3 * SIXTEENTHS / 4 + 1);
        fuzz_interface_moment(w, true);
        for (unsigned place = 0; place < s.places; place++) {
            change_buffers(w, &s, place, round, dice, percent);
            bring(w, &s, place);
            operate_at(w, &s, place, dice, percent);
            write_late(w, &s, place, round);
            fuzz_interface_moment(w, false);
        }
        for (unsigned i = 0; i < s.slots; i++) /* what dies behind the last place */
            if (s.slot[i].every <= 1 && s.slot[i].dies == s.places)
                free_slot(w, s.first_slot + i);
        if (s.evaluate_every && (round + 1) % s.evaluate_every == 0)
            evaluate(w, &s, round, dice);
        fuzz_mean_between(w);
    }
    free(dice);
    fuzz_checkpoint(w, "end");
}
