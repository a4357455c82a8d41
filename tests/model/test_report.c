/* What a run reports: peak rates of devices, model FLOPs, the progress line, and the picture of --plot. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/base/bytes.h"
#include "model/train/flops.h"
#include "model/train/peak_rate.h"
#include "model/train/plot.h"
#include "model/train/progress.h"
#include "trainer.h"

static void peak_rates_are_dense_and_of_exact_names(void **state)
{
    (void)state;
    assert_true(fabs(peak_rate("NVIDIA H200", DTYPE_BF16) - 989e12) < 1e12);
    assert_true(relative(peak_rate("NVIDIA H200", DTYPE_FP32), 66.9e12) < 1e-12);
    assert_true(relative(peak_rate("NVIDIA A100-SXM4-80GB", DTYPE_BF16), 312e12) < 1e-12);
    assert_true(peak_rate("NVIDIA H100 PCIe", DTYPE_BF16) < peak_rate("NVIDIA H100 80GB HBM3", DTYPE_BF16));
    static const char *const unknown[] = {
        "", "H200", "nvidia h200", "NVIDIA H200 ", "NVIDIA H2000", "softgpu (NVIDIA H200)"};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        assert_true(peak_rate(unknown[i], DTYPE_BF16) == 0);
    assert_true(peak_rate("Tesla T4", DTYPE_BF16) == 0 && peak_rate("Tesla T4", DTYPE_FP32) > 0);
}

/* GPT-2 124M: 85.0 M of the blocks and 38.6 M of the head, 6 times each; 12 x 12 x 768 x 1024 of attention. */
static void flops_are_those_of_the_shape(void **state)
{
    (void)state;
    layout_t layout;
    layout_open(&layout,
                (shape_t){.family = FAMILY_GPT2,
                          .layers = 12,
                          .width = 768,
                          .heads = 12,
                          .kv_heads = 12,
                          .hidden = 3072,
                          .context = 1024,
                          .vocab = 50257,
                          .tied = true},
                NULL);
    assert_int_equal(flops_of(&layout).weights, 12 * 12 * 768 * 768 + 50257 * 768);
    assert_int_equal(flops_per_token(&layout), 6ull * 123532032 + 113246208);
    layout_close(&layout);
}

static void sizes_are_in_the_largest_unit_of_which_there_is_one(void **state)
{
    (void)state;
    static const struct {
        size_t bytes;
        const char *text;
    } cases[] = {{0, "0 bytes"},
                 {1023, "1023 bytes"},
                 {1024, "1.0 KiB"},
                 {(size_t)74 << 20, "74.0 MiB"},
                 {((size_t)1 << 30) - 1, "1024.0 MiB"},
                 {(size_t)3 << 29, "1.5 GiB"},
                 {(size_t)2048 << 40, "2048.0 TiB"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bytes_text_t text;
        assert_string_equal(bytes_text(text, cases[i].bytes), cases[i].text);
    }
}

static const step_done_t some_step = {.step = 40,
                                      .loss = 1.25,
                                      .norm = 0.5,
                                      .rate = 0.004,
                                      .seconds = 0.25,
                                      .tokens = 1024,
                                      .peak_bytes = 3 << 20};

static void progress_line_says_utilisation_only_where_the_rate_is_known(void **state)
{
    (void)state;
    char text[256];
    progress_t progress = {.steps = 100, .seconds_per_step = 0.5, .most_tokens_per_s = 8192};
    progress_line(&progress, some_step, 0, text, sizeof text);
    assert_string_equal(text, "step  40/100 | loss 1.250000 | norm 0.5000 | lr 4.00e-03 | 250.00 ms | "
                              "50.0% MFU | 4096 tok/s | 3.0 MiB | 30s left");
    progress.most_tokens_per_s = 0;
    progress_line(&progress, some_step, 0, text, sizeof text);
    assert_string_equal(text, "step  40/100 | loss 1.250000 | norm 0.5000 | lr 4.00e-03 | 250.00 ms | "
                              "4096 tok/s | 3.0 MiB | 30s left");
    assert_true(progress_left(&progress, 98) == 1.0);
}

/* What a terminal has no columns for leaves in the order of its importance; the last column stays free. */
static void progress_line_fits_every_terminal(void **state)
{
    (void)state;
    static const struct {
        int columns;
        const char *text;
    } cases[] = {
        {200, "step  40/100  loss 1.2500  norm 0.50  lr 4.0e-03  500 ms  25.0% MFU  2048 tok/s  3.0 MiB  30s "
              "left"},
        {95, "step  40/100  loss 1.2500  norm 0.50  lr 4.0e-03  500 ms  2048 tok/s  3.0 MiB  30s left"},
        {80, "step  40/100  loss 1.2500  norm 0.50  lr 4.0e-03  500 ms  2048 tok/s  30s left"},
        {75, "step  40/100  loss 1.2500  norm 0.50  lr 4.0e-03  500 ms  2048 tok/s"},
        {60, "step  40/100  loss 1.2500  norm 0.50  lr 4.0e-03  500 ms"},
        {40, "step  40/100  loss 1.2500  500 ms"},
        {14, "step  40/100"},
        {8, "step  4"},
    };
    progress_t progress = {.steps = 100, .seconds_per_step = 0.5, .most_tokens_per_s = 8192};
    char text[256];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        progress_line(&progress, some_step, cases[i].columns, text, sizeof text);
        assert_string_equal(text, cases[i].text);
    }
    for (int columns = 1; columns < 200; columns++) {
        progress_line(&progress, some_step, columns, text, sizeof text);
        assert_true(strlen(text) < (size_t)columns);
    }
}

