/* Reports: the figures are the simulator's, and what is written can be read by anybody, whatever the program's names are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "ckpt/planner/planner.h"
#include "cli/report/measured.h"
#include "cli/report/report.h"
#include "cli/report/report_text.h"
#include "traces.h"

typedef struct scene {
    ebb_trace_t *trace;
    ebb_plan_t *plan;
    ebb_report_t *report;
    ebb_report_input_t in;
} scene_t;

static const char *const nasty = "</script><script>alert(1)</script><!-- \"\\\n\x01\xff & é";

/* A transformer's step within a part of what it takes; `slowdown` by copies, of each way. */
static scene_t scene_make(uint64_t percent, double slowdown)
{
    const trace_shape_t shape = {.layers = 6,
                                 .width_chunks = 2,
                                 .weight_chunks = 3,
                                 .micro_batches = 1,
                                 .stored_scores = true,
                                 .kernel_ns = 40000};
    scene_t s = {.trace = trace_of_transformer(&shape)};
    char why[256];
    ebb_plan_request_t q = {.device_bytes = UINT64_C(1) << 60,
                            .host_bytes = UINT64_C(1) << 60,
                            .offload = true,
                            .recompute = true,
                            .policy = "keep",
                            .hardware = {.out_bytes_per_ns = 25,
                                         .in_bytes_per_ns = 25,
                                         .out_slowdown = slowdown,
                                         .in_slowdown = slowdown}};
    assert_true(ebb_trace_set_nvtx(s.trace, &s.trace->operation[3], nasty));
    ebb_plan_t *all = ebb_plan_make(s.trace, &q, why, sizeof why);
    assert_non_null(all);
    q.device_bytes = ebb_plan_sum(all, s.trace).peak_bytes * percent / 100;
    q.policy = NULL;
    ebb_plan_delete(all);
    s.plan = percent < 100 ? ebb_plan_make(s.trace, &q, why, sizeof why) : NULL;
    assert_true(s.plan || percent == 100);
    s.in = (ebb_report_input_t){.trace = s.trace,
                                .plan = s.plan,
                                .hardware = q.hardware,
                                .budget_bytes = q.device_bytes,
                                .title = nasty,
                                .policy = "auto"};
    s.report = ebb_report_make(&s.in);
    assert_non_null(s.report);
    return s;
}

static void scene_end(scene_t *s)
{
    ebb_report_delete(s->report);
    ebb_plan_delete(s->plan);
    ebb_trace_delete(s->trace);
}

typedef bool (*write_fn)(const ebb_report_t *report, FILE *out);

static char *written(const scene_t *s, write_fn write)
{
    char *text = NULL;
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    assert_non_null(f);
    assert_true(write(s->report, f));
    fclose(f);
    assert_int_equal(strlen(text), bytes);
    return text;
}

static cJSON *parsed(const scene_t *s, write_fn write)
{
    char *text = written(s, write);
    cJSON *o = cJSON_ParseWithOpts(text, NULL, true);
    assert_non_null(o);
    free(text);
    return o;
}

static double number(const cJSON *o, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, key);
    assert_true(cJSON_IsNumber(item));
    return item->valuedouble;
}

static const cJSON *at(const cJSON *o, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, key);
    assert_non_null(item);
    return item;
}

static bool is(double x, double expected)
{
    return x > expected - 1e-3 && x < expected + 1e-3;
}

/* ---- figures ---- */

static double sum_of(const cJSON *list, const char *key)
{
    double sum = 0;
    const cJSON *x;
    cJSON_ArrayForEach(x, list) sum += number(x, key);
    return sum;
}

