#include "plan_laid.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "ckpt/checker/checker.h"

ebb_plan_t *plan_laid(const ebb_schedule_t *s, const ebb_model_t *m)
{
    char why[400] = "";
    const ebb_check_limits_t limits = {UINT64_C(1) << 50, UINT64_C(1) << 50, 0};
    ebb_overlay_t overlay;
    assert_true(ebb_overlay_make(&overlay, s, m, 0));
    ebb_plan_t *plan = ebb_schedule_emit(s, &overlay, m);
    assert_non_null(plan);
    if (!ebb_check_plan(m->trace, plan, &limits, why, sizeof why))
        fail_msg("not a good plan: %s", why);
    ebb_overlay_delete(&overlay);
    return plan;
}
