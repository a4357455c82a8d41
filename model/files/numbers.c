#include "model/files/numbers.h"

#include <stdio.h>

static void add_count(numbers_t *n, rule_t rule, const char *name, uint64_t count)
{
    n->list[n->count++] = (number_t){.name = name, .rule = rule, .count = count};
}

static void add_real(numbers_t *n, rule_t rule, const char *name, double value)
{
    n->list[n->count++] = (number_t){.name = name, .rule = rule, .real = true, .value = value};
}

static void add_place(numbers_t *n, const char *name, uint64_t *count)
{
    n->list[n->count++] = (number_t){.name = name, .rule = RULE_TAKE, .count = *count, .taken = count};
}

numbers_t numbers_of(const checkpoint_t *checkpoint, const transformer_t *model, place_t *place)
{
    const shape_t *s = &model->shape;
    const options_t *o = checkpoint->options;
    numbers_t n = {.count = 0};
    add_count(&n, RULE_EQUAL, "family", (uint64_t)s->family);
    add_count(&n, RULE_EQUAL, "layers", (uint64_t)s->layers);
    add_count(&n, RULE_EQUAL, "width", (uint64_t)s->width);
    add_count(&n, RULE_EQUAL, "heads", (uint64_t)s->heads);
    add_count(&n, RULE_EQUAL, "kv_heads", (uint64_t)s->kv_heads);
    add_count(&n, RULE_EQUAL, "hidden", (uint64_t)s->hidden);
    add_count(&n, RULE_EQUAL, "context", (uint64_t)s->context);
    add_count(&n, RULE_EQUAL, "vocab", (uint64_t)s->vocab);
    add_count(&n, RULE_EQUAL, "tied", s->tied);
    add_real(&n, RULE_EQUAL, "norm_eps", s->norm_eps);
    add_real(&n, RULE_EQUAL, "rope_theta", s->rope_theta);
    add_real(&n, RULE_EQUAL, "rope_factor", s->rope_factor);
    add_count(&n, RULE_EQUAL, "dtype", model->dtype == DTYPE_FP32 ? 0 : 1);
    if (model->layout.lora.rank > 0) {
        add_real(&n, RULE_EQUAL, "lora_alpha", model->layout.lora.alpha);
        add_count(&n, RULE_EQUAL, "base", checkpoint->base);
    }
    add_place(&n, "step", &place->step);
    add_place(&n, "sequences", &place->sequences);
    add_place(&n, "micro_batches", &place->micro_batches);
    add_place(&n, "shards", &place->shards);
    add_count(&n, RULE_EQUAL, "seed", o->seed);
    add_count(&n, RULE_EQUAL, "data", checkpoint->data);
    add_count(&n, RULE_TELL, "steps", (uint64_t)o->steps);
    add_count(&n, RULE_TELL, "batch", (uint64_t)o->batch);
    add_count(&n, RULE_TELL, "accumulate", (uint64_t)o->accumulate);
    add_real(&n, RULE_TELL, "lr", o->rate);
    add_real(&n, RULE_TELL, "warmup", o->warmup);
    add_real(&n, RULE_TELL, "lr_final", o->final_rate);
    add_count(&n, RULE_TELL, "schedule", (uint64_t)o->schedule);
    add_real(&n, RULE_TELL, "cooldown", o->cooldown);
    add_real(&n, RULE_TELL, "beta1", o->beta1);
    add_real(&n, RULE_TELL, "beta2", o->beta2);
    add_real(&n, RULE_TELL, "eps", o->eps);
    add_real(&n, RULE_TELL, "decay", o->decay);
    add_real(&n, RULE_TELL, "decay_embeddings", o->decay_embeddings);
    add_real(&n, RULE_TELL, "clip", o->clip);
    add_real(&n, RULE_TELL, "skip_outliers", o->skip_outliers);
    add_count(&n, RULE_TELL, "rounding", (uint64_t)o->rounding);
    add_real(&n, RULE_TELL, "dropout", o->dropout);
    return n;
}

bool numbers_put(state_file_t *state, const numbers_t *numbers, fault_t *fault)
{
    for (int i = 0; i < numbers->count; i++) {
        const number_t *n = &numbers->list[i];
        bool good = n->real ? state_put_real(state, n->name, n->value, fault)
                            : state_put_count(state, n->name, n->count, fault);
        if (!good)
            return false;
    }
    return true;
}

static void print_number(char text[64], const number_t *n, double value, uint64_t count)
{
    if (n->real)
        snprintf(text, 64, "%.12g", value);
    else
        snprintf(text, 64, "%llu", (unsigned long long)count);
}

static bool get_number(state_file_t *state, const number_t *n, fault_t *fault)
{
    double value = n->value;
    uint64_t count = n->count;
    if (!(n->real ? state_get_real(state, n->name, &value, fault)
                  : state_get_count(state, n->name, &count, fault)))
        return false;
    if (n->rule == RULE_TAKE)
        *n->taken = count;
    if (n->rule == RULE_TAKE || (count == n->count && (value == n->value || !n->real)))
        return true;
    char then[64], now[64];
    print_number(then, n, value, count);
    print_number(now, n, n->value, n->count);
    if (n->rule == RULE_EQUAL)
        return fault_set(fault, "--resume %s: field %s is %s, of this training it is %s", state->path,
                         n->name, then, now);
    fprintf(stderr, "note: %s was %s when %s was written, now it is %s\n", n->name, then, state->path, now);
    return true;
}

bool numbers_get(state_file_t *state, const numbers_t *numbers, fault_t *fault)
{
    for (int i = 0; i < numbers->count; i++)
        if (!get_number(state, &numbers->list[i], fault))
            return false;
    return true;
}

bool numbers_get_equal(state_file_t *state, const char *name, uint64_t expected, fault_t *fault)
{
    const number_t number = {.name = name, .rule = RULE_EQUAL, .count = expected};
    return get_number(state, &number, fault);
}