static void check_figures(uint64_t percent, double slowdown)
{
    scene_t s = scene_make(percent, slowdown);
    ebb_simulation_t sim;
    assert_true(ebb_simulate(&sim, s.report->in.plan, s.trace, &s.in.hardware, true));
    cJSON *o = parsed(&s, ebb_report_write_json);
    const cJSON *p = at(o, "predicted"), *l = at(o, "launches"), *x;
    assert_true(is(number(p, "step_ns"), sim.step_ns));
    uint64_t most = 0; /* of the chunks of what keeps everything not all are in use at once */
    for (uint32_t i = 0; i < sim.level_count; i++)
        most = sim.level[i].bytes > most ? sim.level[i].bytes : most;
    assert_true(is(number(p, "peak_bytes"), (double)(percent == 100 ? most : sim.peak_bytes)));
    const ebb_plan_request_t q = {.device_bytes = s.in.budget_bytes,
                                  .host_bytes = UINT64_MAX,
                                  .min_buffer = s.in.min_buffer,
                                  .offload = true,
                                  .recompute = true,
                                  .hardware = s.in.hardware};
    const double least = (double)ebb_plan_bound_ns(s.trace, &q);
    if (percent == 100)
        assert_true(cJSON_IsNull(at(p, "above_best")));
    else
        assert_true(is(1 + number(p, "above_best"), sim.step_ns > least ? sim.step_ns / least : 1));
    assert_true(is(sum_of(at(o, "overhead"), "ns"), sim.step_ns - number(p, "operations_ns")));
    assert_int_equal(number(l, "without"), s.trace->operation_count);
    assert_int_equal(number(l, "with"), (int)number(l, "without") + cJSON_GetArraySize(at(o, "replays")) +
                                            cJSON_GetArraySize(at(o, "out")) +
                                            cJSON_GetArraySize(at(o, "in")));
    /* What is laid to buffers is all that replays and waits cost. */
    double cost = 0;
    cJSON_ArrayForEach(x, at(o, "buffers")) cost += sum_of(at(x, "gaps"), "cost_ns");
    assert_true(is(cost, sim.track_ns[EBB_TRACK_REPLAY] + sim.track_ns[EBB_TRACK_WAIT_OUT] +
                             sim.track_ns[EBB_TRACK_WAIT_IN]));
    ebb_simulation_delete(&sim);
    cJSON_Delete(o);
    scene_end(&s);
}

static void causes_add_up_to_the_whole_overhead(void **state)
{
    (void)state;
    for (uint64_t percent = 30; percent <= 90; percent += 10)
        check_figures(percent, 0);
    check_figures(40, 0.25);
    check_figures(100, 0); /* no plan: everything is kept */
}

static uint64_t level_at(const ebb_simulation_t *s, double ns)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < s->level_count && s->level[i].ns <= ns; i++)
        bytes = s->level[i].bytes;
    return bytes;
}

static void memory_by_fate_adds_up_to_the_simulator_s(void **state)
{
    (void)state;
    scene_t s = scene_make(40, 0);
    const ebb_simulation_t *sim = &s.report->simulation;
    uint64_t seen[EBB_CLASSES] = {0};
    assert_true(s.report->level_count > 50);
    for (uint32_t i = 0; i < s.report->level_count; i++) {
        const ebb_report_level_t *l = &s.report->level[i];
        uint64_t sum = 0;
        for (int k = 0; k < EBB_CLASSES; k++) {
            sum += l->bytes[k];
            seen[k] += l->bytes[k];
        }
        assert_int_equal(sum, level_at(sim, l->ns));
        assert_true(sum <= sim->peak_bytes);
    }
    assert_true(seen[EBB_CLASS_KEPT] && seen[EBB_CLASS_OFFLOADED] + seen[EBB_CLASS_DROPPED]);
    scene_end(&s);
}

static void fates_are_the_plan_s(void **state)
{
    (void)state;
    scene_t s = scene_make(40, 0);
    uint32_t kept = 0, away = 0;
    for (uint32_t i = 0; i < s.trace->buffer_count; i++) {
        const ebb_report_buffer_t *b = &s.report->buffer[i];
        assert_non_null(b->why);
        if (s.trace->buffer[i].bytes <= s.trace->chunk_bytes / 2)
            continue;
        kept += b->fate == EBB_CLASS_KEPT;
        away += b->fate != EBB_CLASS_KEPT;
    }
    assert_int_equal(kept, s.report->sum.kept_buffers);
    assert_true(away > 0 && away <= s.report->sum.offloaded_buffers + s.report->sum.dropped_buffers);
    for (uint32_t i = 0; i < s.report->gap_count; i++) {
        const ebb_report_gap_t *g = &s.report->gap[i];
        assert_true(g->ns >= 0 && g->cost_ns >= 0 && g->out_ns > 0);
        assert_true(g->fate != EBB_CLASS_DROPPED || (g->replays > 0 && strstr(g->why, "launch")));
        assert_true(g->fate != EBB_CLASS_OFFLOADED || strstr(g->why, "cop"));
    }
    scene_end(&s);
}

