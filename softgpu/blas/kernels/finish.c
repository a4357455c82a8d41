/* finish.c: from the sums of a tile to D: scaling, epilogue, rounding. A column of the tile at a time, each step a
 * loop over the column. */
#include "softgpu/blas/element.h"
#include "softgpu/blas/gemm.h"

/* max(x, 0) as NVIDIA's kernels take it: NaN becomes 0. */
static void relu(float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = x[i] > 0 ? x[i] : 0;
}

/* The mask of a column begins at a whole byte: tiles are multiples of 16 rows, the leading dimension is one of 128. */
static void store_signs(unsigned char *mask, const float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i += 8) {
        unsigned byte = 0;
        for (int64_t b = 0; b < 8 && i + b < count; b++)
            byte |= (unsigned)(x[i + b] > 0) << b;
        mask[i / 8] = (unsigned char)byte;
    }
}

static void keep_where_set(const unsigned char *mask, float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        x[i] = mask[i / 8] >> (i % 8) & 1 ? x[i] : 0;
}

static void activate(const struct gemm_mixed_shape *s, char *aux, float *x, float *room, int64_t rows)
{
    if (s->epilogue & (GEMM_RELU | GEMM_DRELU)) {
        unsigned char *mask = (unsigned char *)aux;
        if (s->epilogue & GEMM_DRELU) {
            keep_where_set(mask, x, rows);
            return;
        }
        if (s->epilogue & GEMM_AUX)
            store_signs(mask, x, rows);
        relu(x, rows);
        return;
    }
    if (s->epilogue & GEMM_DGELU) {
        element_load(room, aux, rows, 1, s->type_d);
        element_gelu_gradient(x, room, rows);
        return;
    }
    if (s->epilogue & GEMM_AUX)
        element_store(aux, x, rows, 1, s->type_d);
    if (s->epilogue & GEMM_GELU)
        element_gelu(x, rows);
}

/* Where column `j` of the auxiliary matrix has row `i`. */
static char *find_aux(const gemm_mixed_t *p, int64_t batch, int64_t i, int64_t j)
{
    const struct gemm_mixed_shape *s = &p->shape;
    const int64_t at = batch * s->aux_stride + i + j * s->aux_ld;
    if (!(s->epilogue & GEMM_AUX))
        return NULL;
    return (char *)p->aux + (s->epilogue & (GEMM_RELU | GEMM_DRELU) ? at / 8 : at * element_bytes(s->type_d));
}

static void add_bias(const gemm_mixed_t *p, const gemm_tile_t *t, int64_t column, float *x, float *room)
{
    const struct gemm_mixed_shape *s = &p->shape;
    const int64_t bytes = element_bytes(s->type_d);
    const char *bias = (const char *)p->bias + t->batch * s->bias_stride * bytes;
    if (s->bias_by_column) {
        float value;
        element_load(&value, bias + (t->j + column) * bytes, 1, 1, s->type_d);
        for (int64_t i = 0; i < t->rows; i++)
            x[i] += value;
        return;
    }
    element_load(room, bias + t->i * bytes, t->rows, 1, s->type_d);
    for (int64_t i = 0; i < t->rows; i++)
        x[i] += room[i];
}

void gemm_finish(const gemm_mixed_t *p, const gemm_operands_t *o, const gemm_tile_t *tile, float *sums,
                 double *row_sums)
{
    const struct gemm_mixed_shape *s = &p->shape;
    const float alpha = p->device_alpha ? *p->device_alpha : s->alpha,
                beta = p->device_beta ? *p->device_beta : s->beta;
    const int64_t bytes = element_bytes(s->type_d), rows = tile->rows;
    float room[GEMM_LARGEST_M];
    for (int64_t j = 0; j < tile->columns; j++) {
        float *x = sums + j * rows;
        for (int64_t i = 0; i < rows; i++)
            x[i] = alpha * x[i];
        if (beta != 0) {
            element_load(room, o->c + (tile->i + (tile->j + j) * s->ldc) * bytes, rows, 1, s->type_d);
            for (int64_t i = 0; i < rows; i++)
                x[i] += beta * room[i];
        }
        if (s->epilogue & GEMM_BIAS)
            add_bias(p, tile, j, x, room);
        activate(s, find_aux(p, tile->batch, tile->i, tile->j + j), x, room, rows);
        if (s->epilogue & GEMM_BGRAD)
            for (int64_t i = 0; i < rows; i++)
                row_sums[i] += (double)x[i];
        element_store(o->d + (tile->i + (tile->j + j) * s->ldd) * bytes, x, rows, 1, s->type_d);
    }
}

/* bias[at, at + count) = sums[count] */
static void store_sums(const gemm_mixed_t *p, int64_t batch, int64_t at, const double *sums, int64_t count)
{
    const int64_t bytes = element_bytes(p->shape.type_d);
    char *bias = (char *)p->bias + (batch * p->shape.bias_stride + at) * bytes;
    for (int64_t i = 0; i < count; i++) {
        const float value = (float)sums[i];
        element_store(bias + i * bytes, &value, 1, 1, p->shape.type_d);
    }
}

void gemm_store_row_sums(const gemm_mixed_t *p, const gemm_tile_t *tile, const double *row_sums)
{
    store_sums(p, tile->batch, tile->i, row_sums, tile->rows);
}

/* Sums over k of `length` rows of op(A) or columns of op(B). `along_k`: k runs along the columns in memory. */
static void sum_lines(const char *data, int64_t ld, int32_t type, int along_k, int64_t length, int64_t k,
                      double *sums)
{
    enum { ROOM = 1024 };
    float room[ROOM];
    const int64_t rows = along_k ? k : length, columns = along_k ? length : k;
    for (int64_t i = 0; i < length; i++)
        sums[i] = 0;
    for (int64_t c = 0; c < columns; c++)
        for (int64_t r = 0; r < rows; r += ROOM) {
            const int64_t count = rows - r < ROOM ? rows - r : ROOM;
            element_load(room, data + (r + c * ld) * element_bytes(type), count, 1, type);
            for (int64_t i = 0; i < count; i++)
                sums[along_k ? c : r + i] += (double)room[i];
        }
}

void gemm_sum_factor(const gemm_mixed_t *p, const gemm_operands_t *o, const gemm_tile_t *tile)
{
    const struct gemm_mixed_shape *s = &p->shape;
    const int64_t bytes = element_bytes(s->type_ab);
    double sums[GEMM_LARGEST_M > GEMM_LARGEST_N ? GEMM_LARGEST_M : GEMM_LARGEST_N];
    if (s->epilogue & GEMM_BGRADA && tile->j == 0) {
        const char *a = o->a + (s->transpose_a ? tile->i * s->lda : tile->i) * bytes;
        sum_lines(a, s->lda, s->type_ab, s->transpose_a, tile->rows, s->k, sums);
        store_sums(p, tile->batch, tile->i, sums, tile->rows);
    }
    if (s->epilogue & GEMM_BGRADB && tile->i == 0) {
        const char *b = o->b + (s->transpose_b ? tile->j : tile->j * s->ldb) * bytes;
        sum_lines(b, s->ldb, s->type_ab, !s->transpose_b, tile->columns, s->k, sums);
        store_sums(p, tile->batch, tile->j, sums, tile->columns);
    }
}