/* ---- pictures ---- */

static char picture[1 << 20];

/* The picture of these curves; well-formed, and everything inside of it. */
static const char *draw(const plot_t *plot, const char *title)
{
    fault_t fault;
    if (!plot_write(plot, title, &fault))
        fail_msg("%s", fault.text);
    FILE *file = fopen(plot->path, "r");
    assert_non_null(file);
    size_t length = fread(picture, 1, sizeof picture - 1, file);
    assert_true(length < sizeof picture - 1);
    picture[length] = '\0';
    fclose(file);
    unlink(plot->path);
    return picture;
}

/* Every element is closed in its order; no attribute holds a number that is none. */
static void assert_well_formed(const char *svg)
{
    char open[8][16];
    int depth = 0;
    assert_int_equal(strncmp(svg, "<?xml ", 6), 0);
    for (const char *at = strchr(svg + 1, '<'); at != NULL; at = strchr(at + 1, '<')) {
        const char *end = strchr(at, '>');
        assert_non_null(end);
        if (at[1] == '/') {
            assert_true(depth-- > 0);
            assert_int_equal(strncmp(at + 2, open[depth], strlen(open[depth])), 0);
        } else if (end[-1] != '/') {
            assert_true(depth < 8);
            snprintf(open[depth++], sizeof open[0], "%.*s", (int)strcspn(at + 1, " >"), at + 1);
        }
    }
    assert_int_equal(depth, 0);
    assert_null(strstr(svg, "nan"));
    assert_null(strstr(svg, "inf"));
}

/* How many points the curves have; each of them in the picture. */
static int count_points(const char *svg)
{
    int count = -2; /* the two axes begin like curves */
    for (const char *d = strstr(svg, " d=\"M"); d != NULL; d = strstr(d + 1, " d=\"M")) {
        double x, y;
        int taken;
        for (const char *p = d + 4; sscanf(p, "%*[ML]%lf %lf%n", &x, &y, &taken) == 2; p += taken, count++)
            assert_true(x >= 76 && x <= 936 && y >= 66 && y <= 560);
    }
    return count;
}

static plot_t new_plot(void)
{
    static char path[128];
    plot_t plot;
    trainer_path(path, sizeof path, "picture.svg");
    plot_open(&plot, path);
    return plot;
}

static void add_step(plot_t *plot, int step, double loss)
{
    plot_add(plot, CURVE_LOSS, step, loss);
    plot_add(plot, CURVE_PEAK, step, 3e9);
    plot_add(plot, CURVE_KEPT, step, 1e9);
}

static void picture_of_nothing_and_of_one_step_is_well_formed(void **state)
{
    (void)state;
    plot_t plot = new_plot();
    assert_well_formed(draw(&plot, "a < b & c > d"));
    assert_non_null(strstr(picture, "a &lt; b &amp; c &gt; d"));
    add_step(&plot, 1, 5.5);
    assert_well_formed(draw(&plot, ""));
    assert_non_null(strstr(picture, "<circle"));
    assert_non_null(strstr(picture, "device memory, GiB"));
    plot_close(&plot);
}