/* ---- other budgets ---- */

/* Of buffers that outlive the step and leave the device in it, by the report's own fates. */
static uint64_t state_that_leaves(const scene_t *s, const ebb_plan_request_t *request)
{
    char why[256];
    uint64_t bytes = 0;
    ebb_report_input_t in = s->in;
    ebb_plan_t *p = ebb_plan_make(s->trace, request, why, sizeof why);
    assert_non_null(p);
    in.plan = p;
    ebb_report_t *r = ebb_report_make(&in);
    assert_non_null(r);
    for (uint32_t i = 0; i < s->trace->buffer_count; i++)
        if (s->trace->buffer[i].born == EBB_NONE && r->buffer[i].fate != EBB_CLASS_KEPT &&
            r->buffer[i].fate != EBB_CLASS_SMALL)
            bytes += s->trace->buffer[i].bytes;
    ebb_report_delete(r);
    ebb_plan_delete(p);
    return bytes;
}

static void curve_marks_where_time_and_state_begin_to_be_given_up(void **state)
{
    enum { POINTS = 9 };
    (void)state;
    char why[256];
    scene_t s = scene_make(100, 0);
    ebb_curve_t c;
    ebb_plan_request_t q = {.host_bytes = UINT64_C(1) << 60,
                            .offload = true,
                            .recompute = true,
                            .hardware = {.out_bytes_per_ns = 0.5, .in_bytes_per_ns = 0.5}};
    const uint64_t all = ebb_keep_bytes(s.trace, &q, why, sizeof why);
    assert_true(ebb_curve_make(&c, s.trace, &q, all, POINTS, why, sizeof why));
    assert_int_equal(c.count, POINTS);
    assert_int_equal(c.point[0].budget_bytes, ebb_plan_floor(s.trace, &q));
    assert_int_equal(c.point[POINTS - 1].budget_bytes, all);
    int sensible = POINTS, last = -1;
    for (int i = 0; i < POINTS; i++) {
        q.device_bytes = c.point[i].budget_bytes;
        const uint64_t leaves = state_that_leaves(&s, &q);
        assert_int_equal(c.point[i].state_bytes, leaves);
        last = leaves ? i : last;
        if (c.point[i].percent > 5)
            sensible = POINTS;
        else if (sensible == POINTS)
            sensible = i;
    }
    assert_true(last >= 0 && sensible > 0 && sensible < POINTS); /* both are marked within it */
    assert_int_equal(c.state, last);
    assert_int_equal(c.sensible, sensible);
    s.in.curve = &c;
    ebb_report_delete(s.report);
    s.report = ebb_report_make(&s.in);
    cJSON *o = parsed(&s, ebb_report_write_json);
    const cJSON *curve = at(o, "curve");
    assert_int_equal(number(curve, "sensible"), sensible);
    assert_int_equal(number(curve, "state"), last);
    assert_int_equal(cJSON_GetArraySize(at(curve, "points")), POINTS);
    cJSON_Delete(o);
    s.trace->buffer[0].pinned = true; /* it cannot be planned */
    assert_int_equal(ebb_keep_bytes(s.trace, &q, why, sizeof why), 0);
    assert_non_null(strstr(why, "must stay where it is"));
    scene_end(&s);
}

/* ---- forms ---- */

static void names_of_the_program_do_no_harm(void **state)
{
    (void)state;
    scene_t s = scene_make(40, 0);
    cJSON *o = parsed(&s, ebb_report_write_json);
    /* A byte that is no UTF-8 is replaced; everything else comes back. */
    assert_string_equal(cJSON_GetStringValue(at(o, "title")),
                        "</script><script>alert(1)</script><!-- \"\\\n\x01\xef\xbf\xbd & é");
    cJSON_Delete(o);
    char *page = written(&s, ebb_report_write_html);
    unsigned scripts = 0, ends = 0;
    for (const char *c = page; (c = strstr(c, "<script")); c++)
        scripts++;
    for (const char *c = page; (c = strstr(c, "</script")); c++)
        ends++;
    assert_int_equal(scripts, 2); /* the data and the page's own */
    assert_int_equal(ends, 2);
    assert_null(strstr(page, "<!-- "));
    assert_null(strchr(page, '\xff'));
    free(page);
    scene_end(&s);
}

