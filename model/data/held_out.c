#include "model/data/data.h"

held_out_t held_out_of(const dataset_t *training, const dataset_t *separate)
{
    if (separate != NULL)
        return (held_out_t){separate, 0, separate->count};
    return (held_out_t){training, training->train_count, training->count - training->train_count};
}

uint64_t held_out_batches(const held_out_t *held_out, int B, int T)
{
    uint64_t targets = held_out->count - 1;
    uint64_t rows = targets / (uint64_t)T;
    return (rows + (uint64_t)B - 1) / (uint64_t)B + (targets % (uint64_t)T != 0);
}

held_out_batch_t held_out_batch(const held_out_t *held_out, uint64_t index, int B, int T)
{
    uint64_t targets = held_out->count - 1;
    uint64_t rows = targets / (uint64_t)T;
    uint64_t row = index * (uint64_t)B;
    if (row >= rows)
        return (held_out_batch_t){held_out->first + rows * (uint64_t)T, 1, (int)(targets % (uint64_t)T)};
    uint64_t left = rows - row;
    return (held_out_batch_t){held_out->first + row * (uint64_t)T, left < (uint64_t)B ? (int)left : B, T};
}

bool held_out_read(const held_out_t *held_out, held_out_batch_t batch, int *inputs, int *targets,
                   fault_t *fault)
{
    for (int b = 0; b < batch.B; b++) {
        size_t row = (size_t)b * (size_t)batch.T;
        if (!dataset_sequence(held_out->data, batch.start + row, batch.T, inputs + row, targets + row, fault))
            return false;
    }
    return true;
}