static void picture_has_every_step_and_gaps_where_there_is_no_number(void **state)
{
    (void)state;
    plot_t plot = new_plot();
    for (int step = 101; step <= 300; step++) /* a run that went on */
        add_step(&plot, step, step == 150 ? (double)NAN : 5.0 / step);
    plot_add(&plot, CURVE_HELD_OUT, 200, 0.02);
    plot_add(&plot, CURVE_HELD_OUT, 300, 0.01);
    assert_well_formed(draw(&plot, "x"));
    /* 199 losses, 200 means, two of the held-out data, and memory; */
    assert_int_equal(count_points(picture), 199 + 200 + 2 + 2 * 200);
    assert_non_null(strstr(picture, "held-out loss"));
    assert_non_null(strstr(picture, "text-anchor=\"middle\">200</text>"));
    plot_close(&plot);
}

static void picture_of_many_steps_is_thinned(void **state)
{
    (void)state;
    plot_t plot = new_plot();
    for (int step = 1; step <= 100000; step++)
        add_step(&plot, step, 2.0 + 1.0 / step);
    assert_well_formed(draw(&plot, "x"));
    int points = count_points(picture);
    assert_true(points > 4 * 1000 && points <= 4 * 1500);
    plot_close(&plot);
}

static void ticks_are_round(void **state)
{
    (void)state;
    static const double ranges[][2] = {{1, 0.2}, {400, 50}, {3.3, 0.5}, {1e-3, 2e-4}, {7e6, 1e6}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        assert_true(relative(plot_tick(ranges[i][0], i == 1 ? 8 : 6), ranges[i][1]) < 1e-9);
}

/* ---- a run ---- */

static void run_draws_its_curves_and_logs_the_rest(void **state)
{
    (void)state;
    char path[128], arguments[512], line[4096];
    trainer_path(path, sizeof path, "picture.svg");
    snprintf(arguments, sizeof arguments, "--steps 6 --width 16 --batch 1 --eval-every 2 --plot %s", path);
    trainer_train(arguments);
    plot_t plot = {.path = path};
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    picture[fread(picture, 1, sizeof picture - 1, file)] = '\0';
    fclose(file);
    unlink(plot.path);
    assert_well_formed(picture);
    assert_int_equal(count_points(picture), 6 + 6 + 3 + 2 * 6);

    trainer_path(path, sizeof path, "log");
    file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL && strstr(line, "\"kind\": \"step\"") == NULL)
        continue;
    fclose(file);
    assert_true(json_number(line, "left_s") > 0);
    assert_true(isnan(json_number(line, "mfu"))); /* of a device that is not known */
}

static void picture_that_cannot_be_written_exits_2(void **state)
{
    (void)state;
    char arguments[512];
    snprintf(arguments, sizeof arguments, "--data %s --plot /nowhere/picture.svg", trainer_text());
    outcome_t outcome = trainer_run(arguments);
    assert_int_equal(outcome.exit_code, 2);
    assert_non_null(strstr(outcome.error, "--plot /nowhere/picture.svg: No such file"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peak_rates_are_dense_and_of_exact_names),
        cmocka_unit_test(flops_are_those_of_the_shape),
        cmocka_unit_test(sizes_are_in_the_largest_unit_of_which_there_is_one),
        cmocka_unit_test(progress_line_says_utilisation_only_where_the_rate_is_known),
        cmocka_unit_test(progress_line_fits_every_terminal),
        cmocka_unit_test(picture_of_nothing_and_of_one_step_is_well_formed),
        cmocka_unit_test(picture_has_every_step_and_gaps_where_there_is_no_number),
        cmocka_unit_test(picture_of_many_steps_is_thinned),
        cmocka_unit_test(ticks_are_round),
        cmocka_unit_test(run_draws_its_curves_and_logs_the_rest),
        cmocka_unit_test(picture_that_cannot_be_written_exits_2),
    };
    return cmocka_run_group_tests(tests, NULL, trainer_teardown);
}