static void page_loads_nothing(void **state)
{
    static const char *const words[] = {" src=",          "href=",   "@import",   "url(", "fetch(",
                                        "XMLHttpRequest", "import(", "innerHTML", "eval("};
    (void)state;
    scene_t s = scene_make(40, 0);
    char *page = written(&s, ebb_report_write_html);
    assert_non_null(strstr(page, "default-src 'none'"));
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *found = strstr(page, words[i]);
        if (found && strncmp(found, "url(#", 5)) /* a pattern of the page's own */
            fail_msg("'%s' is in the page", words[i]);
    }
    for (const char *c = page; (c = strstr(c, "://"));
         c++) /* the name of SVG's elements, which nobody loads */
        assert_memory_equal(c - 4, "http://www.w3.org/2000/svg", 26);
    free(page);
    scene_end(&s);
}

static void perfetto_has_every_span_once(void **state)
{
    (void)state;
    scene_t s = scene_make(40, 0);
    cJSON *o = parsed(&s, ebb_report_write_perfetto);
    const cJSON *e;
    uint32_t slices = 0, counters = 0;
    double end = 0;
    cJSON_ArrayForEach(e, at(o, "traceEvents"))
    {
        const char *phase = cJSON_GetStringValue(at(e, "ph"));
        at(e, "name");
        slices += !strcmp(phase, "X") && number(e, "tid") != 1; /* 1: NVTX ranges */
        counters += !strcmp(phase, "C");
        if (!strcmp(phase, "X")) {
            assert_true(number(e, "ts") >= 0 && number(e, "dur") >= 0);
            end = number(e, "tid") == 2 ? number(e, "ts") + number(e, "dur") : end;
        }
    }
    assert_int_equal(slices, s.report->simulation.span_count);
    assert_int_equal(counters, s.report->level_count);
    assert_true(is(end * 1000, s.report->simulation.step_ns));
    cJSON_Delete(o);
    scene_end(&s);
}

static void same_input_gives_the_same_bytes(void **state)
{
    static const write_fn writers[] = {ebb_report_write_json, ebb_report_write_perfetto,
                                       ebb_report_write_html};
    (void)state;
    scene_t a = scene_make(40, 0), b = scene_make(40, 0);
    for (int i = 0; i < 3; i++) {
        char *x = written(&a, writers[i]), *y = written(&b, writers[i]);
        assert_string_equal(x, y);
        free(x);
        free(y);
    }
    scene_end(&a);
    scene_end(&b);
}

static void a_step_that_cannot_be_planned_is_shown_all_the_same(void **state)
{
    (void)state;
    scene_t s = scene_make(100, 0);
    ebb_report_delete(s.report);
    s.trace->buffer[0].pinned = true;
    s.report = ebb_report_make(&s.in);
    assert_non_null(s.report);
    assert_non_null(strstr(s.report->refusal, "must stay where it is"));
    cJSON *o = parsed(&s, ebb_report_write_json);
    assert_true(cJSON_IsFalse(at(o, "planned")));
    assert_int_equal(cJSON_GetArraySize(at(o, "operations")), s.trace->operation_count);
    cJSON_Delete(o);
    scene_end(&s);
}

/* Also of several streams, which are told apart by chunks. */
static void without_a_plan_everything_is_kept(void **state)
{
    (void)state;
    scene_t s = scene_make(100, 0);
    ebb_report_delete(s.report);
    for (uint32_t i = 0; i < s.trace->operation_count; i++)
        s.trace->operation[i].stream = i % 2;
    s.report = ebb_report_make(&s.in);
    assert_non_null(s.report);
    const ebb_plan_t *kept = s.report->in.plan;
    for (uint32_t i = 0; i < kept->place_count; i++)
        for (uint32_t k = 0; k < kept->place[i].chunk_count; k++)
            assert_true(kept->chunk[kept->place[i].first_chunk + k] < kept->chunk_count);
    assert_true(s.report->sum.peak_bytes < kept->chunk_count * kept->chunk_bytes);
    assert_int_equal(s.report->sum.peak_bytes, s.report->everything_peak_bytes);
    scene_end(&s);
}

