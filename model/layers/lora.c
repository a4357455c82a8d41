/* lora.c: low-rank adapters (layout.h): y = x w^T + s (x a^T) b^T with s = alpha / rank, for each target of an array by itself.
 *
 * All targets' u = x a^T come from one product; a forward pass that keeps all keeps u, else it is made again.
 */
#include "model/layers/linear.h"
#include "model/layers/pass.h"

static const adapted_t *adapted_of(const pass_t *pass, matrix_t matrix)
{
    return &pass->layout->adapted[matrix];
}

/* Of u's rows: each target's `rank` channels in turn. */
static int channels(const pass_t *pass, const adapted_t *adapted)
{
    return adapted->count * pass->layout->lora.rank;
}

static float scale_of(const pass_t *pass)
{
    return (float)(pass->layout->lora.alpha / pass->layout->lora.rank);
}

/* Rows of the whole array: a row of y has as many channels. */
static int width_of(const pass_t *pass, matrix_t matrix)
{
    const int C = pass->C, F = pass->F;
    return matrix == MATRIX_QKV                  ? (pass->H + 2 * pass->KV) * pass->D
           : matrix != MATRIX_UP                 ? C
           : pass->shape->family == FAMILY_LLAMA ? 2 * F
                                                 : F;
}

static void *at(const void *data, dtype_t dtype, size_t elements)
{
    return (char *)data + elements * dtype_bytes(dtype);
}

bool lora_adapts(const pass_t *pass, matrix_t matrix)
{
    return adapted_of(pass, matrix)->count > 0;
}

static tensor_t make_u(const pass_t *pass, matrix_t matrix, const block_t *w, const tensor_t *x)
{
    const adapted_t *adapted = adapted_of(pass, matrix);
    const int all = channels(pass, adapted);
    tensor_t u = pass_tensor(pass, all); /* [N,targets,rank] */
    batched_matmul(pass->gpu, pass->dtype, pass->dtype,
                   (batched_t){1, pass->N, all, adapted->in, 0, 1, .scale = 1}, u.data, x->data,
                   w->lora_a[matrix]);
    return u;
}

/* For each target of the array, with its first element in each row of y, of u, and in b: where it is, and how large. */
typedef struct target {
    int rank, out;
    size_t in_y, in_u, in_b;
} target_t;

static target_t target_of(const pass_t *pass, const adapted_t *adapted, int number)
{
    const int rank = pass->layout->lora.rank;
    target_t target = {.rank = rank,
                       .out = adapted->targets[number].rows,
                       .in_y = (size_t)adapted->targets[number].first,
                       .in_u = (size_t)number * (size_t)rank};
    for (int before = 0; before < number; before++)
        target.in_b += (size_t)adapted->targets[before].rows * (size_t)rank;
    return target;
}

void lora_forward(const pass_t *pass, matrix_t matrix, const block_t *w, const tensor_t *x, const tensor_t *y,
                  tensor_t *u)
{
    const adapted_t *adapted = adapted_of(pass, matrix);
    const dtype_t dtype = pass->dtype;
    if (adapted->count == 0)
        return;
    *u = make_u(pass, matrix, w, x);
    for (int i = 0; i < adapted->count; i++) {
        const target_t t = target_of(pass, adapted, i);
        const batched_t shape = {1,
                                 pass->N,
                                 t.out,
                                 t.rank,
                                 0,
                                 1,
                                 .scale = scale_of(pass),
                                 .accumulate = 1,
                                 .leading_a = channels(pass, adapted),
                                 .leading_c = width_of(pass, matrix)};
        batched_matmul(pass->gpu, dtype, dtype, shape, at(y->data, dtype, t.in_y), at(u->data, dtype, t.in_u),
                       at(w->lora_b[matrix], dtype, t.in_b));
    }
    if (!pass_keeps_all(pass))
        tensor_free(pass->gpu, u);
}

tensor_t lora_backward_weight(const pass_t *pass, matrix_t matrix, const block_t *w, const block_t *dw,
                              const tensor_t *x, const tensor_t *dy, tensor_t *u)
{
    const adapted_t *adapted = adapted_of(pass, matrix);
    const int all = channels(pass, adapted), width = width_of(pass, matrix), more = pass->accumulate;
    const dtype_t dtype = pass->dtype;
    gpu_t *gpu = pass->gpu;
    if (adapted->count == 0)
        return (tensor_t){0};
    if (u->data == NULL)
        *u = make_u(pass, matrix, w, x);
    tensor_t du = pass_tensor(pass, all); /* [N,targets,rank] */
    for (int i = 0; i < adapted->count; i++) {
        const target_t t = target_of(pass, adapted, i);
        const void *its_dy = at(dy->data, dtype, t.in_y);
        const batched_t of_u = {1,
                                pass->N,
                                t.rank,
                                t.out,
                                0,
                                0,
                                .scale = scale_of(pass),
                                .leading_a = width,
                                .leading_c = all},
                        of_b = {1,
                                t.out,
                                t.rank,
                                pass->N,
                                1,
                                0,
                                .scale = scale_of(pass),
                                .accumulate = more,
                                .leading_a = width,
                                .leading_b = all};
        batched_matmul(gpu, dtype, dtype, of_u, at(du.data, dtype, t.in_u), its_dy,
                       at(w->lora_b[matrix], dtype, t.in_b));
        batched_matmul(gpu, dtype, DTYPE_FP32, of_b, (float *)dw->lora_b[matrix] + t.in_b, its_dy,
                       at(u->data, dtype, t.in_u));
    }
    tensor_free(gpu, u);
    batched_matmul(gpu, dtype, DTYPE_FP32,
                   (batched_t){1, all, adapted->in, pass->N, 1, 0, .scale = 1, .accumulate = more},
                   dw->lora_a[matrix], du.data, x->data);
    return du;
}

void lora_backward_input(const pass_t *pass, matrix_t matrix, const block_t *w, tensor_t *du,
                         const tensor_t *dx)
{
    const adapted_t *adapted = adapted_of(pass, matrix);
    if (adapted->count == 0)
        return;
    batched_matmul(
        pass->gpu, pass->dtype, pass->dtype,
        (batched_t){1, pass->N, adapted->in, channels(pass, adapted), 0, 0, .scale = 1, .accumulate = 1},
        dx->data, du->data, w->lora_a[matrix]);
    tensor_free(pass->gpu, du);
}