/* Statistics with two variants, both planned: of training few long steps, of sampling many short ones. */
static ebb_measured_t *measured_of(const char *training, const char *sampling, int wanted)
{
    char *text = NULL, why[200];
    size_t bytes;
    FILE *f = open_memstream(&text, &bytes);
    const char *between = "{";
#define X(key, meaning)                                                                                      \
    fprintf(f, "%s\"" #key "\": 1", between);                                                                \
    between = ", ";
    EBB_STATISTICS(X)
#undef X
    fprintf(f,
            ", \"variants\": [{\"variant\": 0, \"period\": 189, \"count\": 39%s}, {\"variant\": 1, "
            "\"period\": 3, "
            "\"count\": 120%s}], \"planned\": [{\"variant\": 0, \"trace\": \"training\"}, {\"variant\": 1, "
            "\"trace\": "
            "\"sampling\"}]}",
            training, sampling);
    fclose(f);
    f = fmemopen(text, bytes, "r");
    ebb_measured_t *m = ebb_measured_read(f, wanted, why, sizeof why);
    fclose(f);
    free(text);
    assert_non_null(m);
    return m;
}

/* The numbers are its own, not those of the whole run. */
static void step_that_takes_the_most_time_is_shown(void **state)
{
    static const struct {
        const char *training, *sampling;
        int wanted;
        const char *shown;
    } cases[] = {
        {", \"driven\": 32, \"driven_ns\": 16000, \"driven_timed\": 30",
         ", \"driven\": 90, \"driven_ns\": 350, \"driven_timed\": 88", -1, "training"},
        {", \"driven\": 32, \"driven_ns\": 16000, \"driven_timed\": 30",
         ", \"driven\": 90, \"driven_ns\": 880000, \"driven_timed\": 88", -1, "sampling"},
        {"", ", \"driven\": 90, \"driven_ns\": 350, \"driven_timed\": 88", -1, "sampling"},
        {"", "", -1, "training"},
        {"", "", 1, "sampling"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ebb_measured_t *m = measured_of(cases[i].training, cases[i].sampling, cases[i].wanted);
        const bool training = !strcmp(cases[i].shown, "training");
        assert_string_equal(m->trace, cases[i].shown);
        assert_int_equal(m->variant.count, training ? 39 : 120);
        assert_int_equal(m->variant.period, training ? 189 : 3);
        ebb_measured_delete(m);
    }
}

static void kernels_have_short_names(void **state)
{
    static const char *const names[][2] = {{"_Z11bias_kernelILb1EEvPfPKfS2_iii", "bias_kernel"},
                                           {"_ZN7cutlass6KernelI4GemmEEvNT_6ParamsE", "Kernel"},
                                           {"softgpu_sgemm", "softgpu_sgemm"},
                                           {"_Z99short", "_Z99short"},
                                           {"_Z", "_Z"},
                                           {"_ZN", "_ZN"},
                                           {"", ""}};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char out[EBB_TEXT_NAME];
        ebb_text_short_name(names[i][0], out);
        assert_string_equal(out, names[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(causes_add_up_to_the_whole_overhead),
        cmocka_unit_test(memory_by_fate_adds_up_to_the_simulator_s),
        cmocka_unit_test(fates_are_the_plan_s),
        cmocka_unit_test(curve_marks_where_time_and_state_begin_to_be_given_up),
        cmocka_unit_test(names_of_the_program_do_no_harm),
        cmocka_unit_test(page_loads_nothing),
        cmocka_unit_test(perfetto_has_every_span_once),
        cmocka_unit_test(same_input_gives_the_same_bytes),
        cmocka_unit_test(a_step_that_cannot_be_planned_is_shown_all_the_same),
        cmocka_unit_test(without_a_plan_everything_is_kept),
        cmocka_unit_test(step_that_takes_the_most_time_is_shown),
        cmocka_unit_test(kernels_have_short_names),
    };
    return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
